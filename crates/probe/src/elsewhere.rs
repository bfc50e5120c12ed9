//! Where a read costs little: on tracks that are known, of a sector that is about to pass.

use crate::turns::frac;
use crate::zone::Zone;

/// How much later, or sooner, the next sector is asked for, turns: missing one costs a turn.
const LATER: f64 = 0.08;
const SOONER: f64 = 0.01;

/// Bounds of that, turns.
const LEAST: f64 = 0.1;
const MOST: f64 = 1.0;

/// Tracks that are known.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub(crate) zone: Zone,
    /// Up to this LBN.
    pub(crate) end: u64,
    /// To a standard deviation of so many turns.
    pub(crate) spread: f64,
    /// How long after a command a sector nearby is still caught, turns.
    pub(crate) wait: f64,
}

impl Elsewhere {
    /// The LBN on the track of another that stands at `angle`, or next to it.
    pub(crate) fn passing(&self, lbn: u64, angle: f64) -> u64 {
        let (track, _) = self.zone.locate(lbn);
        let n = self.zone.sectors_on(track);
        let past = frac(angle - self.zone.track_angle(track)) * n as f64;
        self.zone.lbn_near(track, (past.ceil() as u64).min(n - 1)).min(self.end)
    }

    /// Where an LBN stands, and to what standard deviation; none where one may have moved, or near slips, which may
    /// be known to a track only.
    pub(crate) fn angle(&self, lbn: u64) -> Option<(f64, f64)> {
        let shifts = &self.zone.shifts;
        let after = shifts.partition_point(|s| s.lbn <= lbn);
        let around = after.checked_sub(1).and_then(|i| shifts.get(i)).into_iter().chain(shifts.get(after));
        let known = lbn <= self.end
            && self.zone.odd.binary_search(&lbn).is_err()
            && around.into_iter().all(|s| s.lbn.abs_diff(lbn) > 2 * self.zone.sectors);
        known.then(|| (self.zone.predict(lbn), self.spread))
    }

    /// Takes in how many turns a read of such a sector took.
    pub(crate) fn learn(&mut self, turns: f64) {
        let missed = turns > self.wait + 0.5;
        self.wait = (self.wait + if missed { LATER } else { -SOONER }).clamp(LEAST, MOST);
    }
}
