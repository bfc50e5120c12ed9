//! Probes of simulated drives whose times are all known.

use mimic::{CheckPoints, Distance, Metric, Pair, ProbeError, ProbePlan, ProbeReport, Prober, Table};
use proptest::prelude::*;
use units::{Bytes, Duration, Op, Sectors};

/// Probes a drive on which a request takes `time(pair, distance)` ns, and checks every request.
fn probe(plan: ProbePlan, time: impl Fn(Pair, i64) -> u64) -> (Table, ProbeReport) {
    let (capacity, unit) = (plan.capacity.get(), plan.unit);
    let mut prober = Prober::new(plan).expect("a plan that can be carried out");
    let mut last = (Op::Read, 0);
    let mut timed_before = true;
    while let Some(access) = prober.next() {
        assert_eq!(prober.next(), Some(access), "asked twice, it asks for the same");
        assert!(access.range.end().get() <= capacity && access.range.len() == unit);
        assert_ne!(access.timed, timed_before, "a random move before each probe");
        timed_before = access.timed;
        let distance = access.range.start().get() as i64 - last.1;
        prober.done(Duration::from_nanos(time(Pair::new(last.0, access.op), distance)));
        last = (access.op, access.range.end().get() as i64 - 1);
    }
    prober.finish()
}

/// Returns a time, ns, from teeth of 400 sectors on a seek curve, as on a drive of one zone.
fn saw(_: Pair, distance: i64) -> u64 {
    let seek = ((distance.unsigned_abs() * 4_000_000) as f64).sqrt() as u64;
    1_000_000 + seek + (distance.rem_euclid(400) as u64) * 15_000
}

fn small() -> ProbePlan {
    ProbePlan { samples: 3, ..ProbePlan::new(Sectors::new(20_000), Sectors::new(2)) }
}

#[test]
fn without_interpolation_every_distance_is_probed() {
    let plan = ProbePlan { check_points: CheckPoints::NONE, ..small() };
    let (table, report) = probe(plan, saw);
    assert_eq!((report.distances, report.probed, report.kept), (19_999, 19_999, 19_999));
    assert_eq!((report.confirmed, report.unconfirmed), (0, 0));
    assert_eq!(report.accesses, 19_999 * 3 * 2);
    for knot in table.knots(Pair::ALL[0]) {
        assert_eq!(knot.time.as_nanos(), saw(Pair::ALL[0], knot.distance.sectors()));
        assert_eq!(knot.distance.sectors().rem_euclid(2), 1);
    }
    // The table reaches both ends of the drive.
    let far = |knot: Option<mimic::Knot>| knot.unwrap().distance.sectors();
    assert_eq!(far(table.knots(Pair::ALL[0]).next()), -19_999);
    assert_eq!(far(table.knots(Pair::ALL[0]).last()), 19_997);
}

#[test]
fn distances_on_straight_lines_are_interpolated() {
    let (table, report) = probe(small(), saw);
    assert!(report.interpolated() > 0.8, "{report:?}");
    assert_eq!(report.unconfirmed, 0);
    assert_eq!(report.kept + report.confirmed, report.distances);
    assert!(report.probed >= report.kept);
    let mut errors: Vec<f64> = (-9_999..9_998)
        .map(|k| {
            let distance = 1 + 2 * k;
            let time = table.time(Pair::ALL[0], Distance::new(distance), 0).unwrap().as_nanos();
            let exact = saw(Pair::ALL[0], distance);
            time.abs_diff(exact) as f64 / exact as f64
        })
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < 0.01, "{}", errors[errors.len() / 2]);
    assert!(errors[errors.len() * 9 / 10] < 0.1, "{}", errors[errors.len() * 9 / 10]);
}

#[test]
fn a_range_that_is_longer_than_may_be_interpolated_is_halved() {
    // All times in one direction lie on one line.
    let straight = |_: Pair, distance: i64| 1_000_000 + distance.unsigned_abs() * 100;
    let (_, free) = probe(small(), straight);
    let longest = 100;
    let (table, bounded) =
        probe(ProbePlan { longest_line: Some(Sectors::new(longest)), ..small() }, straight);
    let knots: Vec<i64> = table.knots(Pair::ALL[0]).map(|knot| knot.distance.sectors()).collect();
    let widest = knots.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(widest <= Some(longest as i64), "{widest:?}");
    assert_eq!(bounded.kept + bounded.confirmed, bounded.distances);
    assert!(free.kept * 5 < bounded.kept, "{} {}", free.kept, bounded.kept);
    // Halving leaves ranges of at least half of the longest length, so there are at most twice as many ranges.
    assert!(bounded.kept < 2 * 2 * 20_000 / longest * 2, "{}", bounded.kept);
}

#[test]
fn only_with_few_check_points_do_crooked_ranges_pass() {
    let off = |check_points| {
        let (table, _) = probe(ProbePlan { check_points, ..small() }, saw);
        let wrong = (-9_999..9_998).map(|k| Distance::new(1 + 2 * k)).filter(|d| {
            let time = table.time(Pair::ALL[0], *d, 0).unwrap().as_nanos();
            let exact = saw(Pair::ALL[0], d.sectors());
            time.abs_diff(exact) * 20 > exact
        });
        wrong.count()
    };
    let (one, many) = (off(CheckPoints::fixed(1, 500)), off(CheckPoints::fixed(10, 500)));
    // As in the paper, only a fifth of the ranges that pass with one check point are accurate to its 5%, but with
    // ten check points almost all are.
    assert!(many * 10 < one && many < 400, "{one} with one, {many} with ten");
}

#[test]
fn pairs_are_probed_each_with_its_own_types() {
    let time = |pair: Pair, distance: i64| saw(pair, distance) + 10_000_000 * pair.index() as u64;
    let pairs = vec![Pair::ALL[3], Pair::ALL[1]];
    let plan = ProbePlan { pairs, capacity: Sectors::new(4_000), ..small() };
    let (table, _) = probe(plan, time);
    for (asked, answered) in [(0, 3), (1, 1), (2, 3), (3, 3)] {
        let at = |i: usize| table.time(Pair::ALL[i], Distance::new(1), 0).unwrap().as_nanos();
        assert_eq!(table.answered_by(Pair::ALL[asked]), Some(Pair::ALL[answered]));
        assert_eq!(at(asked), time(Pair::ALL[answered], 1));
    }
}

#[test]
fn whatever_runs_out_first_knowledge_is_spread_evenly() {
    let capacity = Sectors::new(40_000_000_000);
    // Nothing is interpolated, because a range that passes by chance would leave a wide gap between probed
    // distances.
    let check_points = CheckPoints::NONE;
    let base = ProbePlan { samples: 1, check_points, ..ProbePlan::new(capacity, Sectors::new(8)) };
    for plan in [
        ProbePlan { most_accesses: 20_000, ..base.clone() },
        ProbePlan { memory: Bytes::new(256 << 10), ..base },
    ] {
        let memory = plan.memory;
        // Neighbours have unrelated times, from 1 to 2^24 ns.
        let crooked = |_, distance: i64| distance.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let (table, report) = probe(plan, crooked);
        assert!(table.memory() <= memory);
        assert!(report.unconfirmed > report.distances * 9 / 10, "{report:?}");
        let knots: Vec<i64> = table.knots(Pair::ALL[0]).map(|k| k.distance.sectors()).collect();
        for pair in knots.windows(2) {
            let near = pair[0].unsigned_abs().min(pair[1].unsigned_abs()) + 8;
            assert!((pair[1] - pair[0]).unsigned_abs() < near / 8 + 64, "{pair:?}");
        }
    }
}

#[test]
fn plans_that_cannot_be_carried_out_name_the_field() {
    let refused = |plan: ProbePlan, word: &str| {
        let error: ProbeError = Prober::new(plan).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(ProbePlan { unit: Sectors::ZERO, ..small() }, "unit");
    refused(ProbePlan { samples: 0, ..small() }, "samples");
    refused(ProbePlan { samples: 1 << 20, ..small() }, "samples");
    refused(ProbePlan { pairs: vec![], ..small() }, "pairs");
    refused(ProbePlan { pairs: vec![Pair::ALL[0]; 2], ..small() }, "pairs");
    refused(ProbePlan { memory: Bytes::new(1 << 10), ..small() }, "memory");
    refused(ProbePlan { capacity: Sectors::new(7), ..small() }, "4 units");
    refused(ProbePlan { capacity: Sectors::new(u64::MAX), ..small() }, "2^44");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On any drive, every distance in the table has the summary of its observations, and each distance of the drive
    /// is either in the table or interpolated.
    #[test]
    fn every_kept_distance_has_the_summary_of_its_observations(
        blocks in 4..400u64,
        unit in 1..9u64,
        samples in 1..6u32,
        metric in prop::sample::select(&Metric::ALL[..4]),
        reach in prop::option::of(1..4_000u64),
        seed: u64,
    ) {
        let capacity = Sectors::new(blocks * unit + unit / 2);
        let plan = ProbePlan {
            samples, metric, seed, reach: reach.map(Sectors::new), ..ProbePlan::new(capacity, Sectors::new(unit))
        };
        let (table, report) = probe(plan, saw);
        prop_assert_eq!(report.kept + report.confirmed, report.distances);
        for knot in table.knots(Pair::ALL[0]) {
            prop_assert_eq!(knot.time.as_nanos(), saw(Pair::ALL[0], knot.distance.sectors()));
        }
    }
}

/// Probes a drive with teeth and unreadable sectors; returns the table, the report and the number of failed
/// requests, unless the probe ends early.
fn probe_with_bad(
    plan: ProbePlan,
    is_bad: impl Fn(u64) -> bool,
) -> Result<(Table, ProbeReport, u64), ProbeError> {
    let mut prober = Prober::new(plan)?;
    let (mut last, mut failures) = (0, 0);
    while let Some(access) = prober.next() {
        let (first, end) = (access.range.start().get(), access.range.end().get());
        match (first..end).find(|lbn| is_bad(*lbn)) {
            Some(lbn) => {
                failures += 1;
                prober.failed(units::Lbn::new(lbn), Duration::from_millis(48))?;
            }
            None => {
                prober.done(Duration::from_nanos(saw(Pair::ALL[0], first as i64 - last)));
                last = end as i64 - 1;
            }
        }
    }
    let (table, report) = prober.finish();
    Ok((table, report, failures))
}

#[test]
fn sectors_that_cannot_be_read_are_gone_round_and_counted() {
    let whole = probe(small(), saw).1;
    // One sector in two hundred; a scratch; the first sector of the drive, or the last ones, which are in every pair
    // of places at the largest distances.
    let kinds: [fn(u64) -> bool; 4] =
        [|lbn| lbn % 200 == 77, |lbn| (5_000..5_150).contains(&lbn), |lbn| lbn == 0, |lbn| lbn >= 19_950];
    for (kind, is_bad) in (0..).zip(kinds) {
        let (table, report, failures) = probe_with_bad(small(), is_bad).unwrap();
        assert!(failures > 0 && report.unreadable == failures && failures <= 256, "{kind}: {report:?}");
        assert!(report.accesses < 2 * whole.accesses, "{kind}: {report:?} for {whole:?}");
        // The times in the table are those of a drive without unreadable sectors; distances without a readable place
        // are unknown.
        for knot in table.knots(Pair::ALL[0]) {
            assert_eq!(knot.time.as_nanos(), saw(Pair::ALL[0], knot.distance.sectors()), "{kind}");
        }
        let far = |knot: Option<mimic::Knot>| knot.unwrap().distance.sectors();
        assert!(far(table.knots(Pair::ALL[0]).next()) < -19_500, "{kind}");
        assert!(far(table.knots(Pair::ALL[0]).last()) > 19_500, "{kind}");
        assert!(report.interpolated() > 0.7, "{kind}: {report:?}");
    }
}

#[test]
fn a_drive_that_has_lost_too_much_ends_the_probe() {
    let error = probe_with_bad(small(), |_| true).unwrap_err();
    assert_eq!(error, ProbeError::Unreadable { failures: 49, in_a_row: 49 });
    let error = probe_with_bad(small(), |lbn| lbn % 8 == 5).unwrap_err();
    assert!(matches!(error, ProbeError::Unreadable { failures: 257, .. }), "{error}");
    assert!(error.to_string().contains("save what is on the drive"), "{error}");
}

#[test]
fn a_bad_sector_that_is_named_wrongly_does_not_go_on_for_ever() {
    let mut prober = Prober::new(small()).unwrap();
    let mut asked = 0;
    let error = loop {
        let access = prober.next().unwrap();
        asked += 1;
        if !access.timed {
            prober.done(Duration::from_millis(1));
        } else if let Err(error) = prober.failed(units::Lbn::new(1 << 40), Duration::from_millis(1)) {
            break error;
        }
    };
    assert_eq!(error, ProbeError::Unreadable { failures: 257, in_a_row: 1 });
    assert_eq!(asked, 514);
}
