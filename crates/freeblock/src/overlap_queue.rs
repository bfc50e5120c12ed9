//! The order of requests or commands that overlap.

use crate::{LbnRange, Op};
use alloc::collections::{BTreeMap, BTreeSet};

/// A queue of requests or commands. Two that overlap are never under way together if one of them writes.
///
/// A device may reorder its commands, and a core its requests. Therefore an entry waits until every earlier entry that overlaps
/// it is done, if one of the two writes: a background write must not reach the medium after a newer foreground write. Entries
/// without such a conflict may overtake. A call takes time that grows with the number of entries.
///
/// ```
/// use freeblock::{Lbn, LbnRange, Op, OverlapQueue, Sectors};
/// let range = |start| LbnRange::new(Lbn::new(start), Sectors::new(8));
/// let mut commands = OverlapQueue::default();
/// commands.push(Op::Write, range(0), "write 0");
/// commands.push(Op::Read, range(4), "read 4");
/// commands.push(Op::Read, range(8), "read 8");
/// let (write, _) = commands.begin_next().ok_or("nothing is under way")?;
/// assert_eq!(commands.begin_next(), Some((1, &mut "read 8")));
/// assert_eq!(commands.begin_next(), None);
/// assert_eq!(commands.done(write), Some("write 0"));
/// assert_eq!(commands.begin_next(), Some((2, &mut "read 4")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OverlapQueue<T> {
    /// The waiting entries by arrival number.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The arrival numbers of the waiting entries without blockers.
    ready: BTreeSet<u64>,
    /// The entries that were begun and are not done, by the number that `begin_next` returned. Numbers ascend in the order of
    /// beginning.
    under_way: BTreeMap<u64, UnderWay<T>>,
    next_arrival: u64,
    next_number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    arrival: u64,
    op: Op,
    range: LbnRange,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    place: Place,
    /// The number of earlier entries that have to be done before this one begins.
    blockers: usize,
    item: T,
}

#[derive(Clone, Debug)]
struct UnderWay<T> {
    /// The entry's arrival number, operation and range; `None` after [`OverlapQueue::unblock`]: no later entry waits for it.
    place: Option<Place>,
    item: T,
}

impl Place {
    fn conflicts(self, other: Self) -> bool {
        (self.op.is_write() || other.op.is_write()) && self.range.overlaps(other.range)
    }
}

impl<T> Default for OverlapQueue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            ready: BTreeSet::new(),
            under_way: BTreeMap::new(),
            next_arrival: 0,
            next_number: 0,
        }
    }
}

impl<T> OverlapQueue<T> {
    /// Adds an entry. An entry with an empty range never waits for another.
    pub fn push(&mut self, op: Op, range: LbnRange, item: T) {
        let place = Place { arrival: self.next_arrival, op, range };
        self.next_arrival += 1;
        let waiting = self.waiting.values().map(|entry| entry.place);
        let earlier = self.under_way.values().filter_map(|entry| entry.place).chain(waiting);
        let blockers = earlier.filter(|earlier| earlier.conflicts(place)).count();
        if blockers == 0 {
            self.ready.insert(place.arrival);
        }
        self.waiting.insert(place.arrival, Waiting { place, blockers, item });
    }

    /// Begins the oldest entry that does not have to wait. Returns it with the number by which [`done`](Self::done) knows it;
    /// the numbers ascend from 0. `None` if no waiting entry may begin.
    pub fn begin_next(&mut self) -> Option<(u64, &mut T)> {
        let Waiting { place, item, .. } = self.waiting.remove(&self.ready.pop_first()?)?;
        let number = self.next_number;
        self.next_number += 1;
        let entry = self.under_way.entry(number).or_insert(UnderWay { place: Some(place), item });
        Some((number, &mut entry.item))
    }

    /// Removes an entry that was begun, whatever its outcome; `None` if no begun entry has this number.
    pub fn done(&mut self, number: u64) -> Option<T> {
        self.unblock(number);
        Some(self.under_way.remove(&number)?.item)
    }

    /// Lets later entries overtake an entry that was begun, as if it were done. This is safe for a read whose result is no
    /// longer needed, but not for a write that may still reach the medium.
    pub fn unblock(&mut self, number: u64) {
        if let Some(place) = self.under_way.get_mut(&number).and_then(|entry| entry.place.take()) {
            self.release(place);
        }
    }

    /// Removes the oldest waiting entry.
    pub fn withdraw_oldest(&mut self) -> Option<T> {
        let (arrival, Waiting { place, item, .. }) = self.waiting.pop_first()?;
        self.ready.remove(&arrival);
        self.release(place);
        Some(item)
    }

    /// Returns the oldest waiting entry.
    pub fn oldest(&self) -> Option<&T> {
        self.waiting.first_key_value().map(|(_, entry)| &entry.item)
    }

    /// Returns the entries that were begun and are not done, in the order in which they were begun.
    pub fn under_way(&self) -> impl Iterator<Item = &T> {
        self.under_way.values().map(|entry| &entry.item)
    }

    /// Returns the entries that were begun and are not done, mutably and with their numbers.
    pub fn under_way_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.under_way.iter_mut().map(|(number, entry)| (*number, &mut entry.item))
    }

    /// Returns the entry with this number if it was begun and is not done.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.under_way.get_mut(&number).map(|entry| &mut entry.item)
    }

    /// Returns the number of entries, waiting and under way.
    pub fn len(&self) -> usize {
        self.under_way.len() + self.waiting.len()
    }

    /// Returns whether no entry waits and none is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes one blocker, the entry at `place`, from each later entry that conflicts with it.
    fn release(&mut self, place: Place) {
        for (arrival, entry) in self.waiting.range_mut(place.arrival..) {
            if entry.place.conflicts(place) {
                entry.blockers -= 1;
                if entry.blockers == 0 {
                    self.ready.insert(*arrival);
                }
            }
        }
    }
}
