//! Off-line configuration: measures the table of a drive by requests of its own.

mod plan;
mod range;
mod room;
mod unreadable;

pub use plan::{ProbeError, ProbePlan};

use crate::check_points::{Verdict, error_of};
use crate::distance::Pair;
use crate::search::CurvePoint;
use crate::summary::{Metric, PARTS, Samples};
use crate::table::{Curve, NO_CURVE, Table, on_line, stored};
use range::{End, Look, Point, Range};
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use units::{Bytes, Duration, Lbn, LbnRange, Op};
use unreadable::Unreadable;
use workload::random::Stream;

/// The most random places for a sample that are drawn until one has no sector known as unreadable: in a range full of
/// unreadable sectors there is none.
const DRAWS_MAX: u32 = 64;

/// The most check points of a range that are skipped because they are unreadable; after them the whole range is
/// skipped.
const SKIPPED_POINTS_MAX: u32 = 32;

// `room` reserves 4 KiB for the parts of fixed size.
const _: () = assert!(size_of::<Prober>() + unreadable::FAILURES_MAX * size_of::<u64>() <= 4_096);

/// The prober's next request, to be carried out on an idle drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAccess {
    /// The type of the request: read or write.
    pub op: Op,
    /// The LBNs of the request.
    pub range: LbnRange,
    /// Whether the request's time counts; if not, the request is the random move before one whose time does.
    pub timed: bool,
}

/// The progress of probing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// The number of requests carried out, including random moves.
    pub accesses: u64,
    /// The number of distances probed, each with all of its samples.
    pub probed: u64,
    /// The number of distances between the outermost ones, in steps of the unit, for all pairs together.
    pub distances: u64,
    /// The number of distances that are interpolated on lines confirmed by check points.
    pub confirmed: u64,
    /// The number of distances on lines that are not confirmed, because memory or requests ran out.
    pub unconfirmed: u64,
    /// The number of distances in the table.
    pub kept: u64,
    /// The number of requests that failed because of an unreadable sector, and were replaced by requests elsewhere.
    pub unreadable: u64,
    /// The time of all requests together.
    pub time: Duration,
}

impl ProbeReport {
    /// Returns the share of distances whose time is interpolated.
    pub fn interpolated(&self) -> f64 {
        let known = self.confirmed + self.unconfirmed;
        if self.distances == 0 { 0.0 } else { known as f64 / self.distances as f64 }
    }
}

/// Configures a table off-line (ATC'03, sections 3.2 and 5). Each distance is sampled several times, each time after
/// a move to a random place. Ranges whose check points lie on a straight line are interpolated; others are cut at the
/// check points and examined again.
///
/// The prober is sans-IO: [`next`](Self::next) returns a request; [`done`](Self::done) takes its time, or
/// [`failed`](Self::failed) its unreadable sector. This repeats until `next` returns `None`; then call
/// [`finish`](Self::finish). Ranges are examined in the order of their width relative to their distance, the widest
/// first. So whenever probing is stopped, or memory or requests run out, the knowledge is spread evenly.
///
/// ```
/// use mimic::{ProbePlan, Prober};
/// use units::{Duration, Sectors};
/// let plan = ProbePlan { samples: 2, ..ProbePlan::new(Sectors::new(100_000), Sectors::new(8)) };
/// let mut prober = Prober::new(plan)?;
/// let mut head = 0;
/// while let Some(access) = prober.next() {
///     // The model drive: every time is 1 ms and 1 us a sector of distance.
///     let to = access.range.start().get();
///     let time = Duration::from_micros(1_000 + to.abs_diff(head));
///     head = access.range.end().get() - 1;
///     prober.done(time);
/// }
/// let (table, report) = prober.finish();
/// assert!(report.interpolated() > 0.9);
/// # Ok::<(), mimic::ProbeError>(())
/// ```
#[derive(Debug)]
pub struct Prober {
    plan: ProbePlan,
    random: Stream,
    /// The number of blocks of the drive, each of one unit.
    blocks: i64,
    /// The distances, among them the outermost, that must be sampled before any range can be examined.
    ends: VecDeque<(usize, i64)>,
    /// All sampled points of all curves. This list, `parts` and `ranges` have their full capacity from the beginning,
    /// because a growing list would be in memory twice.
    points: Vec<Point>,
    /// For the probabilistic metric, the quantiles of each point and then of each check point.
    parts: Vec<[u32; PARTS + 1]>,
    ranges: BinaryHeap<Range>,
    /// The most points for which there is memory.
    room: usize,
    current: Option<Look>,
    probing: Option<Probing>,
    /// The samples of the current distance.
    samples: Samples,
    unreadable: Unreadable,
    /// The number of steps by which the next end at whose distance no place can be read moves towards zero.
    inward: i64,
    report: ProbeReport,
}

/// A distance that is being sampled.
#[derive(Clone, Debug)]
struct Probing {
    curve: usize,
    step: i64,
    /// The target block of the random move, once the move is done.
    moved: Option<i64>,
    /// The block that is being accessed.
    going: i64,
}

impl Prober {
    /// Creates a prober.
    ///
    /// # Errors
    /// The field of the plan that cannot be carried out, with the valid values.
    pub fn new(plan: ProbePlan) -> Result<Self, ProbeError> {
        let (blocks, steps) = plan.check()?;
        let mut ends: Vec<(usize, i64)> = Vec::new();
        for curve in 0..plan.pairs.len() {
            let mut these = vec![*steps.start(), -1, 0, *steps.end()];
            let mut power = 1i64;
            while power <= steps.end().unsigned_abs().max(steps.start().unsigned_abs()) as i64 / 2 {
                these.extend([-power, power]);
                power *= 2;
            }
            these.retain(|s| steps.contains(s));
            these.sort_unstable();
            these.dedup();
            ends.extend(these.into_iter().map(|step| (curve, step)));
        }
        ends.shrink_to_fit();
        let distances = (steps.end() - steps.start() + 1).unsigned_abs() * plan.pairs.len() as u64;
        let few = ProbeError::Memory { bytes: plan.memory };
        let room = room::points(&plan, distances, ends.len()).ok_or(few)?;
        let (mut points, mut parts, mut ranges) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let of_parts = if plan.metric == Metric::Probabilistic { room } else { 0 };
        points
            .try_reserve_exact(room)
            .and_then(|()| parts.try_reserve_exact(of_parts))
            .and_then(|()| ranges.try_reserve_exact(room))
            .map_err(|_| ProbeError::NotThere { bytes: plan.memory })?;
        Ok(Self {
            random: Stream::new(plan.seed, "mimic-probe"),
            points,
            parts,
            ranges,
            room,
            samples: Samples::with_capacity(plan.samples as usize),
            plan,
            blocks,
            ends: ends.into(),
            current: None,
            probing: None,
            unreadable: Unreadable::new(),
            inward: 1,
            report: ProbeReport { distances, ..ProbeReport::default() },
        })
    }

    /// Returns the most memory that the prober uses, in bytes.
    pub fn memory(&self) -> Bytes {
        let looked_at = self.current.as_ref().map_or(0, |look| look.checks.capacity());
        let bytes = size_of::<Self>()
            + self.plan.pairs.capacity() * size_of::<Pair>()
            + self.ends.capacity() * size_of::<(usize, i64)>()
            + (self.points.capacity() + looked_at) * size_of::<Point>()
            + self.parts.capacity() * size_of::<[u32; PARTS + 1]>()
            + self.ranges.capacity() * size_of::<Range>()
            + self.unreadable.memory()
            + self.samples.memory();
        Bytes::new(bytes as u64)
    }

    /// Returns the next request, until [`done`](Self::done) the same one; `None` if nothing is left to probe.
    #[allow(clippy::should_implement_trait, reason = "it lends nothing, and its end depends on the answers")]
    pub fn next(&mut self) -> Option<ProbeAccess> {
        while self.probing.is_none() {
            let (curve, step) = self.target()?;
            match self.place(step) {
                Some(going) => {
                    self.samples.clear();
                    self.probing = Some(Probing { curve, step, moved: None, going });
                }
                None => self.leave_out(curve, step),
            }
        }
        let probing = self.probing.as_ref()?;
        let pair = self.plan.pairs[probing.curve];
        let timed = probing.moved.is_some();
        let op = if timed { pair.current() } else { pair.previous() };
        let start = Lbn::new(probing.going.unsigned_abs() * self.plan.unit.get());
        Some(ProbeAccess { op, range: LbnRange::new(start, self.plan.unit), timed })
    }

    /// Records that the request of [`next`](Self::next) took `time`, from its arrival at the drive to its end.
    pub fn done(&mut self, time: Duration) {
        let Some(mut probing) = self.probing.take() else {
            debug_assert!(false, "done without a next");
            return;
        };
        self.report.accesses += 1;
        self.report.time += time;
        self.unreadable.worked();
        match probing.moved {
            None => {
                probing.moved = Some(probing.going);
                probing.going += probing.step + 1;
            }
            Some(_) => {
                self.samples.push(time);
                if self.samples.len() >= self.plan.samples as usize {
                    self.sampled(probing.curve, probing.step);
                    return;
                }
                return self.again(probing.curve, probing.step);
            }
        }
        self.probing = Some(probing);
    }

    /// Records that the request of [`next`](Self::next) failed, after `time`, because sector `lbn` cannot be read.
    /// The sample is taken again elsewhere, and the sector is not accessed again. A distance without a readable place
    /// is skipped.
    ///
    /// # Errors
    /// Too many requests have failed: the drive's data should be saved, and the drive not probed.
    pub fn failed(&mut self, lbn: Lbn, time: Duration) -> Result<(), ProbeError> {
        let Some(Probing { curve, step, .. }) = self.probing.take() else {
            debug_assert!(false, "failed without a next");
            return Ok(());
        };
        self.report.accesses += 1;
        self.report.time += time;
        self.report.unreadable += 1;
        self.unreadable.found(lbn)?;
        self.again(curve, step);
        Ok(())
    }

    /// Begins the next sample of a distance, from a random place.
    fn again(&mut self, curve: usize, step: i64) {
        match self.place(step) {
            Some(going) => self.probing = Some(Probing { curve, step, moved: None, going }),
            // No place is left, so the samples so far have to suffice.
            None if !self.samples.is_empty() => self.sampled(curve, step),
            None => self.leave_out(curve, step),
        }
    }

    /// Skips a distance without a readable place.
    fn leave_out(&mut self, curve: usize, step: i64) {
        match self.current.take() {
            None => {
                // The largest distances have the fewest places, so a smaller one is tried.
                let inward = step - step.signum() * self.inward;
                if self.inward <= step.abs() / 4 {
                    self.inward *= 2;
                    self.ends.push_front((curve, inward));
                } else {
                    self.inward = 1;
                }
            }
            Some(look) if look.left_out < SKIPPED_POINTS_MAX => {
                self.current = Some(Look { left_out: look.left_out + 1, ..look });
            }
            Some(look) => {
                self.parts.truncate(look.parts);
                self.report.unconfirmed += look.range.inside().unsigned_abs();
                let end = (look.range.curve as usize, look.range.left.step);
                if let Some(left) = self.points.iter_mut().find(|p| (p.curve(), p.step) == end) {
                    left.part_from_next();
                }
            }
        }
    }

    /// Returns the progress of probing.
    pub fn report(&self) -> ProbeReport {
        ProbeReport { kept: self.points.len() as u64, ..self.report }
    }

    /// Returns the table from all samples so far, and the report.
    pub fn finish(mut self) -> (Table, ProbeReport) {
        // Ranges that were not fully examined are not confirmed.
        let left = self.ranges.iter().chain(self.current.iter().map(|look| &look.range));
        self.report.unconfirmed += left.map(|r| r.inside().unsigned_abs()).sum::<u64>();
        let report = self.report();
        self.points.sort_unstable_by_key(|p| (p.curve(), p.step));
        // A line over a range that is not confirmed may be wrong by half a revolution; without a line a scheduler
        // falls back to its base policy, which is better.
        let left = self.ranges.iter().chain(self.current.iter().map(|look| &look.range));
        for range in left.filter(|range| range.inside() > 0) {
            let end = (range.curve as usize, range.left.step);
            if let Ok(place) = self.points.binary_search_by_key(&end, |p| (p.curve(), p.step)) {
                self.points[place].part_from_next();
            }
        }
        // The table needs the memory of the ranges.
        drop((self.ranges, self.current));
        let unit = self.plan.unit.get() as i64;
        let (mut answers, mut curves) = ([NO_CURVE; 4], Vec::with_capacity(self.plan.pairs.len()));
        for pair in Pair::ALL {
            let Some(curve) = self.plan.pairs.iter().position(|p| *p == pair) else { continue };
            let first = self.points.partition_point(|p| p.curve() < curve);
            let these = self.points.get(first..).unwrap_or_default();
            let these = these.iter().take_while(|p| p.curve() == curve);
            let point =
                |p: &Point| CurvePoint { distance: 1 + p.step * unit, joined: p.joined(), time: p.time };
            let knots = these.clone().map(point);
            let parts = these.filter_map(|p| self.parts.get(p.part()));
            answers[pair.index()] = curves.len() as u8;
            curves.push(Curve::new(pair, knots, parts));
        }
        // The times of the first probed pair of request types also answer for the pairs that were not probed.
        let first = self.plan.pairs.first().map_or(NO_CURVE, |pair| answers[pair.index()]);
        let answers = answers.map(|curve| if curve == NO_CURVE { first } else { curve });
        (Table::from_parts(self.plan.metric, self.plan.seed, curves, answers), report)
    }

    /// Returns a random block at which a sample of this distance may begin: neither this block nor the one at the
    /// distance from it is known as unreadable. Returns `None` if no such block was found.
    fn place(&mut self, step: i64) -> Option<i64> {
        let low = (-(step + 1)).max(0);
        let high = (self.blocks - (step + 1)).min(self.blocks);
        let count = NonZeroU64::new((high - low).unsigned_abs()).unwrap_or(NonZeroU64::MIN);
        let unit = self.plan.unit.get();
        let good = |unreadable: &Unreadable, block: i64| unreadable.spares(block.unsigned_abs() * unit, unit);
        (0..DRAWS_MAX)
            .map(|_| low + self.random.below(count) as i64)
            .find(|&from| good(&self.unreadable, from) && good(&self.unreadable, from + step + 1))
    }

    /// Returns the curve and the step of the next distance to sample.
    fn target(&mut self) -> Option<(usize, i64)> {
        if let Some(end) = self.ends.pop_front() {
            return Some(end);
        }
        if self.current.is_none() {
            if self.report.accesses >= self.plan.most_accesses || self.is_full() {
                return None;
            }
            let most = room::check_points(&self.plan);
            let longest = self.longest_line();
            self.current = self.ranges.pop().map(|range| {
                let too_long = range.right.step - range.left.step > longest;
                Look::at(range, most, self.parts.len(), too_long)
            });
        }
        let Look { range, checks, too_long, left_out, .. } = self.current.as_ref()?;
        if *too_long && *left_out == 0 {
            return Some((range.curve as usize, range.left.step + (range.right.step - range.left.step) / 2));
        }
        // The next check point is drawn uniformly from the range's distances that are not check points yet.
        let free = range.inside() - checks.len() as i64;
        let count = NonZeroU64::new(free.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
        let mut step = range.left.step + 1 + self.random.below(count) as i64;
        for check in checks {
            step += i64::from(check.step <= step);
        }
        Some((range.curve as usize, step))
    }

    /// Returns the most steps between the ends of a range that may be interpolated.
    fn longest_line(&self) -> i64 {
        let unit = self.plan.unit.get().max(1);
        self.plan
            .longest_line
            .map_or(i64::MAX, |longest| i64::try_from(longest.get() / unit).unwrap_or(i64::MAX))
    }

    /// Returns whether the points that one more range adds might not fit.
    fn is_full(&self) -> bool {
        self.points.len() + room::check_points(&self.plan) > self.room
    }

    /// Ends the sampling of a distance: stores its summary as an end or a check point.
    fn sampled(&mut self, curve: usize, step: i64) {
        self.report.probed += 1;
        let metric = self.plan.metric;
        let summary = if metric == Metric::Probabilistic { Metric::Mean } else { metric };
        let time = stored(self.samples.summary(summary, 0).unwrap_or_default().as_nanos());
        let point = Point::new(curve, step, time, self.parts.len());
        if metric == Metric::Probabilistic {
            self.parts.push(std::array::from_fn(|k| stored(self.samples.quantile(k))));
        }
        let Some(mut look) = self.current.take() else {
            self.end_sampled(curve, point);
            return;
        };
        let Range { left, right, .. } = look.range;
        let guess = on_line(left.on_line(), right.on_line(), step);
        look.worst = look.worst.max(error_of(guess, u64::from(time)));
        look.points += 1;
        let at = look.checks.partition_point(|c| c.step < step);
        look.checks.insert(at, point);
        if look.too_long {
            return self.split(look.range, look.checks);
        }
        let all = look.checks.len() as i64 == look.range.inside();
        match self.plan.check_points.verdict(look.points, look.worst) {
            Verdict::Straight if all || look.passed + 1 >= self.plan.check_points.times() => {
                self.report.confirmed += look.range.inside().unsigned_abs();
                // The check points are dropped, and so are their quantiles, which are the last ones in the list.
                self.parts.truncate(look.parts);
            }
            Verdict::Straight => {
                let passed = look.passed + 1;
                self.current = Some(Look { passed, points: 0, worst: 0, ..look });
            }
            Verdict::Unclear if !all => self.current = Some(look),
            _ => self.split(look.range, look.checks),
        }
    }

    /// Records an end of a range, which was just sampled; the range between it and the previous end can now be
    /// examined.
    fn end_sampled(&mut self, curve: usize, point: Point) {
        self.inward = 1;
        let before = self.points.last().filter(|p| p.curve() == curve).map(Point::end);
        self.points.push(point);
        if let Some(left) = before {
            self.look_at(curve, left, point.end());
        }
    }

    /// Stores the check points, and queues the ranges between them.
    fn split(&mut self, range: Range, checks: Vec<Point>) {
        let curve = range.curve as usize;
        let mut left = range.left;
        for check in checks {
            self.points.push(check);
            self.look_at(curve, left, check.end());
            left = check.end();
        }
        self.look_at(curve, left, range.right);
    }

    fn look_at(&mut self, curve: usize, left: End, right: End) {
        if right.step - left.step >= 2 {
            self.ranges.push(Range { left, right, curve: curve as u32 });
        }
    }
}

/// The pair of request types that is probed by default, because it needs no writes.
pub(crate) const READS: Pair = Pair::new(Op::Read, Op::Read);
