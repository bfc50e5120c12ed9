//! The course of a zone: from its beginning to its end, by predictions of LBNs ever farther ahead.

use super::event::Event;
use super::{Mapper, TIME_SHARE_MAX};
use crate::error::ProbeError;
use crate::fit::Fit;
use crate::meter::SectorAngle;
use crate::revolutions::wrap;
use crate::zone::{Shift, Zone};

/// The number of a zone's first tracks that are all measured while only one of its skews is known: more than most
/// cylinders have.
const DENSE_TRACKS: u64 = 24;

/// The factor by which the distance of the next prediction grows, and the divisor of the distance after a prediction
/// that failed.
const REACH_FACTOR: u64 = 4;
const REACH_DIVISOR: u64 = 16;

/// The farthest prediction, in tracks.
const PREDICTION_TRACKS_MAX: u64 = 1 << 24;

/// The largest uncertainty of a prediction (three standard deviations), as a part of the tolerance.
const UNCERTAINTY_SHARE_MAX: f64 = 0.4;

/// The largest probability that an LBN far ahead is at its predicted angle by chance.
const CHANCE_PROBABILITY_MAX: f64 = 1e-4;

/// The largest tolerance, in revolutions, with which LBNs beyond a zone's end rarely meet their predictions by chance.
/// If readings vary by more, further LBNs are no evidence.
const LITTLE_REVOLUTIONS_MAX: f64 = 0.02;

/// The largest deviation, in sectors, that may come from slips or from inexact rotations.
const SLIP_ERROR_SECTORS_MAX: f64 = 4.0;

/// The least distance from a whole number of sectors that counts as a fraction of a sector.
const FRACTION_SECTORS_MIN: f64 = 0.28;

/// After this many LBNs in a row were in place when they were read again, the next deviation counts without another
/// reading.
const DOUBTS_MAX: u32 = 3;

impl Mapper<'_, '_> {
    /// Follows the zone from track to track to its end.
    pub(super) fn extend(&mut self, zone: &mut Zone) -> Result<(), ProbeError> {
        let end = zone.end.min(self.capacity);
        zone.end = end;
        let n = zone.sectors;
        let Some(&base) = zone.levels.last() else { return Ok(()) };
        let resolved = self.resolves_sectors(n);
        let tolerance = self.tolerance(n);
        // The last LBN that is known to be at its predicted angle, in the middle of a track.
        let mut good = zone.first + n / 2;
        if base.unit > 1 || zone.region.is_some() {
            good = zone.lbn_near(base.unit, n / 2);
        }
        let mut step = 1;
        let mut fit = self.begin_fit(zone);
        let mut doubts = 0;
        while good < end - 1 {
            if !self.meter.is_within(TIME_SHARE_MAX) {
                zone.end = good + 1;
                return Ok(());
            }
            let (target, unsure) = self.target(zone, &fit, good, &mut step);
            self.meter.stage("zones and tracks", 0.05 + 0.6 * target as f64 / self.capacity as f64);
            self.known = unsure / 3.0;
            let mut check = self.check_angle(zone, target, unsure.min(tolerance))?;
            if !check.met && self.meter.is_noisy() {
                // The platter may be at another angle than assumed; that is checked before the zone is doubted.
                self.meter.find_phase()?;
                check = self.check_angle(zone, target, unsure.min(tolerance))?;
            }
            if check.met && self.is_no_chance(zone, good, target, unsure.min(tolerance))? {
                fit.take(zone, target, check.error, check.readings);
                fit.pin(zone, resolved && self.meter.is_noisy());
                good = target;
                self.meter.knows(zone, good, unsure / 3.0);
                // At first every track is measured, so that no repetition of skews is missed.
                let dense = zone.levels.len() == 1 && zone.locate(target).0 < DENSE_TRACKS;
                step = if dense { 1 } else { (step * REACH_FACTOR).min(PREDICTION_TRACKS_MAX) };
                continue;
            }
            step = (step / REACH_DIVISOR).max(1);
            let few = (check.error * n as f64).abs() < SLIP_ERROR_SECTORS_MAX
                || check.error.abs() < 2.5 * tolerance;
            // LBNs behind slips all deviate as little as the target; beyond the zone's end one does only by chance.
            let little = check.error.abs() + unsure;
            let shows_little = tolerance + little < LITTLE_REVOLUTIONS_MAX;
            if !resolved && few && (!shows_little || self.is_no_chance(zone, good, target, little)?) {
                if self.grows(zone, good, target, check.error)? {
                    fit.take(zone, target, check.error, check.readings);
                    good = target;
                    continue;
                }
                // One or more slips: they are located to the track, not to the sector.
                let from = self.track_from(zone, good, target, check.error.abs() / 2.0)?;
                let sectors = (check.error * n as f64).round();
                if sectors >= 1.0 && from > zone.shifts.last().map_or(0, |s| s.lbn) {
                    zone.shifts.push(Shift { lbn: from, sectors: sectors as u64 });
                } else {
                    fit.take(zone, target, check.error, check.readings);
                }
                good = target;
                continue;
            }
            let mut bad = target;
            let threshold = self.threshold(zone, check.error);
            if self.meter.is_noisy() {
                (good, bad) = self.off_tracks(zone, good, bad, threshold)?;
                if resolved && let Some(shift) = self.slip_on_track(zone, good, bad)? {
                    zone.shifts.push(shift);
                    good = bad;
                    continue;
                }
            }
            let (off, checked) = self.first_off(zone, good, bad, threshold)?;
            if self.meter.is_noisy()
                && doubts < DOUBTS_MAX
                && checked.is_none()
                && self.check_angle(zone, off, 0.0)?.met
            {
                // The reading that deviated was wrong: this LBN is at its predicted angle.
                doubts += 1;
                good = off;
                continue;
            }
            doubts = 0;
            let angle = match checked {
                Some(check) if self.meter.is_noisy() => zone.predict(off) + check.error,
                _ => self.sure_angle(off, n)?,
            };
            if few && fit.is_pinned() && self.is_between(zone, off, angle)? && fit.unpin(zone) {
                continue;
            }
            if resolved
                && self.meter.is_noisy()
                && let Some(first) = self.density_changes(zone, off, wrap(angle - zone.predict(off)))?
            {
                zone.end = first;
                self.fit = Some(fit);
                return Ok(());
            }
            match self.classify(zone, off, angle)? {
                Event::Slip(sectors) => zone.shifts.push(Shift { lbn: off, sectors }),
                Event::Level(level) => {
                    zone.levels.push(level);
                    // The LBN was read twice.
                    fit.take(zone, off, 0.0, 2.0);
                    fit.pin(zone, resolved && self.meter.is_noisy());
                }
                Event::Alone => zone.odd.push(off),
                Event::End => {
                    zone.end = off;
                    self.found = Some(SectorAngle { lbn: off, angle });
                    self.fit = Some(fit);
                    return Ok(());
                }
            }
            good = off;
        }
        self.fit = Some(fit);
        Ok(())
    }

    /// Returns the LBN to predict next, up to `step` tracks ahead as far as the fit is certain enough, and three
    /// standard deviations of its predicted angle.
    fn target(&self, zone: &Zone, fit: &Fit, good: u64, step: &mut u64) -> (u64, f64) {
        let (n, last) = (zone.sectors, zone.end - 1);
        loop {
            let ahead = good.saturating_add(step.saturating_mul(n)).min(last);
            let (_, sector) = zone.locate(ahead);
            // The middle of a track, because a missed slip does not move that LBN to another track.
            let target = if ahead == last {
                ahead
            } else {
                (ahead + n / 2).saturating_sub(sector).clamp(good + 1, last)
            };
            let unsure = 3.0 * fit.uncertainty(zone, target);
            if *step <= 1 || unsure <= UNCERTAINTY_SHARE_MAX * self.tolerance(n) {
                return (target, unsure);
            }
            *step /= 2;
        }
    }

    /// Returns whether LBNs on tracks before a far target are at their predicted angles as well: beyond the zone's end,
    /// about one LBN in a hundred meets its prediction by chance.
    pub(super) fn is_no_chance(
        &mut self,
        zone: &Zone,
        good: u64,
        target: u64,
        more: f64,
    ) -> Result<bool, ProbeError> {
        let n = zone.sectors;
        let back = n + n / 3;
        if !self.meter.is_noisy() || target - good < 2 * back {
            return Ok(true);
        }
        // The share of LBNs beyond the zone's end that meet their predictions by chance.
        let met = (2.0 * (self.tolerance(n) + more)).min(0.5);
        let mut chance = met;
        let mut at = target;
        while chance > CHANCE_PROBABILITY_MAX && at - good >= 2 * back {
            at -= back;
            if !self.check_angle(zone, at, more)?.met {
                return Ok(false);
            }
            chance *= met;
        }
        Ok(true)
    }

    /// Returns whether an error grows evenly from the zone's beginning, as that of an inexact rotation does; the error of a
    /// slip appears at once.
    fn grows(&mut self, zone: &Zone, good: u64, target: u64, error: f64) -> Result<bool, ProbeError> {
        let (track, _) = zone.locate(target);
        let from = zone.shifts.last().map_or(0, |s| zone.locate(s.lbn).0);
        for part in [0.5, 0.75] {
            let at = zone.lbn_near((track as f64 * part) as u64, zone.sectors / 2);
            if zone.locate(at).0 <= from || at >= target {
                return Ok(false);
            }
            let threshold = 0.5 * part * error.abs();
            let check = self.check_angle_within(zone, at, threshold)?;
            let far = wrap(check.error - part * error).abs();
            if far > 0.35 * error.abs() || at < good && check.met && far > 0.25 * error.abs() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the deviation of `off`, and of LBNs before it, is a fraction of a sector: no slip causes that.
    fn is_between(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<bool, ProbeError> {
        let by = wrap(angle - zone.predict(off)) * zone.sectors as f64;
        if (by - by.round()).abs() < FRACTION_SECTORS_MIN && by.round() != 0.0 {
            return Ok(false);
        }
        let before = off.saturating_sub(zone.sectors / 3).max(zone.first);
        let check = self.check_angle_within(zone, before, FRACTION_SECTORS_MIN / zone.sectors as f64)?;
        Ok(!check.met)
    }

    /// Begins the fit of a zone with its first LBN and the second unit of each level, which were all read.
    fn begin_fit(&mut self, zone: &mut Zone) -> Fit {
        let mut fit = Fit::new(self.spread);
        // A zone of short sectors that is only a piece of a track has no levels and no fit: `self.fit` is an earlier
        // zone's.
        let has_fit = |before: &&Zone| !self.finds_ends_by_skews(before.sectors) || !before.levels.is_empty();
        let before = self.map.zones.last().filter(has_fit);
        let like = before.is_some_and(|before| before.alike(zone, 1e-12));
        if let Some(before) = self.fit.as_ref().filter(|_| like) {
            fit = before.for_zone_like(zone);
        }
        fit.take(zone, zone.first, 0.0, 2.0);
        let firsts: Vec<u64> =
            zone.levels.iter().map(|l| zone.lbn_near(l.unit, 0)).filter(|&l| l < zone.end).collect();
        for lbn in firsts {
            fit.take(zone, lbn, 0.0, if like { 1.0 } else { 2.0 });
        }
        fit
    }
}
