//! Zones on one surface each: LBNs fill the zones of one surface after those of another, or all zones by falling
//! density.
//!
//! Such a zone has one track on each of its cylinders, and the next zone by LBN may begin on any cylinder. Moves inside
//! the largest zone give the time of each distance in cylinders. Moves from LBN 0 to each zone give the order of zones
//! from the rim inward. In that order, moves between a zone and one whose place is known give its first cylinder; zones
//! that share cylinders are on different surfaces.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::geometry::{Geometry, common_unit};
use crate::layout;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::moves::resolution;
use crate::shape::{HEADS_MAX, Kind, Shape};
use crate::steps::{OnTrack, around, timed};
use crate::sure;
use crate::zone::Zone;
use model::profile::LayoutSpec;
use std::ops::Range;

/// The share of the probe's time limit at which this measurement ends.
const TIME_SHARE_MAX: f64 = 0.72;

/// The fewest tracks of a zone that is placed by moves; a shorter zone is assumed to continue the previous one.
const ZONE_TRACKS_MIN: u64 = 64;

/// The number of boundaries between consecutive zones over which moves are timed, to show whether these zones are far
/// apart.
const BOUNDARIES: usize = 6;

/// The factor from one measured distance to the next: between them the time is linear in the square root of the
/// distance.
const CURVE_FACTOR: f64 = 1.4;

/// The longest move from LBN 0, in revolutions.
const MOVE_REVOLUTIONS_MAX: f64 = 3.0;

/// The shortest of the moves that place a zone, in cylinders, and the most of these moves.
const PLACING_CYLINDERS_MIN: u32 = 16;
const PLACING_MOVES_MAX: usize = 8;

/// The tolerance of a zone's first cylinder, in standard deviations of a time.
const PLACE_DEVIATIONS: f64 = 3.0;

/// The error of a cylinder estimated by the time of a move from LBN 0, as a share of its distance from the nearest
/// cylinder with such a time.
const EXTRAPOLATED_ERROR_SHARE: f64 = 0.2;

/// The largest error of a zone's place, as a share of the zone: zones on one surface may seem to overlap by this much.
const PLACE_ERROR_SHARE_MAX: f64 = 0.05;

/// If the places of a smaller share of zones agree, the zones are not assumed to be on one surface each.
const PLACED_SHARE_MIN: f64 = 0.8;

/// Consecutive zones that are placed as one: a large zone, and short zones beside it.
#[derive(Clone, Debug)]
struct Part {
    /// The indices of the map's zones.
    zones: Range<usize>,
    /// The index of the large zone.
    main: usize,
    /// The number of tracks before the large zone, and that of all tracks.
    before: u64,
    tracks: u64,
    /// The cylinder of the large zone's first track, and the tolerance of that cylinder.
    at: f64,
    within: f64,
}

/// The places of a map's zones on the drive's surfaces.
pub(crate) struct Surfaces {
    /// The first cylinder and the surface of each zone.
    places: Vec<(u32, u16)>,
    heads: u64,
    sure: f64,
}

/// Finds the places of zones if each is on one surface; `None` if zones follow one another on all surfaces, or no
/// places were found.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    map: &Map,
    buffer: &Buffer,
) -> Result<Option<Surfaces>, ProbeError> {
    let is_plain = map.zones.iter().all(|zone| zone.cycle.is_none() && zone.region.is_none());
    let parts = parts(map);
    // If commands vary by more than seeks do, a single move does not show its distance.
    let varies = meter.is_noisy() && buffer.vary;
    if !is_plain
        || varies
        || map.mapped < meter.capacity()
        || parts.len() < 4
        || common_unit(map, 1).is_some()
    {
        return Ok(None);
    }
    // If no places are found, later reads draw the same random numbers as without this measurement.
    let dice = meter.draw.clone();
    let mut finder = Finder { meter, map, buffer, curve: Curve::default(), from_rim: Vec::new() };
    let found = if finder.are_apart(&parts)? { finder.run(parts)? } else { None };
    if found.is_none() {
        meter.draw = dice;
    }
    Ok(found)
}

/// Returns the large zones, each with the short zones behind it, and the first also with those before it.
fn parts(map: &Map) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut before = 0;
    for (i, zone) in map.zones.iter().enumerate() {
        let tracks = zone.tracks();
        match parts.last_mut() {
            Some(last) if tracks < ZONE_TRACKS_MIN => {
                last.zones.end = i + 1;
                last.tracks += tracks;
            }
            None if tracks < ZONE_TRACKS_MIN => before += tracks,
            last => {
                let first = last.map_or(0, |last| last.zones.end);
                let tracks = before + tracks;
                parts.push(Part { zones: first..i + 1, main: i, before, tracks, at: 0.0, within: 0.0 });
                before = 0;
            }
        }
    }
    parts
}

struct Finder<'m, 'a> {
    meter: &'m mut Meter<'a>,
    map: &'m Map,
    buffer: &'m Buffer,
    curve: Curve,
    /// The times of moves from LBN 0, ns, by cylinder.
    from_rim: Vec<(f64, f64)>,
}

impl<'m> Finder<'m, '_> {
    fn zone(&self, part: &Part) -> Option<&'m Zone> {
        self.map.zones.get(part.main)
    }

    fn deviation(&self) -> f64 {
        resolution(self.meter)
    }

    fn is_within_time(&mut self, done: f64) -> bool {
        self.meter.stage("heads and cylinders", 0.65 + 0.1 * done);
        self.meter.is_within(TIME_SHARE_MAX)
    }

    /// Times a move from a track of one zone to that of another, ns.
    fn time(
        &mut self,
        (from, from_track): (&Zone, u64),
        (zone, track): (&Zone, u64),
        range: Range<f64>,
    ) -> Result<Option<f64>, ProbeError> {
        let searches = if self.meter.is_noisy() { 3 } else { 1 };
        let from = OnTrack { zone: from, track: from_track };
        let found = timed(self.meter, from, OnTrack { zone, track }, (searches, range), self.buffer)?;
        Ok(found.map(|found| found.ns))
    }

    /// Returns whether moves over at least half of the first boundaries take longer than moves over a quarter of a zone
    /// beside them: zones that are consecutive by LBN are then not neighbours.
    fn are_apart(&mut self, parts: &[Part]) -> Result<bool, ProbeError> {
        let (mut apart, mut seen) = (0, 0);
        for two in parts.windows(2).take(BOUNDARIES) {
            let [a, b] = two else { continue };
            let (Some(a), Some(b)) = (self.zone(a), self.zone(b)) else { continue };
            let (end, quarter) = (a.tracks() - 1, a.tracks().min(b.tracks()) / 4);
            let anywhere = 0.0..MOVE_REVOLUTIONS_MAX * self.meter.revolution();
            let inside = self.time((a, end - quarter), (a, end), anywhere.clone())?;
            let over = self.time((a, end), (b, 0), anywhere)?;
            seen += 1;
            apart += usize::from(matches!((inside, over), (Some(inside), Some(over))
                if over > inside + 2.0 * self.deviation()));
            if 2 * (apart + BOUNDARIES - seen) < BOUNDARIES {
                return Ok(false);
            }
        }
        Ok(seen > 0 && 2 * apart >= seen)
    }

    fn run(&mut self, mut parts: Vec<Part>) -> Result<Option<Surfaces>, ProbeError> {
        if !self.measure_curve(&parts)? {
            return Ok(None);
        }
        let (Some(rim), anywhere) = (
            parts.first().and_then(|part| self.zone(part)),
            0.0..MOVE_REVOLUTIONS_MAX * self.meter.revolution(),
        ) else {
            return Ok(None);
        };
        // The order of the zones from the rim inward.
        let mut order: Vec<(f64, usize)> = vec![(0.0, 0)];
        for (i, part) in parts.iter().enumerate().skip(1) {
            if !self.is_within_time(0.3 * i as f64 / parts.len() as f64) {
                return Ok(None);
            }
            let Some(zone) = self.zone(part) else { return Ok(None) };
            let Some(ns) = self.time((rim, 0), (zone, 0), anywhere.clone())? else { return Ok(None) };
            order.push((ns, i));
        }
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut placed: Vec<usize> = Vec::new();
        let mut agree = 0;
        for (k, &(ns, i)) in order.iter().enumerate() {
            if !self.is_within_time(0.3 + 0.7 * k as f64 / order.len() as f64) {
                return Ok(None);
            }
            let Some(mut part) = parts.get(i).cloned() else { continue };
            if placed.is_empty() {
                part.at = part.before as f64;
            } else {
                (part.at, part.within) = self.guess(ns);
                let known: Vec<&Part> = placed.iter().filter_map(|&p| parts.get(p)).collect();
                agree += u64::from(self.place(&mut part, &known)?);
            }
            // The time of a move from LBN 0 to this zone's end helps to place the next zone.
            let zone = self.zone(&part);
            let end = part.at + zone.map_or(0, Zone::tracks) as f64 - 1.0;
            if k > 0 {
                self.rim_takes(part.at, ns);
            }
            if let Some(zone) = zone
                && self.from_rim.last().is_none_or(|last| last.0 < end)
                && let Some(ns) = self.time((rim, 0), (zone, zone.tracks() - 1), anywhere.clone())?
            {
                self.rim_takes(end, ns);
            }
            if let Some(old) = parts.get_mut(i) {
                *old = part;
            }
            placed.push(i);
        }
        let sure = sure::next(agree, placed.len() as u64 - 1);
        Ok(if sure < PLACED_SHARE_MIN { None } else { on_surfaces(self.map, parts, sure) })
    }

    /// Measures the times of moves inside the zone with the most tracks; returns whether there are enough times for a
    /// curve.
    fn measure_curve(&mut self, parts: &[Part]) -> Result<bool, ProbeError> {
        let zones = parts.iter().filter_map(|part| self.zone(part));
        let Some(zone) = zones.max_by_key(|zone| zone.tracks()) else { return Ok(false) };
        let (mut distance, mut range) = (1, 0.0..self.meter.revolution());
        while distance < zone.tracks() && self.is_within_time(0.0) {
            if let Some(ns) = self.time((zone, 0), (zone, distance), range.clone())? {
                self.curve.add(distance as f64, ns);
                range = around(ns);
            }
            distance = (distance as f64 * CURVE_FACTOR).ceil() as u64;
        }
        Ok(self.curve.points.len() > 4)
    }

    fn rim_takes(&mut self, cylinder: f64, ns: f64) {
        let after = self.from_rim.partition_point(|point| point.0 < cylinder);
        self.from_rim.insert(after, (cylinder, ns));
    }

    /// Returns the cylinder to which a move from LBN 0 takes `ns`, and the tolerance of that cylinder.
    fn guess(&self, ns: f64) -> (f64, f64) {
        let points = &self.from_rim;
        let after =
            points.partition_point(|point| point.1 < ns).clamp(1, points.len().saturating_sub(1).max(1));
        // Points that are nearer to each other than their errors give no slope.
        let apart = 8.0 * self.deviation();
        let begin = (0.0, self.curve.points.first().map_or(0.0, |first| first.1));
        let below = points.iter().take(after).rev().find(|point| point.1 < ns - apart).unwrap_or(&begin);
        let above = points.iter().skip(after).find(|point| point.1 > below.1 + apart).or(points.last());
        let Some(above) = above.filter(|above| above.1 > below.1 && above.0 > below.0) else {
            return (below.0, self.curve.longest());
        };
        let slope = (above.0 - below.0) / (above.1 - below.1);
        let at = below.0 + slope * (ns - below.1);
        let beyond = (at - above.0).max(0.0);
        let bend = EXTRAPOLATED_ERROR_SHARE * (beyond + f64::min(at - below.0, (above.0 - at).max(0.0)));
        (at.max(0.0), bend + PLACE_DEVIATIONS * slope * self.deviation())
    }

    /// Finds the first cylinder of a zone by moves to and from zones whose cylinders are known; returns whether two
    /// moves agree on it.
    fn place(&mut self, part: &mut Part, known: &[&Part]) -> Result<bool, ProbeError> {
        let mut finest = false;
        for k in 0..PLACING_MOVES_MAX {
            let distance = (1.5 * part.within).max(f64::from(PLACING_CYLINDERS_MIN));
            let inward = k % 2 == 0;
            let of = |inward| {
                known
                    .iter()
                    .filter_map(|from| TrackPair::of(from, part, distance, inward, self.map))
                    .min_by(|a, b| a.cylinders.total_cmp(&b.cylinders))
            };
            let Some(pair) =
                of(inward).filter(|pair| pair.cylinders < 4.0 * distance).or_else(|| of(!inward))
            else {
                return Ok(false);
            };
            let anywhere = around(self.curve.time(pair.cylinders));
            let Some(ns) = self.time(pair.from, pair.to, anywhere)? else { return Ok(false) };
            let cylinders = self.curve.cylinders(ns);
            let off = if pair.inward { cylinders - pair.cylinders } else { pair.cylinders - cylinders };
            let slope = self.curve.slope(f64::max(cylinders, distance));
            let within = (PLACE_DEVIATIONS * self.deviation() / slope).max(1.0);
            if finest && off.abs() <= 2.0 * within {
                part.at += off / 2.0;
                part.within = within;
                // If times hardly depend on the distance, any two moves agree, so their agreement does not count.
                return Ok(within <= PLACE_ERROR_SHARE_MAX * part.tracks as f64);
            }
            part.at += off;
            finest = distance <= f64::from(2 * PLACING_CYLINDERS_MIN) || within >= 0.7 * part.within;
            // If the measured cylinder is far from the assumed one, the next move is longer.
            part.within = if off.abs() > 2.0 * part.within { 2.0 * off.abs() } else { within };
            part.within = part.within.min(self.curve.longest() / 2.0);
        }
        Ok(false)
    }
}

/// Two tracks of different zones: a move between them places the second zone.
struct TrackPair<'z> {
    from: (&'z Zone, u64),
    to: (&'z Zone, u64),
    cylinders: f64,
    /// Whether the second track is farther inward than the first.
    inward: bool,
}

impl<'z> TrackPair<'z> {
    /// Returns two tracks whose distance is nearest to `distance` cylinders, but not shorter.
    fn of(from: &Part, to: &Part, distance: f64, inward: bool, map: &'z Map) -> Option<Self> {
        let (source, target) = (map.zones.get(from.main)?, map.zones.get(to.main)?);
        let (of, last) = (source.tracks() as f64 - 1.0, target.tracks() as f64 - 1.0);
        // The distance between the first tracks of the zones, in cylinders.
        let apart = to.at - from.at;
        let signed = if inward { distance } else { -distance };
        // The second track is in the middle of those with a track of the first zone at this distance; if there are
        // none, it is the nearest to that.
        let low = f64::max(0.0, signed - apart);
        let high = f64::min(last, of + signed - apart);
        let b = (if low <= high {
            f64::midpoint(low, high)
        } else if inward {
            low
        } else {
            high
        })
        .clamp(0.0, last)
        .round();
        let a = (apart + b - signed).clamp(0.0, of).round();
        let cylinders = if inward { apart + b - a } else { a - apart - b };
        (cylinders >= distance - 1.0).then_some(Self {
            from: (source, a as u64),
            to: (target, b as u64),
            cylinders,
            inward,
        })
    }
}

/// The times of moves by distance in cylinders.
#[derive(Default)]
struct Curve {
    /// Distances in cylinders and times in ns, both ascending.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Adds the time of a longer distance; a time that is not longer than the previous one is raised.
    fn add(&mut self, cylinders: f64, ns: f64) {
        let least = self.points.last().map_or(0.0, |last| last.1 + 1.0);
        self.points.push((cylinders, ns.max(least)));
    }

    fn longest(&self) -> f64 {
        self.points.last().map_or(1.0, |last| last.0)
    }

    /// Returns the two points around an index in the list.
    fn around(&self, after: usize) -> Option<((f64, f64), (f64, f64))> {
        let after = after.clamp(1, self.points.len().checked_sub(1)?);
        Some((*self.points.get(after - 1)?, *self.points.get(after)?))
    }

    /// Returns the time of a move over `cylinders`, interpolated, ns.
    fn time(&self, cylinders: f64) -> f64 {
        let Some((a, b)) = self.around(self.points.partition_point(|point| point.0 < cylinders)) else {
            return 0.0;
        };
        let part = (cylinders.max(0.0).sqrt() - a.0.sqrt()) / (b.0.sqrt() - a.0.sqrt());
        a.1 + part * (b.1 - a.1)
    }

    /// Returns the distance of a move that takes `ns`, interpolated, in cylinders.
    fn cylinders(&self, ns: f64) -> f64 {
        let Some((a, b)) = self.around(self.points.partition_point(|point| point.1 < ns)) else { return 0.0 };
        let part = (ns - a.1) / (b.1 - a.1);
        (a.0.sqrt() + part * (b.0.sqrt() - a.0.sqrt())).max(0.0).powi(2)
    }

    /// Returns the additional time of one more cylinder at a distance, ns.
    fn slope(&self, cylinders: f64) -> f64 {
        let (near, far) = (cylinders / 1.5, cylinders * 1.5);
        ((self.time(far) - self.time(near)) / (far - near)).max(1e-3)
    }
}

/// Places the parts on as few surfaces as hold them, from the rim inward; `None` if there are more surfaces than a
/// drive has.
fn on_surfaces(map: &Map, mut parts: Vec<Part>, sure: f64) -> Option<Surfaces> {
    parts.iter_mut().for_each(|part| part.at -= part.before as f64);
    parts.sort_by(|a, b| a.at.total_cmp(&b.at));
    // The cylinder behind the last zone of each surface.
    let mut ends: Vec<u64> = Vec::new();
    let mut places = vec![(0, 0); map.zones.len()];
    for part in &parts {
        let near = f64::max(2.0 * part.within, PLACE_ERROR_SHARE_MAX * part.tracks as f64);
        let gap = |end: u64| part.at - end as f64;
        let free = (0..ends.len()).filter(|&s| ends.get(s).is_some_and(|&end| gap(end) >= -near));
        let nearest = free.min_by(|&a, &b| {
            let gap = |s: usize| ends.get(s).map_or(f64::MAX, |&end| gap(end).abs());
            gap(a).total_cmp(&gap(b))
        });
        let surface = nearest.unwrap_or_else(|| {
            ends.push(0);
            ends.len() - 1
        });
        let end = ends.get_mut(surface)?;
        let at = part.at.max(0.0).round() as u64;
        // If a part begins near the end of the last zone on its surface, it is assumed to begin exactly there.
        let mut first = if (part.at - *end as f64).abs() <= near { *end } else { at };
        for i in part.zones.clone() {
            *places.get_mut(i)? = (u32::try_from(first).ok()?, surface as u16);
            first += map.zones.get(i)?.tracks();
        }
        *end = first;
    }
    let heads = ends.len() as u64;
    (heads <= HEADS_MAX).then_some(Surfaces { places, heads, sure })
}

impl Surfaces {
    pub(crate) fn geometry(&self) -> Geometry {
        let shape = Shape { kind: Kind::ByZone, heads: self.heads };
        Geometry { shape, sure: self.sure, sure_of_order: self.sure }
    }

    /// Returns the number of cylinders and the layout; the arguments are those of [`layout::assemble`].
    pub(crate) fn assemble(&self, map: &Map, bus_revolutions: f64, loose: f64) -> (u32, LayoutSpec) {
        let one = Shape { kind: Kind::Cylinder, heads: 1 };
        let mut all: Option<(u32, LayoutSpec)> = None;
        for (zone, &(first, surface)) in map.zones.iter().zip(&self.places) {
            let mut zone = zone.clone();
            zone.shift_to_zero();
            let alone = Map { mapped: zone.end, measured: 0, zones: vec![zone] };
            let (cylinders, mut spec) = layout::assemble(&alone, one, bus_revolutions, loose);
            for zone in &mut spec.zones {
                zone.first_cylinder += first;
                zone.last_cylinder += first;
                zone.surfaces = vec![surface];
            }
            match &mut all {
                Some((end, all)) => {
                    *end = (*end).max(first + cylinders);
                    all.zones.extend(spec.zones);
                }
                None => all = Some((first + cylinders, spec)),
            }
        }
        all.unwrap_or_else(|| layout::assemble(map, one, bus_revolutions, loose))
    }
}
