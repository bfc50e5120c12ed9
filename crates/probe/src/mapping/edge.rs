//! The search for the first LBN at which a zone's predictions fail.

use super::Mapper;
use super::angle_check::AngleCheck;
use super::event::WHOLE_ERROR_SECTORS_MAX;
use crate::error::ProbeError;
use crate::zone::{Shift, Zone};

/// If readings vary, a slip of at most this length, ns, is located only to its track.
const UNLOCATED_SLIP_NS_MAX: f64 = 32_000.0;

/// The fewest tracks before one at a wrong angle that are checked again; usually one more than a cylinder has are.
const RECHECKED_TRACKS_MIN: u64 = 3;
/// The most tracks before one at a wrong angle that are checked again.
const RECHECKED_TRACKS_MAX: u64 = 12;

impl Mapper<'_, '_> {
    /// Returns the deviation above which an LBN counts as off its predicted angle, if a later LBN is off by `by`: about
    /// half of `by` if sectors cannot be distinguished, otherwise the tolerance.
    pub(super) fn threshold(&self, zone: &Zone, by: f64) -> f64 {
        let tolerance = self.tolerance(zone.sectors);
        if self.resolves_sectors(zone.sectors) {
            tolerance
        } else {
            (by.abs() / 2.0).clamp(0.7 * tolerance, 2.0 * tolerance)
        }
    }

    /// Returns the first LBN whose deviation exceeds `threshold`, between `good`, which is at its predicted angle, and
    /// `bad`, which is not; and the reading of the returned LBN, if it was read.
    pub(super) fn first_off(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        threshold: f64,
    ) -> Result<(u64, Option<AngleCheck>), ProbeError> {
        let (mut good, mut bad) = (good, bad);
        if self.meter.is_noisy()
            && let Some(begins) = track_between(zone, good, bad)
        {
            // Most deviations begin with a track, so the beginning of the track between `good` and `bad` is read first.
            let check = self.check_angle_within(zone, begins, threshold)?;
            if check.met {
                good = begins;
            } else if self.check_angle_within(zone, begins - 1, threshold)?.met {
                return Ok((begins, Some(check)));
            } else {
                bad = begins - 1;
            }
        }
        let mut off = self.halve(zone, good, bad, threshold, false)?;
        while let Some(earlier) = self.is_off_before(zone, good, off, threshold)? {
            off = self.halve(zone, good, earlier, threshold, false)?;
        }
        // The search takes one reading for each step, which may be wrong; so its result is read again.
        if off == good + 1 || self.check_angle_within(zone, off - 1, threshold)?.met {
            let check = self.check_angle_within(zone, off, threshold)?;
            if !check.met {
                return Ok((off, Some(check)));
            }
        }
        Ok((self.halve(zone, good, bad, threshold, true)?, None))
    }

    /// Returns an LBN on one of the tracks before `off` that deviates as well. Behind a track without LBNs, some tracks
    /// meet their predictions by chance, and mislead the binary search. Returns `None` if times vary.
    fn is_off_before(
        &mut self,
        zone: &Zone,
        good: u64,
        off: u64,
        threshold: f64,
    ) -> Result<Option<u64>, ProbeError> {
        if self.meter.is_noisy() {
            return Ok(None);
        }
        let n = zone.sectors;
        let unit = zone.levels.get(1).map_or(RECHECKED_TRACKS_MIN, |l| l.unit + 1);
        for tracks in 1..=unit.clamp(RECHECKED_TRACKS_MIN, RECHECKED_TRACKS_MAX) {
            let Some(lbn) = off.checked_sub(tracks * n + n / 2).filter(|&lbn| lbn > good) else { break };
            if !self.check_angle_within(zone, lbn, threshold)?.met {
                return Ok(Some(lbn));
            }
        }
        Ok(None)
    }

    /// For readings that vary: returns two LBNs on consecutive tracks, only the first at its predicted angle.
    pub(super) fn off_tracks(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        threshold: f64,
    ) -> Result<(u64, u64), ProbeError> {
        let n = zone.sectors;
        let more = threshold - self.tolerance(n);
        let (mut right, mut wrong) = (good, bad);
        loop {
            while wrong - right > n + n / 2 {
                let middle = right + (wrong - right) / 2;
                let (_, sector) = zone.locate(middle);
                let middle = (middle + n / 2).saturating_sub(sector);
                if middle <= right || middle >= wrong {
                    break;
                }
                if self.glance(zone, middle, threshold)? { right = middle } else { wrong = middle }
            }
            if self.is_no_chance(zone, good, right, more)? {
                return Ok((right, wrong));
            }
            (right, wrong) = (good, right);
        }
    }

    /// Returns the slip between two LBNs on consecutive tracks, if it moves its track by no more than the tolerance.
    pub(super) fn slip_on_track(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
    ) -> Result<Option<Shift>, ProbeError> {
        let n = zone.sectors;
        let check = self.check_angle(zone, bad, 0.0)?;
        let sectors = (check.error * n as f64).round();
        let part = (check.error * n as f64 - sectors).abs();
        let near = sectors * self.meter.revolution() / n as f64;
        if check.met || sectors < 1.0 || near > UNLOCATED_SLIP_NS_MAX || part > WHOLE_ERROR_SECTORS_MAX {
            return Ok(None);
        }
        let shift = Shift { lbn: good + (bad - good).div_ceil(2), sectors: sectors as u64 };
        let mut trial = zone.clone();
        trial.shifts.push(shift);
        let points = [bad + n, bad + 2 * n, bad + 3 * n];
        let sure = points.iter().all(|&p| p < zone.end) && self.all_meet(&trial, &points)?;
        Ok(sure.then_some(shift))
    }

    fn halve(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        threshold: f64,
        twice: bool,
    ) -> Result<u64, ProbeError> {
        let n = zone.sectors;
        let (mut good, mut bad) = (good, bad);
        // The search goes from track to track first, then within a track.
        while bad - good > 1 {
            let mut middle = good + (bad - good) / 2;
            if bad - good > 3 * n {
                let (_, sector) = zone.locate(middle);
                middle = (middle + n / 2).saturating_sub(sector);
            }
            let right = if twice {
                self.check_angle_within(zone, middle, threshold)?.met
            } else {
                self.glance(zone, middle, threshold)?
            };
            if right { good = middle } else { bad = middle }
        }
        Ok(bad)
    }

    /// Returns the middle of the first track that deviates by more than `half`, which is accurate enough if sectors
    /// cannot be distinguished.
    pub(super) fn track_from(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        half: f64,
    ) -> Result<u64, ProbeError> {
        let n = zone.sectors;
        let (mut good, mut bad) = (good, bad);
        while bad - good > 2 * n {
            let middle = good + (bad - good) / 2;
            let (_, sector) = zone.locate(middle);
            let middle = (middle + n / 2).saturating_sub(sector);
            if self.check_angle_within(zone, middle, half)?.met { good = middle } else { bad = middle }
        }
        Ok(good + (bad - good).div_ceil(2))
    }
}

/// Returns the first LBN of the only track that begins between two LBNs.
fn track_between(zone: &Zone, good: u64, bad: u64) -> Option<u64> {
    let (before, after) = (zone.locate(good).0, zone.locate(bad).0);
    let begins = zone.lbn_near(after, 0);
    (after == before + 1 && begins > good + 1 && begins < bad).then_some(begins)
}
