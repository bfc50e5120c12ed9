//! `freeblock simulate`.

pub(crate) mod args;
mod confidence;
mod drives;
mod foreground;
mod given;
mod known;
#[cfg(target_os = "linux")]
mod live;
mod load;
pub(crate) mod log;
mod mimicked;
mod outside;
mod replayed;
pub(crate) mod run;
mod seeds;
mod show;
mod trace;
mod watch;

use crate::Outcome;
use crate::caution::without_positions;
use crate::differs::in_force;
use crate::drive::resolve::resolve;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::values::{self, Load, TraceDevices, Warmup};
use args::{BackgroundTask, SimulateArgs, Switch, Where};
use drive::{Behaviour, Drive, DriveError};
use foreground::{Foreground, Space};
pub(crate) use given::Given;
pub use given::{Parts, Watch};
use known::GivenProfile;
use log::Log;
use mimic::Learner;
use model::{DriveModel, Profile};
use replayed::Replayed;
use run::{Goal, Run};
use scheduler::policy::PolicyName;
use scheduler::{AuditConfig, BLOCK_SECTORS_MAX, Config, IdleTime, OutsideConfig, Overheads, SearchBudget};
use show::{Left, Several};
use sim::{ArrayLayout, Background, Member, Series, Statistics, black_box};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use units::{Bytes, Instant as Start, Sectors};
use watch::RunWatch;
use workload::Source;

/// The default block of a scan: a memory page of most hosts, as in the scans of the documentation.
const DEFAULT_BLOCK: Bytes = Bytes::new(4096);

pub(crate) fn execute(args: &SimulateArgs, console: &Console) -> Result<Outcome, Problem> {
    #[cfg(target_os = "linux")]
    if let Some(path) = &args.replay_live {
        return live::execute(path, args.json, console);
    }
    // Ctrl-C ends the run with the results so far, which may have taken hours.
    interrupt::watch(|| {});
    with_parts(args, Given::default(), console)
}

/// Simulates, with parts that a calling program may have given.
pub(crate) fn with_parts(
    args: &SimulateArgs,
    given: Given<'_>,
    console: &Console,
) -> Result<Outcome, Problem> {
    check_place(args)?;
    load::check_flags(args)?;
    given::check_flags(args, &given)?;
    mimicked::check_flags(args)?;
    drives::check_flags(args, &given)?;
    check_results(args)?;
    let names = drives::names(args)?;
    if let Some(count) = args.seeds {
        return seeds::execute(args, count, &names, console);
    }
    let Simulated { result, notes, .. } = if args.independent {
        drives::fleet(args, &names, console)?
    } else {
        let mut log = args.log.as_ref().map(Log::create).transpose()?;
        let done = simulate_once(args, &names, 0, given, log.as_mut(), console)?;
        log.map_or(Ok(()), Log::finish)?;
        done
    };
    notes.iter().for_each(|note| console.note(&format!("note: {note}")));
    let text = if args.json { crate::drive::json(&result.json())? } else { result.page(args.background) };
    Ok(Outcome { text, code: code(result.interrupted) })
}

/// The result of one run, and remarks for standard error.
struct Simulated {
    result: show::Result,
    statistics: Statistics,
    notes: Vec<String>,
}

/// A simulated drive, and the profile that a scheduler outside it gets.
struct Kit {
    profile: Profile,
    model: Arc<DriveModel>,
    given_profile: Option<GivenProfile>,
    behaviour: Behaviour,
    name: String,
}

impl Kit {
    fn of(args: &SimulateArgs, name: &str) -> Result<Self, Problem> {
        let mut drive = resolve(name)?;
        if let Some(switch) = args.zero_latency {
            // `--zero-latency` changes the drive and its profile, so a scheduler outside the drive knows of the change.
            let on = switch == Switch::On;
            drive.profile.mechanics.zero_latency_read = on;
            drive.profile.mechanics.zero_latency_write = on;
            drive.model = drive.model.with_zero_latency(on);
        }
        let given_profile = GivenProfile::of(args, name, &drive.model)?;
        let capacity = drive.model.layout().capacity().bytes(drive.model.sector_bytes());
        let behaviour = args.behaviour.unwrap_or_else(|| usual_behaviour(args.place(), capacity));
        let (profile, model) = (drive.profile, Arc::new(drive.model));
        Ok(Self { profile, model, given_profile, behaviour, name: name.to_owned() })
    }

    /// Returns the drive behind its bus, and the costs of its commands.
    fn device(&self, seed: u64) -> Result<(Drive, Overheads), Problem> {
        black_box(&self.profile, self.behaviour, seed).map_err(|error| {
            let problem = Problem::failed(format!("{}: {error}", self.name));
            match error {
                DriveError::NoFirmware => problem.help("give --where inside: it needs the mechanics alone"),
                _ => problem,
            }
        })
    }

    /// Returns the model that a scheduler outside the drive has of the drive, and the scheduler's configuration.
    fn believed(
        &self,
        args: &SimulateArgs,
        overheads: Overheads,
    ) -> Result<(Arc<DriveModel>, OutsideConfig), Problem> {
        let (known, place) =
            known::believed(args, Arc::clone(&self.model), overheads, self.given_profile.as_ref())?;
        let audit = (args.audit == Some(Switch::On)).then(|| AuditConfig::new(args.seed));
        let place = place.with_audit(audit);
        if args.blind || args.conservatism.is_some() {
            return Ok((known, place));
        }
        let harm_ppm = args.harm.or(place.harm_ppm);
        let extra_revolutions = args.extra_revolutions == Some(Switch::On);
        let plan_rest = args.plan_rest.map_or(extra_revolutions, |switch| switch == Switch::On);
        Ok((
            known,
            place.with_harm_ppm(harm_ppm).with_plan_rest(plan_rest).with_extra_revolutions(extra_revolutions),
        ))
    }

    fn background(&self, args: &SimulateArgs) -> Result<Background, Problem> {
        let sector = self.model.sector_bytes();
        match (args.background, args.block_size) {
            (BackgroundTask::None, None) => Ok(Background::None),
            // An invalid size is reported even if no scan uses it.
            (BackgroundTask::None, Some(size)) => block(size, sector).map(|_| Background::None),
            (BackgroundTask::Scan, size) => {
                Ok(Background::Scan { block: block(size.unwrap_or(DEFAULT_BLOCK), sector)? })
            }
        }
    }
}

/// Returns the configuration of a core, except where it runs.
fn core_config(args: &SimulateArgs) -> Config {
    let idle = IdleTime::default();
    Config::default()
        .with_policy(args.policy)
        .with_age(args.age_weight.unwrap_or_default())
        .with_budget(args.budget.map(SearchBudget::tracks).unwrap_or_default())
        .with_idle(
            (args.idle_time == Some(Switch::On))
                .then(|| idle.with_harm_ppm(args.harm.unwrap_or(idle.harm_ppm))),
        )
}

/// The drives of a run, their load, and the host that joins them.
struct Hosted {
    run: Run<Box<dyn Source>>,
    requests: Option<u64>,
    description: String,
    replayed: Option<Replayed>,
    grain: Sectors,
    /// The bound on harm of schedulers outside the drives.
    harm_ppm: Option<u32>,
}

/// Puts the load on one drive.
fn alone(args: &SimulateArgs, kit: &Kit, requests: Option<Box<dyn Source>>) -> Result<Hosted, Problem> {
    let (config, background) = (core_config(args), kit.background(args)?);
    let model = Arc::clone(&kit.model);
    let (capacity, sector) = (model.layout().capacity(), model.sector_bytes());
    let space = Space { capacity, sector, drive: &kit.model, members: Vec::new() };
    let Foreground { issuer, requests, description, replayed, grain } =
        load::build(args, requests, &space, config)?;
    let mut harm_ppm = None;
    let run = match args.place() {
        Where::Inside => Run::new(model, config, issuer, background)?,
        Where::Device => Run::device(kit.device(args.seed)?.0, issuer),
        Where::Outside => {
            let (device, overheads) = kit.device(args.seed)?;
            let (known, place) = kit.believed(args, overheads)?;
            harm_ppm = place.harm_ppm;
            let config = config.with_outside(place);
            Run::outside(device, known, config, issuer, background)?
        }
    };
    Ok(Hosted { run, requests, description, replayed, grain, harm_ppm })
}

/// Puts the load on an array of drives.
fn array(
    args: &SimulateArgs,
    kits: &[Rc<Kit>],
    layout: ArrayLayout,
    requests: Option<Box<dyn Source>>,
) -> Result<Hosted, Problem> {
    let config = core_config(args);
    let mut harm_ppm = None;
    let mut members = Vec::new();
    for (kit, number) in kits.iter().zip(0..) {
        let background = kit.background(args)?;
        let seed = args.seed.wrapping_add(number);
        let member = match args.place() {
            Where::Inside => Member::inside(Arc::clone(&kit.model), config, background),
            Where::Device => Ok(Member::device(kit.device(seed)?.0)),
            Where::Outside => {
                let (device, overheads) = kit.device(seed)?;
                let (known, place) = kit.believed(args, overheads)?;
                harm_ppm = place.harm_ppm;
                Member::outside(device, known, config.with_outside(place), background)
            }
        };
        members.push(member.map_err(Problem::failed)?);
    }
    let sizes = members.iter().map(Member::capacity).collect();
    let joined = sim::Drives::new(layout, members).map_err(|error| drives::no_array(&error))?;
    let each = args.device == Some(TraceDevices::Each);
    let joined = if each { joined.apart() } else { joined };
    let first = kits.first().ok_or_else(|| Problem::failed("there is no drive"))?;
    let (capacity, sector) = (joined.capacity(), joined.sector_bytes());
    let space = Space { capacity, sector, drive: &first.model, members: sizes };
    let Foreground { issuer, requests, description, replayed, grain } =
        load::build(args, requests, &space, config)?;
    let run = Run::array(joined.under(issuer));
    Ok(Hosted { run, requests, description, replayed, grain, harm_ppm })
}

/// Simulates the drives called `names`: as an array, or the only one, which is number `drive` in the log.
fn simulate_once(
    args: &SimulateArgs,
    names: &[String],
    drive: u32,
    given: Given<'_>,
    log: Option<&mut Log>,
    console: &Console,
) -> Result<Simulated, Problem> {
    let started = Instant::now();
    let place = args.place();
    let mut by_name: BTreeMap<&str, Rc<Kit>> = BTreeMap::new();
    let mut kits = Vec::new();
    for name in names {
        let kit = match by_name.get(name.as_str()) {
            Some(kit) => Rc::clone(kit),
            None => Rc::new(Kit::of(args, name)?),
        };
        by_name.insert(name, Rc::clone(&kit));
        kits.push(kit);
    }
    let first = kits.first().cloned().ok_or_else(|| Problem::failed("there is no drive"))?;
    let layout = (args.drives.is_some() && !args.independent)
        .then(|| args.array.unwrap_or(ArrayLayout::Concatenation));
    let Hosted { mut run, requests, description, replayed, grain, harm_ppm } = match layout {
        None => alone(args, &first, given.requests)?,
        Some(layout) => array(args, &kits, layout, given.requests)?,
    };
    let learner = mimicked::learner(args, &first.profile.name, &first.model, grain)?;
    let goal = match (args.background, args.requests) {
        (_, Some(requests)) => Goal::Requests(requests),
        (BackgroundTask::None, None) => Goal::Requests(requests.unwrap_or(foreground::DEFAULT_REQUESTS)),
        (BackgroundTask::Scan, None) => Goal::ScanDone,
    };
    let sector = first.model.sector_bytes();
    let mut notes = Vec::new();
    let policy = if given.policy.is_some() {
        "a policy of the program's own".to_owned()
    } else {
        args.policy.to_string()
    };
    let drive_title = first.profile.title.clone();
    let of_drive_title = of_drive_title(args, &description, &served(args, &policy, &kits), &mut notes);
    run.set_policy(given.policy);
    run.set_mimic(learner);
    let series = args.every.map(|every| Series::new(every, sector)).transpose();
    let series = series.map_err(|error| Problem::usage(format!("--every: {error}")))?;
    let numbered = layout.is_none().then_some(drive);
    let mut watch = RunWatch { log, series, caller: given.watch, warm: false, drive: numbered };
    run.warm_up(args.warmup, &mut watch, console)?;
    let warmup = args.warmup.map(|_| Left { requests: run.requests(), time: run.now().since(Start::ZERO) });
    let ended = run.advance(goal, "simulating", &mut watch, console)?;
    if let Some(replayed) = &replayed {
        replayed.check()?;
        let utilisation = run.report().foreground.utilisation;
        notes.extend(replayed.remarks(utilisation).into_iter().filter(|_| !args.json));
    }
    let series = watch.finish(run.now())?;
    let load = if matches!(args.workload, Load::Replay(_)) { "trace" } else { "load" };
    mimicked::keep(args, &first.profile.name, run.learner())?;
    if let (Some(path), false) = (&args.learnt, ended) {
        return Err(Problem::failed(format!("interrupted after {} requests", run.requests())).help(format!(
            "the learner's state after them is in {}; the same command goes on from there",
            path.display()
        )));
    }
    if let Some(left) = warmup.filter(|left| left.requests >= run.requests()) {
        if !ended {
            return Err(Problem::failed(format!(
                "interrupted in the warm-up, after {} requests: nothing was measured",
                left.requests
            )));
        }
        return Err(Problem::failed(format!(
            "nothing is left to measure: the {load} ended after {} requests, within the warm-up",
            left.requests
        ))
        .help("give a shorter --warmup, or more requests"));
    }
    if let Some(asked) = args.requests.filter(|&asked| ended && asked > run.requests()) {
        notes.push(format!(
            "the {load} ended after {} of {asked} requests; the run ends there",
            run.requests()
        ));
    }
    let of_drives: Vec<show::OfDrive> = run
        .members()
        .zip(&kits)
        .map(|(member, kit)| show::OfDrive {
            name: kit.name.clone(),
            title: kit.profile.title.clone(),
            seed: None,
            report: member.report(),
            outside: member
                .core_outside()
                .map(|(core, trust)| outside::SchedulerState::of(core, *trust, harm_ppm)),
        })
        .collect();
    let layout = layout.map(|layout| layout.to_string());
    let title = match &layout {
        Some(layout) => drives::several_title(&of_drives, layout, &of_drive_title),
        None => format!("{drive_title}, {of_drive_title}"),
    };
    let same = kits.iter().all(|kit| kit.behaviour == first.behaviour);
    let result = show::Result {
        title,
        drive_title,
        of_drive_title,
        place,
        behaviour: (place != Where::Inside && same).then_some(first.behaviour),
        report: run.report(),
        cache: run.cache_report(),
        several: layout.map(|layout| Several { layout, drives: of_drives }),
        warmup,
        series,
        replayed,
        mimic: run.learner().map(Learner::stats),
        outside: run.scheduler_state(harm_ppm),
        seed: args.seed,
        interrupted: !ended,
        wall: started.elapsed(),
    };
    Ok(Simulated { result, statistics: run.statistics().clone(), notes })
}

/// Returns the default behaviour of a drive. A drive without a scheduler behaves as its file says, because the file's queue,
/// buffer and bus were validated. But the file of a drive with a SATA queue does not describe the order of that queue: such a
/// drive behaves as its generation.
fn usual_behaviour(place: Where, capacity: Bytes) -> Behaviour {
    let generation = Behaviour::of_generation(capacity);
    if place == Where::Device && generation != Behaviour::modern() {
        Behaviour::default()
    } else {
        generation
    }
}

/// Returns the exit code: 3 for results that Ctrl-C has cut short, as `freeblock probe` does for a profile of a part of a
/// drive.
fn code(interrupted: bool) -> u8 {
    // A calling program that has ended the run itself gets no exit code for that.
    if interrupted && interrupt::came() { 3 } else { 0 }
}

/// Refuses combinations of flags about the results.
fn check_results(args: &SimulateArgs) -> Result<(), Problem> {
    if let (Some(Warmup::Requests(warmup)), Some(requests)) = (args.warmup, args.requests)
        && warmup >= requests
    {
        return Err(Problem::usage(format!("--warmup {warmup} leaves nothing of --requests {requests}"))
            .help("give more requests: those of the warm-up count too"));
    }
    if args.seeds.is_none() {
        return Ok(());
    }
    let standard_input = matches!(&args.workload, Load::Replay(path) if path.as_os_str() == "-");
    let given = [
        ("--log", args.log.is_some(), "give --seed with one seed at a time, and a file for each"),
        ("--every", args.every.is_some(), "give --seed with one seed at a time"),
        ("--learnt", args.learnt.is_some(), "omit the option: the seeds would not be independent"),
        (
            "a trace from standard input",
            standard_input,
            "write the trace to a file first: each seed reads it",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((flag, _, mend)) => Err(Problem::usage(format!("{flag} does not go with --seeds")).help(mend)),
        None => Ok(()),
    }
}

/// Returns the part of the title behind the drive: load and scheduler.
fn of_drive_title(args: &SimulateArgs, load: &str, served: &str, notes: &mut Vec<String>) -> String {
    let mut title = format!("{load}, {served}");
    if let Some(remark) = without_positions(args.policy).filter(|_| args.blind)
        && !args.json
    {
        notes.push(remark);
    }
    if let Some(profile) = &args.profile {
        title += ", with the profile ";
        title += profile;
    }
    title
}

/// Describes where the scheduler runs, and the preset, queue, buffer and bus of each kind of drive.
fn served(args: &SimulateArgs, policy: &str, kits: &[Rc<Kit>]) -> String {
    let text = match args.place() {
        Where::Inside => {
            return format!("{policy} in the drive: mechanics alone, no buffer, bus or overheads");
        }
        Where::Device => "the drive alone".to_owned(),
        _ if without_positions(args.policy).is_some() && args.blind => {
            format!("{policy} by LBN distance outside the drive")
        }
        _ => format!("{policy} outside the drive"),
    };
    let mut kinds: Vec<String> = Vec::new();
    for kit in kits {
        let kind = in_force(&kit.profile, kit.behaviour);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    text + ", " + &kinds.join(" / ")
}

/// Refuses flags that have no effect where the scheduler runs.
fn check_place(args: &SimulateArgs) -> Result<(), Problem> {
    let spends = args.extra_revolutions == Some(Switch::On);
    let rests = args.plan_rest == Some(Switch::On);
    match args.place() {
        Where::Outside => return check_outside(args, spends, rests),
        Where::Device => check_device(args)?,
        Where::Inside => {}
    }
    let inside = args.place() == Where::Inside;
    let outside_only = [
        ("--conservatism", args.conservatism.is_some(), "inside the drive every time is known exactly"),
        ("--harm", args.harm.is_some(), "in the drive detours cost the foreground nothing"),
        ("--pass-through", args.pass_through.is_some(), "there is no queue between the core and the drive"),
        ("--audit", args.audit == Some(Switch::On), "in the drive the harm is exact"),
        ("--extra-revolutions", spends, "in the drive the papers' planner spends none"),
        ("--plan-rest", rests, "in the drive the papers' planner plans once for a gap"),
    ];
    for (flag, given, why) in outside_only {
        if given {
            let mend = format!("give --where outside as well, or leave out {flag}");
            let mend = if inside { format!("{mend}: {why}") } else { mend };
            return Err(Problem::usage(format!("{flag} needs a scheduler outside the drive")).help(mend));
        }
    }
    if inside && args.behaviour.is_some() {
        return Err(Problem::usage("--behaviour does not go with a scheduler in the drive").help(
            "give --where outside or --where device as well: in the drive everything is as its profile says",
        ));
    }
    if args.blind {
        let (place, why) = match inside {
            true => ("a scheduler in the drive", "in the drive everything is known"),
            false => ("--where device", "nothing is scheduled"),
        };
        return Err(Problem::usage(format!("--blind does not go with {place}"))
            .help(format!("give --where outside as well: {why}")));
    }
    Ok(())
}

fn check_outside(args: &SimulateArgs, spends: bool, rests: bool) -> Result<(), Problem> {
    if args.conservatism.is_some() && (spends || rests || args.harm.is_some()) {
        return Err(Problem::usage(
            "--harm, --plan-rest and --extra-revolutions do not go with --conservatism",
        )
        .help("omit the option: FAST 2002's scheduler has no bound on what it costs"));
    }
    if args.blind && (spends || rests) {
        return Err(Problem::usage("--extra-revolutions and --plan-rest do not go with --blind")
            .help("omit the option: without a profile there are no detours"));
    }
    if args.blind && args.conservatism.is_some() {
        return Err(Problem::usage("--conservatism does not go with --blind")
            .help("omit the option: without a profile there are no detours"));
    }
    Ok(())
}

/// Refuses flags that need a scheduler.
fn check_device(args: &SimulateArgs) -> Result<(), Problem> {
    let given = [
        ("--policy", args.policy != PolicyName::Fcfs),
        ("--background scan", args.background == BackgroundTask::Scan),
        ("--idle-time", args.idle_time == Some(Switch::On)),
        ("--age-weight", args.age_weight.is_some()),
        ("--budget", args.budget.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let usual = if args.place.is_none() { ", the default for a replay" } else { "" };
            Err(Problem::usage(format!(
                "{flag} does not go with --where device{usual}: there the drive alone serves the requests"
            ))
            .help(format!(
                "leave out {flag}, or give --where inside or --where outside; --behaviour says in which order the drive serves"
            )))
        }
        None => Ok(()),
    }
}

fn block(size: Bytes, sector: Bytes) -> Result<Sectors, Problem> {
    let block = values::sectors(size, sector).ok_or_else(|| {
        Problem::usage(format!("--block-size {size}: the drive's sectors have {sector} bytes"))
            .help(format!("give a multiple of {sector}"))
    })?;
    if block.get() > BLOCK_SECTORS_MAX {
        return Err(Problem::usage(format!(
            "--block-size {size}: blocks have at most {BLOCK_SECTORS_MAX} sectors"
        ))
        .help("give a smaller block size; the papers use 4k to 64k"));
    }
    Ok(block)
}
