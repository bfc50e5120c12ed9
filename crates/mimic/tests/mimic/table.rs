//! The table, compared with a map of all samples.

use mimic::{Distance, Metric, Pair, Samples, Table, TableBuilder};
use proptest::prelude::*;
use scheduler::{Last, Mimic, Request};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// All samples by distance, and whether times up to the next distance are interpolated.
type Naive = BTreeMap<i64, (Vec<u64>, bool)>;

fn naive_summary(samples: &[u64], metric: Metric) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    match metric {
        Metric::Mean => (sorted.iter().sum::<u64>() + n as u64 / 2) / n as u64,
        Metric::Median => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2,
        Metric::Maximum => sorted[n - 1],
        Metric::Minimum => sorted[0],
        Metric::Probabilistic => unreachable!("not a number"),
    }
}

fn naive_time(naive: &Naive, metric: Metric, distance: i64) -> Option<u64> {
    let value = |samples: &[u64]| naive_summary(samples, metric);
    let (Some((first, (first_samples, _))), Some((last, (last_samples, _)))) =
        (naive.first_key_value(), naive.last_key_value())
    else {
        return None;
    };
    let near = |outermost: i64| distance.abs_diff(outermost) <= 2_048;
    if distance <= *first {
        return near(*first).then(|| value(first_samples));
    }
    if distance >= *last {
        return near(*last).then(|| value(last_samples));
    }
    let (x0, (left, joined)) = naive.range(..=distance).next_back()?;
    if *x0 == distance {
        return Some(value(left));
    }
    let (x1, (right, _)) = naive.range(distance..).next()?;
    let (y0, y1) = (i128::from(value(left)), i128::from(value(right)));
    let rise = (y1 - y0) * i128::from(distance - x0) / i128::from(x1 - x0);
    joined.then_some((y0 + rise) as u64)
}

fn build(naive: &Naive, pair: Pair, metric: Metric) -> Table {
    let mut builder = TableBuilder::new(metric, 7);
    for (distance, (samples, joined)) in naive {
        let samples: Samples = samples.iter().map(|ns| Duration::from_nanos(*ns)).collect();
        assert!(builder.push(pair, Distance::new(*distance), &samples, *joined));
    }
    builder.build()
}

fn naives(reach: i64, most: usize) -> impl Strategy<Value = Naive> {
    let samples = (prop::collection::vec(1..20_000_000u64, 1..12), any::<bool>());
    prop::collection::btree_map(-reach..=reach, samples, 1..most)
}

proptest! {
    #[test]
    fn every_summary_is_that_of_all_samples(
        naive in naives(300, 120),
        metric in prop::sample::select(&Metric::ALL[..4]),
        pair in prop::sample::select(&Pair::ALL[..]),
    ) {
        let table = build(&naive, pair, metric);
        prop_assert_eq!(table.len(), naive.len());
        for distance in (-310..=310).chain([-9_000, -2_300, -2_048, 2_048, 2_300, 9_000]) {
            let time = table.time(pair, Distance::new(distance), 0).map(Duration::as_nanos);
            prop_assert_eq!(time, naive_time(&naive, metric, distance), "at {}", distance);
        }
        for other in Pair::ALL.into_iter().filter(|p| *p != pair) {
            prop_assert_eq!(table.time(other, Distance::new(1), 0), None);
        }
    }

    /// Even over the longest distances, an interpolated time is off by at most a part in 2^30 of the line's rise.
    #[test]
    fn lines_hold_at_every_scale(naive in naives(1 << 44, 60), at: prop::sample::Index, inside in 0..1u64 << 32) {
        let table = build(&naive, Pair::ALL[0], Metric::Mean);
        let distances: Vec<i64> = naive.keys().copied().collect();
        let left = distances[at.index(distances.len())];
        let right = naive.range(left + 1..).next().map_or(left, |(d, _)| *d);
        let distance = left + ((i128::from(right - left) * i128::from(inside)) >> 32) as i64;
        let time = table.time(Pair::ALL[0], Distance::new(distance), 0).map(Duration::as_nanos);
        let exact = naive_time(&naive, Metric::Mean, distance);
        prop_assert_eq!(time.is_some(), exact.is_some());
        if let (Some(time), Some(exact)) = (time, exact) {
            prop_assert!(time.abs_diff(exact) <= 2, "{} for {}", time, exact);
        }
    }

    #[test]
    fn a_lot_draws_each_sample_as_often_as_it_came(samples in prop::collection::vec(1..20_000_000u64, 1..12)) {
        let kept: Samples = samples.iter().map(|ns| Duration::from_nanos(*ns)).collect();
        let mut sorted = samples.clone();
        sorted.sort_unstable();
        let n = samples.len() as u64;
        for (i, sample) in sorted.iter().enumerate() {
            let middle = (u64::MAX / n) * i as u64 + u64::MAX / n / 2;
            prop_assert_eq!(kept.summary(Metric::Probabilistic, middle), Some(Duration::from_nanos(*sample)));
        }
        // A table stores the distribution in sixteen parts: no random time lies outside of it, and the time
        // ascends with the random number.
        let table = build(&BTreeMap::from([(1, (samples.clone(), false))]), Pair::ALL[0], Metric::Probabilistic);
        let mut before = 0;
        for k in 0..=64u64 {
            let time = table.time(Pair::ALL[0], Distance::new(1), (u64::MAX / 64) * k).unwrap().as_nanos();
            prop_assert!(time >= before && time >= sorted[0] && time <= sorted[sorted.len() - 1]);
            before = time;
        }
    }
}

#[test]
fn drawn_times_have_the_mean_of_the_samples() {
    let samples: Vec<u64> = (0..100).map(|i| if i < 10 { 1_800_000 } else { 6_800_000 }).collect();
    let table = build(&BTreeMap::from([(264, (samples, true))]), Pair::ALL[0], Metric::Probabilistic);
    let mut table: Box<dyn Mimic> = Box::new(table);
    let last = Last { op: Op::Read, lbn: Lbn::new(1_000) };
    let (mut sum, mut fast) = (0, 0);
    for i in 0..10_000 {
        let range = LbnRange::new(Lbn::new(1_264), Sectors::new(2));
        let request = Request { id: RequestId::new(i), op: Op::Read, range };
        let at = Instant::from_nanos(i * 7_000_000);
        let time = table.time(last, at, &request).unwrap();
        assert_eq!(table.time(last, at, &request), Some(time), "the same question has the same answer");
        table.observe(&scheduler::Observed { last, request, pause: Duration::ZERO, time });
        sum += time.as_nanos();
        fast += u64::from(time < Duration::from_millis(3));
    }
    // The mean is 6.3 ms. A tenth of the samples are fast, and some times on the line between the two sixteenths.
    assert!((6_200_000..6_450_000).contains(&(sum / 10_000)), "{sum}");
    assert!((500..1_300).contains(&fast), "{fast}");
}

#[test]
fn distances_that_do_not_ascend_are_refused_and_change_nothing() {
    let samples: Samples = [Duration::from_millis(3)].into_iter().collect();
    let mut builder = TableBuilder::new(Metric::Mean, 0);
    assert!(builder.push(Pair::ALL[0], Distance::new(5), &samples, true));
    for distance in [5, 4, i64::MIN, i64::MAX] {
        assert!(!builder.push(Pair::ALL[0], Distance::new(distance), &samples, true));
    }
    assert!(!builder.push(Pair::ALL[0], Distance::new(6), &Samples::default(), true));
    assert!(builder.push(Pair::ALL[1], Distance::new(4), &samples, true));
    let table = builder.build();
    assert_eq!((table.len(), table.knots(Pair::ALL[0]).count()), (2, 1));
    assert!(!table.is_empty() && TableBuilder::new(Metric::Mean, 0).build().is_empty());
}

#[test]
fn one_pair_stands_in_for_those_without_times() {
    let samples = |ms| -> Samples { [Duration::from_millis(ms)].into_iter().collect() };
    let mut builder = TableBuilder::new(Metric::Mean, 0);
    builder.push(Pair::ALL[0], Distance::new(1), &samples(2), true);
    builder.push(Pair::ALL[3], Distance::new(1), &samples(5), true);
    builder.stand_in(Pair::ALL[0]);
    let table = builder.build();
    let times = Pair::ALL.map(|pair| table.time(pair, Distance::new(1), 0).unwrap().as_millis_f64());
    assert_eq!(times, [2.0, 2.0, 2.0, 5.0]);
    let owners = Pair::ALL.map(|pair| table.answered_by(pair).unwrap());
    assert_eq!(owners, [Pair::ALL[0], Pair::ALL[0], Pair::ALL[0], Pair::ALL[3]]);
}
