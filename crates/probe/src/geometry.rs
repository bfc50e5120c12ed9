//! Which tracks share a cylinder, and which a surface: how long the moves between them take.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::moves::{Target, shortest_of};
use crate::turns::frac;
use crate::zone::Zone;
use model::MOST_CYLINDERS;

/// In which order LBNs run over the tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All tracks of a cylinder, heads ascending in each.
    Cylinder,
    /// All tracks of a cylinder, heads ascending and descending by turns.
    Serpentine,
    /// Runs of so many tracks on one surface, back and forth.
    Bands(u64),
}

/// The order, and the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) heads: u64,
}

impl Shape {
    /// Cylinder and head of a track counted from a zone's first.
    pub(crate) fn position(self, track: u64) -> (u64, u64) {
        let heads = self.heads.max(1);
        match self.kind {
            Kind::Cylinder => (track / heads, track % heads),
            Kind::Serpentine => {
                let (cylinder, slot) = (track / heads, track % heads);
                (cylinder, if cylinder % 2 == 0 { slot } else { heads - 1 - slot })
            }
            Kind::Bands(width) => {
                let (run, along) = (track / width, track % width);
                let (band, slot) = (run / heads, run % heads);
                let cylinder = if slot % 2 == 0 { along } else { width - 1 - along };
                (band * width + cylinder, if band % 2 == 0 { slot } else { heads - 1 - slot })
            }
        }
    }
}

impl Shape {
    /// Whether tracks of one head have one density, as far as a zone's recur.
    pub(crate) fn fits(self, zone: &Zone) -> bool {
        self.begins(zone).is_some()
    }

    /// Tracks of a zone before the first of a cylinder, or of a band: where its densities recur, and one head has one.
    pub(crate) fn begins(self, zone: &Zone) -> Option<u64> {
        let length = zone.cycle.as_ref().map_or(1, |c| c.slots.len() as u64);
        (0..length).find(|&first| self.densities_from(zone, first).is_some())
    }

    /// A track that stands in the order of tracks as a zone's first does, far enough from the beginning.
    fn origin(self, zone: &Zone) -> u64 {
        let Some(length) = zone.cycle.as_ref().map(|c| c.slots.len() as u64) else { return 0 };
        length * self.unit() - self.begins(zone).unwrap_or(0)
    }

    /// Tracks after which the order of tracks is the same again.
    fn unit(self) -> u64 {
        match self.kind {
            Kind::Cylinder => self.heads.max(1),
            Kind::Serpentine => 2 * self.heads.max(1),
            Kind::Bands(width) => 2 * self.heads.max(1) * width,
        }
    }

    fn fits_all(self, map: &Map) -> bool {
        map.zones.iter().all(|zone| self.fits(zone))
    }

    /// Sectors on the tracks of each head of a zone whose densities recur, if they are the same all over it.
    pub(crate) fn densities(self, zone: &Zone) -> Option<Vec<u64>> {
        self.densities_from(zone, 0)
    }

    /// The same, where one of its tracks is the first of a cylinder or band.
    fn densities_from(self, zone: &Zone, first: u64) -> Option<Vec<u64>> {
        let mut by_head = vec![0; self.heads.max(1) as usize];
        let Some(recurs) = zone.cycle.as_ref().map(|c| c.slots.len() as u64) else {
            return Some(vec![zone.sectors; by_head.len()]);
        };
        for track in first..(first + recurs * self.unit()).min(zone.tracks()) {
            let sectors = zone.sectors_on(track);
            let of = by_head.get_mut(self.position(track - first).1 as usize)?;
            if *of != 0 && *of != sectors {
                return None;
            }
            *of = sectors;
        }
        // A head that a short zone does not come to.
        by_head.iter_mut().filter(|n| **n == 0).for_each(|n| *n = zone.sectors);
        Some(by_head)
    }
}

/// What was found, and how sure it is.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) shape: Shape,
    /// 0 to 1, of the number of heads, and of cylinders or bands.
    pub(crate) sure: f64,
    /// 0 to 1, of all of the shape: the order of heads as well.
    pub(crate) sure_of_order: f64,
}

/// A track of the map.
pub(crate) struct OnTrack<'a> {
    pub(crate) zone: &'a Zone,
    pub(crate) track: u64,
}

impl Target for OnTrack<'_> {
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)> {
        let n = self.zone.sectors_on(self.track);
        let past = frac(angle - self.zone.track_angle(self.track)) * n as f64;
        (0..n.min(24)).find_map(|more| {
            let sector = (past.ceil() as u64 + more) % n;
            let lbn = self.zone.lbn_near(self.track, sector);
            (self.zone.locate(lbn) == (self.track, sector)).then(|| (lbn, self.zone.predict(lbn)))
        })
    }

    fn sector(&self) -> f64 {
        1.0 / self.zone.sectors_on(self.track) as f64
    }
}

/// The most heads looked for.
const MOST_HEADS: u64 = 32;

/// The widest band looked for, tracks.
const WIDEST: u64 = 600;

/// When looking for the shape ends, of the time that a probe may take.
const LONGEST: f64 = 0.72;

/// A move's time by how many tracks further its end is.
struct Moves {
    /// Tracks, ns.
    times: Vec<(u64, f64)>,
    /// The variance of one, us squared.
    variance: f64,
}

/// Finds the shape.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map, buffer: &Buffer) -> Result<Geometry, ProbeError> {
    // The largest zone has the most tracks to go by.
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else {
        return Ok(unknown());
    };
    let unit = common_unit(map, 1);
    // What recurs after more runs than a drive has heads is no band.
    let upper = common_unit(map, 2).filter(|top| unit.is_some_and(|r| top / r <= MOST_HEADS));
    let steps = steps(zone, unit);
    let moves = measure(meter, zone, &steps, buffer)?;
    let mut shapes = Vec::new();
    let kinds = |h: u64| [Kind::Cylinder, Kind::Serpentine].map(|kind| Shape { kind, heads: h });
    match (unit, upper) {
        (Some(r), Some(top)) => shapes.push(Shape { kind: Kind::Bands(r), heads: top / r }),
        (Some(r), None) => {
            if r <= MOST_HEADS {
                shapes.extend(kinds(r));
            }
            let inside = (2..=MOST_HEADS).filter(|h| r % h == 0 && r / h > 1);
            shapes.extend(inside.map(|heads| Shape { kind: Kind::Bands(r / heads), heads }));
            shapes.extend((1..=MOST_HEADS).map(|heads| Shape { kind: Kind::Bands(r), heads }));
        }
        (None, _) => {
            (1..=MOST_HEADS).for_each(|h| shapes.extend(kinds(h)));
            for width in 2..=WIDEST {
                shapes.extend((2..=MOST_HEADS).map(|heads| Shape { kind: Kind::Bands(width), heads }));
            }
        }
    }
    let fewest = fewest_heads(map.zones.iter().map(Zone::tracks).sum());
    shapes.retain(|s| s.heads >= fewest);
    if shapes.iter().any(|s| s.fits_all(map)) {
        shapes.retain(|s| s.fits_all(map));
    }
    // Among equals the first, which is the simplest.
    let mut best = (f64::MAX, Shape { kind: Kind::Cylinder, heads: fewest });
    let mut scores: Vec<(f64, Shape)> = Vec::new();
    for shape in shapes {
        let score = moves.misfit(shape, shape.origin(zone));
        scores.push((score, shape));
        if score < best.0 - 0.1 {
            best = (score, shape);
        }
    }
    let (misfit, shape) = best;
    let rival = |same: &dyn Fn(&Shape) -> bool| {
        scores.iter().filter(|(_, s)| !same(s)).map(|&(score, _)| score).fold(f64::MAX, f64::min)
    };
    let bands = |s: &Shape| match s.kind {
        Kind::Bands(width) => width,
        _ => 0,
    };
    let other = rival(&|s| bands(s) == bands(&shape) && s.heads == shape.heads);
    let order = rival(&|s| *s == shape);
    // The least of several misfits is a little too small by chance, of one shape or of the other.
    let part = if meter.is_noisy() { 0.5 } else { 1.0 };
    let sure = |rival: f64| trust(part * (rival - misfit));
    Ok(Geometry { shape, sure: sure(other), sure_of_order: sure(order) })
}

/// The fewest heads with which so many tracks are no more cylinders than a profile has, were each zone's last band or
/// cylinder half empty.
fn fewest_heads(tracks: u64) -> u64 {
    tracks.div_ceil(u64::from(MOST_CYLINDERS) / 2).max(1)
}

fn unknown() -> Geometry {
    let shape = Shape { kind: Kind::Cylinder, heads: 1 };
    Geometry { shape, sure: 0.0, sure_of_order: 0.0 }
}

/// How much likelier the better of two misfits so far apart makes one: half for equals, all but sure for a gap of ten.
fn trust(gap: f64) -> f64 {
    1.0 / (1.0 + (-0.5 * gap.max(0.0)).exp())
}

/// Tracks of a level that most LBNs' zones agree on.
fn common_unit(map: &Map, level: usize) -> Option<u64> {
    let mut votes: Vec<(u64, u64)> = Vec::new();
    for zone in &map.zones {
        let spared = zone.region.map_or(0, |r| (r.lbns + r.spares) / zone.sectors);
        // What recurs with the spares, or hardly ever, is no order of tracks.
        let order = |unit: &u64| *unit != spared && *unit <= WIDEST * MOST_HEADS;
        let unit = zone.levels.get(level).map(|l| l.unit).filter(order).unwrap_or(0);
        match votes.iter_mut().find(|(u, _)| *u == unit) {
            Some((_, lbns)) => *lbns += zone.lbns(),
            None => votes.push((unit, zone.lbns())),
        }
    }
    // A zone that is too small for a level says nothing about it.
    let total: u64 = votes.iter().map(|v| v.1).sum();
    votes.iter().filter(|v| v.0 > 0).max_by_key(|v| v.1).filter(|v| v.1 * 5 > total).map(|v| v.0)
}

/// Moves to look at, in tracks.
fn steps(zone: &Zone, unit: Option<u64>) -> Vec<u64> {
    let mut steps: Vec<u64> = match unit {
        Some(r) if r <= MOST_HEADS => {
            let mut list = vec![1, 2, r - 1, r, r + 1];
            for m in 2..=26 {
                list.extend([m * r - 1, m * r, m * r + 1]);
            }
            list
        }
        wide => {
            let fine = (1..=40).chain((44..=120).step_by(4)).chain((128..=1_400).step_by(8));
            let coarse = wide.map_or(0..0, |r| 1..14 * r).step_by(wide.map_or(1, |r| r as usize / 4));
            fine.chain(coarse).collect()
        }
    };
    steps.sort_unstable();
    steps.dedup();
    let tracks = zone.tracks();
    steps.retain(|&k| k > 0 && k < tracks);
    steps
}

/// Times the moves from tracks that begin a repetition to those `steps` further.
fn measure(meter: &mut Meter<'_>, zone: &Zone, steps: &[u64], buffer: &Buffer) -> Result<Moves, ProbeError> {
    let mut times = Vec::new();
    let searches = if meter.is_noisy() { 3 } else { 1 };
    let mut guess = (0.0, 0.35 * meter.revolution());
    for (i, &step) in steps.iter().enumerate() {
        if !meter.is_within(LONGEST) {
            break;
        }
        meter.stage("heads and cylinders", 0.65 + 0.1 * i as f64 / steps.len() as f64);
        // Only the zone's first tracks are surely the first of a cylinder or band of any size.
        let from = 0;
        let mut leg = |meter: &mut Meter<'_>| -> Result<Option<OnTrack<'_>>, ProbeError> {
            // Another sector each time, so that the buffer does not have it.
            let n = zone.sectors;
            let sector = meter.draw.below(n - n / 8);
            let source = zone.lbn_near(from, sector);
            let mut reading = meter.read(source, 1)?;
            if meter.is_hit(&reading) {
                // The arm stayed where it was.
                meter.leave(source)?;
                reading = meter.read(source, 1)?;
            }
            if meter.is_hit(&reading) {
                return Ok(None);
            }
            Ok(Some(OnTrack { zone, track: from + step }))
        };
        if let Some((ns, _)) = shortest_of(searches, meter, guess, buffer.bus_sector_ns, &mut leg)? {
            times.push((step, ns));
            guess = ((ns - 250_000.0).max(0.0), ns + 250_000.0);
        }
    }
    let variance = if meter.is_noisy() { NOISY } else { FLOOR };
    Ok(Moves { times, variance })
}

impl Moves {
    /// How badly a shape explains the times: what it leaves unexplained, and what it needs for explaining the rest
    /// (Schwarz's criterion, 1978). A shape puts moves that are as far, and to the same head or not, into one group.
    fn misfit(&self, shape: Shape, origin: u64) -> f64 {
        let start = shape.position(origin);
        let mut points: Vec<(bool, u64, f64)> = Vec::with_capacity(self.times.len());
        for &(step, ns) in &self.times {
            let (cylinder, head) = shape.position(origin + step);
            points.push((head != start.1, cylinder.abs_diff(start.0), ns / 1e3));
        }
        points.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        if self.variance > FLOOR {
            return self.misfit_of_noisy(&points);
        }
        let mut unexplained = 0.0;
        let mut groups = 0.0;
        let mut highest: f64 = 0.0;
        let mut other = false;
        for group in points.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let Some(&(to_other, cylinder, _)) = group.first() else { continue };
            let middle = group.get(group.len() / 2).map_or(0.0, |p| p.2);
            groups += 1.0;
            unexplained += group.iter().map(|p| (p.2 - middle).powi(2).min(LARGEST)).sum::<f64>();
            if to_other != other {
                (other, highest) = (to_other, 0.0);
            }
            // Longer moves take longer, mostly. Those to the next cylinder and another head may be slow.
            if !(to_other && cylinder <= 1) {
                unexplained += DENT * (highest - middle).max(0.0).powi(2).min(LARGEST);
                highest = highest.max(middle);
            }
        }
        let n = f64::max(points.len() as f64, 2.0);
        n * (unexplained / n + self.variance).ln() + groups * n.ln()
    }
}

impl Moves {
    /// The same where seeks vary: their means rise with distance, and how many steps they rise in is what a shape
    /// needs (Akaike's criterion, 1974). A change of head may cost nothing, or something over so many cylinders: a head
    /// switch runs beside the seek, and what takes longer hides it.
    fn misfit_of_noisy(&self, points: &[(bool, u64, f64)]) -> f64 {
        let shown = |most: Option<u64>| {
            let is_shown = |p: &(bool, u64, f64)| p.0 && most.is_some_and(|most| p.1 <= most);
            let mut points: Vec<_> = points.iter().map(|p| (is_shown(p), p.1, p.2)).collect();
            points.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
            self.misfit_of_rising(&points)
        };
        let most = [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(u64::MAX)];
        most.into_iter().map(shown).fold(f64::MAX, f64::min)
    }

    fn misfit_of_rising(&self, points: &[(bool, u64, f64)]) -> f64 {
        let (mut unexplained, mut steps, mut groups) = (0.0, 0.0, 0.0);
        for set in points.chunk_by(|a, b| a.0 == b.0) {
            // (sum, count, sum of squares) of distances that have one value.
            let mut pooled: Vec<(f64, f64, f64)> = Vec::new();
            let mut apart: Vec<(f64, f64, f64)> = Vec::new();
            for group in set.chunk_by(|a, b| a.1 == b.1) {
                groups += 1.0;
                let all = group.iter().fold((0.0, 0.0, 0.0), |g, p| (g.0 + p.2, g.1 + 1.0, g.2 + p.2 * p.2));
                if group.first().is_some_and(|p| p.0 && p.1 <= 1) {
                    apart.push(all);
                    continue;
                }
                pooled.push(all);
                while let [.., a, b] = pooled.as_mut_slice()
                    && a.0 / a.1 >= b.0 / b.1
                {
                    *a = (a.0 + b.0, a.1 + b.1, a.2 + b.2);
                    pooled.pop();
                }
            }
            for block in pooled.iter().chain(&apart) {
                unexplained += (block.2 - block.0 * block.0 / block.1).max(0.0);
                steps += 1.0;
            }
        }
        let n = f64::max(points.len() as f64, 2.0);
        n * (unexplained / n + self.variance).ln() + 2.0 * steps + EACH * groups
    }
}

/// What a distance more that a shape tells apart must be worth.
const EACH: f64 = 0.2;

/// Weight of a time that is shorter than that of a shorter move.
const DENT: f64 = 0.1;

/// The least variance believed, that of a search among seeks that vary, and the most that one time counts, us squared.
const FLOOR: f64 = 50.0;
const NOISY: f64 = 1_200.0;
const LARGEST: f64 = 250_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shape_has_more_cylinders_than_a_profile_may() {
        for tracks in [1, 4_000_000, 10_341_136, 50_000_000] {
            let heads = fewest_heads(tracks);
            assert!(tracks / heads < u64::from(MOST_CYLINDERS), "{tracks} tracks, {heads} heads");
        }
        assert_eq!(fewest_heads(65_350), 1);
    }
}
