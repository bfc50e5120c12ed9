//! `freeblock serve`: disks served to NBD clients, with background work in their gaps.

pub(crate) mod args;
mod background;
mod config;
mod disk_config;
mod disk_text;
mod ending;
mod found;
mod hangup;
mod identity;
mod learnt;
mod names;
mod open;
mod places;
mod probing;
mod reload;
mod source;
mod tls;
pub(crate) mod web;

use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use args::ServeArgs;
use config::Config;
use device::Device;
use disk_config::DiskConfig;
use ending::Ending;
use hangup::Hangups;
use names::DeviceSpec;
use open::ServedDisk;
use probing::Probing;
use reload::Reload;
use serde::Serialize;
use server::control::{Control, ControlConfig};
use server::files::{Places, serial};
use server::manager::ManagerConfig;
use server::manager::budget::Budget;
use server::manager::permits::Permits;
use server::manager::spec::DiskFacts;
use server::runtime::{Peers, Runtime, RuntimeBuilder, RuntimeError, random_seed};
use server::web::{PageContent, Web, WebConfig};
use server::{
    Address, BackgroundTerms, DiskStatus, ExportConfig, LearntSaver, Listener, Moment, ReadAheadBudget,
    Running, ServeError, Tally, Tls, Ublk,
};
use std::fmt::Write;
use std::sync::Arc;
use web::WebOptions;

/// A served disk with its tasks.
struct Served {
    running: Running<ServedDisk>,
    runtime: Option<Runtime>,
    learnt: Option<LearntSaver>,
    probing: Option<Probing>,
}

pub(crate) fn execute(args: &ServeArgs, console: &Console) -> Result<String, Problem> {
    let hangups = Hangups::hold().map_err(|e| Problem::failed(format!("SIGHUP: {e}")))?;
    let config = Config::new(args)?;
    // Before any thread starts, because threads inherit the setting.
    let unheld = if config.lock_memory { device::hold_memory() } else { Vec::new() };
    let lines = crate::emulate::log(config.log);
    for error in unheld {
        tracing::warn!("{error}");
    }
    check_handed_over(&config)?;
    if let Err(error) = server::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files is not raised: few clients may come");
    }
    if let Some(state) = &config.state {
        server::files::private_directory(state).map_err(|e| {
            let problem = Problem::failed(format!("{}: {e}", state.display()));
            config.places.underline("state", problem.help("give a directory that can be made"))
        })?;
    }
    let page = config.web.as_ref().map(WebOptions::read).transpose();
    let page = page.map_err(|problem| config.places.underline("web", problem))?;
    let places = Places::new(config.targets.clone());
    places.keep(config.own.iter().cloned());
    if let Some(state) = &config.state {
        places.keep_state(state);
    }
    crate::switches::put_back_left(console);
    let permits = config.tasks_at_once.map_or_else(Permits::default, Permits::at_most);
    let memory = Budget::of(config.comparison_memory);
    let (mut running, mut left_out) = (Vec::<Served>::new(), Vec::new());
    let ending = Ending::default();
    ending.set_drain(config.limits.drain);
    let read_ahead = ReadAheadBudget::of(config.background_memory);
    let among = Among { places: places.clone(), peers: Peers::default(), permits, memory, read_ahead };
    if let Some(state) = &config.state {
        let names = config.disks.iter().map(|disk| disk.name.as_str()).collect();
        for (place, why) in server::repair::unused(state, &names) {
            tracing::error!(state = %place.display(), why, "no disk of the configuration has this name");
        }
    }
    for disk in &config.disks {
        match start(disk, &config, &among, (console, &ending)) {
            Ok(served) => running.push(served),
            Err(Unserved::LeftOut(problem)) => left_out.push((&disk.name, problem)),
            Err(Unserved::Fails(problem)) => {
                // Servers that run already end in order: they may have begun work, but have acknowledged nothing that would be
                // lost.
                stop(&running, &ending);
                end(running, &ending);
                return Err(problem);
            }
        }
    }
    for (disk, problem) in left_out {
        if running.is_empty() {
            return Err(problem);
        }
        tracing::error!(disk, "the disk is not served, but the others are: {problem}");
    }
    among.peers.set(running.iter().filter_map(|served| served.runtime.as_ref()).map(Runtime::handle));
    let control = match control(&config, &running) {
        Ok(control) => control.map(Arc::new),
        Err(problem) => {
            stop(&running, &ending);
            end(running, &ending);
            return Err(problem);
        }
    };
    if let Some(control) = &control {
        console.note(&format!("control at {}", control.path().display()));
    }
    let web = match page.map(|page| show(page, &config, &running)).transpose() {
        Ok(web) => web,
        Err(problem) => {
            stop(&running, &ending);
            end(running, &ending);
            return Err(problem);
        }
    };
    if let Some(web) = &web {
        console.note(&format!("page at {}", web.url()));
    }
    open(&running, &config);
    let mailboxes = running.iter().map(|served| (served.running.name().to_owned(), served.running.mailbox()));
    let mut reload = Reload {
        args: args.clone(),
        disks: mailboxes.collect(),
        control: control.as_ref().map(Arc::downgrade).unwrap_or_default(),
        places,
        ending: ending.clone(),
        lines,
        config,
    };
    if let Err(error) = hangups.each(move || reload.again()) {
        tracing::warn!(%error, "no thread for SIGHUP: the configuration is read at the start only");
    }
    let at_end = ending.clone();
    let stoppers: Vec<_> = running.iter().map(|served| served.running.stopper()).collect();
    tell(Moment::Ready);
    interrupt::watch_and(
        move || {
            tell(Moment::Stopping);
            at_end.begin();
            for stop in &stoppers {
                // The call fails if the server has ended by itself.
                let _ = stop.stop();
            }
        },
        || {},
    );
    let ended = end(running, &ending);
    drop(control);
    drop(web);
    said(ended, args.json)
}

/// Checks whether a text is a configuration.
pub(crate) fn check_config(text: &str, name: &str) -> Result<(), Problem> {
    Config::from_toml(text, name).map(|_| ())
}

/// Checks that the configuration uses every socket that the service manager has opened: clients that connect to another would
/// wait for ever.
fn check_handed_over(config: &Config) -> Result<(), Problem> {
    let control = config.control.iter().cloned().map(Address::Unix).collect::<Vec<_>>();
    let listed = config.disks.iter().flat_map(|disk| &disk.listen).chain(&control);
    match server::unlisted(listed).as_slice() {
        [] => Ok(()),
        others => Err(Problem::failed(format!(
            "the service manager hands over a socket that no disk has: {}",
            others.join(", ")
        ))
        .help("name it in `listen` of a disk, or as `control`; or take it out of the socket unit")),
    }
}

/// Opens the control socket of all disks, if one is configured.
fn control(config: &Config, running: &[Served]) -> Result<Option<Control>, Problem> {
    let Some(path) = &config.control else { return Ok(None) };
    let handles = running.iter().filter_map(|served| served.runtime.as_ref()).map(Runtime::handle).collect();
    let asked = ControlConfig { roles: config.control_roles.clone(), ..ControlConfig::new(path) };
    let opened = Control::open(asked, handles);
    opened.map(Some).map_err(|e| config.places.underline("control", Problem::failed(e)))
}

/// Shows the page of all disks.
fn show(page: WebConfig, config: &Config, running: &[Served]) -> Result<Web, Problem> {
    let handles = running.iter().filter_map(|served| served.runtime.as_ref()).map(Runtime::handle).collect();
    let web = Web::open(page, PageContent::Disks(handles));
    web.map_err(|error| config.places.underline("web", Problem::failed(error)))
}

/// The permissions and the memory budgets that the disks of a daemon share.
struct Among {
    places: Places,
    peers: Peers,
    permits: Permits,
    memory: Budget,
    read_ahead: ReadAheadBudget,
}

/// Sets up the task manager of a disk, in its part of the state directory.
fn runtime(
    disk: &DiskConfig,
    config: &Config,
    among: &Among,
    background: BackgroundTerms,
    opened: &mut ServedDisk,
) -> Result<Option<RuntimeBuilder>, Unserved> {
    let Some(state) = &config.state else { return Ok(None) };
    let sector_bytes = opened.sector_bytes();
    let number = match &disk.device {
        DeviceSpec::Raw(path) => serial::of_device(path),
        DeviceSpec::Emulated { .. } => None,
    };
    let device = number.or_else(|| identity::place(disk.device.path()));
    let facts = DiskFacts {
        name: disk.name.clone(),
        capacity: units::Sectors::new(opened.size().get() / sector_bytes.get().max(1)),
        sector_bytes,
        own: vec![disk.device.path().to_owned()],
        read_only: disk.read_only,
        device,
    };
    let seed = random_seed().map_err(Problem::failed)?;
    let (permits, memory, keep_bytes_max) =
        (among.permits.clone(), among.memory.clone(), config.keep_bytes_max);
    let setup = ManagerConfig { disk: facts, keep_bytes_max, background, seed, permits, memory };
    let runtime = RuntimeBuilder::new(opened, setup, &state.join(&disk.name));
    let runtime = runtime.map(|runtime| runtime.confined(among.places.clone()).among(&among.peers));
    runtime.map(Some).map_err(|error| match error {
        RuntimeError::Journal(_) => {
            Unserved::LeftOut(disk.places.underline("device", Problem::failed(error)))
        }
        error => Problem::failed(error).into(),
    })
}

/// The reason why a disk is not served.
enum Unserved {
    /// The daemon ends with this problem.
    Fails(Problem),
    /// The tasks in the disk's state directory are of another disk or version. Other disks are served, and this state stays
    /// unchanged.
    LeftOut(Problem),
}

impl From<Problem> for Unserved {
    fn from(problem: Problem) -> Self {
        Self::Fails(problem)
    }
}

/// Notifies the service manager; a failure does not stop the daemon.
fn tell(moment: Moment) {
    if let Err(error) = server::notify(moment) {
        tracing::warn!(%error, ?moment, "the service manager got no notification");
    }
}

fn terms(disk: &DiskConfig, all: &ReadAheadBudget) -> BackgroundTerms {
    let memory = all.for_disk(disk.background_memory);
    BackgroundTerms { floor: disk.background_floor, memory, write: disk.background_write }
}

fn start(
    disk: &DiskConfig,
    config: &Config,
    among: &Among,
    (console, ending): (&Console, &Ending),
) -> Result<Served, Unserved> {
    // Required encryption permits access from other machines.
    let remote = disk.allow_remote || disk.tls.as_ref().is_some_and(Tls::is_required);
    let bind = |(index, address): (usize, &Address)| {
        let bound = Listener::bind(address.clone(), remote);
        bound.map_err(|e| disk.places.underline_one("listen", index, Problem::failed(e)))
    };
    let preset = open::preset(disk)?;
    let (mut opened, recipe) = open::open(disk, config.state.as_deref(), config.partial_blocks)?;
    let to_probe = Probing::of(disk, config.state.as_deref(), &recipe);
    if let Some(remark) = recipe.remark() {
        console.note(&format!("{}: {remark}", disk.name));
    }
    let listeners: Vec<Listener> = disk.listen.iter().enumerate().map(bind).collect::<Result<_, _>>()?;
    let places: Vec<String> = listeners.iter().map(|at| at.address().to_string()).collect();
    let node = |number, background| Ublk { number, disk: disk.name.clone(), background };
    let export = ExportConfig {
        name: disk.export.clone(),
        read_only: disk.read_only,
        tls: disk.tls.clone(),
        limits: config.limits,
        ublk: disk.ublk.map(|number| node(number, false)),
        background: disk.background.clone(),
        background_write: disk.background_write,
        background_ublk: disk.background_ublk.map(|number| node(number, true)),
    };
    let terms = terms(disk, &among.read_ahead);
    if disk.background.is_some() {
        opened.take_background_requests(terms.clone());
    }
    let learnt = learnt::go_on(disk, config, &mut opened)?;
    // Record from the first input of the core. The state that the mimic has before that input is in the recording's setup.
    if let Some(path) = &disk.record {
        let begun = open::record(path, disk.record_limit, recipe, &mut opened);
        begun.map_err(|problem| disk.places.underline("record", problem))?;
    }
    let runtime = runtime(disk, config, among, terms, &mut opened)?;
    let running = Running::start(&disk.name, opened, export, listeners).map_err(|error| {
        let problem = Problem::failed(format!("{}: {error}", disk.name));
        match error {
            ServeError::Export(_) => disk.places.underline("export", problem),
            ServeError::Ublk(error) => {
                let background =
                    disk.ublk.is_none() || error.number().is_some_and(|number| disk.ublk != Some(number));
                disk.places.underline(if background { "background_ublk" } else { "ublk" }, problem)
            }
            _ => problem,
        }
    })?;
    for place in places {
        console.note(&format!("{} at {place}", disk.name));
    }
    if let Some(preset) = preset {
        console.note(&format!("{}: {preset}", disk.name));
    }
    if let Some(name) = &disk.background {
        console.note(&format!("{}: background export {name}", disk.name));
    }
    if let Some(number) = disk.ublk {
        console.note(&format!("{} at /dev/ublkb{number}", disk.name));
    }
    if let Some(number) = disk.background_ublk {
        console.note(&format!("{}: background export at /dev/ublkb{number}", disk.name));
    }
    let probing = to_probe.map(|probing| probing.begin(running.mailbox())).transpose();
    let saver = learnt.map(|learnt| learnt::keep(learnt, &running)).transpose();
    let opened = runtime.map(|runtime| runtime.start(running.mailbox())).transpose();
    let opened =
        opened.map_err(|error| Problem::failed(format!("no thread for the tasks of {}: {error}", disk.name)));
    match saver.and_then(|learnt| Ok((opened?, learnt, probing?))) {
        Ok((runtime, learnt, probing)) => Ok(Served { running, runtime, learnt, probing }),
        Err(problem) => {
            let served = Served { running, runtime: None, learnt: None, probing: None };
            stop(std::slice::from_ref(&served), ending);
            end(vec![served], ending);
            Err(problem.into())
        }
    }
}

/// Opens the disks to clients. This is the last step of the start, because a start that fails must not touch the state that
/// disks have under other names.
fn open(running: &[Served], config: &Config) {
    if let Some(state) = &config.state {
        for handle in running.iter().filter_map(|served| served.runtime.as_ref()).map(Runtime::handle) {
            for (place, why) in server::repair::leave_other_names(state, handle.facts()) {
                tracing::error!(state = %place.display(), why, "clients write to the disk without the tasks and checksums of its other name");
            }
        }
    }
    for served in running {
        // The call fails if the server has ended by itself.
        let _ = served.running.open();
    }
}

/// Begins the end of the servers.
fn stop(running: &[Served], ending: &Ending) {
    ending.begin();
    for served in running {
        // The call fails if the server has ended by itself.
        let _ = served.running.stopper().stop();
    }
}

/// The name of a disk, and its results or its failure.
type Ended = (String, Result<(Tally, DiskStatus), Problem>);

/// Waits for the end of all servers; the first one to end ends the others.
fn end(running: Vec<Served>, ending: &Ending) -> Vec<Ended> {
    for one in &running {
        running.iter().for_each(|other| one.running.ends_with_it(other.running.stopper()));
    }
    // Waits for all servers at the same time, because each may wait for a target that does not answer.
    std::thread::scope(|scope| {
        let all: Vec<_> = running.into_iter().map(|one| scope.spawn(move || end_one(one, ending))).collect();
        let ended = all.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Waits for the end of a server, and saves the state of its disk's tasks, mimic and probe.
fn end_one(Served { running, runtime, learnt, probing }: Served, ending: &Ending) -> Ended {
    let name = running.name().to_owned();
    ending.waits_for(&name, "the disk, its clients, or the kernel's data of its block device");
    let joined = running.join();
    // A server that has ended by itself, or failed, ends the others.
    ending.begin();
    let result = joined
        .map(|(tally, mut disk)| {
            if let Some(runtime) = runtime {
                ending.waits_for(&name, "the files of its tasks");
                runtime.close(&mut disk);
            }
            ending.waits_for(&name, "the files of its learner, its probe and its recording");
            if let Some(learnt) = learnt {
                learnt.close(&disk);
            }
            if let Some(probing) = probing {
                probing.close(&mut disk);
            }
            if let Err(error) = disk.end_recording() {
                tracing::error!(disk = name, %error, "the recording is cut off");
            }
            (tally, disk.status())
        })
        .map_err(|e| Problem::failed(format!("{name}: {e}")));
    ending.has_ended(&name);
    (name, result)
}

#[derive(Serialize)]
struct ServeJson {
    name: String,
    clients: u64,
    requests: u64,
    failed: u64,
    status: DiskStatus,
}

fn said(ended: Vec<Ended>, json: bool) -> Result<String, Problem> {
    let mut disks = Vec::new();
    for (name, result) in ended {
        let (Tally { clients, requests, failed }, status) = result?;
        disks.push(ServeJson { name, clients, requests, failed, status });
    }
    if json {
        return crate::drive::json(&disks);
    }
    let mut text = String::new();
    for disk in &disks {
        let status = &disk.status;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", disk.name);
        let _ = writeln!(text, "  clients     {}", disk.clients);
        let _ = writeln!(text, "  requests    {}, {} failed", disk.requests, disk.failed);
        for (what, latency) in [("reads", &status.reads), ("writes", &status.writes)] {
            let (ms, count) = (|us: f64| us / 1e3, latency.count);
            let (p50, p99) = (ms(latency.p50_us), ms(latency.p99_us));
            let _ = writeln!(text, "  {what:<10}  {count}, {p50:.2} ms median, {p99:.2} ms 99th percentile");
        }
        let background = &status.background;
        let (gaps, idle) = (mb(background.gap_bytes), mb(background.idle_bytes));
        let _ = writeln!(text, "  background  {gaps:.1} MB in gaps, {idle:.1} MB in idle time");
        let late = &status.lateness;
        let (p50, p99, max) = (late.p50_us, late.p99_us, late.max_us);
        let _ = writeln!(
            text,
            "  lateness    {p50:.0} us median, {p99:.0} us 99th percentile, {max:.0} us at most"
        );
    }
    Ok(text)
}
