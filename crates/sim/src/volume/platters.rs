//! The parts of a drive that survive a power cut: its bytes, and its bad sectors.

use drive::{Medium, MediumError};
use model::DriveModel;
use scheduler::Bad;
use std::collections::BTreeMap;
use units::{Lbn, LbnRange, Op};

/// The cure of a bad sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// A write; reads fail until then.
    Write,
    /// None: writes fail as well.
    None,
}

/// The sectors that failed to be read, and to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Failed {
    pub read: Vec<Lbn>,
    pub written: Vec<Lbn>,
}

impl Failed {
    pub fn of(&mut self, op: Op) -> &mut Vec<Lbn> {
        match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.written,
        }
    }

    /// Sorts both lists in ascending order without duplicates, as the core expects them.
    pub fn sort(&mut self) {
        for list in [&mut self.read, &mut self.written] {
            list.sort_unstable();
            list.dedup();
        }
    }

    pub fn bad(&self) -> Bad<'_> {
        Bad { read: &self.read, written: &self.written }
    }
}

/// The bytes of a drive, and its bad sectors.
#[derive(Clone, Debug)]
pub struct Platters {
    medium: Medium,
    bad: BTreeMap<Lbn, Cure>,
}

impl Platters {
    /// Returns platters without bad sectors.
    pub fn new(medium: Medium) -> Self {
        Self { medium, bad: BTreeMap::new() }
    }

    /// Returns platters of zeroes without bad sectors.
    pub fn blank(drive: &DriveModel) -> Self {
        Self::new(Medium::new(drive.layout().capacity(), drive.sector_bytes()))
    }

    /// Returns the bytes, those under bad sectors included.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Returns the bytes, to prepare or to damage them before a run.
    pub fn medium_mut(&mut self) -> &mut Medium {
        &mut self.medium
    }

    /// Makes a sector bad.
    pub fn spoil(&mut self, lbn: Lbn, cure: Cure) {
        self.bad.insert(lbn, cure);
    }

    /// Returns the bad sectors, in ascending order.
    pub fn bad(&self) -> impl Iterator<Item = (Lbn, Cure)> {
        self.bad.iter().map(|(lbn, cure)| (*lbn, *cure))
    }

    /// Returns the first bad sector of a range.
    pub fn first_bad(&self, range: LbnRange) -> Option<Lbn> {
        self.bad.range(range.start()..range.end()).next().map(|(lbn, _)| *lbn)
    }

    /// Passes over sectors and adds those that fail to `failed`. A write that cures a sector removes it from the bad
    /// ones.
    pub(super) fn pass(&mut self, op: Op, range: LbnRange, failed: &mut Failed) {
        let bad: Vec<(Lbn, Cure)> =
            self.bad.range(range.start()..range.end()).map(|(lbn, cure)| (*lbn, *cure)).collect();
        for (lbn, cure) in bad {
            if op.is_write() && cure == Cure::Write {
                self.bad.remove(&lbn);
            } else {
                failed.of(op).push(lbn);
            }
        }
        if op.is_write() {
            failed.read.retain(|lbn| !range.contains(*lbn) || self.bad.contains_key(lbn));
        }
    }

    /// Writes bytes to the sectors that can be written.
    pub(super) fn put(&mut self, range: LbnRange, bytes: &[u8]) -> Result<(), MediumError> {
        if self.first_bad(range).is_none() {
            return self.medium.write(range, bytes);
        }
        let sectors = usize::try_from(range.len().get()).unwrap_or(usize::MAX).max(1);
        let mut lbn = range.start();
        for sector in bytes.chunks_exact((bytes.len() / sectors).max(1)) {
            let one = LbnRange::new(lbn, units::Sectors::new(1));
            if !self.bad.contains_key(&lbn) {
                self.medium.write(one, sector)?;
            }
            lbn = one.end();
        }
        Ok(())
    }
}
