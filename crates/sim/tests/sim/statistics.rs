//! The statistics of each host, compared with sums over its requests.

use drive::{Behaviour, Served};
use freeblock_sim::{
    Background, Direct, Finished, ForegroundReport, Inside, Observer, Outside, Report, Series, black_box,
};
use model::{DriveModel, builtin};
use scheduler::{Config, OutsideConfig, Request};
use std::sync::Arc;
use units::{Duration, Instant};
use workload::{Arrival, Issuer, Random, RandomConfig};

/// The requests of a run in the order of their completion, and the arrivals.
#[derive(Default)]
struct Kept {
    arrivals: Vec<Instant>,
    done: Vec<Finished>,
}

impl Observer for Kept {
    fn arrived(&mut self, _: Request, at: Instant) {
        self.arrivals.push(at);
    }

    fn finished(&mut self, done: &Finished) {
        self.done.push(*done);
    }
}

/// A host of any kind.
#[expect(clippy::large_enum_variant, reason = "a test has one at a time")]
enum AnyHost {
    Inside(Inside<Random>),
    Outside(Outside<Random>),
    Device(Direct<drive::Drive, Random>),
}

const HOSTS: [&str; 3] = ["inside", "outside", "device"];

impl AnyHost {
    /// Returns a host with 60 random requests a second on an Atlas 10K.
    fn new(name: &str) -> Self {
        let profile = builtin::find("quantum-atlas-10k").unwrap();
        let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
        let load = RandomConfig::new(known.layout().capacity(), known.sector_bytes());
        let source = Random::new(load, 7).unwrap();
        let load = Issuer::new(source, Arrival::Poisson { rate: 60.0 }, Instant::ZERO, 7).unwrap();
        let config = Config::default();
        match name {
            "inside" => Self::Inside(Inside::new(known, config, load, Background::None).unwrap()),
            "outside" => {
                let (drive, overheads) = black_box(&profile, Behaviour::fast02(), 7).unwrap();
                let config = config.with_outside(OutsideConfig::beyond(overheads));
                Self::Outside(Outside::new(drive, known, config, load, Background::None).unwrap())
            }
            _ => {
                let drive = black_box(&profile, Behaviour::default(), 7).unwrap().0;
                Self::Device(Direct::new(drive, usize::MAX, load))
            }
        }
    }

    fn advance(&mut self, requests: u64, observer: &mut impl Observer) {
        let more = match self {
            Self::Inside(run) => run.advance(requests, observer),
            Self::Outside(run) => run.advance(requests, observer),
            Self::Device(run) => run.advance_observed(requests, observer),
        };
        assert!(more.unwrap());
    }

    fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) {
        match self {
            Self::Inside(run) => run.advance_to(end, observer),
            Self::Outside(run) => run.advance_to(end, observer),
            Self::Device(run) => run.advance_to(end, observer),
        }
        .unwrap();
    }

    fn measure_from_now(&mut self) {
        match self {
            Self::Inside(run) => run.measure_from_now(),
            Self::Outside(run) => run.measure_from_now(),
            Self::Device(run) => run.measure_from_now(),
        }
    }

    fn now(&self) -> Instant {
        match self {
            Self::Inside(run) => run.now(),
            Self::Outside(run) => run.now(),
            Self::Device(run) => run.now(),
        }
    }

    fn report(&self) -> Report {
        match self {
            Self::Inside(run) => run.report(),
            Self::Outside(run) => run.report(),
            Self::Device(run) => run.whole_report(),
        }
    }
}

fn near(name: &str, found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= expected.abs() * share + 1e-9, "{name}: {found} is not {expected}");
}

/// Compares a report with the requests that were completed in its stretch, whose length in seconds is `ran`.
fn check(name: &str, report: &ForegroundReport, done: &[Finished], ran: f64) {
    let mut ms: Vec<f64> = done.iter().map(|done| done.at.since(done.arrived).as_millis_f64()).collect();
    ms.sort_by(f64::total_cmp);
    let n = ms.len() as f64;
    let mean = ms.iter().sum::<f64>() / n;
    let sd = (ms.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    // The smallest response that this share of the requests does not exceed.
    let at = |share: f64| ms[((n * share).ceil() as usize).max(1) - 1];
    assert_eq!(report.requests, ms.len() as u64, "{name}");
    near(name, report.mean_response_ms, mean, 1e-9);
    near(name, report.sd_ms, sd, 1e-9);
    for (found, share) in [
        (report.p50_ms, 0.5),
        (report.p90_ms, 0.9),
        (report.p95_ms, 0.95),
        (report.p99_response_ms, 0.99),
        (report.p999_ms, 0.999),
    ] {
        near(name, found, at(share), 1e-3);
    }
    near(name, report.max_ms, at(1.0), 1e-9);
    let sectors: u64 = done.iter().map(|done| done.request.range.len().get()).sum();
    near(name, report.mb_per_s, sectors as f64 * 512.0 / 1e6 / ran, 1e-9);
    let writes = done.iter().filter(|done| done.request.op.is_write());
    assert_eq!(report.writes.requests, writes.count() as u64, "{name}");
    assert_eq!(report.reads.requests + report.writes.requests, report.requests, "{name}");
}

#[test]
fn every_host_reports_what_its_requests_add_up_to() {
    for name in HOSTS {
        let mut host = AnyHost::new(name);
        let mut kept = Kept::default();
        host.advance(3_000, &mut kept);
        let report = host.report();
        check(name, &report.foreground, &kept.done, report.simulated.as_secs_f64());
        // The integral of the queue length, from the instants of the requests.
        let end = Instant::ZERO + report.simulated;
        let waits = |from: Instant, to: Instant| to.saturating_since(from).as_secs_f64();
        let done: f64 = kept.done.iter().map(|done| waits(done.arrived, done.at)).sum();
        let mut left = kept.arrivals.clone();
        for finished in &kept.done {
            let place = left.iter().position(|at| *at == finished.arrived).unwrap();
            left.swap_remove(place);
        }
        let left: f64 = left.into_iter().map(|at| waits(at, end)).sum();
        near(name, report.foreground.queue_length, (done + left) / report.simulated.as_secs_f64(), 1e-9);
    }
}

#[test]
fn a_request_takes_at_least_its_moves_its_latency_and_its_transfer() {
    for name in HOSTS {
        let mut kept = Kept::default();
        AnyHost::new(name).advance(2_000, &mut kept);
        let mut hits = 0;
        for done in &kept.done {
            assert!(done.arrived <= done.started && done.started <= done.at, "{name}: {done:?}");
            let parts = done.seek + done.rotation + done.transfer;
            if done.served == Some(Served::Buffered) {
                // The head's work for a buffered write comes after the completion.
                hits += 1;
                assert_eq!(done.transfer, Duration::ZERO, "{name}: {done:?}");
            } else if done.served == Some(Served::Hit) {
                assert_eq!(parts, Duration::ZERO, "{name}: {done:?}");
            } else if name == "inside" {
                // With the core in the drive a request takes exactly the time of its parts, because there is no
                // command overhead.
                assert_eq!(done.started + parts, done.at, "{name}: {done:?}");
            } else {
                assert!(done.started + parts <= done.at + Duration::from_millis(1), "{name}: {done:?}");
                assert!(parts > Duration::ZERO, "{name}: {done:?}");
            }
        }
        assert_eq!(hits > 0, name == "device", "{name}: the drive by its file writes back");
    }
}

#[test]
fn a_warm_up_is_left_out_of_everything() {
    for name in HOSTS {
        let mut host = AnyHost::new(name);
        let mut kept = Kept::default();
        host.advance(500, &mut kept);
        kept.done.clear();
        host.measure_from_now();
        let from = host.now();
        host.advance(2_000, &mut kept);
        let report = host.report();
        let ran = report.simulated.as_secs_f64();
        let foreground = report.foreground;
        // With the core inside the drive, the head's time is counted up to the end of the work under way.
        near(name, ran, host.now().since(from).as_secs_f64(), 1e-3);
        check(name, &foreground, &kept.done, foreground.requests as f64 / foreground.iops);
        let head = report.head_time;
        let sum =
            head.seek + head.rotation + head.transfer + head.free_transfer + head.extra_seek + head.idle;
        near(name, sum, 1.0, 1e-9);
        assert!(head.seek > 0.1 && head.idle > 0.1, "{name}: {head:?}");
    }
}

#[test]
fn a_run_ends_at_an_instant() {
    for name in HOSTS {
        let (mut host, mut kept) = (AnyHost::new(name), Kept::default());
        let end = Instant::ZERO + Duration::from_secs(10);
        host.advance_to(end, &mut kept);
        assert_eq!(host.now(), end, "{name}");
        assert!((500..700).contains(&kept.done.len()), "{name}: {}", kept.done.len());
        assert!(kept.done.iter().all(|done| done.at < end), "{name}");
    }
}

#[test]
fn the_intervals_of_a_series_add_up_to_the_run() {
    for name in HOSTS {
        let mut host = AnyHost::new(name);
        let mut series = Series::new(Duration::from_secs(1), units::Bytes::new(512)).unwrap();
        host.advance(1_000, &mut series);
        let intervals = series.finish(host.now()).unwrap();
        let whole = host.report().foreground;
        let sum = |of: fn(&ForegroundReport) -> f64| -> f64 {
            intervals.iter().map(|interval| of(&interval.foreground)).sum()
        };
        assert_eq!(sum(|f| f.requests as f64), 1_000.0, "{name}");
        near(name, sum(|f| f.requests as f64 * f.mean_response_ms), 1_000.0 * whole.mean_response_ms, 1e-9);
        assert!(intervals.windows(2).all(|pair| pair[0].to == pair[1].from), "{name}");
        assert!(intervals.len() > 10, "{name}: {}", intervals.len());
    }
}
