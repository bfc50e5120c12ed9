//! A stand-in model for a drive of which only the size is known.

use crate::drive_model::DriveModel;
use crate::error::ProfileError;
use crate::profile::{
    FORMAT_VERSION, LayoutSpec, Mechanics, Order, Profile, SectorsPerTrack, Seek, Sparing, SparingRegion,
    Zone,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use units::{Bytes, Sectors};

/// The profile name of a drive of which only the size is known.
const NAME: &str = "unknown";

/// The bytes of an assumed track, which is the amount that one command reads in idle time. The transfer takes a few
/// milliseconds on any disk, so that a foreground request is not delayed for long.
const TRACK_BYTES: u64 = 1 << 19;

/// The number of cylinders above which a drive gets more heads instead: the table of seek times has an entry per cylinder.
const HEAD_CYLINDERS_MAX: u64 = 1 << 18;

/// The most cylinders of a profile; equal to `layout::CYLINDERS_MAX`.
const CYLINDERS_MAX: u64 = 1 << 22;

/// The most heads of a profile: far more than any drive has.
const HEADS_MAX: u64 = 256;

/// The assumed time of a seek over all cylinders, ms. The number is arbitrary: the seek curve only has to make larger
/// distances take longer.
const SEEK_MS_MAX: f64 = 1_000.0;

impl DriveModel {
    /// Returns a stand-in for a drive that has not been characterised: LBNs in order on tracks of half a megabyte, a
    /// seek that is longer for larger distances, and [`is_known`](Self::is_known) false. The model gives every LBN a place,
    /// which the core's sets of wanted blocks need, but its times are meaningless. A core outside such a drive orders
    /// requests by a mimic or by LBN, and reads background blocks in idle time but not in rotational gaps.
    ///
    /// # Errors
    /// `capacity` is zero or more than a profile can describe (2^49 bytes), or no drive has sectors of that size.
    ///
    /// ```
    /// use freeblock_model::DriveModel;
    /// use freeblock_model::units::{Bytes, Lbn, Sectors};
    /// let drive = DriveModel::unknown(Sectors::new(39_063_650_304), Bytes::new(512))?;
    /// assert_eq!(drive.layout().capacity().get(), 39_063_650_304);
    /// assert!(!drive.is_known());
    /// let (near, far) = (drive.layout().locate(Lbn::new(7)), drive.layout().locate(Lbn::new(39_063_650_303)));
    /// assert!(near.unwrap().track < far.unwrap().track);
    /// # Ok::<(), freeblock_model::ProfileError>(())
    /// ```
    pub fn unknown(capacity: Sectors, sector: Bytes) -> Result<Self, ProfileError> {
        Ok(Self::from_profile(&Profile::of_size(capacity, sector)?)?.without_knowledge())
    }
}

impl Profile {
    /// Returns a profile of a drive of which only the size is known, for [`DriveModel::unknown`]. The places and times of
    /// the profile are meaningless.
    ///
    /// # Errors
    /// `capacity` is zero, or more than a profile can describe (2^49 bytes).
    pub fn of_size(capacity: Sectors, sector: Bytes) -> Result<Self, ProfileError> {
        let sector_bytes = u32::try_from(sector.get()).unwrap_or(u32::MAX);
        let on_track = (TRACK_BYTES / sector.get().max(1)).clamp(1, capacity.get().max(1));
        let tracks = capacity.get().div_ceil(on_track);
        let heads = tracks.div_ceil(HEAD_CYLINDERS_MAX).next_power_of_two().min(HEADS_MAX);
        let cylinders = tracks.div_ceil(heads);
        if !(1..=CYLINDERS_MAX).contains(&cylinders) {
            return Err(ProfileError::new(
                "capacity",
                format!("{capacity} of {} bytes", sector.get()),
                format!("give 1 to {} sectors of that size", on_track * CYLINDERS_MAX * HEADS_MAX),
            ));
        }
        let room = cylinders * heads * on_track;
        let cylinders = cylinders as u32;
        Ok(Self {
            format: FORMAT_VERSION,
            name: NAME.to_owned(),
            title: "A drive that has not been characterised".to_owned(),
            synthetic: true,
            sources: Vec::new(),
            sector_bytes,
            physical_sector_bytes: None,
            rpm: 7_200,
            cylinders,
            heads: heads as u16,
            mechanics: Mechanics {
                seek_spread_ms: Vec::new(),
                head_switch_ms: 0.0,
                cylinder_switch_ms: None,
                write_settle_ms: 0.0,
                zero_latency_read: false,
                zero_latency_write: false,
            },
            seek: Seek::Table { points: vec![(cylinders, SEEK_MS_MAX)] },
            layout: LayoutSpec {
                order: Order::Cylinder,
                patterns: Vec::new(),
                zones: vec![Zone {
                    // The spares are the sectors of the last tracks beyond the capacity.
                    sparing: Sparing {
                        per: SparingRegion::Zone,
                        spares: room - capacity.get(),
                        ..Sparing::default()
                    },
                    ..Zone::plain(0, cylinders - 1, SectorsPerTrack::Same(on_track as u32))
                }],
                remaps: Vec::new(),
            },
            firmware: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;
    use proptest::prelude::*;
    use units::{Lbn, LbnRange, Op};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_lbn_has_a_place_and_places_ascend(
            capacity in prop_oneof![1u64..5_000, 1u64..1 << 36], shift in 9u32..=12, at: prop::sample::Index,
        ) {
            let drive = DriveModel::unknown(Sectors::new(capacity), Bytes::new(1 << shift)).unwrap();
            let layout = drive.layout();
            prop_assert_eq!(layout.capacity(), Sectors::new(capacity));
            prop_assert_eq!(layout.locate(Lbn::new(capacity)), None);
            let lbn = (at.index(capacity as usize) as u64).min(capacity - 1);
            let place = layout.locate(Lbn::new(lbn)).unwrap();
            prop_assert_eq!(layout.lbn_at(place), Some(Lbn::new(lbn)));
            if lbn > 0 {
                let before = layout.locate(Lbn::new(lbn - 1)).unwrap();
                prop_assert!((before.track, before.sector) < (place.track, place.sector));
            }
            let end = LbnRange::new(Lbn::new(lbn), Sectors::new((capacity - lbn).min(3)));
            prop_assert_eq!(layout.pieces(end).map(|p| u64::from(p.len)).sum::<u64>(), end.len().get());
        }
    }

    #[test]
    fn larger_distances_take_longer() {
        let drive = DriveModel::unknown(Sectors::new(7_814_037_168), Bytes::new(512)).unwrap();
        let at =
            |lbn| Position::from(drive.layout().track(drive.layout().locate(Lbn::new(lbn)).unwrap().track));
        let time = |lbn| drive.move_time(at(0), at(lbn), Op::Write);
        assert!(time(1 << 20) < time(1 << 25) && time(1 << 25) < time(1 << 32));
    }

    #[test]
    fn sizes_beyond_any_profile_are_refused() {
        for (capacity, sector) in [(0, 512), (u64::MAX, 512), (1 << 40, 4_096), (1_000, 0), (1_000, 520)] {
            let refused = DriveModel::unknown(Sectors::new(capacity), Bytes::new(sector)).unwrap_err();
            assert!(["capacity", "sector_bytes"].contains(&refused.place.as_str()), "{refused}");
        }
    }
}
