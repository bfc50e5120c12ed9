//! The bus of a drive from whose buffer nothing comes: what reads from the medium show of it.
//!
//! Sectors cross the bus in order, none before it has passed. Over one that is slower than the medium they queue, and a read
//! of more sectors that end with the same one is done later, by what the bus takes more than the medium for each of them. Over
//! one that is faster it is done when the last one is there, however many were before it, and nothing depends on the bus.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::sure;
use crate::turns::wrap;
use crate::zone::Zone;

/// Sectors of the longest read; and no more than this share of a track, so that few begin in the middle of one.
const MOST_SECTORS: u64 = 32;
const OF_A_TRACK: u64 = 8;

/// Reads of each length that leads to the longest, and of that and of single sectors.
const READS: usize = 9;
const READS_TO_TELL: usize = 96;

/// Which of them, from the least on, is taken for the least: two that went wrong do not matter.
const LEAST_BUT: usize = 2;

/// The least there can be is no more than so many mean distances between two below that: one in some hundred lies further.
const BEYOND: f64 = 3.0;

/// A zone of fewer than this share of the LBNs matters to few reads.
const FEW: u64 = 50;

/// What sectors that wait make of a longest read at least, ns: half of what counts as predicted.
const LEAST: f64 = 25_000.0;

/// A bus that is slower than the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    /// Each sector, ns.
    pub(crate) sector_ns: f64,
    /// How likely a request of [`MOST_SECTORS`] is right to 50 us.
    pub(crate) sure: f64,
}

/// Looks at reads on the densest tracks, where the medium is quickest; `None` of a bus that is no slower, or is not told from one.
pub(crate) fn find(meter: &mut Meter<'_>, map: &Map) -> Result<Option<Slow>, ProbeError> {
    let enough = |z: &&Zone| z.lbns() >= (meter.capacity() / FEW).max(1);
    let Some(zone) = map.zones.iter().filter(enough).max_by_key(|z| z.sectors_on(0)) else {
        return Ok(None);
    };
    let most = MOST_SECTORS.min(zone.sectors_on(0) / OF_A_TRACK);
    let turn = meter.revolution();
    // What each sector more adds, ns: what is to come of twice as many is known to much less than half a turn.
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
    if later < LEAST.max(to) {
        return Ok(None);
    }
    let (more, longest) = ((sectors - 1) as f64, (MOST_SECTORS - 1) as f64);
    let sure = sure::of_bounds(to * longest / more, sure::NEAR_MS * 1e6);
    Ok(Some(Slow { sector_ns: turn / zone.sectors_on(0) as f64 + later / more, sure }))
}

/// By how much, at least, reads of so many sectors are done later than their last one should be alone, and to what that is known,
/// ns; `each` is about what each more adds.
///
/// How many sectors a drive lets come before it begins to hand them over may vary, from one on: it is the least that tells the bus.
fn least(
    meter: &mut Meter<'_>,
    zone: &Zone,
    sectors: u64,
    (each, reads): (f64, usize),
) -> Result<Option<(f64, f64)>, ProbeError> {
    let turn = meter.revolution();
    let about = each * (sectors - 1) as f64 / turn;
    let mut later = Vec::new();
    for _ in 0..reads {
        if let Some(turns) = later_by(meter, zone, sectors)? {
            later.push((about + wrap(turns - about)) * turn);
        }
    }
    later.sort_unstable_by(f64::total_cmp);
    let (from, to) = (LEAST_BUT, later.len().saturating_sub(LEAST_BUT + 1));
    let ends = later.get(from).zip(later.get(to)).filter(|_| later.len() > reads / 2);
    Ok(ends.map(|(low, high)| (*low, BEYOND * (high - low).max(0.0) / later.len() as f64)))
}

/// By how many turns, up to whole ones, a read of so many sectors of a track is done later than one of its last alone.
fn later_by(meter: &mut Meter<'_>, zone: &Zone, sectors: u64) -> Result<Option<f64>, ProbeError> {
    meter.keep_phase()?;
    let tracks = zone.tracks();
    let track = meter.draw.below(tracks);
    let n = zone.sectors_on(track);
    let first = zone.lbn_near(track, meter.draw.below(n.saturating_sub(sectors).max(1)));
    let last = first + sectors - 1;
    // On one track as dense as the others, without a slip or a sector that stands elsewhere in between.
    if n != zone.sectors_on(0)
        || last >= zone.end
        || zone.locate(first).0 != track
        || zone.locate(last).0 != track
        || zone.place(last) - zone.place(first) != sectors - 1
        || zone.odd.iter().any(|odd| (first..=last).contains(odd))
    {
        return Ok(None);
    }
    // From near by, so that the move is short.
    let aside = meter.draw.below(n);
    meter.read(zone.lbn_near((track + 1) % tracks, aside), 1)?;
    let reading = meter.read(first, sectors)?;
    // Sooner than these sectors pass: they were in the buffer.
    if reading.failed || reading.response_ns() < (sectors - 1) as f64 / n as f64 * meter.revolution() {
        return Ok(None);
    }
    Ok(Some(wrap(meter.turns_at(reading.completed) - zone.predict(last))))
}
