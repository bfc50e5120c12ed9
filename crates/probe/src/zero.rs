//! Whether the drive may begin a read in its middle.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;

/// Reads of half a track.
const READS: u32 = 24;

/// Turns between the shortest of these and the longest but one, at least, of a drive that waits for the first sector: from
/// all around the platter that is a turn less two of so many steps, and as much again for what heads differ by.
const WAITING: f64 = 1.0 - 3.0 / READS as f64;

/// Nearer to that than so many turns, a drive that does not wait is not told from one that does.
const APART: f64 = 0.06;

/// `None` when the bus is so slow that it makes no difference, or hides it.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map, bus_ns: f64) -> Result<Option<bool>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    let n = zone.sectors;
    if bus_ns * n as f64 > meter.revolution() || n < 4 {
        return Ok(None);
    }
    let half = n / 2;
    let mut turns: Vec<f64> = Vec::new();
    for i in 0..u64::from(READS) {
        let track = meter.draw.below(zone.tracks().saturating_sub(1).max(1));
        let first = zone.lbn_near(track, n / 8);
        if first + half > zone.end {
            continue;
        }
        // The arm next to it: what takes long is the platter.
        // From all around the platter: some of them come in the first half of the request.
        let sector = i * n / u64::from(READS);
        meter.read(zone.lbn_near((track + 1) % zone.tracks(), sector), 1)?;
        let reading = meter.read(first, half)?;
        turns.push(reading.response_ns() / meter.revolution());
    }
    // The medium takes half a turn; what is there sooner comes from the buffer.
    turns.retain(|&t| t >= 0.5);
    turns.sort_unstable_by(f64::total_cmp);
    // One of them may have lost a turn for a reason of its own.
    let [shortest, .., longest, _] = turns[..] else { return Ok(None) };
    // A head that comes among the sectors is done a turn later and not before, and what it read first crosses the bus
    // behind the rest; one that waits for the first sector takes up to a turn and a half. The arm's move is in all of them.
    let at_once = 0.5 + bus_ns * half as f64 / meter.revolution();
    if at_once + 2.0 * APART > WAITING {
        return Ok(None);
    }
    Ok(Some(longest - shortest < f64::midpoint(at_once, WAITING)))
}
