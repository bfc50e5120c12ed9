//! The cause of a failed prediction: a slip, a rotation that recurs, one moved LBN, or the zone's end.

use super::Mapper;
use crate::error::ProbeError;
use crate::revolutions::wrap;
use crate::zone::{Level, Shift, Zone};

/// The most consecutive unused sectors that count as one slip.
pub(super) const SLIP_SECTORS_MAX: u64 = 256;

/// The longest slip, in sectors, for which the next few LBNs suffice as evidence, because other slips follow on the
/// same track.
const NEAR_SLIP_SECTORS_MAX: u64 = 32;

/// The value that replaces `NEAR_SLIP_SECTORS_MAX` if readings vary: another zone's density looks like a slip over a
/// few LBNs.
const NOISY_SLIP_SECTORS_MAX: u64 = 8;

/// The most units of a level that make one unit of the next level; a band has some hundred tracks.
const LEVEL_UNITS_MAX: u64 = 4_096;

/// The most levels: track, cylinder or run, band.
const LEVELS_MAX: usize = 3;

/// The largest distance from a whole number of sectors that counts as none, in sectors.
pub(super) const WHOLE_ERROR_SECTORS_MAX: f64 = 0.35;

/// A density that seems to begin within this many LBNs of the start of a track is assumed to begin with the track.
const DENSITY_START_LBNS_MAX: f64 = 6.0;

/// The cause of the first deviation: a slip of this many sectors, a further level, a single LBN that is not at its
/// zone's angle, or the zone's end.
pub(super) enum Event {
    Slip(u64),
    Level(Level),
    Alone,
    End,
}

impl Mapper<'_, '_> {
    /// Returns the cause of the deviation at `off`, the first LBN that is not at its predicted angle.
    pub(super) fn classify(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<Event, ProbeError> {
        let n = zone.sectors;
        if off + 2 < zone.end && self.all_meet(zone, &[off + 1, off + 2])? {
            return Ok(Event::Alone);
        }
        let (track, sector) = zone.locate(off);
        let top = zone.levels.last().map_or(1, |l| l.unit);
        let regular = sector == 0 && track > top && track % top == 0;
        if regular && track / top <= LEVEL_UNITS_MAX && zone.levels.len() < LEVELS_MAX {
            let advance = wrap(angle - zone.angle);
            // A rotation from one or two readings that vary may be wrong by a sector over three times its tracks.
            let loose = if self.meter.is_noisy() { 2.0 * self.tolerance(n) } else { 0.0 };
            let whole = (advance * n as f64).round() / n as f64;
            let near = wrap(whole - advance).abs() * (n as f64) < WHOLE_ERROR_SECTORS_MAX;
            let guesses = if self.meter.is_noisy() && self.resolves_sectors(n) && near {
                vec![(whole, 0.0), (advance, loose)]
            } else {
                vec![(advance, loose)]
            };
            for (advance, loose) in guesses {
                let level = Level { unit: track, advance };
                if self.recurs(zone, level, loose)? {
                    return Ok(Event::Level(level));
                }
            }
        }
        Ok(self.slip(zone, off, angle)?.unwrap_or(Event::End))
    }

    /// Returns the first LBN of another density that begins without a jump: the deviation is `error` at `off` and grows
    /// behind it. If readings vary, such a density looks like one slip after another.
    pub(super) fn density_changes(
        &mut self,
        zone: &Zone,
        off: u64,
        error: f64,
    ) -> Result<Option<u64>, ProbeError> {
        let n = zone.sectors;
        let sectors = |revolutions: f64| revolutions * n as f64;
        if n < 16 || sectors(error).abs() > 2.5 || off + n >= zone.end {
            return Ok(None);
        }
        let mut errors = Vec::new();
        for quarter in (1..=3).rev() {
            errors.push(self.check_angle(zone, off + quarter * n / 4, 0.0)?.error);
        }
        let [far, middle, near] = errors.as_slice() else { return Ok(None) };
        let (bent, grown) = (sectors(wrap(middle - near) - wrap(far - middle)), sectors(wrap(far - near)));
        if bent.abs() > f64::max(0.6, 0.1 * grown.abs()) || grown.abs() < 1.5 {
            return Ok(None);
        }
        // The deviations lie on a line; where it meets zero, the other density begins.
        let back = (sectors(wrap(*near)) / grown * (n / 2) as f64 - (n / 4) as f64).round();
        let (_, sector) = zone.locate(off);
        let first =
            if (back - sector as f64).abs() < DENSITY_START_LBNS_MAX { sector } else { back.max(0.0) as u64 };
        let first = off.saturating_sub(first);
        Ok((first > zone.first).then_some(first))
    }

    /// Returns whether the rotation of a new level recurs after twice and three times its tracks.
    fn recurs(&mut self, zone: &Zone, level: Level, loose: f64) -> Result<bool, ProbeError> {
        let (n, track) = (zone.sectors, level.unit);
        let mut trial = zone.clone();
        trial.levels.push(level);
        let points = [
            trial.lbn_near(track, n - 1),
            trial.lbn_near(track + 1, 0),
            trial.lbn_near(2 * track - 1, n / 2),
            trial.lbn_near(2 * track, 0),
            trial.lbn_near(2 * track, n / 2),
            trial.lbn_near(2 * track + 1, n / 2),
            trial.lbn_near(3 * track, n / 2),
        ];
        Ok(trial.lbn_near(2 * track, 0) < self.capacity - 1
            && self.all_meet_within(&trial, &points, loose)?)
    }

    /// Returns the slip before `off`; `None` if the deviation is not a slip.
    fn slip(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<Option<Event>, ProbeError> {
        let n = zone.sectors;
        if !self.resolves_sectors(n) {
            return Ok(None);
        }
        let by = (wrap(angle - zone.predict(off)) * n as f64).round();
        let guess = if by >= 1.0 && by <= SLIP_SECTORS_MAX as f64 { by as u64 } else { 0 };
        for sectors in std::iter::once(guess).chain(1..=8).filter(|&m| m > 0 && m < n) {
            let mut trial = zone.clone();
            trial.shifts.push(Shift { lbn: off, sectors });
            if wrap(trial.predict(off) - angle).abs() >= self.tolerance(n) {
                continue;
            }
            let (track, _) = trial.locate(off);
            let last = trial.lbn_near(track, n - 1);
            let points = [(off + last) / 2, last, last + 1, last + n / 2, last + n];
            if last + n < self.capacity && self.all_meet(&trial, &points)? {
                return Ok(Some(Event::Slip(sectors)));
            }
            // Another slip may follow soon. If the next few LBNs agree, and no track begins here, this is a slip.
            let most = if self.meter.is_noisy() { NOISY_SLIP_SECTORS_MAX } else { NEAR_SLIP_SECTORS_MAX };
            let few = [off + 1, off + 2, off + 3];
            if sectors <= most
                && off + n < self.capacity
                && self.all_meet(&trial, &few)?
                && !self.track_begins(zone, off, angle)?
            {
                return Ok(Some(Event::Slip(sectors)));
            }
        }
        Ok(None)
    }

    /// Returns whether `off` is the first LBN of a whole track of the zone's density.
    fn track_begins(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<bool, ProbeError> {
        let alone = Zone::new(off, zone.sectors, angle);
        self.all_meet(&alone, &[off + zone.sectors - 1, off + zone.sectors * 3 / 4])
    }
}
