//! The revolution time: repeated reads of one sector end whole revolutions apart.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::revolutions::wrap;
use std::collections::VecDeque;
use std::f64::consts::TAU;

/// The speeds that are tried, in revolutions per second: 1,500 to 60,000 rpm.
const REVOLUTIONS_PER_SECOND_MIN: f64 = 25.0;
const REVOLUTIONS_PER_SECOND_MAX: f64 = 1_000.0;

/// The number of visits to each sector.
const ROUNDS: usize = 6;

/// The number of sectors that are visited at first.
const SECTORS: usize = 24;
/// The most sectors that are visited; more are tried if their reads are cache hits.
const VISITED_SECTORS_MAX: usize = 96;

/// The most sectors that are read before the first is read again.
const EVICTING_SECTORS_MAX: u64 = 16_384;
/// The number of sectors that are read again to find out whether they have left the buffer.
const EVICTION_LOOKS: usize = 8;
/// The most sectors that are read a second time to find the speed.
const PAIRS: usize = 96;
/// The distance between two sectors, unless the drive is too small for it.
const STRIDE_SECTORS: u64 = 16_384;

/// After a far seek, a response shorter than this is a cache hit, ns.
const HIT_NS_MAX: f64 = 900_000.0;

/// The lowest speed with at least this share of the greatest strength is the true one: multiples of a speed are as
/// strong as the speed itself.
const FUNDAMENTAL_STRENGTH_RATIO_MIN: f64 = 0.9;

/// The findings about the spindle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// The revolution time, ns.
    pub(crate) revolution: f64,
    /// How well the ends of reads agree on whole revolutions: 1 if all do, 0 if they are random.
    pub(crate) strength: f64,
    /// Whether all ends agree to the nanosecond; if not, the speed of the spindle must be followed.
    pub(crate) steady: bool,
}

/// Finds the revolution time and the spread of one angle.
pub(crate) fn find(meter: &mut Meter<'_>) -> Result<Spin, ProbeError> {
    let capacity = meter.capacity();
    let (mut sectors, mut reach) = (SECTORS, capacity);
    while sectors <= VISITED_SECTORS_MAX {
        let (times, hits, mean_ns) = visits(meter, sectors, reach)?;
        if reach == capacity {
            meter.far_ns = mean_ns;
        }
        if hits * 8 <= times.iter().map(Vec::len).sum::<usize>() {
            return fit(meter, &times);
        }
        sectors *= 4;
        if meter.is_slow() {
            // Additional sectors need not be spread over all of the drive.
            reach = meter.near_by();
        }
    }
    // The buffer holds all sectors of the ring, so further sectors are read until it is too small for them.
    let times = Ring::new(meter.draw.below(meter.capacity())).run(meter)?;
    fit(meter, &times)
}

/// Visits `sectors` sectors several times. Returns the instants at which the reads of each sector ended, ns, the number
/// of cache hits, and the mean time of the other reads, ns. The sectors lie within `reach` LBNs of one another.
fn visits(
    meter: &mut Meter<'_>,
    sectors: usize,
    reach: u64,
) -> Result<(Vec<Vec<f64>>, usize, f64), ProbeError> {
    let low = (meter.capacity() - reach) / 2;
    let mut order: Vec<(usize, u64)> = (0..sectors).map(|i| (i, low + meter.draw.below(reach))).collect();
    let mut times = vec![Vec::new(); sectors];
    let (mut hits, mut all_ns) = (0, 0.0);
    for _ in 0..ROUNDS {
        // The order changes from round to round: on an exact drive the same order would repeat the same times.
        meter.draw.shuffle(&mut order);
        for &(i, lbn) in &order {
            let reading = meter.read(lbn, 1)?;
            if reading.response_ns() < HIT_NS_MAX {
                hits += 1;
            } else if let Some(list) = times.get_mut(i) {
                list.push(reading.completed.as_nanos() as f64);
                all_ns += reading.response_ns();
            }
        }
    }
    let mean_ns = all_ns / times.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    Ok((times, hits, mean_ns))
}

/// Sectors near to one another that are read one after another until the first of them have left the buffer. Each of
/// those is then read a second time, after one to two times as many others.
struct Ring {
    /// The next new sector.
    next: u64,
    /// The sectors that were read, the least recently read first, and the instants at which the reads ended, ns.
    read: VecDeque<(u64, f64)>,
}

impl Ring {
    const fn new(next: u64) -> Self {
        Self { next, read: VecDeque::new() }
    }

    /// Reads a new sector.
    fn further(&mut self, meter: &mut Meter<'_>) -> Result<(), ProbeError> {
        // The distance exceeds the read-ahead of the previous sector, and varies so that angles do.
        let all = self.read.len().max(SECTORS) as u64;
        let stride = (meter.capacity() / 8 / all).clamp(2, STRIDE_SECTORS);
        self.next = (self.next + stride + meter.draw.below(stride)) % meter.capacity();
        let reading = meter.read(self.next, 1)?;
        if reading.response_ns() >= HIT_NS_MAX {
            self.read.push_back((self.next, reading.completed.as_nanos() as f64));
        }
        Ok(())
    }

    /// Reads the sector that was read least recently; returns the ends of both reads if the second did not come from
    /// the buffer.
    fn again(&mut self, meter: &mut Meter<'_>) -> Result<Option<Vec<f64>>, ProbeError> {
        let Some((lbn, before)) = self.read.pop_front() else { return Ok(None) };
        let reading = meter.read(lbn, 1)?;
        let now = reading.completed.as_nanos() as f64;
        let from_medium = reading.response_ns() >= HIT_NS_MAX;
        Ok(from_medium.then(|| vec![before, now]))
    }

    fn run(mut self, meter: &mut Meter<'_>) -> Result<Vec<Vec<f64>>, ProbeError> {
        let mut sectors = 2 * SECTORS;
        loop {
            let mut tries = 0;
            while self.read.len() < sectors && tries < 2 * sectors {
                self.further(meter)?;
                tries += 1;
            }
            let mut hits = 0;
            for _ in 0..EVICTION_LOOKS {
                hits += usize::from(self.again(meter)?.is_none());
            }
            if hits <= EVICTION_LOOKS / 4 || sectors as u64 >= EVICTING_SECTORS_MAX {
                break;
            }
            sectors *= 2;
        }
        // Between the two reads of a sector there are as many others as evict it, and up to as many again: intervals of
        // one length would not distinguish neighbouring speeds.
        let mut times = Vec::new();
        let sectors = self.read.len();
        let pairs = sectors.min(PAIRS);
        for _ in 0..pairs {
            times.extend(self.again(meter)?);
            for _ in 0..=sectors / pairs {
                self.further(meter)?;
            }
        }
        Ok(times)
    }
}

/// Returns how well the ends of reads of each sector agree on `speed` revolutions per second: 1 if all do.
fn strength(times: &[Vec<f64>], speed: f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    // If no sector was read more than twice, two ends have to suffice.
    let least = if times.iter().any(|l| l.len() > 2) { 3 } else { 2 };
    for list in times.iter().filter(|l| l.len() >= least) {
        let (mut x, mut y) = (0.0, 0.0);
        for t in list {
            let (sin, cos) = (TAU * (t * 1e-9 * speed).fract()).sin_cos();
            x += cos;
            y += sin;
        }
        // With random phases the mean square is the count.
        let n = list.len() as f64;
        sum += (x * x + y * y - n) / (n - 1.0);
        count += n;
    }
    if count == 0.0 { 0.0 } else { sum / count }
}

/// Returns the tried speeds, `step` revolutions a second apart, with the [`strength`] of each on lists of two ends. The
/// strength of two ends is the cosine of the phase between them. From one speed to the next that phase grows by the
/// same angle, so rotating each phase by that angle replaces the computation of its sine and cosine.
fn scan(pairs: &[Vec<f64>], step: f64) -> Vec<(f64, f64)> {
    let seconds = pairs.iter().filter_map(|pair| Some((pair.last()? - pair.first()?) * 1e-9));
    let phase = |seconds: f64, speed: f64| (TAU * (seconds * speed).fract()).sin_cos();
    let mut phases: Vec<[(f64, f64); 2]> =
        seconds.map(|s| [phase(s, REVOLUTIONS_PER_SECOND_MIN), phase(s, step)]).collect();
    let count = phases.len().max(1) as f64;
    let speeds = (0..((REVOLUTIONS_PER_SECOND_MAX - REVOLUTIONS_PER_SECOND_MIN) / step) as u64)
        .map(|i| REVOLUTIONS_PER_SECOND_MIN + i as f64 * step);
    let strengths = speeds.map(|speed| {
        let mut sum = 0.0;
        for [(sin, cos), (sin_of_step, cos_of_step)] in &mut phases {
            sum += *cos;
            (*sin, *cos) =
                (*sin * *cos_of_step + *cos * *sin_of_step, *cos * *cos_of_step - *sin * *sin_of_step);
        }
        (speed, sum / count)
    });
    strengths.collect()
}

fn fit(meter: &mut Meter<'_>, times: &[Vec<f64>]) -> Result<Spin, ProbeError> {
    // The search begins with intervals between consecutive visits: if they are short, few speeds need to be tried.
    let pairs: Vec<Vec<f64>> = times.iter().flat_map(|l| l.windows(2)).map(<[f64]>::to_vec).collect();
    let longest = |lists: &[Vec<f64>]| {
        let spans = lists.iter().filter_map(|l| Some(l.last()? - l.first()?));
        spans.fold(1.0, f64::max) * 1e-9
    };
    let (span, short) = (longest(times), longest(&pairs));
    let step = 1.0 / (short * 8.0);
    let scan = scan(&pairs, step);
    let best = scan.iter().map(|&(_, s)| s).fold(0.0, f64::max);
    let lines: Vec<f64> = scan.iter().filter(|&&(_, s)| s > 0.5 * best).map(|&(speed, _)| speed).collect();
    let mut found = None;
    for speed in lines {
        let (speed, strength) = climb(&pairs, speed, step);
        if strength > FUNDAMENTAL_STRENGTH_RATIO_MIN * best.max(strength) {
            found = Some((speed, strength));
            break;
        }
    }
    let Some((rough, short_strength)) = found.filter(|&(_, s)| s > 0.3) else {
        return Err(ProbeError::Unlike {
            stage: "revolution time",
            problem: "reads of the same sector do not end whole revolutions apart".to_owned(),
            mend: "probe a disk that spins, with its read cache off if it has a large one".to_owned(),
        });
    };
    let (exact, strength) = climb(times, rough, 1.0 / (span * 16.0));
    if strength > STEADY_STRENGTH_SHARE_MIN {
        let revolution = snapped(1e9 / exact, span * 1e9);
        meter.set_revolution(revolution);
        meter.spread = spread(times, revolution);
        return Ok(Spin { revolution, strength, steady: true });
    }
    // The ends do not agree over the whole time, so the speed varies, or the completions do.
    meter.set_revolution(1e9 / rough);
    Ok(Spin { revolution: 1e9 / rough, strength: short_strength, steady: false })
}

/// The strength above which the speed is constant, and completions are exact to the nanosecond.
const STEADY_STRENGTH_SHARE_MIN: f64 = 0.999_999;

/// Returns the speed of greatest strength near `speed`, and that strength.
fn climb(times: &[Vec<f64>], speed: f64, step: f64) -> (f64, f64) {
    let (mut speed, mut step) = (speed, step);
    let mut best = strength(times, speed);
    while step > speed * 1e-12 {
        let (down, up) = (strength(times, speed - step), strength(times, speed + step));
        if down > best || up > best {
            speed += if up > down { step } else { -step };
            best = best.max(down).max(up);
        } else {
            step /= 2.0;
        }
    }
    (speed, best)
}

/// Rounds to a whole number of revolutions per minute if the measurement permits it.
fn snapped(revolution: f64, span: f64) -> f64 {
    let whole = 60e9 / (60e9 / revolution).round();
    // The accumulated difference of the rounded and the measured revolution time over the span, ns.
    let apart = (whole - revolution).abs() * span / revolution;
    if apart < 3_000.0 { whole } else { revolution }
}

/// Returns the root mean square of an angle's error, in revolutions.
fn spread(times: &[Vec<f64>], revolution: f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for list in times.iter().filter(|l| l.len() > 1) {
        let Some(&first) = list.first() else { continue };
        let offsets: Vec<f64> = list.iter().map(|t| wrap((t - first) / revolution)).collect();
        let mut sorted = offsets.clone();
        let middle = crate::revolutions::median(&mut sorted);
        for offset in offsets {
            let d = wrap(offset - middle);
            // A larger error is that of a cache hit, or of a read that waited for another reason.
            if d.abs() < 0.1 {
                sum += d * d;
                count += 1.0;
            }
        }
    }
    (sum / f64::max(count, 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn a_scan_of_all_speeds_finds_the_strength_of_each() {
        let mut draw = Draw::new(3);
        let mut pair = || {
            let first = draw.below(1_000_000_000) as f64;
            vec![first, first + draw.below(4_000_000_000) as f64]
        };
        let pairs: Vec<Vec<f64>> = (0..50).map(|_| pair()).collect();
        let scan = scan(&pairs, 0.03);
        assert_eq!(scan.len(), 32_500);
        for &(speed, found) in scan.iter().step_by(7) {
            assert!((found - strength(&pairs, speed)).abs() < 1e-9, "{speed}: {found}");
        }
    }
}
