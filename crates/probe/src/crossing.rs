//! Whether a read that goes on to the next head loses a revolution: what the moves between commands may hide.

use crate::error::ProbeError;
use crate::geometry::{Kind, Shape};
use crate::mapping::Map;
use crate::meter::Meter;
use crate::turns::frac;

/// Reads over a change of head.
const READS: u32 = 24;

/// Sectors on each side.
const EACH_SIDE: u64 = 2;

/// What a read that loses nothing takes beyond the passing of its sectors, but for the unluckiest, and a short move at most, turns.
const LOST: f64 = 0.85;
const LONGEST_MOVE: f64 = 1.0 / 3.0;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// From the end of one track to the beginning of the next, ns.
    pub(crate) gap_ns: f64,
    /// Whether the head is not there in that time.
    pub(crate) lost: bool,
    /// How likely that is.
    pub(crate) sure: f64,
}

impl Crossing {
    /// What a profile must have for a change of head, which takes `ms` between commands, to repeat what was seen.
    pub(crate) fn repeated_by(&self, ms: f64) -> f64 {
        let gap = self.gap_ns / 1e6;
        if self.lost {
            ms.max((gap * 1.02 * 1e3).ceil() / 1e3)
        } else {
            ms.min((gap * 0.98 * 1e3).floor() / 1e3)
        }
    }
}

/// Reads over the first change of head of cylinders, or of bands, in the largest zone.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    map: &Map,
    shape: Shape,
    bus_ns: f64,
) -> Result<Option<Crossing>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    let (period, at) = match shape.kind {
        Kind::Bands(width) => (width * shape.heads, width - 1),
        _ => (shape.heads, 0),
    };
    if shape.heads < 2 || zone.sectors < 8 || zone.tracks() < 4 * period {
        return Ok(None);
    }
    let mut gap: f64 = 0.0;
    let mut responses = Vec::new();
    for _ in 0..READS {
        let track = meter.draw.below(zone.tracks() / period - 2) * period + at;
        let n = zone.sectors_on(track);
        let first = zone.lbn_near(track, n - EACH_SIDE);
        let last = first + 2 * EACH_SIDE - 1;
        let on_both =
            zone.locate(first) == (track, n - EACH_SIDE) && zone.locate(last) == (track + 1, EACH_SIDE - 1);
        if !on_both {
            continue;
        }
        // From next to it, so that the move is short.
        let sector = meter.draw.below(zone.sectors);
        meter.read(zone.lbn_near(track + period, sector), 1)?;
        let reading = meter.read(first, 2 * EACH_SIDE)?;
        let turned = frac(zone.track_angle(track + 1) - zone.track_angle(track));
        let passing = (turned + EACH_SIDE as f64 / n as f64) * meter.revolution();
        if reading.response_ns() < passing.max(meter.hit_below + 2.0 * EACH_SIDE as f64 * bus_ns) {
            // Sooner than these sectors pass: they were in the buffer.
            continue;
        }
        responses.push(reading.response_ns() / meter.revolution());
        gap = turned;
    }
    if responses.is_empty() {
        return Ok(None);
    }
    // Each waited up to a turn before its first sector, and a short move takes less than a third of one.
    let whole = gap + 2.0 * EACH_SIDE as f64 / zone.sectors as f64;
    let quick = responses.iter().filter(|&&turns| turns <= whole + LOST).count();
    let (lost, sure) = told(quick, responses.len());
    Ok(Some(Crossing { gap_ns: gap * meter.revolution(), lost, sure }))
}

/// Whether reads of which so many were quick lose a turn, and how likely that is against the other.
///
/// Of reads that lose nothing half are quick or more, whatever they waited for. Of those that lose a turn none is but for a reason of
/// its own (the sectors of the first track were in the buffer), of which one more is taken to come (Laplace's rule).
fn told(quick: usize, seen: usize) -> (bool, f64) {
    let (without, with) = (LOST - LONGEST_MOVE, 1.0 / (seen + 2) as f64);
    let (k, rest) = (quick as f64, (seen - quick) as f64);
    let ratio = k * (without / with).ln() + rest * ((1.0 - without) / (1.0 - with)).ln();
    (ratio < 0.0, 1.0 / (1.0 + (-ratio.abs()).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_was_quick_by_chance_does_not_decide() {
        let (lost, sure) = told(0, 24);
        assert!(lost && sure > 0.999);
        let (lost, sure) = told(1, 24);
        assert!(lost && sure > 0.99, "{sure}");
        let (lost, sure) = told(12, 24);
        assert!(!lost && sure > 0.999);
        let (_, few) = told(1, 3);
        assert!(few < 0.95, "{few}");
    }
}
