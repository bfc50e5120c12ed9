//! Converts the map and the shape to a profile's layout.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::revolutions::wrap;
use crate::shape::{Kind, Shape};
use crate::whole::{Joiner, Whole};
use crate::zone::{Cycle, Level, Zone, least_multiple};
use crate::zone_spec::{order, spec};
use model::profile::LayoutSpec;
use model::{Layout, Profile};
use std::ops::Range;
use units::{Bytes, Lbn, Sectors};

/// Returns the number of cylinders and the layout. `bus_revolutions` is the time from the end of a sector to the end of
/// its read, and `loose` the additional error of an angle that joined zones may have, both in revolutions.
///
/// The profile format's own terms (spares of some cylinders, levels of skew) are tried first. If the resulting layout
/// differs from the map in the sector of an LBN or in the number of LBNs, zones are cut into simpler ones, region by
/// region.
pub(crate) fn assemble(map: &Map, shape: Shape, bus_revolutions: f64, loose: f64) -> (u32, LayoutSpec) {
    let map = &aligned(map, shape);
    let mut plain = vec![false; map.zones.len()];
    // A zone that the format can express stays as it is; any other may be a part of a larger zone, to be joined.
    let alone: Vec<bool> = map.zones.iter().map(|zone| is_alone(zone, shape, bus_revolutions)).collect();
    let is_wanted = |i: usize| alone.get(i).is_some_and(|alone| !alone);
    let wholes = Joiner { map, shape, bus_revolutions, loose }.run(&is_wanted);
    for _ in 0..2 {
        let (cylinders, spec) = assembled(map, shape, bus_revolutions, &plain, &wholes);
        let heads = shape.heads.max(1) as u16;
        let Ok(layout) = Layout::new(&spec, cylinders, heads) else {
            plain = vec![true; map.zones.len()];
            continue;
        };
        if map.zones.iter().all(|zone| agrees(zone, &layout, bus_revolutions)) {
            return (cylinders, spec);
        }
        // A zone with one LBN too many moves all later zones, so every zone that may be the cause is cut.
        for (zone, plain) in map.zones.iter().zip(&mut plain) {
            *plain = zone.region.is_some() || !agrees(zone, &layout, bus_revolutions);
        }
    }
    assembled(map, shape, bus_revolutions, &plain, &wholes)
}

/// Returns a profile with only the measured capacity, for a drive whose layout was not found.
pub(crate) fn of_size(capacity: u64, sector_bytes: u64) -> Result<Profile, ProbeError> {
    Profile::of_size(Sectors::new(capacity), Bytes::new(sector_bytes)).map_err(|e| ProbeError::Unlike {
        stage: "layout",
        problem: e.to_string(),
        mend: "report this drive".to_owned(),
    })
}

/// Returns the map with each zone of recurring densities beginning at a cylinder or band, and ending with a band; the
/// tracks before and behind become zones of their own.
fn aligned(map: &Map, shape: Shape) -> Map {
    let mut zones = Vec::with_capacity(map.zones.len());
    let like = map.zones.iter().find(|zone| zone.cycle.is_some() && shape.begins(zone).is_some());
    for zone in &map.zones {
        let first = like.and_then(|like| shape.begins_like(zone, like)).unwrap_or(0);
        zones.extend(slots(zone, 0..first));
        let mut inner = zone.beginning_at(first);
        let band = shape.kind.band().map_or(1, |width| width * shape.heads.max(1));
        let end = first + (zone.tracks() - first) / band * band;
        if zone.cycle.is_some() && (first + 1..zone.tracks()).contains(&end) {
            inner.end = zone.lbn_near(end, 0);
            inner.shifts.retain(|s| s.lbn < inner.end);
            zones.push(inner);
            zones.extend(slots(zone, end..zone.tracks()));
        } else {
            zones.push(inner);
        }
    }
    Map { zones, ..map.clone() }
}

/// Returns whether the format can express a zone without cuts.
fn is_alone(zone: &Zone, shape: Shape, bus_revolutions: f64) -> bool {
    let cylinders = cylinders(zone, shape);
    let spec = spec(zone, shape, 0, cylinders, bus_revolutions);
    let whole =
        LayoutSpec { order: order(shape), patterns: Vec::new(), zones: vec![spec], remaps: Vec::new() };
    let mut alone = zone.clone();
    parts(zone, shape, false).len() == 1
        && Layout::new(&whole, cylinders, shape.heads.max(1) as u16).is_ok_and(|layout| {
            alone.shift_to_zero();
            layout.capacity().get() == zone.lbns() && agrees(&alone, &layout, bus_revolutions)
        })
}

/// Returns whether a layout has sampled LBNs of a zone where the map has them.
fn agrees(zone: &Zone, layout: &Layout, bus_revolutions: f64) -> bool {
    (0..SAMPLES).all(|k| {
        let lbn = zone.first + (u128::from(zone.lbns() - 1) * u128::from(k) / u128::from(SAMPLES - 1)) as u64;
        let Some(at) = layout.locate(Lbn::new(lbn)) else { return false };
        let track = layout.track(at.track);
        let ends =
            track.sector_angle(at.sector).as_revolutions() + 1.0 / f64::from(track.sectors) + bus_revolutions;
        wrap(ends - zone.predict(lbn)).abs() < 0.3 / f64::from(track.sectors)
    })
}

/// The number of sampled LBNs of a zone.
const SAMPLES: u64 = 40;

/// Inserts the cylinders of `gaps` before each zone except the first; returns the new number of cylinders.
pub(crate) fn spread(spec: &mut LayoutSpec, gaps: &[u32]) -> u32 {
    let mut by = 0;
    for (zone, gap) in spec.zones.iter_mut().zip(std::iter::once(&0).chain(gaps)) {
        by += gap;
        zone.first_cylinder += by;
        zone.last_cylinder += by;
    }
    spec.zones.last().map_or(0, |z| z.last_cylinder + 1)
}

fn assembled(
    map: &Map,
    shape: Shape,
    bus_revolutions: f64,
    plain: &[bool],
    wholes: &[Whole],
) -> (u32, LayoutSpec) {
    let mut next = 0;
    let mut zones = Vec::new();
    for (i, (zone, &plain)) in map.zones.iter().zip(plain).enumerate() {
        if let Some(whole) = wholes.iter().find(|w| w.zones.contains(&i)) {
            if whole.zones.start == i {
                let mut spec = whole.spec.clone();
                (spec.first_cylinder, spec.last_cylinder) = (next, next + spec.last_cylinder);
                next = spec.last_cylinder + 1;
                zones.push(spec);
            }
            continue;
        }
        for part in parts(zone, shape, plain) {
            let cylinders = cylinders(&part, shape);
            zones.push(spec(&part, shape, next, cylinders, bus_revolutions));
            next += cylinders;
        }
    }
    (next, LayoutSpec { order: order(shape), patterns: Vec::new(), zones, remaps: Vec::new() })
}

/// Returns a zone cut into parts that the profile's format can express: wherever a rotation or spares recur that no
/// order of tracks has.
///
/// Such recurrences arise because a drive begins each zone at a fixed angle: equal zones of one size look like one zone
/// with a longer period.
fn parts(zone: &Zone, shape: Shape, plain: bool) -> Vec<Zone> {
    if zone.cycle.is_some() {
        if shape.densities(zone).is_some()
            || zone.tracks() > ZONE_PARTS_MAX * zone.cycle.as_ref().map_or(1, Cycle::width)
        {
            return vec![zone.clone()];
        }
        return slots(zone, 0..zone.tracks());
    }
    let orders: [u64; 3] = match shape.kind.band() {
        Some(width) => [1, width, width * shape.heads],
        None => [1, shape.heads, shape.heads],
    };
    let spared = zone.region.map(|r| (r.lbns + r.spares) / zone.sectors);
    let expressible = |unit: u64, advance: f64| {
        orders.contains(&unit) || {
            // The format has spares of several cylinders only if their common rotation is the sum of single ones.
            let base = zone.levels.iter().rfind(|l| l.unit < unit && orders.contains(&l.unit));
            shape.kind.band().is_none()
                && zone.region.is_some_and(|r| r.spares > 0)
                && base.is_some_and(|b| {
                    unit.is_multiple_of(b.unit)
                        && wrap((unit / b.unit) as f64 * b.advance - advance).abs() < 1e-4
                })
        }
    };
    if let (true, Kind::Cylinder | Kind::Serpentine, Some(region), Some(tracks)) =
        (plain, shape.kind, zone.region, spared)
    {
        // The tracks up to the last one with which a region and a cylinder end together stay one zone; the rest is cut.
        let unit = least_multiple(tracks.max(1), shape.heads.max(1));
        let whole = zone.lbns() / region.lbns * tracks / unit * unit;
        let end = zone.first + whole / tracks.max(1) * region.lbns;
        // Slips inside regions are counted differently in the format and in the map.
        if whole > 0 && end < zone.end && unit <= UNIT_TRACKS_MAX && zone.shifts.is_empty() {
            let mut head = zone.clone();
            head.end = end;
            head.shifts.retain(|s| s.lbn < end);
            let mut tail = Zone::new(end, zone.sectors, zone.track_angle(whole));
            tail.end = zone.end;
            tail.levels.clone_from(&zone.levels);
            tail.region = zone.region;
            tail.shifts = zone.shifts.iter().copied().filter(|s| s.lbn >= end).collect();
            let mut all = vec![head];
            all.extend(parts(&tail, shape, true));
            return all;
        }
    }
    let strange = zone.levels.iter().find(|l| !expressible(l.unit, l.advance)).map(|l| l.unit);
    let banded = shape.kind.band().is_some();
    let unit = match (strange, spared) {
        (Some(unit), Some(spared)) if spared > unit => spared,
        (Some(unit), _) => unit,
        (None, Some(tracks)) if plain || banded && tracks > 1 => tracks,
        _ if plain && zone.levels.len() > 2 => zone.levels.last().map_or(1, |l| l.unit),
        _ => return vec![zone.clone()],
    };
    let mut parts = Vec::new();
    let mut first = zone.first;
    let mut track = 0;
    if zone.tracks() / unit.max(1) > ZONE_PARTS_MAX {
        return vec![zone.clone()];
    }
    while first < zone.end {
        let mut part = Zone::new(first, zone.sectors, zone.track_angle(track));
        track += unit;
        // The first LBN of the next part; sectors without LBNs are skipped.
        let last = zone.lbn_near(track - 1, zone.sectors - 1);
        part.end = (last + 1).clamp(first + 1, zone.end);
        part.levels = zone.levels.iter().copied().filter(|l| l.unit < unit).collect();
        let inside = |lbn: u64| (first..part.end).contains(&lbn);
        part.shifts = zone.shifts.iter().copied().filter(|s| inside(s.lbn)).collect();
        part.region = zone.region.filter(|r| (r.lbns + r.spares) / zone.sectors < unit);
        first = part.end;
        parts.push(part);
    }
    parts
}

/// Returns these tracks of a zone cut into the slots of its cycle, each as a zone of its own.
fn slots(zone: &Zone, tracks: Range<u64>) -> Vec<Zone> {
    let width = zone.cycle.as_ref().map_or(1, Cycle::width);
    let one = |track: u64| {
        let first = zone.lbn_near(track, 0);
        let mut part = Zone::new(first, zone.sectors_on(track), zone.track_angle(track));
        part.end = zone.end;
        if track + width < zone.tracks() {
            part.end = zone.lbn_near(track + width, 0);
        }
        part.shifts =
            zone.shifts.iter().copied().filter(|s| (first + 1..part.end).contains(&s.lbn)).collect();
        if width > 1 {
            part.levels.push(Level { unit: 1, advance: wrap(zone.track_angle(track + 1) - part.angle) });
        }
        part
    };
    tracks.step_by(width as usize).map(one).collect()
}

/// The most tracks after which a region and a cylinder end together; if there are more, the zone is not cut there.
const UNIT_TRACKS_MAX: u64 = 4_096;

/// The most parts of a zone; a zone with more parts is not cut.
const ZONE_PARTS_MAX: u64 = 4_096;

/// Returns the number of cylinders that hold a zone's tracks.
fn cylinders(zone: &Zone, shape: Shape) -> u32 {
    let heads = shape.heads.max(1);
    let tracks = zone.tracks();
    let width = shape.kind.band().unwrap_or(1);
    let whole = tracks / (width * heads);
    (whole * width + (tracks % (width * heads)).div_ceil(heads)).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Slot;

    /// Two zones of bands of three tracks have the same densities, but not the same angles.
    #[test]
    fn a_zone_has_no_cylinders_for_one_beside_it_that_is_not_on_its_tracks() {
        let zone = |first: u64, end: u64, angle: f64| {
            let slot = |sectors, angle| Slot { before: 0, tracks: 3, sectors, angle, skew: 0.1 };
            let mut zone = Zone::new(first, 10, angle);
            zone.end = end;
            zone.cycle = Some(Cycle::new(vec![slot(10, 0.0), slot(12, 0.3)], 0.6));
            // Angles are those at which a track's first sector ends.
            let run = 0.3 - 1.0 / 12.0 + 1.0 / 10.0;
            zone.levels =
                [(1, 0.1), (3, run), (6, 0.6)].map(|(unit, advance)| Level { unit, advance }).to_vec();
            zone
        };
        // Twenty bands and half of a run, which is one head's part of a band; then forty bands.
        let (first, second) = (66 * 20 + 15, 66 * 40);
        let zones = vec![zone(0, first, 0.5), zone(first, first + second, 0.277)];
        let map = Map { zones, mapped: first + second, measured: 0 };
        let shape = Shape { kind: Kind::ForwardBands(3), heads: 2 };
        let (cylinders, spec) = assemble(&map, shape, 0.0, 0.0);
        let layout = Layout::new(&spec, cylinders, 2).unwrap();
        assert!(map.zones.iter().all(|zone| agrees(zone, &layout, 0.0)));
        // Each zone has at most one band more than its tracks need.
        assert!(cylinders <= 3 * (20 + 1 + 40 + 1), "{cylinders} cylinders");
    }
}
