//! `freeblock simulate`.

mod foreground;
pub(crate) mod known;
#[cfg(target_os = "linux")]
mod live;
mod mimicked;
mod outside;
pub(crate) mod run;
mod show;
pub(crate) mod trace;

use crate::Outcome;
use crate::args::{BackgroundTask, SimulateArgs, Switch, Where};
use crate::drive::resolve::resolve;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::values::{self, Load};
use drive::{Behaviour, DriveError};
use foreground::Foreground;
use known::Told;
use mimic::Learner;
use run::{Goal, Run};
use scheduler::{Config, IdleTime, MOST_BLOCK_SECTORS, OutsideConfig, Place, SearchBudget};
use sim::{Background, Nothing, black_box};
use std::sync::Arc;
use std::time::Instant;
use units::{Bytes, Sectors};

/// One page of most hosts; the scans of the documentation use it.
const DEFAULT_BLOCK: Bytes = Bytes::new(4096);

pub(crate) fn execute(args: &SimulateArgs, console: &Console) -> Result<Outcome, Problem> {
    #[cfg(target_os = "linux")]
    if let Some(path) = &args.replay_live {
        return live::execute(path, args.json, console);
    }
    simulate(args, console).map(Outcome::from)
}

fn simulate(args: &SimulateArgs, console: &Console) -> Result<String, Problem> {
    let started = Instant::now();
    check_place(args)?;
    foreground::check_flags(args)?;
    mimicked::check_flags(args)?;
    let mut drive = resolve(&args.drive)?;
    if let Some(switch) = args.zero_latency {
        // The drive does so, and a scheduler outside knows that it does.
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
            // A size that is wrong is wrong before it is used.
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
        foreground::build(args, &model, config)?;
    let learner = mimicked::learner(args, &drive.profile.name, &model, grain)?;
    let goal = match (args.background, args.requests) {
        (_, Some(requests)) => Goal::Requests(requests),
        (BackgroundTask::None, None) => Goal::Requests(requests.unwrap_or(foreground::DEFAULT_REQUESTS)),
        (BackgroundTask::Scan, None) => Goal::ScanDone,
    };
    let title = title(args, &drive.profile.title, &description, console);
    let mut harm_ppm = None;
    let mut run = match args.place {
        Where::Inside => Run::new(model, config, issuer, background)?,
        Where::Outside => {
            let refused = |error: DriveError| Problem::failed(format!("{}: {error}", args.drive));
            let behaviour = args.behaviour.unwrap_or(Behaviour::noisy());
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
    run.set_mimic(learner);
    if args.learnt.is_some() {
        // What is learnt by then may have taken hours.
        interrupt::watch(|| {});
    }
    let ended = run.advance(goal, "simulating", &mut Nothing, console)?;
    if let Some(replayed) = &replayed {
        replayed.check()?;
        for remark in replayed.remarks().iter().filter(|_| !args.json) {
            console.note(&format!("note: {remark}"));
        }
    }
    if let Some(asked) = args.requests.filter(|&asked| asked > run.requests()) {
        console.note(&format!(
            "note: the {} ended after {} of {asked} requests; the run ends there",
            if matches!(args.workload, Load::Replay(_)) { "trace" } else { "load" },
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
        report: run.report(),
        replayed,
        mimic,
        outside,
        seed: args.seed,
        wall: started.elapsed(),
    };
    if args.json { crate::drive::json(&result.json()) } else { Ok(result.page(&title, args.background)) }
}

/// What is simulated, in a line.
fn title(args: &SimulateArgs, drive: &str, load: &str, console: &Console) -> String {
    let mut title = format!("{drive}, {load}, {}", args.policy);
    if let Some(remark) = known::without_positions(args.policy).filter(|_| args.blind) {
        if !args.json {
            console.note(&format!("note: {remark}"));
        }
        title += " by LBN distance";
    }
    if let Some(profile) = &args.profile {
        title += ", told ";
        title += profile;
    }
    title
}

fn check_place(args: &SimulateArgs) -> Result<(), Problem> {
    if args.place == Where::Inside && args.conservatism.is_some() {
        return Err(Problem::usage("--conservatism needs a scheduler outside the drive")
            .help("give --where outside as well, or leave out --conservatism: inside the drive every time is known exactly"));
    }
    if args.place == Where::Inside && args.harm.is_some() {
        return Err(Problem::usage("--harm needs a scheduler outside the drive")
            .help("give --where outside as well, or leave out --harm: in the drive detours cost the foreground nothing"));
    }
    let buys = args.bought_turns == Some(Switch::On);
    if args.place == Where::Inside && buys {
        return Err(Problem::usage("--bought-turns needs a scheduler outside the drive")
            .help("give --where outside as well, or leave out --bought-turns"));
    }
    let rests = args.plan_rest == Some(Switch::On);
    if args.place == Where::Inside && rests {
        return Err(Problem::usage("--plan-rest needs a scheduler outside the drive")
            .help("give --where outside as well, or leave out --plan-rest: in the drive the papers' planner plans once for a gap"));
    }
    if args.conservatism.is_some() && (buys || rests || args.harm.is_some()) {
        return Err(Problem::usage("--harm, --plan-rest and --bought-turns do not go with --conservatism")
            .help("leave it out: FAST 2002's scheduler has no bound on what it costs"));
    }
    if args.blind && (buys || rests) {
        return Err(Problem::usage("--bought-turns and --plan-rest do not go with --blind")
            .help("leave it out: without a profile there are no detours"));
    }
    if args.place == Where::Inside && args.behaviour.is_some() {
        return Err(Problem::usage("--behaviour does not go with a scheduler in the drive")
            .help("give --where outside as well: in the drive everything is as its profile says"));
    }
    if args.blind && args.place == Where::Inside {
        return Err(Problem::usage("--blind does not go with a scheduler in the drive")
            .help("give --where outside as well: in the drive everything is known"));
    }
    if args.blind && args.conservatism.is_some() {
        return Err(Problem::usage("--conservatism does not go with --blind")
            .help("leave it out: without a profile there are no detours"));
    }
    Ok(())
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
