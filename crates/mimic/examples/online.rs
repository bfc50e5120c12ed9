//! Evaluates the on-line methods of ATC'03, section 6, including its two open ideas, on a simulated drive: mean
//! access times of SMTF in the drive while it learns. SMTF's base policies, and SPTF, which knows the drive, are
//! printed beside it.
//!
//! `cargo run --release -p freeblock-mimic --example online [REQUESTS]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use drive::{Command, Drive};
use mimic::{CheckPoints, Learner, LearnerConfig, ProbePlan, ProbeReport, Prober, Table};
use model::{DriveModel, Profile, builtin};
use scheduler::policy::{Base, PolicyName, SmtfRule, Unknown};
use scheduler::{Config, IdleTime, Mimic};
use sim::{Background, Inside, Nothing};
use std::error::Error;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, RequestId, Sectors};
use workload::{Arrival, Closed, Issuer, Random, RandomConfig, Think};

/// The number of parts of the run whose means are printed.
const PARTS: u64 = 4;

/// The area that requests for blocks of 4 KB are drawn from: the size that a file system tends to keep together.
const AREA_BYTES: Bytes = Bytes::new(64 << 20);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The mean access times of the parts of a run, and the mimic at its end.
type Learnt = (Vec<f64>, Option<Box<dyn Mimic>>);

/// Runs the requests; returns the mean access time in each part of the run, ms, and the mimic.
fn run(
    drive: &Arc<DriveModel>,
    policy: PolicyName,
    arrival: Arrival,
    mimic: Option<Box<dyn Mimic>>,
    requests: u64,
) -> Outcome<Learnt> {
    let span = Sectors::new(AREA_BYTES.get() / drive.sector_bytes().get());
    let source = Random::new(RandomConfig::new(span, drive.sector_bytes()), 7)?;
    let issuer = Issuer::new(source, arrival, Instant::ZERO, 7)?;
    let config = Config::default().with_policy(policy).with_idle(Some(IdleTime::default()));
    let mut run = Inside::new(Arc::clone(drive), config, issuer, Background::None)?;
    run.core_mut().set_mimic(mimic);
    let (mut means, mut sum) = (Vec::new(), 0.0);
    for _ in 0..PARTS {
        run.advance(requests / PARTS, &mut Nothing)?;
        let now = run.report().foreground;
        let sum_now = now.mean_access_ms * now.requests as f64;
        means.push((sum_now - sum) / (requests / PARTS) as f64);
        sum = sum_now;
    }
    Ok((means, run.core_mut().set_mimic(None)))
}

/// Returns a table of all distances within the area, probed through the drive's firmware.
fn probed(profile: &Profile, samples: u32, check_points: CheckPoints) -> Outcome<(Table, ProbeReport)> {
    let mut drive = Drive::new(profile)?;
    let capacity = drive.model().layout().capacity();
    let reach = Some(Sectors::new(AREA_BYTES.get() / drive.model().sector_bytes().get()));
    let plan = ProbePlan { samples, check_points, reach, ..ProbePlan::new(capacity, Sectors::new(8)) };
    let (mut prober, mut now) = (Prober::new(plan)?, Instant::ZERO);
    while let Some(access) = prober.next() {
        drive.submit(now, Command { id: RequestId::new(0), op: access.op, range: access.range })?;
        let done = loop {
            drive.advance(drive.next_event().ok_or("a command has no end")?);
            if let Some(done) = drive.pop_completion() {
                break done.at;
            }
        };
        prober.done(done.since(now));
        now = done;
    }
    Ok(prober.finish())
}

fn main() -> Outcome<()> {
    let requests = std::env::args().nth(1).map_or(Ok(200_000), |text| text.parse())?;
    compare(requests)
}

fn compare(requests: u64) -> Outcome<()> {
    let profile = builtin::find("mimic-base")?;
    let drive = Arc::new(DriveModel::from_profile(&profile)?);
    let base = LearnerConfig::new(drive.layout().capacity(), Sectors::new(8));
    let plain = LearnerConfig { check_points: CheckPoints::NONE, ..base };
    let smtf = |unknown, base| PolicyName::Smtf(SmtfRule::new(unknown, base));
    let set = smtf(Unknown::Set, Base::Sstf);
    let busy = Arrival::outstanding(20);
    println!(
        "mimic-base, blocks of 4 KB in {} MB, 20 outstanding, {requests} requests",
        AREA_BYTES.get() >> 20
    );
    println!("mean access time in ms\n");
    println!("{:42} {:>27}  known at the end", "", "quarters of the run");
    let row = |name: &str, policy, mimic| -> Outcome<()> {
        let (means, mimic) = run(&drive, policy, busy, mimic, requests)?;
        let means: Vec<String> = means.iter().map(|ms| format!("{ms:6.3}")).collect();
        let known = mimic.as_deref().and_then(known).map_or(String::new(), |known| known.to_string());
        println!("{name:42} {}  {known:>8}", means.join(" "));
        Ok(())
    };
    row("SSTF", PolicyName::Sstf, None)?;
    row("C-LOOK", PolicyName::CLook, None)?;
    row("SPTF", PolicyName::Sptf, None)?;
    let rules = [
        ("off-line, every distance", CheckPoints::NONE),
        ("off-line, Table 2", CheckPoints::TABLE_2),
        ("off-line, careful", CheckPoints::CAREFUL),
    ];
    for (name, check_points) in rules {
        let (table, report) = probed(&profile, if requests < 1_000 { 1 } else { 10 }, check_points)?;
        let name = format!("{name}: {:.0}% interpolated", report.interpolated() * 100.0);
        row(&name, set, Some(Box::new(table)))?;
    }
    let online = [
        ("Online-Priority, C-LOOK", smtf(Unknown::Priority, Base::CLook), plain),
        ("Online-Priority, SSTF", smtf(Unknown::Priority, Base::Sstf), plain),
        ("Online-Set, C-LOOK", smtf(Unknown::Set, Base::CLook), plain),
        ("Online-Set, SSTF", set, plain),
        ("Online-Set, SSTF, Table 2", set, base),
        ("Online-Set, SSTF, careful", set, LearnerConfig { check_points: CheckPoints::CAREFUL, ..base }),
        ("Online-Set, SSTF, known from 2 samples", set, LearnerConfig { minimum_samples: 2, ..plain }),
        ("Online-Set, SSTF, known from 4 samples", set, LearnerConfig { minimum_samples: 4, ..plain }),
    ];
    for (name, policy, config) in online {
        row(name, policy, Some(Box::new(Learner::new(config, None)?)))?;
    }
    // Ten tasks have a think time of 300 ms each, so there is rarely a queue, and some idle time.
    let think = Think::Constant(Duration::from_millis(300));
    let quiet = Arrival::Closed(Closed { tasks: 10, think });
    for (name, probe_idle) in
        [("after a quiet spell", false), ("after a quiet spell, probing in idle time", true)]
    {
        let learner = Learner::new(LearnerConfig { probe_idle, ..plain }, None)?;
        let (means, mimic) = run(&drive, set, quiet, Some(Box::new(learner)), requests / 4)?;
        println!("  quiet, {} requests: {:.3} ms", requests / 4, means.iter().sum::<f64>() / PARTS as f64);
        row(name, set, mimic)?;
    }
    Ok(())
}

/// Returns the number of distances that a learner knows.
fn known(mimic: &dyn Mimic) -> Option<u64> {
    let mimic: &dyn std::any::Any = mimic;
    mimic.downcast_ref::<Learner>().map(|learner| learner.stats().known)
}

#[test]
fn the_example_runs() {
    compare(400).expect("every row runs");
}
