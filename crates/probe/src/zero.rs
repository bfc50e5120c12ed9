//! Zero latency: whether the drive may begin a read, or a write, in its middle.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::revolutions::wrap;
use crate::sure::Measured;
use crate::zone::Zone;
use units::{Lbn, LbnRange, Op, Sectors};

/// The number of requests for half a track.
const REQUESTS: u32 = 24;

/// If a request ends this much before its last sector passes, in revolutions, the drive began in the middle of the
/// request; and the number of such requests that suffices as evidence.
const END_DISTANCE_REVOLUTIONS_MIN: f64 = 0.04;
const MIDDLE_STARTS_MIN: u32 = REQUESTS / 6;

/// Decides whether the drive begins in the middle of requests, after `elsewhere` of `seen` requests ended away from
/// their last sector.
///
/// The requests are half a track long, so a head that arrives at a random angle is inside the request half of the time.
/// The request then ends at another angle, which can be told from the last sector's unless the head arrived near either
/// end of the request. Without zero latency every request ends at its last sector, except for unknown causes, of which
/// one more case is assumed (Laplace's rule).
fn begins_in_middle(elsewhere: u32, seen: u32) -> Measured<bool> {
    let on = elsewhere >= MIDDLE_STARTS_MIN;
    let (with, without) = (0.5 - 2.0 * END_DISTANCE_REVOLUTIONS_MIN, 1.0 / f64::from(seen + 2));
    let (k, rest) = (f64::from(elsewhere), f64::from(seen - elsewhere));
    let ratio = k * (with / without).ln() + rest * ((1.0 - with) / (1.0 - without)).ln();
    Measured::answer(on, ratio)
}

/// Returns whether reads may begin in the middle; `None` if the bus is so slow that this makes no difference, or too
/// few reads succeeded.
pub(crate) fn reads(
    meter: &mut Meter<'_>,
    map: &Map,
    bus_ns: f64,
) -> Result<Option<Measured<bool>>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    let all = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
    find(meter, zone, Op::Read, all, bus_ns)
}

/// Returns whether writes to the medium may begin in the middle; also `None` if `region` contains no half of a track.
pub(crate) fn writes(
    meter: &mut Meter<'_>,
    map: &Map,
    region: LbnRange,
    bus_ns: f64,
) -> Result<Option<Measured<bool>>, ProbeError> {
    let inside = |z: &&Zone| z.end.min(region.end().get()).saturating_sub(z.first.max(region.start().get()));
    let Some(zone) = map.zones.iter().max_by_key(inside) else { return Ok(None) };
    // Later reads draw the same random numbers as without this measurement.
    let dice = meter.draw.clone();
    let found = find(meter, zone, Op::Write, region, bus_ns);
    meter.draw = dice;
    found
}

/// Measures requests for half a track, with the arm arriving at all angles. A drive that reads in order ends each
/// request at the angle of its last sector. A drive with zero-latency access begins where the head arrives; if that is
/// inside the request, the request ends there one revolution later, at another angle.
fn find(
    meter: &mut Meter<'_>,
    zone: &Zone,
    op: Op,
    within: LbnRange,
    bus_ns: f64,
) -> Result<Option<Measured<bool>>, ProbeError> {
    if bus_ns * zone.sectors as f64 > meter.revolution() || zone.sectors < 4 {
        return Ok(None);
    }
    // The last sector of a read crosses the bus after it has passed, as in the map's angles; that of a write does so
    // before.
    let bus_revolutions = if op.is_write() { bus_ns / meter.revolution() } else { 0.0 };
    // All data of a write must arrive before the arm does, so the arm comes from farther away.
    let away = if op.is_write() { (zone.tracks() / 3).max(1) } else { 1 };
    // The tracks that may hold sectors of `within`, to which the requests are limited.
    let first_track = zone.locate(within.start().get().max(zone.first)).0;
    let last_track = zone.locate(within.end().get().min(zone.end).saturating_sub(1).max(zone.first)).0;
    let (mut seen, mut elsewhere) = (0, 0);
    for i in 0..u64::from(REQUESTS) {
        meter.keep_phase()?;
        let tracks = zone.tracks();
        let track = first_track + meter.draw.below(last_track.saturating_sub(first_track).max(1));
        let n = zone.sectors_on(track);
        let half = n / 2;
        let first = zone.lbn_near(track, n / 8);
        let last = first + half - 1;
        // The request must lie on one track, and contain no slip.
        if last >= zone.end
            || !within.contains(Lbn::new(first))
            || !within.contains(Lbn::new(last))
            || zone.locate(last).0 != track
            || zone.place(last) - zone.place(first) != half - 1
        {
            continue;
        }
        // The moves start from all angles, so that some end inside the request.
        let sector = i * n / u64::from(REQUESTS);
        meter.read(zone.lbn_near((track + away) % tracks, sector), 1)?;
        let reading = meter.execute(meter.now(), op, first, half)?;
        if reading.failed || reading.response_ns() < (half - 1) as f64 / n as f64 * meter.revolution() {
            // The response is shorter than the passing of these sectors: it was a cache hit.
            continue;
        }
        let ends = wrap(meter.revolutions_at(reading.completed) + bus_revolutions - zone.predict(last));
        seen += 1;
        elsewhere += u32::from(ends < -END_DISTANCE_REVOLUTIONS_MIN);
    }
    Ok((seen > REQUESTS / 3).then(|| begins_in_middle(elsewhere, seen)))
}
