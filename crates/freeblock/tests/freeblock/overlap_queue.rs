//! Compares the queue with a naive list that is searched from its beginning.

use freeblock::{Lbn, LbnRange, Op, OverlapQueue, Sectors};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum QueueStep {
    Push { write: bool, start: u64, len: u64 },
    BeginNext,
    Done(prop::sample::Index),
    Unblock(prop::sample::Index),
    WithdrawOldest,
}

fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 0..40u64, 0..12u64)
            .prop_map(|(write, start, len)| QueueStep::Push { write, start, len }),
        3 => Just(QueueStep::BeginNext),
        2 => any::<prop::sample::Index>().prop_map(QueueStep::Done),
        1 => any::<prop::sample::Index>().prop_map(QueueStep::Unblock),
        1 => Just(QueueStep::WithdrawOldest),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct Entry {
    op: Op,
    range: LbnRange,
    /// The queue's number for this entry, once it has begun.
    number: Option<u64>,
    unblocked: bool,
}

proptest! {
    #[test]
    fn an_entry_begins_when_a_search_finds_no_earlier_one_in_its_way(steps in steps()) {
        let mut queue = OverlapQueue::default();
        // The expected entries in order of arrival, each with its item, which is its arrival number.
        let mut naive: Vec<(usize, Entry)> = Vec::new();
        let (mut arrivals, mut begun) = (0, 0);
        for step in steps {
            let numbers: Vec<u64> = naive.iter().filter_map(|(_, entry)| entry.number).collect();
            match step {
                QueueStep::Push { write, start, len } => {
                    let op = if write { Op::Write } else { Op::Read };
                    let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                    queue.push(op, range, arrivals);
                    naive.push((arrivals, Entry { op, range, number: None, unblocked: false }));
                    arrivals += 1;
                }
                QueueStep::BeginNext => {
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
                QueueStep::Done(which) if !numbers.is_empty() => {
                    let number = *which.get(&numbers);
                    let at = naive.iter().position(|(_, entry)| entry.number == Some(number)).unwrap();
                    prop_assert_eq!(queue.done(number), Some(naive.remove(at).0));
                    prop_assert_eq!(queue.done(number), None);
                }
                QueueStep::Unblock(which) if !numbers.is_empty() => {
                    let number = *which.get(&numbers);
                    queue.unblock(number);
                    let unblocked = naive.iter_mut().filter(|(_, entry)| entry.number == Some(number));
                    unblocked.for_each(|(_, entry)| entry.unblocked = true);
                }
                QueueStep::WithdrawOldest => {
                    let oldest = naive.iter().position(|(_, entry)| entry.number.is_none());
                    prop_assert_eq!(queue.oldest().copied(), oldest.map(|at| naive[at].0));
                    prop_assert_eq!(queue.withdraw_oldest(), oldest.map(|at| naive.remove(at).0));
                }
                QueueStep::Done(_) | QueueStep::Unblock(_) => {}
            }
            let mut under_way: Vec<_> = naive.iter().filter_map(|(item, entry)| Some((entry.number?, *item))).collect();
            under_way.sort_unstable();
            let found: Vec<_> = queue.under_way_mut().map(|(number, item)| (number, *item)).collect();
            prop_assert_eq!(found, under_way);
            prop_assert_eq!(queue.is_empty(), naive.is_empty());
        }
    }
}

/// Returns the indices of `sent` in the order in which a device finishes these entries. The device has all entries that may
/// begin, and finishes the one that the next of `picks` selects.
fn carry_out(sent: &[(Op, LbnRange)], picks: &[usize]) -> Vec<usize> {
    let (mut queue, mut at_device, mut done) = (OverlapQueue::default(), Vec::new(), Vec::new());
    sent.iter().enumerate().for_each(|(at, (op, range))| queue.push(*op, *range, at));
    for pick in picks.iter().cycle() {
        while let Some((number, at)) = queue.begin_next() {
            at_device.push((number, *at));
        }
        assert_eq!(queue.under_way().count(), at_device.len());
        if at_device.is_empty() {
            break;
        }
        let (number, at) = at_device.swap_remove(pick % at_device.len());
        assert_eq!(queue.done(number), Some(at));
        done.push(at);
    }
    assert!(queue.is_empty());
    done
}

fn entry((write, start, len): (bool, u64, u64)) -> (Op, LbnRange) {
    let op = if write { Op::Write } else { Op::Read };
    (op, LbnRange::new(Lbn::new(start), Sectors::new(len)))
}

proptest! {
    #[test]
    fn entries_that_overlap_are_done_in_their_order_and_none_waits_for_ever(
        of in prop::collection::vec((any::<bool>(), 0..40u64, 1..12u64).prop_map(entry), 1..24),
        picks in prop::collection::vec(any::<usize>(), 1..20),
    ) {
        let done = carry_out(&of, &picks);
        prop_assert_eq!(of.len(), done.len());
        let place = |at: usize| done.iter().position(|other| *other == at);
        for (at, (op, range)) in of.iter().enumerate() {
            for (earlier, (other, place_of_other)) in of[..at].iter().enumerate() {
                if (op.is_write() || other.is_write()) && range.overlaps(*place_of_other) {
                    prop_assert!(place(earlier) < place(at), "{} and {}", earlier, at);
                }
            }
        }
    }
}

#[test]
fn entries_that_do_not_conflict_are_under_way_together() {
    let sent = [(false, 0, 8), (false, 4, 8), (true, 20, 8), (true, 40, 8)].map(entry);
    assert_eq!(carry_out(&sent, &[3, 2, 1, 0]), [3, 2, 1, 0]);
}
