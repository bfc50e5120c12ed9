//! The contents of the disk as its clients know them.

use super::medium::DISCARDED;
use crate::failure::{Broken, Check};
use std::ops::RangeInclusive;
use units::LbnRange;

/// A place in the order of a sector's contents.
pub(super) type Place = usize;

#[derive(Clone, Debug)]
struct Sector {
    /// The stamps of its writes in order of arrival. After a restart, the one that is there follows.
    stamps: Vec<u64>,
    /// The newest that was acknowledged, or read.
    known: Place,
    /// The newest that survives a power cut for certain.
    durable: Place,
}

/// The contents that each sector has had and may have.
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

    /// Takes a write that arrives. Returns its place in the order of each sector.
    pub fn arrive(&mut self, range: LbnRange, stamp: u64) -> Vec<Place> {
        self.0[lbns(range)].iter_mut().for_each(|sector| sector.stamps.push(stamp));
        self.newest(range)
    }

    /// Returns the newest contents that have arrived.
    pub fn newest(&self, range: LbnRange) -> Vec<Place> {
        self.0[lbns(range)].iter().map(|sector| sector.stamps.len() - 1).collect()
    }

    /// Returns the newest contents that a client knows to be there.
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

    /// Takes a flush that covers these contents of all sectors.
    pub fn flushed(&mut self, places: &[Place]) {
        self.0.iter_mut().zip(places).for_each(|(sector, place)| sector.durable = sector.durable.max(*place));
    }

    /// Returns the newest contents of a sector that have arrived.
    pub fn last(&self, lbn: u64) -> Place {
        self.0[lbn as usize].stamps.len() - 1
    }

    /// Returns whether one of these contents of a sector is that after a discard.
    pub fn is_undefined(&self, lbn: u64, mut among: RangeInclusive<Place>) -> bool {
        let stamps = &self.0[lbn as usize].stamps;
        among.any(|place| stamps.get(place) == Some(&DISCARDED))
    }

    /// Returns the contents of a sector in words.
    pub fn said(&self, lbn: u64) -> String {
        format!("{:?}", self.0[lbn as usize].stamps)
    }

    /// Returns the place of a stamp that a sector may have, the oldest if there are several.
    pub fn find(&self, lbn: u64, stamp: u64, mut among: RangeInclusive<Place>) -> Option<Place> {
        let stamps = &self.0[lbn as usize].stamps;
        among.find(|place| stamps.get(*place) == Some(&stamp))
    }

    /// Takes contents that a client has read: nothing older may be there any more.
    ///
    /// # Errors
    /// A sector had these contents at no permitted time.
    pub fn read(
        &mut self,
        range: LbnRange,
        stamps: &[u64],
        (oldest, newest): (&[Place], &[Place]),
    ) -> Result<(), Broken> {
        let bounds = oldest.iter().zip(newest);
        for ((lbn, stamp), (oldest, newest)) in (range.start().get()..).zip(stamps).zip(bounds) {
            // Discarded contents are undefined until they are written.
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

    /// Takes the contents after the end of a daemon, or of the power.
    ///
    /// # Errors
    /// An acknowledged write is lost.
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
