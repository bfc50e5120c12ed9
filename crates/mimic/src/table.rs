//! The table: distances with known times, and the ranges between them in which times are interpolated.

use crate::distance::{Distance, Pair, key};
use crate::search::{CurvePoint, DISTANCE_SECTORS_MAX, Knots, Place};
use crate::summary::{Metric, PARTS, Samples};
use scheduler::{Last, Mimic, Observed, Request};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Op};

/// Returns a time as the table stores it: in nanoseconds, at most 4.29 s. No positioning takes that long.
pub(crate) fn stored(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// A table of a drive's times. For each pair of request types it has distances in ascending order, with the summaries
/// of their times, and for each distance whether times up to the next are interpolated on the straight line between the
/// two.
///
/// A table is made by a [`Prober`](crate::Prober) or by [`TableBuilder`], or read from a file. It does not change
/// afterwards. Clones share their memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Table(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    metric: Metric,
    seed: u64,
    curves: Vec<Curve>,
    /// The index of the curve that answers for each pair; [`NO_CURVE`] for none.
    answers: [u8; 4],
}

/// The number of requests that are looked up together: a processor fetches ten to sixteen cache lines at a time.
pub(crate) const BATCH_REQUESTS: usize = 16;

/// The index that means no curve.
pub(crate) const NO_CURVE: u8 = 4;

/// The distances and times of one pair of request types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    pair: Pair,
    /// Distances with their times; with medians if the metric is probabilistic.
    knots: Knots,
    /// If the metric is probabilistic: [`PARTS`] + 1 quantiles for each place.
    parts: Vec<u32>,
}

/// A distance of a table, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knot {
    /// The distance.
    pub distance: Distance,
    /// The time; the median if the metric is probabilistic.
    pub time: Duration,
    /// Whether times up to the next knot are interpolated on the straight line between the two knots.
    pub joined: bool,
}

impl Table {
    /// Returns the time at a distance; `None` if it is unknown. If the metric is probabilistic, `lot` selects the time
    /// and must be uniform over all of `u64`; otherwise `lot` is ignored. The times of the outermost distances hold for
    /// up to a mebibyte beyond them: a table that was probed over a whole drive spans the drive except for the length
    /// of a request. A table that was probed over a part ([`ProbePlan::reach`](crate::ProbePlan::reach)) has no times
    /// for the rest.
    #[inline]
    pub fn time(&self, pair: Pair, distance: Distance, lot: u64) -> Option<Duration> {
        self.curve(pair)?.at(distance.sectors(), self.0.metric, lot).map(Duration::from_nanos)
    }

    /// Returns the metric by which the times at a distance are summarised.
    pub fn metric(&self) -> Metric {
        self.0.metric
    }

    /// Returns the seed of the probabilistic metric.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// Returns the number of distances with a time of their own, over all pairs.
    pub fn len(&self) -> usize {
        self.0.curves.iter().map(|c| c.knots.len()).sum()
    }

    /// Returns whether the table has no times.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pair whose times answer for `pair`: the same pair, or another one if only some were probed.
    pub fn answered_by(&self, pair: Pair) -> Option<Pair> {
        self.curve(pair).map(|curve| curve.pair)
    }

    #[inline]
    fn curve(&self, pair: Pair) -> Option<&Curve> {
        self.0.curves.get(usize::from(self.0.answers[pair.index()]))
    }

    /// Iterates over the distances whose times answer for a pair, in ascending order.
    pub fn knots(&self, pair: Pair) -> impl Iterator<Item = Knot> + '_ {
        self.curve(pair).into_iter().flat_map(|curve| {
            curve.knots.iter().map(|place| {
                let CurvePoint { distance, joined, time } = curve.knots.get(place);
                let time = Duration::from_nanos(u64::from(time));
                Knot { distance: Distance::new(distance), time, joined }
            })
        })
    }

    /// Returns the memory of the table, in bytes.
    pub fn memory(&self) -> Bytes {
        let bytes: usize = self.0.curves.iter().map(|c| c.knots.memory() + c.parts.capacity() * 4).sum();
        let curves = self.0.curves.capacity() * size_of::<Curve>();
        // An `Arc` has two counts.
        Bytes::new((bytes + curves + size_of::<Inner>() + 2 * size_of::<usize>()) as u64)
    }

    /// Writes into `times` the times of those of the first [`BATCH_REQUESTS`] requests for which `asked` is true;
    /// leaves other entries unchanged.
    pub(crate) fn fill(
        &self,
        (last, at): (Last, Instant),
        requests: &[Request],
        asked: [bool; BATCH_REQUESTS],
        times: &mut [Option<Duration>],
    ) {
        let of = |op| self.0.answers[Pair::new(last.op, op).index()];
        let curves = [of(Op::Read), of(Op::Write)];
        for (k, curve) in curves.iter().enumerate().filter(|(k, curve)| *k == 0 || **curve != curves[0]) {
            let Some(found) = self.0.curves.get(usize::from(*curve)) else { continue };
            // If one curve answers for reads and writes, all requests are looked up in it at once.
            let both = curves[1 - k] == *curve;
            let mut mine = [0; BATCH_REQUESTS];
            let mut count = 0;
            for (i, request) in requests.iter().enumerate().take(BATCH_REQUESTS) {
                if asked[i] && (both || usize::from(request.op.is_write()) == k) {
                    mine[count] = i;
                    count += 1;
                }
            }
            // Small numbers of requests have loops of their own, so that few lookups are wasted.
            match count {
                0 => {}
                1..=2 => self.fill_by::<2>(found, (last, at), requests, &mine[..count], times),
                3..=6 => self.fill_by::<6>(found, (last, at), requests, &mine[..count], times),
                _ => self.fill_by::<BATCH_REQUESTS>(found, (last, at), requests, &mine[..count], times),
            }
        }
    }

    /// Looks up in this curve the requests whose indices are in `mine`, `N` at most.
    #[inline]
    fn fill_by<const N: usize>(
        &self,
        curve: &Curve,
        (last, at): (Last, Instant),
        requests: &[Request],
        mine: &[usize],
        times: &mut [Option<Duration>],
    ) {
        let mut distances = [0; N];
        for (distance, i) in distances.iter_mut().zip(mine) {
            *distance = Distance::between(last.lbn, requests[*i].range.start()).sectors();
        }
        let places = curve.knots.all_at_or_before(&distances);
        for ((place, distance), i) in places.into_iter().zip(distances).zip(mine) {
            let lot = match self.0.metric {
                Metric::Probabilistic => lot(self.0.seed, at, requests[*i].id.get()),
                _ => 0,
            };
            times[*i] = curve.from(place, distance, self.0.metric, lot).map(Duration::from_nanos);
        }
    }

    pub(crate) fn curves(&self) -> &[Curve] {
        &self.0.curves
    }

    pub(crate) fn answers(&self) -> [u8; 4] {
        self.0.answers
    }

    pub(crate) fn from_parts(metric: Metric, seed: u64, mut curves: Vec<Curve>, answers: [u8; 4]) -> Self {
        // A table that is read from a file takes the same memory as the one that was written.
        curves.shrink_to_fit();
        Self(Arc::new(Inner { metric, seed, curves, answers }))
    }
}

/// A table does not learn from observed times.
impl Mimic for Table {
    #[inline]
    fn time(&self, last: Last, at: Instant, request: &Request) -> Option<Duration> {
        let (pair, distance) = key(last, request.op, request.range.start());
        Table::time(self, pair, distance, lot(self.0.seed, at, request.id.get()))
    }

    fn times(&self, last: Last, at: Instant, requests: &[Request], times: &mut Vec<Option<Duration>>) {
        times.clear();
        times.resize(requests.len(), None);
        for (requests, times) in requests.chunks(BATCH_REQUESTS).zip(times.chunks_mut(BATCH_REQUESTS)) {
            self.fill((last, at), requests, [true; BATCH_REQUESTS], times);
        }
    }

    fn observe(&mut self, _: &Observed) {}

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}

/// Returns the random number for one prediction, which is the same whenever the same prediction is asked for (the
/// finaliser of SplitMix64).
#[inline]
pub(crate) fn lot(seed: u64, at: Instant, id: u64) -> u64 {
    let mut z = seed ^ at.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.rotate_left(32);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Curve {
    /// Creates a curve from points in ascending order of their distances. If the metric is probabilistic, `parts` has
    /// the [`PARTS`] + 1 quantiles of each point, and the middle quantile becomes its time. Only the curve itself takes
    /// memory.
    pub(crate) fn new<P: AsRef<[u32]>>(
        pair: Pair,
        knots: impl Iterator<Item = CurvePoint> + Clone,
        parts: impl Iterator<Item = P> + Clone,
    ) -> Self {
        const QUANTILES: usize = PARTS + 1;
        if parts.clone().next().is_none() {
            return Self { pair, knots: Knots::new(knots), parts: Vec::new() };
        }
        let median = |parts: P| parts.as_ref().get(QUANTILES / 2).copied().unwrap_or_default();
        let timed =
            knots.zip(parts.clone()).map(|(point, parts)| CurvePoint { time: median(parts), ..point });
        let knots = Knots::new(timed);
        let mut all = vec![0; knots.places() * QUANTILES];
        for (place, parts) in knots.iter().zip(parts) {
            if let (Some(room), Some(parts)) =
                (all.get_mut(place.index() * QUANTILES..), parts.as_ref().get(..QUANTILES))
            {
                room[..QUANTILES].copy_from_slice(parts);
            }
        }
        Self { pair, knots, parts: all }
    }

    pub(crate) fn pair(&self) -> Pair {
        self.pair
    }

    pub(crate) fn len(&self) -> usize {
        self.knots.len()
    }

    /// Iterates over the distances from place `from` on, or from the first: with their places, and whether they are
    /// joined to the next.
    pub(crate) fn keys(&self, from: Option<Place>) -> impl Iterator<Item = (Place, i64, bool)> + '_ {
        self.places(from).map(|place| {
            let CurvePoint { distance, joined, .. } = self.knots.get(place);
            (place, distance, joined)
        })
    }

    /// Iterates over the places from `from` on, or from the first.
    pub(crate) fn places(&self, from: Option<Place>) -> impl Iterator<Item = Place> + '_ {
        std::iter::successors(from.or_else(|| self.knots.first()), |place| self.knots.next(*place))
    }

    /// Returns the stored times of one place: a single time, or the quantiles.
    pub(crate) fn times(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let plain = self.parts.is_empty();
        let one = plain.then(|| self.knots.get(place).time);
        let parts = if plain { &[][..] } else { self.parts_of(place) };
        one.into_iter().chain(parts.iter().copied())
    }

    #[inline]
    fn parts_of(&self, place: Place) -> &[u32] {
        &self.parts[place.index() * (PARTS + 1)..][..PARTS + 1]
    }

    #[inline]
    fn value(&self, place: Place, time: u32, metric: Metric, lot: u64) -> u64 {
        if metric != Metric::Probabilistic {
            return u64::from(time);
        }
        // The random number selects a position between two quantiles.
        let place_in = u128::from(lot) * PARTS as u128;
        let (part, rest) = ((place_in >> 64) as usize, (place_in as u64) >> 32);
        let parts = self.parts_of(place);
        let (low, high) = (u64::from(parts[part]), u64::from(parts[part + 1]));
        low + ((high.saturating_sub(low) * rest) >> 32)
    }

    #[inline]
    fn at(&self, distance: i64, metric: Metric, lot: u64) -> Option<u64> {
        self.from(self.knots.at_or_before(distance), distance, metric, lot)
    }

    /// Returns the time at a distance, given the place of the last distance that is not above it.
    #[inline]
    fn from(&self, left: Option<Place>, distance: i64, metric: Metric, lot: u64) -> Option<u64> {
        let beyond = |outermost: i64| distance.abs_diff(outermost) > REQUEST_SECTORS;
        let Some(left) = left else {
            let first = self.knots.first()?;
            let CurvePoint { distance: outermost, time, .. } = self.knots.get(first);
            return (!beyond(outermost)).then(|| self.value(first, time, metric, lot));
        };
        let CurvePoint { distance: begin, joined, time } = self.knots.get(left);
        let time = self.value(left, time, metric, lot);
        let right = self.knots.next(left).filter(|_| begin != distance);
        let Some(right) = right else { return (!beyond(begin)).then_some(time) };
        if !joined {
            return None;
        }
        let CurvePoint { distance: end, time: after, .. } = self.knots.get(right);
        Some(on_line((begin, time), (end, self.value(right, after, metric, lot)), distance))
    }
}

/// The number of sectors beyond a curve's outermost distances up to which their times hold: longer requests are rare.
const REQUEST_SECTORS: u64 = 2_048;

/// Returns the time at `x` on the straight line between two points around it. Times are below 2^32.
#[inline]
pub(crate) fn on_line((x0, y0): (i64, u64), (x1, y1): (i64, u64), x: i64) -> u64 {
    let (width, along) = (x1.abs_diff(x0), x.abs_diff(x0));
    // Products stay below 2^63; the bits that are shifted out are a part in 2^30 of the width.
    let shift = (64 - width.leading_zeros()).saturating_sub(31);
    let (width, along) = ((width >> shift).max(1) as i64, (along >> shift) as i64);
    let rise = y1 as i64 - y0 as i64;
    (y0 as i64 + rise * along / width).max(0) as u64
}

/// Makes a table from measured times, which are added in ascending order of distances for each pair of request types.
///
/// ```
/// use mimic::{Distance, Metric, Pair, Samples, TableBuilder};
/// use units::{Duration, Op};
/// let reads = Pair::new(Op::Read, Op::Read);
/// let mut builder = TableBuilder::new(Metric::Mean, 1);
/// for (distance, ms) in [(-1_000, 9), (1, 1), (1_001, 11)] {
///     let samples: Samples = [Duration::from_millis(ms)].into_iter().collect();
///     // All distances between two of these lie on straight lines.
///     builder.push(reads, Distance::new(distance), &samples, true);
/// }
/// builder.stand_in(reads);
/// let table = builder.build();
/// let writes = Pair::new(Op::Write, Op::Write);
/// assert_eq!(table.time(writes, Distance::new(501), 0), Some(Duration::from_millis(6)));
/// ```
#[derive(Clone, Debug)]
pub struct TableBuilder {
    metric: Metric,
    seed: u64,
    curves: [Pushed; 4],
    stand_in: Option<Pair>,
}

/// Distances in ascending order, each with whether it is joined to the next; and the times of all.
type Pushed = (Vec<(i64, bool)>, Vec<u32>);

impl TableBuilder {
    /// Creates an empty builder. The seed is for [`Metric::Probabilistic`].
    pub fn new(metric: Metric, seed: u64) -> Self {
        Self { metric, seed, curves: Default::default(), stand_in: None }
    }

    /// Adds a distance with its samples. If `joined`, times up to the next distance of this pair are interpolated.
    /// Returns false and changes nothing if there are no samples, the distance is not above the last one, or it is
    /// larger than any drive.
    pub fn push(&mut self, pair: Pair, distance: Distance, samples: &Samples, joined: bool) -> bool {
        if self.metric == Metric::Probabilistic {
            let mut parts = [0; PARTS + 1];
            for (k, part) in parts.iter_mut().enumerate() {
                *part = stored(samples.quantile(k));
            }
            return !samples.is_empty() && self.push_stored(pair, distance, &parts, joined);
        }
        let Some(time) = samples.summary(self.metric, 0) else { return false };
        self.push_stored(pair, distance, &[stored(time.as_nanos())], joined)
    }

    pub(crate) fn push_stored(
        &mut self,
        pair: Pair,
        distance: Distance,
        times: &[u32],
        joined: bool,
    ) -> bool {
        let (keys, stored) = &mut self.curves[pair.index()];
        let distance = distance.sectors();
        if keys.last().is_some_and(|(last, _)| *last >= distance)
            || distance.unsigned_abs() > DISTANCE_SECTORS_MAX.unsigned_abs()
        {
            return false;
        }
        keys.push((distance, joined));
        stored.extend_from_slice(times);
        true
    }

    /// Makes this pair answer for pairs without distances of their own. Writes destroy a drive's contents, so a drive
    /// in use is probed by reads alone.
    pub fn stand_in(&mut self, pair: Pair) {
        self.stand_in = Some(pair);
    }

    /// Returns the table of all distances added.
    pub fn build(self) -> Table {
        let mut answers = [NO_CURVE; 4];
        let mut curves = Vec::new();
        for (pair, (keys, times)) in Pair::ALL.into_iter().zip(self.curves) {
            if !keys.is_empty() {
                answers[pair.index()] = curves.len() as u8;
                let each = (times.len() / keys.len()).max(1);
                let parts = times.chunks_exact(each).filter(|_| each > 1);
                let firsts = times.iter().step_by(each);
                let points = keys.iter().zip(firsts);
                let knots = points.map(|(&(distance, joined), &time)| CurvePoint { distance, joined, time });
                curves.push(Curve::new(pair, knots, parts));
            }
        }
        let other = self.stand_in.map_or(NO_CURVE, |pair| answers[pair.index()]);
        let answers = answers.map(|curve| if curve == NO_CURVE { other } else { curve });
        Table::from_parts(self.metric, self.seed, curves, answers)
    }
}
