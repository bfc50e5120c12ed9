//! Off-line configuration: probes a black box.

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

/// The most places drawn for a sample until one has no sector that is known to be unreadable; a range full of such
/// sectors has none.
const DRAWS_MAX: u32 = 64;

/// The most check points of a range that are skipped as unreadable; then the range is.
const SKIPPED_POINTS_MAX: u32 = 32;

// `room` reserves this amount for parts of fixed size.
const _: () = assert!(size_of::<Prober>() + unreadable::FAILURES_MAX * size_of::<u64>() <= 4_096);

/// The prober's next request, to be carried out on an idle drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAccess {
    /// The type: read or write.
    pub op: Op,
    /// The LBNs.
    pub range: LbnRange,
    /// Whether its time counts; if not, it is the random move before one that does.
    pub timed: bool,
}

/// The progress of probing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// Requests carried out, including random moves.
    pub accesses: u64,
    /// Distances probed, each with its samples.
    pub probed: u64,
    /// Distances of all pairs between the outermost ones, at the grain of the unit.
    pub distances: u64,
    /// Distances on a straight line that check points confirmed.
    pub confirmed: u64,
    /// Distances on a straight line that is not confirmed, because memory or requests ran out.
    pub unconfirmed: u64,
    /// Distances in the table.
    pub kept: u64,
    /// Requests that failed because of an unreadable sector, and were replaced by others.
    pub unreadable: u64,
    /// The time of all requests together, which is that of probing on the drive.
    pub time: Duration,
}

impl ProbeReport {
    /// Returns the share of distances whose time is interpolated.
    pub fn interpolated(&self) -> f64 {
        let known = self.confirmed + self.unconfirmed;
        if self.distances == 0 { 0.0 } else { known as f64 / self.distances as f64 }
    }
}

/// Configures a table off-line (ATC'03, sections 3.2 and 5): each distance is sampled S times, each time after a move
/// to a random place; ranges whose check points lie on a straight line are interpolated, others are cut at the check
/// points and examined again.
///
/// Sans-IO: [`next`](Self::next) returns a request, [`done`](Self::done) takes its time, or [`failed`](Self::failed)
/// the unreadable sector, until `next` returns `None`; then call [`finish`](Self::finish). Ranges are examined by
/// width relative to their distance, widest first, and near ones first; so whenever it is stopped, or memory or
/// requests run out, its knowledge is spread evenly.
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
    /// The number of blocks of one unit.
    blocks: i64,
    /// The end points that must be sampled before any range can be examined.
    ends: VecDeque<(usize, i64)>,
    /// All sampled points, of all curves. Like `parts` and `ranges`, it has its full capacity from the beginning, so
    /// that it is never in memory twice while it grows.
    points: Vec<Point>,
    /// For the probabilistic metric, the quantiles of each point and then of each check point.
    parts: Vec<[u32; PARTS + 1]>,
    ranges: BinaryHeap<Range>,
    /// The most points.
    room: usize,
    current: Option<Look>,
    probing: Option<Probing>,
    /// The samples of the current distance.
    samples: Samples,
    unreadable: Unreadable,
    /// How much further in the next end is sought if no place at its distance can be read.
    inward: i64,
    report: ProbeReport,
}

/// A distance that is being sampled.
#[derive(Clone, Debug)]
struct Probing {
    curve: usize,
    step: i64,
    /// The target block of the random move, once it is done.
    moved: Option<i64>,
    /// The block that is being accessed.
    going: i64,
}

impl Prober {
    /// Creates a prober.
    ///
    /// # Errors
    /// The plan cannot be carried out: its field, and valid values.
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

    /// Returns the most memory that it uses, in bytes.
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

    /// Returns the next request; the same one until [`done`](Self::done). `None` if nothing is left to probe.
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

    /// Records that the request of [`next`](Self::next) took `time` from its arrival at the drive to its end.
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

    /// Records that the request of [`next`](Self::next) failed, after `time`, because this sector cannot be read. The
    /// sample is taken again elsewhere, and that sector is not accessed again; a distance without a readable place is
    /// skipped.
    ///
    /// # Errors
    /// Too many requests have failed: the drive should be rescued, not probed.
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

    /// Takes the next sample of a distance, from a random place.
    fn again(&mut self, curve: usize, step: i64) {
        match self.place(step) {
            Some(going) => self.probing = Some(Probing { curve, step, moved: None, going }),
            // Use the samples that there are.
            None if !self.samples.is_empty() => self.sampled(curve, step),
            None => self.leave_out(curve, step),
        }
    }

    /// Skips a distance without a readable place.
    fn leave_out(&mut self, curve: usize, step: i64) {
        match self.current.take() {
            None => {
                // The outermost distances have few places, those further in more.
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

    /// Returns the progress.
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
        // A scheduler does better by its base policy than by a line that may be wrong by half a revolution.
        let left = self.ranges.iter().chain(self.current.iter().map(|look| &look.range));
        for range in left.filter(|range| range.inside() > 0) {
            let end = (range.curve as usize, range.left.step);
            if let Ok(place) = self.points.binary_search_by_key(&end, |p| (p.curve(), p.step)) {
                self.points[place].part_from_next();
            }
        }
        // Their memory is needed for the table.
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
        // The first probed pair answers for those that were not probed.
        let first = self.plan.pairs.first().map_or(NO_CURVE, |pair| answers[pair.index()]);
        let answers = answers.map(|curve| if curve == NO_CURVE { first } else { curve });
        (Table::from_parts(self.plan.metric, self.plan.seed, curves, answers), report)
    }

    /// Returns a random readable place, as far as is known, at which a probe of this distance may begin.
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

    /// Returns the next distance to sample.
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
        // Draws uniformly from the distances that are not check points yet.
        let free = range.inside() - checks.len() as i64;
        let count = NonZeroU64::new(free.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
        let mut step = range.left.step + 1 + self.random.below(count) as i64;
        for check in checks {
            step += i64::from(check.step <= step);
        }
        Some((range.curve as usize, step))
    }

    /// Returns the most steps between the ends of a range that is interpolated.
    fn longest_line(&self) -> i64 {
        let unit = self.plan.unit.get().max(1);
        self.plan
            .longest_line
            .map_or(i64::MAX, |longest| i64::try_from(longest.get() / unit).unwrap_or(i64::MAX))
    }

    /// Returns whether the points of one more range might not fit.
    fn is_full(&self) -> bool {
        self.points.len() + room::check_points(&self.plan) > self.room
    }

    /// Ends the sampling of a distance.
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
                // Its check points are not kept, nor their parts, which are the last ones.
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

    /// Records an end point: the range before it can be examined.
    fn end_sampled(&mut self, curve: usize, point: Point) {
        self.inward = 1;
        let before = self.points.last().filter(|p| p.curve() == curve).map(Point::end);
        self.points.push(point);
        if let Some(left) = before {
            self.look_at(curve, left, point.end());
        }
    }

    /// Keeps the check points, and queues the ranges between them.
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

/// The pairs of request types that are probed by default: those that reads alone can measure.
pub(crate) const READS: Pair = Pair::new(Op::Read, Op::Read);
