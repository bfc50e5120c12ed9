//! OSDI'00, section 4: what one decision of the freeblock scheduler costs.

use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use model::DriveModel;
use scheduler::{Action, Config, Core, Parameter, Priority, Request, Sessions};
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Instant, Lbn, LbnRange, RequestId, Sectors};
use workload::random::Stream;
use workload::{Oltp, OltpConfig, Share, Source};

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-cost",
    paper: Paper::Osdi00,
    reproduces: "section 4",
    title: "Time of one freeblock decision",
    set_up: "Atlas 10K, OLTP requests, ten outstanding, first come first served, the default search budget. Timed is \
             the whole call that chooses the next request and fills its gap, on one core of this machine, while a \
             scan in blocks of 4 KB has so much of the disk left; and with 1% of the blocks wanted at random places.",
    claims: &["osdi00-cost"],
    timed: true,
    run,
};

/// Sectors of 512 bytes in a block of 4 KB.
const BLOCK: u64 = 8;

/// Percent of the disk that is wanted when the timing begins.
const LEVELS: [u64; 5] = [100, 50, 20, 5, 1];

/// The paper's ten tasks without their thinking: there is always somebody to choose.
const OUTSTANDING: u64 = 10;

fn failed(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LabError {
    LabError::new("timing decisions", e)
}

/// A core that is believed in its own predictions, so that nothing but it runs.
struct Bench {
    core: Core,
    load: Oltp,
    now: Instant,
    next: u64,
}

impl Bench {
    fn new(drive: &Arc<DriveModel>, seed: u64) -> Result<Self, LabError> {
        let config = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
        let mut bench = Self {
            core: Core::new(Arc::clone(drive), Config::default()),
            load: Oltp::new(config, seed).map_err(failed)?,
            now: Instant::ZERO,
            next: 0,
        };
        for _ in 0..OUTSTANDING {
            bench.submit()?;
        }
        Ok(bench)
    }

    fn submit(&mut self) -> Result<(), LabError> {
        if let Some(request) = self.load.next_request() {
            let id = RequestId::new(self.next);
            self.next += 1;
            let request = Request { id, op: request.op, range: request.range };
            self.core.submit(self.now, request).map_err(failed)?;
        }
        Ok(())
    }

    /// One decision, in nanoseconds.
    fn decide(&mut self) -> Result<u64, LabError> {
        let mut nanos = 0;
        loop {
            let clock = Clock::now();
            let Some(action) = self.core.poll(self.now) else { break };
            let took = clock.elapsed();
            match action {
                Action::Execute => {
                    nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                    self.now = self.core.busy_until().unwrap_or(self.now);
                    break;
                }
                Action::Completed(_) | Action::Deliver(_) | Action::Cut | Action::Failed { .. } => {}
            }
        }
        self.core.completed(self.now);
        self.submit()?;
        Ok(nanos)
    }
}

/// Times of decisions, ascending.
struct Times {
    label: String,
    nanos: Vec<u64>,
}

impl Times {
    fn new(label: String, mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self { label, nanos }
    }

    /// In microseconds.
    fn quantile(&self, q: f64) -> f64 {
        let last = self.nanos.len().saturating_sub(1);
        self.nanos.get((last as f64 * q).round() as usize).map_or(f64::NAN, |&n| n as f64 / 1e3)
    }
}

/// As a scan leaves the disk.
fn by_scan(drive: &Arc<DriveModel>, seed: u64, samples: u64) -> Result<Vec<Times>, LabError> {
    let mut bench = Bench::new(drive, seed)?;
    let session = bench.core.open(Priority::default()).map_err(failed)?;
    let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
    bench.core.read(session, whole, Sectors::new(BLOCK), Parameter::default()).map_err(failed)?;
    let all = bench.core.undelivered(session).unwrap_or(0);
    let mut times = Vec::new();
    for level in LEVELS {
        while bench.core.undelivered(session).is_some_and(|left| left * 100 > all * level) {
            bench.decide()?;
        }
        let nanos = (0..samples).map(|_| bench.decide()).collect::<Result<_, _>>()?;
        times.push(Times::new(format!("{level}% left by a scan"), nanos));
    }
    Ok(times)
}

/// Blocks at random places, each registered by itself.
fn scattered(drive: &Arc<DriveModel>, seed: u64, samples: u64) -> Result<Times, LabError> {
    let mut bench = Bench::new(drive, seed)?;
    let session = bench.core.open(Priority::default()).map_err(failed)?;
    let mut stream = Stream::new(seed, "lab.cost");
    let share = Share::new(1, 100).map_err(failed)?;
    for block in 0..drive.layout().capacity().get() / BLOCK {
        if stream.chance(share) {
            let range = LbnRange::new(Lbn::new(block * BLOCK), Sectors::new(BLOCK));
            bench.core.read(session, range, Sectors::new(BLOCK), Parameter::default()).map_err(failed)?;
        }
    }
    let nanos = (0..samples).map(|_| bench.decide()).collect::<Result<_, _>>()?;
    Ok(Times::new("1% at random places".into(), nanos))
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let samples = lab.pick(2_000, 10_000);
    // One after the other: what is timed should have a core for itself.
    let mut times = by_scan(&drive, lab.seed(), samples)?;
    times.push(scattered(&drive, lab.seed(), lab.pick(1_000, 3_000))?);

    let mut claim =
        Claim::new("osdi00-cost", "0-2.5 ms on a 550 MHz Pentium III, 20-100% of the disk wanted");
    for times in times.iter().take(3) {
        claim = claim
            .measure(&format!("median, {}", times.label), times.quantile(0.5), " us", Band::AtMost(3.0))
            .measure(&format!("99%, {}", times.label), times.quantile(0.99), " us", Band::AtMost(50.0));
    }
    if let Some(last) = times.last() {
        claim =
            claim.measure(&format!("99%, {}", last.label), last.quantile(0.99), " us", Band::AtMost(100.0));
    }
    let claim = claim.note(
        "The budget is this project's own; the paper's times are hundreds of times as long. A median above 3 us is the \
         price of a search budget of 75 tracks a gap: the less is wanted, the more of it is used. docs/BENCHMARKS.md \
         says where the time goes; these are single runs on whatever else the machine was doing.",
    );
    let row = |t: &Times| {
        let q = |q: f64| format!("{:.1}", t.quantile(q));
        vec![t.label.clone(), t.nanos.len().to_string(), q(0.5), q(0.9), q(0.99), q(1.0)]
    };
    let columns = ["wanted", "decisions", "median us", "90% us", "99% us", "most us"];
    let curve = |t: &Times| {
        Line::new(
            &t.label,
            (0..=99).map(|percent| (t.quantile(f64::from(percent) / 100.0), f64::from(percent))),
        )
    };
    let figures = vec![
        Figure {
            id: "osdi00-cost".into(),
            title: "Decisions that took no longer".into(),
            x: Axis::new("time of a decision (us)"),
            y: Axis::between("share of decisions (%)", 0.0, 100.0),
            kind: Kind::Lines(times.iter().map(curve).collect()),
        },
        Figure {
            id: "osdi00-cost-numbers".into(),
            title: "Time of one decision".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table {
                columns: columns.map(String::from).to_vec(),
                rows: times.iter().map(row).collect(),
            },
        },
    ];
    Ok(Outcome { figures, claims: vec![claim], notes: Vec::new() })
}
