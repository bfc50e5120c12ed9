//! The scrubber against the truth of a medium that is written while it reads.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freeblock_apps::scrub::{Finding, MemoryChecksums, Plan, ProgressError, Scrubber};
use freeblock_apps::sessions::Sessions;
use proptest::prelude::*;
use scheduler::Priority;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use support::{Late, Naive, SECTOR, range};
use units::{Instant, Lbn, Sectors};

const FIRST: u64 = 3;
const SECTORS: u64 = 101;
const BLOCK: u64 = 4;

fn plan() -> Plan {
    Plan { range: range(FIRST, SECTORS), block: Sectors::new(BLOCK), sector_bytes: SECTOR }
}

#[derive(Clone, Debug)]
enum Event {
    Access,
    Deliver(u64),
    Begin(u64, u8),
    Medium,
    End,
    Save,
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Access),
        8 => any::<u64>().prop_map(Event::Deliver),
        2 => (0..26u64, any::<u8>()).prop_map(|(b, f)| Event::Begin(b, f)),
        2 => Just(Event::Medium),
        2 => Just(Event::End),
        1 => Just(Event::Save),
        1 => Just(Event::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Guards: a block skipped after a restart, or read twice without need; a bad sector missed or good ones blamed; a
    /// false alarm for a block that the foreground overwrites; rot that goes unseen.
    #[test]
    fn each_block_is_judged_and_only_what_is_wrong_is_reported(
        seed in any::<u64>(),
        bad in prop::collection::btree_set(FIRST..FIRST + SECTORS, 0..5),
        rot in prop::collection::btree_set(0..26u64, 0..4),
        events in prop::collection::vec(event(), 0..300),
    ) {
        let plan = plan();
        let mut host = Naive::new(FIRST + SECTORS + 9, seed);
        let store = Rc::new(RefCell::new(MemoryChecksums::new()));
        for block in 0..plan.blocks() {
            store.borrow_mut().writing(block);
            store.borrow_mut().written(block, Some(host.bytes(plan.place(block))));
            if rot.contains(&block) {
                host.bytes_mut(plan.place(block))[1] ^= 1;
            }
        }
        host.bad = bad.clone();
        let priority = Priority::default();
        let mut scrub = Scrubber::start(plan, store.clone(), &mut host.registry, priority, Instant::ZERO).unwrap();
        let mut late = Late::default();
        let mut saved = scrub.progress();
        let mut judged = 0;
        let mut writing: Option<(u64, u8)> = None;
        let mut rewritten = BTreeSet::new();
        let rest = (0..4_000).map(|i| if i % 2 == 0 { Event::Access } else { Event::Deliver(i) });
        for event in events.into_iter().chain([Event::End]).chain(rest) {
            match event {
                Event::Access => drop(host.step(&mut late)),
                Event::Deliver(at) => late.deliver(at, &mut host.registry, &mut scrub),
                // Rot stays where it is, so that it must be found.
                Event::Begin(block, fill) if writing.is_none() && !rot.contains(&block) && block < plan.blocks() => {
                    store.borrow_mut().writing(block);
                    writing = Some((block, fill));
                }
                Event::Medium => if let Some((block, fill)) = writing {
                    host.bytes_mut(plan.place(block)).fill(fill);
                },
                Event::End => if let Some((block, fill)) = writing.take() {
                    host.bytes_mut(plan.place(block)).fill(fill);
                    store.borrow_mut().written(block, Some(host.bytes(plan.place(block))));
                    rewritten.insert(block);
                },
                Event::Save => {
                    saved = scrub.progress();
                    judged = scrub.figures(Instant::ZERO).done;
                }
                Event::Crash => {
                    let _ = host.registry.close(scrub.session());
                    late.0.clear();
                    scrub = Scrubber::resume(plan, &saved, store.clone(), &mut host.registry, priority, Instant::ZERO).unwrap().unwrap();
                    prop_assert_eq!(scrub.figures(Instant::ZERO).done, judged, "progress was lost or made up");
                }
                _ => {}
            }
        }
        prop_assert!(scrub.is_done());
        prop_assert_eq!(host.registry.pending(), 0);
        let mut found = scrub.findings().to_vec();
        found.sort_unstable();
        found.retain(|f| !matches!(f, Finding::Unsettled(b) if rewritten.contains(b)));
        let blocks_with_bad: BTreeSet<u64> = bad.iter().map(|l| (l - FIRST) / BLOCK).collect();
        let mut want: Vec<Finding> = bad.iter().map(|l| Finding::Medium(Lbn::new(*l))).collect();
        want.extend(rot.iter().filter(|b| **b < plan.blocks() && !blocks_with_bad.contains(b)).map(|b| Finding::Mismatch(*b)));
        want.sort_unstable();
        prop_assert_eq!(found, want);
    }

    /// Guards: damaged progress that skips blocks.
    #[test]
    fn damaged_progress_is_refused_by_name(at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>(), steps in 0..30u64) {
        let mut host = Naive::new(200, 1);
        let mut scrub = Scrubber::start(plan(), (), &mut host.registry, Priority::default(), Instant::ZERO).unwrap();
        for _ in 0..steps {
            host.step(&mut scrub);
        }
        let good = scrub.progress();
        let mut bytes = good.clone();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let mut resume = |plan, bytes: &[u8]| {
            Scrubber::resume(plan, bytes, (), &mut host.registry, Priority::default(), Instant::ZERO).map(|s| s.is_ok())
        };
        let refused = resume(plan(), &bytes);
        prop_assert!(matches!(refused, Err(ProgressError::Damaged | ProgressError::Foreign)), "{refused:?}");
        let other = Plan { block: Sectors::new(5), ..plan() };
        prop_assert_eq!(resume(other, &good), Err(ProgressError::OtherPlan));
        prop_assert_eq!(resume(plan(), &good), Ok(true));
    }
}
