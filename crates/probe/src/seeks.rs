//! The seek curve, the head switch and the command overhead, from the shortest moves that still catch a sector.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::{SearchedTime, Target, shortest_of, trial};
use crate::revolutions::frac;
use crate::spread;
use crate::sure::{self, Measured};
use model::{Layout, Location};
use std::ops::Range;
use units::{Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// A measured move of the arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeekPoint {
    /// The distance of the move, in cylinders.
    pub(crate) distance: u32,
    /// The time of the move: in ns with the command overhead while the curve is measured; in ms without the overhead in
    /// the findings.
    pub(crate) time: f64,
    /// The mean distance of the searches' results from `time`, in the same unit.
    pub(crate) spread: f64,
}

impl SeekPoint {
    fn of(distance: u32, found: SearchedTime) -> Self {
        Self { distance, time: found.ns, spread: found.apart_ns }
    }
}

/// The findings about the arm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seeks {
    /// The seek times and their spreads, in ms without the command overhead.
    pub(crate) curve: Vec<SeekPoint>,
    pub(crate) overhead_ms: f64,
    /// Whether the overhead was separated from the seeks.
    pub(crate) parted: bool,
    /// The probabilities that the overhead and the head switch are right; `None` if they were not measured by two
    /// commands at a time.
    pub(crate) overhead_sure: Option<f64>,
    pub(crate) head_switch_sure: Option<f64>,
    pub(crate) head_switch_ms: f64,
    /// Whether the head switch is longer than the shortest seek, which otherwise hides it.
    pub(crate) head_switch_shows: bool,
    /// Whether reads over a head switch contradict the head switch that was measured between commands.
    pub(crate) head_switch_moved: bool,
    pub(crate) cylinder_switch_ms: Option<f64>,
    /// The standard deviations of seek times, in ms, by distance in cylinders; zero if they are too small to be
    /// measured. The probability is that most of them are right.
    pub(crate) spread: Measured<Vec<(u32, f64)>>,
}

impl Seeks {
    /// Returns the time of a move over `distance` cylinders, in ms, including the overhead.
    pub(crate) fn at(&self, distance: u32) -> f64 {
        let after = self.curve.partition_point(|p| p.distance < distance);
        let point = self.curve.get(after).or(self.curve.last());
        point.map_or(self.head_switch_ms, |p| p.time) + self.overhead_ms
    }

    /// Returns how much more of the measured times may be the command's overhead, ms: no seek takes less than zero.
    pub(crate) fn overhead_may_be_more_ms(&self) -> f64 {
        if self.parted {
            return 0.0;
        }
        let shortest = self.curve.iter().map(|p| p.time).fold(f64::MAX, f64::min);
        // A drive with a single head has no head switch.
        let switch = if self.head_switch_ms > 0.0 { self.head_switch_ms } else { f64::MAX };
        let most = f64::min(shortest, switch);
        if most < f64::MAX { most } else { 0.0 }
    }

    /// Splits the measured times anew into moves and a command overhead of `overhead_ms`.
    pub(crate) fn part_at(&mut self, overhead_ms: f64) {
        let longer = self.overhead_ms - overhead_ms;
        let more = |ms: f64| ((ms + longer).max(0.0) * 1e3).round() / 1e3;
        for point in &mut self.curve {
            point.time = more(point.time);
        }
        self.cylinder_switch_ms = self.cylinder_switch_ms.map(more);
        self.head_switch_ms = more(self.head_switch_ms);
        self.overhead_ms = overhead_ms;
    }
}

/// A track of the assembled layout.
pub(crate) struct InLayout<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) index: TrackIndex,
    /// The time from a sector's start to the end of its read, in revolutions.
    pub(crate) end_revolutions: f64,
    /// The sectors that may be requested.
    pub(crate) within: LbnRange,
    pub(crate) op: Op,
}

impl Target for InLayout<'_> {
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)> {
        let track = self.layout.track(self.index);
        let n = u64::from(track.sectors);
        let ends =
            |sector: u64| frac(track.sector_angle(sector as u32).as_revolutions() + self.end_revolutions);
        let past = frac(angle - ends(0)) * n as f64;
        (0..n.min(24)).find_map(|more| {
            let sector = (past.ceil() as u64 + more) % n;
            let at = Location { track: self.index, sector: sector as u32 };
            let lbn = self.layout.lbn_at(at)?;
            // A layout may be slightly larger than the drive; LBNs outside of `within` are left out.
            self.within.contains(lbn).then(|| (lbn.get(), ends(sector)))
        })
    }

    fn sector(&self) -> f64 {
        1.0 / f64::from(self.layout.track(self.index).sectors)
    }

    fn op(&self) -> Op {
        self.op
    }
}

/// The most searches for each distance.
const SEARCHES: usize = 5;

/// If a point is farther than this from the line through its neighbours, ns, more points are measured beside it.
const SMOOTH_DISTANCE_NS_MAX: f64 = 90_000.0;
/// The most points that are added beside others, because varying readings can put every point off the line.
const REFINED_POINTS_MAX: usize = 90;

/// The longest distance, in cylinders, that is searched for the shortest seek.
const SHORTEST_SEEK_CYLINDERS_MAX: u32 = 10;

/// Returns the distances to measure on a drive of this many cylinders: all short ones, then ever fewer of them, then
/// distances at equal intervals.
fn distances(cylinders: u32) -> Vec<u32> {
    let even = (cylinders / 100).max(100);
    let mut list: Vec<u32> = (1..=10).collect();
    let mut d = 10;
    while d < cylinders {
        d += (d / 10).clamp(2, even);
        list.push(d);
    }
    list.push(cylinders.saturating_sub(1));
    list.retain(|&d| d >= 1 && d < cylinders);
    list.sort_unstable();
    list.dedup();
    list
}

/// Puts every fourth distance first, then every second, then the rest: if time runs out, the curve is known coarsely
/// over all distances.
fn coarse_first(list: Vec<u32>) -> Vec<u32> {
    let pass = |i: usize| if i.is_multiple_of(4) { 0 } else { 1 + i % 2 };
    let mut ordered: Vec<(usize, u32)> = list.into_iter().enumerate().map(|(i, d)| (pass(i), d)).collect();
    ordered.sort_by_key(|&(pass, _)| pass);
    ordered.into_iter().map(|(_, d)| d).collect()
}

/// The shares of the probe's time limit at which the measurements of the curve and of the variation of seeks end.
const CURVE_TIME_SHARE_MAX: f64 = 0.88;
const SPREAD_TIME_SHARE_MAX: f64 = 0.92;

/// The most distances at which the variation of seeks is measured.
const SPREAD_DISTANCES_MAX: u32 = 7;

/// Seeks that are less than this longer than the shortest seem to vary less than they do, ns: a drive is not ready
/// before the time of its shortest seek.
const HIDDEN_SPREAD_NS_MAX: f64 = 75_000.0;

/// A search begins with a range that extends this far below and above the expected time, ns.
const SEARCH_START_NS: f64 = 250_000.0;

/// If points are within `STRAIGHT_DISTANCE_NS_MAX` of the lines through their neighbours, ns, a point between them is
/// within a quarter of it, and is not measured on a drive with a slow arm. Other searches on such a drive begin with a
/// range of `LINE_SEARCH_START_NS` around the line.
const STRAIGHT_DISTANCE_NS_MAX: f64 = 25_000.0;
const LINE_SEARCH_START_NS: f64 = 150_000.0;

/// The measurement of moves on an assembled layout.
pub(crate) struct SeekMeter<'m, 'a> {
    pub(crate) meter: &'m mut Meter<'a>,
    pub(crate) layout: &'m Layout,
    pub(crate) buffer: &'m Buffer,
    /// The first and last cylinders of the layout's zones: moves stay inside of one zone if any is large enough.
    pub(crate) zones: Vec<(u32, u32)>,
}

/// Moves by distance, ascending; the times include the command overhead, and times and spreads are in ns.
pub(crate) type Points = Vec<SeekPoint>;

/// Some zone must hold moves of this many cylinders for gaps between zones to be found.
const GAP_MOVES_MIN: u32 = 24;

impl SeekMeter<'_, '_> {
    /// Returns moves inside of zones, and the shortest time of a move to another head, ns; `None` with a single zone,
    /// or if all zones are too small.
    pub(crate) fn inside(&mut self) -> Result<Option<(Points, f64)>, ProbeError> {
        let longest = self.zones.iter().map(|z| z.1 - z.0).max().unwrap_or(0);
        if self.zones.len() < 2 || longest < GAP_MOVES_MIN {
            return Ok(None);
        }
        let mut points = Points::new();
        self.measure(&mut points, coarse_first(distances(longest + 1)))?;
        let switch = match self.layout.heads() {
            1 => None,
            _ => self.moved(0, true, 0.0..0.4 * self.meter.revolution())?,
        };
        Ok(Some((points, switch.map_or(0.0, |found| found.ns))))
    }

    /// Measures moves over distances that are not among the points yet.
    fn measure(&mut self, points: &mut Points, list: Vec<u32>) -> Result<(), ProbeError> {
        let revolution = self.meter.revolution();
        let list: Vec<u32> = list.into_iter().filter(|d| !points.iter().any(|p| p.distance == *d)).collect();
        for (i, &d) in list.iter().enumerate() {
            if !self.meter.is_within_before_check(CURVE_TIME_SHARE_MAX) {
                break;
            }
            self.meter.stage("seek curve", 0.75 + 0.2 * i as f64 / list.len() as f64);
            // The new point is between its neighbours, or after the last point.
            let after = points.partition_point(|p| p.distance < d);
            let slow = self.meter.is_slow();
            if slow && d > SHORTEST_SEEK_CYLINDERS_MAX && is_straight(points, after) {
                continue;
            }
            let before = after.checked_sub(1).and_then(|i| points.get(i));
            let around = |ns: f64, far: f64| (ns - far).max(0.0)..ns + far;
            let range = match (before, points.get(after)) {
                (Some(a), Some(b)) if slow => around(on_line(a, b, d), LINE_SEARCH_START_NS),
                (Some(a), Some(b)) => {
                    (f64::min(a.time, b.time) - SEARCH_START_NS).max(0.0)
                        ..f64::max(a.time, b.time) + SEARCH_START_NS
                }
                (Some(a), None) => around(a.time, SEARCH_START_NS),
                (None, _) => 0.0..0.5 * revolution,
            };
            if let Some(found) = self.moved(d, false, range)? {
                points.insert(after, SeekPoint::of(d, found));
            }
        }
        Ok(())
    }

    /// Measures the seek curve, the head switch, the overhead and the variation of seeks; `known` are the points
    /// measured before.
    pub(crate) fn run(mut self, known: Points) -> Result<Seeks, ProbeError> {
        let revolution = self.meter.revolution();
        let mut points = known;
        self.measure(&mut points, coarse_first(distances(self.layout.cylinders())))?;
        self.refine(&mut points)?;
        let spread = self.spread(&points)?;
        let shortest = points
            .iter()
            .filter(|p| p.distance <= SHORTEST_SEEK_CYLINDERS_MAX)
            .map(|p| p.time)
            .fold(f64::MAX, f64::min);
        let one = points.first().filter(|p| p.distance == 1).map(|p| p.time);
        let around = |ns: f64| (ns - 400_000.0).max(0.0)..ns + 400_000.0;
        let switch = match one {
            Some(_) | None if self.layout.heads() > 1 => {
                self.moved(0, true, 0.0..0.4 * revolution)?.map(|found| found.ns)
            }
            _ => None,
        };
        let across = match one {
            Some(ns) if self.layout.heads() > 1 => self.moved(1, true, around(ns))?.map(|found| found.ns),
            _ => None,
        };
        let hit = (self.buffer.hit_ns - self.buffer.bus_sector_ns).max(0.0);
        let overhead = match switch {
            // A drive is not ready before the time of its shortest seek. If that time hides the head switch, the
            // measured shortest seek is longer than the switch only by the command's overhead.
            Some(switch) if shortest < f64::MAX && shortest > switch => switch.min(shortest - switch),
            _ if shortest < f64::MAX => hit.min(shortest / 2.0),
            _ => hit,
        };
        let head_switch = switch.map_or(0.0, |ns| (ns - overhead).max(0.0));
        let shows = switch.is_some_and(|ns| ns > (shortest - overhead) * 1.01 + 2_000.0);
        let cylinder_switch = match (across, one) {
            (Some(a), Some(b)) if a > b.max(head_switch + overhead) + 30_000.0 => Some((a - overhead) / 1e6),
            _ => None,
        };
        let ms = |ns: f64| ((ns - overhead).max(0.0) / 1e3).round() / 1e3;
        Ok(Seeks {
            curve: points
                .iter()
                .map(|p| SeekPoint { time: ms(p.time), spread: p.spread / 1e6, ..*p })
                .collect(),
            overhead_ms: (overhead / 1e3).round() / 1e3,
            parted: false,
            overhead_sure: None,
            head_switch_sure: None,
            head_switch_ms: (head_switch / 1e3).round() / 1e3,
            head_switch_shows: shows,
            head_switch_moved: false,
            cylinder_switch_ms: cylinder_switch.map(|ms| (ms * 1e3).round() / 1e3),
            spread,
        })
    }

    /// Measures more points beside those that are far from the line through their neighbours.
    fn refine(&mut self, points: &mut Points) -> Result<(), ProbeError> {
        let mut left = REFINED_POINTS_MAX;
        for _ in 0..3 {
            let mut wanted = Vec::new();
            for three in points.windows(3) {
                let [a, b, c] = three else { continue };
                let part = f64::from(b.distance - a.distance) / f64::from(c.distance - a.distance);
                if (a.time + part * (c.time - a.time) - b.time).abs() > SMOOTH_DISTANCE_NS_MAX {
                    let middle = |from: &SeekPoint, to: &SeekPoint| {
                        (from.distance + (to.distance - from.distance) / 2, from.time, to.time)
                    };
                    wanted.extend([middle(a, b), middle(b, c)]);
                }
            }
            wanted.dedup_by_key(|w| w.0);
            wanted.retain(|w| points.binary_search_by_key(&w.0, |p| p.distance).is_err());
            wanted.truncate(left);
            left -= wanted.len();
            for (d, before, after) in wanted {
                if !self.meter.is_within_before_check(CURVE_TIME_SHARE_MAX) {
                    break;
                }
                let (low, high) = (f64::min(before, after), f64::max(before, after));
                if let Some(found) = self.moved(d, false, (low - 200_000.0).max(0.0)..high + 200_000.0)? {
                    points.push(SeekPoint::of(d, found));
                }
            }
            points.sort_unstable_by_key(|p| p.distance);
        }
        Ok(())
    }

    /// Returns the shortest time of a move over `distance` cylinders to the same head or to another, overhead included.
    fn moved(
        &mut self,
        distance: u32,
        other_head: bool,
        range: Range<f64>,
    ) -> Result<Option<SearchedTime>, ProbeError> {
        let (layout, bus) = (self.layout, self.buffer.bus_sector_ns);
        let zones = &self.zones;
        let mut leg = |meter: &mut Meter<'_>| leg(meter, layout, zones, bus, distance, other_head);
        shortest_of(SEARCHES, self.meter, range, bus, &mut leg)
    }

    /// Returns the variation of seeks at some distances at which a drive's shortest seek does not hide it.
    fn spread(&mut self, points: &[SeekPoint]) -> Result<Measured<Vec<(u32, f64)>>, ProbeError> {
        let shortest = points.iter().map(|p| p.time).fold(f64::MAX, f64::min);
        let points: Vec<_> = points.iter().filter(|p| p.time > shortest + HIDDEN_SPREAD_NS_MAX).collect();
        let (Some(nearest), Some(farthest)) = (points.first(), points.last()) else {
            return Ok(Measured::default());
        };
        let (nearest, farthest) = (f64::from(nearest.distance), f64::from(farthest.distance));
        let mut found: Vec<(u32, f64)> = Vec::new();
        let mut sure = Vec::new();
        for i in 0..SPREAD_DISTANCES_MAX {
            // The distances have equal intervals in their logarithms.
            let part = f64::from(i) / f64::from(SPREAD_DISTANCES_MAX - 1);
            let wanted = (nearest * (farthest / nearest).powf(part)).round() as u32;
            let Some(&&SeekPoint { distance, time, .. }) =
                points.iter().min_by_key(|p| p.distance.abs_diff(wanted))
            else {
                break;
            };
            if !self.meter.is_within_before_check(SPREAD_TIME_SHARE_MAX) {
                break;
            }
            if found.iter().any(|f| f.0 == distance) {
                continue;
            }
            self.meter.stage("spread of seeks", 0.93 + 0.02 * f64::from(i) / f64::from(SPREAD_DISTANCES_MAX));
            let (layout, bus) = (self.layout, self.buffer.bus_sector_ns);
            let zones = &self.zones;
            let mut leg = |meter: &mut Meter<'_>| leg(meter, layout, zones, bus, distance, false);
            let mut moved = |meter: &mut Meter<'_>, left: f64| trial(meter, left, bus, &mut leg);
            if let Some(spread) = spread::find(self.meter, time, &mut moved)? {
                let reported =
                    if spread.deviation > spread::DEVIATION_NS_MIN { spread.deviation } else { 0.0 };
                found.push((distance, (reported / 1e3).round() / 1e3));
                sure.push(spread.sure);
            }
        }
        found.sort_unstable_by_key(|f| f.0);
        Ok(Measured { value: found, sure: sure::most_of(&sure) })
    }
}

/// Returns the time on the line through two points at distance `d`, ns.
fn on_line(a: &SeekPoint, b: &SeekPoint, d: u32) -> f64 {
    let from = f64::from(a.distance);
    a.time + (b.time - a.time) * (f64::from(d) - from) / (f64::from(b.distance) - from)
}

/// Returns whether the curve is straight where a new point at `index` would be: each of its two neighbours is near the
/// line through its own neighbours.
fn is_straight(points: &[SeekPoint], index: usize) -> bool {
    let Some([a, b, c, d]) = index.checked_sub(2).and_then(|first| points.get(first..first + 4)) else {
        return false;
    };
    (on_line(a, c, b.distance) - b.time).abs() < STRAIGHT_DISTANCE_NS_MAX
        && (on_line(b, d, c.distance) - c.time).abs() < STRAIGHT_DISTANCE_NS_MAX
}

/// Returns a track `distance` cylinders from the arm, on the same head or on another. If no such track exists, the arm
/// moves elsewhere first.
fn leg<'l>(
    meter: &mut Meter<'_>,
    layout: &'l Layout,
    zones: &[(u32, u32)],
    bus_ns: f64,
    distance: u32,
    other_head: bool,
) -> Result<Option<InLayout<'l>>, ProbeError> {
    let bus = bus_ns / meter.revolution();
    // There may be cylinders without LBNs between zones, so only distances inside of one zone are certain.
    let wide: Vec<(u32, u32)> = zones.iter().copied().filter(|z| z.1 - z.0 >= distance).collect();
    for _ in 0..8 {
        if let Some(index) = target(meter, layout, &wide, distance, other_head) {
            let sector = 1.0 / f64::from(layout.track(index).sectors);
            let within = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
            return Ok(Some(InLayout { layout, index, end_revolutions: sector + bus, within, op: Op::Read }));
        }
        // No move over `distance` cylinders starts from the arm's present position.
        let away = away(meter, layout, &wide, distance);
        meter.read(away, 1)?;
    }
    Ok(None)
}

/// Returns an LBN from which a move over `distance` cylinders stays inside of a zone; any LBN if no zone is wide
/// enough.
fn away(meter: &mut Meter<'_>, layout: &Layout, wide: &[(u32, u32)], distance: u32) -> u64 {
    let capacity = meter.capacity();
    let any = meter.draw.below(capacity);
    let Some(&(first, last)) = wide.get(meter.draw.below(wide.len().max(1) as u64) as usize) else {
        return any;
    };
    let head = Head::new(meter.draw.below(u64::from(layout.heads())) as u16);
    let off = meter.draw.below(u64::from(last - distance - first) + 1) as u32;
    let cylinder = Cylinder::new(if meter.draw.below(2) == 0 { first + off } else { last - off });
    let lbn = layout.track_at(cylinder, head).and_then(|track| layout.extents(track).next());
    lbn.map(|e| e.lbn.get() + meter.draw.below(u64::from(e.len))).filter(|&lbn| lbn < capacity).unwrap_or(any)
}

/// Returns a track `distance` cylinders from the arm; in the arm's own zone, if any zone is wide enough.
fn target(
    meter: &mut Meter<'_>,
    layout: &Layout,
    wide: &[(u32, u32)],
    distance: u32,
    other_head: bool,
) -> Option<TrackIndex> {
    let here = layout.track(layout.locate(Lbn::new(meter.last))?.track);
    let zone_of = |cylinder: u32| wide.iter().find(|z| (z.0..=z.1).contains(&cylinder));
    let own = zone_of(here.cylinder.get());
    if !wide.is_empty() && own.is_none() {
        return None;
    }
    let inside = |cylinder: &u32| own.is_none_or(|own| (own.0..=own.1).contains(cylinder));
    let heads = layout.heads();
    let head = if other_head {
        let step = 1 + meter.draw.below(u64::from(heads.saturating_sub(1).max(1))) as u16;
        Head::new((here.head.get() + step) % heads)
    } else {
        here.head
    };
    let inward = here.cylinder.get().checked_add(distance).filter(|&c| c < layout.cylinders());
    let inward = inward.filter(inside);
    let outward = here.cylinder.get().checked_sub(distance).filter(inside);
    let choices = match (inward, outward) {
        (Some(a), Some(b)) if meter.draw.below(2) == 0 => [Some(b), Some(a)],
        both => [both.0, both.1],
    };
    choices.into_iter().flatten().find_map(|c| layout.track_at(Cylinder::new(c), head))
}
