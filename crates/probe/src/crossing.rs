//! Whether a read over a head switch loses a revolution; the time of a move between two commands does not show that.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::revolutions::frac;
use crate::shape::{Kind, Shape};
use crate::sure::Measured;

/// The number of reads over a head switch.
const READS: u32 = 24;

/// The number of sectors on each side of the head switch.
const SIDE_SECTORS: u64 = 2;

/// The longest response of a read without a lost revolution, in revolutions beyond the passing of its sectors; the few
/// reads that wait longest for their first sector exceed it.
const ON_TIME_REVOLUTIONS_MAX: f64 = 0.85;
/// The longest of the short moves before the reads over a head switch, in revolutions.
const SHORT_MOVE_REVOLUTIONS_MAX: f64 = 1.0 / 3.0;

/// The findings about head switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// The time from the end of one track to the beginning of the next, ns.
    pub(crate) gap_ns: f64,
    /// Whether the head arrives later than the beginning of the next track, so that the read loses a revolution.
    pub(crate) lost: Measured<bool>,
}

impl Crossing {
    /// Returns the head switch time, ms, with which a profile predicts whether reads lose a revolution as found; `ms`
    /// is the time measured between commands.
    pub(crate) fn repeated_by(&self, ms: f64) -> f64 {
        let gap = self.gap_ns / 1e6;
        if self.lost.value {
            ms.max((gap * 1.02 * 1e3).ceil() / 1e3)
        } else {
            ms.min((gap * 0.98 * 1e3).floor() / 1e3)
        }
    }
}

/// Reads over the first head switch of cylinders, or of bands, in the largest zone.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    map: &Map,
    shape: Shape,
    bus_ns: f64,
) -> Result<Option<Crossing>, ProbeError> {
    let Some(zone) = map.zones.iter().max_by_key(|z| z.tracks()) else { return Ok(None) };
    let width = shape.kind.band().unwrap_or(1);
    let (period, at) = (width * shape.heads, width - 1);
    if shape.heads < 2 || shape.kind == Kind::ByZone || zone.sectors < 8 || zone.tracks() < 4 * period {
        return Ok(None);
    }
    let mut gap: f64 = 0.0;
    let mut responses = Vec::new();
    for _ in 0..READS {
        let track = meter.draw.below(zone.tracks() / period - 2) * period + at;
        let n = zone.sectors_on(track);
        let first = zone.lbn_near(track, n - SIDE_SECTORS);
        let last = first + 2 * SIDE_SECTORS - 1;
        let on_both = zone.locate(first) == (track, n - SIDE_SECTORS)
            && zone.locate(last) == (track + 1, SIDE_SECTORS - 1);
        if !on_both {
            continue;
        }
        // The arm starts nearby, so that the move is short.
        let sector = meter.draw.below(zone.sectors);
        meter.read(zone.lbn_near(track + period, sector), 1)?;
        let reading = meter.read(first, 2 * SIDE_SECTORS)?;
        let turned = frac(zone.track_angle(track + 1) - zone.track_angle(track));
        let passing = (turned + SIDE_SECTORS as f64 / n as f64) * meter.revolution();
        if reading.response_ns() < passing.max(meter.hit_below + 2.0 * SIDE_SECTORS as f64 * bus_ns) {
            // The response is shorter than the passing of these sectors: it was a cache hit.
            continue;
        }
        responses.push(reading.response_ns() / meter.revolution());
        gap = turned;
    }
    if responses.is_empty() {
        return Ok(None);
    }
    // Each read waited up to a revolution for its first sector, and a short move takes less than a third of a
    // revolution.
    let whole = gap + 2.0 * SIDE_SECTORS as f64 / zone.sectors as f64;
    let quick =
        responses.iter().filter(|&&revolutions| revolutions <= whole + ON_TIME_REVOLUTIONS_MAX).count();
    let lost = loses_revolution(quick, responses.len());
    Ok(Some(Crossing { gap_ns: gap * meter.revolution(), lost }))
}

/// Decides whether reads over a head switch lose a revolution, if `quick` of `seen` reads were quick.
///
/// Without a loss at least half of the reads are quick, although each waits for its first sector. With a loss a read
/// is quick only for another reason, as when the sectors of the first track were in the buffer; one more such case
/// than seen is assumed (Laplace's rule).
fn loses_revolution(quick: usize, seen: usize) -> Measured<bool> {
    let (without, with) = (ON_TIME_REVOLUTIONS_MAX - SHORT_MOVE_REVOLUTIONS_MAX, 1.0 / (seen + 2) as f64);
    let (k, rest) = (quick as f64, (seen - quick) as f64);
    let ratio = k * (without / with).ln() + rest * ((1.0 - without) / (1.0 - with)).ln();
    Measured::answer(ratio < 0.0, -ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_was_quick_by_chance_does_not_decide() {
        let Measured { value: lost, sure } = loses_revolution(0, 24);
        assert!(lost && sure > 0.999);
        let Measured { value: lost, sure } = loses_revolution(1, 24);
        assert!(lost && sure > 0.99, "{sure}");
        let Measured { value: lost, sure } = loses_revolution(12, 24);
        assert!(!lost && sure > 0.999);
        let few = loses_revolution(1, 3).sure;
        assert!(few < 0.95, "{few}");
    }
}
