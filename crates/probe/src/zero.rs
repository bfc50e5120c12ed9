//! Whether the drive may begin a read in its middle.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::turns::wrap;

/// Reads of half a track.
const READS: u32 = 24;

/// A read that ends so far from where its last sector does began in its middle, turns; and so many of all are enough.
const ELSEWHERE: f64 = 0.04;
const ENOUGH: u32 = READS / 6;

/// `None` when the bus is so slow that it makes no difference, or where no read was seen.
///
/// A drive that begins with the first sector ends with the last, wherever the platter stood. One that begins in the
/// middle, where the head came, ends there a turn later: at any angle inside of what was read.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map, bus_ns: f64) -> Result<Option<bool>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    if bus_ns * zone.sectors as f64 > meter.revolution() || zone.sectors < 4 {
        return Ok(None);
    }
    let (mut seen, mut elsewhere) = (0, 0);
    for i in 0..u64::from(READS) {
        meter.keep_phase()?;
        let tracks = zone.tracks();
        let track = meter.draw.below(tracks.saturating_sub(1).max(1));
        let n = zone.sectors_on(track);
        let half = n / 2;
        let first = zone.lbn_near(track, n / 8);
        let last = first + half - 1;
        // On one track, and without a slip in between.
        if last >= zone.end
            || zone.locate(last).0 != track
            || zone.place(last) - zone.place(first) != half - 1
        {
            continue;
        }
        // From all around the platter: some of them come in the first half of the request.
        let sector = i * n / u64::from(READS);
        meter.read(zone.lbn_near((track + 1) % tracks, sector), 1)?;
        let reading = meter.read(first, half)?;
        if reading.response_ns() < (half - 1) as f64 / n as f64 * meter.revolution() {
            // Sooner than these sectors pass: they were in the buffer.
            continue;
        }
        let ends = wrap(meter.turns_at(reading.completed) - zone.predict(last));
        seen += 1;
        elsewhere += u32::from(ends < -ELSEWHERE);
    }
    Ok((seen > READS / 3).then_some(elsewhere >= ENOUGH))
}
