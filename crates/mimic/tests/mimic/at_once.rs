//! Requests whose times are asked for together get the same predictions as one by one.

use mimic::{Distance, Learner, LearnerConfig, Metric, Pair, Samples, Table, TableBuilder};
use proptest::prelude::*;
use scheduler::{Last, Mimic, Request};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn op(write: bool) -> Op {
    if write { Op::Write } else { Op::Read }
}

fn same(mimic: &dyn Mimic, last: Last, requests: &[Request]) -> Result<(), TestCaseError> {
    let at = Instant::from_nanos(12_345);
    let alone: Vec<Option<Duration>> = requests.iter().map(|r| mimic.time(last, at, r)).collect();
    // The call must replace the earlier contents of the vector.
    let mut at_once = vec![Some(Duration::ZERO); 3];
    mimic.times(last, at, requests, &mut at_once);
    prop_assert_eq!(at_once, alone);
    Ok(())
}

fn table(metric: Metric, curves: &[BTreeMap<i64, (u64, bool)>], stand_in: bool) -> Table {
    let mut builder = TableBuilder::new(metric, 9);
    for (pair, curve) in Pair::ALL.into_iter().zip(curves) {
        for (distance, (ns, joined)) in curve {
            let samples: Samples = (1..4).map(|k| Duration::from_nanos(ns * k)).collect();
            builder.push(pair, Distance::new(*distance), &samples, *joined);
        }
    }
    if stand_in {
        builder.stand_in(Pair::ALL[0]);
    }
    builder.build()
}

proptest! {
    #[test]
    fn requests_at_once_are_answered_as_each_alone(
        metric in prop::sample::select(&Metric::ALL[..]),
        curves in prop::collection::vec(
            prop::collection::btree_map(-4_000..4_000i64, (1..5_000_000u64, any::<bool>()), 0..200), 4),
        stand_in: bool,
        learnt in prop::collection::vec((0..4usize, -4_000..4_000i64, 1..9_000_000u64), 0..300),
        last in (any::<bool>(), 0..4_000u64),
        asked in prop::collection::vec((any::<bool>(), 0..4_000u64), 0..70),
    ) {
        let last = Last { op: op(last.0), lbn: Lbn::new(last.1) };
        let requests: Vec<Request> = asked
            .iter()
            .enumerate()
            .map(|(i, (write, lbn))| Request {
                id: RequestId::new(i as u64),
                op: op(*write),
                range: LbnRange::new(Lbn::new(*lbn), Sectors::new(1)),
            })
            .collect();
        let table = table(metric, &curves, stand_in);
        same(&table, last, &requests)?;
        let config = LearnerConfig::new(Sectors::new(4_000), Sectors::new(1));
        for table in [None, Some(table)] {
            let mut learner = Learner::new(config, table).unwrap();
            for &(pair, distance, ns) in &learnt {
                learner.learn(Pair::ALL[pair], Distance::new(distance), Duration::from_nanos(ns));
            }
            same(&learner, last, &requests)?;
        }
    }
}
