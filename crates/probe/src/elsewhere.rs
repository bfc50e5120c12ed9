//! Short reads on tracks with known angles: each of a sector that is about to pass under the head.

use crate::revolutions::frac;
use crate::zone::Zone;

/// The wait until the next sector grows by the first of these steps after a miss, and shrinks by the second after a
/// hit, in revolutions. The first is larger because a miss costs a revolution.
const WAIT_GROWTH_REVOLUTIONS: f64 = 0.08;
const WAIT_CUT_REVOLUTIONS: f64 = 0.01;

/// The bounds of the wait until the next sector, revolutions.
const WAIT_REVOLUTIONS_MIN: f64 = 0.1;
const WAIT_REVOLUTIONS_MAX: f64 = 1.0;

/// Tracks whose angles are known.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub(crate) zone: Zone,
    /// The end of the known LBNs.
    pub(crate) end: u64,
    /// The standard deviation of the angles, revolutions.
    pub(crate) spread: f64,
    /// The time from the end of a command to the passing of the sector to read next, revolutions: just long enough to
    /// catch it.
    pub(crate) wait: f64,
}

impl Elsewhere {
    /// Returns the LBN that is at `angle`, or next to it, on the track of `lbn`.
    pub(crate) fn passing(&self, lbn: u64, angle: f64) -> u64 {
        let (track, _) = self.zone.locate(lbn);
        let n = self.zone.sectors_on(track);
        let past = frac(angle - self.zone.track_angle(track)) * n as f64;
        self.zone.lbn_near(track, (past.ceil() as u64).min(n - 1)).min(self.end)
    }

    /// Returns the angle of an LBN and its standard deviation, in revolutions; `None` near moved sectors, and near
    /// slips, which may be known only to a track.
    pub(crate) fn angle(&self, lbn: u64) -> Option<(f64, f64)> {
        let shifts = &self.zone.shifts;
        let after = shifts.partition_point(|s| s.lbn <= lbn);
        let around = after.checked_sub(1).and_then(|i| shifts.get(i)).into_iter().chain(shifts.get(after));
        let known = lbn <= self.end
            && self.zone.odd.binary_search(&lbn).is_err()
            && around.into_iter().all(|s| s.lbn.abs_diff(lbn) > 2 * self.zone.sectors);
        known.then(|| (self.zone.predict(lbn), self.spread))
    }

    /// Updates the wait with the time of a read of a passing sector, in revolutions.
    pub(crate) fn learn(&mut self, revolutions: f64) {
        let missed = revolutions > self.wait + 0.5;
        self.wait = (self.wait + if missed { WAIT_GROWTH_REVOLUTIONS } else { -WAIT_CUT_REVOLUTIONS })
            .clamp(WAIT_REVOLUTIONS_MIN, WAIT_REVOLUTIONS_MAX);
    }
}
