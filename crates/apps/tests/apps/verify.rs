//! Comparisons of arrays whose members are made by the definitions of P and Q, which are slow.

use freeblock_apps::verify::{Array, Comparison, ComparisonPlan, MEMORY_MIN, Wish};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};

const SECTOR: usize = 512;
const BLOCK: u64 = 4;
const OFFSET: u64 = 24;
const STEP: Duration = Duration::from_millis(100);

/// Returns the product in GF(2^8) modulo 0x11d by the definition.
fn product(a: u8, b: u8) -> u8 {
    let mut wide = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (u16::from(a) << bit));
    for bit in (8..16).rev() {
        if wide >> bit & 1 == 1 {
            wide ^= 0x11d << (bit - 8);
        }
    }
    wide as u8
}

fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 7
    }
}

/// The members of an array, sector by sector.
struct Members {
    disks: Vec<Vec<u8>>,
    unreadable: BTreeSet<(usize, u64)>,
}

impl Members {
    /// Makes members whose data begin behind an offset; before it there is noise, which is no part of the array.
    fn new(array: Array, members: usize, sectors: u64, seed: u64) -> Self {
        let mut next = noise(seed);
        let mut disks = vec![vec![0u8; (OFFSET + sectors) as usize * SECTOR]; members];
        for disk in &mut disks {
            disk.iter_mut().take(OFFSET as usize * SECTOR).for_each(|byte| *byte = next() as u8);
        }
        for sector in 0..sectors {
            let at = (OFFSET + sector) as usize * SECTOR;
            // Stripes have data disks, then P and Q, where md puts them: raid5_compute_sector, left-symmetric.
            let n = members as u64;
            for byte in at..at + SECTOR {
                match array {
                    Array::Mirror => {
                        let same = next() as u8;
                        disks.iter_mut().for_each(|disk| disk[byte] = same);
                    }
                    Array::Raid5 => {
                        let pd = n - 1 - (sector / 16) % n;
                        let mut p = 0;
                        for dd in 0..n - 1 {
                            let data = next() as u8;
                            disks[((pd + 1 + dd) % n) as usize][byte] = data;
                            p ^= data;
                        }
                        disks[pd as usize][byte] = p;
                    }
                    Array::Raid6 { chunk } => {
                        let pd = n - 1 - (sector / chunk.get()) % n;
                        let qd = (pd + 1) % n;
                        let (mut p, mut q, mut weight) = (0, 0, 1);
                        for dd in 0..n - 2 {
                            let data = next() as u8;
                            disks[((pd + 2 + dd) % n) as usize][byte] = data;
                            p ^= data;
                            q ^= product(weight, data);
                            weight = product(weight, 2);
                        }
                        disks[pd as usize][byte] = p;
                        disks[qd as usize][byte] = q;
                    }
                }
            }
        }
        Self { disks, unreadable: BTreeSet::new() }
    }

    fn flip(&mut self, member: usize, lbn: u64, bit: usize) {
        self.disks[member][lbn as usize * SECTOR + bit / 8 % SECTOR] ^= 1 << (bit % 8);
    }

    fn read(&self, member: usize, range: LbnRange) -> Result<&[u8], u64> {
        let (first, end) = (range.start().get(), range.end().get());
        match self.unreadable.range((member, first)..(member, end)).next() {
            Some((_, lbn)) => Err(*lbn),
            None => Ok(&self.disks[member][first as usize * SECTOR..end as usize * SECTOR]),
        }
    }
}

fn plan(array: Array, members: usize, sectors: u64) -> ComparisonPlan {
    ComparisonPlan {
        array,
        members,
        offset: Lbn::new(OFFSET),
        range: LbnRange::new(Lbn::new(OFFSET), Sectors::new(sectors)),
        block: Sectors::new(BLOCK),
        sector_bytes: Bytes::new(SECTOR as u64),
        memory: MEMORY_MIN,
    }
}

/// A host that reads the blocks of each member in an order of its own.
struct ComparisonHost {
    comparison: Comparison,
    /// By member, the ranges to be read, and whether they are of a block that is read again.
    queues: Vec<Vec<(LbnRange, bool)>>,
    next: Box<dyn FnMut() -> u64>,
    now: Instant,
    /// The number of first reads of each block of a member.
    reads: BTreeMap<(usize, u64), u32>,
}

impl ComparisonHost {
    fn new(comparison: Comparison, members: usize, seed: u64) -> Self {
        let next = Box::new(noise(seed));
        Self {
            comparison,
            queues: vec![Vec::new(); members],
            next,
            now: Instant::ZERO,
            reads: BTreeMap::new(),
        }
    }

    fn wish(&mut self) {
        while let Some(Wish { member, range, unit, again }) = self.comparison.wish(self.now) {
            let mut first = range.start().get();
            while first < range.end().get() {
                let len = unit.get().min(range.end().get() - first);
                self.queues[member].push((LbnRange::new(Lbn::new(first), Sectors::new(len)), again));
                first += len;
            }
        }
    }

    /// Reads one block of one member; returns it.
    fn step(&mut self, members: &Members) -> Option<(usize, LbnRange, bool)> {
        self.now += STEP;
        self.wish();
        let member = (self.next)() as usize % self.queues.len();
        let room = self.comparison.has_room();
        let queue = &mut self.queues[member];
        if queue.is_empty() {
            return None;
        }
        let at = (self.next)() as usize % queue.len();
        if !room && !queue[at].1 {
            return None;
        }
        let (range, again) = queue.swap_remove(at);
        if !again {
            *self.reads.entry((member, range.start().get())).or_default() += 1;
        }
        self.comparison.read(member, range, again, members.read(member, range), self.now);
        Some((member, range, again))
    }

    fn finish(&mut self, members: &Members) {
        for _ in 0..2_000_000 {
            if self.comparison.is_done() {
                return;
            }
            self.step(members);
        }
        panic!("not done: {:?}", self.comparison.figures());
    }
}

fn arrays() -> impl Strategy<Value = (Array, usize)> {
    prop_oneof![
        (2..5usize).prop_map(|members| (Array::Mirror, members)),
        (3..7usize).prop_map(|members| (Array::Raid5, members)),
        (4..8usize).prop_map(|members| (Array::Raid6 { chunk: Sectors::new(16) }, members)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(20, 48)))]

    #[test]
    fn every_sector_that_was_changed_on_one_member_is_named_and_no_other(
        (array, count) in arrays(),
        sectors in 1..400u64,
        flips in proptest::collection::vec((0..8usize, 0..400u64, 0..4096usize), 0..6),
        seed in any::<u64>(),
    ) {
        let mut members = Members::new(array, count, sectors, seed);
        let expected: BTreeSet<u64> = flips.iter().map(|(_, at, _)| OFFSET + at % sectors).collect();
        for lbn in &expected {
            let (member, _, bit) = flips.iter().find(|(_, at, _)| OFFSET + at % sectors == *lbn).unwrap();
            members.flip(member % count, *lbn, *bit);
        }
        let comparison = Comparison::start(plan(array, count, sectors), seed).unwrap();
        let mut host = ComparisonHost::new(comparison, count, seed);
        host.finish(&members);
        let reported = host.comparison.figures();
        prop_assert_eq!(reported.differing, Vec::from_iter(expected));
        prop_assert_eq!((reported.done, reported.blocks), (sectors.div_ceil(BLOCK), sectors.div_ceil(BLOCK)));
        prop_assert!(host.reads.values().all(|reads| *reads == 1));
    }

    #[test]
    fn after_a_restart_no_block_that_was_compared_is_read_again_and_none_is_left_out(
        (array, count) in arrays(),
        steps in 0..900usize,
        seed in any::<u64>(),
    ) {
        let sectors = 400;
        let mut members = Members::new(array, count, sectors, seed);
        for lbn in [OFFSET, OFFSET + 201, OFFSET + 399] {
            members.flip(seed as usize % count, lbn, 77);
        }
        let mut host = ComparisonHost::new(Comparison::start(plan(array, count, sectors), seed).unwrap(), count, seed);
        for _ in 0..steps {
            host.step(&members);
        }
        let (saved, before) = (host.comparison.progress(), host.comparison.figures());
        let resumed = Comparison::resume(plan(array, count, sectors), &saved, seed ^ 1).unwrap().unwrap();
        prop_assert_eq!(resumed.figures(), before.clone());
        let mut host = ComparisonHost::new(resumed, count, seed ^ 2);
        if !host.comparison.is_done() {
            host.finish(&members);
        }
        prop_assert_eq!(host.comparison.figures().differing, [OFFSET, OFFSET + 201, OFFSET + 399]);
        prop_assert_eq!(host.reads.len() as u64, count as u64 * (before.blocks - before.done));
        // The progress of another plan is refused, and so is damaged progress.
        prop_assert!(Comparison::resume(plan(array, count, sectors - 1), &saved, 1).is_err());
        let mut damaged = saved;
        let at = seed as usize % damaged.len();
        damaged[at] ^= 1;
        prop_assert!(Comparison::resume(plan(array, count, sectors), &damaged, 1).is_err());
    }
}

#[test]
fn a_write_that_has_reached_one_member_only_is_not_named() {
    for (array, count) in [(Array::Mirror, 2), (Array::Raid6 { chunk: Sectors::new(16) }, 5)] {
        let sectors = 64;
        let mut members = Members::new(array, count, sectors, 3);
        let whole = members.disks.clone();
        members.flip(1, OFFSET + 9, 5);
        let mut host =
            ComparisonHost::new(Comparison::start(plan(array, count, sectors), 9).unwrap(), count, 4);
        // The first rereading of the block has found the difference; the write reaches the other members after it.
        let (mut again, mut steps) = (0, 0);
        while again < count {
            again += usize::from(host.step(&members).is_some_and(|(.., again)| again));
            steps += 1;
            assert!(steps < 100_000);
        }
        members.disks = whole;
        host.finish(&members);
        let reported = host.comparison.figures();
        assert_eq!((reported.differing, reported.unsettled, reported.done), (vec![], 0, 16));
    }
}

#[test]
fn a_block_that_changes_at_every_reading_is_counted_and_not_named() {
    let mut members = Members::new(Array::Mirror, 2, 64, 3);
    let mut host = ComparisonHost::new(Comparison::start(plan(Array::Mirror, 2, 64), 9).unwrap(), 2, 4);
    members.flip(1, OFFSET, 1);
    for bit in 0.. {
        if host.comparison.is_done() {
            break;
        }
        host.step(&members);
        // One member is always a write behind.
        members.flip(1, OFFSET + 1, bit % 4096);
    }
    let reported = host.comparison.figures();
    assert_eq!((reported.differing, reported.unsettled), (vec![], 1));
}

#[test]
fn every_sector_that_cannot_be_read_is_named_with_its_member_and_hides_no_sector_of_its_block() {
    let raid6 = Array::Raid6 { chunk: Sectors::new(16) };
    for (array, beside) in [(raid6, vec![]), (Array::Mirror, vec![OFFSET + 17])] {
        let mut members = Members::new(array, 4, 160, 8);
        members.unreadable = BTreeSet::from([(2, OFFSET + 17), (2, OFFSET + 18), (3, OFFSET + 100)]);
        for lbn in [OFFSET + 17, OFFSET + 19, OFFSET + 20] {
            members.flip(0, lbn, 8);
        }
        let mut host = ComparisonHost::new(Comparison::start(plan(array, 4, 160), 9).unwrap(), 4, 4);
        host.finish(&members);
        let reported = host.comparison.figures();
        let bad: Vec<_> = reported.bad.iter().map(|bad| (bad.member, bad.lbn)).collect();
        assert_eq!(bad, [(2, OFFSET + 17), (2, OFFSET + 18), (3, OFFSET + 100)]);
        // The other members of a mirror are compared where one cannot be read.
        assert_eq!(reported.differing, [beside, vec![OFFSET + 19, OFFSET + 20]].concat());
    }
}

/// 64 KiB hold the sums of 6,553 blocks of a mirror.
#[test]
fn a_member_that_is_ahead_waits_for_the_others_within_the_memory() {
    let sectors = 80_000;
    let slots = MEMORY_MIN.get() / 10;
    let members = Members::new(Array::Mirror, 2, sectors, 3);
    let mut host = ComparisonHost::new(Comparison::start(plan(Array::Mirror, 2, sectors), 9).unwrap(), 2, 4);
    host.wish();
    let read_all = |host: &mut ComparisonHost, member: usize| {
        let mut blocks = 0;
        loop {
            host.wish();
            let queue = std::mem::take(&mut host.queues[member]);
            if queue.is_empty() {
                return blocks;
            }
            blocks += queue.len() as u64;
            for (range, again) in queue {
                host.comparison.read(member, range, again, members.read(member, range), host.now);
            }
        }
    };
    assert_eq!(read_all(&mut host, 0), slots);
    assert_eq!(host.comparison.figures().done, 0);
    let mut done = 0;
    while !host.comparison.is_done() {
        done += read_all(&mut host, 1);
        let _ = read_all(&mut host, 0);
    }
    assert_eq!((done, host.comparison.figures().done), (20_000, 20_000));
}

#[test]
fn members_of_other_arrays_are_recognised() {
    // One differing block more than a comparison accepts, each of one sector.
    let sectors = 65_537;
    let plan = ComparisonPlan {
        range: LbnRange::new(Lbn::new(OFFSET), Sectors::new(sectors)),
        block: Sectors::new(1),
        ..plan(Array::Mirror, 2, 1)
    };
    let mut comparison = Comparison::start(plan, 1).unwrap();
    let (mut now, mut wished) = (Instant::ZERO, std::collections::VecDeque::new());
    while !comparison.is_hopeless() {
        assert!(!comparison.is_done());
        now += Duration::from_secs(3);
        while let Some(wish) = comparison.wish(now) {
            let lbns = wish.range.start().get()..wish.range.end().get();
            wished.extend(lbns.map(|lbn| (wish.member, lbn, wish.again)));
        }
        for _ in 0..wished.len() {
            let (member, lbn, again) = wished.pop_front().unwrap();
            if !again && !comparison.has_room() {
                wished.push_back((member, lbn, again));
                continue;
            }
            let bytes = [member as u8; SECTOR];
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new(1));
            comparison.read(member, range, again, Ok(&bytes), now);
        }
    }
    let reported = comparison.figures();
    assert_eq!(reported.differing.len() as u64, 1_000);
    assert_eq!(reported.differing_more, sectors - 1_000);
}

#[test]
fn a_plan_that_cannot_be_names_its_field() {
    let good = plan(Array::Raid6 { chunk: Sectors::new(16) }, 4, 64);
    good.check().unwrap();
    let range = |first, len| LbnRange::new(Lbn::new(first), Sectors::new(len));
    for (plan, field) in [
        (ComparisonPlan { members: 3, ..good }, "members: 3; give 4 to 255"),
        (ComparisonPlan { members: 256, ..good }, "members: 256; give 4 to 255"),
        (ComparisonPlan { block: Sectors::new(5), ..good }, "block_sectors: 5 in chunks of 16"),
        (ComparisonPlan { block: Sectors::ZERO, ..good }, "block_sectors: 0 in chunks of 16"),
        (ComparisonPlan { range: range(OFFSET + 1, 9), ..good }, "first_lbn: 25, and the data begin at 24"),
        (ComparisonPlan { range: range(0, 9), ..good }, "first_lbn: 0, and the data begin at 24"),
        (ComparisonPlan { range: range(OFFSET, 0), ..good }, "sectors: 0;"),
        (ComparisonPlan { memory: Bytes::new(1), ..good }, "memory_bytes: 1;"),
    ] {
        let reported = plan.check().unwrap_err().to_string();
        assert!(reported.starts_with(field), "{reported}");
    }
}
