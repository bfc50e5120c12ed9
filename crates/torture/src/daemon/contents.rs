//! The permitted contents of the daemon's disk, as its clients know them.

use super::medium::DISCARDED;
use crate::failure::{Broken, Check};
use std::ops::RangeInclusive;
use units::LbnRange;

/// The index of a stamp in the list of a sector's writes.
pub(super) type Place = usize;

#[derive(Clone, Debug)]
struct Sector {
    /// The stamps of the sector's writes in order of arrival. After a restart, the stamp on the medium is appended.
    stamps: Vec<u64>,
    /// The place of the newest stamp that was acknowledged or read.
    known: Place,
    /// The place of the newest stamp that must survive a power cut.
    durable: Place,
}

/// The contents that each sector has had or may have.
#[derive(Clone, Debug)]
pub(super) struct Contents(Vec<Sector>);

fn lbns(range: LbnRange) -> std::ops::Range<usize> {
    range.start().get() as usize..range.end().get() as usize
}

impl Contents {
    /// Returns a blank disk.
    pub fn new(capacity: u64) -> Self {
        Self(vec![Sector { stamps: vec![0], known: 0, durable: 0 }; capacity as usize])
    }

    /// Adds a write that arrives at the disk. Returns the place of the write's stamp in each sector.
    pub fn arrive(&mut self, range: LbnRange, stamp: u64) -> Vec<Place> {
        self.0[lbns(range)].iter_mut().for_each(|sector| sector.stamps.push(stamp));
        self.newest(range)
    }

    /// Returns for each sector of a range the place of the newest stamp that has arrived.
    pub fn newest(&self, range: LbnRange) -> Vec<Place> {
        self.0[lbns(range)].iter().map(|sector| sector.stamps.len() - 1).collect()
    }

    /// Returns for each sector of a range the place of the newest stamp that was acknowledged or read.
    pub fn known(&self, range: LbnRange) -> Vec<Place> {
        self.0[lbns(range)].iter().map(|sector| sector.known).collect()
    }

    pub fn acknowledge(&mut self, range: LbnRange, places: &[Place], through: bool) {
        for (sector, place) in self.0[lbns(range)].iter_mut().zip(places) {
            sector.known = sector.known.max(*place);
            if through {
                sector.durable = sector.durable.max(*place);
            }
        }
    }

    /// Records a completed flush, which makes the contents up to these places durable, for all sectors.
    pub fn flushed(&mut self, places: &[Place]) {
        self.0.iter_mut().zip(places).for_each(|(sector, place)| sector.durable = sector.durable.max(*place));
    }

    /// Returns the place of a sector's newest stamp that has arrived.
    pub fn last(&self, lbn: u64) -> Place {
        self.0[lbn as usize].stamps.len() - 1
    }

    /// Returns whether one of the stamps at these places of a sector is a discard, after which any content is permitted.
    pub fn is_undefined(&self, lbn: u64, mut among: RangeInclusive<Place>) -> bool {
        let stamps = &self.0[lbn as usize].stamps;
        among.any(|place| stamps.get(place) == Some(&DISCARDED))
    }

    /// Returns the list of a sector's stamps as text, for messages.
    pub fn said(&self, lbn: u64) -> String {
        format!("{:?}", self.0[lbn as usize].stamps)
    }

    /// Returns the first of these places that has the stamp.
    pub fn find(&self, lbn: u64, stamp: u64, mut among: RangeInclusive<Place>) -> Option<Place> {
        let stamps = &self.0[lbn as usize].stamps;
        among.find(|place| stamps.get(*place) == Some(&stamp))
    }

    /// Checks the stamps that a client has read. Later reads must not return older contents.
    ///
    /// # Errors
    /// A stamp is not among the permitted ones.
    pub fn read(
        &mut self,
        range: LbnRange,
        stamps: &[u64],
        (oldest, newest): (&[Place], &[Place]),
    ) -> Result<(), Broken> {
        let bounds = oldest.iter().zip(newest);
        for ((lbn, stamp), (oldest, newest)) in (range.start().get()..).zip(stamps).zip(bounds) {
            // After a discard any content is permitted until the next write.
            if self.is_undefined(lbn, *oldest..=*oldest) {
                continue;
            }
            let Some(place) = self.find(lbn, *stamp, *oldest..=*newest) else {
                let has = &self.0[lbn as usize].stamps;
                let what =
                    format!("LBN {lbn} reads as {stamp}, not as one of {oldest} to {newest} of {has:?}");
                return Err((Check::Stale, what));
            };
            let sector = &mut self.0[lbn as usize];
            sector.known = sector.known.max(place);
        }
        Ok(())
    }

    /// Checks and records the stamps on the medium after a kill of the daemon, or after a power cut if `power`.
    ///
    /// # Errors
    /// An acknowledged write is lost; after a power cut, a durable one.
    pub fn restart(&mut self, there: &[u64], power: bool) -> Result<(), Broken> {
        for (lbn, stamp) in there.iter().enumerate() {
            let Sector { stamps, known, durable } = &self.0[lbn];
            let oldest = if power { *durable } else { *known };
            if !stamps[oldest..].contains(stamp) {
                let what = format!("LBN {lbn} holds {stamp} after the end, of {stamps:?} from {oldest} on");
                return Err((Check::Flushed, what));
            }
            let sector = &mut self.0[lbn];
            sector.stamps.push(*stamp);
            sector.known = sector.stamps.len() - 1;
            if power {
                sector.durable = sector.known;
            }
        }
        Ok(())
    }
}
