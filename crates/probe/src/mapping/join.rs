//! Zones that prove to be parts of one zone.

use super::runs::levels;
use super::{Map, Mapper};
use crate::error::ProbeError;
use crate::revolutions::wrap;
use crate::zone::{Cycle, Level, Region, Zone};
use std::collections::BTreeMap;

/// Fewer spare sectors than this may be slips, if readings cannot distinguish sectors.
const SLIPPED_SPARES_MAX: u64 = 4;

impl Map {
    /// Gives all cycles the width of runs that most LBNs have (a run is the consecutive tracks of a band on one
    /// surface). Two runs in a row on one surface look like one of twice the width, and a zone that begins inside a run
    /// looks like one of narrower runs.
    pub(super) fn make_runs_equal(&mut self, loose: f64) {
        let mut widths: BTreeMap<u64, u64> = BTreeMap::new();
        for zone in &self.zones {
            if let Some(cycle) = &zone.cycle {
                *widths.entry(cycle.width()).or_default() += zone.lbns();
            }
        }
        let Some((&width, _)) = widths.iter().max_by_key(|width| width.1) else { return };
        let with_runs = |zone: &Zone| {
            let is_other = |cycle: &Cycle| cycle.width() != width && cycle.width() > 1;
            let runs = zone.with_runs_of(width, loose).filter(|_| zone.cycle.as_ref().is_some_and(is_other));
            let mut zones = runs.unwrap_or_else(|| vec![zone.clone()]);
            if let Some(last) = zones.last_mut().filter(|last| last.cycle != zone.cycle)
                && let Some(cycle) = &last.cycle
            {
                last.levels = levels(cycle, loose);
            }
            zones
        };
        self.zones = self.zones.iter().flat_map(with_runs).collect();
    }
}

impl Mapper<'_, '_> {
    /// Returns `before` and `zone` as one zone, if `before` is the first of the groups of tracks that recur in `zone`.
    /// It became a zone of its own because a slip in the next group hid the recurrence.
    fn prefixed(&self, before: &Zone, zone: &Zone) -> Option<Zone> {
        let tracks = before.tracks();
        let level = zone.levels.iter().find(|l| l.unit == tracks)?;
        let whole = before.place(before.end - 1) + 1 == tracks * before.sectors;
        let turned = wrap(zone.angle - before.angle - level.advance).abs() < self.tolerance(before.sectors);
        if !(whole
            && turned
            && before.region == zone.region
            && before.alike(zone, self.tolerance(before.sectors)))
        {
            return None;
        }
        let mut joined = before.clone();
        joined.levels.clone_from(&zone.levels);
        joined.shifts.extend(&zone.shifts);
        joined.odd.extend(&zone.odd);
        joined.end = zone.end;
        Some(joined)
    }

    /// Returns the previous zone extended by `zone`, if `zone` repeats it: both are then regions of one zone, each with
    /// spare sectors at its end.
    pub(super) fn join(&mut self, zone: &Zone) -> Result<Option<Zone>, ProbeError> {
        let Some(before) = self.map.zones.last() else { return Ok(None) };
        let lbns = before.lbns();
        if let Some(whole) = self.prefixed(before, zone) {
            return Ok(Some(whole));
        }
        let plain = |z: &Zone| z.shifts.is_empty() && z.region.is_none();
        if before.end != zone.first
            || zone.lbns() != lbns
            || !plain(before)
            || !plain(zone)
            || !before.alike(zone, self.tolerance(before.sectors))
        {
            return Ok(None);
        }
        if lbns < 2 {
            // Zones of one LBN each may be sectors of one track, which are at regular angles, too, and show no region.
            return Ok(None);
        }
        let tracks = before.tracks();
        let mut joined = before.clone();
        joined.end = self.capacity;
        let spares = tracks * zone.sectors - lbns;
        joined.region = Some(Region { lbns, spares });
        joined.levels.retain(|l| l.unit < tracks);
        joined.levels.push(Level { unit: tracks, advance: wrap(zone.angle - before.angle) });
        if !self.resolves_sectors(zone.sectors) && (1..SLIPPED_SPARES_MAX).contains(&spares) {
            // So few spare sectors may as well be slips in each of two cylinders. Zones without spares may be runs,
            // which recur.
            return Ok(None);
        }
        let third = zone.end;
        let points = [third, third + lbns / 2, third + lbns - 1];
        if third + lbns < self.capacity && self.all_meet(&joined, &points)? {
            return Ok(Some(joined));
        }
        Ok(None)
    }

    /// Replaces three zones that repeat one another by one, if the repetition continues. If the rotation from the
    /// second to the third zone differs from that of the first to the second, the zones are runs, two of which make a
    /// band.
    pub(super) fn join_pairs(&mut self) -> Result<Option<Zone>, ProbeError> {
        if self.meter.is_noisy() {
            // A wrong repetition would continue for long before the error of its angles shows.
            return Ok(None);
        }
        let [.., first, second, third] = self.map.zones.as_slice() else { return Ok(None) };
        let (lbns, tolerance) = (first.lbns(), self.tolerance(first.sectors));
        let alike = |zone: &Zone| {
            let plain = zone.shifts.is_empty() && zone.region.is_none();
            plain && zone.lbns() == lbns && zone.alike(first, tolerance)
        };
        let tracks = first.tracks();
        let follow = first.end == second.first && second.end == third.first;
        if !follow
            || tracks < 2
            || lbns != tracks * first.sectors
            || ![first, second, third].into_iter().all(alike)
        {
            return Ok(None);
        }
        let mut joined = first.clone();
        joined.end = self.capacity;
        joined.levels.retain(|l| l.unit < tracks);
        joined.levels.push(Level { unit: tracks, advance: wrap(second.angle - first.angle) });
        joined.levels.push(Level { unit: 2 * tracks, advance: wrap(third.angle - first.angle) });
        let fourth = third.end;
        let points = [fourth, fourth + lbns / 2, fourth + lbns - 1, fourth + lbns, fourth + lbns + lbns / 2];
        Ok((fourth + 2 * lbns < self.capacity && self.all_meet(&joined, &points)?).then_some(joined))
    }
}
