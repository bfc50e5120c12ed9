//! Harm to clients: response times, from arrival to completion, with open arrivals, against those of a run without
//! background work.

use drive::{Behaviour, Drive, Flash, FlashConfig, Queue, QueueOrder};
use freeblock_sim::{Background, Direct, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Caution, Config, IdleTime, OutsideConfig, Overheads, Place};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Share, Source};

/// The default bound on harm, in percent.
const BOUND: f64 = 1.0;

/// The maximal standard error of a conclusive result.
const SAYS_SOMETHING: f64 = BOUND / 4.0;

/// The number of standard errors of the mean that chance explains.
const ERRORS: f64 = 2.0;

/// The one-sided 95% quantiles of Student's t with 1 to 11 degrees of freedom.
const ONE_SIDED_95: [f64; 11] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796];

/// A run and its twin without background work.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The increase of the mean response time in percent.
    pub slower: f64,
    /// The core's estimates for detours and for idle time, in percent.
    pub told: [f64; 2],
    /// The number of detours.
    pub detours: u64,
    /// The share of the time with trusted predictions.
    pub trusted: f64,
}

fn mean_response_ms<S: Source>(run: &Outside<S>) -> f64 {
    run.report().foreground.mean_response_ms
}

impl Pair {
    pub fn of<S: Source>(plain: &Outside<S>, scan: &Outside<S>) -> Self {
        Self::against(mean_response_ms(plain), scan)
    }

    /// Returns the increase over the mean response time of a run of any kind.
    pub fn against<S: Source>(plain_ms: f64, scan: &Outside<S>) -> Self {
        let lasted = |caution| scan.trust().lasted(caution).as_secs_f64();
        let doubted = lasted(Caution::Mistrust) + lasted(Caution::Unsynchronised) + lasted(Caution::Unknown);
        Self {
            slower: (mean_response_ms(scan) / plain_ms - 1.0) * 100.0,
            told: [scan.core().detour_harm().unwrap().share(), scan.harm().share()].map(|part| part * 100.0),
            detours: scan.planner_stats().detours,
            trusted: 1.0 - doubted / scan.now().saturating_since(Instant::ZERO).as_secs_f64(),
        }
    }
}

/// The pairs of several seeds.
pub struct Pairs(Vec<Pair>);

impl Pairs {
    pub fn of(seeds: impl IntoIterator<Item = u64>, pair: impl FnMut(u64) -> Pair) -> Self {
        Self(seeds.into_iter().map(pair).collect())
    }

    /// Returns the pairs of the seeds, and of twice as many if the result is not conclusive.
    pub fn enough(seeds: Range<u64>, mut pair: impl FnMut(u64) -> Pair) -> Self {
        let twice = seeds.end..2 * seeds.end - seeds.start;
        let mut pairs = Self::of(seeds, &mut pair);
        if pairs.error() >= SAYS_SOMETHING {
            pairs.0.extend(twice.map(pair));
        }
        pairs
    }

    fn mean(&self, of: impl Fn(&Pair) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    pub fn slower(&self) -> f64 {
        self.mean(|pair| pair.slower)
    }

    pub fn detours(&self) -> f64 {
        self.mean(|pair| pair.detours as f64)
    }

    pub fn trusted(&self) -> f64 {
        self.mean(|pair| pair.trusted)
    }

    /// Returns the standard error of the increase, from the differences between seeds.
    pub fn error(&self) -> f64 {
        let (n, mean) = (self.0.len() as f64, self.slower());
        let squares: f64 = self.0.iter().map(|pair| (pair.slower - mean).powi(2)).sum();
        (squares / (n - 1.0) / n).sqrt()
    }

    /// Checks that with 95% confidence the increase is at most the bound: the upper end of the one-sided interval of Student's t.
    pub fn assert_kept(&self, what: &str) {
        let quantile = ONE_SIDED_95.get(self.0.len().wrapping_sub(2)).expect("2 to 12 seeds");
        let upper = self.slower() + quantile * self.error();
        assert!(upper <= BOUND, "{what}: at most {upper:.2}%: {self}");
    }

    /// Checks that the increase is at most the bound plus two standard errors, which must be small enough for a conclusion.
    pub fn assert_bounded(&self, what: &str) {
        self.assert_below(BOUND, what);
    }

    /// Checks the same for loads with more chance, with a maximal standard error.
    pub fn assert_bounded_by_chance(&self, error: f64, what: &str) {
        self.assert_within(BOUND, error, what);
    }

    /// Checks the same for short runs: the request that exceeds the bound may wait for an idle command, at most two in a
    /// row.
    pub fn assert_bounded_of(&self, requests: u64, what: &str) {
        self.assert_below(BOUND + 2.0 / requests as f64 * 100.0, what);
    }

    fn assert_below(&self, most: f64, what: &str) {
        self.assert_within(most, SAYS_SOMETHING, what);
    }

    fn assert_within(&self, most: f64, error: f64, what: &str) {
        assert!(self.error() < error, "{what}: too few seeds: {self}");
        assert!(self.slower() < most + ERRORS * self.error(), "{what}: {self}");
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slower, error) = (self.slower(), self.error());
        let told = [0, 1].map(|of| self.mean(|pair| pair.told[of]));
        let detours = self.detours();
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

/// Runs random requests at a rate on an Atlas 10K with this behaviour.
fn pair(
    behaviour: Behaviour,
    how: (PolicyName, Option<IdleTime>),
    rate: f64,
    requests_seed: (u64, u64),
) -> Pair {
    pair_of(
        ("quantum-atlas-10k", behaviour),
        how,
        (Arrival::Poisson { rate }, Share::TWO_THIRDS),
        requests_seed,
    )
}

/// Runs random requests with these arrivals and share of reads on a drive with this behaviour.
pub fn pair_of(
    drive: (&str, Behaviour),
    how: (PolicyName, Option<IdleTime>),
    (arrival, reads): (Arrival, Share),
    (requests, seed): (u64, u64),
) -> Pair {
    let load = |drawn| Issuer::new(drawn, arrival, Instant::ZERO, seed).unwrap();
    pair_of_load(drive, how, OutsideConfig::beyond, (reads, load), (requests, seed))
}

/// Returns the mean response time at the disk alone.
pub fn alone_ms<S: Source>(drive: Drive, load: Issuer<S>, requests: u64) -> f64 {
    let (mut all_ms, mut done) = (0.0, 0.0);
    let mut run = Direct::new(drive, usize::MAX, load);
    run.advance(requests, |request| {
        all_ms += request.at.since(request.arrived).as_millis_f64();
        done += 1.0;
    })
    .unwrap();
    all_ms / done
}

/// Runs the random requests that `load` transforms as the daemon serves them, with a scan, against the disk alone: there all
/// requests go to the drive as they come, in its own order.
pub fn served_of_load<S: Source>(
    (drive, behaviour): (&str, Behaviour),
    idle: Option<IdleTime>,
    (reads, load): (Share, impl Fn(Random) -> Issuer<S>),
    (requests, seed): (u64, u64),
) -> Pair {
    let profile = builtin::find(drive).unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let drawn = RandomConfig { reads, ..RandomConfig::new(known.layout().capacity(), known.sector_bytes()) };
    let drawn = || load(Random::new(drawn, seed).unwrap());
    let alone_ms = alone_ms(black_box(&profile, behaviour, seed).unwrap().0, drawn(), requests);
    let (drive, overheads) = black_box(&profile, behaviour, seed).unwrap();
    let place = Place::Outside(OutsideConfig::beyond(overheads).serving());
    let config = Config { place, idle, policy: PolicyName::Sptf, seed, ..Config::default() };
    let scan = Background::Scan { block: Sectors::new(16) };
    let mut run = Outside::new(drive, known, config, drawn(), scan).unwrap();
    run.advance(requests, &mut Nothing).unwrap();
    Pair::against(alone_ms, &run)
}

/// Runs the random requests that `load` transforms on a drive with this behaviour; `place` configures the core outside.
pub fn pair_of_load<S: Source>(
    (drive, behaviour): (&str, Behaviour),
    (policy, idle): (PolicyName, Option<IdleTime>),
    place: impl Fn(Overheads) -> OutsideConfig,
    (reads, load): (Share, impl Fn(Random) -> Issuer<S>),
    (requests, seed): (u64, u64),
) -> Pair {
    let profile = builtin::find(drive).unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let run = |background, idle| {
        let (drive, overheads) = black_box(&profile, behaviour, seed).unwrap();
        let drawn =
            RandomConfig { reads, ..RandomConfig::new(known.layout().capacity(), known.sector_bytes()) };
        let load = load(Random::new(drawn, seed).unwrap());
        let place = Place::Outside(place(overheads));
        let config = Config { place, idle, policy, seed, ..Config::default() };
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(requests, &mut Nothing).unwrap();
        run
    };
    Pair::of(&run(Background::None, None), &run(Background::Scan { block: Sectors::new(16) }, idle))
}

#[test]
fn idle_work_over_a_bus_slower_than_the_medium_is_bounded() {
    // 99 us a sector, as in its profile: the data of a whole track take five revolutions, and the next requests wait for
    // them.
    let behaviour = Behaviour { bus_sector: None, ..Behaviour::fast02() };
    let cases = [PolicyName::Fcfs, PolicyName::Sptf]
        .into_iter()
        .flat_map(|p| [30.0, 20.0, 10.0].map(|rate| (p, rate)));
    for (policy, rate) in testing::some(2, cases) {
        let idle = Some(IdleTime::default());
        let pairs = Pairs::of(42..46, |seed| pair(behaviour, (policy, idle), rate, (20_000, seed)));
        pairs.assert_bounded(&format!("{policy:?}, {rate} a second"));
    }
}

#[test]
fn waits_for_merged_data_on_the_bus_of_a_fast_drive_are_in_the_estimate() {
    // 7.4 us a sector on the medium, 6.4 on the bus: merged data still cross the bus when the read is done, and late sectors
    // add to that. Their delay must be compared with an angle that does not come from such data.
    let Behaviour { overlap_percent, bus_sector, .. } = Behaviour::fast02();
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 64 };
    let behaviour = Behaviour { overlap_percent, bus_sector, queue, ..Behaviour::default() };
    let load = (Arrival::Poisson { rate: 40.0 }, Share::TWO_THIRDS);
    let pairs = Pairs::of(42..46, |seed| {
        pair_of(("mimic-fast-seek-rotate", behaviour), (PolicyName::Fcfs, None), load, (40_000, seed))
    });
    pairs.assert_bounded("fast arms and platters");
}

/// Returns drives that cache writes, as in their profile: over a bus of 6.4 us a sector without other noise, with the
/// default noise, and over the 99 us of the profile; and the number of requests. With both estimates at their bounds, the
/// initial excess is a thirtieth of the harm allowed in 16,000 requests, and a hundredth of that in 48,000.
fn writing_back() -> [(&'static str, Behaviour, u64); 3] {
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 64 };
    let noisy = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    let plain = Behaviour { queue, ..Behaviour::default() };
    let fast = Behaviour { bus_sector: noisy.bus_sector, ..plain };
    [("fast bus", fast, 16_000), ("noise", noisy, 16_000), ("slow bus", plain, 48_000)]
}

#[test]
fn the_harm_on_a_drive_that_caches_writes_is_bounded() {
    // By its own profile it caches writes. The completions of a third of the requests show nothing about the medium, and the
    // order behind a cached write must be kept.
    let how = [(PolicyName::Fcfs, 30.0), (PolicyName::Fcfs, 60.0), (PolicyName::Sptf, 60.0)];
    let how = how.into_iter().flat_map(|how| [None, Some(IdleTime::default())].map(|idle| (how, idle)));
    let cases = how.flat_map(|how| writing_back().map(|drive| (drive, how)));
    for ((drive, behaviour, requests), ((policy, rate), idle)) in testing::some(4, cases) {
        let pairs = Pairs::of(42..46, |seed| pair(behaviour, (policy, idle), rate, (requests, seed)));
        pairs.assert_bounded(&format!("{drive}, {policy:?}, {rate} a second, {idle:?}"));
        let detours = pairs.mean(|pair| pair.detours as f64);
        assert!(detours > requests as f64 / 8.0, "{drive}, {policy:?}, {rate} a second, {idle:?}: {pairs}");
    }
}

#[test]
fn the_harm_to_mostly_writes_on_a_drive_that_caches_writes_is_bounded() {
    // Requests that wait for cached writes wait for no command.
    let noisy = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    let serial = Behaviour { write_back: Some(true), ..Behaviour::default() };
    let drives = [
        ("quantum-atlas-10k", noisy, 40.0),
        ("seagate-cheetah-4lp", noisy, 50.0),
        ("seagate-cheetah-18lp", noisy, 25.0),
        ("ibm-ultrastar-9es", noisy, 50.0),
        ("ibm-ultrastar-9es", serial, 50.0),
        ("nearline-4tb", noisy, 10.0),
    ];
    let reads = [Share::NONE, Share::new(1, 10).unwrap()];
    let cases = drives.into_iter().flat_map(|drive| reads.map(|reads| (drive, reads)));
    for ((drive, behaviour, rate), reads) in testing::some(3, cases) {
        let how = (PolicyName::Fcfs, Some(IdleTime::default()));
        let load = (Arrival::Poisson { rate }, reads);
        let pairs = Pairs::of(42..46, |seed| pair_of((drive, behaviour), how, load, (24_000, seed)));
        pairs.assert_bounded(&format!("{drive}, {rate} a second, {} of them reads", reads.as_f64()));
    }
}

#[test]
fn a_drive_that_caches_writes_is_trusted_at_any_queue_length() {
    // Before it is trusted no command is delayed behind cached writes, and it reorders; that must not count against the
    // profile.
    let noisy = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for (policy, reads) in [(PolicyName::Fcfs, Share::TWO_THIRDS), (PolicyName::Sptf, Share::TWO_THIRDS)] {
        for tasks in [4, 10] {
            let load = (Arrival::outstanding(tasks), reads);
            let pairs = Pairs::of(42..44, |seed| {
                pair_of(("quantum-atlas-10k", noisy), (policy, None), load, (8_000, seed))
            });
            pairs.assert_bounded(&format!("{policy:?}, {tasks} at a time"));
            let detours = pairs.mean(|pair| pair.detours as f64);
            assert!(detours > 1_000.0, "{policy:?}, {tasks} at a time: {pairs}");
        }
    }
}

#[test]
fn an_unpredicted_write_delays_no_command() {
    // Flash with the profile of a drive that caches writes. A wait for such a drive's writes would be useless here: without
    // trust there is none.
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let firmware = profile.firmware.as_ref().unwrap();
    let mean = |write_back| {
        let config = FlashConfig { capacity: known.layout().capacity(), ..FlashConfig::default() };
        let overheads = Overheads::of(firmware, &known, true).writing_back(firmware, write_back);
        let load = RandomConfig::new(known.layout().capacity(), known.sector_bytes());
        let load =
            Issuer::new(Random::new(load, 1).unwrap(), Arrival::outstanding(4), Instant::ZERO, 1).unwrap();
        let place = Place::Outside(OutsideConfig::beyond(overheads));
        let (device, config) = (Box::new(Flash::new(config, 1)), Config { place, ..Config::default() });
        let mut run = Outside::over(device, Arc::clone(&known), config, load, Background::None).unwrap();
        run.advance(8_000, &mut Nothing).unwrap();
        run.report().foreground.mean_response_ms
    };
    let [back, through] = [true, false].map(mean);
    assert!(back < through * 1.01, "{back} ms, and {through} ms where writes are told to be on the medium");
}
