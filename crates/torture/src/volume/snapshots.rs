//! The part of the drive with snapshots. A foreground write takes several steps, and the maps are in a journal that survives
//! a power cut.

use super::shadow::Floors;
use super::{House, Part, Way, Whose, refused};
use crate::clients::range;
use crate::dice::Dice;
use crate::failure::{Broken, Check, hold};
use apps::snapshot::{
    Bytes, Cow, Entry, Geometry, SnapshotId, Step, Volume, VolumeId, WriteError, WriteId, WriteProgress,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Lbn, LbnRange, Op, Sectors};

/// The number of journal entries above which a saved state replaces the journal.
const JOURNAL_ENTRIES_MAX: usize = 64;

pub(super) struct Snapshots {
    pub volume: Rc<RefCell<Volume>>,
    geometry: Geometry,
    saved: Vec<u8>,
    journal: Vec<[u8; Entry::BYTES]>,
    /// For each snapshot, the oldest permitted version of each sector, and the last version issued before it. The snapshot may
    /// have versions between the two, from writes that had failed or were cut short.
    pub taken: BTreeMap<SnapshotId, (Floors, u64)>,
}

impl Snapshots {
    pub fn new(part: LbnRange, dice: &mut Dice) -> Result<Self, Broken> {
        let block = dice.range(1, 8.min(part.len().get()));
        let slots = part.len().get() / block;
        let blocks = (slots * dice.range(50, 95) / 100).max(1);
        let (first, volume) = (part.start(), VolumeId(u128::from(dice.next())));
        let geometry = Geometry { volume, first, block: Sectors::new(block), blocks, slots };
        let cow = if dice.one_in(2) { Cow::Application } else { Cow::Snapshot };
        let mut volume = Volume::new(geometry, cow).map_err(refused)?;
        let saved = volume.save().map_err(refused)?;
        let volume = Rc::new(RefCell::new(volume));
        Ok(Self { volume, geometry, saved, journal: Vec::new(), taken: BTreeMap::new() })
    }

    pub fn drawn(&self) -> String {
        format!("{:?} {:?}", self.geometry, self.volume.borrow().cow())
    }

    /// Returns the end of the clients' address range.
    pub fn end(&self) -> Lbn {
        let Geometry { first, block, blocks, .. } = self.geometry;
        first + Sectors::new(block.get() * blocks)
    }

    pub fn all(&self) -> LbnRange {
        let first = self.geometry.first;
        LbnRange::new(first, self.end().since(first))
    }

    /// Returns the range extended to whole blocks.
    pub fn blocks_around(&self, of: LbnRange) -> LbnRange {
        let (first, block) = (self.geometry.first.get(), self.geometry.block.get());
        let from = (of.start().get() - first) / block * block;
        let to = (of.end().get() - first).div_ceil(block) * block;
        range(first + from, to - from)
    }

    /// Returns the parts of a range, each with its current place on the drive.
    pub fn places(&self, of: LbnRange) -> Vec<(LbnRange, LbnRange)> {
        let (first, block) = (self.geometry.first.get(), self.geometry.block.get());
        let volume = self.volume.borrow();
        let mut places = Vec::new();
        let mut at = of.start().get();
        while at < of.end().get() {
            let (number, skip) = ((at - first) / block, (at - first) % block);
            let len = (block - skip).min(of.end().get() - at);
            if let Some(slot) = volume.current(number) {
                places.push((range(at, len), range(slot.start().get() + skip, len)));
            }
            at += len;
        }
        places
    }

    fn record(&mut self, entry: Entry) {
        self.journal.push(entry.encode());
    }

    /// Restores the maps after a power cut: from the last saved state and the journal.
    pub fn restart(&mut self) -> Result<(), Broken> {
        let mut volume = Volume::load(&self.saved).map_err(refused)?;
        for entry in &self.journal {
            volume.replay(Entry::decode(entry).map_err(refused)?).map_err(refused)?;
        }
        self.volume = Rc::new(RefCell::new(volume));
        Ok(())
    }

    /// Replaces a long journal by a saved state, unless a write is in progress.
    fn tidy(&mut self) {
        if self.journal.len() > JOURNAL_ENTRIES_MAX
            && let Ok(saved) = self.volume.borrow_mut().save()
        {
            self.saved = saved;
            self.journal.clear();
        }
    }
}

impl House {
    pub(super) fn take_snapshot(&mut self) -> Result<(), Broken> {
        let taken = self.snapshots.volume.borrow_mut().take();
        let writes = |job: &super::Job| matches!(job.way, Way::Steps(..));
        let Ok((id, entry)) = taken else {
            return hold(self.jobs.values().any(writes), Check::Refusal, || {
                "no snapshot can be taken".into()
            });
        };
        self.snapshots.record(entry);
        let floors = self.shadow.floors(self.snapshots.all());
        self.snapshots.taken.insert(id, (floors, self.shadow.last()));
        self.counts.snapshots += 1;
        Ok(())
    }

    pub(super) fn forget_snapshot(&mut self) -> Result<(), Broken> {
        let oldest = self.snapshots.volume.borrow().snapshots().next();
        let Some(oldest) = oldest else { return Ok(()) };
        let entry = self.snapshots.volume.borrow_mut().delete(oldest).map_err(refused)?;
        self.snapshots.record(entry);
        self.snapshots.taken.remove(&oldest);
        Ok(())
    }

    /// Begins a write to the volume with snapshots.
    pub(super) fn begin_steps(&mut self, range: LbnRange) -> Result<(), Broken> {
        let begun = self.snapshots.volume.borrow_mut().write(range);
        match begun {
            Ok(write) => {
                let id = self.job(Op::Write, range, Way::Steps(write, Vec::new()));
                self.next_step(id, write)
            }
            Err(WriteError::Full { oldest: Some(oldest), .. }) if self.dice.one_in(3) => {
                let entry = self.snapshots.volume.borrow_mut().invalidate(oldest).map_err(refused)?;
                self.snapshots.record(entry);
                self.snapshots.taken.remove(&oldest);
                Ok(())
            }
            Err(WriteError::Full { .. }) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    /// Submits the next step of a write, or ends it.
    fn next_step(&mut self, id: u64, write: WriteId) -> Result<(), Broken> {
        loop {
            let step = self.snapshots.volume.borrow().step(write);
            let Some(job) = self.jobs.get(&id) else { return Ok(()) };
            let reported = match step {
                None => break,
                Some(Step::Record(entry)) => {
                    self.snapshots.record(entry);
                    if self.snapshots.volume.borrow_mut().done(write) == WriteProgress::Complete {
                        break;
                    }
                    continue;
                }
                Some(Step::Read(from)) => self.volume.submit_read(from),
                Some(Step::Write { to, bytes }) => {
                    let len = to.len().get() as usize * self.sector;
                    let bytes = match (bytes, &job.way) {
                        (Bytes::Read, Way::Steps(_, read)) => read.clone(),
                        (Bytes::Data { from }, _) => {
                            let from = from.get() as usize * self.sector;
                            job.bytes[from..from + len].to_vec()
                        }
                        _ => vec![0; len],
                    };
                    self.volume.submit_write(to, bytes)
                }
            };
            let range = job.range;
            self.requests.insert(reported.map_err(refused)?, Whose::Job(id, range));
            if let Some(job) = self.jobs.get_mut(&id) {
                job.left = 1;
            }
            return Ok(());
        }
        self.end(id)?;
        self.snapshots.tidy();
        Ok(())
    }

    /// Handles the end of a step of a write.
    pub(super) fn step_done(&mut self, id: u64, write: WriteId, bad: bool) -> Result<(), Broken> {
        if bad {
            let reported = self.snapshots.volume.borrow_mut().failed(write);
            if let Err(failure) = reported {
                hold(self.is_spoilt(Part::Snapshots), Check::Bad, || {
                    format!("a write fails with {failure}, and nothing was ever bad")
                })?;
                return self.end(id);
            }
            if let Some(job) = self.jobs.get_mut(&id) {
                job.failed = false;
            }
        } else if self.snapshots.volume.borrow_mut().done(write) == WriteProgress::Complete {
            self.end(id)?;
            self.snapshots.tidy();
            return Ok(());
        }
        self.next_step(id, write)
    }
}
