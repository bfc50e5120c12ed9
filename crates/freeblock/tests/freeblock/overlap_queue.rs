//! The queue of overlapping entries against a list that is searched.

use freeblock::{Lbn, LbnRange, Op, OverlapQueue, Sectors};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Push { write: bool, start: u64, len: u64 },
    BeginNext,
    Done(prop::sample::Index),
    Unblock(prop::sample::Index),
    WithdrawOldest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 0..40u64, 0..12u64)
            .prop_map(|(write, start, len)| Step::Push { write, start, len }),
        3 => Just(Step::BeginNext),
        2 => any::<prop::sample::Index>().prop_map(Step::Done),
        1 => any::<prop::sample::Index>().prop_map(Step::Unblock),
        1 => Just(Step::WithdrawOldest),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct Entry {
    op: Op,
    range: LbnRange,
    /// The number of a begun entry.
    number: Option<u64>,
    unblocked: bool,
}

proptest! {
    #[test]
    fn an_entry_begins_when_a_search_finds_no_earlier_one_in_its_way(steps in steps()) {
        let mut queue = OverlapQueue::default();
        // In order of arrival. An entry's item is its arrival.
        let mut naive: Vec<(usize, Entry)> = Vec::new();
        let (mut arrivals, mut begun) = (0, 0);
        for step in steps {
            let numbers: Vec<u64> = naive.iter().filter_map(|(_, entry)| entry.number).collect();
            match step {
                Step::Push { write, start, len } => {
                    let op = if write { Op::Write } else { Op::Read };
                    let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                    queue.push(op, range, arrivals);
                    naive.push((arrivals, Entry { op, range, number: None, unblocked: false }));
                    arrivals += 1;
                }
                Step::BeginNext => {
                    let in_the_way = |earlier: &Entry, later: &Entry| {
                        let writes = earlier.op.is_write() || later.op.is_write();
                        !earlier.unblocked && writes && earlier.range.overlaps(later.range)
                    };
                    let found = (0..naive.len()).find(|at| {
                        let (before, later) = (&naive[..*at], &naive[*at].1);
                        later.number.is_none() && !before.iter().any(|(_, earlier)| in_the_way(earlier, later))
                    });
                    let expected = found.map(|at| (begun, naive[at].0));
                    prop_assert_eq!(queue.begin_next().map(|(number, item)| (number, *item)), expected);
                    if let Some(at) = found {
                        naive[at].1.number = Some(begun);
                        begun += 1;
                    }
                }
                Step::Done(which) if !numbers.is_empty() => {
                    let number = *which.get(&numbers);
                    let at = naive.iter().position(|(_, entry)| entry.number == Some(number)).unwrap();
                    prop_assert_eq!(queue.done(number), Some(naive.remove(at).0));
                    prop_assert_eq!(queue.done(number), None);
                }
                Step::Unblock(which) if !numbers.is_empty() => {
                    let number = *which.get(&numbers);
                    queue.unblock(number);
                    let unblocked = naive.iter_mut().filter(|(_, entry)| entry.number == Some(number));
                    unblocked.for_each(|(_, entry)| entry.unblocked = true);
                }
                Step::WithdrawOldest => {
                    let oldest = naive.iter().position(|(_, entry)| entry.number.is_none());
                    prop_assert_eq!(queue.oldest().copied(), oldest.map(|at| naive[at].0));
                    prop_assert_eq!(queue.withdraw_oldest(), oldest.map(|at| naive.remove(at).0));
                }
                Step::Done(_) | Step::Unblock(_) => {}
            }
            let mut under_way: Vec<_> = naive.iter().filter_map(|(item, entry)| Some((entry.number?, *item))).collect();
            under_way.sort_unstable();
            let found: Vec<_> = queue.under_way_mut().map(|(number, item)| (number, *item)).collect();
            prop_assert_eq!(found, under_way);
            prop_assert_eq!(queue.is_empty(), naive.is_empty());
        }
    }
}
