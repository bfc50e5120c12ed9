//! The requested utilisation is the one that a simulated drive has.

use freeblock_sim::{Background, Inside, Nothing, Observer};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, Request};
use std::convert::Infallible;
use std::sync::Arc;
use units::{Duration, Instant};
use workload::{Arrival, Issuer, Measured, Pattern, Synthetic, SyntheticConfig, Utilisation};

fn atlas() -> Arc<DriveModel> {
    Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap())
}

fn start(policy: PolicyName, arrival: Arrival, seed: u64) -> Inside<Synthetic> {
    let drive = atlas();
    let config = SyntheticConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let load = Synthetic::new(config, seed).unwrap();
    let foreground = Issuer::new(load, arrival, Instant::ZERO, seed).unwrap();
    Inside::new(drive, Config::default().with_policy(policy), foreground, Background::None).unwrap()
}

fn busy(run: &Inside<Synthetic>) -> Duration {
    let head = run.head();
    head.seek + head.rotation + head.transfer
}

fn calibrated(policy: PolicyName, percent: f64, pattern: Pattern) -> Arrival {
    let found = Utilisation::from_percent(percent).unwrap().calibrate(pattern, |arrival| {
        let mut run = start(policy, arrival, 1);
        run.advance(20_000, &mut Nothing).unwrap();
        Ok::<_, Infallible>(Measured { requests: run.requests(), busy: busy(&run) })
    });
    found.unwrap().arrival
}

/// Returns the utilisation of a run with another seed than the calibration's, in percent.
fn achieved(policy: PolicyName, arrival: Arrival, requests: u64) -> f64 {
    let mut run = start(policy, arrival, 2);
    run.advance(requests, &mut Nothing).unwrap();
    let share = 1.0 - run.report().head_time.idle;
    share * 100.0
}

#[test]
fn the_drive_is_busy_for_the_requested_share_of_time() {
    for policy in [PolicyName::Fcfs, PolicyName::CLook, PolicyName::Sptf] {
        for asked in testing::some(4, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]) {
            let arrival = calibrated(policy, asked, Pattern::Poisson);
            let got = achieved(policy, arrival, 20_000);
            assert!((got - asked).abs() < 2.0, "{policy}: {got}% for {asked}%");
        }
    }
}

#[test]
fn bursts_keep_the_share_over_all_time() {
    let pattern = Pattern::Bursts { burst: Duration::from_millis(500), silence: Duration::from_secs(1) };
    for asked in [10.0, 20.0, 30.0] {
        let arrival = calibrated(PolicyName::Fcfs, asked, pattern);
        let got = achieved(PolicyName::Fcfs, arrival, 60_000);
        assert!((got - asked).abs() < 2.0, "{got}% for {asked}%");
    }
}

#[test]
fn at_a_hundred_percent_the_head_never_rests() {
    let arrival = calibrated(PolicyName::Sptf, 100.0, Pattern::Poisson);
    let mut run = start(PolicyName::Sptf, arrival, 2);
    run.advance(5_000, &mut Nothing).unwrap();
    assert_eq!(run.report().head_time.idle, 0.0);
}

#[test]
fn at_zero_percent_no_request_arrives() {
    let mut run = start(PolicyName::Fcfs, calibrated(PolicyName::Fcfs, 0.0, Pattern::Poisson), 2);
    assert!(!run.advance(1, &mut Nothing).unwrap());
    assert_eq!(run.requests(), 0);
}

/// Idle periods of the drive: from a completion that leaves it empty to the next arrival.
#[derive(Default)]
struct Idle {
    last: Instant,
    periods: Vec<Duration>,
}

impl Observer for Idle {
    fn completed(&mut self, _: Request, arrived: Instant, at: Instant) {
        // In order of arrival, a request that arrives after the last completion finds the drive empty.
        if let Some(idle) = arrived.checked_since(self.last).filter(|&idle| idle > Duration::ZERO) {
            self.periods.push(idle);
        }
        self.last = at;
    }
}

fn longer_than_20_ms(percent: f64, pattern: Pattern) -> (f64, f64) {
    let arrival = calibrated(PolicyName::Fcfs, percent, pattern);
    let rate = match arrival {
        Arrival::Poisson { rate } | Arrival::Bursts { rate, .. } => rate,
        other => panic!("{other:?}"),
    };
    let mut idle = Idle::default();
    start(PolicyName::Fcfs, arrival, 3).advance(40_000, &mut idle).unwrap();
    let long = idle.periods.iter().filter(|&&idle| idle > Duration::from_millis(20)).count();
    (long as f64 / idle.periods.len() as f64, rate)
}

#[test]
fn idle_periods_of_a_poisson_load_are_exponential() {
    for asked in [10.0, 50.0, 80.0] {
        let (long, rate) = longer_than_20_ms(asked, Pattern::Poisson);
        assert!((long - (-rate * 0.020).exp()).abs() < 0.015, "{asked}%: {long} at {rate} a second");
    }
}

#[test]
fn bursts_have_short_idle_periods_and_long_ones_where_a_poisson_load_has_neither() {
    let pattern = Pattern::Bursts { burst: Duration::from_millis(500), silence: Duration::from_secs(2) };
    let mut idle = Idle::default();
    let arrival = calibrated(PolicyName::Fcfs, 15.0, pattern);
    start(PolicyName::Fcfs, arrival, 3).advance(40_000, &mut idle).unwrap();
    let share = |of: fn(&Duration) -> bool| {
        idle.periods.iter().filter(|idle| of(idle)).count() as f64 / idle.periods.len() as f64
    };
    let short = share(|&idle| idle < Duration::from_millis(20));
    let seconds = share(|&idle| idle > Duration::from_secs(1));
    // At the same utilisation a Poisson load has idle periods of 60 ms on average: 28% are short, 6 in 1e8 last a
    // second.
    assert!(short > 0.6 && seconds > 0.02, "{short} {seconds}");
}
