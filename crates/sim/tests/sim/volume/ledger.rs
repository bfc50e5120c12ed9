//! The contents that a client of a volume may see: each write takes effect at some instant of an interval, and every
//! read must agree with that.

use std::collections::{BTreeMap, BTreeSet};
use units::{Instant, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

/// A write to some sectors. The bytes in each sector contain the number of the write.
#[derive(Clone, Debug)]
pub struct Write {
    /// The instant of submission, or of the registration of the task.
    pub begin: Instant,
    /// The instant of completion, if it is certain that all of the write is on the medium.
    pub end: Option<Instant>,
    pub foreground: bool,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub session: SessionId,
    pub op: Op,
    pub range: LbnRange,
    pub block: u64,
    pub registered: Instant,
    pub came: BTreeSet<LbnRange>,
    /// The number of blocks that were withdrawn when the task was aborted or closed; none of them may be delivered.
    pub ended: Option<u64>,
    /// Whether some blocks of the task were withdrawn.
    pub doubt: bool,
    /// The number of the task's write.
    pub version: usize,
}

impl Task {
    pub fn blocks(&self) -> u64 {
        self.range.len().get().div_ceil(self.block)
    }

    /// Returns a block that is not delivered yet.
    pub fn missing(&self, choice: u64) -> Option<LbnRange> {
        let blocks = (0..self.blocks()).map(|block| {
            let start = block * self.block;
            let len = self.block.min(self.range.len().get() - start);
            LbnRange::new(self.range.start() + Sectors::new(start), Sectors::new(len))
        });
        let missing: Vec<_> = blocks.filter(|b| self.ended.is_none() && !self.came.contains(b)).collect();
        missing.get(choice as usize / 4 % missing.len().max(1)).copied()
    }

    pub fn left(&self) -> u64 {
        self.blocks() - self.came.len() as u64
    }
}

/// The last pass of the head over a sector: the instant at which the core ordered it.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub began: Instant,
}

#[derive(Default)]
pub struct Ledger {
    pub writes: Vec<Write>,
    /// The permitted contents of each sector: numbers of writes, oldest first.
    pub on: BTreeMap<Lbn, Vec<usize>>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub passes: BTreeMap<Lbn, Pass>,
    /// Sectors that were ever bad.
    pub bad: BTreeSet<Lbn>,
    /// Whether any sector may have become bad.
    pub any_bad: bool,
    /// The number of requests for buffers that are still to be refused.
    pub refuse: u32,
    pub delivered: u64,
    pub problems: Vec<String>,
}

impl Ledger {
    pub fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Adds a write of a range.
    pub fn write(&mut self, begin: Instant, range: LbnRange, foreground: bool) -> usize {
        if self.writes.is_empty() {
            // Number 0 is the content before all writes.
            self.writes.push(Write { begin: Instant::ZERO, end: Some(Instant::ZERO), foreground: true });
        }
        self.writes.push(Write { begin, end: None, foreground });
        let number = self.writes.len() - 1;
        for lbn in range.start().get()..range.end().get() {
            self.on.entry(Lbn::new(lbn)).or_insert_with(|| vec![0]).push(number);
        }
        number
    }

    /// Returns an error unless a sector that was read between `from` and `to` may have held write `number`.
    pub fn may_hold(&self, lbn: Lbn, number: usize, from: Instant, to: Instant) -> Result<(), String> {
        let fresh = vec![0];
        let here = self.on.get(&lbn).unwrap_or(&fresh);
        if !here.contains(&number) {
            return Err(format!("LBN {lbn} holds write {number}, which was never for it; {here:?} were"));
        }
        let Some(held) = self.writes.get(number) else { return Ok(()) };
        if held.begin > to {
            return Err(format!("LBN {lbn} held write {number} before it was submitted"));
        }
        for &other in here.iter().filter(|&&other| other != number) {
            let w = &self.writes[other];
            let Some(end) = w.end.filter(|end| *end < from) else { continue };
            // Write `other` was done before the read. It is newer than `number` if it began after `number` was done,
            // or if it is a foreground write that arrived after the background write `number` was registered.
            let newer = held.end.is_some_and(|held| held < w.begin)
                || (!held.foreground && w.foreground && w.begin > held.begin);
            if newer {
                return Err(format!(
                    "LBN {lbn} between {from} and {to} still held write {number} ({held:?}), but write {other} \
                     ({w:?}) was done at {end}"
                ));
            }
        }
        Ok(())
    }

    pub fn check_bytes(&mut self, what: &str, range: LbnRange, bytes: &[u8], from: Instant, to: Instant) {
        let sectors = range.len().get() as usize;
        if bytes.len() < sectors * 16 {
            return self.problem(format!("{what}: {} bytes for {range}", bytes.len()));
        }
        for (sector, lbn) in bytes.chunks_exact(bytes.len() / sectors).zip(range.start().get()..) {
            let lbn = Lbn::new(lbn);
            match decode(lbn, sector) {
                Ok(number) => {
                    if let Err(problem) = self.may_hold(lbn, number, from, to) {
                        self.problem(format!("{what} of {range}: {problem}"));
                    }
                }
                Err(problem) => self.problem(format!("{what} of {range}: {problem}")),
            }
        }
    }

    /// Checks that the head has passed over all sectors of a range in orders after `since` that were not lost.
    pub fn check_passed(&mut self, range: LbnRange, since: Instant) {
        for lbn in range.start().get()..range.end().get() {
            if self.passes.get(&Lbn::new(lbn)).is_none_or(|pass| pass.began < since) {
                return self.problem(format!(
                    "a block over {range} was delivered, but nothing passed over LBN {lbn}"
                ));
            }
        }
    }
}

pub fn encode(range: LbnRange, number: usize, sector: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for lbn in range.start().get()..range.end().get() {
        let at = bytes.len();
        bytes.extend(lbn.to_le_bytes());
        bytes.extend((number as u64).to_le_bytes());
        bytes.resize(at + sector, number as u8);
    }
    bytes
}

pub fn decode(lbn: Lbn, sector: &[u8]) -> Result<usize, String> {
    if sector.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().unwrap());
    if word(0) != lbn.get() {
        return Err(format!("LBN {lbn} has the bytes of LBN {}", word(0)));
    }
    let number = word(8) as usize;
    if sector[16..].iter().any(|byte| *byte != number as u8) {
        return Err(format!("LBN {lbn} holds a torn sector"));
    }
    Ok(number)
}
