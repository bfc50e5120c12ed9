//! Whether the drive may begin a read in its middle.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;

/// Reads of half a track.
const READS: u32 = 24;

/// `None` when the bus is so slow that it makes no difference.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map, bus_ns: f64) -> Result<Option<bool>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    let n = zone.sectors;
    if bus_ns * n as f64 > meter.revolution() || n < 4 {
        return Ok(None);
    }
    let half = n / 2;
    let mut longest: f64 = 0.0;
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
        longest = longest.max(reading.response_ns() / meter.revolution());
    }
    // A head that comes among the sectors is done a turn later, or waits for the first: up to a turn and a half.
    Ok(Some(longest < 1.0 + 0.5 * 0.5 + 0.12))
}
