//! Writes, if the user allows them: how they are acknowledged, and the settling time of the head.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::{Target, resolution, shortest_of};
use crate::pairs::{self, Move};
use crate::revolutions::{frac, median, wrap};
use crate::seeks::{InLayout, Seeks};
use crate::sure::{self, Measured};
use model::{Layout, Location};
use units::{Cylinder, Duration, Instant, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// The fewest writable sectors: with fewer, all writes would wait for nearly the same angle.
pub(crate) const WRITABLE_SECTORS_MIN: u64 = 64;

/// The number of writes whose responses show when they are acknowledged.
const WRITES: usize = 11;

/// The most attempts for that number of successful writes, because writes may fail.
const WRITE_ATTEMPTS_MAX: usize = 4 * WRITES;

/// Responses within this range, in revolutions, come from the buffer: the medium's vary by a revolution.
const EQUAL_RESPONSES_REVOLUTIONS_MAX: f64 = 0.06;

/// The longest time that a drive works after it acknowledged a write from its buffer.
const FLUSH_TIME_MAX: Duration = Duration::from_millis(500);

/// The distances of the compared moves, as divisors of the drive's cylinders; the second list, of shorter moves, is for
/// a slow arm. Settling does not depend on the distance.
const DISTANCE_DIVISORS: [u32; 4] = [20, 10, 5, 3];
const DISTANCE_DIVISORS_SLOW: [u32; 4] = [40, 28, 20, 14];

/// The share of the probe's time limit at which this measurement ends.
const TIME_SHARE_MAX: f64 = 0.9;

/// The most searches for each move.
const SEARCHES: usize = 3;

/// The time added to a move so that a read right after a write does not miss its sector, ns.
const READ_AFTER_WRITE_MARGIN_NS: f64 = 300_000.0;

/// The largest deviation of a plausible completion from whole revolutions, in revolutions.
const COMPLETION_ERROR_REVOLUTIONS_MAX: f64 = 0.05;

/// The most attempts to find a move from or to the writable sectors.
const ATTEMPTS: u32 = 32;

/// Returns the divisors of the distances for a drive's arm.
fn distances(meter: &Meter<'_>) -> [u32; 4] {
    if meter.is_slow() { DISTANCE_DIVISORS_SLOW } else { DISTANCE_DIVISORS }
}

/// The findings about writes.
#[derive(Clone, Debug)]
pub(crate) struct Writes {
    /// Whether writes are acknowledged from the buffer.
    pub(crate) write_back: Measured<bool>,
    /// The median response of a write of one sector, ns.
    pub(crate) acknowledged_ns: f64,
    /// Whether reads of sectors just written are cache hits.
    pub(crate) kept: bool,
    /// The settling time of a write beyond that of a read of the same sector. For a write acknowledged from the buffer,
    /// a read right after the write shows it.
    pub(crate) settle: Option<Settle>,
    /// The command overhead of a write, ms. Either two commands at a time separate it from the settling, or it is that
    /// of writes on the current track, which need no settling.
    pub(crate) overhead: Option<Measured<f64>>,
    /// The overhead of a read after a write less that of a read after a read, ms.
    pub(crate) read_after_write: Option<Measured<f64>>,
    /// The overhead of a write after a write less that of a write after a read, ms.
    pub(crate) write_after_write: Option<Measured<f64>>,
}

/// Returns the median of some values, each with the accuracy `fine`, ms, and the probability that the median is within
/// the tolerance of a prediction.
fn measured(values: &mut [f64], fine: f64) -> Option<Measured<f64>> {
    let sure = sure::within(values, fine, sure::EQUAL_TIMES_MS_MAX);
    (!values.is_empty()).then(|| Measured { value: rounded(median(values)), sure })
}

/// The settling time of a write beyond that of a read of the same sector.
#[derive(Clone, Debug)]
pub(crate) struct Settle {
    pub(crate) ms: f64,
    /// The largest difference of two measurements of the settling time, ms.
    pub(crate) apart_ms: f64,
    /// By how much the settling time may be more, or less, ms, if only the sum of a read's overhead and its moves is
    /// known.
    pub(crate) may_be_more_ms: f64,
    pub(crate) may_be_less_ms: f64,
    /// The probability that the settling time is within the tolerance of a prediction.
    pub(crate) sure: f64,
    /// The part of the reads' overhead that was counted as seek time, ms: it follows if a write seems to settle faster
    /// than a read.
    pub(crate) missed_overhead_ms: f64,
}

impl Settle {
    /// Computes the settling time from measurements, ms. Each is wrong by the error of the reads' overhead, which may
    /// be larger, or smaller, by the given values; `fine` is the accuracy of one measurement, ms.
    fn of(
        mut measured: Vec<f64>,
        (overhead_may_be_more_ms, overhead_may_be_less_ms): (f64, f64),
        fine: f64,
    ) -> Option<Self> {
        if measured.is_empty() {
            return None;
        }
        let least = measured.iter().copied().fold(f64::MAX, f64::min);
        let most = measured.iter().copied().fold(f64::MIN, f64::max);
        let middle = median(&mut measured);
        let missed = (-middle).clamp(0.0, overhead_may_be_more_ms);
        // A negative value within the accuracy is zero.
        let middle = middle + missed;
        let ms = if middle.abs() < f64::max(fine, most - least) { middle.max(0.0) } else { middle };
        let may_be_more_ms = overhead_may_be_more_ms - missed;
        let may_be_less_ms = f64::min(ms, overhead_may_be_less_ms);
        let sure = sure::within(&measured, fine, sure::EQUAL_TIMES_MS_MAX)
            * sure::of_bounds(may_be_more_ms + may_be_less_ms.max(0.0), sure::EQUAL_TIMES_MS_MAX);
        Some(Self {
            ms: rounded(ms),
            apart_ms: most - least,
            may_be_more_ms,
            may_be_less_ms: may_be_less_ms.max(0.0),
            sure,
            missed_overhead_ms: missed,
        })
    }
}

/// Rounds to the microsecond; never returns a negative zero, which would be printed with its sign.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3 + 0.0
}

/// A command, and the command before it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    before: Op,
    op: Op,
}

/// Measures writes, to `region` alone; returns `None` if no write succeeds.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    layout: &Layout,
    buffer: &Buffer,
    seeks: &Seeks,
    region: LbnRange,
) -> Result<Option<Writes>, ProbeError> {
    meter.stage("writes", 0.94);
    let Some(Acknowledged { alike: write_back, ns: acknowledged_ns }) = acknowledged(meter, region)? else {
        meter.find_phase()?;
        return Ok(None);
    };
    let kept = is_kept(meter, region)?;
    let mut found = Writes {
        write_back,
        acknowledged_ns,
        kept,
        settle: None,
        overhead: None,
        read_after_write: None,
        write_after_write: None,
    };
    let mover = Mover { layout, buffer, seeks, region };
    if write_back.value {
        mover.behind(meter, &mut found)?;
        let quiet = meter.now() + FLUSH_TIME_MAX;
        meter.execute(quiet, Op::Read, 0, 1)?;
    } else {
        mover.through(meter, &mut found)?;
    }
    meter.find_phase()?;
    Ok(Some(found))
}

/// The context of moves to and from the writable sectors.
struct Mover<'l> {
    layout: &'l Layout,
    buffer: &'l Buffer,
    seeks: &'l Seeks,
    region: LbnRange,
}

/// A sector whose write is acknowledged from the buffer. The arm moves to a read right after the write only once the
/// data are written, so the read shows when that was.
struct Behind<'a> {
    target: InLayout<'a>,
    /// The sector to read, and the time after the end of the write in which the arm reaches it, ns.
    next: InLayout<'a>,
    after_ns: f64,
    bus_ns: f64,
}

impl Target for Behind<'_> {
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)> {
        self.target.at_angle(angle)
    }

    fn sector(&self) -> f64 {
        self.target.sector()
    }

    fn op(&self) -> Op {
        Op::Write
    }

    fn reported_later(
        &self,
        meter: &mut Meter<'_>,
        end: Instant,
    ) -> Option<Result<Option<bool>, ProbeError>> {
        let revolution = meter.revolution();
        // The platter's angle at the end of a read of a sector that passes `after_ns` after the write.
        let passed = end
            + Duration::from_nanos((self.after_ns + self.next.sector() * revolution + self.bus_ns) as u64);
        let then = meter.revolutions_at(passed);
        let Some((lbn, angle)) = self.next.at_angle(then) else { return Some(Ok(None)) };
        let expected = passed + Duration::from_nanos((frac(angle - then) * revolution) as u64);
        let reading = match meter.read(lbn, 1) {
            Ok(reading) => reading,
            Err(error) => return Some(Err(error)),
        };
        if meter.is_hit(&reading) {
            return Some(Ok(None));
        }
        let late = reading.completed.as_nanos() as f64 - expected.as_nanos() as f64;
        Some(Ok((wrap(late / revolution).abs() < COMPLETION_ERROR_REVOLUTIONS_MAX)
            .then_some(late / revolution < 0.5)))
    }
}

impl Mover<'_> {
    /// Measures moves to writes that are acknowledged from the buffer, each followed by a read.
    fn behind(&self, meter: &mut Meter<'_>, found: &mut Writes) -> Result<(), ProbeError> {
        let mut settles = Vec::new();
        let hidden = self.seeks.overhead_ms * 1e6;
        let own = (found.acknowledged_ns - self.buffer.bus_sector_ns).max(0.0);
        for part in distances(meter) {
            let distance = (self.layout.cylinders() / part).max(1);
            let read = self.moved(meter, distance, Pair { before: Op::Read, op: Op::Read })?;
            let write = self.moved_behind(meter, distance)?;
            if let (Some(read), Some(write)) = (read, write) {
                settles.push((write - read + hidden - own) / 1e6);
            }
        }
        let fine = 2.0 * resolution(meter) / 1e6;
        found.settle =
            Settle::of(settles, (self.seeks.overhead_may_be_more_ms(), self.may_be_less_ms()), fine);
        Ok(())
    }

    /// Returns the shortest time of a move over `distance` cylinders to a write acknowledged from the buffer, ns.
    fn moved_behind(&self, meter: &mut Meter<'_>, distance: u32) -> Result<Option<f64>, ProbeError> {
        if !meter.is_within_before_check(TIME_SHARE_MAX) || meter.refuses_writes().is_some() {
            return Ok(None);
        }
        let bus = self.buffer.bus_sector_ns;
        let layout = self.layout;
        let all = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
        let mut leg = |meter: &mut Meter<'_>| -> Result<Option<Behind<'_>>, ProbeError> {
            for _ in 0..ATTEMPTS {
                let lbn = self.region.start().get() + meter.draw.below(self.region.len().get());
                let Some(here) = layout.locate(Lbn::new(lbn)) else { continue };
                let Some((_, source)) = away(meter, layout, here.track, distance) else { continue };
                let Some((next, _)) = away(meter, layout, here.track, distance / 2 + 1) else { continue };
                let mut done = meter.read(source, 1)?;
                if meter.is_hit(&done) {
                    meter.leave(source)?;
                    done = meter.read(source, 1)?;
                }
                if meter.is_hit(&done) {
                    continue;
                }
                let bus_revolutions = bus / meter.revolution();
                let on = |index, within, op| {
                    let sector = 1.0 / f64::from(layout.track(index).sectors);
                    InLayout { layout, index, end_revolutions: sector + bus_revolutions, within, op }
                };
                return Ok(Some(Behind {
                    target: on(here.track, self.region, Op::Write),
                    next: on(next, all, Op::Read),
                    after_ns: self.seeks.at(distance / 2 + 1) * 1e6 + READ_AFTER_WRITE_MARGIN_NS,
                    bus_ns: bus,
                }));
            }
            Ok(None)
        };
        let guess = self.seeks.at(distance) * 1e6;
        let range = (guess - 400_000.0).max(0.0)..guess + 400_000.0;
        Ok(shortest_of(SEARCHES, meter, range, bus, &mut leg)?.map(|found| found.ns))
    }

    /// Measures moves if writes are done on the medium: to a read and to a write, after a read and after a write.
    fn through(&self, meter: &mut Meter<'_>, found: &mut Writes) -> Result<(), ProbeError> {
        let (mut settles, mut parted, mut overheads, mut after) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // A write on the current track needs no settling: it takes only the overhead, and a sector on the bus.
        let pair = |before, op| Pair { before, op };
        let here = self.moved(meter, 0, pair(Op::Read, Op::Write))?;
        let here_after = self.moved(meter, 0, pair(Op::Write, Op::Write))?;
        let own = here.map(|ns| (ns - self.buffer.bus_sector_ns).max(0.0));
        let hidden = self.seeks.overhead_ms * 1e6;
        for part in distances(meter) {
            let distance = (self.layout.cylinders() / part).max(1);
            let read = self.moved(meter, distance, pair(Op::Read, Op::Read))?;
            let write = self.moved(meter, distance, pair(Op::Read, Op::Write))?;
            let (Some(read), Some(write)) = (read, write) else { continue };
            if let Some(later) = self.moved(meter, distance, pair(Op::Write, Op::Read))? {
                after.push((later - read) / 1e6);
            }
            match behind(meter, self.layout, self.region, distance, write)? {
                Some((read, moved)) => {
                    parted.push((moved - read) / 1e6);
                    overheads.push(((write - moved) / 1e6).max(0.0));
                }
                None => settles.push((write - read + hidden - own.unwrap_or(hidden)) / 1e6),
            }
        }
        if overheads.is_empty() {
            overheads.extend(own.map(|ns| ns / 1e6));
        }
        // Each value contains the errors of two searches, or of four if separate searches measure the overheads.
        let fine = resolution(meter) / 1e6;
        found.settle = if parted.is_empty() {
            Settle::of(settles, (self.read_here(meter, &mut after)?, self.may_be_less_ms()), 2.0 * fine)
        } else {
            Settle::of(parted, (0.0, 0.0), std::f64::consts::SQRT_2 * fine)
        };
        // Each value is the difference of two searches.
        let fine = std::f64::consts::SQRT_2 * fine;
        found.overhead = measured(&mut overheads, fine);
        found.read_after_write = measured(&mut after, fine);
        let later = here.zip(here_after).map(|(read, write)| (write - read) / 1e6);
        found.write_after_write = later.and_then(|later| measured(&mut [later], fine));
        Ok(())
    }

    /// Returns how much less a read's overhead may be, ms: all of it, if only the sum of overhead and move is known.
    fn may_be_less_ms(&self) -> f64 {
        if self.seeks.parted { 0.0 } else { self.seeks.overhead_ms }
    }

    /// Returns how much more a read's overhead may be, ms. The bound is the time of a read right after a write to the
    /// same track, without a move or read-ahead; `after` has how much longer reads take after a write.
    fn read_here(&self, meter: &mut Meter<'_>, after: &mut [f64]) -> Result<f64, ProbeError> {
        let most = self.seeks.overhead_may_be_more_ms();
        if most <= 0.0 || after.is_empty() {
            return Ok(most);
        }
        let here = self.moved(meter, 0, Pair { before: Op::Write, op: Op::Read })?;
        let later = median(after);
        let bound = |ns: f64| ns / 1e6 - later - self.seeks.overhead_ms;
        Ok(here.map_or(most, |ns| bound(ns).clamp(0.0, most)))
    }

    /// Returns the shortest time of a move over `distance` cylinders, overhead included, ns: from the submission to the
    /// beginning of a sector that is caught. Writes stay inside the writable region.
    fn moved(&self, meter: &mut Meter<'_>, distance: u32, pair: Pair) -> Result<Option<f64>, ProbeError> {
        if !meter.is_within_before_check(TIME_SHARE_MAX) || meter.refuses_writes().is_some() {
            return Ok(None);
        }
        let bus = self.buffer.bus_sector_ns;
        let end_revolutions = bus / meter.revolution();
        let all = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
        let within = |op: Op| if op.is_write() { self.region } else { all };
        let from_region = pair.before.is_write();
        let layout = self.layout;
        let mut leg = |meter: &mut Meter<'_>| -> Result<Option<InLayout<'_>>, ProbeError> {
            for _ in 0..ATTEMPTS {
                let lbn = self.region.start().get() + meter.draw.below(self.region.len().get());
                let Some(here) = layout.locate(Lbn::new(lbn)) else { continue };
                let Some((there, far)) = away(meter, layout, here.track, distance) else { continue };
                // The move goes from the writable sector to anywhere, or from anywhere to that sector.
                let (source, index) = if from_region { (lbn, there) } else { (far, here.track) };
                if !within(pair.before).contains(Lbn::new(source)) {
                    continue;
                }
                let mut done = meter.execute(meter.now(), pair.before, source, 1)?;
                if meter.is_hit(&done) {
                    meter.leave(source)?;
                    done = meter.execute(meter.now(), pair.before, source, 1)?;
                }
                if meter.is_hit(&done) {
                    continue;
                }
                let sector = 1.0 / f64::from(layout.track(index).sectors);
                let end_revolutions = sector + end_revolutions;
                return Ok(Some(InLayout {
                    layout,
                    index,
                    end_revolutions,
                    within: within(pair.op),
                    op: pair.op,
                }));
            }
            Ok(None)
        };
        let guess = if distance == 0 { 0.0 } else { self.seeks.at(distance) * 1e6 };
        let range = (guess - 400_000.0).max(0.0)..guess + 400_000.0;
        Ok(shortest_of(SEARCHES, meter, range, bus, &mut leg)?.map(|found| found.ns))
    }
}

/// Returns the shortest times of moves over `distance` cylinders right after another command, to a read and to a write,
/// ns; `None` if the handle takes one command at a time.
fn behind(
    meter: &mut Meter<'_>,
    layout: &Layout,
    region: LbnRange,
    distance: u32,
    most: f64,
) -> Result<Option<(f64, f64)>, ProbeError> {
    if !meter.takes_two() || !meter.is_within_before_check(TIME_SHARE_MAX) || meter.refuses_writes().is_some()
    {
        return Ok(None);
    }
    let moved = |op| Move { distance, other_head: false, op, within: region };
    let read = pairs::shortest(meter, layout, moved(Op::Read), most)?;
    let write = pairs::shortest(meter, layout, moved(Op::Write), most)?;
    Ok(read.zip(write))
}

/// The acknowledgements of writes.
struct Acknowledged {
    /// Whether all writes are acknowledged equally fast, whatever the platter's angle.
    alike: Measured<bool>,
    /// The median response time, ns.
    ns: f64,
}

/// Measures the acknowledgements of writes; `None` if no write succeeds.
fn acknowledged(meter: &mut Meter<'_>, region: LbnRange) -> Result<Option<Acknowledged>, ProbeError> {
    let mut responses = Vec::new();
    for _ in 0..WRITE_ATTEMPTS_MAX {
        if responses.len() == WRITES || meter.refuses_writes().is_some() {
            break;
        }
        let away = meter.draw.below(meter.capacity());
        let one = meter.read(away, 1)?;
        // During this wait the drive finishes the work of an earlier write.
        let wait = Duration::from_nanos(((6.0 + meter.draw.unit()) * meter.revolution()) as u64);
        let lbn = region.start().get() + meter.draw.below(region.len().get());
        let written = meter.execute(one.completed + wait, Op::Write, lbn, 1)?;
        if !written.failed {
            responses.push(written.response_ns());
        }
    }
    if responses.is_empty() {
        return Ok(None);
    }
    let middle = median(&mut responses);
    let alike = responses
        .iter()
        .filter(|&&ns| (ns - middle).abs() < EQUAL_RESPONSES_REVOLUTIONS_MAX * meter.revolution())
        .count();
    let write_back = alike + 2 >= responses.len().max(3);
    // With a buffer all responses are alike, except for unknown causes, of which one more case than seen is assumed.
    // Without a buffer responses are alike only by chance.
    let (of_buffer, of_medium) =
        (1.0 - 1.0 / (responses.len() + 2) as f64, 2.0 * EQUAL_RESPONSES_REVOLUTIONS_MAX);
    let (k, rest) = (alike as f64, (responses.len() - alike) as f64);
    let ratio = k * (of_buffer / of_medium).ln() + rest * ((1.0 - of_buffer) / (1.0 - of_medium)).ln();
    Ok(Some(Acknowledged { alike: Measured::answer(write_back, ratio), ns: middle }))
}

/// Returns whether a read of a sector just written is a cache hit.
fn is_kept(meter: &mut Meter<'_>, region: LbnRange) -> Result<bool, ProbeError> {
    if meter.hit_below == 0.0 {
        return Ok(false);
    }
    let mut hits = 0;
    for _ in 0..3 {
        let lbn = region.start().get() + meter.draw.below(region.len().get());
        meter.leave(lbn)?;
        let one = meter.execute(meter.now(), Op::Write, lbn, 1)?;
        if one.failed {
            continue;
        }
        let wait = Duration::from_nanos(((6.0 + meter.draw.unit()) * meter.revolution()) as u64);
        let reading = meter.execute(one.completed + wait, Op::Read, lbn, 1)?;
        hits += u32::from(meter.is_hit(&reading));
    }
    Ok(hits >= 2)
}

/// Returns a track `distance` cylinders from another one, under the same head, and an LBN on it.
fn away(
    meter: &mut Meter<'_>,
    layout: &Layout,
    track: TrackIndex,
    distance: u32,
) -> Option<(TrackIndex, u64)> {
    let here = layout.track(track);
    let cylinder = here.cylinder.get().checked_add(distance).filter(|&c| c < layout.cylinders());
    let cylinder = cylinder.or(here.cylinder.get().checked_sub(distance))?;
    let index = layout.track_at(Cylinder::new(cylinder), here.head)?;
    let sector = meter.draw.below(u64::from(layout.track(index).sectors)) as u32;
    let lbn = layout.lbn_at(Location { track: index, sector })?.get();
    (lbn < meter.capacity()).then_some((index, lbn))
}
