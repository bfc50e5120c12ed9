//! The tracks that share a cylinder, and those that share a surface, from the times of moves between them.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::misfit::{Candidate, Errors, Moves, best};
use crate::shape::{HEADS_MAX, Kind, Shape};
use crate::steps;
use crate::zone::Zone;
use model::CYLINDERS_MAX;
use std::collections::BTreeSet;

/// The geometry found, with its confidence.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) shape: Shape,
    /// The confidence, 0 to 1, in the number of heads, and in cylinders or bands.
    pub(crate) sure: f64,
    /// The confidence, 0 to 1, in the whole shape, the order of heads included.
    pub(crate) sure_of_order: f64,
}

/// The widest band that is looked for, in tracks.
const BAND_TRACKS_MAX: u64 = 600;

/// Finds the shape: heads, cylinders or bands, and the order of heads.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map, buffer: &Buffer) -> Result<Geometry, ProbeError> {
    // The largest zone provides the most tracks.
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else {
        return Ok(unknown());
    };
    let unit = common_unit(map, 1);
    // If the upper unit of tracks has more lower units than a drive has heads, it is not a band.
    let upper = common_unit(map, 2).filter(|top| unit.is_some_and(|r| top / r <= HEADS_MAX));
    let steps = steps::of(zone, unit);
    let (mut moves, apart) = steps::measure(meter, zone, &steps, buffer)?;
    if meter.is_noisy() && buffer.vary {
        // Cache hits vary, so commands may vary by more than seeks do: the variance is measured.
        moves.variance =
            steps::repeated(meter, zone, &moves.times, buffer)?.max(steps::NOISY_SEARCH_VARIANCE_US2);
    }
    let sure_of_moves = if meter.is_noisy() {
        steps::again_where_astray(meter, zone, &mut moves, &apart, buffer)?
    } else {
        1.0
    };
    let mut shapes = candidates(map, unit, upper);
    if !meter.is_noisy() {
        // With exact times the map's evidence is reliable, so only the shapes that it supports best remain.
        let least = shapes.iter().map(|s| s.misfit).fold(f64::MAX, f64::min);
        shapes.retain(|s| s.misfit <= least);
    }
    let mut scores = moves.scores(&shapes, zone);
    if !meter.is_noisy() {
        // The accuracy of a search is measured only if another accuracy would change the result.
        let rough = Moves { variance: steps::NOISY_SEARCH_VARIANCE_US2, ..moves.clone() };
        if best(&rough.scores(&shapes, zone)).shape != best(&scores).shape {
            moves.variance =
                steps::repeated(meter, zone, &moves.times, buffer)?.max(steps::SEARCH_VARIANCE_US2);
            scores = moves.scores(&shapes, zone);
        }
    }
    // Among the shapes, those that fit the densities by head win against the times of moves, because the map has
    // confirmed densities many times. Moves can only lower the confidence.
    let fitting: Vec<Candidate> = scores.iter().copied().filter(|s| s.shape.fits(&map.zones)).collect();
    let Candidate { shape, misfit } = best(if fitting.is_empty() { &scores } else { &fitting });
    let mut sure = sure_of(shape, misfit, &scores);
    if meter.is_noisy() {
        // The smallest of several misfits is slightly too small by chance.
        sure = sure.map(|gap| (gap / 2.0).min(moves.without_trend(shape, zone)));
        if shape.kind.band().is_some() {
            // The rivals are bands of the same width on another number of heads: with few moves, larger groups fit too
            // well by chance.
            let as_wide: Vec<Candidate> =
                shapes.iter().copied().filter(|s| s.shape.kind == shape.kind).collect();
            let against = moves.against(shape, &as_wide, zone);
            sure = sure.map(|gap| gap.min(against));
        }
    } else {
        // A shape is certain only if it is also likelier under the assumption that a few single times are wrong.
        let of = |s: &Candidate, first| Candidate {
            shape: s.shape,
            misfit: moves.misfit(s.shape, first, Errors::OfSome) + s.misfit,
        };
        let mut again: Vec<Candidate> = shapes.iter().map(|s| of(s, s.shape.origin(zone))).collect();
        let misfit = again.iter().find(|a| a.shape == shape).map_or(0.0, |a| a.misfit);
        // A likelier shape whose first cylinder is cut off by the start of the zone lowers the confidence, too.
        for s in shapes.iter().filter(|s| s.shape.kind.band().is_none()) {
            let parts = 1..if zone.cycle.is_some() { 1 } else { s.shape.unit() };
            again.extend(parts.map(|first| of(s, first)));
        }
        let other = sure_of(shape, misfit, &again);
        let against = moves.against(shape, &shapes, zone);
        sure = [0, 1].map(|i| sure[i].min(other[i]).min(against));
    }
    let [sure, sure_of_order] = sure.map(|gap| trust(gap).min(sure_of_moves));
    Ok(Geometry { shape, sure, sure_of_order })
}

/// Returns the possible shapes of a drive whose skews recur after `unit` tracks, and again after `upper`, the simplest
/// first, each with the evidence against it before any move was timed.
fn candidates(map: &Map, unit: Option<u64>, upper: Option<u64>) -> Vec<Candidate> {
    let kinds = |h: u64| [Kind::Cylinder, Kind::Serpentine].map(|kind| Shape { kind, heads: h });
    let bands = |width: u64, heads: u64| Shape { kind: Kind::Bands(width), heads };
    let with = |misfit: f64| move |shape: Shape| Candidate { shape, misfit };
    let mut shapes: Vec<Candidate> = Vec::new();
    if let (Some(r), Some(top)) = (unit, upper) {
        shapes.push(with(0.0)(bands(r, top / r)));
        if map.zones.iter().any(|z| z.cycle.as_ref().is_some_and(|c| c.width() == r)) {
            // Moves take the same time in either order of surfaces; only densities differ.
            shapes.push(with(0.0)(Shape { kind: Kind::ForwardBands(r), heads: top / r }));
        }
    }
    let unlike = if shapes.is_empty() { 0.0 } else { SHAPE_EVIDENCE_MIN };
    if let Some(r) = unit {
        if r <= HEADS_MAX {
            shapes.extend(kinds(r).map(with(unlike)));
        }
        let inside = (2..=HEADS_MAX).filter(|h| r % h == 0 && r / h > 1);
        shapes.extend(inside.map(|heads| bands(r / heads, heads)).map(with(unlike)));
        shapes.extend((1..=HEADS_MAX).map(|heads| bands(r, heads)).map(with(unlike)));
    }
    // The repetition of skews may be chance.
    let unlike = if unit.is_some() { unlike + SHAPE_EVIDENCE_MIN } else { unlike };
    (1..=HEADS_MAX).for_each(|h| shapes.extend(kinds(h).map(with(unlike))));
    for width in 2..=BAND_TRACKS_MAX {
        shapes.extend((2..=HEADS_MAX).map(|heads| bands(width, heads)).map(with(unlike)));
    }
    let mut seen = BTreeSet::new();
    shapes.retain(|s| seen.insert(s.shape));
    let fewest = fewest_heads(map.zones.iter().map(Zone::tracks).sum());
    shapes.retain(|s| s.shape.heads >= fewest);
    // Densities count only if they support one of the shapes that skews support.
    let least = shapes.iter().map(|s| s.misfit).fold(f64::MAX, f64::min);
    if shapes.iter().any(|s| s.misfit <= least && s.shape.fits(&map.zones)) {
        for Candidate { shape, misfit } in &mut shapes {
            *misfit += if shape.fits(&map.zones) { 0.0 } else { 2.0 * SHAPE_EVIDENCE_MIN };
        }
    }
    if shapes.is_empty() {
        shapes.push(with(0.0)(Shape { kind: Kind::Cylinder, heads: fewest }));
    }
    shapes
}

/// Returns the misfit of the best rival less that of `shape`: first among shapes with another number of heads or other
/// bands, then among all other shapes.
fn sure_of(shape: Shape, misfit: f64, scores: &[Candidate]) -> [f64; 2] {
    let gap = |same: &dyn Fn(&Shape) -> bool| {
        let rivals = scores.iter().filter(|s| !same(&s.shape));
        rivals.map(|s| s.misfit).fold(f64::MAX, f64::min) - misfit
    };
    let bands = |s: &Shape| s.kind.band().unwrap_or(0);
    [gap(&|s| bands(s) == bands(&shape) && s.heads == shape.heads), gap(&|s| *s == shape)]
}

/// Returns the fewest heads with which `tracks` tracks fit into a profile's cylinders, even if each zone's last band or
/// cylinder is half empty.
fn fewest_heads(tracks: u64) -> u64 {
    tracks.div_ceil(u64::from(CYLINDERS_MAX) / 2).max(1)
}

/// Returns the geometry that stands in for one that was not found; its confidence is zero.
pub(crate) fn unknown() -> Geometry {
    let shape = Shape { kind: Kind::Cylinder, heads: 1 };
    Geometry { shape, sure: 0.0, sure_of_order: 0.0 }
}

/// Returns the probability of the better of two shapes from the gap between their misfits: a half for no gap, almost
/// one for a gap of ten.
fn trust(gap: f64) -> f64 {
    1.0 / (1.0 + (-0.5 * gap).exp())
}

/// Returns the number of tracks of a level's unit on which the zones of most LBNs agree.
pub(crate) fn common_unit(map: &Map, level: usize) -> Option<u64> {
    let mut votes: Vec<(u64, u64)> = Vec::new();
    for zone in &map.zones {
        let spared = zone.region.map_or(0, |r| (r.lbns + r.spares) / zone.sectors);
        // A repetition that comes from spare sectors, or a very long one, is not an order of tracks.
        let order = |unit: &u64| *unit != spared && *unit <= BAND_TRACKS_MAX * HEADS_MAX;
        let unit = zone.levels.get(level).map(|l| l.unit).filter(order).unwrap_or(0);
        match votes.iter_mut().find(|(u, _)| *u == unit) {
            Some((_, lbns)) => *lbns += zone.lbns(),
            None => votes.push((unit, zone.lbns())),
        }
    }
    // A zone that is too small for a level has no vote.
    let total: u64 = votes.iter().map(|v| v.1).sum();
    votes.iter().filter(|v| v.0 > 0).max_by_key(|v| v.1).filter(|v| v.1 * 5 > total).map(|v| v.0)
}

/// The evidence that moves must give against the map's: for a shape whose cylinders or bands are not the tracks after
/// which skews recur, or whose heads do not fit the densities.
const SHAPE_EVIDENCE_MIN: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shape_has_more_cylinders_than_a_profile_may() {
        for tracks in [1, 4_000_000, 10_341_136, 50_000_000] {
            let heads = fewest_heads(tracks);
            assert!(tracks / heads < u64::from(CYLINDERS_MAX), "{tracks} tracks, {heads} heads");
        }
        assert_eq!(fewest_heads(65_350), 1);
    }
}
