//! What is known of a run of tracks with one density: where each of its LBNs stands.

use crate::turns::wrap;

/// A rotation that recurs: from the first of `unit` tracks to the first of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Tracks; 1 at the lowest level, each level a multiple of the one below.
    pub(crate) unit: u64,
    /// Turns.
    pub(crate) advance: f64,
}

/// From `lbn` on, LBNs lie so many sectors further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) lbn: u64,
    pub(crate) sectors: u64,
}

/// Equal parts that hold back spare sectors at their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// LBNs in each.
    pub(crate) lbns: u64,
    /// Spare sectors at the end of each.
    pub(crate) spares: u64,
}

/// Tracks of one density. Angles are those at which a read of one sector ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zone {
    pub(crate) first: u64,
    /// Past its last LBN.
    pub(crate) end: u64,
    /// Sectors on a track.
    pub(crate) sectors: u64,
    /// Angle of the first LBN, which is the first sector of a track.
    pub(crate) angle: f64,
    /// From the lowest up; empty while only one track is known.
    pub(crate) levels: Vec<Level>,
    pub(crate) shifts: Vec<Shift>,
    pub(crate) region: Option<Region>,
    /// LBNs that stand elsewhere, alone.
    pub(crate) odd: Vec<u64>,
}

impl Zone {
    pub(crate) fn new(first: u64, sectors: u64, angle: f64) -> Self {
        Self {
            first,
            end: u64::MAX,
            sectors,
            angle,
            levels: Vec::new(),
            shifts: Vec::new(),
            region: None,
            odd: Vec::new(),
        }
    }

    pub(crate) fn lbns(&self) -> u64 {
        self.end - self.first
    }

    /// Sectors before an LBN, counted from the zone's first.
    pub(crate) fn place(&self, lbn: u64) -> u64 {
        let offset = lbn.saturating_sub(self.first);
        let spares = self.region.map_or(0, |r| offset / r.lbns * r.spares);
        let after = self.shifts.partition_point(|s| s.lbn <= lbn);
        let before: u64 = self.shifts.iter().take(after).map(|s| s.sectors).sum();
        offset + spares + before
    }

    /// The track of an LBN, and its sector there.
    pub(crate) fn locate(&self, lbn: u64) -> (u64, u64) {
        let place = self.place(lbn);
        (place / self.sectors, place % self.sectors)
    }

    /// Angle of a track's first sector.
    pub(crate) fn track_angle(&self, track: u64) -> f64 {
        let mut left = track;
        let mut angle = self.angle;
        for level in self.levels.iter().rev() {
            angle += (left / level.unit) as f64 * level.advance;
            left %= level.unit;
        }
        angle
    }

    /// Where an LBN should stand.
    pub(crate) fn predict(&self, lbn: u64) -> f64 {
        let (track, sector) = self.locate(lbn);
        self.track_angle(track) + sector as f64 / self.sectors as f64
    }

    /// The LBN nearest to a sector of a track, inside the zone.
    pub(crate) fn lbn_near(&self, track: u64, sector: u64) -> u64 {
        let place = track * self.sectors + sector;
        let (mut low, mut high) = (self.first, self.end);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.place(middle) <= place { low = middle } else { high = middle }
        }
        low
    }

    /// Tracks that hold its LBNs.
    pub(crate) fn tracks(&self) -> u64 {
        match self.end.checked_sub(1) {
            Some(last) if last >= self.first => self.locate(last).0 + 1,
            _ => 0,
        }
    }

    /// Whether two zones repeat each other's rotations as far as the shorter goes.
    pub(crate) fn alike(&self, other: &Self, within: f64) -> bool {
        self.sectors == other.sectors
            && self
                .levels
                .iter()
                .zip(&other.levels)
                .all(|(a, b)| a.unit == b.unit && wrap(a.advance - b.advance).abs() < within)
    }
}
