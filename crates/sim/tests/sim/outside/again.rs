//! Who reads again what the drive's buffer holds: each detour, and each read of idle time, may take its place there.

use super::responses::{Pair, Pairs};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Caution, Config, IdleTime, OutsideConfig, Place};
use std::sync::Arc;
use units::{Instant, LbnRange, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Request, Source};

/// What is asked for again, instead of something at random.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// Three in ten are one of the ten before.
    Back,
    /// Half are of so many blocks.
    ToHot(usize),
    /// All are of so many blocks that follow each other.
    ToOneOf(u64),
    /// So many of so many begin where one block does, and each is of 4 KB to 128 KB.
    ToBegin(u64, u64),
    /// Half are one of the ten before, and what is not is of 4 KB to 16 KB.
    Half,
}

struct Again {
    drawn: Random,
    /// Says what of that is asked for again.
    dice: Random,
    comes: Comes,
    /// What was read, or the hot blocks.
    before: Vec<LbnRange>,
}

impl Again {
    /// One of so many, as likely as any other.
    fn below(&mut self, below: u64) -> Option<u64> {
        let range = self.dice.next_request()?.range;
        Some(range.start().get() / range.len().get() % below)
    }

    /// From there, one block or more, up to so many.
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

/// Such requests, so often a second, with gaps alone or idle time.
fn pairs(drive: &str, comes: Comes, rate: f64, idle: Option<IdleTime>) -> Pairs {
    pairs_that_come(drive, comes, Arrival::Poisson { rate }, idle)
}

/// Such requests that come so.
fn pairs_that_come(drive: &str, comes: Comes, arrival: Arrival, idle: Option<IdleTime>) -> Pairs {
    let profile = builtin::find(drive).unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let run = |seed, background, idle| {
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let capacity = known.layout().capacity();
        let drawn = |seed| {
            // What follows a block is there.
            let capacity = capacity - Sectors::new(10_000);
            Random::new(RandomConfig::new(capacity, known.sector_bytes()), seed).unwrap()
        };
        let load = Again { drawn: drawn(seed), dice: drawn(seed + 1_000), comes, before: Vec::new() };
        let load = Issuer::new(load, arrival, Instant::ZERO, seed).unwrap();
        let place = Place::Outside(OutsideConfig::beyond(overheads));
        let config = Config { place, idle, seed, policy: PolicyName::Fcfs, ..Config::default() };
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(40_000, &mut Nothing).unwrap();
        run
    };
    Pairs::of(42..46, |seed| {
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
fn what_detours_take_of_what_is_read_again_is_bounded() {
    // Who came back and missed it was in no account: 1.8% to 7.9% slower, and a drive as told was mistrusted for up to three quarters of
    // the time, since what came from its buffer was not foreseen.
    let cases = [
        (ATLAS, Comes::Back, 50.0, 2_000.0),
        (ATLAS, Comes::ToHot(10), 60.0, 700.0),
        (ATLAS, Comes::ToHot(4), 60.0, 500.0),
        (ATLAS, Comes::ToOneOf(400), 60.0, 0.0),
        // What was written stays there as well.
        ("seagate-cheetah-18lp", Comes::Back, 50.0, 5_000.0),
    ];
    for (drive, comes, rate, detours) in testing::some(1, cases) {
        let pairs = pairs(drive, comes, rate, None);
        pairs.assert_bounded(&format!("{drive}, {comes:?} at {rate} a second"));
        assert!(pairs.trusted() > 0.98 && pairs.detours() >= detours, "{drive}, {comes:?}: {pairs}");
    }
}

#[test]
fn what_is_all_in_the_buffer_is_left_there() {
    // A place that one detour took was missed by dozens.
    for blocks in [64, 256] {
        let pairs = pairs(ATLAS, Comes::ToOneOf(blocks), 60.0, None);
        pairs.assert_bounded(&format!("{blocks} blocks"));
    }
}

#[test]
fn what_idle_time_takes_of_what_is_read_again_is_bounded() {
    for (comes, rate) in testing::some(1, [(Comes::Back, 50.0), (Comes::ToHot(4), 30.0)]) {
        let pairs = pairs(ATLAS, comes, rate, Some(IdleTime::default()));
        pairs.assert_bounded(&format!("{comes:?} at {rate} a second with idle time"));
        assert!(pairs.trusted() > 0.98, "{comes:?}: {pairs}");
    }
}

#[test]
fn what_is_all_in_the_buffer_is_left_there_in_idle_time_as_well() {
    // Half of what one idle read took there was missed thousands of reads later, and told by nobody: 2.0% slower at 60 a second, 1.4% on the
    // Cheetah 18LP.
    let cases =
        [(ATLAS, 256, 20.0), (ATLAS, 256, 60.0), (ATLAS, 128, 60.0), ("seagate-cheetah-18lp", 256, 40.0)];
    for (drive, blocks, rate) in testing::some(2, cases) {
        let pairs = pairs(drive, Comes::ToOneOf(blocks), rate, Some(IdleTime::default()));
        pairs.assert_bounded(&format!("{drive}, {blocks} blocks at {rate} a second with idle time"));
        assert!(pairs.trusted() > 0.98, "{drive}, {blocks} blocks: {pairs}");
    }
}

#[test]
fn what_is_missed_of_what_begins_in_the_buffer_is_bounded() {
    // The drive holds the block's track or only its end, by what was asked for first, and who misses it for that long after a detour tells
    // nobody: 1.4% to 1.8% slower by an account of 1%.
    let cases = [(Comes::ToBegin(4, 10), 60.0), (Comes::ToBegin(1, 4), 30.0), (Comes::ToBegin(1, 4), 60.0)];
    for (comes, rate) in testing::some(1, cases) {
        let pairs = pairs(ATLAS, comes, rate, None);
        pairs.assert_bounded(&format!("{comes:?} at {rate} a second"));
        assert!(pairs.trusted() > 0.98 && pairs.detours() > 1_000.0, "{comes:?} at {rate} a second: {pairs}");
    }
}

#[test]
fn what_a_closed_loop_misses_of_what_it_has_had_lately_is_bounded() {
    // 1.3% slower on the Cheetah 9LP, which keeps three places, and one at a time 1.6%, by an account of 1%.
    for (drive, tasks) in
        testing::some(1, [("seagate-cheetah-9lp", 1), ("seagate-cheetah-9lp", 2), (ATLAS, 2)])
    {
        let pairs = pairs_that_come(drive, Comes::Half, Arrival::outstanding(tasks), None);
        pairs.assert_bounded(&format!("{drive}, {tasks} at all times"));
        assert!(
            pairs.trusted() > 0.98 && pairs.detours() > 1_000.0,
            "{drive}, {tasks} at all times: {pairs}"
        );
    }
}
