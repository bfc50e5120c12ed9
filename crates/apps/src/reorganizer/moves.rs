//! Moves blocks into the staging area as they are read, and out of it as they are written.

use super::journal::{Fault, FaultKind, Nvram, NvramLost};
use super::links::BlockState;
use super::machine::Reorganizer;
use super::plan::NONE;
use super::staging::Written;
use crate::sessions::{Record, Sessions};
use units::LbnRange;

impl<N: Nvram> Reorganizer<N> {
    /// Returns the room of the staging area for blocks that still move.
    pub(super) fn usable(&self) -> u64 {
        self.options.staging.saturating_sub(self.links.kept)
    }

    /// Returns the largest number of staged blocks whose destinations are not free yet. One place is always reserved for a
    /// block that can be written; without it, all staged blocks could wait for a block that has no place to be read to.
    pub(super) fn limit(&self) -> u64 {
        let usable = self.usable();
        let share = u128::from(usable) * u128::from(self.options.threshold_percent) / 100;
        (share as u64).max(1).min(usable.saturating_sub(1))
    }

    pub(super) fn read(
        &mut self,
        sessions: &mut dyn Sessions,
        done: &Record,
        bytes: &[u8],
    ) -> Result<(), NvramLost> {
        let Some(b) = self.links.at(done.range.start().get()) else { return Ok(()) };
        let source = self.links.block(b).source();
        let old = self.fences.get(&b).is_some_and(|&fence| done.parameter.0 < fence);
        if source != done.range || !self.links.waits(b) || self.held.contains_key(&b) || old {
            return Ok(());
        }
        let class = self.class(b);
        if let Some(bad) = done.bad {
            self.journal.bad(&mut self.nvram, b, bad, FaultKind::Source)?;
            self.withdraw(sessions, b);
            self.faults.push(Fault { block: source, bad, kind: FaultKind::Source });
            let touched = self.links.source_bad(b);
            self.touch(sessions, touched);
            return Ok(());
        }
        let unwritable = !self.links.clear(b);
        let may_stay = !unwritable || self.links.clears_staged(b) || self.links.unwritable < self.limit();
        if self.links.staged >= self.usable() || !may_stay || bytes.len() as u64 != self.size(source) {
            self.statistics.dropped += 1;
            self.loose[class].insert(b);
            return Ok(());
        }
        self.journal.staged(&mut self.nvram, b, bytes)?;
        if !self.loose[class].remove(&b) && done.session != self.readings[class] {
            // Another session delivered the block. The session of its class has registered it too, and need not read it
            // again.
            let _ = sessions.abort_range(self.readings[class], source);
        }
        self.fences.remove(&b);
        self.staging.insert(b, bytes.to_vec());
        self.links.stage(b);
        self.statistics.staged += 1;
        self.statistics.broken += u64::from(unwritable);
        self.statistics.most_staged = self.statistics.most_staged.max(self.staging.len() as u64);
        self.offer(b);
        self.touch(sessions, [self.links.behind(b), self.links.ahead(b)]);
        Ok(())
    }

    pub(super) fn written(&mut self, sessions: &mut dyn Sessions, done: &Record) -> Result<(), NvramLost> {
        let Some(b) = u32::try_from(done.parameter.0).ok().filter(|&b| (b as usize) < self.links.len())
        else {
            return Ok(());
        };
        let complete = self.staging.complete(b);
        if complete == Written::Unknown || self.links.block(b).destination() != done.range {
            return Ok(());
        }
        if let Some(bad) = done.bad {
            self.journal.bad(&mut self.nvram, b, bad, FaultKind::Destination)?;
            let block = self.links.block(b).source();
            self.faults.push(Fault { block, bad, kind: FaultKind::Destination });
            self.staging.set_writing(b, false);
            let touched = self.links.target_bad(b);
            self.offer(b);
            self.touch(sessions, touched);
        } else if complete == Written::Again {
            self.statistics.rewritten += 1;
            self.staging.set_writing(b, false);
            self.offer(b);
        } else {
            self.journal.written(&mut self.nvram, b)?;
            self.links.written(b);
            self.staging.remove(b);
            self.statistics.moved += 1;
        }
        Ok(())
    }

    /// Updates the registrations of blocks whose neighbours have changed.
    fn touch(&mut self, sessions: &mut dyn Sessions, blocks: [u32; 2]) {
        for b in blocks.into_iter().filter(|&b| b != NONE) {
            if self.links.waits(b) {
                let before = self.class(b);
                if self.links.sort(b) && !self.held.contains_key(&b) {
                    if !self.loose[before].remove(&b) {
                        let _ = sessions.abort_range(self.readings[before], self.links.block(b).source());
                    }
                    self.loose[self.class(b)].insert(b);
                }
            } else if self.links.state(b) == BlockState::Done {
                // A bad sector elsewhere has made the block's source its destination.
                self.withdraw(sessions, b);
            } else {
                self.offer(b);
            }
        }
    }

    /// Queues a staged block for writing, if its destination is clear and no write of it is registered.
    pub(super) fn offer(&mut self, b: u32) {
        if self.links.state(b) == BlockState::Staged && self.links.clear(b) && !self.staging.is_writing(b) {
            self.unwritten.insert(b);
        }
    }

    fn size(&self, range: LbnRange) -> u64 {
        range.len().get().saturating_mul(self.sector.get())
    }
}
