//! The registrations of the three sessions, which follow the states of blocks and the fill level of the staging area.

use super::journal::Nvram;
use super::machine::Reorganizer;
use super::ranges::{self, Span};
use crate::sessions::{Parameter, Sessions};
use scheduler::SessionError;

impl<N: Nvram> Reorganizer<N> {
    pub(super) fn suspend_or_resume(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let full = self.links.staged >= self.usable();
        let suspend =
            self.paused || self.still || full || (class == 0 && self.links.unwritable >= self.limit());
        if suspend != self.suspended[class] {
            let session = self.readings[class];
            let done = if suspend { sessions.suspend(session) } else { sessions.resume(session) };
            match done {
                Ok(()) => self.suspended[class] = suspend,
                Err(error) => self.refused = Some(error),
            }
        }
    }

    pub(super) fn register_writes(&mut self, sessions: &mut dyn Sessions) {
        while let Some(&b) = self.unwritten.first() {
            let range = self.links.block(b).destination();
            match sessions.write(self.writing, range, range.len(), Parameter(b.into())) {
                Ok(_) => {
                    self.unwritten.remove(&b);
                    self.staging.set_writing(b, true);
                }
                Err(error) => {
                    self.refused = Some(error);
                    return;
                }
            }
        }
    }

    pub(super) fn register_reads(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let blocks: Vec<u32> = self.loose[class].iter().copied().collect();
        let spans = ranges::adjacent(&self.links, &blocks, self.block);
        if let Err(SessionError::TooManyTasks { .. }) = self.register(sessions, class, &blocks, &spans) {
            // Withdrawals of single blocks have split large ranges into tasks; register the remaining blocks together
            // again.
            if let Some(all) = ranges::everything(&self.links, self.capacity) {
                let _ = sessions.abort_range(self.readings[class], all);
            }
            self.loose[class] = (0..self.links.len() as u32)
                .filter(|&b| self.links.waits(b) && self.class(b) == class && !self.held.contains_key(&b))
                .collect();
            self.refused = None;
            self.rebuild(sessions, class);
        }
    }

    /// Registers all blocks of a class if none is registered.
    pub(super) fn rebuild(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let blocks: Vec<u32> = self.loose[class].iter().copied().collect();
        let spans = ranges::bridged(&self.links, &blocks, self.block);
        // A refusal is recorded, and its blocks stay unregistered.
        let _ = self.register(sessions, class, &blocks, &spans);
    }

    fn register(
        &mut self,
        sessions: &mut dyn Sessions,
        class: usize,
        blocks: &[u32],
        spans: &[Span],
    ) -> Result<(), SessionError> {
        self.epoch += 1;
        let session = self.readings[class];
        for span in spans {
            let registered = sessions.read(session, span.range, self.block, Parameter(self.epoch));
            if let Err(error) = registered {
                self.refused = Some(error);
                return Err(error);
            }
            for unwanted in &span.unwanted {
                // A block whose withdrawal fails is read in vain.
                let _ = sessions.abort_range(session, *unwanted);
            }
            for b in blocks.get(span.blocks.clone()).unwrap_or_default() {
                self.loose[class].remove(b);
            }
        }
        Ok(())
    }

    /// Withdraws the block's source from both read sessions.
    pub(super) fn withdraw(&mut self, sessions: &mut dyn Sessions, b: u32) {
        let source = self.links.block(b).source();
        for class in [0, 1] {
            self.loose[class].remove(&b);
            // A closed session has nothing to withdraw.
            let _ = sessions.abort_range(self.readings[class], source);
        }
    }

    /// Lets a waiting block be read, or read again, by registrations made from now on.
    pub(super) fn release(&mut self, b: u32) {
        if self.links.waits(b) {
            self.epoch += 1;
            self.fences.insert(b, self.epoch);
            self.loose[self.class(b)].insert(b);
        }
    }
}
