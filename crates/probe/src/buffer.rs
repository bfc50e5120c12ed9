//! The drive's buffer: how a hit looks, how many places it holds, read-ahead, and the bus.

use crate::error::ProbeError;
use crate::meter::Meter;
use units::{Duration, Op};

/// The most segments looked for.
const MOST_SEGMENTS: u64 = 512;

/// Longest read used to time the bus, sectors.
const BUS_SECTORS: u64 = 64;

/// How many times each question is asked.
const TRIES: usize = 7;

/// Hits that hardly vary are so near to the quickest, turns.
const NEAR: f64 = 0.06;

/// Hits that vary: a few that lie in a third of a turn may be, and are where four fifths of many do. Of the medium's responses, which
/// lie all over a turn, one in a hundred such few do, and of as many as are asked for then one in a million.
const MANY: usize = 24;
const MOST_OF_MANY: f64 = 0.8;
const MANY_WITHIN: f64 = 0.35;

/// To what the mean of hits that vary is to be known, ns, of no more than so many.
const MEAN_WITHIN: f64 = 25_000.0;
const MOST_ASKED: usize = 160;

/// Of hits no more than this share takes longer than what is told for one.
const SLOW_HITS: f64 = 0.01;

/// Beyond the slowest of some evenly spread ones, so many mean distances between two of them: one in some hundred lies further.
const BEYOND: f64 = 3.0;

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
    /// The same of one that goes on where the last read ended, which costs some drives less.
    pub(crate) on_ns: f64,
    /// Each further sector of a hit, ns.
    pub(crate) bus_sector_ns: f64,
    /// Whether hits told that.
    pub(crate) tells_bus: bool,
    /// Places it holds; 0 when it keeps nothing.
    pub(crate) segments: u64,
    /// How likely it is as many.
    pub(crate) segments_sure: f64,
    /// Whether hits vary by so much that a read from the medium may be as quick.
    pub(crate) vary: bool,
}

/// Responses to one question.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Whether they came from the buffer.
    hit: bool,
    /// What one takes, ns: the least where they hardly vary, the mean where they do.
    ns: f64,
    /// What one takes at most, ns: no more than one in some hundred takes longer.
    most: f64,
}

/// What hits differ by at most where they hardly vary, ns: some percent of a turn are the medium's.
fn margin(meter: &Meter<'_>) -> f64 {
    (0.01 * meter.revolution()).min(60_000.0)
}

/// Asks several times at random places and waits. A read from the medium ends where its sector stands, so random waits make
/// its response anything up to a turn; hits take the same, or vary by less than a turn.
///
/// Of a few the rule tells, where hits vary by little. Where it does not, though the few lie nearer to one another than a third of
/// a turn, many are asked for; and where hits vary, so many that their mean is known.
fn asked(meter: &mut Meter<'_>, first_count: u64, offset: i64, count: u64) -> Result<Asked, ProbeError> {
    let mut responses = Vec::new();
    ask(meter, &mut responses, TRIES, (first_count, offset, count))?;
    let turn = meter.revolution();
    let low = responses.first().copied().unwrap_or(0.0);
    let near = responses.iter().filter(|&&ns| ns - low < NEAR * turn).count();
    let mut hit = near >= TRIES - 2;
    if !hit && narrowest(&responses, 1.0) < MANY_WITHIN * turn {
        ask(meter, &mut responses, MANY, (first_count, offset, count))?;
        hit = narrowest(&responses, MOST_OF_MANY) < MANY_WITHIN * turn;
    }
    let middle = responses.get(responses.len() / 2).copied().unwrap_or(0.0);
    if !hit {
        return Ok(Asked { hit, ns: middle, most: middle });
    }
    // What waited for something else does not count.
    if responses.iter().filter(|&&ns| ns - low <= margin(meter)).count() >= TRIES - 2 {
        responses.retain(|ns| ns - low < NEAR * turn);
        let high = responses.last().copied().unwrap_or(low);
        return Ok(Asked { hit, ns: low, most: high + BEYOND * (high - low) / responses.len() as f64 });
    }
    // Evenly spread ones have their mean known to so much of their range.
    let of_hits = |responses: &mut Vec<f64>| responses.retain(|ns| (ns - middle).abs() < MANY_WITHIN * turn);
    of_hits(&mut responses);
    let range = |of: &[f64]| (of.first().copied().unwrap_or(0.0), of.last().copied().unwrap_or(0.0));
    let (low, high) = range(&responses);
    let wanted = ((high - low) / MEAN_WITHIN).powi(2) / 12.0;
    let more = (wanted as usize).clamp(MANY, MOST_ASKED).saturating_sub(responses.len());
    ask(meter, &mut responses, more, (first_count, offset, count))?;
    of_hits(&mut responses);
    let n = responses.len().max(1) as f64;
    let (low, high) = range(&responses);
    let mean = responses.iter().sum::<f64>() / n;
    Ok(Asked { hit, ns: mean, most: high + BEYOND * (high - low) / n })
}

/// Asks so many times more; the responses, ascending.
fn ask(
    meter: &mut Meter<'_>,
    responses: &mut Vec<f64>,
    times: usize,
    (first_count, offset, count): (u64, i64, u64),
) -> Result<(), ProbeError> {
    let capacity = meter.capacity();
    let enough = responses.len() + times;
    // Some meet what cannot be read.
    for _ in 0..4 * times {
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
        if responses.len() == enough {
            break;
        }
    }
    responses.sort_unstable_by(f64::total_cmp);
    Ok(())
}

/// How near this share of the responses lie to one another, ns.
fn narrowest(responses: &[f64], share: f64) -> f64 {
    let of = ((responses.len() as f64 * share) as usize).max(1);
    let widths = responses.windows(of).map(|some| match (some.first(), some.last()) {
        (Some(low), Some(high)) => high - low,
        _ => f64::MAX,
    });
    widths.fold(f64::MAX, f64::min)
}

/// Looks at the buffer.
pub(crate) fn find(meter: &mut Meter<'_>) -> Result<Buffer, ProbeError> {
    let mut found = Buffer::default();
    let same = asked(meter, 1, 0, 1)?;
    let next = asked(meter, 1, 1, 1)?;
    // A drive may be quicker where a command goes on from the last.
    let jump = asked(meter, 1, 3, 1)?;
    let ahead_ns = if jump.hit { next.ns.max(jump.ns) } else { next.ns };
    let before = asked(meter, 1, -2, 1)?;
    let (keeps, reads_ahead) = (same.hit, next.hit);
    found.keeps = keeps;
    found.reads_ahead = reads_ahead;
    found.keeps_before = before.hit;
    if !keeps && !reads_ahead {
        meter.buffer_is_known();
        return Ok(found);
    }
    found.hit_ns = if keeps { same.ns } else { ahead_ns };
    if keeps && reads_ahead {
        found.hit_ns = same.ns.max(ahead_ns);
    }
    let costs_less = next.hit && next.ns < found.hit_ns - margin(meter);
    found.on_ns = if costs_less { next.ns } else { found.hit_ns };
    // What is longer by a few percent of a turn is the medium's, unless hits vary by more.
    let hits = [same, next, jump, before].into_iter().filter(|asked| asked.hit);
    let most = hits.map(|asked| asked.most).fold(0.0, f64::max);
    found.vary = most > found.hit_ns + margin(meter);
    meter.hit_below = f64::max(found.hit_ns + margin(meter), most);
    if let Some(ns) = bus(meter, &found)? {
        (found.bus_sector_ns, found.tells_bus) = (ns, true);
    }
    if reads_ahead {
        found.ahead = how_far(meter)?;
    }
    (found.segments, found.segments_sure) = places(meter, &found)?;
    meter.segments = found.segments;
    meter.ahead = found.ahead;
    meter.buffer_is_known();
    meter.keeps_before = found.keeps_before;
    Ok(found)
}

/// Time of a sector on the bus: longer hits take longer. `None` where they are no hits.
fn bus(meter: &mut Meter<'_>, found: &Buffer) -> Result<Option<f64>, ProbeError> {
    let (first, offset) = if found.keeps { (BUS_SECTORS, 0) } else { (1, 1) };
    let long = asked(meter, first, offset, BUS_SECTORS)?;
    let one = asked(meter, first, offset, 1)?;
    let slope = (long.ns - one.ns) / (BUS_SECTORS - 1) as f64;
    Ok((long.hit && one.hit).then_some(slope.max(0.0)))
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

/// How many other places are read until one is forgotten, and how likely it is as many.
fn places(meter: &mut Meter<'_>, found: &Buffer) -> Result<(u64, f64), ProbeError> {
    // Where one does not tell a hit, more do.
    let looks = if found.vary { 9 } else { 3 };
    let mut seen: Vec<Looks> = Vec::new();
    let mut forgotten_after = |meter: &mut Meter<'_>, others: u64| -> Result<bool, ProbeError> {
        let capacity = meter.capacity();
        let mut gone = 0;
        for _ in 0..looks {
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
        seen.push(Looks { others, gone, of: looks });
        Ok(2 * gone > looks)
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
    // What is read from the medium stands anywhere.
    let quick = (meter.hit_below / meter.revolution()).clamp(SLOW_HITS, 0.5);
    Ok((high, sure_of_places(high, &seen, quick)))
}

/// Of so many looks at a place, after so many others were read, so often it was forgotten.
#[derive(Clone, Copy, Debug)]
struct Looks {
    others: u64,
    gone: u32,
    of: u32,
}

/// How likely a buffer has so many places, each number as likely beforehand, if that is given up which was not asked for the longest:
/// of reads from the medium this share is as quick as a hit.
fn sure_of_places(places: u64, seen: &[Looks], quick: f64) -> f64 {
    let log_of = |places: u64| -> f64 {
        let of = |looks: &Looks| {
            let gone = if looks.others >= places { 1.0 - quick } else { SLOW_HITS };
            f64::from(looks.gone) * gone.ln() + f64::from(looks.of - looks.gone) * (1.0 - gone).ln()
        };
        seen.iter().map(of).sum()
    };
    let own = log_of(places);
    // There may be more than are looked for.
    1.0 / (1..=2 * MOST_SEGMENTS).map(|other| (log_of(other) - own).exp()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_as_sure_as_the_looks_at_their_neighbours() {
        let seen = |below: u32, at: u32, of: u32| {
            let looks = |others, gone| Looks { others, gone, of };
            [looks(1, 0), looks(2, 0), looks(4, below), looks(8, of), looks(6, of), looks(5, at)]
        };
        // Three looks each that leave no doubt: what is left is that all of three reads from the medium were quick.
        let three = sure_of_places(5, &seen(0, 3, 3), 0.1);
        assert!((0.99..0.999_99).contains(&three), "{three}");
        // The more reads are as quick as hits the less they tell, and the more looks there are the more.
        let quick = sure_of_places(5, &seen(0, 3, 3), 0.4);
        assert!(quick < three && sure_of_places(5, &seen(0, 9, 9), 0.4) > quick, "{quick}");
        // One that was not forgotten, and one that was.
        assert!(sure_of_places(5, &seen(0, 2, 3), 0.1) < three);
        assert!(sure_of_places(5, &seen(1, 3, 3), 0.1) < three);
        // Nothing was ever forgotten: there may be any number more.
        let never: Vec<Looks> = [1, 2, 4, 8, 256, 384, 448, 480, 496, 504, 508, 510, 511]
            .map(|others| Looks { others, gone: 0, of: 3 })
            .to_vec();
        assert!(sure_of_places(MOST_SEGMENTS, &never, 0.1) < 0.01);
    }
}
