//! What a history draws from its seeds, as a number: so that a file cannot silently become another history when what is
//! drawn changes.

use super::{DriveSpec, Host, Setup};
use crate::hash::Hash;
use crate::volume::House;
use model::DriveModel;
use units::{Lbn, TrackIndex};

impl Hash {
    /// Where every LBN lies, how every track stands, and how long every seek takes.
    fn add_drive(&mut self, drive: &DriveModel) {
        let layout = drive.layout();
        self.add(layout.capacity().get());
        self.add(drive.rpm().revolution().as_nanos());
        for track in 0..layout.track_count() {
            let track = layout.track(TrackIndex::new(track));
            for n in [track.cylinder.get().into(), track.head.get().into(), track.sectors.into()] {
                self.add(n);
            }
            self.add(track.sector_angle(0).parts());
        }
        for lbn in 0..layout.capacity().get() {
            if let Some(at) = layout.locate(Lbn::new(lbn)) {
                self.add(at.track.get().into());
                self.add(at.sector.into());
            }
        }
        (0..layout.cylinders()).for_each(|distance| self.add(drive.seek(distance).as_nanos()));
        self.add(drive.head_switch().as_nanos());
    }
}

impl Setup {
    /// What is drawn from the seeds: a random drive, and what a volume has on it. A drive that has a name, and a core that
    /// is configured by the file alone, are what they say.
    pub(super) fn drawn(&self) -> Result<u64, String> {
        let mut hash = Hash::default();
        if matches!(self.drive, DriveSpec::Random(_)) {
            hash.add_drive(&self.drive.build()?);
        }
        if matches!(self.host, Host::Volume | Host::VolumeOutside) {
            let house = House::new(self).map_err(|(_, what)| what)?;
            hash.add_text(&house.drawn());
        }
        Ok(hash.get())
    }
}
