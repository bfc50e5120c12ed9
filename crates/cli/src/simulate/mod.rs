//! `freeblock simulate`.

mod confidence;
mod foreground;
mod given;
pub(crate) mod known;
#[cfg(target_os = "linux")]
mod live;
pub(crate) mod log;
mod mimicked;
mod outside;
pub(crate) mod run;
mod seeds;
mod show;
pub(crate) mod trace;
mod watch;

use crate::Outcome;
use crate::args::{BackgroundTask, SimulateArgs, Switch, Where};
use crate::differs::in_force;
use crate::drive::resolve::resolve;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::values::{self, Load, Warmup};
use drive::{Behaviour, DriveError};
use foreground::Foreground;
pub(crate) use given::Given;
use known::Told;
use log::Log;
use mimic::Learner;
use model::Profile;
use run::{Goal, Run};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, MOST_BLOCK_SECTORS, OutsideConfig, Place, SearchBudget};
use show::Left;
use sim::{Background, Series, black_box};
use std::sync::Arc;
use std::time::Instant;
use units::{Bytes, Instant as Start, Sectors};
use watch::Watch;

/// One page of most hosts; the scans of the documentation use it.
const DEFAULT_BLOCK: Bytes = Bytes::new(4096);

pub(crate) fn execute(args: &SimulateArgs, console: &Console) -> Result<Outcome, Problem> {
    #[cfg(target_os = "linux")]
    if let Some(path) = &args.replay_live {
        return live::execute(path, args.json, console);
    }
    with_parts(args, Given::default(), console).map(Outcome::from)
}

/// Simulates, with parts that a calling program may have given.
pub(crate) fn with_parts(
    args: &SimulateArgs,
    given: Given<'_>,
    console: &Console,
) -> Result<String, Problem> {
    check_place(args)?;
    foreground::check_flags(args)?;
    given::check_flags(args, &given)?;
    mimicked::check_flags(args)?;
    check_results(args)?;
    if let Some(count) = args.seeds {
        return seeds::execute(args, count, console);
    }
    let Simulated { result, notes } = simulate_once(args, given, console)?;
    notes.iter().for_each(|note| console.note(&format!("note: {note}")));
    if args.json { crate::drive::json(&result.json()) } else { Ok(result.page(args.background)) }
}

/// The result of one seed, and remarks for standard error.
struct Simulated {
    result: show::Result,
    notes: Vec<String>,
}

fn simulate_once(args: &SimulateArgs, given: Given<'_>, console: &Console) -> Result<Simulated, Problem> {
    let started = Instant::now();
    let place = args.place();
    let mut drive = resolve(&args.drive)?;
    if let Some(switch) = args.zero_latency {
        // The drive behaves so, and a scheduler outside knows that.
        let on = switch == Switch::On;
        drive.profile.mechanics.zero_latency_read = on;
        drive.profile.mechanics.zero_latency_write = on;
        drive.model = drive.model.with_zero_latency(on);
    }
    let told = Told::of(args, &drive.model)?;
    let model = drive.model;
    let background = match (args.background, args.block_size) {
        (BackgroundTask::None, None) => Background::None,
        (BackgroundTask::None, Some(size)) => {
            // Report an invalid size before it is used.
            block(size, model.sector_bytes())?;
            Background::None
        }
        (BackgroundTask::Scan, size) => {
            Background::Scan { block: block(size.unwrap_or(DEFAULT_BLOCK), model.sector_bytes())? }
        }
    };
    let idle = IdleTime::default();
    let buys = args.bought_turns == Some(Switch::On);
    let rests = args.plan_rest.map_or(buys, |switch| switch == Switch::On);
    let config = Config {
        policy: args.policy,
        age: args.age_weight.unwrap_or_default(),
        budget: args.budget.map(SearchBudget::tracks).unwrap_or_default(),
        idle: (args.idle_time == Some(Switch::On))
            .then(|| IdleTime { harm_ppm: args.harm.unwrap_or(idle.harm_ppm), ..idle }),
        ..Config::default()
    };
    let model = Arc::new(model);
    let Foreground { issuer, requests, description, replayed, grain } =
        foreground::build(args, given.requests, &model, config)?;
    let learner = mimicked::learner(args, &drive.profile.name, &model, grain)?;
    let goal = match (args.background, args.requests) {
        (_, Some(requests)) => Goal::Requests(requests),
        (BackgroundTask::None, None) => Goal::Requests(requests.unwrap_or(foreground::DEFAULT_REQUESTS)),
        (BackgroundTask::Scan, None) => Goal::ScanDone,
    };
    let sector = model.sector_bytes();
    let behaviour =
        args.behaviour.unwrap_or_else(|| usual_behaviour(place, model.layout().capacity().bytes(sector)));
    let mut notes = Vec::new();
    let policy = if given.policy.is_some() {
        "a policy of the program's own".to_owned()
    } else {
        args.policy.to_string()
    };
    let served = served(args, &policy, behaviour, &drive.profile);
    let title = title(args, &drive.profile.title, &description, &served, &mut notes);
    let mut harm_ppm = None;
    let refused = |error: DriveError| {
        let problem = Problem::failed(format!("{}: {error}", args.drive));
        match error {
            DriveError::NoFirmware => problem.help("give --where inside: it needs the mechanics alone"),
            _ => problem,
        }
    };
    let mut run = match place {
        Where::Inside => Run::new(model, config, issuer, background)?,
        Where::Device => {
            Run::device(black_box(&drive.profile, behaviour, args.seed).map_err(refused)?.0, issuer)
        }
        Where::Outside => {
            let (device, overheads) = black_box(&drive.profile, behaviour, args.seed).map_err(refused)?;
            let (known, place) = known::believed(args, model, overheads, told)?;
            let place = if args.blind || args.conservatism.is_some() {
                place
            } else {
                let harm_ppm = args.harm.or(place.harm_ppm);
                OutsideConfig { harm_ppm, plan_rest: rests, bought_turns: buys, ..place }
            };
            harm_ppm = place.harm_ppm;
            let place = Place::Outside(place);
            Run::outside(device, known, Config { place, ..config }, issuer, background)?
        }
    };
    run.set_policy(given.policy);
    run.set_mimic(learner);
    if args.learnt.is_some() {
        // The knowledge learned so far may have taken hours.
        interrupt::watch(|| {});
    }
    let series = args.every.map(|every| Series::new(every, sector)).transpose();
    let series = series.map_err(|error| Problem::usage(format!("--every: {error}")))?;
    let log = args.log.as_ref().map(Log::create).transpose()?;
    let mut watch = Watch { log, series, caller: given.watch, warm: false };
    run.warm_up(args.warmup, &mut watch, console)?;
    let warmup = args.warmup.map(|_| Left { requests: run.requests(), time: run.now().since(Start::ZERO) });
    let ended = run.advance(goal, "simulating", &mut watch, console)?;
    if let Some(replayed) = &replayed {
        replayed.check()?;
        notes.extend(replayed.remarks().into_iter().filter(|_| !args.json));
    }
    let series = watch.finish(run.now())?;
    let load = if matches!(args.workload, Load::Replay(_)) { "trace" } else { "load" };
    if let Some(left) = warmup.filter(|left| left.requests >= run.requests()) {
        return Err(Problem::failed(format!(
            "nothing is left to measure: the {load} ended after {} requests, within the warm-up",
            left.requests
        ))
        .help("give a shorter --warmup, or more requests"));
    }
    if let Some(asked) = args.requests.filter(|&asked| asked > run.requests()) {
        notes.push(format!(
            "the {load} ended after {} of {asked} requests; the run ends there",
            run.requests()
        ));
    }
    mimicked::keep(args, &drive.profile.name, run.learner())?;
    if let (Some(path), false) = (&args.learnt, ended) {
        return Err(Problem::failed(format!("interrupted after {} requests", run.requests())).help(format!(
            "what was learnt of them is in {}; the same command goes on from there",
            path.display()
        )));
    }
    let mimic = run.learner().map(Learner::stats);
    let outside = run.told(harm_ppm);
    let result = show::Result {
        title,
        place,
        behaviour: (place != Where::Inside).then_some(behaviour),
        report: run.report(),
        warmup,
        series,
        replayed,
        mimic,
        outside,
        seed: args.seed,
        wall: started.elapsed(),
    };
    Ok(Simulated { result, notes })
}

/// Returns the behaviour of a drive for which none is given. A drive alone is served by its file, whose queue, buffer and
/// bus were validated; files of drives with SATA queues have no order of the queue, and get that of their generation.
fn usual_behaviour(place: Where, capacity: Bytes) -> Behaviour {
    let generation = Behaviour::of_generation(capacity);
    if place == Where::Device && generation != Behaviour::modern() {
        Behaviour::default()
    } else {
        generation
    }
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
        ("--learnt", args.learnt.is_some(), "leave it out: the seeds would not be independent"),
        ("a trace from standard input", standard_input, "write it to a file first: it is read for each seed"),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((flag, _, mend)) => Err(Problem::usage(format!("{flag} does not go with --seeds")).help(mend)),
        None => Ok(()),
    }
}

/// Returns one line about the simulation: drive, load, and scheduler.
fn title(args: &SimulateArgs, drive: &str, load: &str, served: &str, notes: &mut Vec<String>) -> String {
    let mut title = format!("{drive}, {load}, {served}");
    if let Some(remark) = known::without_positions(args.policy).filter(|_| args.blind)
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

/// Returns the place of the scheduler, and the drive's preset, queue, buffer and bus.
fn served(args: &SimulateArgs, policy: &str, behaviour: Behaviour, profile: &Profile) -> String {
    let text = match args.place() {
        Where::Inside => {
            return format!("{policy} in the drive: mechanics alone, no buffer, bus or overheads");
        }
        Where::Device => "the drive alone".to_owned(),
        _ if known::without_positions(args.policy).is_some() && args.blind => {
            format!("{policy} by LBN distance outside the drive")
        }
        _ => format!("{policy} outside the drive"),
    };
    text + ", " + &in_force(profile, behaviour)
}

/// Refuses flags that have no effect at the scheduler's place.
fn check_place(args: &SimulateArgs) -> Result<(), Problem> {
    let buys = args.bought_turns == Some(Switch::On);
    let rests = args.plan_rest == Some(Switch::On);
    match args.place() {
        Where::Outside => return check_outside(args, buys, rests),
        Where::Device => check_device(args)?,
        Where::Inside => {}
    }
    let inside = args.place() == Where::Inside;
    let outside_only = [
        ("--conservatism", args.conservatism.is_some(), "inside the drive every time is known exactly"),
        ("--harm", args.harm.is_some(), "in the drive detours cost the foreground nothing"),
        ("--pass-through", args.pass_through.is_some(), "there is no queue between the core and the drive"),
        ("--bought-turns", buys, "in the drive the papers' planner buys none"),
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

fn check_outside(args: &SimulateArgs, buys: bool, rests: bool) -> Result<(), Problem> {
    if args.conservatism.is_some() && (buys || rests || args.harm.is_some()) {
        return Err(Problem::usage("--harm, --plan-rest and --bought-turns do not go with --conservatism")
            .help("leave it out: FAST 2002's scheduler has no bound on what it costs"));
    }
    if args.blind && (buys || rests) {
        return Err(Problem::usage("--bought-turns and --plan-rest do not go with --blind")
            .help("leave it out: without a profile there are no detours"));
    }
    if args.blind && args.conservatism.is_some() {
        return Err(Problem::usage("--conservatism does not go with --blind")
            .help("leave it out: without a profile there are no detours"));
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
    if block.get() > MOST_BLOCK_SECTORS {
        return Err(Problem::usage(format!(
            "--block-size {size}: blocks have at most {MOST_BLOCK_SECTORS} sectors"
        ))
        .help("give a smaller block size; the papers use 4k to 64k"));
    }
    Ok(block)
}
