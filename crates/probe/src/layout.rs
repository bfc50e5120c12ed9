//! The map and the shape as a profile's layout.

use crate::geometry::{Kind, Shape};
use crate::mapping::Map;
use crate::turns::{frac, wrap};
use crate::zone::Zone;
use model::profile::{LayoutSpec, Order, SectorsPerTrack, Sparing, SparingRegion, Turns, Zone as ZoneSpec};

/// A skew this near to whole sectors is whole sectors, if over all of the zone no more than that comes of it.
const WHOLE_SECTORS: f64 = 0.05;

/// Cylinders and the layout; `bus_turns` is what a read of one sector ends after its sector.
pub(crate) fn assemble(map: &Map, shape: Shape, bus_turns: f64) -> (u32, LayoutSpec) {
    let order = match shape.kind {
        Kind::Cylinder => Order::Cylinder,
        Kind::Serpentine => Order::CylinderSerpentine,
        Kind::Bands(width) => Order::SurfaceSerpentine { band_cylinders: width as u32 },
    };
    let mut next = 0;
    let mut zones = Vec::new();
    for zone in map.zones.iter().flat_map(|zone| parts(zone, shape)) {
        let zone = &zone;
        let cylinders = cylinders(zone, shape);
        zones.push(spec(zone, shape, next, cylinders, bus_turns));
        next += cylinders;
    }
    (next, LayoutSpec { order, patterns: Vec::new(), zones, remaps: Vec::new() })
}

/// A zone as the profile's format can say it: cut where a rotation or spares recur that no order of tracks has.
///
/// Drives begin zones anew at some fixed angle; zones alike and of one size look like one with a longer period.
fn parts(zone: &Zone, shape: Shape) -> Vec<Zone> {
    let orders: [u64; 3] = match shape.kind {
        Kind::Bands(width) => [1, width, width * shape.heads],
        _ => [1, shape.heads, shape.heads],
    };
    let spared = zone.region.map(|r| (r.lbns + r.spares) / zone.sectors);
    let expressible = |unit: u64, advance: f64| {
        orders.contains(&unit) || {
            // Spares of some cylinders that turn on as cylinders do.
            let base = zone.levels.iter().rfind(|l| l.unit < unit && orders.contains(&l.unit));
            let bands = matches!(shape.kind, Kind::Bands(_));
            !bands
                && zone.region.is_some_and(|r| r.spares > 0)
                && base.is_some_and(|b| {
                    unit.is_multiple_of(b.unit)
                        && wrap((unit / b.unit) as f64 * b.advance - advance).abs() < 1e-4
                })
        }
    };
    let strange = zone.levels.iter().find(|l| !expressible(l.unit, l.advance)).map(|l| l.unit);
    let banded = matches!(shape.kind, Kind::Bands(_));
    let unit = match (strange, spared) {
        (Some(unit), Some(spared)) if spared > unit => spared,
        (Some(unit), _) => unit,
        (None, Some(tracks)) if banded && tracks > 1 => tracks,
        _ => return vec![zone.clone()],
    };
    let mut parts = Vec::new();
    let mut first = zone.first;
    let mut track = 0;
    while first < zone.end && parts.len() < MOST_PARTS {
        let mut part = Zone::new(first, zone.sectors, zone.track_angle(track));
        track += unit;
        // The first LBN of the next part: places that hold none push it on.
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

/// The most parts of a zone.
const MOST_PARTS: usize = 4_096;

/// Cylinders that a zone's tracks take.
fn cylinders(zone: &Zone, shape: Shape) -> u32 {
    let heads = shape.heads.max(1);
    let tracks = zone.tracks();
    let cylinders = match shape.kind {
        Kind::Bands(width) => {
            let whole = tracks / (width * heads);
            whole * width + (tracks % (width * heads)).div_ceil(heads)
        }
        _ => tracks.div_ceil(heads),
    };
    cylinders.max(1) as u32
}

fn spec(zone: &Zone, shape: Shape, first: u32, cylinders: u32, bus_turns: f64) -> ZoneSpec {
    let n = zone.sectors;
    let places = u64::from(cylinders) * shape.heads * n;
    let (track, head, cylinder) = skews(zone, shape);
    let slips = zone.shifts.iter().flat_map(|s| {
        let past = zone.place(s.lbn);
        past - s.sectors..past
    });
    ZoneSpec {
        first_cylinder: first,
        last_cylinder: first + cylinders - 1,
        sectors_per_track: SectorsPerTrack::Same(n as u32),
        pattern: None,
        offset: Turns::Decimal(rounded(frac(zone.angle - 1.0 / n as f64 - bus_turns))),
        track_skew: turns(track, n, zone.tracks()),
        cylinder_skew: turns(cylinder, n, zone.tracks() / shape.heads.max(1)),
        head_skew: matches!(shape.kind, Kind::Bands(_)).then(|| turns(head, n, zone.tracks())),
        reserved: 0,
        sparing: sparing(zone, shape, places),
        slips: slips.collect(),
        defects: Vec::new(),
    }
}

fn sparing(zone: &Zone, shape: Shape, places: u64) -> Sparing {
    let whole = Sparing { spares: places.saturating_sub(zone.lbns()), ..Sparing::default() };
    let Some(region) = zone.region else { return whole };
    let tracks = (region.lbns + region.spares) / zone.sectors;
    let slip_to_end = !zone.shifts.is_empty();
    let per =
        |per, cylinders| Sparing { per, cylinders, spares: region.spares, at_front: false, slip_to_end };
    match shape.kind {
        _ if tracks == 1 => per(SparingRegion::Track, None),
        Kind::Bands(_) => whole,
        _ if tracks == shape.heads => per(SparingRegion::Cylinder, None),
        _ => per(SparingRegion::Range, Some((tracks / shape.heads).max(1) as u32)),
    }
}

/// From track to track, from head to head, and to the next cylinder or band.
fn skews(zone: &Zone, shape: Shape) -> (f64, f64, f64) {
    let advance = |unit: u64| zone.levels.iter().find(|l| l.unit == unit).map(|l| l.advance);
    let track = advance(1).unwrap_or(0.0);
    match shape.kind {
        Kind::Bands(width) => {
            let run = advance(width);
            let head = run.map_or(track, |run| run - (width - 1) as f64 * track);
            let run = (width - 1) as f64 * track + head;
            let band = advance(width * shape.heads);
            // From a band's last track: all of the band but its last step.
            let cylinder = band.map_or(head, |band| band - shape.heads as f64 * run + head);
            (wrap(track), wrap(head), wrap(cylinder))
        }
        _ => {
            let cylinder = advance(shape.heads).map_or(track, |c| c - (shape.heads - 1) as f64 * track);
            (wrap(track), wrap(track), wrap(cylinder))
        }
    }
}

/// Whole sectors as a fraction, anything else as a number.
fn turns(skew: f64, per_track: u64, times: u64) -> Turns {
    let sectors = frac(skew) * per_track as f64;
    if (sectors - sectors.round()).abs() * (times.max(1) as f64).min(1e4)
        < WHOLE_SECTORS.max(1e-5 * times as f64)
    {
        Turns::of_sectors(sectors.round() as i64 % per_track as i64, per_track as u32)
    } else {
        Turns::Decimal(rounded(frac(skew)))
    }
}

fn rounded(turns: f64) -> f64 {
    (turns * 1e11).round() / 1e11
}
