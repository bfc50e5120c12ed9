//! The beginning of a zone: its density, its first track boundary, its first skew.

use super::Mapper;
use super::cycle::{CYCLE_ZONE_TRACKS_MAX, PRECEDING_SECTORS_MAX};
use super::event::SLIP_SECTORS_MAX;
use crate::error::ProbeError;
use crate::revolutions::{frac, wrap};
use crate::zone::{Level, Region, Shift, Zone};

/// Distances from a zone's first LBN over which its density is measured, in sectors.
const DENSITY_STEPS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192];

/// The least angle between two sectors that readings can show, in standard deviations of a reading.
const VISIBLE_DEVIATIONS_MIN: f64 = 8.0;

/// The sectors after a zone's first with which its density is checked (only the first of them if times are exact); and
/// the tolerance of this check, in standard deviations of a reading.
const CHECKED_SECTORS: [u64; 3] = [1, 3, 6];
const CHECK_DEVIATIONS_MAX: f64 = 5.0;

/// The least density of a zone from which that of the next zone may be guessed, in sectors per track.
const GUESSED_DENSITY_SECTORS_MIN: u64 = 48;

impl Mapper<'_, '_> {
    /// Returns the zone that begins at `first`, with its density, first boundary and first skew; `angle` is that of
    /// `first`, if it was measured.
    pub(super) fn begin(&mut self, first: u64, angle: Option<f64>) -> Result<Zone, ProbeError> {
        self.known = f64::INFINITY;
        let angle = match angle {
            Some(angle) => angle,
            None => self.sure_angle_alone(first)?,
        };
        if let Some(zone) = self.begin_like(first, angle)? {
            return Ok(zone);
        }
        let last = self.capacity - 1 - first;
        let mut sectors = self.density(first, angle)?;
        if sectors < self.fewest_sectors() && first + self.fewest_sectors() < self.capacity {
            // With so few sectors per track there would be too many tracks: readings were wrong, and are repeated.
            self.meter.find_phase()?;
            sectors = self.density_over(first, angle, &DENSITY_STEPS)?;
        }
        let (sectors, sure) = self.counted(first, sectors, angle)?;
        let mut zone = Zone::new(first, sectors, angle);
        zone.end = self.capacity;
        if last < sectors {
            return Ok(zone);
        }
        // The zone has no skew yet, so its predictions hold to the end of its first track only.
        if sure || self.meets(&zone, first + sectors - 1)? {
            let next = self.sure_angle(first + sectors, sectors)?;
            zone.levels.push(Level { unit: 1, advance: wrap(next - angle) });
            return Ok(zone);
        }
        let (mut low, mut high) = (first, first + sectors - 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.meets(&zone, middle)? { low = middle } else { high = middle }
        }
        if let Some(zone) = self.begin_short(&zone, high)? {
            return Ok(zone);
        }
        zone.end = high;
        Ok(zone)
    }

    /// Returns a zone of another density that begins with the last track of the previous zone. The first sectors of
    /// such a track are almost at the angles of the previous density. `angle` is that of the first LBN that is not at
    /// these, if it is known.
    pub(super) fn begin_sooner(&mut self, at: u64, angle: Option<f64>) -> Result<Option<Zone>, ProbeError> {
        if self.meter.is_noisy() {
            return self.begin_with_track(at);
        }
        let (Some(before), Some(angle)) = (self.map.zones.last(), angle) else { return Ok(None) };
        let n = before.sectors;
        let (track, sector) = before.locate(before.end - 1);
        let first = at - (sector + 1).min(at);
        let few = sector < PRECEDING_SECTORS_MAX.min(n / 4) && track > CYCLE_ZONE_TRACKS_MAX;
        let plain = before.region.is_none() && before.cycle.is_none();
        let near = wrap(angle - before.predict(at)).abs() < 1.0 / n as f64;
        if !few || !plain || !near || before.shifts.last().is_some_and(|s| s.lbn >= first) {
            return Ok(None);
        }
        let zone = self.begin(first, None)?;
        let whole = zone.end == self.capacity && zone.sectors != n && zone.region.is_none();
        if !whole || !self.meets(&zone, at)? {
            return Ok(None);
        }
        if let Some(before) = self.map.zones.last_mut() {
            before.end = first;
        }
        Ok(Some(zone))
    }

    /// Returns a zone like the previous one, at another angle, if it begins with the same density and skews.
    fn begin_like(&mut self, first: u64, angle: f64) -> Result<Option<Zone>, ProbeError> {
        let Some(before) = self.map.zones.last() else { return Ok(None) };
        let (n, top) = (before.sectors, before.levels.last().map_or(0, |l| l.unit));
        if top == 0 || first + (top + 2) * n >= self.capacity {
            return Ok(None);
        }
        let mut zone = Zone::new(first, n, angle);
        zone.end = self.capacity;
        zone.levels.clone_from(&before.levels);
        zone.region = before.region;
        let at = |track: u64, sector: u64| zone.lbn_near(track, sector);
        let mut points =
            vec![first + n / 2, at(1, 0), at(1, n - 1), at(top, 0), at(top, n / 2), at(top - 1, n - 1)];
        if let Some(region) = zone.region {
            points.extend([first + region.lbns - 1, first + region.lbns]);
        }
        Ok(self.all_meet(&zone, &points)?.then_some(zone))
    }

    /// Counts the sectors of a track if readings vary too much to give their number: a track ends where the next LBN is
    /// at another angle. Also returns whether the first track was seen to end there.
    fn counted(&mut self, first: u64, sectors: u64, angle: f64) -> Result<(u64, bool), ProbeError> {
        let unsure = (6.0 * self.spread * sectors as f64).ceil() as u64;
        if unsure < 1 || !self.meter.is_noisy() || sectors < 4 {
            return Ok((sectors, false));
        }
        let mut ends = Vec::new();
        let (mut begin, mut angle) = (first, angle);
        for _ in 0..3 {
            let zone = Zone::new(begin, sectors, angle);
            let (mut low, mut high) =
                (begin + sectors.saturating_sub(unsure + 1), begin + sectors + unsure + 1);
            // A track ends with a jump of many sectors; the tolerance ignores the drift of a density wrong by one.
            let loose = 2.0 * self.tolerance(1);
            if high >= self.capacity
                || !self.check_angle(&zone, low, loose)?.met
                || self.check_angle(&zone, high, loose)?.met
            {
                break;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                let on = self.check_angle(&zone, middle, loose)?.met;
                if on { low = middle } else { high = middle }
            }
            ends.push(high - begin);
            if ends == [sectors] {
                return Ok((sectors, true));
            }
            begin = high;
            angle = self.sure_angle(begin, sectors)?;
        }
        // Two equal tracks decide, because a slip makes one of three tracks shorter.
        ends.sort_unstable();
        Ok((ends.windows(2).rev().find(|w| w[0] == w[1]).map_or(sectors, |w| w[0]), false))
    }

    /// Returns a zone whose first track ends early at `next`: because of a slip on it, or of spares on every track.
    fn begin_short(&mut self, zone: &Zone, next: u64) -> Result<Option<Zone>, ProbeError> {
        let angle = self.sure_angle(next, zone.sectors)?;
        let mut slipped = zone.clone();
        let by = (wrap(angle - zone.predict(next)) * zone.sectors as f64).round();
        if by >= 1.0 && by <= SLIP_SECTORS_MAX as f64 && next + (by as u64) < zone.first + zone.sectors {
            slipped.shifts.push(Shift { lbn: next, sectors: by as u64 });
            let end = zone.first + zone.sectors - by as u64;
            if self.all_meet(&slipped, &[next, next + (end - next) / 2, end - 1])? {
                let after = self.sure_angle(end, zone.sectors)?;
                slipped.levels.push(Level { unit: 1, advance: wrap(after - zone.angle) });
                return Ok(Some(slipped));
            }
        }
        let lbns = next - zone.first;
        if self.meter.is_noisy() && lbns < zone.sectors / 4 {
            // A wrong reading is likelier than a track of mostly spares.
            return Ok(None);
        }
        if lbns == 0 || lbns >= zone.sectors {
            return Ok(None);
        }
        let mut spared = zone.clone();
        spared.region = Some(Region { lbns, spares: zone.sectors - lbns });
        spared.levels.push(Level { unit: 1, advance: wrap(angle - zone.angle) });
        let near = [next + lbns - 1, next + lbns / 2];
        if self.all_meet(&spared, &near)? && self.angle_breaks(&spared, next + lbns)? {
            return Ok(Some(spared));
        }
        Ok(None)
    }

    /// Returns whether the angle jumps before `lbn`, which is the first LBN of a track in the zone.
    fn angle_breaks(&mut self, zone: &Zone, lbn: u64) -> Result<bool, ProbeError> {
        if lbn >= self.capacity {
            return Ok(false);
        }
        let on = zone.predict(lbn - 1) + 1.0 / zone.sectors as f64;
        Ok(self.meter.deviation(lbn, on)?.abs() >= self.tolerance(zone.sectors))
    }

    /// Returns the number of sectors on the track of `first`, which is at the angle `start`.
    pub(super) fn density(&mut self, first: u64, start: f64) -> Result<u64, ProbeError> {
        let Some(before) = self.map.zones.last().map(|z| z.sectors) else {
            return self.density_over(first, start, &DENSITY_STEPS);
        };
        // Densities of consecutive zones are similar, so a few short distances suffice; if the densities differ more,
        // the next sectors are not at their predicted angles.
        let near = [before / 16, before / 3, before * 3 / 4];
        let mut sectors =
            if before >= GUESSED_DENSITY_SECTORS_MIN { self.density_over(first, start, &near)? } else { 0 };
        // Sectors shorter than the variation of readings cannot be distinguished from their neighbours.
        let resolved = self.resolves_sectors(if sectors == 0 { before } else { before.min(sectors) });
        if sectors == 0 || resolved && !self.is_density(first, start, sectors)? {
            sectors = self.density_over(first, start, &DENSITY_STEPS)?;
        }
        let resolved = self.resolves_sectors(before.min(sectors));
        if self.meter.is_noisy()
            && !(before / 2..=before * 2).contains(&sectors)
            && (!resolved
                || self.is_density(first, start, before)?
                || !self.is_density(first, start, sectors)?)
        {
            // Wrong readings are likelier than another density.
            sectors = before;
        }
        Ok(sectors)
    }

    /// Returns whether the next sectors are at the angles of a track with this many sectors.
    fn is_density(&mut self, first: u64, start: f64, sectors: u64) -> Result<bool, ProbeError> {
        let sector = 1.0 / sectors as f64;
        let (noisy, near) = (self.meter.is_noisy(), self.tolerance(sectors));
        let steps = if noisy { &CHECKED_SECTORS[..] } else { &CHECKED_SECTORS[..1] };
        for &step in steps {
            if first + step >= self.capacity {
                break;
            }
            let turned = wrap(self.angle(first + step)? - start);
            let allowed = if noisy { CHECK_DEVIATIONS_MAX * self.spread } else { near };
            if wrap(turned - step as f64 * sector).abs() >= 0.1 * sector + allowed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the sectors per track according to the angles of LBNs `steps` sectors behind `first`.
    fn density_over(&mut self, first: u64, start: f64, steps: &[u64]) -> Result<u64, ProbeError> {
        let room = self.capacity - 1 - first;
        let steps: Vec<u64> = steps.iter().copied().filter(|&k| k > 0 && k <= room).collect();
        let mut angles = Vec::new();
        for &k in steps.iter().rev() {
            angles.push((k as f64, self.angle(first + k)?));
        }
        let tolerance = self.tolerance(1);
        let mut sector = None;
        let mut reach = 1.0;
        for &(k, angle) in angles.iter().rev() {
            let turned = wrap(angle - start);
            if sector.is_none() && turned.abs() < VISIBLE_DEVIATIONS_MIN * self.spread {
                // The angle over this distance is too small for the accuracy of readings; longer distances follow.
                continue;
            }
            let so_far = sector.unwrap_or(frac(turned) / k);
            let off = wrap(turned - k * so_far);
            if sector.is_some() && off.abs() > f64::min(tolerance * (1.0 + k / reach), 0.1) {
                break;
            }
            sector = Some(so_far + off / k);
            reach = k;
        }
        let sector: f64 = sector.unwrap_or(1.0);
        let sectors = (1.0 / sector.max(1e-6)).round();
        Ok(sectors.clamp(1.0, 1e5) as u64)
    }
}
