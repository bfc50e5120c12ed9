//! A track, its sectors, and runs of LBNs on it.

use units::{Angle, Arc, Cylinder, FULL_REVOLUTION, Head, Instant, Lbn, Rpm, TrackIndex};

/// The location of a sector on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The number of the track.
    pub track: TrackIndex,
    /// The number of the sector on the track, from 0.
    pub sector: u32,
}

/// The cylinder and head of a track, and the angles of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// The cylinder of the track.
    pub cylinder: Cylinder,
    /// The head of the track's surface.
    pub head: Head,
    /// The number of sectors on the track, including bad and spare ones.
    pub sectors: u32,
    /// The angle at which sector 0 begins.
    pub angle: Angle,
}

impl Track {
    /// Returns the rotation from the start of sector 0 to the start of `sector`; to the end of the track, if `sector` is
    /// the number of sectors.
    #[inline]
    pub const fn boundary(&self, sector: u32) -> Arc {
        Arc::from_parts(sector as u64 * FULL_REVOLUTION / self.sectors as u64)
    }

    /// Returns the angle at which `sector` begins.
    #[inline]
    pub fn sector_angle(&self, sector: u32) -> Angle {
        self.angle + self.boundary(sector)
    }

    /// Returns the rotation in which `count` sectors from `first` on pass. The sectors may continue at the track's start.
    #[inline]
    pub fn arc(&self, first: u32, count: u32) -> Arc {
        self.boundary(first + count) - self.boundary(first)
    }

    /// Returns the sectors that pass completely between two instants, in the order in which they pass. The instants must be
    /// less than a revolution apart.
    ///
    /// ```
    /// use freeblock_model::layout::{Track, Window};
    /// use freeblock_model::units::{Angle, Cylinder, Duration, Head, Instant, Rpm};
    /// let track = Track { cylinder: Cylinder::new(0), head: Head::new(0), sectors: 100, angle: Angle::ZERO };
    /// let rpm = Rpm::new(6_000).unwrap(); // 10 ms a revolution, 0.1 ms a sector
    /// let at = |us| Instant::ZERO + Duration::from_micros(us);
    /// assert_eq!(track.passing(rpm, at(950), at(1_400)), Window { first: 10, count: 4 });
    /// ```
    #[inline]
    pub fn passing(&self, rpm: Rpm, from: Instant, until: Instant) -> Window {
        let n = u64::from(self.sectors);
        let begin = self.angle.until(rpm.earliest_angle(from)).parts();
        // The window ends with the last part of a revolution of the nanosecond that ends at `until`.
        let end = begin + rpm.arc_in(until.saturating_since(from)).parts() + u64::from(rpm.get()) - 1;
        // Sector s of n begins at floor(s * FULL_REVOLUTION / n). The first boundary is at or after `begin`, the last at or
        // before `end`.
        let first = (begin * n).div_ceil(FULL_REVOLUTION);
        let last = ((end + 1) * n).div_ceil(FULL_REVOLUTION) - 1;
        let count = last.saturating_sub(first).min(n);
        Window { first: if first >= n { (first - n) as u32 } else { first as u32 }, count: count as u32 }
    }
}

/// Consecutive sectors of a track, in the order in which they pass under the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first sector.
    pub first: u32,
    /// The number of sectors. Sectors past the track's end are those at its start.
    pub count: u32,
}

/// Consecutive LBNs on consecutive sectors of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first sector.
    pub sector: u32,
    /// The LBN of the first sector.
    pub lbn: Lbn,
    /// The number of sectors.
    pub len: u32,
}

/// A part of a request that lies on consecutive sectors of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the track.
    pub track: TrackIndex,
    /// The first sector.
    pub sector: u32,
    /// The LBN of the first sector.
    pub lbn: Lbn,
    /// The number of sectors.
    pub len: u32,
}

impl Piece {
    /// Returns the sectors of this piece.
    pub const fn window(&self) -> Window {
        Window { first: self.sector, count: self.len }
    }
}
