//! A hash of everything that a history draws from its seeds. A file stores the hash, so that it cannot silently become another
//! history when the code that draws changes.

use crate::hash::Hash;
use crate::setup::{DriveSpec, Host, Setup};
use crate::volume::House;
use model::DriveModel;
use units::{Lbn, TrackIndex};

impl Hash {
    /// Adds the location of every LBN, the angle of every track, and the time of every seek.
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
    /// Returns a hash of the parts that are drawn from seeds: a random drive, the parameters of a volume, and those of a
    /// daemon. All other parts are in the file itself.
    pub(super) fn drawn(&self) -> Result<u64, String> {
        let mut hash = Hash::default();
        if matches!(self.drive, DriveSpec::Random(_)) {
            hash.add_drive(&self.drive.build()?);
        }
        if matches!(self.host, Host::Volume | Host::VolumeOutside) {
            let house = House::new(self).map_err(|(_, what)| what)?;
            hash.add_text(&house.drawn());
        }
        #[cfg(target_os = "linux")]
        if self.host == Host::Daemon {
            hash.add_text(&format!("{:?}", crate::daemon::Terms::of(self.seed)));
        }
        Ok(hash.get())
    }
}
