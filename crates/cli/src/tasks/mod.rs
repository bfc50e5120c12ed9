//! Commands to a daemon about its disks and their tasks.

pub(crate) mod args;
mod show;

use crate::Outcome;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use args::{
    Array, BackupArgs, DaemonArgs, OneTask, PriorityArgs, ReorganizeArgs, ReplicaArgs, RestoreArgs,
    ScrubArgs, SnapshotArgs, SnapshotsArgs, Start, Terms, VerifyArgs,
};
use client::{Control, ControlError};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The word for all disks, which no disk has as its name.
pub(crate) const ALL: &str = "all";

/// The interval between queries while waiting for a task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn scrub(args: &ScrubArgs, console: &Console) -> Result<Outcome, Problem> {
    let mut spec = Map::new();
    put(&mut spec, "first_lbn", args.first_lbn);
    put(&mut spec, "sectors", args.sectors);
    put(&mut spec, "block_sectors", args.block_sectors);
    if let Some(store) = &args.checksums {
        spec.insert("checksums".into(), absolute(store)?.into());
        spec.insert("force".into(), args.force.into());
    }
    if args.start.daemon.disk.as_deref() != Some(ALL) {
        return search("scrub", spec, &args.start, console);
    }
    let control = Control::new(&args.start.daemon.control);
    complete("scrub", &mut spec, args.start.terms);
    // A scrub is started on each disk, even if that fails on another.
    let begun: Vec<(String, Result<Value, Problem>)> = names(&control)?
        .into_iter()
        .map(|disk| {
            let task = part(&disk).and_then(|part| {
                control.post(&format!("/v1/disks/{part}/tasks"), &spec.clone().into()).map_err(problem)
            });
            (disk, task)
        })
        .collect();
    let (mut tasks, mut errors) = (Vec::new(), Vec::new());
    for (disk, task) in begun {
        let task = task.and_then(|task| {
            let path = format!("/v1/disks/{disk}/tasks/{}", task["id"]);
            if args.start.terms.wait { wait(&control, &path, task, console) } else { Ok(task) }
        });
        match task {
            Ok(task) => tasks.push(task),
            Err(problem) => errors.push((disk, problem)),
        }
    }
    // All tasks are visited, because `has_faults` reports the faults of each.
    let faults = tasks.iter().filter(|task| has_faults(task, console)).count();
    let code = u8::from(!errors.is_empty() || faults > 0);
    if args.start.daemon.json {
        let errors = errors.iter().map(|(disk, why)| json!({ "disk": disk, "error": why.to_string() }));
        let text = json!({ "tasks": tasks, "errors": errors.collect::<Vec<_>>() });
        return Ok(Outcome { text: crate::drive::json(&text)?, code });
    }
    for (disk, problem) in errors {
        console.report(&problem.of(&disk));
    }
    Ok(Outcome { text: tasks.iter().map(show::task).collect(), code })
}

/// Compares disks.
pub(crate) fn verify(args: &VerifyArgs, console: &Console) -> Result<Outcome, Problem> {
    let control = Control::new(&args.control);
    let Some(first) = args.members.first() else { return Err(Problem::usage("no disk")) };
    let mut spec = Map::new();
    spec.insert("members".into(), json!(args.members));
    let array = match args.array {
        Array::Mirror => "mirror",
        Array::Raid5 => "raid5",
        Array::Raid6 => "raid6",
    };
    spec.insert("array".into(), array.into());
    if let Some(chunk) = args.chunk {
        let disk = control.get("/v1/disks").map_err(problem)?;
        let mut disks = disk["disks"].as_array().into_iter().flatten();
        let sector =
            disks.find(|disk| disk["name"] == **first).and_then(|disk| disk["sector_bytes"].as_u64());
        let Some(sector) = sector.map(units::Bytes::new) else {
            let why =
                format!("the daemon serves no disk {first}, or does not know the disk's sector size yet");
            return Err(Problem::failed(why).help("`freeblock status` lists the disks"));
        };
        let Some(sectors) = crate::values::sectors(chunk, sector) else {
            return Err(
                Problem::usage(format!("a chunk of {} bytes", chunk.get())).help("give whole sectors")
            );
        };
        spec.insert("chunk_sectors".into(), sectors.get().into());
    }
    put(&mut spec, "offset_lbn", args.offset);
    put(&mut spec, "first_lbn", args.first_lbn);
    put(&mut spec, "sectors", args.sectors);
    put(&mut spec, "block_sectors", args.block_sectors);
    put(&mut spec, "memory_bytes", Some(args.memory.get()));
    let (socket, disk, json) = (args.control.clone(), Some(first.clone()), args.json);
    let start = Start { daemon: DaemonArgs { control: socket, disk, json }, terms: args.terms };
    let begun = begin("verify", spec, &start)?;
    if args.sectors.is_none() {
        let disks = control.get("/v1/disks").map_err(problem)?;
        show::left_out(&begun.task["spec"], &disks).for_each(|text| console.note(&text));
    }
    searched(&begun.awaited(start.terms, console)?, &start.daemon, console)
}

pub(crate) fn backup(args: &BackupArgs, console: &Console) -> Result<String, Problem> {
    let mut spec = Map::new();
    spec.insert("to".into(), absolute(&args.to)?.into());
    spec.insert("force".into(), args.force.into());
    let since: Vec<String> = args.since.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    if !since.is_empty() {
        spec.insert("since".into(), since.into());
    }
    put(&mut spec, "block_sectors", args.block_sectors);
    start("backup", spec, &args.start, console)
}

/// Starts a snapshot, and waits until it can be read; or ends one.
pub(crate) fn snapshot(args: &SnapshotArgs, console: &Console) -> Result<String, Problem> {
    let (control, disk, json) = (args.control.clone(), args.of.clone(), args.json);
    let to = DaemonArgs { control, disk, json };
    let (control, disk) =
        named(&to, &format!("name a disk: `freeblock snapshot DISK --name {}`", args.name))?;
    let path = format!("/v1/disks/{disk}/tasks");
    if args.remove {
        let listed = control.get(&path).map_err(problem)?;
        let mut tasks = listed["tasks"].as_array().into_iter().flatten();
        let its = |task: &&Value| {
            show::is_snapshot(task) && !show::is_over(task) && task["spec"]["name"] == *args.name
        };
        let Some(id) = tasks.find(its).map(|task| task["id"].clone()) else {
            let text = format!("{disk} has no snapshot {:?}", args.name);
            return Err(Problem::failed(text).help("`freeblock snapshots` lists them"));
        };
        let task = control.post(&format!("{path}/{id}/cancel"), &json!({})).map_err(problem)?;
        return shown(&to, &task);
    }
    let mut spec = json!({ "kind": "snapshot", "name": args.name, "priority": args.priority });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if let Some(time) = args.expire {
        spec["expires_unix_s"] = now.saturating_add(time).into();
    }
    let mut task = control.post(&path, &spec).map_err(problem)?;
    interrupt::watch(|| {});
    while task["state"] == "queued" && !interrupt::came() {
        std::thread::sleep(POLL_INTERVAL / 5);
        task = control.get(&format!("{path}/{}", task["id"])).map_err(problem)?;
    }
    if task["state"] == "failed" {
        return Err(Problem::failed(show::task(&task).trim_end()));
    }
    if task["state"] == "running" {
        console.note(&format!("clients read it as the export {disk}@{}", args.name));
    }
    shown(&to, &task)
}

/// Lists snapshots.
pub(crate) fn snapshots(args: &SnapshotsArgs, console: &Console) -> Result<String, Problem> {
    let status = all(&args.daemon)?;
    if args.daemon.json {
        let snapshots: Vec<&Value> = show::tasks_of(&status).filter(|task| show::is_snapshot(task)).collect();
        return crate::drive::json(&json!({ "snapshots": snapshots }));
    }
    show::unanswered(&status).for_each(|text| console.note(&text));
    Ok(show::snapshots(&status, args.all))
}

pub(crate) fn replica(args: &ReplicaArgs, console: &Console) -> Result<String, Problem> {
    let mut spec = Map::new();
    spec.insert("to".into(), absolute(&args.to)?.into());
    spec.insert("force".into(), args.force.into());
    put(&mut spec, "block_sectors", args.block_sectors);
    start("replica", spec, &args.start, console)
}

pub(crate) fn restore(args: &RestoreArgs, console: &Console) -> Result<String, Problem> {
    let mut spec = Map::new();
    let from: Vec<String> = args.from.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    spec.insert("from".into(), from.into());
    spec.insert("force".into(), args.force.into());
    start("restore", spec, &args.start, console)
}

pub(crate) fn reorganize(args: &ReorganizeArgs, console: &Console) -> Result<String, Problem> {
    let mut spec = Map::new();
    spec.insert("plan".into(), absolute(&args.plan)?.into());
    start("reorganize", spec, &args.start, console)
}

/// Calls `what` (pause, resume, cancel) on a task.
pub(crate) fn act(args: &OneTask, what: &str) -> Result<String, Problem> {
    let (control, disk) = daemon(&args.daemon)?;
    let path = format!("/v1/disks/{disk}/tasks/{}/{what}", args.id);
    let task = control.post(&path, &json!({})).map_err(problem)?;
    shown(&args.daemon, &task)
}

/// Has a daemon probe a disk while it serves, unless the daemon already does. Returns the progress.
pub(crate) fn probe(of: &[String], json: bool) -> Result<String, Problem> {
    let [socket, disk] = of else {
        return Err(Problem::usage("give the control socket, and the disk's name"));
    };
    let control = Control::new(socket);
    let state = control.post(&format!("/v1/disks/{}/probe", part(disk)?), &json!({})).map_err(problem)?;
    if json { crate::drive::json(&state) } else { Ok(show::probe(&state).unwrap_or_default() + "\n") }
}

pub(crate) fn priority(args: &PriorityArgs) -> Result<String, Problem> {
    let (control, disk) = daemon(&args.daemon)?;
    let path = format!("/v1/disks/{disk}/tasks/{}", args.id);
    let task = control.patch(&path, &json!({ "priority": args.priority })).map_err(problem)?;
    shown(&args.daemon, &task)
}

pub(crate) fn tasks(args: &DaemonArgs, console: &Console) -> Result<Outcome, Problem> {
    let status = all(args)?;
    let code = u8::from(show::unanswered(&status).next().is_some());
    if args.json {
        let tasks: Vec<&Value> = show::tasks_of(&status).collect();
        return Ok(Outcome { text: crate::drive::json(&json!({ "tasks": tasks }))?, code });
    }
    show::unanswered(&status).for_each(|text| console.note(&text));
    Ok(Outcome { text: show::tasks(&status), code })
}

pub(crate) fn status(args: &DaemonArgs) -> Result<Outcome, Problem> {
    let status = all(args)?;
    let code = u8::from(show::unanswered(&status).next().is_some());
    let text = if args.json { crate::drive::json(&status)? } else { show::status(&status) };
    Ok(Outcome { text, code })
}

/// Returns the status of all disks, or of the one named.
fn all(args: &DaemonArgs) -> Result<Value, Problem> {
    let control = Control::new(&args.control);
    match &args.disk {
        Some(disk) if disk != ALL => {
            let disk = control.get(&format!("/v1/disks/{}", part(disk)?)).map_err(problem)?;
            Ok(json!({ "disks": [disk] }))
        }
        _ => control.get("/v1/status").map_err(problem),
    }
}

fn shown(args: &DaemonArgs, task: &Value) -> Result<String, Problem> {
    if args.json { crate::drive::json(task) } else { Ok(show::task(task)) }
}

fn put(spec: &mut Map<String, Value>, field: &str, value: Option<u64>) {
    if let Some(value) = value {
        spec.insert(field.into(), value.into());
    }
}

/// Makes a path absolute, because the daemon's working directory is another.
fn absolute(path: &Path) -> Result<String, Problem> {
    let path: PathBuf = std::path::absolute(path).map_err(Problem::failed)?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Problem::usage(format!("{}: give a path in UTF-8", path.display())))
}

/// Returns a disk's name, if it can be a part of a URL's path as it is.
fn part(name: &str) -> Result<&str, Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    match !name.is_empty() && name.chars().all(plain) {
        true => Ok(name),
        false => {
            Err(Problem::usage(format!("{name:?} is no disk's name")).help("`freeblock status` lists them"))
        }
    }
}

/// Returns the daemon, and the disk that `--disk` names or that is the only one.
fn daemon(args: &DaemonArgs) -> Result<(Control, String), Problem> {
    named(args, "name a disk with --disk")
}

/// Returns the daemon, and the disk that is named or that is the only one; if the daemon has several disks, the error has the
/// `advice`.
fn named(args: &DaemonArgs, advice: &str) -> Result<(Control, String), Problem> {
    let control = Control::new(&args.control);
    if let Some(disk) = &args.disk {
        if disk == ALL {
            return Err(Problem::usage("all disks").help(
                "only scrub, status, tasks and snapshots take all disks; name a disk, and give the command for each",
            ));
        }
        return Ok((control, part(disk)?.to_owned()));
    }
    let names = names(&control)?;
    match names.as_slice() {
        [one] => Ok((control, one.clone())),
        _ => Err(Problem::usage(format!("the daemon has several disks: {}", names.join(", "))).help(advice)),
    }
}

/// Returns the names of all disks.
fn names(control: &Control) -> Result<Vec<String>, Problem> {
    let disks = control.get("/v1/disks").map_err(problem)?;
    let names = disks["disks"].as_array().into_iter().flatten().filter_map(|disk| disk["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Adds the fields that the specification of every task has.
fn complete(kind: &str, spec: &mut Map<String, Value>, terms: Terms) {
    spec.insert("kind".into(), kind.into());
    spec.insert("priority".into(), terms.priority.into());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    put(spec, "deadline_unix_s", terms.deadline.map(|time| now.saturating_add(time)));
}

fn problem(error: ControlError) -> Problem {
    Problem::failed(error)
}

fn start(kind: &str, spec: Map<String, Value>, args: &Start, console: &Console) -> Result<String, Problem> {
    shown(&args.daemon, &begin(kind, spec, args)?.awaited(args.terms, console)?)
}

/// Starts a task that searches disks for faults. The exit code is 1 if it is over and has found some.
fn search(kind: &str, spec: Map<String, Value>, args: &Start, console: &Console) -> Result<Outcome, Problem> {
    searched(&begin(kind, spec, args)?.awaited(args.terms, console)?, &args.daemon, console)
}

/// Returns the outcome of a task that searches for faults.
fn searched(task: &Value, to: &DaemonArgs, console: &Console) -> Result<Outcome, Problem> {
    Ok(Outcome { text: shown(to, task)?, code: u8::from(has_faults(task, console)) })
}

/// Returns whether a task is over and has found faults; reports them.
fn has_faults(task: &Value, console: &Console) -> bool {
    let faults = show::faults(task);
    if !show::is_over(task) || faults.is_empty() {
        return false;
    }
    let (kind, disk) = (task["kind"].as_str().unwrap_or("task"), task["disk"].as_str().unwrap_or_default());
    let text = format!("{kind} {} of {disk}: {}", task["id"], faults.join("; "));
    console.report(&Problem::failed(text));
    true
}

/// A task that has started.
struct Begun {
    control: Control,
    path: String,
    task: Value,
}

impl Begun {
    /// Returns the task; with `--wait`, after it is over.
    fn awaited(self, terms: Terms, console: &Console) -> Result<Value, Problem> {
        if terms.wait { wait(&self.control, &self.path, self.task, console) } else { Ok(self.task) }
    }
}

/// Starts a task.
fn begin(kind: &str, mut spec: Map<String, Value>, args: &Start) -> Result<Begun, Problem> {
    let (control, disk) = daemon(&args.daemon)?;
    complete(kind, &mut spec, args.terms);
    let path = format!("/v1/disks/{disk}/tasks");
    let task = control.post(&path, &Value::Object(spec)).map_err(problem)?;
    Ok(Begun { control, path: format!("{path}/{}", task["id"]), task })
}

/// Waits until a task is over, with a bar.
fn wait(control: &Control, path: &str, mut task: Value, console: &Console) -> Result<Value, Problem> {
    let id = task["id"].clone();
    interrupt::watch(|| {});
    let label = format!("{} {id}", task["kind"].as_str().unwrap_or("task"));
    let mut bar = Progress::new(console, &label, task["blocks"].as_u64().unwrap_or(0));
    let mut reason = String::new();
    loop {
        match task["state"].as_str() {
            Some("done") => return Ok(task),
            Some("failed" | "cancelled") => {
                drop(bar);
                return Err(Problem::failed(show::task(&task).trim_end()));
            }
            _ => {}
        }
        let now = task["reason"].as_str().unwrap_or_default();
        if now != reason && !now.is_empty() {
            console.note(&format!("{label} is paused: {now}"));
        }
        reason = now.to_owned();
        if interrupt::came() {
            drop(bar);
            console.note(&format!(
                "{label} goes on; `freeblock tasks` shows it, `freeblock cancel {id}` ends it"
            ));
            return Ok(task);
        }
        std::thread::sleep(POLL_INTERVAL);
        task = control.get(path).map_err(problem)?;
        let (done, blocks) = (task["done"].as_u64().unwrap_or(0), task["blocks"].as_u64().unwrap_or(0));
        bar.parts(done, blocks);
        bar.at(done);
    }
}
