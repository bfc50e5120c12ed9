//! A foreground write as a sequence of I/O steps.

use super::step::{Bytes, Planned, PlannedWrite, Step, WriteId};
use super::volume::{Cow, Volume};
use super::{Change, SnapshotId};
use std::collections::VecDeque;
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// The state of a write after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteProgress {
    /// The write has another step.
    More,
    /// The write is complete.
    Complete,
}

/// The reason for which a write was not begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The range is not on the volume.
    #[error("LBNs {range} are not on the volume, which is LBNs {volume}")]
    Outside {
        /// The range of the write.
        range: LbnRange,
        /// The LBNs of the volume.
        volume: LbnRange,
    },
    /// Another write of the block is under way.
    #[error("block {0} is being written; writes of a block go one after the other")]
    Busy(u64),
    /// There is no room for the contents that snapshots would keep.
    #[error(
        "{needed} slots are needed and {free} are free; delete or invalidate a snapshot, or refuse the write"
    )]
    Full {
        /// Slots that the write needs.
        needed: u64,
        /// Slots that are free.
        free: u64,
        /// The oldest snapshot, which a host would invalidate first.
        oldest: Option<SnapshotId>,
    },
}

/// The failure of a write. Blocks before the failed one are written, as after any failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteFailure {
    /// The block's slot cannot be written.
    #[error("block {block} cannot be written")]
    Medium {
        /// The block.
        block: u64,
    },
    /// A block was to be written in part to another slot, and its rest cannot be read.
    #[error("block {block} cannot be read, and was to be written in part; write the whole block")]
    Unreadable {
        /// The block.
        block: u64,
    },
    /// The journal could not be written.
    #[error("the change for block {block} could not be recorded")]
    Journal {
        /// The block.
        block: u64,
    },
    /// A slot could not be written, and no other slot was free.
    #[error("block {block} needs a slot and none is left; delete or invalidate a snapshot")]
    Full {
        /// The block.
        block: u64,
    },
    /// There is no such write.
    #[error("{0} is not under way")]
    NoWrite(WriteId),
}

impl Volume {
    /// Begins a foreground write to these LBNs of the volume (the homes of its blocks).
    ///
    /// # Errors
    /// The range is outside of the volume, a block is being written, or there is no room.
    pub fn write(&mut self, range: LbnRange) -> Result<WriteId, WriteError> {
        let geometry = self.geometry;
        let size = geometry.block.get();
        let volume = LbnRange::new(geometry.first, Sectors::new(geometry.blocks * size));
        let inside = range.checked_end().is_some_and(|end| end <= volume.end());
        if range.is_empty() || range.start() < volume.start() || !inside {
            return Err(WriteError::Outside { range, volume });
        }
        let first = range.start().since(geometry.first).get() / size;
        let last = (range.end().since(geometry.first).get() - 1) / size;
        if let Some(busy) = self.busy.range(first..=last).next() {
            return Err(WriteError::Busy(*busy));
        }
        let needed = (first..=last).filter(|b| self.needs_slot(*b)).count() as u64;
        if needed > self.free.len() {
            let oldest = self.live.first().copied();
            return Err(WriteError::Full { needed, free: self.free.len(), oldest });
        }
        let id = WriteId(self.next_write);
        self.next_write += 1;
        let mut steps = VecDeque::new();
        for block in first..=last {
            steps.extend(self.plan(range, block));
            self.busy.insert(block);
        }
        self.writes.insert(id, PlannedWrite { range, first, last, steps });
        Ok(id)
    }

    /// Returns the current step, which stays until [`done`](Self::done) or [`failed`](Self::failed); `None` once the
    /// write is complete or has failed.
    pub fn step(&self, write: WriteId) -> Option<Step> {
        self.writes.get(&write)?.steps.front().map(|p| p.step)
    }

    /// Records that the step is done.
    pub fn done(&mut self, write: WriteId) -> WriteProgress {
        let Some(writing) = self.writes.get_mut(&write) else { return WriteProgress::Complete };
        let done = writing.steps.pop_front();
        let complete = writing.steps.is_empty();
        if let Some(Planned { step: Step::Record(entry), slot, .. }) = done {
            if let Some(slot) = slot {
                self.release(slot);
            }
            let applied = self.apply(entry.change);
            debug_assert!(applied.is_ok(), "{applied:?}");
        }
        if complete {
            self.end(write);
            return WriteProgress::Complete;
        }
        WriteProgress::More
    }

    /// Records that the step failed on the medium, and recovers if possible: an unwritable slot is replaced by
    /// another one; a block that cannot be read is lost to its snapshots, and the foreground's write continues.
    ///
    /// # Errors
    /// The write has failed, and has ended.
    pub fn failed(&mut self, write: WriteId) -> Result<(), WriteFailure> {
        let writing = self.writes.get_mut(&write).ok_or(WriteFailure::NoWrite(write))?;
        let front = writing.steps.front().copied().ok_or(WriteFailure::NoWrite(write))?;
        let (range, block) = (writing.range, front.block);
        let mended = match (front.step, front.slot) {
            (Step::Read(_), Some(slot)) if self.cow == Cow::Snapshot => {
                while writing.steps.front().is_some_and(|p| p.block == block) {
                    writing.steps.pop_front();
                }
                self.release(slot);
                let lost = Change::Keep { block, slot: None };
                Ok(self.keep_then_write(range, block, lost, None))
            }
            (Step::Read(_), _) => Err(WriteFailure::Unreadable { block }),
            (Step::Write { .. }, Some(slot)) => {
                while writing.steps.front().is_some_and(|p| p.block == block) {
                    writing.steps.pop_front();
                }
                // The bad slot stays reserved until it is recorded as retired, so that the new plan does not get it.
                let retire = Step::Record(self.entry(Change::Retire { slot }));
                let mut steps = vec![Planned { block, step: retire, slot: Some(slot) }];
                if self.needs_slot(block) && self.free.is_empty() {
                    self.release(slot);
                    let retired = self.apply(Change::Retire { slot });
                    debug_assert!(retired.is_ok(), "{retired:?}");
                    Err(WriteFailure::Full { block })
                } else {
                    steps.extend(self.plan(range, block));
                    Ok(steps)
                }
            }
            (Step::Write { .. }, None) => Err(WriteFailure::Medium { block }),
            (Step::Record(_), _) => Err(WriteFailure::Journal { block }),
        };
        match mended {
            Ok(steps) => {
                if let Some(writing) = self.writes.get_mut(&write) {
                    for step in steps.into_iter().rev() {
                        writing.steps.push_front(step);
                    }
                }
                Ok(())
            }
            Err(failure) => {
                self.end(write);
                Err(failure)
            }
        }
    }

    /// Ends a write, and frees the unused slots reserved for it.
    fn end(&mut self, write: WriteId) {
        let Some(writing) = self.writes.remove(&write) else { return };
        let mut slots: Vec<u64> = writing.steps.iter().filter_map(|p| p.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            self.release(slot);
        }
        for block in writing.first..=writing.last {
            self.busy.remove(&block);
        }
    }

    fn needs_slot(&self, block: u64) -> bool {
        self.version(block).is_none_or(|v| self.claimed(v.born, self.epoch))
    }

    /// Reserves a free slot: the first from `near` on, or else the lowest.
    fn reserve(&mut self, near: u64) -> Option<u64> {
        let slot = self.free.next(near).or_else(|| self.free.next(0))?;
        self.free.remove(slot);
        self.reserved += 1;
        Some(slot)
    }

    fn release(&mut self, slot: u64) {
        if self.free.insert(slot) {
            self.reserved -= 1;
        }
    }

    /// Returns the steps of one block of a write.
    fn plan(&mut self, range: LbnRange, block: u64) -> Vec<Planned> {
        let old = self.version(block);
        if !self.needs_slot(block) {
            let mut steps = Vec::new();
            // The change is recorded before the data are written, so that a difference never misses a written block.
            if old.is_some_and(|v| v.born < self.epoch) {
                let step = Step::Record(self.entry(Change::Touch { block }));
                steps.push(Planned { block, step, slot: None });
            }
            steps.extend(old.map(|v| self.data(range, block, v.slot, None)));
            return steps;
        }
        let Some(slot) = self.reserve(block) else { return Vec::new() };
        let (all, part) = (self.geometry.slot(slot), self.part(range, block));
        let step = |step| Planned { block, step, slot: Some(slot) };
        let copy = |from| [step(Step::Read(from)), step(Step::Write { to: all, bytes: Bytes::Read })];
        let from = old.map(|v| self.geometry.slot(v.slot));
        match (self.cow, from) {
            (Cow::Snapshot, Some(from)) => {
                let mut steps = copy(from).to_vec();
                steps.extend(self.keep_then_write(
                    range,
                    block,
                    Change::Keep { block, slot: Some(slot) },
                    Some(slot),
                ));
                steps
            }
            (_, from) => {
                let mut steps = match from {
                    _ if part.1.get() == self.geometry.block.get() => Vec::new(),
                    Some(from) => copy(from).to_vec(),
                    None => vec![step(Step::Write { to: all, bytes: Bytes::Zeros })],
                };
                steps.push(self.data(range, block, slot, Some(slot)));
                steps.push(step(Step::Record(self.entry(Change::Move { block, slot }))));
                steps
            }
        }
    }

    fn keep_then_write(&self, range: LbnRange, block: u64, keep: Change, slot: Option<u64>) -> Vec<Planned> {
        let record = Planned { block, step: Step::Record(self.entry(keep)), slot };
        let home = self.version(block).map_or(block, |v| v.slot);
        vec![record, self.data(range, block, home, None)]
    }

    /// Returns the part of the block that the write covers: the number of the block's sectors before it, and its
    /// length.
    fn part(&self, range: LbnRange, block: u64) -> (u64, Sectors) {
        let size = self.geometry.block.get();
        let home = self.geometry.first.get() + block * size;
        let from = range.start().get().max(home);
        let to = range.end().get().min(home + size);
        (from - home, Sectors::new(to - from))
    }

    fn data(&self, range: LbnRange, block: u64, to: u64, slot: Option<u64>) -> Planned {
        let (skip, len) = self.part(range, block);
        let start = Lbn::new(self.geometry.slot(to).start().get() + skip);
        let home = self.geometry.first.get() + block * self.geometry.block.get();
        let from = Sectors::new(home + skip - range.start().get());
        let step = Step::Write { to: LbnRange::new(start, len), bytes: Bytes::Data { from } };
        Planned { block, step, slot }
    }
}
