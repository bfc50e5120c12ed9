//! Which tracks share a cylinder, and which a surface: how long the moves between them take.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::moves::{FINE, Target, shortest_of};
use crate::turns::{frac, median};
use crate::zone::Zone;
use model::MOST_CYLINDERS;
use std::collections::BTreeSet;

/// In which order LBNs run over the tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// All tracks of a cylinder, heads ascending in each.
    Cylinder,
    /// All tracks of a cylinder, heads ascending and descending by turns.
    Serpentine,
    /// Runs of so many tracks on one surface, back and forth.
    Bands(u64),
}

/// The order, and the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Whether densities speak for it as well as for any.
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
#[derive(Clone, Debug)]
struct Moves {
    /// Tracks, ns.
    times: Vec<(u64, f64)>,
    /// The variance of one, us squared.
    variance: f64,
    /// Whether completions and the spindle vary, too.
    noisy: bool,
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
    let mut moves = measure(meter, zone, &steps, buffer)?;
    if meter.is_noisy() && buffer.vary {
        // Commands that vary by more than seeks do.
        moves.variance = repeated(meter, zone, &moves.times, buffer)?.max(NOISY);
    }
    let mut shapes = candidates(map, unit, upper);
    if !meter.is_noisy() {
        // What was seen in exact times is so.
        let least = shapes.iter().map(|s| s.1).fold(f64::MAX, f64::min);
        shapes.retain(|s| s.1 <= least);
    }
    let mut scores = moves.scores(&shapes, zone);
    if !meter.is_noisy() {
        // How exact a search is is measured where it matters only.
        let rough = Moves { variance: NOISY, ..moves.clone() };
        if best(&rough.scores(&shapes, zone)).1 != best(&scores).1 {
            moves.variance = repeated(meter, zone, &moves.times, buffer)?.max(FLOOR);
            scores = moves.scores(&shapes, zone);
        }
    }
    // Densities that the map has seen again and again are no question of moves, which may make it unsure only.
    let fitting: Vec<(f64, Shape)> = scores.iter().copied().filter(|(_, s)| s.fits_all(map)).collect();
    let (misfit, shape) = best(if fitting.is_empty() { &scores } else { &fitting });
    let mut sure = sure_of(shape, misfit, &scores);
    if meter.is_noisy() {
        // The least of several misfits is a little too small by chance, of one shape or of the other.
        sure = sure.map(|gap| (gap / 2.0).min(moves.without_trend(shape, zone)));
        if matches!(shape.kind, Kind::Bands(_)) {
            // As wide, on other heads: groups that are larger by chance are likelier too often among few moves.
            let as_wide: Vec<(Shape, f64)> =
                shapes.iter().copied().filter(|s| s.0.kind == shape.kind).collect();
            let against = moves.against(shape, &as_wide, zone);
            sure = sure.map(|gap| gap.min(against));
        }
    } else {
        // Sure is only what is likelier whether or not single times may be wrong.
        let of = |s: Shape, first| moves.misfit(s, first, Errors::OfSome);
        let mut again: Vec<(f64, Shape)> =
            shapes.iter().map(|&(s, unlike)| (of(s, s.origin(zone)) + unlike, s)).collect();
        let misfit = again.iter().find(|a| a.1 == shape).map_or(0.0, |a| a.0);
        // Nor may there be a likelier one whose first cylinder holds a part of its tracks.
        for &(s, unlike) in shapes.iter().filter(|(s, _)| !matches!(s.kind, Kind::Bands(_))) {
            let parts = 1..if zone.cycle.is_some() { 1 } else { s.unit() };
            again.extend(parts.map(|first| (of(s, first) + unlike, s)));
        }
        let other = sure_of(shape, misfit, &again);
        let against = moves.against(shape, &shapes, zone);
        sure = [0, 1].map(|i| sure[i].min(other[i]).min(against));
    }
    let [sure, sure_of_order] = sure.map(trust);
    Ok(Geometry { shape, sure, sure_of_order })
}

/// The shapes that a drive may have on which skews recur after `unit` tracks, and again after `upper`, the simplest first; and what
/// speaks against each before a move was timed.
fn candidates(map: &Map, unit: Option<u64>, upper: Option<u64>) -> Vec<(Shape, f64)> {
    let kinds = |h: u64| [Kind::Cylinder, Kind::Serpentine].map(|kind| Shape { kind, heads: h });
    let bands = |width: u64, heads: u64| Shape { kind: Kind::Bands(width), heads };
    let mut shapes: Vec<(Shape, f64)> = Vec::new();
    if let (Some(r), Some(top)) = (unit, upper) {
        shapes.push((bands(r, top / r), 0.0));
    }
    let unlike = if shapes.is_empty() { 0.0 } else { UNLIKE };
    if let Some(r) = unit {
        if r <= MOST_HEADS {
            shapes.extend(kinds(r).map(|s| (s, unlike)));
        }
        let inside = (2..=MOST_HEADS).filter(|h| r % h == 0 && r / h > 1);
        shapes.extend(inside.map(|heads| (bands(r / heads, heads), unlike)));
        shapes.extend((1..=MOST_HEADS).map(|heads| (bands(r, heads), unlike)));
    }
    // What seemed to recur may have been chance.
    let unlike = if unit.is_some() { unlike + UNLIKE } else { unlike };
    (1..=MOST_HEADS).for_each(|h| shapes.extend(kinds(h).map(|s| (s, unlike))));
    for width in 2..=WIDEST {
        shapes.extend((2..=MOST_HEADS).map(|heads| (bands(width, heads), unlike)));
    }
    let mut seen = BTreeSet::new();
    shapes.retain(|(s, _)| seen.insert(*s));
    let fewest = fewest_heads(map.zones.iter().map(Zone::tracks).sum());
    shapes.retain(|(s, _)| s.heads >= fewest);
    // Only where densities speak for one of those that skews speak for.
    let least = shapes.iter().map(|s| s.1).fold(f64::MAX, f64::min);
    if shapes.iter().any(|(s, unlike)| *unlike <= least && s.fits_all(map)) {
        for (shape, unlike) in &mut shapes {
            *unlike += if shape.fits_all(map) { 0.0 } else { 2.0 * UNLIKE };
        }
    }
    if shapes.is_empty() {
        shapes.push((Shape { kind: Kind::Cylinder, heads: fewest }, 0.0));
    }
    shapes
}

/// The shape that explains most, and what it leaves; among equals the first, which is the simplest.
fn best(scores: &[(f64, Shape)]) -> (f64, Shape) {
    let none = (f64::MAX, Shape { kind: Kind::Cylinder, heads: 1 });
    scores.iter().fold(none, |best, &score| if score.0 < best.0 - 0.1 { score } else { best })
}

/// By how much the next likely shape explains less: one of another number of heads or other bands; any other one.
fn sure_of(shape: Shape, misfit: f64, scores: &[(f64, Shape)]) -> [f64; 2] {
    let gap = |same: &dyn Fn(&Shape) -> bool| {
        let rivals = scores.iter().filter(|(_, s)| !same(s));
        rivals.map(|&(score, _)| score).fold(f64::MAX, f64::min) - misfit
    };
    let bands = |s: &Shape| match s.kind {
        Kind::Bands(width) => width,
        _ => 0,
    };
    [gap(&|s| bands(s) == bands(&shape) && s.heads == shape.heads), gap(&|s| *s == shape)]
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
    1.0 / (1.0 + (-0.5 * gap).exp())
}

/// What times may be off by that a shape does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errors {
    /// All by about as much, however much that is.
    OfASize,
    /// Few by anything, all others by what a search is not exact.
    OfSome,
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
        if let Some(ns) = timed(meter, zone, step, (searches, guess), buffer)? {
            times.push((step, ns));
            guess = around(ns);
        }
    }
    let variance = if meter.is_noisy() { NOISY } else { FLOOR };
    Ok(Moves { times, variance, noisy: meter.is_noisy() })
}

/// Where a search begins for a move that takes about so long, ns.
fn around(ns: f64) -> (f64, f64) {
    ((ns - 250_000.0).max(0.0), ns + 250_000.0)
}

/// The move from the zone's first track, by so many searches between these times, ns.
fn timed(
    meter: &mut Meter<'_>,
    zone: &Zone,
    step: u64,
    (searches, guess): (usize, (f64, f64)),
    buffer: &Buffer,
) -> Result<Option<f64>, ProbeError> {
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
    Ok(shortest_of(searches, meter, guess, buffer.bus_sector_ns, &mut leg)?.map(|(ns, _)| ns))
}

/// The variance of a search, us squared, by some moves that are timed once more: by the median, so that one that went wrong does
/// not matter.
fn repeated(
    meter: &mut Meter<'_>,
    zone: &Zone,
    times: &[(u64, f64)],
    buffer: &Buffer,
) -> Result<f64, ProbeError> {
    // What is read afterwards is what would be read without, too.
    let dice = meter.draw.clone();
    let mut apart = Vec::new();
    for &(step, ns) in times.iter().step_by((times.len() / REPEATS).max(1)) {
        if !meter.is_within(LONGEST) {
            break;
        }
        let again = timed(meter, zone, step, (1, around(ns)), buffer)?;
        apart.extend(again.map(|again| (again - ns).abs() / 1e3));
    }
    meter.draw = dice;
    // Of normal differences the median is two thirds of their deviation, which is that of two searches.
    Ok((median(&mut apart) / 0.6745).powi(2) / 2.0)
}

impl Moves {
    /// How badly each shape explains the times.
    fn scores(&self, shapes: &[(Shape, f64)], zone: &Zone) -> Vec<(f64, Shape)> {
        let score = |s: Shape| self.misfit(s, s.origin(zone), Errors::OfASize);
        shapes.iter().map(|&(s, unlike)| (score(s) + unlike, s)).collect()
    }

    /// What the first moves alone say against a shape, by how much another one explains them better: a track that holds no LBN, or
    /// a band that is narrower, puts all behind it elsewhere. Nothing, where it is no more than a dent.
    fn against(&self, shape: Shape, shapes: &[(Shape, f64)], zone: &Zone) -> f64 {
        let of = |quarters: usize| {
            let times = self.times.get(..self.times.len() * quarters / 4).unwrap_or_default().to_vec();
            let first = Self { times, ..self.clone() };
            let scores = first.scores(shapes, zone);
            let own = scores.iter().find(|score| score.1 == shape).map_or(0.0, |score| score.0);
            let gap = best(&scores).0 - own;
            if -gap > 2.0 * (first.times.len().max(2) as f64).ln() { gap } else { f64::MAX }
        };
        (1..4).map(of).fold(f64::MAX, f64::min)
    }

    /// How badly a shape explains the times: what it leaves unexplained, and what it needs for explaining the rest
    /// (Schwarz's criterion, 1978). A shape puts moves that are as far, and to the same head or not, into one group; each group
    /// is a number that it needs, and each time that is shorter than that of a shorter move one more.
    fn misfit(&self, shape: Shape, origin: u64, errors: Errors) -> f64 {
        let points = self.points(shape, origin);
        if self.noisy {
            return self.misfit_of_noisy(&points);
        }
        // How a move to another head comes about is a part of the explanation.
        f64::min(self.misfit_of_exact(&points, false, errors), self.misfit_of_exact(&points, true, errors))
    }

    /// Whether each move is to another head, over how many cylinders, and its time, us; moves that are one to a shape together.
    fn points(&self, shape: Shape, origin: u64) -> Vec<(bool, u64, f64)> {
        let start = shape.position(origin);
        let mut points: Vec<(bool, u64, f64)> = Vec::with_capacity(self.times.len());
        for &(step, ns) in &self.times {
            let (cylinder, head) = shape.position(origin + step);
            points.push((head != start.1, cylinder.abs_diff(start.0), ns / 1e3));
        }
        points.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        points
    }

    /// The same where seeks do not vary. Where a head switch runs `beside` the seek, a move to another head takes as long as
    /// that to the same one or as the switch, whichever is longer.
    fn misfit_of_exact(&self, points: &[(bool, u64, f64)], beside: bool, errors: Errors) -> f64 {
        let n = f64::max(points.len() as f64, 2.0);
        let apart = APART * self.variance.sqrt();
        let (mut unexplained, mut strange, mut groups, mut dents) = (0.0, 0.0, 0.0, 0.0);
        let mut last: Option<(bool, f64)> = None;
        let mut same_head: Vec<(u64, f64)> = Vec::new();
        let mut switch = None;
        for group in points.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let Some(&(to_other, cylinders, _)) = group.first() else { continue };
            let middle = group.get(group.len() / 2).map_or(0.0, |p| p.2);
            let same = same_head.binary_search_by_key(&cylinders, |s| s.0).ok();
            let same = same.and_then(|i| same_head.get(i)).map(|s| s.1).filter(|_| to_other);
            let known = match (same, switch) {
                // Those to the next cylinder and another head may be slow.
                (Some(same), Some(switch)) if beside && cylinders > 1 => Some(f64::max(same, switch)),
                _ => None,
            };
            for point in group {
                let off = (point.2 - known.unwrap_or(middle)).powi(2);
                unexplained += off.min(LARGEST);
                strange += (off / self.variance).min(STRANGE * n.ln());
            }
            if known.is_some() {
                continue;
            }
            groups += 1.0;
            if !to_other {
                same_head.push((cylinders, middle));
            } else if cylinders == 0 {
                switch = Some(middle);
            }
            // No head switch makes a move shorter.
            dents += f64::from(u8::from(same.is_some_and(|same| middle < same - apart)));
            // Longer moves take longer, mostly.
            if !(to_other && cylinders <= 1) {
                dents += f64::from(u8::from(last.is_some_and(|l| l.0 == to_other && middle < l.1 - apart)));
                last = Some((to_other, middle));
            }
        }
        let unexplained = match errors {
            Errors::OfASize => n * (unexplained / n + self.variance).ln(),
            Errors::OfSome => strange,
        };
        unexplained + (groups + dents) * n.ln()
    }
}

impl Moves {
    /// The same where seeks vary: their means rise with distance, and how many steps they rise in is what a shape
    /// needs (Akaike's criterion, 1974). A change of head may cost nothing, or something over so many cylinders: a head
    /// switch runs beside the seek, and what takes longer hides it.
    fn misfit_of_noisy(&self, points: &[(bool, u64, f64)]) -> f64 {
        CHANGES.into_iter().map(|most| self.misfit_shown(points, most)).fold(f64::MAX, f64::min)
    }

    /// The same where a change of head costs something over so many cylinders at most.
    fn misfit_shown(&self, points: &[(bool, u64, f64)], most: Option<u64>) -> f64 {
        let is_shown = |p: &(bool, u64, f64)| p.0 && most.is_some_and(|most| p.1 <= most);
        let mut points: Vec<_> = points.iter().map(|p| (is_shown(p), p.1, p.2)).collect();
        points.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        self.misfit_of_rising(&points)
    }

    /// What speaks for a cylinder's tracks being equally far, against times that rise from one to the next of them: more than
    /// nothing, unless they do by more than two standard deviations. Moves over which a change of head shows are left out.
    fn without_trend(&self, shape: Shape, zone: &Zone) -> f64 {
        let origin = shape.origin(zone);
        let start = shape.position(origin);
        let most =
            CHANGES.into_iter().map(|most| (self.misfit_shown(&self.points(shape, origin), most), most));
        let most = most.min_by(|a, b| a.0.total_cmp(&b.0)).and_then(|best| best.1).unwrap_or(0);
        if matches!(shape.kind, Kind::Bands(_)) {
            return f64::MAX;
        }
        let mut points: Vec<(u64, f64, f64)> = Vec::with_capacity(self.times.len());
        for &(step, ns) in &self.times {
            let (cylinder, _) = shape.position(origin + step);
            points.push((cylinder.abs_diff(start.0), step as f64, ns / 1e3));
        }
        points.retain(|p| p.0 > most);
        points.sort_unstable_by_key(|p| p.0);
        let (mut together, mut squares) = (0.0, 0.0);
        for group in points.chunk_by(|a, b| a.0 == b.0) {
            let n = group.len() as f64;
            let step = group.iter().map(|p| p.1).sum::<f64>() / n;
            let us = group.iter().map(|p| p.2).sum::<f64>() / n;
            together += group.iter().map(|p| (p.1 - step) * (p.2 - us)).sum::<f64>();
            squares += group.iter().map(|p| (p.1 - step).powi(2)).sum::<f64>();
        }
        let deviations = together / f64::max(squares * self.variance, f64::MIN_POSITIVE).sqrt();
        if deviations > 2.0 { 2.0 - deviations * deviations / 2.0 } else { f64::MAX }
    }

    fn misfit_of_rising(&self, points: &[(bool, u64, f64)]) -> f64 {
        let (mut unexplained, mut steps, mut groups, mut dents) = (0.0, 0.0, 0.0, 0.0);
        let far = APART * self.variance.sqrt();
        let mut same_head: Vec<(u64, f64)> = Vec::new();
        for set in points.chunk_by(|a, b| a.0 == b.0) {
            // (sum, count, sum of squares) of distances that have one value.
            let mut pooled: Vec<(f64, f64, f64)> = Vec::new();
            let mut apart: Vec<(f64, f64, f64)> = Vec::new();
            // Those before a dent stay what they are.
            let mut fixed = 0;
            for group in set.chunk_by(|a, b| a.1 == b.1) {
                groups += 1.0;
                let all = group.iter().fold((0.0, 0.0, 0.0), |g, p| (g.0 + p.2, g.1 + 1.0, g.2 + p.2 * p.2));
                let Some(&(to_other, cylinders, _)) = group.first() else { continue };
                let mean = all.0 / all.1;
                if to_other {
                    // No head switch makes a move shorter.
                    let same = same_head.binary_search_by_key(&cylinders, |s| s.0).ok();
                    let same = same.and_then(|i| same_head.get(i));
                    dents += f64::from(u8::from(same.is_some_and(|same| mean < same.1 - far)));
                } else {
                    same_head.push((cylinders, mean));
                }
                if to_other && cylinders <= 1 {
                    apart.push(all);
                    continue;
                }
                if pooled.last().is_some_and(|last| mean < last.0 / last.1 - far) {
                    dents += 1.0;
                    fixed = pooled.len();
                }
                pooled.push(all);
                while let Some([.., a, b]) = pooled.get_mut(fixed..)
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
        n * (unexplained / n + self.variance).ln() + 2.0 * steps + EACH * groups + dents * n.ln()
    }
}

/// Over how many cylinders a change of head shows, at most: nowhere, or so far.
const CHANGES: [Option<u64>; 7] = [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(u64::MAX)];

/// What moves must say for a shape that the map speaks against: that skews recur with its cylinders or bands, or that densities go
/// with its heads.
const UNLIKE: f64 = 20.0;

/// What a distance more that a shape tells apart must be worth.
const EACH: f64 = 0.2;

/// Moves that are timed once more.
const REPEATS: usize = 12;

/// Times that are no further apart, in deviations, may be one.
const APART: f64 = 4.0;

/// What a time that nothing explains counts, at most, of what a group counts: there is one, which, and how far off it is.
const STRANGE: f64 = 3.0;

/// The variance of a search where seeks do not vary: it stops when what is left is `FINE` wide, and the time is as likely to be
/// anywhere in that. That of one among seeks that vary, and the most that one time counts. us squared.
const FLOOR: f64 = FINE * FINE / 12e6;
const NOISY: f64 = 250.0;
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
