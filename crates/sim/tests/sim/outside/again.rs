//! Clients that read cached blocks again: each detour, and each idle read, may evict such a block from the drive's buffer.

use super::responses::{Pair, Pairs, served_of_load};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Caution, Config, IdleTime, OutsideConfig};
use std::ops::Range;
use std::sync::Arc;
use units::{Bytes, Instant, LbnRange, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Request, Share, Source};

/// The repetitions in a load of random requests.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// Three requests in ten repeat one of the last ten.
    Back,
    /// Half of the requests read one of this number of blocks that are read often.
    ToHot(usize),
    /// All requests read one of this number of adjacent blocks.
    ToOneOf(u64),
    /// A share of the requests (`.0` in `.1`) begins at one block, and each request is of 4 KB to 128 KB.
    ToBegin(u64, u64),
    /// Half of the requests repeat one of the last ten, and the others are of 4 KB to 16 KB.
    Half,
}

struct Again {
    drawn: Random,
    /// The random choice of repetitions.
    dice: Random,
    comes: Comes,
    /// The last requests, or the blocks that are read often.
    before: Vec<LbnRange>,
}

impl Again {
    /// Returns a uniform number below `below`.
    fn below(&mut self, below: u64) -> Option<u64> {
        let range = self.dice.next_request()?.range;
        Some(range.start().get() / range.len().get() % below)
    }

    /// Returns a range at the start of `from`, of one to `blocks` blocks.
    fn up_to(&mut self, blocks: u64, from: LbnRange) -> Option<LbnRange> {
        Some(LbnRange::new(from.start(), Sectors::new(from.len().get() * (1 + self.below(blocks)?))))
    }
}

impl Source for Again {
    fn next_request(&mut self) -> Option<Request> {
        let drawn = self.drawn.next_request()?;
        let range = match self.comes {
            Comes::Back => {
                let back = 1 + self.below(10)? as usize;
                let again = self.below(10)? < 3 && self.before.len() >= back;
                let range = if again { self.before[self.before.len() - back] } else { drawn.range };
                self.before.push(range);
                range
            }
            Comes::ToHot(blocks) => {
                while self.before.len() < blocks {
                    let range = self.drawn.next_request()?.range;
                    self.before.push(range);
                }
                let which = self.below(blocks as u64)? as usize;
                if self.below(2)? == 0 { self.before[which] } else { drawn.range }
            }
            Comes::ToOneOf(blocks) => {
                let first = *self.before.first().unwrap_or(&drawn.range);
                self.before = vec![first];
                let start = first.start() + Sectors::new(self.below(blocks)? * first.len().get());
                LbnRange::new(start, first.len())
            }
            Comes::ToBegin(some, of) => {
                let first = *self.before.first().unwrap_or(&drawn.range);
                self.before = vec![first];
                let from = if self.below(of)? < some { first } else { drawn.range };
                self.up_to(32, from)?
            }
            Comes::Half => {
                let back = 1 + self.below(10)? as usize;
                let again = self.below(2)? == 0 && self.before.len() >= back;
                let other = self.up_to(4, drawn.range)?;
                let range = if again { self.before[self.before.len() - back] } else { other };
                self.before.push(range);
                range
            }
        };
        Some(Request { op: drawn.op, range })
    }
}

const ATLAS: &str = "quantum-atlas-10k";

/// Runs requests with these repetitions at a rate, in gaps alone or with idle time.
fn pairs(drive: &str, comes: Comes, rate: f64, idle: Option<IdleTime>) -> Pairs {
    pairs_of(42..testing::sized(45, 46), drive, comes, Arrival::Poisson { rate }, idle)
}

/// Runs requests with these repetitions and an arrival process.
fn pairs_that_come(drive: &str, comes: Comes, arrival: Arrival, idle: Option<IdleTime>) -> Pairs {
    pairs_of(42..46, drive, comes, arrival, idle)
}

fn pairs_of(seeds: Range<u64>, drive: &str, comes: Comes, arrival: Arrival, idle: Option<IdleTime>) -> Pairs {
    let profile = builtin::find(drive).unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let run = |seed, background, idle| {
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let capacity = known.layout().capacity();
        let drawn = |seed| {
            // A long request at the last drawn LBN must fit on the drive.
            let capacity = capacity - Sectors::new(10_000);
            Random::new(RandomConfig::new(capacity, known.sector_bytes()), seed).unwrap()
        };
        let load = Again { drawn: drawn(seed), dice: drawn(seed + 1_000), comes, before: Vec::new() };
        let load = Issuer::new(load, arrival, Instant::ZERO, seed).unwrap();
        let outside = OutsideConfig::beyond(overheads);
        let config = Config::default()
            .with_outside(outside)
            .with_idle(idle)
            .with_seed(seed)
            .with_policy(PolicyName::Fcfs);
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(40_000, &mut Nothing).unwrap();
        run
    };
    Pairs::of(seeds, |seed| {
        let plain = run(seed, Background::None, None);
        let scan = run(seed, Background::Scan { block: Sectors::new(8) }, idle);
        let mistrusted = scan.trust().lasted(Caution::Mistrust).as_secs_f64();
        Pair {
            trusted: 1.0 - mistrusted / scan.now().saturating_since(Instant::ZERO).as_secs_f64(),
            ..Pair::of(&plain, &scan)
        }
    })
}

#[test]
fn the_harm_of_detours_to_repeated_reads_is_bounded() {
    // A detour must be charged for a block that it evicts, and cache hits must not count against the profile.
    let cases = [
        (ATLAS, Comes::Back, 50.0, 2_000.0),
        (ATLAS, Comes::ToHot(10), 60.0, 700.0),
        (ATLAS, Comes::ToHot(4), 60.0, 500.0),
        (ATLAS, Comes::ToOneOf(400), 60.0, 0.0),
        // The buffer of this drive keeps written blocks as well.
        ("seagate-cheetah-18lp", Comes::Back, 50.0, 5_000.0),
    ];
    for (drive, comes, rate, detours) in testing::some(1, cases) {
        let pairs = pairs(drive, comes, rate, None);
        pairs.assert_bounded(&format!("{drive}, {comes:?} at {rate} a second"));
        assert!(pairs.trusted() > 0.98 && pairs.detours() >= detours, "{drive}, {comes:?}: {pairs}");
    }
}

#[test]
fn detours_do_not_evict_a_load_that_fits_into_the_buffer() {
    // Dozens of reads miss the blocks that one detour has evicted from the buffer.
    for blocks in testing::some(1, [256, 64]) {
        let pairs = pairs(ATLAS, Comes::ToOneOf(blocks), 60.0, None);
        pairs.assert_bounded(&format!("{blocks} blocks"));
    }
}

#[test]
fn the_harm_of_idle_time_to_repeated_reads_is_bounded() {
    for (comes, rate) in testing::some(1, [(Comes::Back, 50.0), (Comes::ToHot(4), 30.0)]) {
        let pairs = pairs(ATLAS, comes, rate, Some(IdleTime::default()));
        pairs.assert_bounded(&format!("{comes:?} at {rate} a second with idle time"));
        assert!(pairs.trusted() > 0.98, "{comes:?}: {pairs}");
    }
}

#[test]
fn the_harm_of_streams_of_idle_time_to_repeated_reads_is_bounded() {
    // A stream replaces the buffered data of the read that it continues.
    let pairs = Pairs::of(42..48, |seed| {
        let load = |drawn| {
            let dice =
                Random::new(RandomConfig::new(Sectors::new(1 << 24), Bytes::new(512)), seed + 1_000).unwrap();
            let load = Again { drawn, dice, comes: Comes::Back, before: Vec::new() };
            Issuer::new(load, Arrival::Poisson { rate: 20.0 }, Instant::ZERO, seed).unwrap()
        };
        let (idle, requests) = (Some(IdleTime::default()), testing::sized(40_000, 80_000));
        served_of_load((ATLAS, Behaviour::fast02()), idle, (Share::TWO_THIRDS, load), (requests, seed))
    });
    pairs.assert_bounded("three in ten requests repeated, at 20 a second");
}

#[test]
fn idle_time_does_not_evict_a_load_that_fits_into_the_buffer() {
    // An idle read can cause cache misses thousands of reads later, which no estimate of harm includes.
    let cases =
        [(ATLAS, 256, 20.0), (ATLAS, 256, 60.0), (ATLAS, 128, 60.0), ("seagate-cheetah-18lp", 256, 40.0)];
    for (drive, blocks, rate) in testing::some(1, cases) {
        let pairs = pairs(drive, Comes::ToOneOf(blocks), rate, Some(IdleTime::default()));
        pairs.assert_bounded(&format!("{drive}, {blocks} blocks at {rate} a second with idle time"));
        assert!(pairs.trusted() > 0.98, "{drive}, {blocks} blocks: {pairs}");
    }
}

#[test]
fn misses_of_reads_that_begin_in_the_buffer_are_bounded() {
    // The drive holds the block's track or only its end, depending on the first request; a miss long after a detour is
    // in no estimate of harm.
    let cases = [(Comes::ToBegin(1, 4), 30.0), (Comes::ToBegin(4, 10), 60.0), (Comes::ToBegin(1, 4), 60.0)];
    for (comes, rate) in testing::some(1, cases) {
        let seeds = 42..testing::sized(45, 58);
        let pairs = pairs_of(seeds, ATLAS, comes, Arrival::Poisson { rate }, None);
        pairs.assert_bounded(&format!("{comes:?} at {rate} a second"));
        assert!(pairs.trusted() > 0.98 && pairs.detours() > 1_000.0, "{comes:?} at {rate} a second: {pairs}");
    }
}

#[test]
fn misses_of_repeats_in_a_closed_loop_are_bounded() {
    // The buffer of the Cheetah 9LP keeps three runs of sectors.
    for (drive, tasks) in
        testing::some(1, [("seagate-cheetah-9lp", 2), ("seagate-cheetah-9lp", 1), (ATLAS, 2)])
    {
        let pairs = pairs_that_come(drive, Comes::Half, Arrival::outstanding(tasks), None);
        pairs.assert_bounded(&format!("{drive}, {tasks} at all times"));
        assert!(
            pairs.trusted() > 0.98 && pairs.detours() > 1_000.0,
            "{drive}, {tasks} at all times: {pairs}"
        );
    }
}
