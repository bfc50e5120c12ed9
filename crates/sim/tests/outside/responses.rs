//! Harm as clients feel it: responses, from arrival to completion, against those of a run without background work, with
//! requests that come when they come.

use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Place};
use std::fmt;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig};

/// The bound on harm that is the default, in percent.
const BOUND: f64 = 1.0;

/// So many standard errors of the mean are chance.
const ERRORS: f64 = 2.0;

/// A run and its twin without background work.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// By how many percent the mean response is longer.
    pub slower: f64,
    /// What the core's accounts say of detours and of idle time, in percent.
    pub told: [f64; 2],
    /// Detours.
    pub detours: u64,
    /// The part of the time in which predictions were trusted, where that was looked at.
    pub trusted: f64,
}

impl Pair {
    pub fn of<S: workload::Source>(plain: &Outside<S>, scan: &Outside<S>) -> Self {
        let mean = |run: &Outside<S>| run.report().foreground.mean_response_ms;
        Self {
            slower: (mean(scan) / mean(plain) - 1.0) * 100.0,
            told: [scan.core().detour_harm().unwrap().share(), scan.harm().share()].map(|part| part * 100.0),
            detours: scan.planner_stats().detours,
            trusted: 0.0,
        }
    }
}

/// Pairs of several seeds.
pub struct Pairs(Vec<Pair>);

impl Pairs {
    pub fn of(seeds: impl IntoIterator<Item = u64>, pair: impl FnMut(u64) -> Pair) -> Self {
        Self(seeds.into_iter().map(pair).collect())
    }

    fn mean(&self, of: impl Fn(&Pair) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    pub fn slower(&self) -> f64 {
        self.mean(|pair| pair.slower)
    }

    pub fn trusted(&self) -> f64 {
        self.mean(|pair| pair.trusted)
    }

    /// The standard error of that, from how seeds differ.
    pub fn error(&self) -> f64 {
        let (n, mean) = (self.0.len() as f64, self.slower());
        let squares: f64 = self.0.iter().map(|pair| (pair.slower - mean).powi(2)).sum();
        (squares / (n - 1.0) / n).sqrt()
    }

    /// The foreground is slower by no more than the bound, and by what is chance: two standard errors, which are small enough to say
    /// something. The request with which the bound is passed, of so many, may be late by what an idle command takes: as long as two of
    /// them.
    pub fn assert_bounded(&self, requests: u64, what: &str) {
        let last = 2.0 / requests as f64 * 100.0;
        assert!(self.error() < BOUND / 4.0, "{what}: too few seeds: {self}");
        assert!(self.slower() < BOUND + last + ERRORS * self.error(), "{what}: {self}");
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slower, error) = (self.slower(), self.error());
        let told = [0, 1].map(|of| self.mean(|pair| pair.told[of]));
        let detours = self.mean(|pair| pair.detours as f64);
        write!(
            f,
            "{slower:.2}% slower, give or take {error:.2}; told {:.2}% of detours, {:.2}% of idle time; {detours:.0} detours, \
             trusted {:.2} of the time",
            told[0],
            told[1],
            self.trusted()
        )
    }
}

const REQUESTS: u64 = 20_000;

#[test]
fn idle_work_over_a_bus_slower_than_the_medium_is_bounded() {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    // 99 us a sector, by its file: the data of a whole track take five turns. Who waited for them was in no account, and the
    // foreground 1.5% to 2.7% slower.
    let behaviour = Behaviour { bus_sector: None, ..Behaviour::noisy() };
    for policy in [PolicyName::Fcfs, PolicyName::Sptf] {
        for rate in [10.0, 20.0, 30.0] {
            let pairs = Pairs::of(42..46, |seed| {
                let run = |background| {
                    let (drive, overheads) = black_box(&profile, behaviour, seed).unwrap();
                    let load = RandomConfig::new(known.layout().capacity(), known.sector_bytes());
                    let load = Random::new(load, seed).unwrap();
                    let load = Issuer::new(load, Arrival::Poisson { rate }, Instant::ZERO, seed).unwrap();
                    let place = Place::Outside(OutsideConfig::beyond(overheads));
                    let idle = Some(IdleTime::default());
                    let config = Config { place, idle, policy, seed, ..Config::default() };
                    let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
                    run.advance(REQUESTS, &mut Nothing).unwrap();
                    run
                };
                Pair::of(&run(Background::None), &run(Background::Scan { block: Sectors::new(16) }))
            });
            pairs.assert_bounded(REQUESTS, &format!("{policy:?}, {rate} a second"));
        }
    }
}
