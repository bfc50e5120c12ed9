//! A zone of the map as a zone of a profile.

use crate::revolutions::{frac, wrap};
use crate::shape::{Kind, Shape};
use crate::zone::{Shift, Zone};
use model::profile::{Course, Order, Revolutions, SectorsPerTrack, Sparing, SparingRegion, Zone as ZoneSpec};

/// A skew within this distance of whole sectors counts as whole, if its error over the zone stays below this.
const WHOLE_ERROR_SECTORS_MAX: f64 = 0.05;

/// Returns the name that a profile has for the order of tracks of a shape.
pub(crate) fn order(shape: Shape) -> Order {
    match shape.kind {
        Kind::Cylinder | Kind::ByZone => Order::Cylinder,
        Kind::Serpentine => Order::CylinderSerpentine,
        Kind::Bands(width) => Order::SurfaceSerpentine { band_cylinders: width as u32 },
        Kind::ForwardBands(width) => Order::Bands {
            band_cylinders: width as u32,
            tracks: Course::Alternating,
            surfaces: Course::Forward,
        },
    }
}

/// Returns a zone on `cylinders` cylinders from `first` on, in the profile's terms; `bus_revolutions` is the time from
/// the end of a sector to the end of its read, in revolutions.
pub(crate) fn spec(zone: &Zone, shape: Shape, first: u32, cylinders: u32, bus_revolutions: f64) -> ZoneSpec {
    let n = zone.sectors_on(0);
    let densities = shape.densities(zone).filter(|_| zone.cycle.is_some());
    let on_cylinder = densities.as_ref().map_or(shape.heads * n, |by_head| by_head.iter().sum());
    let places = u64::from(cylinders) * on_cylinder;
    let (track, head, cylinder) = skews(zone, shape);
    let skipped = |s: &Shift| (zone.place(s.lbn) - s.sectors, s.sectors);
    // Slipped sectors are listed as a run if they are more than a track, and singly otherwise.
    let (long, short): (Vec<&Shift>, Vec<&Shift>) = zone.shifts.iter().partition(|s| s.sectors > n);
    let slips = short.into_iter().map(skipped).flat_map(|(first, count)| first..first + count);
    let sectors_per_track = match densities {
        Some(by_head) => SectorsPerTrack::ByHead(by_head.iter().map(|&n| n as u32).collect()),
        None => SectorsPerTrack::Same(n as u32),
    };
    ZoneSpec {
        offset: Revolutions::Decimal(rounded(frac(zone.angle - 1.0 / n as f64 - bus_revolutions))),
        track_skew: revolutions(track, n, zone.tracks()),
        cylinder_skew: revolutions(cylinder, n, zone.tracks() / shape.heads.max(1)),
        head_skew: shape.kind.band().map(|_| revolutions(head, n, zone.tracks())),
        sparing: sparing(zone, shape, places),
        slips: slips.collect(),
        slip_runs: long.into_iter().map(skipped).collect(),
        ..ZoneSpec::plain(first, first + cylinders - 1, sectors_per_track)
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
        Kind::Bands(_) | Kind::ForwardBands(_) => whole,
        _ if tracks == shape.heads => per(SparingRegion::Cylinder, None),
        _ => per(SparingRegion::Range, Some((tracks / shape.heads).max(1) as u32)),
    }
}

/// Returns the skews from track to track, from head to head, and to the next cylinder or band.
fn skews(zone: &Zone, shape: Shape) -> (f64, f64, f64) {
    let advance = |unit: u64| zone.levels.iter().find(|l| l.unit == unit).map(|l| l.advance);
    let track = advance(1).unwrap_or(0.0);
    match shape.kind {
        Kind::Bands(width) | Kind::ForwardBands(width) => {
            let run = advance(width);
            let head = run.map_or(track, |run| run - (width - 1) as f64 * track);
            let run = (width - 1) as f64 * track + head;
            let band = advance(width * shape.heads);
            // The step from a band's last track is the advance of the whole band less all steps before it.
            let cylinder = band.map_or(head, |band| band - shape.heads as f64 * run + head);
            (wrap(track), wrap(head), wrap(cylinder))
        }
        _ => {
            let cylinder = advance(shape.heads).map_or(track, |c| c - (shape.heads - 1) as f64 * track);
            (wrap(track), wrap(track), wrap(cylinder))
        }
    }
}

/// Returns a skew of whole sectors as a fraction, and any other skew as a decimal number.
fn revolutions(skew: f64, per_track: u64, times: u64) -> Revolutions {
    let sectors = frac(skew) * per_track as f64;
    if (sectors - sectors.round()).abs() * (times.max(1) as f64).min(1e4)
        < WHOLE_ERROR_SECTORS_MAX.max(1e-5 * times as f64)
    {
        Revolutions::of_sectors(sectors.round() as i64 % per_track as i64, per_track as u32)
    } else {
        Revolutions::Decimal(rounded(frac(skew)))
    }
}

pub(crate) fn rounded(revolutions: f64) -> f64 {
    (revolutions * 1e11).round() / 1e11
}
