//! Repeats of reads that ended at other angles than the map says, and the borders of the stretches of such sectors.
//!
//! The map assumes that a zone is as regular as its few measured tracks. Tracks inside a zone that break its rule
//! without moving later LBNs are found only if a random read meets one of them.

use super::{PREDICTED_ERROR_NS_MAX, SECTORS};
use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::report::Unsure;
use units::Lbn;

/// The most reads at other angles than in the map that are repeated: with more, the map does not fit the drive.
const REPEATED_READS_MAX: usize = 32;
/// The most stretches that are reported: the map does not fit a drive with more of them.
const STRETCHES_MAX: usize = 8;

/// The places of sectors at other angles than the map says.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Stretches whose sectors are elsewhere than in the map.
    pub(crate) stretches: Vec<Unsure>,
    /// Single LBNs that are elsewhere than in the map.
    pub(crate) moved: Vec<u64>,
}

/// Repeats reads of the final check whose sectors passed at other angles than the map says. `strange` has their first
/// LBNs; those in `unsure` regions are left out. The search ends when the probe has used the share `until` of its time.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    map: &Map,
    strange: &[u64],
    unsure: &[Unsure],
    until: f64,
) -> Result<Strays, ProbeError> {
    let capacity = map.mapped.clamp(1, meter.capacity());
    let mut strays = Strays::default();
    let mut looks = 0;
    for &lbn in strange {
        let reported = |lbn: u64, named: &[Unsure]| {
            named.iter().any(|region| (region.first.get()..region.end.get()).contains(&lbn))
        };
        let sectors = lbn..(lbn + SECTORS).min(capacity);
        if sectors.clone().any(|lbn| reported(lbn, unsure) || reported(lbn, &strays.stretches)) {
            continue;
        }
        if looks == REPEATED_READS_MAX || strays.stretches.len() == STRETCHES_MAX || !meter.is_within(until) {
            break;
        }
        looks += 1;
        meter.find_phase()?;
        // The LBNs are read in descending order, because the drive reads ahead in ascending order.
        for lbn in sectors.rev() {
            if !is_surely_elsewhere(meter, map, lbn)? {
                continue;
            }
            let first = border(meter, map, lbn, lbn, u64::checked_sub)?;
            let last = border(meter, map, lbn, capacity - 1 - lbn, u64::checked_add)?;
            // Regions that are already named as unsure are left out.
            let ends = unsure.iter().map(|region| region.end.get()).filter(|&end| end <= lbn);
            let first = ends.fold(first, u64::max);
            let firsts = unsure.iter().map(|region| region.first.get()).filter(|&first| first > lbn);
            let last = firsts.fold(last, |last, first| last.min(first - 1));
            if last - first < SECTORS {
                strays.moved.extend(first..=last);
            } else {
                let why =
                    "sectors there are at other angles than the map says, unlike those before and behind";
                strays.stretches.push(Unsure::new(first, last + 1, why.to_owned()));
            }
            break;
        }
    }
    strays.moved.sort_unstable();
    strays.moved.dedup();
    Ok(strays)
}

/// Extends the parts of the drive that are named as unsure, which are in ascending order, on either side to the nearest
/// sector that is where the map has it, because a stretch of sectors elsewhere need not begin and end with a part.
/// Stops when the probe has used the share `until` of its time.
pub(crate) fn extend(
    meter: &mut Meter<'_>,
    map: &Map,
    parts: &mut [Unsure],
    until: f64,
) -> Result<(), ProbeError> {
    let capacity = map.mapped.clamp(1, meter.capacity());
    for i in 0..parts.len() {
        let Some((first, end)) = parts.get(i).map(|part| (part.first.get(), part.end.get())) else { break };
        let before = i.checked_sub(1).and_then(|i| parts.get(i)).map_or(0, |part| part.end.get());
        let after = parts.get(i + 1).map_or(capacity, |part| part.first.get());
        let (mut from, mut to) = (first, end);
        if before < first && meter.is_within(until) && is_surely_elsewhere(meter, map, first - 1)? {
            from = border(meter, map, first - 1, first - 1 - before, u64::checked_sub)?;
        }
        if end < after && meter.is_within(until) && is_surely_elsewhere(meter, map, end)? {
            to = border(meter, map, end, after - 1 - end, u64::checked_add)? + 1;
        }
        if let Some(part) = parts.get_mut(i) {
            (part.first, part.end) = (Lbn::new(from), Lbn::new(to));
        }
    }
    Ok(())
}

/// Returns whether two readings of a sector agree that it is elsewhere than in the map: one may be wrong by chance.
fn is_surely_elsewhere(meter: &mut Meter<'_>, map: &Map, lbn: u64) -> Result<bool, ProbeError> {
    Ok(is_elsewhere(meter, map, lbn)? && is_elsewhere(meter, map, lbn)?)
}

/// Returns whether a sector is elsewhere than in the map; false for an unreadable one.
fn is_elsewhere(meter: &mut Meter<'_>, map: &Map, lbn: u64) -> Result<bool, ProbeError> {
    let (Some(expected), Some(angle)) = (map.predict(lbn), meter.angle_of(lbn)?) else { return Ok(false) };
    Ok(crate::revolutions::wrap(angle - expected).abs() * meter.revolution() > PREDICTED_ERROR_NS_MAX)
}

/// Returns the last sector on one side of `lbn`, among the `room` sectors there, that is elsewhere than in the map. The
/// distance is doubled until a sector is in place, and then bisected.
fn border(
    meter: &mut Meter<'_>,
    map: &Map,
    lbn: u64,
    room: u64,
    towards: fn(u64, u64) -> Option<u64>,
) -> Result<u64, ProbeError> {
    let at = |away: u64| towards(lbn, away).unwrap_or(lbn);
    let (mut inside, mut outside) = (0, 1);
    while outside <= room && is_elsewhere(meter, map, at(outside))? {
        (inside, outside) = (outside, 2 * outside);
    }
    // The end of the drive is a border, too.
    outside = outside.min(room + 1);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if is_elsewhere(meter, map, at(middle))? { inside = middle } else { outside = middle }
    }
    Ok(at(inside))
}
