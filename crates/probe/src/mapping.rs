//! From LBN 0 to the last: zones, track boundaries, skews, slips, by angles alone.
//!
//! A zone's rotations repeat, so a few of them say where each LBN should stand. The mapper predicts ever farther
//! ahead; where a prediction fails it looks for the first LBN that is off, and finds out what is there.

use crate::error::ProbeError;
use crate::fit::Fit;
use crate::meter::Meter;
use crate::turns::wrap;
use crate::zone::{Level, Region, Shift, Zone};

/// Distances from a zone's first LBN over which its density is measured.
const DENSITY_STEPS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192];

/// The longest run of slipped sectors taken for one.
const MOST_SLIPPED: u64 = 256;

/// The longest such run with others so near that they hide the next track.
const MOST_SLIPPED_AMONG: u64 = 32;

/// Units of a level in one of the next; a band has some hundred tracks.
const MOST_REPEATS: u64 = 4_096;

/// The most levels: track, cylinder or run, band.
const MOST_LEVELS: usize = 3;

/// The most zones; beyond that the drive is not understood.
const MOST_ZONES: usize = 4_096;

/// Tracks that are all looked at while only one skew of a zone is known; more than a cylinder has.
const DENSE_TRACKS: u64 = 24;

/// What is at the first LBN that is off.
enum Event {
    Slip(u64),
    Level(Level),
    Alone,
    End,
}

/// The map, and what of it is strange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) zones: Vec<Zone>,
    /// Whether the drive's every LBN is in a zone.
    pub(crate) complete: bool,
}

impl Map {
    pub(crate) fn zone_of(&self, lbn: u64) -> Option<&Zone> {
        let after = self.zones.partition_point(|z| z.first <= lbn);
        self.zones.get(after.checked_sub(1)?).filter(|z| lbn < z.end)
    }

    pub(crate) fn predict(&self, lbn: u64) -> Option<f64> {
        self.zone_of(lbn).map(|z| z.predict(lbn))
    }
}

pub(crate) struct Mapper<'m, 'a> {
    meter: &'m mut Meter<'a>,
    capacity: u64,
    /// What the clock and rounding leave.
    least: f64,
    /// Of one reading, turns.
    spread: f64,
    /// An angle this near to its prediction meets it.
    tolerance: f64,
    map: Map,
}

impl<'m, 'a> Mapper<'m, 'a> {
    pub(crate) fn new(meter: &'m mut Meter<'a>) -> Self {
        let capacity = meter.capacity();
        // A nanosecond of clock, and what of it adds up.
        let clock = 6.0 / meter.revolution;
        let least = clock + 2e-5;
        let spread = meter.spread.max(0.6 / meter.revolution);
        Self { meter, capacity, least, spread, tolerance: f64::max(least, 3.5 * spread), map: Map::default() }
    }

    /// Maps the drive.
    pub(crate) fn run(mut self) -> Result<Map, ProbeError> {
        let mut at = 0;
        while at < self.capacity && self.map.zones.len() < MOST_ZONES {
            self.meter.stage("zones and tracks", 0.05 + 0.6 * at as f64 / self.capacity as f64);
            let mut zone = self.begin(at)?;
            self.extend(&mut zone)?;
            if let Some(joined) = self.join(&zone)? {
                self.map.zones.pop();
                let known = joined.end;
                zone = joined;
                if zone.region.is_some() && known == self.capacity {
                    self.extend(&mut zone)?;
                }
            }
            at = zone.end;
            self.map.zones.push(zone);
        }
        self.map.complete = at >= self.capacity;
        Ok(self.map)
    }

    fn angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        self.meter.angle(lbn)
    }

    /// The angle of an LBN on which much depends: two readings that agree.
    ///
    /// A read right after that of the sector before it may come late, for the drive is still busy with itself.
    fn sure_angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        let mut angles = Vec::new();
        for _ in 0..5 {
            self.meter.step_aside(lbn)?;
            let angle = self.meter.angle(lbn)?;
            if let Some(&same) = angles.iter().find(|&&a| wrap(angle - a).abs() < self.tolerance) {
                return Ok(same + wrap(angle - same) / 2.0);
            }
            angles.push(angle);
        }
        self.meter.angle(lbn)
    }

    /// Sets the tolerance for tracks of so many sectors: half a sector, where readings tell as much.
    fn tolerate(&mut self, sectors: u64) {
        let half = 0.5 / sectors as f64;
        let noise = 3.5 * self.spread;
        let most = if half > 2.0 * self.spread { noise.min(half) } else { noise };
        self.tolerance = f64::max(self.least, most);
    }

    /// Whether `lbn` stands where the zone has it, and how far off; a mismatch is looked at twice.
    fn meets(&mut self, zone: &Zone, lbn: u64) -> Result<Option<f64>, ProbeError> {
        Ok(self.meets_within(zone, lbn, 0.0)?.map(|(error, _)| error))
    }

    /// The same with more tolerance; also how many readings the error is the mean of.
    fn meets_within(&mut self, zone: &Zone, lbn: u64, more: f64) -> Result<Option<(f64, f64)>, ProbeError> {
        if lbn >= self.capacity {
            return Ok(None);
        }
        if zone.odd.binary_search(&lbn).is_ok() {
            return Ok(Some((0.0, 0.0)));
        }
        let tolerance = self.tolerance + more;
        let expected = zone.predict(lbn);
        let first = self.meter.deviation(lbn, expected)?;
        if first.abs() < 0.7 * tolerance || first.abs() < tolerance && !self.meter.is_noisy() {
            return Ok(Some((first, 1.0)));
        }
        // A completion may have waited for something once, and readings vary.
        self.meter.leave(lbn)?;
        let second = self.meter.deviation(lbn, expected)?;
        if !self.meter.is_noisy() {
            return Ok((second.abs() < tolerance).then_some((second, 1.0)));
        }
        if second.abs() > 2.0 * tolerance && first.abs() > 2.0 * tolerance {
            return Ok(None);
        }
        self.meter.leave(lbn)?;
        let third = self.meter.deviation(lbn, expected)?;
        let mut three = [first, second, third];
        let middle = crate::turns::median(&mut three);
        Ok((middle.abs() < tolerance).then_some((middle, 2.0)))
    }

    fn all_meet(&mut self, zone: &Zone, lbns: &[u64]) -> Result<bool, ProbeError> {
        let mut lbns: Vec<u64> = lbns.iter().copied().filter(|&l| l < self.capacity).collect();
        // Downward: read-ahead goes up.
        lbns.sort_unstable_by(|a, b| b.cmp(a));
        lbns.dedup();
        for lbn in lbns {
            if self.meets(zone, lbn)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Density, first boundary and first skew of the zone that begins at `first`.
    fn begin(&mut self, first: u64) -> Result<Zone, ProbeError> {
        let last = self.capacity - 1 - first;
        self.tolerance = f64::max(self.least, 3.5 * self.spread);
        let (sectors, angle) = self.density(first)?;
        let sectors = self.counted(first, sectors, angle)?;
        self.tolerate(sectors);
        let mut zone = Zone::new(first, sectors, angle);
        zone.end = self.capacity;
        if last < sectors {
            return Ok(zone);
        }
        // On one track without an end, everything is where its angle says until the next track begins.
        if self.meets(&zone, first + sectors - 1)?.is_some() {
            let next = self.sure_angle(first + sectors)?;
            zone.levels.push(Level { unit: 1, advance: wrap(next - angle) });
            return Ok(zone);
        }
        let (mut low, mut high) = (first, first + sectors - 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.meets(&zone, middle)?.is_some() { low = middle } else { high = middle }
        }
        if let Some(zone) = self.begin_short(&zone, high)? {
            return Ok(zone);
        }
        zone.end = high;
        Ok(zone)
    }

    /// The exact number of sectors on a track, where readings are too spread to tell it: tracks end where the next
    /// LBN stands elsewhere.
    fn counted(&mut self, first: u64, sectors: u64, angle: f64) -> Result<u64, ProbeError> {
        let unsure = (6.0 * self.spread * sectors as f64).ceil() as u64;
        if unsure < 1 || !self.meter.is_noisy() || sectors < 4 {
            return Ok(sectors);
        }
        let mut ends = Vec::new();
        let (mut begin, mut angle) = (first, angle);
        for _ in 0..3 {
            let zone = Zone::new(begin, sectors, angle);
            let (mut low, mut high) =
                (begin + sectors.saturating_sub(unsure + 1), begin + sectors + unsure + 1);
            if high >= self.capacity
                || self.meets(&zone, low)?.is_none()
                || self.meets(&zone, high)?.is_some()
            {
                break;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.meets(&zone, middle)?.is_some() { low = middle } else { high = middle }
            }
            ends.push(high - begin);
            begin = high;
            angle = self.sure_angle(begin)?;
        }
        // Two tracks that hold as many say it; a slip makes one of three shorter.
        ends.sort_unstable();
        Ok(ends.windows(2).rev().find(|w| w[0] == w[1]).map_or(sectors, |w| w[0]))
    }

    /// A zone whose first track ends early at `next`: a slip on it, or spares on every track.
    fn begin_short(&mut self, zone: &Zone, next: u64) -> Result<Option<Zone>, ProbeError> {
        let angle = self.sure_angle(next)?;
        let mut slipped = zone.clone();
        let by = (wrap(angle - zone.predict(next)) * zone.sectors as f64).round();
        if by >= 1.0 && by <= MOST_SLIPPED as f64 && next + (by as u64) < zone.first + zone.sectors {
            slipped.shifts.push(Shift { lbn: next, sectors: by as u64 });
            let end = zone.first + zone.sectors - by as u64;
            if self.all_meet(&slipped, &[next, next + (end - next) / 2, end - 1])? {
                let after = self.sure_angle(end)?;
                slipped.levels.push(Level { unit: 1, advance: wrap(after - zone.angle) });
                return Ok(Some(slipped));
            }
        }
        let lbns = next - zone.first;
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

    /// Whether a track ends before `lbn`, which the zone has as the first of another.
    fn angle_breaks(&mut self, zone: &Zone, lbn: u64) -> Result<bool, ProbeError> {
        if lbn >= self.capacity {
            return Ok(false);
        }
        let on = zone.predict(lbn - 1) + 1.0 / zone.sectors as f64;
        Ok(self.meter.deviation(lbn, on)?.abs() >= self.tolerance)
    }

    /// Sectors on the track of `first`, and the angle there.
    fn density(&mut self, first: u64) -> Result<(u64, f64), ProbeError> {
        let room = self.capacity - 1 - first;
        let steps: Vec<u64> = DENSITY_STEPS.iter().copied().filter(|&k| k <= room).collect();
        let mut angles = Vec::new();
        for &k in steps.iter().rev() {
            angles.push((k, self.angle(first + k)?));
        }
        let start = self.sure_angle(first)?;
        let mut sector = None;
        let mut reach = 1.0;
        for &(k, angle) in angles.iter().rev() {
            let turned = wrap(angle - start);
            let k = k as f64;
            let Some(so_far) = sector else {
                sector = Some(crate::turns::frac(turned));
                continue;
            };
            let off = wrap(turned - k * so_far);
            if off.abs() > f64::min(self.tolerance * (1.0 + k / reach), 0.1) {
                break;
            }
            sector = Some(so_far + off / k);
            reach = k;
        }
        let sector: f64 = sector.unwrap_or(1.0);
        let sectors = (1.0 / sector.max(1e-6)).round();
        Ok((sectors.clamp(1.0, 1e5) as u64, start))
    }

    /// Follows the zone to its end.
    fn extend(&mut self, zone: &mut Zone) -> Result<(), ProbeError> {
        let end = zone.end.min(self.capacity);
        zone.end = end;
        let n = zone.sectors;
        let Some(&base) = zone.levels.last() else { return Ok(()) };
        // The middle of a track that is right.
        let mut good = zone.first + n / 2;
        if base.unit > 1 || zone.region.is_some() {
            good = zone.lbn_near(base.unit, n / 2);
        }
        let mut step = 1;
        self.tolerate(n);
        let mut fit = self.begin_fit(zone)?;
        while good < end - 1 {
            let target_at = |step: u64| {
                let ahead = (good + step * n).min(end - 1);
                let (_, sector) = zone.locate(ahead);
                if ahead == end - 1 {
                    ahead
                } else {
                    // The middle of a track: a slip more or less does not push it off.
                    (ahead + n / 2).saturating_sub(sector).clamp(good + 1, end - 1)
                }
            };
            let mut target = target_at(step);
            let mut unsure = 3.0 * fit.uncertainty(zone, target);
            while step > 1 && unsure > 0.3 * self.tolerance {
                step /= 2;
                target = target_at(step);
                unsure = 3.0 * fit.uncertainty(zone, target);
            }
            self.meter.stage("zones and tracks", 0.05 + 0.6 * target as f64 / self.capacity as f64);
            if let Some((error, readings)) = self.meets_within(zone, target, unsure.min(self.tolerance))? {
                fit.take(zone, target, error, readings);
                good = target;
                // Every track at first: what recurs must not be stepped over.
                let dense = zone.levels.len() == 1 && zone.locate(target).0 < DENSE_TRACKS;
                step = if dense { 1 } else { (step * 4).min(1 << 24) };
                continue;
            }
            step = (step / 16).max(1);
            let off = self.first_off(zone, good, target)?;
            match self.classify(zone, off)? {
                Event::Slip(sectors) => {
                    zone.shifts.push(Shift { lbn: off, sectors });
                    good = off;
                }
                Event::Level(level) => {
                    zone.levels.push(level);
                    // It was read twice.
                    fit.take(zone, off, 0.0, 2.0);
                    good = off;
                }
                Event::Alone => {
                    zone.odd.push(off);
                    good = off;
                }
                Event::End => {
                    zone.end = off;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What the beginning of a zone says of its angles: two readings each of its first LBN and its second track's.
    fn begin_fit(&mut self, zone: &mut Zone) -> Result<Fit, ProbeError> {
        let mut fit = Fit::new(self.spread);
        fit.take(zone, zone.first, 0.0, 2.0);
        let firsts: Vec<u64> =
            zone.levels.iter().map(|l| zone.lbn_near(l.unit, 0)).filter(|&l| l < zone.end).collect();
        for lbn in firsts {
            fit.take(zone, lbn, 0.0, 2.0);
        }
        Ok(fit)
    }

    /// The first LBN that is off, between one that is right and one that is not.
    fn first_off(&mut self, zone: &Zone, good: u64, bad: u64) -> Result<u64, ProbeError> {
        let off = self.halve(zone, good, bad, false)?;
        // One reading for each half may go wrong once; what came of them is looked at twice.
        if (off == good + 1 || self.meets(zone, off - 1)?.is_some()) && self.meets(zone, off)?.is_none() {
            return Ok(off);
        }
        self.halve(zone, good, bad, true)
    }

    fn halve(&mut self, zone: &Zone, good: u64, bad: u64, twice: bool) -> Result<u64, ProbeError> {
        let n = zone.sectors;
        let (mut good, mut bad) = (good, bad);
        // From track to track first, then inside.
        while bad - good > 1 {
            let mut middle = good + (bad - good) / 2;
            if bad - good > 3 * n {
                let (_, sector) = zone.locate(middle);
                middle = (middle + n / 2).saturating_sub(sector);
            }
            let right = if twice || zone.odd.binary_search(&middle).is_ok() {
                self.meets(zone, middle)?.is_some()
            } else {
                let near = self.tolerance.min(if self.meter.is_noisy() { 0.5 / n as f64 } else { 1.0 });
                self.meter.deviation(middle, zone.predict(middle))?.abs() < near.max(2.5 * self.spread)
            };
            if right { good = middle } else { bad = middle }
        }
        Ok(bad)
    }

    /// What is at `off`, the first LBN that is not where the zone has it.
    fn classify(&mut self, zone: &Zone, off: u64) -> Result<Event, ProbeError> {
        let n = zone.sectors;
        if off + 2 < zone.end && self.all_meet(zone, &[off + 1, off + 2])? {
            return Ok(Event::Alone);
        }
        let angle = self.sure_angle(off)?;
        let (track, sector) = zone.locate(off);
        if let Some(event) = self.slip(zone, off, angle)? {
            return Ok(event);
        }
        let top = zone.levels.last().map_or(1, |l| l.unit);
        let regular = sector == 0 && track > top && track % top == 0;
        if regular && track / top <= MOST_REPEATS && zone.levels.len() < MOST_LEVELS {
            let level = Level { unit: track, advance: wrap(angle - zone.angle) };
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
            if trial.lbn_near(2 * track, 0) < self.capacity - 1 && self.all_meet(&trial, &points)? {
                return Ok(Event::Level(level));
            }
        }
        Ok(Event::End)
    }

    /// Whether sectors were stepped over before `off`.
    fn slip(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<Option<Event>, ProbeError> {
        let n = zone.sectors;
        let by = (wrap(angle - zone.predict(off)) * n as f64).round();
        let guess = if by >= 1.0 && by <= MOST_SLIPPED as f64 { by as u64 } else { 0 };
        for sectors in std::iter::once(guess).chain(1..=8).filter(|&m| m > 0 && m < n) {
            let mut trial = zone.clone();
            trial.shifts.push(Shift { lbn: off, sectors });
            if wrap(trial.predict(off) - angle).abs() >= self.tolerance {
                continue;
            }
            let (track, _) = trial.locate(off);
            let last = trial.lbn_near(track, n - 1);
            let points = [(off + last) / 2, last, last + 1, last + n / 2, last + n];
            if last + n < self.capacity && self.all_meet(&trial, &points)? {
                return Ok(Some(Event::Slip(sectors)));
            }
            // Another slip may follow soon. If the next few LBNs agree, and no track begins here, it is one.
            let few = [off + 1, off + 2, off + 3];
            if sectors <= MOST_SLIPPED_AMONG
                && off + n < self.capacity
                && self.all_meet(&trial, &few)?
                && !self.track_begins(zone, off, angle)?
            {
                return Ok(Some(Event::Slip(sectors)));
            }
        }
        Ok(None)
    }

    /// Whether `off` is the first of a whole track of the zone's density.
    fn track_begins(&mut self, zone: &Zone, off: u64, angle: f64) -> Result<bool, ProbeError> {
        let alone = Zone::new(off, zone.sectors, angle);
        self.all_meet(&alone, &[off + zone.sectors - 1, off + zone.sectors * 3 / 4])
    }

    /// A zone whose first repetition was taken for a zone of its own: a slip stood where the second was looked for.
    fn prefixed(&self, before: &Zone, zone: &Zone) -> Option<Zone> {
        let tracks = before.tracks();
        let level = zone.levels.iter().find(|l| l.unit == tracks)?;
        let whole = before.place(before.end - 1) + 1 == tracks * before.sectors;
        let turned = wrap(zone.angle - before.angle - level.advance).abs() < self.tolerance;
        if !(whole && turned && before.region == zone.region && before.alike(zone, self.tolerance)) {
            return None;
        }
        let mut joined = before.clone();
        joined.levels.clone_from(&zone.levels);
        joined.shifts.extend(&zone.shifts);
        joined.odd.extend(&zone.odd);
        joined.end = zone.end;
        Some(joined)
    }

    /// A zone that repeats the one before is the next region of the same.
    fn join(&mut self, zone: &Zone) -> Result<Option<Zone>, ProbeError> {
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
            || !before.alike(zone, self.tolerance)
        {
            return Ok(None);
        }
        let tracks = before.tracks();
        let mut joined = before.clone();
        joined.end = self.capacity;
        let spares = tracks * zone.sectors - lbns;
        joined.region = Some(Region { lbns, spares });
        joined.levels.retain(|l| l.unit < tracks);
        joined.levels.push(Level { unit: tracks, advance: wrap(zone.angle - before.angle) });
        let third = zone.end;
        let points = [third, third + lbns / 2, third + lbns - 1];
        if third + lbns < self.capacity && self.all_meet(&joined, &points)? {
            return Ok(Some(joined));
        }
        Ok(None)
    }
}
