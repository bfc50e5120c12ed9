//! Idle time without predictions: on a drive of which only the size is known, and on one that caches writes against its
//! profile and is therefore mistrusted. The completions alone show the cost. The core serves as in the daemon, and is compared
//! with the disk alone.

use super::responses::{Pair, Pairs, alone_ms};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Observer, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{AnyCore, Config, IdleTime, OutsideConfig, Parameter, Priority, Record, Sessions};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::{Arrival, Closed, Issuer, Oltp, OltpConfig, Random, RandomConfig, Share, Source, Think};

/// The number of requests in each run, and the seeds.
const REQUESTS: u64 = 60_000;
const SEEDS: std::ops::Range<u64> = 42..46;

/// The core's knowledge of the drive.
#[derive(Clone, Copy, Debug)]
enum DriveKnowledge {
    /// The whole profile.
    All,
    /// The size alone.
    Nothing,
    /// The whole profile, with the false statement that writes are reported from the medium.
    WritesThrough,
}

#[derive(Clone, Copy, Debug)]
struct BlindLoad {
    drive: &'static str,
    knowledge: DriveKnowledge,
    writes_back: bool,
    policy: PolicyName,
    arrival: Arrival,
    reads: Share,
}

impl BlindLoad {
    /// Returns a load that is served in order of arrival on an unknown drive.
    fn blind(arrival: Arrival) -> Self {
        let (knowledge, policy, drive) = (DriveKnowledge::Nothing, PolicyName::Fcfs, "quantum-atlas-10k");
        Self { drive, knowledge, writes_back: false, policy, arrival, reads: Share::TWO_THIRDS }
    }

    fn pair<S: Source>(self, drawn: impl Fn(&DriveModel, Share) -> S, (requests, seed): (u64, u64)) -> Pair {
        let profile = builtin::find(self.drive).unwrap();
        let all = Arc::new(DriveModel::from_profile(&profile).unwrap());
        let generation = Behaviour::of_generation(all.layout().capacity().bytes(all.sector_bytes()));
        let behaviour = Behaviour { write_back: Some(self.writes_back), ..generation };
        let load = || Issuer::new(drawn(&all, self.reads), self.arrival, Instant::ZERO, seed).unwrap();
        let alone_ms = alone_ms(black_box(&profile, behaviour, seed).unwrap().0, load(), requests);
        let (drive, overheads) = black_box(&profile, behaviour, seed).unwrap();
        let (known, place) = match self.knowledge {
            DriveKnowledge::Nothing => {
                let size = (all.layout().capacity(), all.sector_bytes());
                (Arc::new(DriveModel::unknown(size.0, size.1).unwrap()), OutsideConfig::blind())
            }
            DriveKnowledge::All => (Arc::clone(&all), OutsideConfig::beyond(overheads)),
            DriveKnowledge::WritesThrough => {
                let firmware = profile.firmware.as_ref().unwrap();
                (Arc::clone(&all), OutsideConfig::beyond(overheads.writing_back(firmware, false)))
            }
        };
        let config = Config::default()
            .with_outside(place.serving())
            .with_idle(Some(IdleTime::default()))
            .with_policy(self.policy)
            .with_seed(seed);
        let scan = Background::Scan { block: Sectors::new(16) };
        let mut run = Outside::new(drive, known, config, load(), scan).unwrap();
        run.advance(requests, &mut Nothing).unwrap();
        Pair::against(alone_ms, &run)
    }

    fn random(self, requests: u64, seeds: impl IntoIterator<Item = u64>) -> Pairs {
        Pairs::of(seeds, |seed| {
            let drawn = |drive: &DriveModel, reads| {
                let all = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
                Random::new(RandomConfig { reads, ..all }, seed).unwrap()
            };
            self.pair(drawn, (requests, seed))
        })
    }

    fn oltp(self, seeds: std::ops::Range<u64>) -> Pairs {
        Pairs::of(seeds, |seed| {
            let drawn = |drive: &DriveModel, reads| {
                let all = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
                Oltp::new(OltpConfig { reads, ..all }, seed).unwrap()
            };
            self.pair(drawn, (REQUESTS, seed))
        })
    }
}

fn tenths(reads: u64) -> Share {
    Share::new(reads, 10).unwrap()
}

/// Returns a closed loop of `tasks` with this think time in ms.
fn closed(tasks: u32, pause: u64) -> Arrival {
    Arrival::Closed(Closed { tasks, think: Think::Constant(Duration::from_millis(pause)) })
}

#[test]
fn idle_time_of_a_blind_core_is_bounded_where_the_drive_writes_back() {
    // Reads and cached writes have separate means, and requests that wait for cached writes do not count as alone at
    // the drive.
    for (rate, reads) in testing::some(1, [(20.0, 0), (40.0, 3), (60.0, 1)]) {
        let arrival = Arrival::Poisson { rate };
        let load = BlindLoad { writes_back: true, reads: tenths(reads), ..BlindLoad::blind(arrival) };
        load.random(REQUESTS, SEEDS).assert_bounded(&format!("{load:?}"));
    }
}

#[test]
fn the_harm_under_a_profile_that_denies_write_back_is_bounded() {
    // The core mistrusts the drive, which caches writes against its profile, for the whole run.
    for rate in testing::some(1, [20.0, 60.0]) {
        let knowledge = DriveKnowledge::WritesThrough;
        let arrival = Arrival::Poisson { rate };
        let load = BlindLoad { knowledge, writes_back: true, reads: tenths(3), ..BlindLoad::blind(arrival) };
        load.random(REQUESTS, 42..testing::sized(45, 48)).assert_bounded(&format!("{load:?}"));
    }
}

#[test]
fn the_harm_of_a_blind_core_to_constant_think_times_is_bounded() {
    // An idle command takes 40 ms here, several revolutions.
    let policy = PolicyName::CLook;
    for writes_back in testing::some(1, [true, false]) {
        let oltp = BlindLoad { policy, writes_back, ..BlindLoad::blind(closed(20, 200)) };
        oltp.oltp(42..testing::sized(46, 54)).assert_bounded(&format!("OLTP, {oltp:?}"));
    }
    let load = BlindLoad { writes_back: true, reads: tenths(3), ..BlindLoad::blind(closed(10, 100)) };
    load.random(REQUESTS, 42..testing::sized(44, 46)).assert_bounded(&format!("{load:?}"));
}

#[test]
fn the_harm_of_a_blind_core_that_sorts_requests_to_constant_think_times_is_bounded() {
    let load = BlindLoad { policy: PolicyName::CLook, ..BlindLoad::blind(closed(20, 200)) };
    load.random(REQUESTS, 42..58).assert_bounded(&format!("{load:?}"));
}

#[test]
fn the_first_minutes_of_a_blind_core_are_bounded() {
    // In a short run the cost of one idle command is a large part of the bound.
    for (rate, requests) in [(20.0, 300), (20.0, 1_200), (5.0, 600)] {
        let load = BlindLoad::blind(Arrival::Poisson { rate });
        load.random(requests, 42..82).assert_bounded(&format!("{load:?}"));
    }
}

#[test]
fn the_harm_in_the_first_seconds_of_a_busy_drive_is_bounded() {
    let cases = [
        ("quantum-atlas-10k", 60.0, 200),
        ("seagate-cheetah-9lp", 60.0, 2_000),
        ("seagate-cheetah-9lp", 80.0, 2_000),
    ];
    for (drive, rate, seeds) in testing::some(1, cases) {
        let load = BlindLoad { drive, writes_back: true, ..BlindLoad::blind(Arrival::Poisson { rate }) };
        load.random(300, 42..42 + seeds).assert_bounded(&format!("{load:?}"));
    }
}

#[test]
fn the_harm_in_the_first_seconds_of_a_busy_drive_that_is_known_is_bounded() {
    // The core begins to trust the drive within these few requests.
    let (drive, policy) = ("seagate-cheetah-9lp", PolicyName::Sptf);
    let load = BlindLoad::blind(Arrival::Poisson { rate: 60.0 });
    let load = BlindLoad { drive, knowledge: DriveKnowledge::All, policy, writes_back: true, ..load };
    load.random(300, 42..6_042).assert_bounded(&format!("{load:?}"));
}

#[test]
fn the_harm_of_clients_that_only_write_is_bounded() {
    // The drive reports a write from its buffer, while the head is still busy with that write.
    let load = BlindLoad { writes_back: true, reads: tenths(0), ..BlindLoad::blind(closed(100, 1_000)) };
    load.random(REQUESTS, 42..62).assert_bounded(&format!("{load:?}"));
}

/// The sectors of background blocks that were delivered.
struct Delivered(Sectors);

impl Observer for Delivered {
    fn delivered(&mut self, _: &mut dyn AnyCore, record: Record, _: Instant) {
        self.0 += record.range.len();
    }
}

/// Runs random requests at a rate on a drive of today of which only the size is known, while a background wants
/// `wanted`. Returns the background's MB/s, and the requests' delay.
fn on_a_drive_of_today(rate: f64, wanted: Option<LbnRange>, (requests, seed): (u64, u64)) -> (f64, Pair) {
    let profile = builtin::find("nearline-20tb").unwrap();
    let all = DriveModel::from_profile(&profile).unwrap();
    let (capacity, sector) = (all.layout().capacity(), all.sector_bytes());
    let load = || {
        let config = RandomConfig { reads: Share::TWO_THIRDS, ..RandomConfig::new(capacity, sector) };
        Issuer::new(Random::new(config, seed).unwrap(), Arrival::Poisson { rate }, Instant::ZERO, seed)
            .unwrap()
    };
    let drive = || black_box(&profile, Behaviour::modern(), seed).unwrap().0;
    let alone_ms = alone_ms(drive(), load(), requests);
    let config = Config::default()
        .with_outside(OutsideConfig::blind().with_harm_ppm(Some(10_000)).serving())
        .with_idle(Some(IdleTime::default()))
        .with_seed(seed);
    let known = Arc::new(DriveModel::unknown(capacity, sector).unwrap());
    let mut run = Outside::new(drive(), known, config, load(), Background::None).unwrap();
    let session = run.core_mut().open(Priority::default()).unwrap();
    let range = wanted.unwrap_or(LbnRange::new(Lbn::ZERO, capacity));
    run.core_mut().read(session, range, Sectors::new(128), Parameter::default()).unwrap();
    let mut delivered = Delivered(Sectors::ZERO);
    run.advance(requests, &mut delivered).unwrap();
    let seconds = run.now().since(Instant::ZERO).as_secs_f64();
    (delivered.0.bytes(sector).get() as f64 / 1e6 / seconds, Pair::against(alone_ms, &run))
}

/// Checks the bound, and that the background gets at least `least` MB/s in the mean.
fn assert_brings(rate: f64, wanted: Option<LbnRange>, least: f64) {
    // Queues differ by chance from one run to the next.
    let (requests, seeds) = if rate < 20.0 { (1_000, 6) } else { (40_000, 12) };
    let mut all = Vec::new();
    let pairs = Pairs::of(42..42 + seeds, |seed| {
        let (mb_per_s, pair) = on_a_drive_of_today(rate, wanted, (requests, seed));
        all.push(mb_per_s);
        pair
    });
    pairs.assert_bounded(&format!("{rate} requests a second"));
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(mean >= least, "{rate} requests a second: {mean:.2} MB/s of {least}: {all:.2?}");
}

#[test]
fn streams_bring_a_drive_without_a_profile_at_least_what_a_paced_loop_brings() {
    // The least rate is that of a loop of reads, paced to 1% of harm, on the same drive.
    for (rate, paced) in testing::some(1, [(5.0, 21.0), (20.0, 9.0), (1.0, 21.0), (50.0, 3.5)]) {
        assert_brings(rate, None, paced);
    }
}

#[test]
fn a_part_of_a_drive_without_a_profile_is_read_beside_few_requests() {
    let part = LbnRange::new(Lbn::new(20_000_000_000), Sectors::new(40_000_000));
    for rate in testing::some(1, [1.0, 5.0, 20.0]) {
        assert_brings(rate, Some(part), 5.0);
    }
}

#[test]
fn the_harm_of_streams_to_constant_think_times_is_bounded() {
    let drive = "nearline-20tb";
    for (policy, writes_back) in
        testing::some(1, [(PolicyName::CLook, true), (PolicyName::Fcfs, true), (PolicyName::Fcfs, false)])
    {
        let load = BlindLoad { drive, policy, writes_back, ..BlindLoad::blind(closed(20, 200)) };
        load.oltp(42..46).assert_bounded(&format!("OLTP, {load:?}"));
    }
    let load = BlindLoad { drive, writes_back: true, reads: tenths(3), ..BlindLoad::blind(closed(10, 100)) };
    load.random(REQUESTS, 42..44).assert_bounded(&format!("{load:?}"));
}
