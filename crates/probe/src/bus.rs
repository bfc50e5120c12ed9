//! The bus of a drive without a cache, from reads of the medium.
//!
//! Sectors cross the bus in order, each after it has passed under the head. On a bus slower than the medium the sectors
//! queue: each further sector before the last one delays the end of the read by the difference between bus and medium.
//! On a faster bus the read ends when the last sector has passed, whatever the number of sectors before it.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::revolutions::wrap;
use crate::sure::{self, Measured};
use crate::zone::Zone;

/// The number of sectors of the longest read.
const READ_SECTORS_MAX: u64 = 32;
/// The longest read covers at most one in this many parts of a track, so that the head seldom arrives inside its range.
const READ_TRACK_DIVISOR: u64 = 8;

/// The number of reads of each length below the longest, for a first estimate, and of reads of the longest and of
/// single sectors, for the result.
const READS: usize = 9;
const READS_TO_TELL: usize = 96;

/// The rank of the response that counts as the minimum: two wrong readings below it do not matter.
const MINIMUM_RANK: usize = 2;

/// The assumed error of the minimum, in mean distances between neighbouring responses: if responses are evenly spread,
/// the third one is about this far above the shortest possible.
const ALLOWANCE_MEAN_GAPS: f64 = 3.0;

/// A zone with less than one in this many of the drive's LBNs affects few reads, so the bus is not measured there.
const SMALL_ZONE_DIVISOR: u64 = 50;

/// The least delay of the longest read that counts as a slow bus, ns: half of the tolerance of a prediction.
const DELAY_NS_MIN: f64 = 25_000.0;

/// Measures reads on the densest tracks, where the medium is fastest. Returns the time of each further sector on the
/// bus, ns, with the probability that a request of [`READ_SECTORS_MAX`] is predicted within 50 us; `None` if the bus is
/// not measurably slower than the medium.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map) -> Result<Option<Measured<f64>>, ProbeError> {
    let enough = |z: &&Zone| z.lbns() >= (meter.capacity() / SMALL_ZONE_DIVISOR).max(1);
    let Some(zone) = map.zones.iter().filter(enough).max_by_key(|z| z.sectors_on(0)) else {
        return Ok(None);
    };
    let most = READ_SECTORS_MAX.min(zone.sectors_on(0) / READ_TRACK_DIVISOR);
    let revolution = meter.revolution();
    // The delay of each further sector, ns. Lengths only double, because the delay predicted for the next length must
    // be accurate to much less than half a revolution.
    let mut each = 0.0;
    let mut sectors = 2;
    while 2 * sectors <= most {
        let Some((later, _)) = least(meter, zone, sectors, (each, READS))? else { return Ok(None) };
        each = later / (sectors - 1) as f64;
        sectors *= 2;
    }
    let one = least(meter, zone, 1, (0.0, READS_TO_TELL))?;
    let many = least(meter, zone, sectors, (each, READS_TO_TELL))?;
    let (Some((one, one_to)), Some((many, many_to))) = (one, many) else { return Ok(None) };
    let (later, to) = (many - one, one_to + many_to);
    if later < DELAY_NS_MIN.max(to) {
        return Ok(None);
    }
    let (more, longest) = ((sectors - 1) as f64, (READ_SECTORS_MAX - 1) as f64);
    let sure = sure::of_bounds(to * longest / more, sure::EQUAL_TIMES_MS_MAX * 1e6);
    Ok(Some(Measured { value: revolution / zone.sectors_on(0) as f64 + later / more, sure }))
}

/// Returns the least delay of reads of this many sectors, relative to the passing of their last sector, and the
/// accuracy of that delay, ns; `each` is the approximate delay per further sector, ns.
///
/// The minimum shows the bus, because a drive may wait for a varying number of sectors before it transfers the first.
fn least(
    meter: &mut Meter<'_>,
    zone: &Zone,
    sectors: u64,
    (each, reads): (f64, usize),
) -> Result<Option<(f64, f64)>, ProbeError> {
    let revolution = meter.revolution();
    let about = each * (sectors - 1) as f64 / revolution;
    let mut later = Vec::new();
    for _ in 0..reads {
        if let Some(revolutions) = later_by(meter, zone, sectors)? {
            later.push((about + wrap(revolutions - about)) * revolution);
        }
    }
    later.sort_unstable_by(f64::total_cmp);
    let (from, to) = (MINIMUM_RANK, later.len().saturating_sub(MINIMUM_RANK + 1));
    let ends = later.get(from).zip(later.get(to)).filter(|_| later.len() > reads / 2);
    Ok(ends.map(|(low, high)| (*low, ALLOWANCE_MEAN_GAPS * (high - low).max(0.0) / later.len() as f64)))
}

/// Reads this many sectors at random; returns the delay of the end relative to the passing of the last sector, as a
/// fraction of a revolution. Returns `None` for a cache hit and for a range that is not on one regular track.
fn later_by(meter: &mut Meter<'_>, zone: &Zone, sectors: u64) -> Result<Option<f64>, ProbeError> {
    meter.keep_phase()?;
    let tracks = zone.tracks();
    let track = meter.draw.below(tracks);
    let n = zone.sectors_on(track);
    let first = zone.lbn_near(track, meter.draw.below(n.saturating_sub(sectors).max(1)));
    let last = first + sectors - 1;
    // The sectors must lie on one track as dense as the zone's others, without a slip or remapped sector in between.
    if n != zone.sectors_on(0)
        || last >= zone.end
        || zone.locate(first).0 != track
        || zone.locate(last).0 != track
        || zone.place(last) - zone.place(first) != sectors - 1
        || zone.odd.iter().any(|odd| (first..=last).contains(odd))
    {
        return Ok(None);
    }
    // The arm starts nearby, so that the move is short.
    let aside = meter.draw.below(n);
    meter.read(zone.lbn_near((track + 1) % tracks, aside), 1)?;
    let reading = meter.read(first, sectors)?;
    // The response is shorter than the passing of these sectors: it was a cache hit.
    if reading.failed || reading.response_ns() < (sectors - 1) as f64 / n as f64 * meter.revolution() {
        return Ok(None);
    }
    Ok(Some(wrap(meter.revolutions_at(reading.completed) - zone.predict(last))))
}
