//! Consecutive reads on a drive that reads ahead to the end of the track behind them.

use super::grid::{ARRIVALS, Cell, Kind, wrong};
use super::responses::{Pair, Pairs, served_of_load};
use super::surprises::Surprise;
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig};
use std::sync::Arc;
use units::{Instant, LbnRange, Op, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Request, Share, Source};

/// Several readers that each continue their own stream, chosen at random for each request; one request in two hundred begins
/// elsewhere.
struct Streams {
    drawn: Random,
    capacity: u64,
    at: Vec<Option<LbnRange>>,
}

impl Source for Streams {
    fn next_request(&mut self) -> Option<Request> {
        let drawn = self.drawn.next_request()?.range;
        let number = drawn.start().get() / drawn.len().get();
        let who = (number % self.at.len() as u64) as usize;
        let begins = (number / self.at.len() as u64).is_multiple_of(200);
        let last =
            self.at[who].filter(|last| !begins && last.end().get() + last.len().get() <= self.capacity);
        let range = last.map_or(drawn, |last| LbnRange::new(last.end(), last.len()));
        self.at[who] = Some(range);
        Some(Request { op: Op::Read, range })
    }
}

/// Runs `readers` streams of `sectors` per request at a common rate, in gaps alone or with idle time.
fn streams(readers: usize, (sectors, rate): (u64, f64), idle: Option<IdleTime>, requests: u64) -> Pairs {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let run = |seed, background, idle| {
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let capacity = known.layout().capacity();
        let drawn =
            RandomConfig { size: Sectors::new(sectors), ..RandomConfig::new(capacity, known.sector_bytes()) };
        let drawn = Random::new(drawn, seed).unwrap();
        let load = Streams { drawn, capacity: capacity.get(), at: vec![None; readers] };
        let load = Issuer::new(load, Arrival::Poisson { rate }, Instant::ZERO, seed).unwrap();
        let outside = OutsideConfig::beyond(overheads);
        let config = Config::default()
            .with_outside(outside)
            .with_idle(idle)
            .with_seed(seed)
            .with_policy(PolicyName::Fcfs);
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(requests, &mut Nothing).unwrap();
        run
    };
    Pairs::of(42..46, |seed| {
        let plain = run(seed, Background::None, None);
        Pair::of(&plain, &run(seed, Background::Scan { block: Sectors::new(8) }, idle))
    })
}

#[test]
fn the_harm_of_idle_time_to_many_streams_is_bounded() {
    // An idle read evicts a stream's data, and the data behind a miss are not all in the buffer again.
    for (rate, requests) in testing::some(1, [(20.0, 30_000), (40.0, 60_000), (80.0, 120_000)]) {
        let pairs = streams(8, (16, rate), Some(IdleTime::default()), requests);
        pairs.assert_bounded(&format!("eight streams at {rate} a second"));
    }
}

#[test]
fn the_harm_of_streams_of_idle_time_to_many_readers_is_bounded() {
    // A stream of idle reads that continues where the drive has read ahead for a reader replaces the buffered data
    // that the reader will want.
    let drive = "quantum-atlas-10k";
    let known = DriveModel::from_profile(&builtin::find(drive).unwrap()).unwrap();
    let capacity = known.layout().capacity().get();
    let pairs = Pairs::of(42..48, |seed| {
        let load = |drawn| {
            let readers = Streams { drawn, capacity, at: vec![None; 8] };
            Issuer::new(readers, Arrival::Poisson { rate: 20.0 }, Instant::ZERO, seed).unwrap()
        };
        let (idle, requests) = (Some(IdleTime::default()), testing::sized(40_000, 80_000));
        served_of_load((drive, Behaviour::fast02()), idle, (Share::ALL, load), (requests, seed))
    });
    pairs.assert_bounded("eight readers at 20 a second");
}

#[test]
fn the_harm_of_detours_to_many_streams_is_bounded() {
    streams(8, (16, 80.0), None, 120_000).assert_bounded("eight streams");
}

#[test]
fn a_stream_across_tracks_has_no_gap_there() {
    // Read-ahead may have continued on the next track, where a detour then costs a revolution.
    for rate in testing::some(1, [80.0, 60.0]) {
        streams(1, (128, rate), None, testing::sized(10_000, 30_000))
            .assert_bounded(&format!("a stream of 64 KB at {rate} a second"));
    }
}

#[test]
fn several_streams_of_long_reads_leave_a_matching_drive_trusted() {
    // A part of most reads is in the buffer, so that they are early; the drive must be trusted all the same.
    let pairs = streams(4, (128, 60.0), None, 30_000);
    pairs.assert_bounded("four streams of 64 KB");
    assert!(pairs.detours() > 50.0, "{pairs}");
}

/// Returns every load of these kinds, in gaps alone or with idle time.
fn cells(surprise: Surprise, kinds: &[Kind], idle: bool) -> impl Iterator<Item = Cell> {
    let each =
        move |kind| (0..ARRIVALS.len()).map(move |arrival| Cell { surprise, arrival, kind, idle, policy: 0 });
    kinds.iter().copied().flat_map(each)
}

#[test]
fn a_drive_that_matches_its_profile_is_trusted_under_streams_and_yields_blocks() {
    // Cache hits, and requests that wait for read-ahead, must not count against the profile.
    for idle in [false, true] {
        let all = cells(Surprise::None, &[Kind::Half, Kind::Runs, Kind::Sequence], idle);
        for cell in testing::some(1, all) {
            let harmed = wrong(&cell, 8_000, testing::sized(3, 8));
            assert!(harmed.is_none(), "{harmed:?}");
            let seen = cell.run(8_000, 42);
            assert!(seen.trusted > 0.9 && seen.right > 0.85, "{cell:?}: {seen:?}");
            if cell.kind != Kind::Sequence {
                // The first seed may have few detours by chance, so that the sum over four seeds counts as well.
                let enough = || (42..46).map(|seed| cell.run(8_000, seed).detours).sum::<u64>() > 4 * 150;
                assert!(seen.detours > 150 || enough(), "{cell:?}: {seen:?}");
            } else if idle && cell.arrival > 2 {
                // A stream leaves no gaps, and no idle time if a request waits at all times. Each request of the
                // stream reads four blocks itself.
                assert!(seen.blocks > 4 * 8_000 + 1_000, "{cell:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn another_drive_is_not_trusted_because_of_cache_hits() {
    use Surprise::*;
    let reported = Other { reported: "seagate-cheetah-18lp", there: "quantum-atlas-10k" };
    for surprise in [reported, Rpm(894), Rpm(1_119), Sectors(-4), TrackSkew(60), Flash] {
        for cell in testing::some(4, cells(surprise, &[Kind::Half, Kind::Runs], false)) {
            let seen = cell.run(3_000, 42);
            assert!(seen.trusted < 0.1, "{cell:?}: {seen:?}");
        }
    }
}

#[test]
fn arms_that_differ_from_the_profile_do_not_harm_streams() {
    let arms = [100, 400, -100, -400].into_iter();
    let all = arms.flat_map(|arms| cells(Surprise::Arms(arms), &[Kind::Half, Kind::Runs], false));
    for cell in testing::some(2, all.filter(|cell| !needs_many_seeds(cell))) {
        let harmed = wrong(&cell, 8_000, testing::sized(4, 32));
        assert!(harmed.is_none(), "{harmed:?}");
    }
}

/// Returns whether the drive's arms are 40% faster than the profile's, with 70 requests a second of which half read
/// consecutively. This case has a test of its own, with more seeds.
fn needs_many_seeds(cell: &Cell) -> bool {
    let Cell { surprise, arrival, kind, .. } = *cell;
    surprise == Surprise::Arms(-400) && ARRIVALS[arrival].0 == "70 a second" && kind == Kind::Half
}

#[test]
fn arms_much_faster_than_the_profile_do_not_harm_streams_on_a_busy_drive() {
    let all = cells(Surprise::Arms(-400), &[Kind::Half, Kind::Runs], false).filter(needs_many_seeds);
    let harmed: Vec<_> = all.filter_map(|cell| wrong(&cell, 8_000, 32)).collect();
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
}
