//! Densities that differ by head: each track looks like a zone of its own, until the densities recur.
//!
//! The densities recur after a cylinder, or after two if heads go back and forth; these tracks are a cycle. Once some
//! tracks repeat those one cycle before, one more cycle is predicted from them and checked track by track; further
//! predictions go ever farther ahead, as in a zone of one density. Bands are found by their runs ([`super::runs`]), and
//! followed here.

use super::{Mapper, NOISY_ANGLE_ERROR_NS_MAX, TIME_SHARE_MAX};
use crate::error::ProbeError;
use crate::fit::Fit;
use crate::revolutions::{frac, wrap};
use crate::zone::{Cycle, Level, Shift, Slot, Zone};

/// The most tracks of a zone that may be a part of a cycle: adjacent heads may have the same density.
pub(super) const CYCLE_ZONE_TRACKS_MAX: u64 = 4;

/// The most first sectors of a track that may be in the previous zone, because they are almost at its angles.
pub(super) const PRECEDING_SECTORS_MAX: u64 = 8;

/// The longest cycle that is looked for, in tracks or runs: 32 heads, back and forth.
pub(super) const CYCLE_TRACKS_MAX: usize = 64;

/// The number of tracks, or runs, that must repeat those one cycle before.
pub(super) const REPEATED_TRACKS_MIN: usize = 3;

/// The largest difference of equal rotations, in revolutions, beyond the error of readings.
pub(super) const EQUAL_ROTATIONS_REVOLUTIONS_MAX: f64 = 1e-4;

/// The factor by which each prediction goes further than the last.
const REACH_FACTOR: u64 = 4;

/// The largest uncertainty of a prediction (three standard deviations), as a part of the tolerance.
const UNCERTAINTY_SHARE_MAX: f64 = 0.4;

/// The rotation of a cycle by least squares over whole cycles, if readings vary.
struct Turning {
    fit: Fit,
    /// The zone as the fit sees it, with a level of one cycle instead of one track.
    line: Zone,
}

impl Turning {
    fn new(zone: &Zone, length: u64, spread: f64) -> Self {
        let mut line = zone.clone();
        line.levels = vec![Level { unit: length, advance: zone.cycle.as_ref().map_or(0.0, |c| c.advance) }];
        Self { fit: Fit::new(spread), line }
    }

    /// Adds the mean of some readings that found an LBN `error` revolutions after its prediction.
    fn take(&mut self, zone: &mut Zone, lbn: u64, error: f64, readings: f64) {
        self.fit.take(&mut self.line, lbn, error, readings);
        zone.angle = self.line.angle;
        if let (Some(cycle), Some(level)) = (zone.cycle.as_mut(), self.line.levels.first()) {
            cycle.advance = level.advance;
        }
    }

    /// Returns three standard deviations of a prediction, in revolutions.
    fn unsure(&self, lbn: u64) -> f64 {
        3.0 * self.fit.uncertainty(&self.line, lbn)
    }
}

/// A whole track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    pub(super) first: u64,
    pub(super) sectors: u64,
    pub(super) angle: f64,
}

impl Mapper<'_, '_> {
    /// Replaces the last zones by one of recurring densities, if they are its tracks, and follows that zone to its end.
    pub(super) fn cycle(&mut self) -> Result<Option<Zone>, ProbeError> {
        if let Some(zone) = self.cycle_of_runs()? {
            return Ok(Some(zone));
        }
        let tracks = self.last_tracks();
        if let Some(zone) = self.cycle_of(&tracks)? {
            return Ok(Some(zone));
        }
        let last =
            self.map.zones.last().filter(|z| z.tracks() <= CYCLE_ZONE_TRACKS_MAX && z.first >= self.walked);
        if !self.meter.is_noisy() || last.is_none() {
            return Ok(None);
        }
        let tracks = self.walk()?;
        let zone = self.cycle_of(&tracks)?;
        // Tracks that were measured one by one are not measured again.
        self.walked = tracks.last().map_or(self.walked, |t| t.first);
        if let Some(zone) = &zone {
            self.walked = zone.end;
            let before: Vec<&Track> = tracks.iter().filter(|t| t.first < zone.first).collect();
            if let Some(first) = before.first() {
                self.take_back(first.first);
            }
            for track in before {
                let mut alone = Zone::new(track.first, track.sectors, track.angle);
                alone.end = track.first + track.sectors;
                self.map.zones.push(alone);
            }
        }
        Ok(zone)
    }

    /// Returns the largest difference between readings of equal rotations, in revolutions.
    pub(super) fn equal_rotations(&self) -> f64 {
        EQUAL_ROTATIONS_REVOLUTIONS_MAX + 6.0 * if self.meter.is_noisy() { self.spread } else { 0.0 }
    }

    /// Returns the zone of recurring densities that these tracks begin, followed to its end; `None` if they do not
    /// recur yet.
    fn cycle_of(&mut self, tracks: &[Track]) -> Result<Option<Zone>, ProbeError> {
        let Some(&last) = tracks.last() else { return Ok(None) };
        // The beginning of a track was computed with the density of the previous track.
        let beside = 1.0 / last.sectors.saturating_sub(2).max(1) as f64;
        let loose = beside * beside + self.equal_rotations();
        for length in 2..=CYCLE_TRACKS_MAX.min(tracks.len().saturating_sub(REPEATED_TRACKS_MIN)) {
            let Some(advance) = recurs(tracks, length, loose) else { continue };
            let Some(mut zone) = self.zone_of_cycle(tracks, length, advance, loose) else { continue };
            let (from, _) = zone.locate(last.first);
            if let Some(good) = self.one_more(&mut zone, from + 1, loose)? {
                self.follow_cycle(&mut zone, good)?;
                let levels = zone.cycle.as_ref().map_or(Vec::new(), |cycle| cycle.levels(&zone.levels));
                zone.levels = levels;
                self.take_back(zone.first);
                return Ok(Some(zone));
            }
        }
        Ok(None)
    }

    /// Measures each slot of one more cycle, from the track `from` on, and corrects the slots' angles; returns the last
    /// LBN of that cycle if all angles match.
    pub(super) fn one_more(
        &mut self,
        zone: &mut Zone,
        from: u64,
        loose: f64,
    ) -> Result<Option<u64>, ProbeError> {
        let Some((length, width)) = zone.cycle.as_ref().map(|c| (c.tracks(), c.width())) else {
            return Ok(None);
        };
        if zone.lbn_near(from + length, 0) >= self.capacity - 1 {
            return Ok(None);
        }
        let mut errors = Vec::new();
        // The LBNs are read in descending order, because the drive reads ahead in ascending order.
        for slot in (0..length / width).rev() {
            let (track, until) = (from + slot * width, from + (slot + 1) * width - 1);
            let (first, last) = (zone.lbn_near(track, 0), zone.lbn_near(until, zone.sectors_on(until) - 1));
            let (end, begin) = (self.check_angle(zone, last, loose)?, self.check_angle(zone, first, loose)?);
            if !end.met || !begin.met {
                return Ok(None);
            }
            errors.push((track, begin.error, end.error));
        }
        if let Some(cycle) = zone.cycle.as_mut() {
            for (track, begin, end) in errors {
                if let Some(slot) = cycle.slots.get_mut((track % length / width) as usize) {
                    // In a slot of several tracks, the difference of the errors at its two ends is an error of the
                    // skew.
                    slot.angle += if width > 1 { begin } else { f64::midpoint(begin, end) };
                    slot.skew += (end - begin) / (width - 1).max(1) as f64 * f64::from(u8::from(width > 1));
                }
            }
        }
        Ok(Some(zone.lbn_near(from + length, 0) - 1))
    }

    /// Returns the last whole consecutive tracks that are in zones of a few tracks.
    ///
    /// The first sectors of a track may be in the previous zone, because they are almost at the angles of its density.
    fn last_tracks(&self) -> Vec<Track> {
        let mut tracks: Vec<Track> = Vec::new();
        let zones = &self.map.zones;
        let mut next = None;
        for zone in zones.iter().skip(zones.len().saturating_sub(4 * CYCLE_TRACKS_MAX)) {
            let plain = zone.shifts.is_empty() && zone.region.is_none() && zone.cycle.is_none();
            let (n, begins) = (zone.sectors, next.unwrap_or(zone.first));
            let before = zone.first.saturating_sub(begins);
            if !plain
                || zone.tracks() > CYCLE_ZONE_TRACKS_MAX
                || before > PRECEDING_SECTORS_MAX.min(n / 4)
                || begins > zone.first
            {
                tracks.clear();
                next = None;
                continue;
            }
            if begins + n > zone.end {
                // The zone has only a part of a track, whose first sectors are remapped, or spare.
                tracks.clear();
                next = None;
                continue;
            }
            let mut first = begins;
            while first + n <= zone.end {
                let angle = zone.predict(first.max(zone.first));
                let early = zone.first.saturating_sub(first) as f64 / n as f64;
                tracks.push(Track { first, sectors: n, angle: angle - early });
                first += n;
            }
            next = Some(first);
        }
        tracks
    }

    /// Returns the zone of a cycle that the last tracks have begun to repeat. The zone begins with the first track that
    /// matches the one a cycle later, or, if rotations show where cylinders begin, with the next track that begins one.
    fn zone_of_cycle(&self, tracks: &[Track], length: usize, advance: f64, loose: f64) -> Option<Zone> {
        let mut start = tracks.len() - length - REPEATED_TRACKS_MIN;
        while start > 0 && is_like(tracks, start - 1, length, advance, loose) {
            start -= 1;
        }
        let heads = heads(tracks.get(start..start + length + 1)?, loose);
        if let Some((_, first)) = heads {
            start += first;
        }
        let begin = tracks.get(start)?;
        let mut slots = Vec::new();
        for k in 0..length {
            let (at, turned) =
                if start + k < tracks.len() { (start + k, 0.0) } else { (start + k - length, advance) };
            let track = tracks.get(at)?;
            slots.push(Slot {
                before: 0,
                tracks: 1,
                sectors: track.sectors,
                angle: wrap(track.angle + turned - begin.angle),
                skew: 0.0,
            });
        }
        let mut zone = Zone::new(begin.first, slots.iter().map(|s| s.sectors).min()?, begin.angle);
        zone.end = self.capacity;
        zone.levels.push(Level { unit: 1, advance: 0.0 });
        zone.levels.extend(heads.map(|(heads, _)| Level { unit: heads as u64, advance: 0.0 }));
        zone.cycle = Some(Cycle::new(slots, advance));
        Some(zone)
    }

    /// Follows a zone of recurring densities to its end, from an LBN that is at its predicted angle.
    pub(super) fn follow_cycle(&mut self, zone: &mut Zone, good: u64) -> Result<(), ProbeError> {
        let Some((length, lbns)) = zone.cycle.as_ref().map(|c| (c.tracks(), c.sectors)) else {
            return Ok(());
        };
        let last = zone.end - 1;
        let noisy = self.meter.is_noisy();
        let tolerance = self.tolerance(zone.sectors);
        // A deviation within this is accepted, even if it is that of another sector.
        let more = EQUAL_ROTATIONS_REVOLUTIONS_MAX
            + if noisy {
                (NOISY_ANGLE_ERROR_NS_MAX / self.meter.revolution() - tolerance).max(0.0)
            } else {
                0.0
            };
        let mut turning = Turning::new(zone, length, self.spread);
        turning.take(zone, zone.first, 0.0, 1.0);
        turning.take(zone, zone.lbn_near(length, 0), 0.0, 1.0);
        turning.take(zone, good, 0.0, 1.0);
        let (mut good, mut step) = (good, 1_u64);
        while good < last {
            if !self.meter.is_within(TIME_SHARE_MAX) {
                zone.end = good + 1;
                return Ok(());
            }
            let mut target;
            loop {
                target = good.saturating_add(step.saturating_mul(lbns)).saturating_add(lbns / 3).min(last);
                if !noisy || step <= 1 || turning.unsure(target) <= UNCERTAINTY_SHARE_MAX * (tolerance + more)
                {
                    break;
                }
                step /= 2;
            }
            self.meter.stage("zones and tracks", 0.05 + 0.6 * target as f64 / self.capacity as f64);
            let mut check = self.check_angle(zone, target, more)?;
            if !check.met && noisy {
                // The platter may be at another angle than assumed, which is checked first.
                self.meter.find_phase()?;
                check = self.check_angle(zone, target, more)?;
            }
            if check.met && self.is_no_chance(zone, good, target, more)? {
                let whole = zone.place(target) / lbns;
                if noisy {
                    turning.take(zone, target, check.error, check.readings);
                } else if let Some(cycle) = zone.cycle.as_mut()
                    && whole > 0
                {
                    // The farthest reading determines the rotation of a cycle best.
                    cycle.advance += check.error / whole as f64;
                }
                good = target;
                step = step.saturating_mul(REACH_FACTOR);
                continue;
            }
            step = 1;
            let (off, checked) = self.first_off(zone, good, target, tolerance + more)?;
            if off + 2 < zone.end && self.all_meet_within(zone, &[off + 1, off + 2], more)? {
                if checked.is_some() || !self.check_angle(zone, off, more)?.met {
                    zone.odd.push(off);
                }
                good = off + 2;
                continue;
            }
            if let Some(shift) = self.slip_of_cycle(zone, off, more)? {
                zone.shifts.push(shift);
                turning.line.shifts.push(shift);
                good = off;
                continue;
            }
            zone.end = off;
            return Ok(());
        }
        Ok(())
    }

    /// Returns the slip of some sectors of a track before `off`; `None` if there is no slip.
    fn slip_of_cycle(&mut self, zone: &Zone, off: u64, more: f64) -> Result<Option<Shift>, ProbeError> {
        let n = zone.sectors_on(zone.locate(off).0);
        // If readings vary, an error in the rotation of a cycle looks like a slip.
        if off + 2 * n >= zone.end || self.meter.is_noisy() && !self.finds_ends_by_skews(n) {
            return Ok(None);
        }
        if self.meter.is_noisy()
            && let Some(slip) = self.slip_before_end(zone, off, more)?
        {
            return Ok(Some(slip));
        }
        let by = frac(self.sure_angle(off, n)? - zone.predict(off)) * n as f64;
        let shift = Shift { lbn: off, sectors: by.round() as u64 };
        let mut trial = zone.clone();
        trial.shifts.push(shift);
        let points = [off + 1, off + n / 2, off + n, off + 2 * n];
        let is_slip = (1..n).contains(&shift.sectors) && self.all_meet_within(&trial, &points, more)?;
        Ok(is_slip.then_some(shift))
    }

    /// Ends the map before `lbn`, because a zone begins there that was mapped as several.
    pub(super) fn take_back(&mut self, lbn: u64) {
        self.map.zones.retain(|zone| zone.first < lbn);
        if let Some(last) = self.map.zones.last_mut() {
            last.end = last.end.min(lbn);
        }
        self.found = None;
        self.fit = None;
    }
}

impl Cycle {
    /// Returns the rotations that a zone of one density with this order of tracks would have: the rotation of a track
    /// and, if `levels` has a second level, that of a cylinder.
    fn levels(&self, levels: &[Level]) -> Vec<Level> {
        // A slot's angle is that at which its first sector ends.
        let begins: Vec<f64> = self.slots.iter().map(|s| s.angle - 1.0 / s.sectors as f64).collect();
        let steps: Vec<f64> =
            begins.windows(2).filter_map(|two| Some(wrap(two.last()? - two.first()?))).collect();
        let length = self.slots.len() as u64;
        let cylinder = levels.get(1).map(|l| l.unit).filter(|&unit| unit < length);
        let inside = cylinder.map_or(steps.len(), |unit| unit as usize - 1);
        let of: Vec<f64> = steps.iter().copied().take(inside).collect();
        let first = of.first().copied().unwrap_or(0.0);
        let step = first + of.iter().map(|s| wrap(s - first)).sum::<f64>() / of.len().max(1) as f64;
        // The rotation of many cycles gives that of a part of one cycle exactly, up to whole revolutions.
        let part = |parts: u64, about: f64| {
            let parts = parts as f64;
            about + wrap(self.advance - parts * about) / parts
        };
        match levels.get(1).map(|l| l.unit) {
            None => vec![Level { unit: 1, advance: part(length, step) }],
            Some(unit) => {
                let about = match (begins.get(unit as usize), begins.first()) {
                    (Some(next), Some(first)) => next - first,
                    _ => self.advance,
                };
                let advance = wrap(part((length / unit).max(1), wrap(about)));
                vec![Level { unit: 1, advance: step }, Level { unit, advance }]
            }
        }
    }
}

/// Returns whether a track matches the track one cycle later.
fn is_like(tracks: &[Track], at: usize, length: usize, advance: f64, loose: f64) -> bool {
    matches!(
        (tracks.get(at), tracks.get(at + length)),
        (Some(a), Some(b)) if a.sectors == b.sectors && wrap(b.angle - a.angle - advance).abs() < loose
    )
}

/// Returns the rotation of a cycle of `length` tracks, if the last tracks repeat those one cycle before and their
/// densities differ.
fn recurs(tracks: &[Track], length: usize, loose: f64) -> Option<f64> {
    let last = tracks.len().checked_sub(1)?;
    let (a, b) = (tracks.get(last.checked_sub(length)?)?, tracks.get(last)?);
    let advance = wrap(b.angle - a.angle);
    let alike = (0..REPEATED_TRACKS_MIN).all(|k| {
        (last - length).checked_sub(k).is_some_and(|at| is_like(tracks, at, length, advance, loose))
    });
    let cycle = tracks.get(tracks.len() - length..)?;
    (alike && cycle.iter().any(|t| t.sectors != a.sectors)).then_some(advance)
}

/// Returns the number of tracks of a cylinder, and the index in `tracks` of the first track of one: the rotation to
/// that track differs from the other rotations. `tracks` are those of a cycle and the first of the next.
fn heads(tracks: &[Track], loose: f64) -> Option<(usize, usize)> {
    // A track's angle is that at which its first sector ends.
    let begins: Vec<f64> = tracks.iter().map(|t| t.angle - 1.0 / t.sectors as f64).collect();
    let steps: Vec<f64> =
        begins.windows(2).filter_map(|two| Some(wrap(two.last()? - two.first()?))).collect();
    let same = |a: f64, b: f64| wrap(a - b).abs() < 2.0 * loose;
    // Most tracks are followed by a track of the same cylinder.
    let usual = *steps.iter().max_by_key(|&&a| steps.iter().filter(|&&b| same(a, b)).count())?;
    let odd: Vec<usize> =
        (0..steps.len()).filter(|&i| steps.get(i).is_some_and(|&s| !same(s, usual))).collect();
    let length = steps.len();
    match odd.as_slice() {
        [one] if length > 2 => Some((length, (one + 1) % length)),
        [one, other] if other - one == length / 2 && length.is_multiple_of(2) && length > 4 => {
            Some((length / 2, (one + 1) % length))
        }
        _ => None,
    }
}
