//! Executes the steps of a history on the host of a core inside the drive.

use super::World;
use crate::calls::Calls;
use crate::failure::Broken;
use crate::medium::Health;
use crate::mine::Mining;
use crate::misuse::{misuse, refuse};
use crate::scrub::Scrubbing;
use crate::setup::{Mimicry, Setup};
use crate::stage::{Doors, Outcome, Stage};
use crate::step::Step;
use crate::troubles::Troubles;
use scheduler::Core;
use units::{Duration, Instant, Lbn};

impl Stage for World {
    fn open(setup: &Setup) -> Result<Self, Broken> {
        Self::new(setup)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.sequence += 1;
        if let Some(called) = self.call(step) {
            return called;
        }
        match *step {
            Step::Polls { most } => {
                self.troubles.polls = most.map(|n| n.max(1));
                // A host that polls late starts work later than the twin, so the comparison ends.
                self.twin.on &= self.twin.is_lockstep() || most.is_none();
                self.drain()
            }
            Step::Bad { lbn, stuck } => self.health(lbn, if stuck { Health::Stuck } else { Health::Bad }),
            Step::Mend { lbn } => self.health(lbn, Health::Good),
            Step::Rot { lbn } => {
                let lbn = Lbn::new(lbn % self.capacity());
                self.medium.rot(lbn);
                self.note_for_scrub(std::iter::once(lbn));
                Ok(())
            }
            Step::Scrub { priority, block } => self.start_scrub(priority, block),
            Step::Save => {
                self.save_scrub();
                Ok(())
            }
            Step::Mine { priority, start, pages, scans, permille } => {
                self.start_mining(priority, (start, pages), (scans, permille))
            }
            Step::PowerCut => self.power_cut(),
            Step::Misuse { kind } => misuse(&mut self.core, &self.clients, self.now, kind),
            Step::Settle { hog } => self.settle(hog),
            // All other steps set troubles, or are for other hosts.
            _ => {
                self.troubles.take(step);
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.check_all()
    }

    fn polls_once_more(&mut self) {
        // A probing learner draws a random number for each query, so an additional poll would change its state.
        self.once_more = self.setup.mimic != Mimicry::Probing;
    }

    fn bad_call(&mut self, kind: Option<u32>) -> Result<(), Broken> {
        kind.map_or(Ok(()), |kind| refuse(&mut self.core, &self.clients, self.now, kind))
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn doors(&self) -> Doors {
        let core = &self.core;
        Doors { wake: core.wake_at(), busy: core.busy_until(), waiting: core.pending(), at_drive: 0 }
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn outcome(&self) -> Outcome {
        Outcome { counts: self.counts, hash: self.hash.get() }
    }
}

impl World {
    fn health(&mut self, lbn: u64, health: Health) -> Result<(), Broken> {
        let lbn = Lbn::new(lbn % self.capacity());
        self.medium.set_health(lbn, health);
        self.note_for_scrub(std::iter::once(lbn));
        Ok(())
    }

    /// Ends all troubles, and checks that every client gets its blocks.
    fn settle(&mut self, hog: bool) -> Result<(), Broken> {
        self.troubles = Troubles::NONE;
        self.late_is_now();
        self.advance(Duration::ZERO)?;
        self.all_sessions_finish(hog)?;
        self.check_scrub_over()?;
        self.check_mining_over()?;
        self.clients.check_ledger()
    }
}
