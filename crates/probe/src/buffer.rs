//! The drive's buffer: the time of a cache hit, the number of segments, read-ahead, and the bus.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::sure::Measured;
use units::{Duration, Op};

/// The most segments that are counted: 512 MB in segments of 64 KiB.
const SEGMENTS_MAX: u64 = 8_192;

/// Buffers of up to this many segments are counted by reading one sector again after reads of a varied number of
/// others; for more segments that takes too long.
const REREAD_SEGMENTS_MAX: u64 = 32;

/// One count reads up to this many places even if a drive is too small to keep them apart; the places are then random.
const RANDOM_READS_MAX: u64 = 512;

/// The most passes that count the segments.
const PASSES_MAX: usize = 4;
/// The confidence in a count that ends counting.
const COUNT_CONFIDENCE_MIN: f64 = 0.99;
/// The share of the probe's time limit after which no further count begins.
const TIME_SHARE_MAX: f64 = 0.12;

/// The number of sectors of the long cache hits that time the bus.
const BUS_SECTORS: u64 = 64;

/// The number of reads that test whether a sector is in the buffer.
const READS_PER_QUESTION: usize = 7;

/// Responses of which all but two lie in a range of this width, in revolutions, are cache hits that hardly vary.
const HIT_RANGE_REVOLUTIONS: f64 = 0.06;

/// Cache hits that vary: if the first few responses lie within a third of a revolution, they may be hits.
/// `VARYING_HITS_READS_MIN` further reads then decide: they are hits if four fifths of all responses lie in such a
/// range. Responses of the medium, which are spread over a revolution, pass the first test by chance once in a hundred
/// times, and both once in a million.
const VARYING_HITS_READS_MIN: usize = 24;
const VARYING_HITS_SHARE_MIN: f64 = 0.8;
const VARYING_HITS_REVOLUTIONS_MAX: f64 = 0.35;

/// The standard error wanted for the mean of hits that vary, in ns.
const MEAN_ERROR_NS_MAX: f64 = 25_000.0;
/// The most reads for the mean of hits that vary.
const VARYING_HITS_READS_MAX: usize = 160;

/// The assumed share of hits that take longer than `Asked::most`.
const SLOW_HITS_SHARE_MAX: f64 = 0.01;

/// The allowance beyond the slowest of some evenly spread responses, in mean distances between two neighbouring
/// responses: about one response in a hundred exceeds it.
const ALLOWANCE_MEAN_GAPS: f64 = 3.0;

/// The findings about the buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// Whether a read of a sector just read is a hit.
    pub(crate) keeps: bool,
    /// Whether a read of the sectors after one just read is a hit.
    pub(crate) reads_ahead: bool,
    /// The number of sectors that the drive reads ahead, at least.
    pub(crate) ahead: u64,
    /// Whether a read of the sectors before one just read is a hit.
    pub(crate) keeps_before: bool,
    /// The response of a hit of one sector, ns.
    pub(crate) hit_ns: f64,
    /// The response of a hit that continues the last read, ns, which is shorter on some drives.
    pub(crate) on_ns: f64,
    /// The time of each further sector of a hit, ns.
    pub(crate) bus_sector_ns: f64,
    /// Whether `bus_sector_ns` was measured from hits.
    pub(crate) tells_bus: bool,
    /// The number of segments; 0 without a cache.
    pub(crate) segments: Measured<u64>,
    /// Whether the responses of hits vary so much that a read from the medium may be as quick.
    pub(crate) vary: bool,
}

/// The responses of reads that test whether a sector is in the buffer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Whether the responses came from the buffer.
    hit: bool,
    /// The response time, ns: the minimum if hits hardly vary, the mean if they do.
    ns: f64,
    /// The longest response time, ns: about one response in a hundred takes longer.
    most: f64,
}

/// Returns the largest difference between hits that hardly vary, ns: responses of the medium differ by some percent of a
/// revolution.
fn margin(meter: &Meter<'_>) -> f64 {
    (0.01 * meter.revolution()).min(60_000.0)
}

/// Reads `first_count` sectors at a random place, waits for a random time, and reads `count` sectors `offset` behind
/// that place; repeats this several times. A read from the medium ends when its sector has passed, so random waits
/// spread its response over a revolution; hits take equal times, or vary by less than a revolution.
///
/// A few reads suffice if hits vary little. If they vary but lie within a third of a revolution, many reads are made, and
/// further ones until the mean of the hits is known.
fn asked(meter: &mut Meter<'_>, first_count: u64, offset: i64, count: u64) -> Result<Asked, ProbeError> {
    let mut responses = Vec::new();
    ask(meter, &mut responses, READS_PER_QUESTION, (first_count, offset, count))?;
    let revolution = meter.revolution();
    let low = responses.first().copied().unwrap_or(0.0);
    let near = responses.iter().filter(|&&ns| ns - low < HIT_RANGE_REVOLUTIONS * revolution).count();
    let mut hit = near >= READS_PER_QUESTION - 2;
    if !hit && narrowest(&responses, 1.0) < VARYING_HITS_REVOLUTIONS_MAX * revolution {
        ask(meter, &mut responses, VARYING_HITS_READS_MIN, (first_count, offset, count))?;
        hit = narrowest(&responses, VARYING_HITS_SHARE_MIN) < VARYING_HITS_REVOLUTIONS_MAX * revolution;
    }
    let middle = responses.get(responses.len() / 2).copied().unwrap_or(0.0);
    if !hit {
        return Ok(Asked { hit, ns: middle, most: middle });
    }
    // A hit that was delayed by chance does not count.
    if responses.iter().filter(|&&ns| ns - low <= margin(meter)).count() >= READS_PER_QUESTION - 2 {
        responses.retain(|ns| ns - low < HIT_RANGE_REVOLUTIONS * revolution);
        let high = responses.last().copied().unwrap_or(low);
        return Ok(Asked {
            hit,
            ns: low,
            most: high + ALLOWANCE_MEAN_GAPS * (high - low) / responses.len() as f64,
        });
    }
    // The standard error of the mean of evenly spread responses is their range divided by the root of 12 times their
    // number.
    let of_hits = |responses: &mut Vec<f64>| {
        responses.retain(|ns| (ns - middle).abs() < VARYING_HITS_REVOLUTIONS_MAX * revolution)
    };
    of_hits(&mut responses);
    let range = |of: &[f64]| (of.first().copied().unwrap_or(0.0), of.last().copied().unwrap_or(0.0));
    let (low, high) = range(&responses);
    let wanted = ((high - low) / MEAN_ERROR_NS_MAX).powi(2) / 12.0;
    let more = (wanted as usize)
        .clamp(VARYING_HITS_READS_MIN, VARYING_HITS_READS_MAX)
        .saturating_sub(responses.len());
    ask(meter, &mut responses, more, (first_count, offset, count))?;
    of_hits(&mut responses);
    let n = responses.len().max(1) as f64;
    let (low, high) = range(&responses);
    let mean = responses.iter().sum::<f64>() / n;
    Ok(Asked { hit, ns: mean, most: high + ALLOWANCE_MEAN_GAPS * (high - low) / n })
}

/// Makes this many more trials of [`asked`]; returns all responses in ascending order.
fn ask(
    meter: &mut Meter<'_>,
    responses: &mut Vec<f64>,
    times: usize,
    (first_count, offset, count): (u64, i64, u64),
) -> Result<(), ProbeError> {
    let capacity = meter.capacity();
    let enough = responses.len() + times;
    // Some reads meet unreadable sectors.
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

/// Returns the length of the shortest range that contains this share of the responses, ns.
fn narrowest(responses: &[f64], share: f64) -> f64 {
    let of = ((responses.len() as f64 * share) as usize).max(1);
    let widths = responses.windows(of).map(|some| match (some.first(), some.last()) {
        (Some(low), Some(high)) => high - low,
        _ => f64::MAX,
    });
    widths.fold(f64::MAX, f64::min)
}

/// Examines the buffer.
pub(crate) fn find(meter: &mut Meter<'_>) -> Result<Buffer, ProbeError> {
    let mut found = Buffer::default();
    let same = asked(meter, 1, 0, 1)?;
    let next = asked(meter, 1, 1, 1)?;
    // A drive may answer more quickly if a command continues the last one.
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
    // A response that is longer by a few percent of a revolution comes from the medium, unless hits vary by more.
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
    found.segments = places(meter, &found)?;
    meter.segments = found.segments.value;
    meter.ahead = found.ahead;
    meter.buffer_is_known();
    meter.keeps_before = found.keeps_before;
    Ok(found)
}

/// Returns the time of a sector on the bus, from longer hits; `None` if the long reads are no hits.
fn bus(meter: &mut Meter<'_>, found: &Buffer) -> Result<Option<f64>, ProbeError> {
    let (first, offset) = if found.keeps { (BUS_SECTORS, 0) } else { (1, 1) };
    let long = asked(meter, first, offset, BUS_SECTORS)?;
    let one = asked(meter, first, offset, 1)?;
    let slope = (long.ns - one.ns) / (BUS_SECTORS - 1) as f64;
    Ok((long.hit && one.hit).then_some(slope.max(0.0)))
}

/// Returns the number of sectors after one just read that are in the buffer some revolutions later.
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

/// Returns the number of segments, which is the number of other places that must be read to evict one.
fn places(meter: &mut Meter<'_>, found: &Buffer) -> Result<Measured<u64>, ProbeError> {
    // If hits vary, a single read may not show a hit, so more reads decide.
    let looks = if found.vary { 9 } else { 3 };
    let few = few_places(meter, found, looks)?;
    few.map_or_else(|| many_places(meter, found, looks), Ok)
}

/// Counts the segments if there are few, by doubling and bisection; returns `None` if there are more than
/// `REREAD_SEGMENTS_MAX`.
fn few_places(
    meter: &mut Meter<'_>,
    found: &Buffer,
    looks: usize,
) -> Result<Option<Measured<u64>>, ProbeError> {
    let mut seen: Vec<EvictionCheck> = Vec::new();
    let mut guessed = false;
    let mut forgotten_after = |meter: &mut Meter<'_>, others: u64| -> Result<bool, ProbeError> {
        let capacity = meter.capacity();
        let mut all_gone = 0;
        let mut looked = 0;
        while looked < looks {
            let before = meter.disturbed();
            let place = meter.draw.below(capacity - 2);
            meter.read(place, 1)?;
            for _ in 0..others {
                let other = meter.draw.below(capacity);
                meter.read(other, 1)?;
                if meter.disturbed() != before {
                    break;
                }
            }
            let again = if found.keeps { place } else { place + 1 };
            if meter.disturbed() != before && meter.is_within(TIME_SHARE_MAX) {
                // Other hosts' commands have evicted places as well, so this trial is repeated.
                continue;
            }
            let reading = meter.read(again, 1)?;
            let gone = !meter.is_hit(&reading);
            looked += 1;
            guessed |= meter.disturbed() != before;
            seen.push(EvictionCheck { others, gone });
            all_gone += usize::from(gone);
        }
        Ok(2 * all_gone > looks)
    };
    let mut enough = 1;
    while !forgotten_after(meter, enough)? {
        if enough >= REREAD_SEGMENTS_MAX {
            return Ok(None);
        }
        enough *= 2;
    }
    let (mut low, mut high) = (enough / 2, enough);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if forgotten_after(meter, middle)? { high = middle } else { low = middle }
    }
    let quick = quick_share(meter);
    let sure = if guessed { 0.0 } else { sure_of(high, &log_likelihoods(&seen, quick)) };
    Ok(Some(Measured { value: high, sure }))
}

/// Returns the share of reads from the medium that respond as quickly as a hit, because their sector happens to pass
/// soon.
fn quick_share(meter: &Meter<'_>) -> f64 {
    (meter.hit_below / meter.revolution()).clamp(SLOW_HITS_SHARE_MAX, 0.5)
}

/// Counts the segments if there are many.
///
/// The function reads many places, and then the same places in reverse order. Hits evict nothing, so the number of hits
/// is the number of segments: one pass there and back counts all of them.
fn many_places(meter: &mut Meter<'_>, found: &Buffer, looks: usize) -> Result<Measured<u64>, ProbeError> {
    let quick = quick_share(meter);
    // The places are so far apart that no place is in the read-ahead of another.
    let stride = 3 * (2 * found.ahead + 2);
    let most = (meter.capacity() / stride / 2).clamp(RANDOM_READS_MAX, SEGMENTS_MAX);
    let mut enough = REREAD_SEGMENTS_MAX;
    let mut seen: Vec<EvictionCheck> = Vec::new();
    let mut segments = Measured { value: 1, sure: 0.0 };
    let before = meter.disturbed();
    for _ in 0..PASSES_MAX {
        let mut pass = loop {
            let mut pass = Pass::fill(meter, found, stride, enough.min(most))?;
            let gone = pass.oldest(meter, looks)?;
            if 2 * gone > looks || enough >= most || !meter.is_within(TIME_SHARE_MAX) {
                break pass;
            }
            enough *= 2;
        };
        pass.back(meter, looks)?;
        seen.append(&mut pass.seen);
        segments = most_likely(&seen, quick);
        if segments.sure > COUNT_CONFIDENCE_MIN || !meter.is_within(TIME_SHARE_MAX) {
            break;
        }
    }
    // The number is not reliable if other hosts' commands have evicted places as well.
    Ok(if meter.disturbed() == before { segments } else { Measured { sure: 0.0, ..segments } })
}

/// Places read one after another, the least recently read first, and the results of reading them again.
struct Pass<'b> {
    found: &'b Buffer,
    places: Vec<u64>,
    seen: Vec<EvictionCheck>,
}

impl<'b> Pass<'b> {
    /// Reads this many places in ascending order, so that the arm moves little.
    fn fill(meter: &mut Meter<'_>, found: &'b Buffer, stride: u64, count: u64) -> Result<Self, ProbeError> {
        let capacity = meter.capacity();
        let room = capacity.checked_sub(count * stride).filter(|&room| room > 0);
        let low = room.map(|room| meter.draw.below(room));
        let mut places = Vec::new();
        for i in 0..count {
            let place = match low {
                // The angles of the places must differ, or each read would take the same time.
                Some(low) => low + i * stride + meter.draw.below(stride / 3),
                // On a drive that is too small to keep the places apart, some reads are hits.
                None => meter.draw.below(capacity - 2),
            };
            if !meter.read(place, 1)?.failed {
                places.push(place);
            }
        }
        Ok(Self { found, places, seen: Vec::new() })
    }

    /// Reads a place again; returns whether it had been evicted.
    fn check_eviction(&mut self, meter: &mut Meter<'_>, place: u64, others: u64) -> Result<bool, ProbeError> {
        let again = if self.found.keeps { place } else { place + 1 };
        let gone = !meter.read(again, 1).map(|reading| meter.is_hit(&reading))?;
        self.seen.push(EvictionCheck { others, gone });
        Ok(gone)
    }

    /// Reads this many of the oldest places again; returns how many of them were evicted.
    fn oldest(&mut self, meter: &mut Meter<'_>, looks: usize) -> Result<usize, ProbeError> {
        let count = self.places.len();
        let mut gone = 0;
        for _ in 0..looks.min(count) {
            // All other places were read since: those after this one, and those before it once more.
            let place = self.places.remove(0);
            gone += usize::from(self.check_eviction(meter, place, count as u64 - 1)?);
            self.places.push(place);
        }
        Ok(gone)
    }

    /// Reads the places again from the most recent one on, until several in a row were evicted.
    fn back(&mut self, meter: &mut Meter<'_>, looks: usize) -> Result<(), ProbeError> {
        let mut gone = 0_usize;
        for (others, place) in std::mem::take(&mut self.places).into_iter().rev().enumerate() {
            gone = if self.check_eviction(meter, place, others as u64)? {
                gone + 1
            } else {
                gone.saturating_sub(1)
            };
            if gone > looks {
                break;
            }
        }
        Ok(())
    }
}

/// The result of reading a place again: the number of other places read in between, and whether the place had been
/// evicted.
#[derive(Clone, Copy, Debug)]
struct EvictionCheck {
    others: u64,
    gone: bool,
}

/// Returns the logarithms of the likelihoods of 1, 2, ... segments relative to that of no segment, if the buffer evicts
/// the least recently used segment. The share `quick` of reads from the medium is as quick as a hit. The list goes
/// beyond `SEGMENTS_MAX`, because there may be more segments than are counted.
fn log_likelihoods(seen: &[EvictionCheck], quick: f64) -> Vec<f64> {
    // The log-likelihood of each number of segments less that of the number before it.
    let mut gains: Vec<f64> = vec![0.0; 2 * SEGMENTS_MAX as usize + 1];
    for look in seen {
        let of = |share: f64| if look.gone { share.ln() } else { (1.0 - share).ln() };
        if let Some(gain) = gains.get_mut(look.others as usize + 1) {
            *gain += of(SLOW_HITS_SHARE_MAX) - of(1.0 - quick);
        }
    }
    let sum = |log: &mut f64, gain: f64| {
        *log += gain;
        Some(*log)
    };
    gains.into_iter().skip(1).scan(0.0, sum).collect()
}

/// Returns the probability of this number of segments, all numbers being equally likely beforehand.
fn sure_of(segments: u64, logs: &[f64]) -> f64 {
    let own = logs.get(segments as usize - 1).copied().unwrap_or(f64::MIN);
    1.0 / logs.iter().map(|log| (log - own).exp()).sum::<f64>()
}

/// Returns the likeliest number of segments.
fn most_likely(seen: &[EvictionCheck], quick: f64) -> Measured<u64> {
    let logs = log_likelihoods(seen, quick);
    let best = logs.iter().copied().fold(f64::MIN, f64::max);
    let segments = logs.iter().position(|&log| log >= best).map_or(1, |at| at as u64 + 1);
    Measured { value: segments, sure: sure_of(segments, &logs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_in_segments_follows_the_looks_around_their_number() {
        // The results of reading places again, in passes over a buffer of five segments.
        let seen = |passes: usize| {
            let pass = (0..9).map(|others| EvictionCheck { others, gone: others >= 5 });
            (0..passes).flat_map(|_| pass.clone()).collect::<Vec<_>>()
        };
        // The remaining doubt is that the first read from the medium may have been as quick as a hit.
        let Measured { value: segments, sure: one } = most_likely(&seen(1), 0.1);
        assert!(segments == 5 && (0.8..0.95).contains(&one), "{segments}, {one}");
        // The more reads of the medium are as quick as hits, the less one read shows; more passes show more.
        let quick = most_likely(&seen(1), 0.4).sure;
        let three = most_likely(&seen(3), 0.4).sure;
        assert!(quick < one && three > quick, "{quick}, {three}");
        assert!(most_likely(&seen(3), 0.1).sure > 0.99);
        // A hit that was slow by chance does not make the buffer smaller.
        let mut slow = seen(2);
        slow[2].gone = true;
        assert_eq!(most_likely(&slow, 0.1).value, 5);
        // No place was ever evicted: the number may be larger.
        let never: Vec<EvictionCheck> =
            (0..SEGMENTS_MAX).map(|others| EvictionCheck { others, gone: false }).collect();
        assert!(most_likely(&never, 0.1).sure < 0.01);
    }
}
