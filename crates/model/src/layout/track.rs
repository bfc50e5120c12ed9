//! A track, and places and parts of it.

use units::{Angle, Arc, Cylinder, FULL_REVOLUTION, Head, Instant, Lbn, Rpm, TrackIndex};

/// A sector's place on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The track.
    pub track: TrackIndex,
    /// The sector on it, from 0.
    pub sector: u32,
}

/// A track: its place, and the geometry of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its cylinder.
    pub cylinder: Cylinder,
    /// Its head.
    pub head: Head,
    /// Sectors on it, bad and spare ones included.
    pub sectors: u32,
    /// The angle at which sector 0 begins.
    pub angle: Angle,
}

impl Track {
    /// Returns the rotation from sector 0 to the boundary before `sector` (the track's end, for `sector == sectors`).
    #[inline]
    pub const fn boundary(&self, sector: u32) -> Arc {
        Arc::from_parts(sector as u64 * FULL_REVOLUTION / self.sectors as u64)
    }

    /// Returns the angle at which `sector` begins.
    #[inline]
    pub fn sector_angle(&self, sector: u32) -> Angle {
        self.angle + self.boundary(sector)
    }

    /// Returns the rotation in which `count` sectors from `first` on pass; they may run past the track's end.
    #[inline]
    pub fn arc(&self, first: u32, count: u32) -> Arc {
        self.boundary(first + count) - self.boundary(first)
    }

    /// Returns the sectors that pass whole between two instants less than a revolution apart, in the order in which
    /// they pass.
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
        // The nanosecond that ends at `until` belongs to the window with its last part.
        let end = begin + rpm.arc_in(until.saturating_since(from)).parts() + u64::from(rpm.get()) - 1;
        // Boundary s lies at floor(s F / n): the first at or after `begin`, the last at or before `end`.
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
    /// The number of sectors; past the track's end they continue at its start.
    pub count: u32,
}

/// Consecutive LBNs on consecutive sectors of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first sector.
    pub sector: u32,
    /// The LBN on it.
    pub lbn: Lbn,
    /// The number of sectors.
    pub len: u32,
}

/// A part of a request that lies on consecutive sectors of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The track.
    pub track: TrackIndex,
    /// The first sector.
    pub sector: u32,
    /// The LBN on it.
    pub lbn: Lbn,
    /// The number of sectors.
    pub len: u32,
}

impl Piece {
    /// Returns its sectors.
    pub const fn window(&self) -> Window {
        Window { first: self.sector, count: self.len }
    }
}
