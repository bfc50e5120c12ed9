//! A zone: its LBNs, its tracks, and its slips.

use super::order::Section;
use super::sparing::Spares;
use crate::error::ProfileError;
use crate::profile::Zone as ZoneSpec;
use alloc::format;
use alloc::vec::Vec;
use units::{Arc, FULL_REVOLUTION};

/// A zone with its first LBN and its tracks.
#[derive(Clone, Debug)]
pub(super) struct PlacedZone {
    pub(super) first_lbn: u64,
    pub(super) lbns: u64,
    pub(super) first_track: u32,
    pub(super) sections: Vec<Section>,
    pub(super) spares: Spares,
    /// The number of surfaces of the zone.
    pub(super) surfaces: u16,
    /// Whether slips shift the angles of later tracks.
    pub(super) slip_revolutions: SlipRevolutions,
}

/// Whether slips shift the angles of later tracks. With spares per cylinder or per track, DiskSim shifts the angles of a
/// cylinder or a track by the number of slipped sectors before it in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlipRevolutions {
    No,
    ByCylinder,
    ByTrack,
}

impl PlacedZone {
    #[inline]
    pub(super) fn section_of_place(&self, place: u64) -> &Section {
        match self.sections.as_slice() {
            [only] => only,
            many => &many[many.partition_point(|s| s.first_place <= place) - 1],
        }
    }

    /// Returns the number of the track in the zone, and the sector on the track, of a sector position in the zone.
    pub(super) fn locate_place(&self, place: u64) -> (u32, u32) {
        let section = self.section_of_place(place);
        let (track, sector) = section.locate(place - section.first_place);
        (section.first_track + track, sector)
    }

    pub(super) fn slip_revolution(&self, by: SlipRevolutions, place: u64, sectors: u32) -> Arc {
        let unit_start = match by {
            SlipRevolutions::ByCylinder => {
                let cylinder = u64::from(sectors) * u64::from(self.surfaces);
                place / cylinder * cylinder
            }
            _ => place,
        };
        let n = u64::from(sectors);
        Arc::from_parts(self.spares.slipped_before(unit_start) % n * FULL_REVOLUTION / n)
    }
}

/// Returns the sector positions of a zone's slipped tracks, as runs `(first, count)`. `at` is the zone's path, for errors.
pub(super) fn slipped_tracks(
    zone: &ZoneSpec,
    sections: &[Section],
    tracks: u64,
    at: &str,
) -> Result<Vec<(u64, u64)>, ProfileError> {
    // Returns the position of a track's sector 0 in the zone; for the track number after the last, the number of sectors.
    let place = |track: u32| {
        let section = sections.partition_point(|s| s.first_track <= track).checked_sub(1)?;
        let section = sections.get(section)?;
        let local = track - section.first_track;
        if local < section.track_count() {
            Some(section.track(local).place)
        } else {
            Some(section.first_place + section.place_count())
        }
    };
    let run = |(i, &(first, count)): (usize, &(u32, u32))| {
        let end = first.checked_add(count).filter(|&end| u64::from(end) <= tracks);
        let (Some(start), Some(end)) = (end.and_then(|_| place(first)), end.and_then(place)) else {
            return Err(ProfileError::new(
                format!("{at}.slip_tracks[{i}]"),
                format!("{count} tracks from track {first} in a zone of {tracks}"),
                "tracks count from the zone's first in LBN order",
            ));
        };
        Ok((start, end - start))
    };
    zone.slip_tracks.iter().enumerate().map(run).collect()
}
