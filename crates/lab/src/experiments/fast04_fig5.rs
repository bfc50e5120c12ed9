//! FAST'04, figure 5: a scan's bandwidth at every utilisation of the drive, and its cost to the foreground.

use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread,
};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{AnyCore, Config, Harm, IdleTime, OutsideConfig, Parameter, Priority, Record, SessionError};
use sim::{Background, HeadNanos, Inside, Nothing, Observer, Outside, Report, black_box};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId};
use workload::{Arrival, Issuer, Random, RandomConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig5",
    paper: Paper::Fast04,
    reproduces: "figure 5",
    title: "Efficiency of the freeblock subsystem",
    set_up: "Atlas 10K, SPTF, in the drive. The synthetic foreground: 4 KB, two reads a write, anywhere; arrivals are a Poisson \
             process whose rate makes the utilisation, at 100% two requests are outstanding at all times. A scan of the \
             whole drive in blocks of 16 KB registers each block again when all others have come, or after 10 s: until then it is under \
             the head, and to read it again is no progress. The same arrivals are served \
             without it. Once more with idle time used after 20 ms only; outside the drive (default noise, \
             0.3 ms of conservatism, harm bounded to 1%), by SPTF and in order of arrival (there, from 80% on, ten times \
             as many requests); and with a request in 12 s, 30 s, and when full in 5 min and an hour over a day, where blocks are of 128 KB.",
    claims: &["fast04-fig5"],
    timed: false,
    run,
};

/// The foreground's utilisation of the drive, in percent.
const UTILISATION_PERCENTS: [u64; 13] = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100];

/// The utilisation, in percent, from which queues are long.
const LONG_QUEUES_PERCENT_MIN: u64 = 80;

/// Sparse foregrounds: mean seconds between two requests, and the requests in the quick and the full size.
const SELDOM: [(u64, u64, u64); 4] = [(12, 300, 2_000), (30, 300, 1_000), (300, 0, 288), (3_600, 0, 24)];

/// The times between two requests of sparse foregrounds, in words.
const SELDOM_NAMES: [&str; 4] = ["12 s", "30 s", "5 min", "an hour"];

/// The size of the scan's blocks.
const BLOCK: Bytes = Bytes::new(16 * 1024);

/// The size of the scan's blocks beside a sparse foreground. It is larger because most of the drive is read many
/// times.
const LARGE_BLOCK: Bytes = Bytes::new(128 * 1024);

/// The time until a block that was read is wanted again.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);

/// The place of the scheduler's core, in or outside the drive, and its use of idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CorePlace {
    /// In the drive; idle time is used from its beginning.
    Inside,
    /// In the drive; idle time is used only after 20 ms.
    LongOnly,
    /// Outside, over a drive with noise.
    Outside,
    /// Outside, with the foreground in order of arrival: a late request delays all after it.
    OutsideInOrder,
}

/// The conservatism of the core outside: the lower of FAST'02's two values for this drive.
const CONSERVATISM: Duration = Duration::from_micros(300);

/// The foreground load.
#[derive(Clone, Copy, Debug)]
enum ForegroundLoad {
    /// A share of the drive's throughput, in percent.
    Percent(u64),
    /// A mean time between two requests.
    Apart(Duration),
}

/// The results of a run with the scan, compared with the same run without.
struct ScanPair {
    /// The foreground's share of the head's time without the scan, in percent.
    utilisation: f64,
    mb_per_s: f64,
    /// The part of `mb_per_s` in gaps.
    in_gaps: f64,
    /// The growth of the mean response time, in percent.
    slower: f64,
    /// The growth of the mean response time by the core's estimate, in percent.
    accounted: f64,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let requests = lab.pick(4_000, 40_000);
    let seeds = lab.pick(1, 3);
    let all = |host| {
        let drive = &drive;
        lab.map_seeds(UTILISATION_PERCENTS, seeds, move |&percent, seed| {
            // In a long queue a revolution lost to noise in only one of the two runs delays hundreds of requests.
            let in_long_queues = host == CorePlace::OutsideInOrder && percent >= LONG_QUEUES_PERCENT_MIN;
            let requests = if in_long_queues { requests * 10 } else { requests };
            pair(drive, ForegroundLoad::Percent(percent), host, requests, seed)
        })
    };
    let (points, long_only) = (all(CorePlace::Inside)?, all(CorePlace::LongOnly)?);
    let (outside, in_order) = (all(CorePlace::Outside)?, all(CorePlace::OutsideInOrder)?);
    let spreads = |points: &[Vec<ScanPair>], value: fn(&ScanPair) -> f64| -> Vec<Spread> {
        points.iter().map(|p| Spread::of(&p.iter().map(value).collect::<Vec<_>>())).collect()
    };
    let over = |value| spreads(&points, value);
    let (utilisation, rate, in_gaps) = (over(|p| p.utilisation), over(|p| p.mb_per_s), over(|p| p.in_gaps));
    let slower = over(|p| p.slower);
    let rate_long_only = spreads(&long_only, |p| p.mb_per_s);
    let (rate_outside, slower_outside) = (spreads(&outside, |p| p.mb_per_s), spreads(&outside, |p| p.slower));
    let (rate_in_order, slower_in_order) =
        (spreads(&in_order, |p| p.mb_per_s), spreads(&in_order, |p| p.slower));
    let lowest = |rate: &[Spread]| {
        let least = (0..UTILISATION_PERCENTS.len())
            .min_by(|a, b| rate[*a].mean.total_cmp(&rate[*b].mean))
            .unwrap_or(0);
        (utilisation[least], rate[least])
    };
    let (least_at, slowest) = lowest(&rate);
    let busier = rate.iter().skip(1).map(|r| r.mean).fold(f64::EPSILON, f64::max);
    let fastest_when_idle = rate.first().map_or(0.0, |idle| idle.mean) / busier;
    let (outside_at, outside_slowest) = lowest(&rate_outside);
    let (long_only_at, long_only_slowest) = lowest(&rate_long_only);
    let counted =
        SELDOM.iter().zip(SELDOM_NAMES).map(|(&(s, quick, full), name)| (s, lab.pick(quick, full), name));
    let counted: Vec<_> = counted.filter(|(_, requests, _)| *requests > 0).collect();
    let seldom = lab.map_seeds(&counted, seeds, |&&(seconds, requests, _), seed| {
        pair(&drive, ForegroundLoad::Apart(Duration::from_secs(seconds)), CorePlace::Inside, requests, seed)
    })?;
    let reported: Vec<String> = counted
        .iter()
        .zip(&seldom)
        .map(|((_, requests, name), pairs)| {
            let of = |value: fn(&ScanPair) -> f64| Spread::of(&pairs.iter().map(value).collect::<Vec<_>>());
            format!(
                "{requests} requests {name} apart {}% (by the account {}%; {} MB/s)",
                of(|p| p.slower),
                of(|p| p.accounted),
                of(|p| p.mb_per_s)
            )
        })
        .collect();
    let slower_of = |pairs: &Vec<ScanPair>| Spread::of(&pairs.iter().map(|p| p.slower).collect::<Vec<_>>());
    // With fewer than a hundred requests a single late one is more than 1% of them, so those cases have measures of
    // their own.
    let (many, few): (Vec<_>, Vec<_>) =
        counted.iter().zip(&seldom).partition(|((_, requests, _), _)| *requests >= 100);
    let seldom_slower: Vec<Spread> = many.iter().map(|(_, pairs)| slower_of(pairs)).collect();
    let highest = |slower: &[Spread]| {
        slower.iter().copied().max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(Spread::of(&[]))
    };
    let mut claim = Claim::new("fast04-fig5", "progress at every utilisation, least at 40-60%; foreground < 2% slower")
        .measure("least progress at", least_at, "% utilisation", Band::Within(30.0, 70.0))
        .measure("progress of an idle drive, by the most of any other", fastest_when_idle, "", Band::AtLeast(1.0))
        .measure("foreground slower, at worst", highest(&slower), "%", Band::AtMost(2.0))
        .measure("with a request in 12 s and less often", highest(&seldom_slower), "%", Band::AtMost(2.0))
        .measure("outside the drive: foreground slower, at worst", highest(&slower_outside), "%", Band::AtMost(2.0))
        .measure("outside the drive, in order of arrival: at worst", highest(&slower_in_order), "%", Band::AtMost(2.0))
        .note(format!(
            "In the drive a read on the track under the head can be stopped at any instant at no cost, so short idle periods are \
             worth as much as long ones, and progress falls steadily to that of a busy drive, {} MB/s at least. The paper's reads \
             are SCSI commands, which a new request has to wait for, so short idle periods brought it little. If idle time is \
             used after 20 ms only, there is a dip: {} MB/s at {}%. Outside the drive the least progress is {} MB/s, at {}%, with \
             the foreground {}% slower at worst, and {}% in order of arrival: there a visit in idle time cannot be stopped, so the \
             estimate of harm forbids most visits at low utilisation. Where requests are rare, harm is bounded by 1% and by the \
             delay of a few requests (scheduler/src/idle.rs): {}.",
            slowest,
            long_only_slowest,
            long_only_at,
            outside_slowest,
            outside_at,
            highest(&slower_outside),
            highest(&slower_in_order),
            reported.join("; "),
        ));
    for ((_, _, name), pairs) in few {
        claim = claim.measure(&format!("with a request in {name}"), slower_of(pairs), "%", Band::AtMost(2.0));
    }
    let line = |label: &str, values: &[Spread]| Line {
        label: label.into(),
        points: utilisation
            .iter()
            .zip(values)
            .map(|(x, y)| Point { x: x.mean, y: y.mean, spread: Some((y.min, y.max)) })
            .collect(),
    };
    let rates = Figure {
        id: "fast04-fig5".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("utilisation (%)"),
        y: Axis::new("free bandwidth (MB/s)"),
        kind: Kind::Lines(vec![
            line("outside the drive", &rate_outside),
            line("outside, in order of arrival", &rate_in_order),
            line("inside", &rate),
            line("inside, in rotational gaps", &in_gaps),
            line("inside, idle time after 20 ms only", &rate_long_only),
        ]),
    };
    let harm = Figure {
        id: "fast04-fig5-harm".into(),
        title: "Cost to the foreground".into(),
        x: Axis::new("utilisation (%)"),
        y: Axis::new("longer mean response (%)"),
        kind: Kind::Lines(vec![
            line("outside the drive", &slower_outside),
            line("outside, in order of arrival", &slower_in_order),
            line("inside", &slower),
            line("inside, as the core accounts for it", &over(|p| p.accounted)),
        ]),
    };
    Ok(Outcome { figures: vec![rates, harm], claims: vec![claim], notes: Vec::new() })
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("a synthetic load", error)
}

/// Runs a foreground of this number of requests, with the scan and without.
fn pair(
    drive: &Arc<DriveModel>,
    foreground: ForegroundLoad,
    host: CorePlace,
    requests: u64,
    seed: u64,
) -> Result<ScanPair, LabError> {
    let load = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let (arrival, block) = match foreground {
        ForegroundLoad::Apart(apart) => (Arrival::Poisson { rate: 1.0 / apart.as_secs_f64() }, LARGE_BLOCK),
        ForegroundLoad::Percent(0) => (Arrival::Silent, BLOCK),
        ForegroundLoad::Percent(100) => (Arrival::outstanding(2), BLOCK),
        ForegroundLoad::Percent(percent) => {
            let rate = one_at_a_time(drive, host.config(seed), load, seed)? * percent as f64 / 100.0;
            (Arrival::Poisson { rate }, BLOCK)
        }
    };
    let silent = matches!(foreground, ForegroundLoad::Percent(0));
    let issuer = || {
        let source = Random::new(load, seed).map_err(failed)?;
        Issuer::new(source, arrival, Instant::ZERO, seed).map_err(failed)
    };
    let mut plain = Running::start(drive, host, issuer()?, seed)?;
    if !silent {
        plain.advance(requests, &mut Nothing)?;
    }
    let plain = plain.report();
    let mut busy = Running::start(drive, host, issuer()?, seed)?;
    let mut scan = EndlessScan::start(busy.core_mut(), drive, block)?;
    if silent {
        // A run without requests cannot end at a number of requests; a quarter of an hour is enough to show the
        // scan's rate.
        busy.advance_to(Instant::ZERO + Duration::from_secs(900), &mut scan)?;
    } else {
        busy.advance(requests, &mut scan)?;
    }
    if let Some(error) = scan.refused {
        return Err(failed(error));
    }
    let (report, seconds) = (busy.report(), busy.now().since(Instant::ZERO).as_secs_f64());
    let head: HeadNanos = busy.head();
    let mb_per_s = scan.bytes as f64 / 1e6 / seconds;
    let transfer = (head.free_transfer + head.idle_transfer).as_secs_f64().max(1e-9);
    let before = plain.foreground.mean_response_ms;
    Ok(ScanPair {
        utilisation: if silent { 0.0 } else { (1.0 - plain.head_time.idle) * 100.0 },
        mb_per_s,
        in_gaps: mb_per_s * head.free_transfer.as_secs_f64() / transfer,
        slower: if silent { 0.0 } else { (report.foreground.mean_response_ms / before - 1.0) * 100.0 },
        accounted: busy.harm().share() * 100.0,
    })
}

impl CorePlace {
    /// Returns the core's configuration at this place.
    fn config(self, seed: u64) -> Config {
        let idle = IdleTime::default().with_short(self != Self::LongOnly);
        let policy = if self == Self::OutsideInOrder { PolicyName::Fcfs } else { PolicyName::Sptf };
        Config::default().with_policy(policy).with_idle(Some(idle)).with_seed(seed)
    }
}

/// A run with the core in the drive or outside.
enum Running {
    Inside(Box<Inside<Random>>),
    Outside(Box<Outside<Random>>),
}

/// Evaluates an expression with the run, wherever its core is.
macro_rules! either {
    ($self:ident, $run:ident => $what:expr) => {
        match $self {
            Running::Inside($run) => $what,
            Running::Outside($run) => $what,
        }
    };
}

impl Running {
    fn start(
        drive: &Arc<DriveModel>,
        host: CorePlace,
        foreground: Issuer<Random>,
        seed: u64,
    ) -> Result<Self, LabError> {
        let (drive, config) = (Arc::clone(drive), host.config(seed));
        if matches!(host, CorePlace::Inside | CorePlace::LongOnly) {
            let run = Inside::new(drive, config, foreground, Background::None).map_err(failed)?;
            return Ok(Self::Inside(Box::new(run)));
        }
        let profile = builtin::find(ATLAS_10K).map_err(failed)?;
        let (device, overheads) = black_box(&profile, Behaviour::fast02(), seed).map_err(failed)?;
        let outside = OutsideConfig::paper(overheads, CONSERVATISM).with_harm_ppm(Some(10_000));
        let config = config.with_outside(outside);
        let run = Outside::new(device, drive, config, foreground, Background::None).map_err(failed)?;
        Ok(Self::Outside(Box::new(run)))
    }

    fn advance(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, LabError> {
        either!(self, run => run.advance(requests, observer).map_err(failed))
    }

    fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), LabError> {
        either!(self, run => run.advance_to(end, observer).map_err(failed))
    }

    fn core_mut(&mut self) -> &mut dyn AnyCore {
        either!(self, run => run.core_mut())
    }

    fn now(&self) -> Instant {
        either!(self, run => run.now())
    }

    fn head(&self) -> HeadNanos {
        either!(self, run => run.head())
    }

    fn harm(&self) -> Harm {
        either!(self, run => run.harm())
    }

    fn report(&self) -> Report {
        either!(self, run => run.report())
    }
}

/// Returns the requests a second that the drive does one at a time.
fn one_at_a_time(
    drive: &Arc<DriveModel>,
    config: Config,
    load: RandomConfig,
    seed: u64,
) -> Result<f64, LabError> {
    Ok(crate::set_up::random_run(drive, config, load, 1, seed)?.foreground.iops)
}

/// A scan without an end. A block that was read is wanted again when all others have been read, or [`REREAD_INTERVAL`]
/// later.
struct EndlessScan {
    session: SessionId,
    block: Sectors,
    sector: Bytes,
    bytes: u64,
    /// The ranges that were read and are not wanted again yet, with the instants of reading.
    had: VecDeque<(Instant, LbnRange)>,
    /// The number of sectors that are wanted.
    wanted: Sectors,
    refused: Option<SessionError>,
}

impl EndlessScan {
    fn start(core: &mut dyn AnyCore, drive: &DriveModel, block: Bytes) -> Result<Self, LabError> {
        let block = Sectors::new(block.get() / drive.sector_bytes().get());
        let session = core.open(Priority::default()).map_err(failed)?;
        let wanted = drive.layout().capacity();
        let whole = LbnRange::new(Lbn::ZERO, wanted);
        core.read(session, whole, block, Parameter::default()).map_err(failed)?;
        let (bytes, had) = (0, VecDeque::new());
        Ok(Self { session, block, sector: drive.sector_bytes(), bytes, had, wanted, refused: None })
    }
}

impl Observer for EndlessScan {
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, now: Instant) {
        self.bytes += record.range.len().bytes(self.sector).get();
        self.had.push_back((now, record.range));
        self.wanted = Sectors::new(self.wanted.get().saturating_sub(record.range.len().get()));
        let all_had = self.wanted == Sectors::ZERO;
        while let Some(&(when, range)) = self.had.front() {
            if !all_had && now.since(when) < REREAD_INTERVAL {
                break;
            }
            self.had.pop_front();
            self.wanted += range.len();
            if let Err(error) = core.read(self.session, range, self.block, Parameter::default()) {
                self.refused = Some(error);
            }
        }
    }
}
