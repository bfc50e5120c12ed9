//! Bands with densities that differ by head: the tracks of a band on one surface, called a run, look like a zone of
//! their own until runs recur.
//!
//! Adjacent runs of one density look like one run, so all runs are cut to the width that they have in common. A zone
//! may begin with the second half of a run if bands have their surfaces back and forth. Whole tracks without LBNs end a
//! cycle; the cycle goes on at a later run that matches one of its runs.

use super::Mapper;
use super::boundary::RunShape;
use super::cycle::{CYCLE_TRACKS_MAX, REPEATED_TRACKS_MIN};
use crate::error::ProbeError;
use crate::revolutions::wrap;
use crate::zone::{Cycle, Level, Shift, Slot, Zone};

/// The most zones between a cycle and the run that continues it.
const ZONES_BETWEEN_MAX: usize = 4;

/// Whole tracks of one density, each rotated by the same skew against the previous one.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    tracks: u64,
    sectors: u64,
    angle: f64,
    skew: f64,
}

impl Run {
    /// Returns whether this run is `other` rotated by `advance`.
    fn is_like(&self, other: &Self, advance: f64, loose: f64) -> bool {
        (self.tracks, self.sectors) == (other.tracks, other.sectors)
            && wrap(self.skew - other.skew).abs() < loose
            && wrap(self.angle - other.angle - advance).abs() < loose
    }

    /// Returns the angle of a track of this run.
    fn track_angle(&self, track: u64) -> f64 {
        self.angle + track as f64 * self.skew
    }
}

impl Mapper<'_, '_> {
    /// Replaces the last zones by one of recurring runs, if they are its runs, and follows that zone to its end.
    pub(super) fn cycle_of_runs(&mut self) -> Result<Option<Zone>, ProbeError> {
        let sectors = self.map.zones.last().map_or(0, |zone| zone.sectors);
        if self.meter.is_noisy() && !self.finds_ends_by_skews(sectors) {
            // Unless skews show it, the end of a run is not known to the LBN, and runs of wrong lengths do not recur.
            return Ok(None);
        }
        let loose = self.equal_rotations();
        if let Some((mut zone, good)) = self.continued(loose) {
            let n = zone.sectors;
            let points = [good + n / 2, good + 2 * n, good + 3 * n];
            if points.iter().all(|&lbn| lbn < self.capacity) && self.all_meet_within(&zone, &points, loose)? {
                self.take_back(zone.first);
                self.follow_cycle(&mut zone, good)?;
                // The readings of LBNs far ahead have corrected the rotation of a cycle.
                zone.levels = zone.cycle.as_ref().map(|cycle| levels(cycle, loose)).unwrap_or_default();
                return Ok(Some(zone));
            }
        }
        let runs = self.last_runs();
        let Some(last) = runs.last() else { return Ok(None) };
        for length in 2..=CYCLE_TRACKS_MAX.min(runs.len().saturating_sub(self.repeated_runs())) {
            let Some(mut zone) = self.zone_of_runs(&runs, length, loose) else { continue };
            let (from, _) = zone.locate(last.first);
            if let Some(good) = self.one_more(&mut zone, from + last.tracks, loose)? {
                zone.levels = zone.cycle.as_ref().map(|cycle| levels(cycle, loose)).unwrap_or_default();
                let skew = zone.levels.first().map_or(0.0, |level| level.advance);
                let tracks = runs.iter().rev().take(length).flat_map(|run| [run.tracks, run.tracks / 2]);
                self.shape = Some(RunShape::new(tracks, skew));
                self.take_back(zone.first);
                self.follow_cycle(&mut zone, good)?;
                // The readings of LBNs far ahead have corrected the rotation of a cycle.
                zone.levels = zone.cycle.as_ref().map(|cycle| levels(cycle, loose)).unwrap_or_default();
                return Ok(Some(zone));
            }
        }
        Ok(None)
    }

    /// Returns the number of runs that must repeat those one cycle before. If readings vary, one is enough: the end of
    /// a run shows its length exactly.
    fn repeated_runs(&self) -> usize {
        if self.meter.is_noisy() { 1 } else { REPEATED_TRACKS_MIN }
    }

    /// Returns the zones whose ends are known: if readings vary, the last zone's end is known only once the next zone
    /// begins.
    fn ended(&self) -> &[Zone] {
        let zones = &self.map.zones;
        zones.get(..zones.len() - usize::from(self.meter.is_noisy())).unwrap_or_default()
    }

    /// Returns the last consecutive runs.
    fn last_runs(&self) -> Vec<Run> {
        let zones = self.ended();
        let mut runs: Vec<Run> = Vec::new();
        for zone in zones.iter().skip(zones.len().saturating_sub(2 * CYCLE_TRACKS_MAX)) {
            match runs_of(zone) {
                Some(more) => runs.extend(more),
                None => runs.clear(),
            }
        }
        runs
    }

    /// Returns the zone of a cycle of `length` runs that the last runs have begun to repeat.
    fn zone_of_runs(&self, runs: &[Run], length: usize, loose: f64) -> Option<Zone> {
        let last = runs.len().checked_sub(1)?;
        let advance = wrap(runs.get(last)?.angle - runs.get(last - length)?.angle);
        let like = |at: usize| {
            let pair = (runs.get(at), runs.get(at + length));
            matches!(pair, (Some(a), Some(b)) if b.is_like(a, advance, loose))
        };
        let mut start = last.checked_sub(length + self.repeated_runs() - 1)?;
        if !(start..=last - length).all(like) {
            return None;
        }
        while start > 0 && like(start - 1) {
            start -= 1;
        }
        let cycle = runs.get(start..start + length)?;
        let of_first = cycle.first()?;
        if cycle.iter().all(|run| run.sectors == of_first.sectors) {
            return None;
        }
        let mut width = cycle.iter().fold(0, |width, run| common_divisor(run.tracks, width));
        let before = start.checked_sub(1).and_then(|at| runs.get(at)).zip(cycle.last());
        let half = before.filter(|(part, whole)| {
            part.sectors == whole.sectors
                && part.tracks < whole.tracks
                && (part.tracks.is_multiple_of(width) || 2 * part.tracks == width)
                && wrap(part.angle + advance - whole.track_angle(whole.tracks - part.tracks)).abs() < loose
        });
        if let Some((part, _)) = half {
            width = common_divisor(part.tracks, width);
        }
        if width < 2 {
            return None;
        }
        let mut slots: Vec<Slot> = Vec::new();
        for run in cycle {
            slots.extend((0..run.tracks).step_by(width as usize).map(|track| Slot {
                before: 0,
                tracks: width,
                sectors: run.sectors,
                angle: wrap(run.track_angle(track) - of_first.angle),
                skew: run.skew,
            }));
        }
        let begin = half.map_or(*of_first, |(part, _)| *part);
        let moved = (half.map_or(0, |(part, _)| part.tracks) / width) as usize;
        slots.rotate_right(moved);
        for (i, slot) in slots.iter_mut().enumerate() {
            let earlier = if i < moved { advance } else { 0.0 };
            slot.angle = wrap(slot.angle - earlier + of_first.angle - begin.angle);
        }
        if slots.len() > CYCLE_TRACKS_MAX {
            return None;
        }
        let mut zone = Zone::new(begin.first, slots.iter().map(|s| s.sectors).min()?, begin.angle);
        zone.end = self.capacity;
        let shifts = self.map.zones.iter().flat_map(|z| &z.shifts).filter(|s| s.lbn > begin.first);
        zone.shifts = shifts.copied().collect();
        zone.cycle = Some(Cycle::new(slots, advance));
        Some(zone)
    }

    /// Returns the last zone of recurring runs, extended over tracks without LBNs, if the last zone is one of its runs;
    /// and the last LBN of that run.
    fn continued(&self, loose: f64) -> Option<(Zone, u64)> {
        let zones = self.ended();
        let recent = zones.len().saturating_sub(ZONES_BETWEEN_MAX + 1)..zones.len().saturating_sub(1);
        let at = recent.rev().find(|&at| zones.get(at).is_some_and(|z| z.cycle.is_some()))?;
        let (before, last) = (zones.get(at)?, zones.last()?);
        let cycle = before.cycle.as_ref().filter(|cycle| cycle.width() > 1)?;
        let runs = runs_of(last)?;
        let [run] = runs.as_slice() else { return None };
        let (width, tracks) = (cycle.width(), cycle.tracks());
        let mut joined = before.clone();
        joined.end = self.capacity;
        let place = joined.place(run.first);
        let from = joined.locate(run.first).0 / width * width;
        for track in (from..from + 2 * tracks).step_by(width as usize) {
            let is_like = joined.sectors_on(track) == run.sectors
                && joined.sectors_on(track + run.tracks - 1) == run.sectors
                && joined.sectors_on(track + run.tracks) != run.sectors
                && run.tracks.is_multiple_of(width)
                && wrap(joined.track_angle(track) - run.angle).abs() < loose
                && wrap(joined.track_angle(track + run.tracks - 1) - run.track_angle(run.tracks - 1)).abs()
                    < loose;
            let Some(sectors) = joined.track_place(track).checked_sub(place).filter(|&m| is_like && m > 0)
            else {
                continue;
            };
            // All unused sectors are placed at the end of the zone `before`, unless the LBNs between that end and the
            // run are at other angles.
            joined.shifts.push(Shift { lbn: before.end, sectors });
            let between = zones.get(at + 1..).unwrap_or_default();
            let stand = between.iter().all(|zone| {
                let middle = zone.first + zone.lbns() / 2;
                wrap(joined.predict(middle) - zone.predict(middle)).abs() < loose
            });
            if !stand && let Some(shift) = joined.shifts.last_mut() {
                shift.lbn = run.first;
            }
            return Some((joined, last.end - 1));
        }
        None
    }
}

/// Returns the runs of a zone: its repetitions, or the whole zone as one run; `None` if it is not of whole regular
/// tracks.
fn runs_of(zone: &Zone) -> Option<Vec<Run>> {
    let plain = zone.region.is_none() && zone.cycle.is_none() && zone.odd.is_empty();
    let (skew, tracks) = (zone.levels.first()?.advance, zone.tracks());
    if !plain || zone.place(zone.end - 1) + 1 != tracks * zone.sectors {
        return None;
    }
    let unit = zone.levels.get(1).map_or(tracks, |level| level.unit).max(1);
    let run = |track: u64| Run {
        first: zone.lbn_near(track, 0),
        tracks: unit.min(tracks - track),
        sectors: zone.sectors,
        angle: zone.track_angle(track),
        skew,
    };
    Some((0..tracks).step_by(unit as usize).take(CYCLE_TRACKS_MAX).map(run).collect())
}

/// Returns the rotations that a zone of one density with this cycle's order of tracks would have: of a track, of a run,
/// and of a band. Equal rotations differ by less than `loose`.
pub(super) fn levels(cycle: &Cycle, loose: f64) -> Vec<Level> {
    let (slots, width) = (&cycle.slots, cycle.width());
    // A slot's angle is that at which its first sector ends.
    let begins: Vec<f64> = slots.iter().map(|s| s.angle - 1.0 / s.sectors as f64).collect();
    let mean = |of: &[f64]| {
        let one = of.first().copied().unwrap_or(0.0);
        one + of.iter().map(|a| wrap(a - one)).sum::<f64>() / of.len().max(1) as f64
    };
    let skews: Vec<f64> = slots.iter().map(|s| s.skew).collect();
    let heads = if is_back_and_forth(slots) { slots.len() / 2 } else { slots.len() };
    let inside = begins.get(..heads).unwrap_or(&begins);
    let steps: Vec<f64> = inside.windows(2).filter_map(|two| Some(two.last()? - two.first()?)).collect();
    let band = match (begins.get(heads), begins.first()) {
        (Some(next), Some(first)) => {
            // Half of the rotation of two equal bands is that of one, up to half a revolution.
            let more = wrap(cycle.advance - 2.0 * (next - first)) / 2.0;
            next - first + if more.abs() < loose { more } else { 0.0 }
        }
        _ => cycle.advance,
    };
    vec![
        Level { unit: 1, advance: mean(&skews) },
        Level { unit: width, advance: wrap(mean(&steps)) },
        Level { unit: width * heads as u64, advance: wrap(band) },
    ]
}

/// Returns whether the densities of every second band are those of the first in reverse, from any slot on.
fn is_back_and_forth(slots: &[Slot]) -> bool {
    let k = slots.len();
    let on = |i: usize| slots.get(i % k.max(1)).map(|s| s.sectors);
    k > 2
        && k.is_multiple_of(2)
        && (0..k / 2).any(|first| (0..k / 2).all(|i| on(first + i) == on(first + k - 1 - i)))
}

/// Returns the greatest common divisor.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
