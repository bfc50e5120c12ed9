//! Off-line configuration: probing a black box.

mod plan;

pub use plan::{ProbeError, ProbePlan};

use crate::check_points::{Verdict, error_of};
use crate::distance::{Distance, Pair};
use crate::summary::{Metric, PARTS, Samples};
use crate::table::{Table, TableBuilder, on_line, stored};
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use units::{Bytes, Duration, Lbn, LbnRange, Op};
use workload::random::Stream;

/// What the prober asks of the drive next: one request, the drive idle before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAccess {
    /// Read or write.
    pub op: Op,
    /// What.
    pub range: LbnRange,
    /// Whether its time counts; if not it is the random move before one that does.
    pub timed: bool,
}

/// How far probing has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// Requests carried out, random moves among them.
    pub accesses: u64,
    /// Distances probed, each with its samples.
    pub probed: u64,
    /// Distances of all pairs between the outermost, at the grain of the unit.
    pub distances: u64,
    /// Of those, the ones on a straight line that check points confirmed.
    pub confirmed: u64,
    /// Of those, the ones on a straight line that nothing confirmed, because memory or requests ran out.
    pub unconfirmed: u64,
    /// Distances kept in the table.
    pub kept: u64,
    /// The time of all requests together: what probing takes on the drive.
    pub time: Duration,
}

impl ProbeReport {
    /// The share of distances whose time is interpolated.
    pub fn interpolated(&self) -> f64 {
        let known = self.confirmed + self.unconfirmed;
        if self.distances == 0 { 0.0 } else { known as f64 / self.distances as f64 }
    }
}

/// Configures a table off-line (ATC'03, sections 3.2 and 5): each distance is sampled S times, each time after a move to
/// a random place; ranges whose check points lie on a straight line are interpolated, others are halved at the check
/// points and looked at again.
///
/// Sans-IO: [`next`](Self::next) says what to carry out, [`done`](Self::done) takes what it took, until `next` returns
/// `None`; then [`finish`](Self::finish). Ranges are looked at in the order of their width against their distance, wide
/// and near ones first, so that whenever it is stopped, or memory or requests run out, what it knows is spread evenly.
///
/// ```
/// use mimic::{ProbePlan, Prober};
/// use units::{Duration, Sectors};
/// let plan = ProbePlan { samples: 2, ..ProbePlan::new(Sectors::new(100_000), Sectors::new(8)) };
/// let mut prober = Prober::new(plan)?;
/// let mut head = 0;
/// while let Some(access) = prober.next() {
///     // A drive whose every time is 1 ms and 1 us a sector of distance.
///     let to = access.range.start().get();
///     let time = Duration::from_micros(1_000 + to.abs_diff(head));
///     head = access.range.end().get() - 1;
///     prober.done(time);
/// }
/// let (table, report) = prober.finish();
/// assert!(report.interpolated() > 0.9);
/// # Ok::<(), mimic::ProbeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prober {
    plan: ProbePlan,
    random: Stream,
    /// Blocks of one unit.
    blocks: i64,
    /// What must be known before any range can be looked at.
    ends: VecDeque<(usize, i64)>,
    points: Vec<Vec<Point>>,
    ranges: BinaryHeap<Range>,
    current: Option<Look>,
    probing: Option<Probing>,
    report: ProbeReport,
}

/// A distance that is being sampled.
#[derive(Clone, Debug)]
struct Probing {
    curve: usize,
    step: i64,
    samples: Samples,
    /// The block that the random move went to, once it is done.
    moved: Option<i64>,
    /// The block that is being accessed.
    going: i64,
}

/// A distance that has been sampled.
#[derive(Clone, Debug)]
struct Point {
    /// The distance is 1 + `step` x unit.
    step: i64,
    time: u32,
    /// For the probabilistic metric.
    parts: Option<Box<[u32; PARTS + 1]>>,
}

/// The distances between two that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    /// Width by distance: what is looked at first.
    relative: u64,
    curve: u32,
    left: (i64, u32),
    right: (i64, u32),
}

/// A range that is looked at.
#[derive(Clone, Debug)]
struct Look {
    range: Range,
    /// Its check points, in ascending order.
    checks: Vec<Point>,
    /// How many of them count since it last passed, and the worst one's error.
    points: u32,
    worst: u64,
    /// How often it has passed.
    passed: u32,
}

impl Look {
    fn at(range: Range) -> Self {
        Self { range, checks: Vec::new(), points: 0, worst: 0, passed: 0 }
    }
}

impl Range {
    fn inside(&self) -> i64 {
        self.right.0 - self.left.0 - 1
    }
}

impl Prober {
    /// Begins.
    ///
    /// # Errors
    /// A plan that cannot be carried out: its field and the mend.
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
        let distances = (steps.end() - steps.start() + 1).unsigned_abs() * plan.pairs.len() as u64;
        Ok(Self {
            random: Stream::new(plan.seed, "mimic-probe"),
            points: vec![Vec::new(); plan.pairs.len()],
            plan,
            blocks,
            ends: ends.into(),
            ranges: BinaryHeap::new(),
            current: None,
            probing: None,
            report: ProbeReport { distances, ..ProbeReport::default() },
        })
    }

    /// What to carry out next; the same until [`done`](Self::done). `None` when nothing is left to probe.
    #[allow(clippy::should_implement_trait, reason = "it lends nothing and ends by what it is told")]
    pub fn next(&mut self) -> Option<ProbeAccess> {
        if self.probing.is_none() {
            let (curve, step) = self.target()?;
            let going = self.place(step);
            self.probing = Some(Probing { curve, step, samples: Samples::default(), moved: None, going });
        }
        let probing = self.probing.as_ref()?;
        let pair = self.plan.pairs[probing.curve];
        let timed = probing.moved.is_some();
        let op = if timed { pair.current() } else { pair.previous() };
        let start = Lbn::new(probing.going.unsigned_abs() * self.plan.unit.get());
        Some(ProbeAccess { op, range: LbnRange::new(start, self.plan.unit), timed })
    }

    /// What [`next`](Self::next) asked for has been carried out, in `time` from the drive's taking it to its end.
    pub fn done(&mut self, time: Duration) {
        let Some(mut probing) = self.probing.take() else {
            debug_assert!(false, "done without a next");
            return;
        };
        self.report.accesses += 1;
        self.report.time += time;
        match probing.moved {
            None => {
                probing.moved = Some(probing.going);
                probing.going += probing.step + 1;
            }
            Some(_) => {
                probing.samples.push(time);
                if probing.samples.len() >= self.plan.samples as usize {
                    self.sampled(probing.curve, probing.step, &probing.samples);
                    return;
                }
                probing.moved = None;
                probing.going = self.place(probing.step);
            }
        }
        self.probing = Some(probing);
    }

    /// How far it has come.
    pub fn report(&self) -> ProbeReport {
        ProbeReport { kept: self.points.iter().map(|p| p.len() as u64).sum(), ..self.report }
    }

    /// The table of what is known by now, and how it came about.
    pub fn finish(mut self) -> (Table, ProbeReport) {
        let mut builder = TableBuilder::new(self.plan.metric, self.plan.seed);
        // What was being looked at is not confirmed.
        let left = self.ranges.iter().chain(self.current.iter().map(|look| &look.range));
        self.report.unconfirmed = left.map(|r| r.inside().unsigned_abs()).sum();
        let report = self.report();
        for (pair, points) in self.plan.pairs.iter().zip(&mut self.points) {
            points.sort_unstable_by_key(|p| p.step);
            for point in points {
                let distance = Distance::new(1 + point.step * self.plan.unit.get() as i64);
                let times = point.parts.as_ref().map_or(std::slice::from_ref(&point.time), |p| &p[..]);
                builder.push_stored(*pair, distance, times, true);
            }
        }
        builder.stand_in(self.plan.pairs[0]);
        (builder.build(), report)
    }

    /// Where a probe of this distance may begin, drawn from all places of the drive.
    fn place(&mut self, step: i64) -> i64 {
        let low = (-(step + 1)).max(0);
        let high = (self.blocks - (step + 1)).min(self.blocks);
        let count = NonZeroU64::new((high - low).unsigned_abs()).unwrap_or(NonZeroU64::MIN);
        low + self.random.below(count) as i64
    }

    /// The next distance to sample.
    fn target(&mut self) -> Option<(usize, i64)> {
        if let Some(end) = self.ends.pop_front() {
            return Some(end);
        }
        if self.current.is_none() {
            if self.report.accesses >= self.plan.most_accesses || self.is_full() {
                return None;
            }
            self.current = self.ranges.pop().map(Look::at);
        }
        let Look { range, checks, .. } = self.current.as_ref()?;
        // One of those that are not yet check points, each alike.
        let free = range.inside() - checks.len() as i64;
        let count = NonZeroU64::new(free.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
        let mut step = range.left.0 + 1 + self.random.below(count) as i64;
        for check in checks {
            step += i64::from(check.step <= step);
        }
        Some((range.curve as usize, step))
    }

    /// Whether what is known and what is to be looked at fill the memory, or will with one more range.
    fn is_full(&self) -> bool {
        let point = size_of::<Point>()
            + if self.plan.metric == Metric::Probabilistic { size_of::<[u32; PARTS + 1]>() } else { 0 };
        let points: usize = self.points.iter().map(Vec::len).sum();
        let more = self.plan.check_points.most().max(1) as usize + 1;
        let bytes = (points + more) * point + (self.ranges.len() + more) * size_of::<Range>();
        Bytes::new(bytes as u64) > self.plan.memory
    }

    fn sampled(&mut self, curve: usize, step: i64, samples: &Samples) {
        self.report.probed += 1;
        let metric = self.plan.metric;
        let summary = if metric == Metric::Probabilistic { Metric::Mean } else { metric };
        let time = stored(samples.summary(summary, 0).unwrap_or_default().as_nanos());
        let parts = (metric == Metric::Probabilistic)
            .then(|| Box::new(std::array::from_fn(|k| stored(samples.quantile(k)))));
        let point = Point { step, time, parts };
        let Some(mut look) = self.current.take() else {
            self.end_sampled(curve, point);
            return;
        };
        let range = look.range;
        let line = |(step, index): (i64, u32)| (step, u64::from(self.points[curve][index as usize].time));
        let guess = on_line(line(range.left), line(range.right), step);
        look.worst = look.worst.max(error_of(guess, u64::from(time)));
        look.points += 1;
        let at = look.checks.partition_point(|c| c.step < step);
        look.checks.insert(at, point);
        let all = look.checks.len() as i64 == range.inside();
        match self.plan.check_points.verdict(look.points, look.worst) {
            Verdict::Straight if all || look.passed + 1 >= self.plan.check_points.times() => {
                self.report.confirmed += range.inside().unsigned_abs();
            }
            Verdict::Straight => {
                let passed = look.passed + 1;
                self.current = Some(Look { passed, points: 0, worst: 0, ..look });
            }
            Verdict::Unclear if !all => self.current = Some(look),
            _ => self.split(range, look.checks),
        }
    }

    /// One of the ends: the range before it can be looked at.
    fn end_sampled(&mut self, curve: usize, point: Point) {
        let points = &mut self.points[curve];
        let here = (point.step, points.len() as u32);
        let before = points.last().map(|p| (p.step, points.len() as u32 - 1));
        points.push(point);
        if let Some(left) = before {
            self.look_at(curve, left, here);
        }
    }

    /// The check points are kept, and what lies between them is looked at.
    fn split(&mut self, range: Range, checks: Vec<Point>) {
        let curve = range.curve as usize;
        let mut left = range.left;
        for check in checks {
            let here = (check.step, self.points[curve].len() as u32);
            self.points[curve].push(check);
            self.look_at(curve, left, here);
            left = here;
        }
        self.look_at(curve, left, range.right);
    }

    fn look_at(&mut self, curve: usize, left: (i64, u32), right: (i64, u32)) {
        let width = (right.0 - left.0).unsigned_abs();
        if width < 2 {
            return;
        }
        let near = left.0.unsigned_abs().min(right.0.unsigned_abs()) + 1;
        let relative = u64::try_from((u128::from(width) << 32) / u128::from(near)).unwrap_or(u64::MAX);
        self.ranges.push(Range { relative, curve: curve as u32, left, right });
    }
}

/// The pairs of request types that are probed unless others are named: what reading alone can tell.
pub(crate) const READS: Pair = Pair::new(Op::Read, Op::Read);
