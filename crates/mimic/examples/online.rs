//! What the on-line ways of ATC'03, section 6, are worth, its two open ideas among them, on a simulated drive: mean access
//! times of SMTF in the drive while it learns, beside those of its bases and of SPTF, which knows the drive.
//!
//! `cargo run --release -p freeblock-mimic --example online [REQUESTS]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use mimic::{CheckPoints, Learner, LearnerConfig};
use model::{DriveModel, builtin};
use scheduler::policy::{Base, PolicyName, SmtfRule, Unknown};
use scheduler::{Config, IdleTime};
use sim::{Background, Inside, Nothing};
use std::error::Error;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Sectors};
use workload::{Arrival, Closed, Issuer, Random, RandomConfig, Think};

/// Parts of the run whose means are told.
const PARTS: u64 = 4;

/// Blocks of 4 KB in the first so many bytes: what a file system keeps together.
const SPAN: Bytes = Bytes::new(64 << 20);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Mean access times in each part of the run, in milliseconds; and what is known afterwards.
fn run(
    drive: &Arc<DriveModel>,
    policy: PolicyName,
    arrival: Arrival,
    learner: Option<LearnerConfig>,
    requests: u64,
) -> Outcome<(Vec<f64>, u64)> {
    let span = Sectors::new(SPAN.get() / drive.sector_bytes().get());
    let source = Random::new(RandomConfig::new(span, drive.sector_bytes()), 7)?;
    let issuer = Issuer::new(source, arrival, Instant::ZERO, 7)?;
    let config = Config { policy, idle: Some(IdleTime::default()), ..Config::default() };
    let mut run = Inside::new(Arc::clone(drive), config, issuer, Background::None)?;
    if let Some(config) = learner {
        run.core_mut().set_mimic(Some(Box::new(Learner::new(config, None)?)));
    }
    let (mut means, mut sum) = (Vec::new(), 0.0);
    for part in 1..=PARTS {
        run.advance(requests / PARTS, &mut Nothing)?;
        let now = run.report().foreground;
        let sum_now = now.mean_access_ms * now.requests as f64;
        means.push((sum_now - sum) / (requests / PARTS) as f64);
        sum = sum_now;
        debug_assert_eq!(now.requests, part * (requests / PARTS));
    }
    let mimic: Option<&dyn std::any::Any> = run.core().mimic().map(|mimic| mimic as _);
    let known = mimic.and_then(|mimic| mimic.downcast_ref::<Learner>()).map_or(0, |l| l.stats().known);
    Ok((means, known))
}

fn main() -> Outcome<()> {
    let requests = std::env::args().nth(1).map_or(Ok(200_000), |text| text.parse())?;
    compare(requests)
}

fn compare(requests: u64) -> Outcome<()> {
    let drive = Arc::new(DriveModel::from_profile(&builtin::find("mimic-base")?)?);
    let capacity = drive.layout().capacity();
    let base = LearnerConfig::new(capacity, Sectors::new(8));
    let plain = LearnerConfig { check_points: CheckPoints::NONE, ..base };
    let smtf = |unknown, base| PolicyName::Smtf(SmtfRule { unknown, base });
    let set = smtf(Unknown::Set, Base::Sstf);
    let busy = Arrival::outstanding(20);
    // Ten tasks that think for 300 ms each: a queue now and then, idle time as well.
    let think = Think::Constant(Duration::from_millis(300));
    let idle = Arrival::Closed(Closed { tasks: 10, think });
    let rows: Vec<(&str, PolicyName, Arrival, Option<LearnerConfig>)> = vec![
        ("SSTF", PolicyName::Sstf, busy, None),
        ("C-LOOK", PolicyName::CLook, busy, None),
        ("SPTF", PolicyName::Sptf, busy, None),
        ("Online-Priority, C-LOOK", smtf(Unknown::Priority, Base::CLook), busy, Some(plain)),
        ("Online-Priority, SSTF", smtf(Unknown::Priority, Base::Sstf), busy, Some(plain)),
        ("Online-Set, C-LOOK", smtf(Unknown::Set, Base::CLook), busy, Some(plain)),
        ("Online-Set, SSTF", set, busy, Some(plain)),
        ("Online-Set, SSTF, interpolated", set, busy, Some(base)),
        (
            "Online-Set, SSTF, interpolated carefully",
            set,
            busy,
            Some(LearnerConfig { check_points: CheckPoints::CAREFUL, ..base }),
        ),
        (
            "Online-Set, SSTF, known from 2 samples",
            set,
            busy,
            Some(LearnerConfig { minimum_samples: 2, ..plain }),
        ),
        (
            "Online-Set, SSTF, known from 4 samples",
            set,
            busy,
            Some(LearnerConfig { minimum_samples: 4, ..plain }),
        ),
        ("with pauses: SSTF", PolicyName::Sstf, idle, None),
        ("with pauses: SPTF", PolicyName::Sptf, idle, None),
        ("with pauses: Online-Set, SSTF", set, idle, Some(plain)),
        ("with pauses: probing in idle time", set, idle, Some(LearnerConfig { probe_idle: true, ..plain })),
    ];
    println!(
        "mimic-base, blocks of 4 KB in {} MB, {requests} requests; mean access time in ms\n",
        SPAN.get() >> 20
    );
    println!("{:42} {:>28}  known at the end", "", "quarters of the run");
    for (name, policy, arrival, learner) in rows {
        let (means, known) = run(&drive, policy, arrival, learner, requests)?;
        let means: Vec<String> = means.iter().map(|ms| format!("{ms:6.3}")).collect();
        println!("{name:42} {}  {known:8}", means.join(" "));
    }
    Ok(())
}

#[test]
fn it_runs() {
    compare(400).expect("every row runs");
}
