//! The state machine of a comparison.

use super::parity::{Parity, Products, Summer};
use super::plan::{Array, ComparisonPlan, ComparisonPlanError, StripePart};
use super::progress::{self, ComparisonProgressError, Differences};
use super::reading::{Read, Reading, RecordPlace, UnreadableSector};
use scheduler::BlockSet;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::{Duration, Instant, LbnRange, Sectors};

/// The most LBNs that are named; further ones are counted.
const NAMED_LBNS_MAX: usize = 1_000;
/// If more blocks than this differ, the comparison is given up: the members are not of one array, or the plan is
/// wrong.
const DIFFERING_BLOCKS_MAX: u64 = 1 << 16;
/// The most blocks that are read again at a time.
const READINGS_MAX: usize = 64;
/// If more blocks than this wait to be read again, no further blocks are read.
const SUSPECTS_MAX: usize = 256;
/// The least time between two readings of a block: a write to all members takes longer only on a failing array.
const REREAD_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// The most readings of a block that changes each time.
const BLOCK_READINGS_MAX: u32 = 16;
/// The most ranges of a member that are to be read at a time.
const WISHES_MAX: usize = 1_000;
/// A member gets a further range when one part in this number of the slots in `Comparison::seen` is free.
const REFILLS_PER_RING: u64 = 4;

/// A mark in a slot of `Comparison::seen`: all members' bytes of the block have come.
const COMPLETE: u16 = u16::MAX;
/// A flag beside the number of members in a slot of `Comparison::seen`: a sector could not be read, or a mirror's
/// sums differ.
const SUSPECT_FLAG: u16 = 1 << 15;

/// A range to be read from a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The member, from 0.
    pub member: usize,
    /// The LBNs on that member: whole blocks, whose records come in any order.
    pub range: LbnRange,
    /// Sectors of each record: a block, or a sector. The last record may have fewer.
    pub unit: Sectors,
    /// Whether the records are those of one suspect block, which is read again.
    pub again: bool,
}

/// The progress of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparisonFigures {
    /// Blocks that are compared, except for sectors that could not be read.
    pub done: u64,
    /// All blocks of a member.
    pub blocks: u64,
    /// LBNs at which the members do not agree; at most a thousand, in order.
    pub differing: Vec<u64>,
    /// The number of differing LBNs beyond the named ones.
    pub differing_more: u64,
    /// The sectors that could not be read; at most a thousand. At their LBNs the other members of a mirror are still
    /// compared, but the members of RAID 5 and RAID 6 are not.
    pub bad: Vec<UnreadableSector>,
    /// The number of unreadable sectors beyond the named ones.
    pub bad_more: u64,
    /// Blocks that differed at each reading, with new contents each time: they are written too often to be compared.
    pub unsettled: u64,
}

/// A block that is read again, because its sums differ or a sector could not be read.
#[derive(Clone, Debug)]
struct Suspect {
    readings: u32,
    due: Instant,
    /// The sectors of a record: one, after a member could not read the block as a whole.
    unit: Sectors,
    before: Option<Read>,
    reading: Option<Reading>,
}

/// The reads of a member that are under way.
#[derive(Clone, Debug, Default)]
struct Member {
    /// The first block that no range has asked for yet.
    next: u64,
    /// Ranges that are being read, by first block: the block after the last one, and the number of blocks that have
    /// not come.
    asked: BTreeMap<u64, (u64, u64)>,
}

/// Compares the members of an array.
///
/// The host does the reading: it reads the ranges that [`wish`](Self::wish) returns, in any order, and passes every
/// block to [`read`](Self::read). The host saves [`progress`](Self::progress) at any time, and [`Comparison::resume`]
/// reads the blocks that were not compared by then.
///
/// **A block is named when two readings, at least two seconds apart, have found the same bytes, and these do not
/// agree.** If bytes have changed between the readings, the block is read again, so that a write that has reached
/// only one member is not taken for a fault.
///
/// ```
/// use freeblock_apps::verify::{Array, Comparison, ComparisonPlan, MEMORY_MIN};
/// use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
/// let plan = ComparisonPlan {
///     array: Array::Mirror,
///     members: 2,
///     offset: Lbn::ZERO,
///     range: LbnRange::new(Lbn::ZERO, Sectors::new(64)),
///     block: Sectors::new(8),
///     sector_bytes: Bytes::new(512),
///     memory: MEMORY_MIN,
/// };
/// let mut disks = [vec![7u8; 64 * 512], vec![7u8; 64 * 512]];
/// disks[1][20 * 512] = 8;
/// let mut comparison = Comparison::start(plan, 42).unwrap();
/// let mut now = Instant::ZERO;
/// while !comparison.is_done() {
///     now = now + Duration::from_secs(1);
///     while let Some(wish) = comparison.wish(now) {
///         for first in (wish.range.start().get()..wish.range.end().get()).step_by(wish.unit.get() as usize) {
///             let bytes = &disks[wish.member][first as usize * 512..][..wish.unit.get() as usize * 512];
///             let range = LbnRange::new(Lbn::new(first), wish.unit);
///             comparison.read(wish.member, range, wish.again, Ok(bytes), now);
///         }
///     }
/// }
/// assert_eq!(comparison.figures().differing, [20]);
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    plan: ComparisonPlan,
    parity: Parity,
    /// Blocks that are not settled.
    left: BlockSet,
    /// Three rings with a slot for each block that only some members have read: block `n` is in slot `n` modulo the
    /// length. This one has the sum of the mirror's member that was read first, or of the data and P.
    sums: Vec<u64>,
    /// For RAID 6, the sum of the weighted data and Q.
    weighted: Vec<u64>,
    /// The number of members that have been read, perhaps with `SUSPECT_FLAG`; or `COMPLETE`.
    seen: Vec<u16>,
    /// The first block in the ring.
    base: u64,
    members: Vec<Member>,
    suspects: BTreeMap<u64, Suspect>,
    wishes: VecDeque<Wish>,
    found: Differences,
    /// A buffer for the weighted bytes of a block.
    scratch: Vec<u8>,
}

impl Comparison {
    /// Begins a comparison. `seed` must be random, so that no content can be chosen whose differences the sums miss.
    ///
    /// # Errors
    /// A field of the plan is wrong.
    pub fn start(plan: ComparisonPlan, seed: u64) -> Result<Self, ComparisonPlanError> {
        plan.check()?;
        let left = BlockSet::full(plan.blocks());
        Ok(Self::with(plan, seed, left, Differences::default()))
    }

    /// Decodes bytes of [`progress`](Self::progress), and resumes the comparison.
    ///
    /// # Errors
    /// The outer error means that the progress is refused, the inner one that a field of the plan is wrong.
    pub fn resume(
        plan: ComparisonPlan,
        saved: &[u8],
        seed: u64,
    ) -> Result<Result<Self, ComparisonPlanError>, ComparisonProgressError> {
        if let Err(error) = plan.check() {
            return Ok(Err(error));
        }
        let (left, found) = progress::decode(&plan, saved)?;
        Ok(Ok(Self::with(plan, seed, left, found)))
    }

    fn with(plan: ComparisonPlan, seed: u64, left: BlockSet, found: Differences) -> Self {
        let slots = (plan.memory.get() / plan.slot_bytes()).min(plan.blocks()).max(1);
        let slots = usize::try_from(slots).unwrap_or(1);
        let raid6 = matches!(plan.array, Array::Raid6 { .. });
        let weights =
            if raid6 { (0..plan.members - 2).map(Products::of_power).collect() } else { Vec::new() };
        Self {
            plan,
            parity: Parity { summer: Summer::new(seed), weights },
            left,
            sums: vec![0; slots],
            weighted: vec![0; if raid6 { slots } else { 0 }],
            seen: vec![0; slots],
            base: 0,
            members: vec![Member::default(); plan.members],
            suspects: BTreeMap::new(),
            wishes: VecDeque::new(),
            found,
            scratch: Vec::new(),
        }
    }

    /// Returns the progress as bytes, to be saved whole.
    pub fn progress(&self) -> Vec<u8> {
        progress::encode(&self.plan, &self.left, &self.found)
    }

    /// Returns whether every block is settled.
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns whether more blocks differ than members of one array can have.
    pub fn is_hopeless(&self) -> bool {
        self.found.differing_blocks > DIFFERING_BLOCKS_MAX
    }

    /// Returns whether further blocks may be read. If too many wait to be read again, the host reads only those.
    pub fn has_room(&self) -> bool {
        self.suspects.len() < SUSPECTS_MAX
    }

    /// Returns what was found so far.
    pub fn figures(&self) -> ComparisonFigures {
        let blocks = self.plan.blocks();
        ComparisonFigures {
            done: blocks - self.left.len(),
            blocks,
            differing: self.found.differing.iter().copied().collect(),
            differing_more: self.found.differing_more,
            bad: self.found.bad.iter().copied().collect(),
            bad_more: self.found.bad_more,
            unsettled: self.found.unsettled,
        }
    }

    /// Returns the next range to be read, or `None` if nothing is to be read at present.
    pub fn wish(&mut self, now: Instant) -> Option<Wish> {
        if let Some(wish) = self.wishes.pop_front() {
            return Some(wish);
        }
        self.read_again(now);
        self.wishes.pop_front().or_else(|| (0..self.members.len()).find_map(|member| self.range_for(member)))
    }

    /// Begins readings of blocks that are due.
    fn read_again(&mut self, now: Instant) {
        let at_work = self.suspects.values().filter_map(|suspect| suspect.reading.as_ref());
        let mut at_work: usize = at_work.map(Reading::cost).sum();
        let due =
            self.suspects.iter_mut().filter(|(_, suspect)| suspect.reading.is_none() && suspect.due <= now);
        for (block, suspect) in due {
            if at_work >= READINGS_MAX {
                return;
            }
            let (range, unit, again) = (self.plan.place(*block), suspect.unit, true);
            at_work += suspect.reading.insert(Reading::new(&self.plan, range, unit)).cost();
            self.wishes.extend((0..self.plan.members).map(|member| Wish { member, range, unit, again }));
        }
    }

    /// Returns a member's next range, if the ring has room for it.
    fn range_for(&mut self, member: usize) -> Option<Wish> {
        let (blocks, slots) = (self.plan.blocks(), self.seen.len() as u64);
        let limit = self.base.saturating_add(slots).min(blocks);
        let its = self.members.get_mut(member)?;
        its.next = its.next.max(self.base);
        let room = limit.saturating_sub(its.next);
        if its.asked.len() >= WISHES_MAX || (limit < blocks && room < slots.div_ceil(REFILLS_PER_RING)) {
            return None;
        }
        // No block from `next` on was compared since this start, so each one that is left needs this member's bytes.
        let Some(Range { start: first, end }) = self.left.run(its.next, limit) else {
            its.next = limit.max(its.next);
            return None;
        };
        its.next = end;
        its.asked.insert(first, (end, end - first));
        let (from, last) = (self.plan.place(first), self.plan.place(end - 1));
        let range = LbnRange::new(from.start(), last.end().since(from.start()));
        Some(Wish { member, range, unit: self.plan.block, again: false })
    }

    /// Takes a record of a member: its bytes, or the first LBN that could not be read. Bytes that were not wished for
    /// are dropped.
    pub fn read(
        &mut self,
        member: usize,
        range: LbnRange,
        again: bool,
        bytes: Result<&[u8], u64>,
        now: Instant,
    ) {
        let Some(block) = self.plan.block_of(range.start()) else { return };
        let place = self.plan.place(block);
        let whole = range.len().bytes(self.plan.sector_bytes).get();
        let bytes =
            bytes.and_then(|b| if b.len() as u64 == whole { Ok(b) } else { Err(range.start().get()) });
        if again {
            let skip = range.start().since(place.start());
            self.read_once_more(RecordPlace { member, block, skip: skip.get() }, bytes, now)
        } else if range == place {
            self.read_first(member, block, bytes, now)
        }
    }

    fn read_first(&mut self, member: usize, block: u64, bytes: Result<&[u8], u64>, now: Instant) {
        let Some(its) = self.members.get_mut(member) else { return };
        let Some((&first, (end, left))) = its.asked.range_mut(..=block).next_back() else { return };
        if block >= *end || block < self.base {
            return;
        }
        *left -= 1;
        if *left == 0 {
            its.asked.remove(&first);
        }
        let slot = (block % self.seen.len() as u64) as usize;
        let (Some(seen), Some(sum)) = (self.seen.get_mut(slot), self.sums.get_mut(slot)) else { return };
        let before = *seen & !SUSPECT_FLAG;
        *seen += 1;
        match bytes {
            Err(_) => *seen |= SUSPECT_FLAG,
            Ok(bytes) => {
                let part = self.plan.part(member, block);
                let own = if part == StripePart::Q { 0 } else { self.parity.summer.of(bytes) };
                match self.plan.array {
                    Array::Mirror if before == 0 => *sum = own,
                    Array::Mirror if *sum != own => *seen |= SUSPECT_FLAG,
                    Array::Mirror => {}
                    Array::Raid5 | Array::Raid6 { .. } => *sum ^= own,
                }
                if let (Some(weighted), true) = (self.weighted.get_mut(slot), part != StripePart::P) {
                    let power = if let StripePart::Data(number) = part { number } else { 0 };
                    if let Some(products) = self.parity.weights.get(power) {
                        products.put(&mut self.scratch, bytes);
                        *weighted ^= self.parity.summer.of(&self.scratch);
                    }
                }
            }
        }
        if usize::from(*seen & !SUSPECT_FLAG) < self.plan.members {
            return;
        }
        let mut agree = *seen & SUSPECT_FLAG == 0;
        if self.plan.array != Array::Mirror {
            agree &= *sum == 0 && self.weighted.get(slot).is_none_or(|weighted| *weighted == 0);
        }
        *seen = COMPLETE;
        if agree {
            self.left.remove(block);
        } else {
            let (due, unit) = (now + REREAD_INTERVAL_MIN, self.plan.block);
            let suspect = Suspect { readings: 0, due, unit, before: None, reading: None };
            self.suspects.insert(block, suspect);
        }
        self.advance();
    }

    /// Frees the slots of blocks that all members have read.
    fn advance(&mut self) {
        let slots = self.seen.len() as u64;
        while self.base < self.plan.blocks() {
            let slot = (self.base % slots) as usize;
            let complete = self.seen.get(slot) == Some(&COMPLETE);
            if !complete && self.left.contains(self.base) {
                return;
            }
            if complete {
                if let (Some(seen), Some(sum)) = (self.seen.get_mut(slot), self.sums.get_mut(slot)) {
                    (*seen, *sum) = (0, 0);
                }
                if let Some(weighted) = self.weighted.get_mut(slot) {
                    *weighted = 0;
                }
            }
            self.base += 1;
        }
    }

    fn read_once_more(&mut self, at: RecordPlace, bytes: Result<&[u8], u64>, now: Instant) {
        let block = at.block;
        let Some(suspect) = self.suspects.get_mut(&block) else { return };
        let Some(reading) = &mut suspect.reading else { return };
        if !reading.add(&self.plan, &self.parity, at, bytes) {
            return;
        }
        let result = reading.result(&self.parity.summer);
        suspect.reading = None;
        suspect.readings += 1;
        if !result.bad.is_empty() && suspect.unit > Sectors::new(1) {
            (suspect.unit, suspect.due) = (Sectors::new(1), now);
            return;
        } else if result.differing.is_empty() {
            // At this reading the members agree wherever they could be compared.
        } else if suspect.before.as_ref() == Some(&result) {
            self.found.differing_blocks += 1;
            let first = self.plan.place(block).start().get();
            for sector in &result.differing {
                if self.found.differing.len() < NAMED_LBNS_MAX {
                    self.found.differing.insert(first + sector);
                } else {
                    self.found.differing_more += 1;
                }
            }
        } else if suspect.readings < BLOCK_READINGS_MAX {
            suspect.before = Some(result);
            suspect.due = now + REREAD_INTERVAL_MIN;
            return;
        } else {
            self.found.unsettled += 1;
        }
        for bad in result.bad {
            if self.found.bad.len() < NAMED_LBNS_MAX {
                self.found.bad.insert(bad);
            } else {
                self.found.bad_more += 1;
            }
        }
        self.suspects.remove(&block);
        self.left.remove(block);
    }
}
