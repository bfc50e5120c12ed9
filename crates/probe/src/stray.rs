//! Reads that came at other angles than the map has: looked at again, and where what they met begins and ends.
//!
//! A zone is taken to be as regular as the few tracks that were measured. Tracks in its middle that break its rule, and change
//! nothing for those behind them, only show when a random read meets one of them.

use crate::check::{NEAR, SECTORS};
use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::report::Unsure;
use units::Lbn;

/// Reads that are looked at again, at most, and stretches that are told, at most: a drive that has more of them is not understood.
const MOST_LOOKS: usize = 32;
const MOST_STRETCHES: usize = 8;

/// What reads met that came at other angles.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Stretches where sectors stand elsewhere.
    pub(crate) stretches: Vec<Unsure>,
    /// LBNs that stand elsewhere alone.
    pub(crate) moved: Vec<u64>,
}

/// Repeats reads of the final check whose sectors passed at other angles than the map says. `strange` has their first LBNs; those in
/// regions that are `unsure` already are left out. It ends when the probe has used the share `until` of its time.
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
        let told = |lbn: u64, named: &[Unsure]| {
            named.iter().any(|region| (region.first.get()..region.end.get()).contains(&lbn))
        };
        let sectors = lbn..(lbn + SECTORS).min(capacity);
        if sectors.clone().any(|lbn| told(lbn, unsure) || told(lbn, &strays.stretches)) {
            continue;
        }
        if looks == MOST_LOOKS || strays.stretches.len() == MOST_STRETCHES || !meter.is_within(until) {
            break;
        }
        looks += 1;
        meter.find_phase()?;
        // Downward, for read-ahead goes up.
        for lbn in sectors.rev() {
            if !is_surely_elsewhere(meter, map, lbn)? {
                continue;
            }
            let first = border(meter, map, lbn, lbn, u64::checked_sub)?;
            let last = border(meter, map, lbn, capacity - 1 - lbn, u64::checked_add)?;
            // What is told already is not told twice.
            let ends = unsure.iter().map(|region| region.end.get()).filter(|&end| end <= lbn);
            let first = ends.fold(first, u64::max);
            let firsts = unsure.iter().map(|region| region.first.get()).filter(|&first| first > lbn);
            let last = firsts.fold(last, |last, first| last.min(first - 1));
            if last - first < SECTORS {
                strays.moved.extend(first..=last);
            } else {
                let why =
                    "sectors there stand elsewhere than the map has them, unlike those before and behind";
                strays.stretches.push(Unsure::new(first, last + 1, why.to_owned()));
            }
            break;
        }
    }
    strays.moved.sort_unstable();
    strays.moved.dedup();
    Ok(strays)
}

/// Extends parts of the drive that are named, in ascending order, to where the sectors on either side of them stand where the map has
/// them again: a stretch need not begin and end where a part does. Stops when a share `until` of the time is over.
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

/// Whether two readings of a sector both say that it stands elsewhere: one may be chance where readings vary.
fn is_surely_elsewhere(meter: &mut Meter<'_>, map: &Map, lbn: u64) -> Result<bool, ProbeError> {
    Ok(is_elsewhere(meter, map, lbn)? && is_elsewhere(meter, map, lbn)?)
}

/// Whether a sector stands elsewhere than the map has it; of one that cannot be read nothing is known.
fn is_elsewhere(meter: &mut Meter<'_>, map: &Map, lbn: u64) -> Result<bool, ProbeError> {
    let (Some(expected), Some(angle)) = (map.predict(lbn), meter.angle_of(lbn)?) else { return Ok(false) };
    Ok(crate::turns::wrap(angle - expected).abs() * meter.revolution() > NEAR)
}

/// The last sector on one side of one that stands elsewhere that does so too, of the `room` sectors on that side: looked for
/// ever farther away, then by halving.
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
    // The drive's end is one, too.
    outside = outside.min(room + 1);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if is_elsewhere(meter, map, at(middle))? { inside = middle } else { outside = middle }
    }
    Ok(at(inside))
}
