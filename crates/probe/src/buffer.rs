//! The drive's buffer: how a hit looks, how many places it holds, read-ahead, and the bus.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::turns::median;
use units::{Duration, Op};

/// The most segments looked for.
const MOST_SEGMENTS: u64 = 512;

/// Longest read used to time the bus, sectors.
const BUS_SECTORS: u64 = 64;

/// How many times each question is asked.
const TRIES: usize = 7;

/// The same with what cannot be read.
const MOST_TRIES: usize = 4 * TRIES;

/// What was found of the buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// Whether a sector just read is had from the buffer.
    pub(crate) keeps: bool,
    /// Whether the sectors after one just read are.
    pub(crate) reads_ahead: bool,
    /// How many of those, at least.
    pub(crate) ahead: u64,
    /// Whether the sectors before it are.
    pub(crate) keeps_before: bool,
    /// Response of a hit of one sector, ns.
    pub(crate) hit_ns: f64,
    /// Each further sector of a hit, ns.
    pub(crate) bus_sector_ns: f64,
    /// Places it holds; 0 when it keeps nothing.
    pub(crate) segments: u64,
}

/// Asks several times at random places and waits. A read from the medium ends where its sector stands, so random
/// waits make its response anything up to a turn; hits all take the same.
fn asked(
    meter: &mut Meter<'_>,
    first_count: u64,
    offset: i64,
    count: u64,
) -> Result<(bool, f64), ProbeError> {
    let capacity = meter.capacity();
    let mut responses = Vec::new();
    for _ in 0..MOST_TRIES {
        let place = capacity / 8 + meter.draw.below(capacity / 2);
        let then = place.saturating_add_signed(offset).min(capacity - count);
        let wait = 1.0 + meter.draw.unit();
        let one = meter.read(place, first_count)?;
        let at = one.completed + Duration::from_nanos((wait * meter.revolution()) as u64);
        let two = meter.execute(at, Op::Read, then, count)?;
        if one.failed || two.failed {
            continue;
        }
        responses.push(two.response_ns());
        if responses.len() == TRIES {
            break;
        }
    }
    let middle = median(&mut responses);
    let low = responses.first().copied().unwrap_or(0.0);
    // Of seven hits the median is the rule; the medium's responses lie all over a turn.
    let near = responses.iter().filter(|&&ns| ns - low < 0.06 * meter.revolution()).count();
    Ok((near >= TRIES - 2, if near >= TRIES - 2 { low } else { middle }))
}

/// Looks at the buffer.
pub(crate) fn find(meter: &mut Meter<'_>) -> Result<Buffer, ProbeError> {
    let mut found = Buffer::default();
    let (keeps, same_ns) = asked(meter, 1, 0, 1)?;
    let (reads_ahead, next_ns) = asked(meter, 1, 1, 1)?;
    // A drive may be quicker where a command goes on from the last.
    let (jumps, jump_ns) = asked(meter, 1, 3, 1)?;
    let ahead_ns = if jumps { next_ns.max(jump_ns) } else { next_ns };
    let (keeps_before, _) = asked(meter, 1, -2, 1)?;
    found.keeps = keeps;
    found.reads_ahead = reads_ahead;
    found.keeps_before = keeps_before;
    if !keeps && !reads_ahead {
        meter.buffer_is_known();
        return Ok(found);
    }
    found.hit_ns = if keeps { same_ns } else { ahead_ns };
    if keeps && reads_ahead {
        found.hit_ns = same_ns.max(ahead_ns);
    }
    // What is longer by a few percent of a turn is the medium's.
    meter.hit_below = found.hit_ns + (0.01 * meter.revolution()).min(60_000.0);
    found.bus_sector_ns = bus(meter, &found)?;
    if reads_ahead {
        found.ahead = how_far(meter)?;
    }
    found.segments = places(meter, &found)?;
    meter.segments = found.segments;
    meter.ahead = found.ahead;
    meter.buffer_is_known();
    meter.keeps_before = found.keeps_before;
    Ok(found)
}

/// Time of a sector on the bus: longer hits take longer.
fn bus(meter: &mut Meter<'_>, found: &Buffer) -> Result<f64, ProbeError> {
    let (first, offset) = if found.keeps { (BUS_SECTORS, 0) } else { (1, 1) };
    let (hit, long) = asked(meter, first, offset, BUS_SECTORS)?;
    let (hit_one, one) = asked(meter, first, offset, 1)?;
    let slope = (long - one) / (BUS_SECTORS - 1) as f64;
    Ok(if hit && hit_one { slope.max(0.0) } else { 0.0 })
}

/// How many sectors after one are in the buffer two turns later.
fn how_far(meter: &mut Meter<'_>) -> Result<u64, ProbeError> {
    let capacity = meter.capacity();
    let mut far = 1;
    while far < capacity / 16 && far < 1 << 16 {
        let mut hits = 0;
        for _ in 0..3 {
            let place = capacity / 8 + meter.draw.below(capacity / 2);
            let one = meter.read(place, 1)?;
            let at = one.completed + Duration::from_nanos((4.3 * meter.revolution()) as u64);
            let two = meter.execute(at, Op::Read, place + 2 * far, 1)?;
            hits += u32::from(!two.failed && meter.is_hit(&two));
        }
        if hits < 2 {
            break;
        }
        far *= 2;
    }
    Ok(far)
}

/// How many other places are read until one is forgotten.
fn places(meter: &mut Meter<'_>, found: &Buffer) -> Result<u64, ProbeError> {
    let forgotten_after = |meter: &mut Meter<'_>, others: u64| -> Result<bool, ProbeError> {
        let capacity = meter.capacity();
        let mut gone = 0;
        for _ in 0..3 {
            let place = meter.draw.below(capacity - 2);
            meter.read(place, 1)?;
            for _ in 0..others {
                let other = meter.draw.below(capacity);
                meter.read(other, 1)?;
            }
            let again = if found.keeps { place } else { place + 1 };
            let reading = meter.read(again, 1)?;
            gone += u32::from(!meter.is_hit(&reading));
        }
        Ok(gone >= 2)
    };
    let mut enough = 1;
    while enough < MOST_SEGMENTS && !forgotten_after(meter, enough)? {
        enough *= 2;
    }
    let (mut low, mut high) = (enough / 2, enough);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if forgotten_after(meter, middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}
