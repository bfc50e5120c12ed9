//! The black box: a simulated drive that may differ from its profile, with bad sectors.

use crate::medium::Health;
use crate::outer::Outer;
use crate::setup::Setup;
use drive::{BlackBox, Command, Drive};
use model::{DriveModel, Profile};
use scheduler::Overheads;
use sim::black_box;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, RequestId, Sectors};

pub(super) struct Boxed {
    profile: Profile,
    outer: Outer,
    /// The seed of the drive's random times.
    seed: u64,
    device: Drive,
    pub overheads: Overheads,
    bad: BTreeSet<Lbn>,
    stuck: BTreeSet<Lbn>,
}

impl Boxed {
    pub fn new(setup: &Setup, now: Instant) -> Result<Self, String> {
        let profile = Outer::profile(setup.drive.profile()?)?;
        let outer = setup.outside;
        let made = black_box(&profile, outer.behaviour(), setup.seed).map_err(|e| e.to_string())?;
        let (mut device, overheads) = made;
        device.advance(now);
        let (bad, stuck) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { profile, outer, seed: setup.seed, device, overheads, bad, stuck })
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn model(&self) -> Arc<DriveModel> {
        Arc::new(self.device.model().clone())
    }

    /// Resets the drive, which discards its commands and moves the arm to the first cylinder. Only a power cut changes the
    /// rotation of the platter.
    pub fn restart(&mut self, now: Instant, power: bool) -> Result<(), String> {
        self.seed = self.seed.wrapping_add(u64::from(power));
        let made = black_box(&self.profile, self.outer.behaviour(), self.seed).map_err(|e| e.to_string())?;
        self.device = made.0;
        self.device.advance(now);
        self.bad.iter().chain(&self.stuck).for_each(|lbn| self.device.damage(one(*lbn)));
        Ok(())
    }

    pub fn set_health(&mut self, lbn: Lbn, health: Health) {
        self.bad.remove(&lbn);
        self.stuck.remove(&lbn);
        match health {
            // A sector that is good again stays bad for the drive: its next read still takes the time of retries, but
            // succeeds.
            Health::Good => return,
            Health::Bad => self.bad.insert(lbn),
            Health::Stuck => self.stuck.insert(lbn),
        };
        self.device.damage(one(lbn));
    }

    pub fn send(&mut self, now: Instant, name: u64, op: units::Op, range: LbnRange) -> Result<(), String> {
        let command = Command { id: RequestId::new(name), op, range };
        self.device.submit(now, command).map_err(|e| e.to_string())?;
        if op.is_write() {
            self.bad.retain(|lbn| !range.contains(*lbn));
            let still: Vec<Lbn> = self.stuck.iter().filter(|lbn| range.contains(**lbn)).copied().collect();
            still.into_iter().for_each(|lbn| self.device.damage(one(lbn)));
        }
        Ok(())
    }

    pub fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }

    pub fn advance(&mut self, now: Instant) {
        self.device.advance(now);
    }

    /// Removes and returns the oldest finished command, with the time of its completion.
    pub fn pop(&mut self) -> Option<(u64, Instant)> {
        self.device.pop_reply().map(|reply| (reply.id.get(), reply.at))
    }
}

fn one(lbn: Lbn) -> LbnRange {
    LbnRange::new(lbn, Sectors::new(1))
}
