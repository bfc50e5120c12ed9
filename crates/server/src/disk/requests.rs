//! The foreground's requests, from arrival to answer.
//!
//! Overlapping requests, if one of them writes, are carried out in order of arrival: a client with several in flight
//! gets the same results as with one at a time. The core orders all others.

use device::{Ask, Failure};
use std::collections::{BTreeMap, BTreeSet};
use units::{Instant, Lbn, LbnRange};

/// A request's number in the order of arrival.
pub(super) type RequestSeq = u64;

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// An older overlapping request has to be done first.
    Waits,
    /// The core's pool is full.
    Queued,
    /// An application has to read the blocks first that it would overwrite.
    Held,
    /// The core or the device has it.
    Begun,
}

#[derive(Debug)]
pub(super) struct Request {
    /// The client's name for it.
    pub id: u64,
    pub range: LbnRange,
    pub ask: Ask,
    /// Whether it is a write that can wait: the core gets it as background work.
    pub background: bool,
    pub arrived: Instant,
    pub state: State,
    /// The bytes read.
    pub read: Vec<u8>,
    /// The reason why it failed.
    pub failure: Option<Failure>,
}

impl Request {
    pub fn changes(&self) -> bool {
        matches!(self.ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. })
    }
}

/// A part of a request of the background that a request of the foreground waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub seq: RequestSeq,
    pub part: LbnRange,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<RequestSeq, Request>,
    /// The ranges by their beginning: the end, and whether the request changes the disk. A background write has more
    /// than one when parts of it are done.
    places: BTreeMap<(Lbn, RequestSeq), (Lbn, bool)>,
    /// The length of the longest range: a search for overlaps starts this far before a place.
    longest: u64,
    next: RequestSeq,
    /// The number of requests that change the disk.
    changing: usize,
    /// The number of requests that can wait.
    background: usize,
}

impl Requests {
    /// Adds a request; a flush has no range.
    pub fn add(&mut self, id: u64, range: LbnRange, ask: Ask, arrived: Instant) -> RequestSeq {
        let seq = self.next;
        self.next += 1;
        let request = Request {
            id,
            range,
            ask,
            background: false,
            arrived,
            state: State::Waits,
            read: Vec::new(),
            failure: None,
        };
        if !matches!(request.ask, Ask::Flush) {
            self.longest = self.longest.max(range.len().get());
            self.changing += usize::from(request.changes());
            self.places.insert((range.start(), seq), (range.end(), request.changes()));
        }
        self.all.insert(seq, request);
        seq
    }

    /// Adds a write that can wait.
    pub fn add_background(&mut self, id: u64, range: LbnRange, ask: Ask, arrived: Instant) -> RequestSeq {
        let seq = self.add(id, range, ask, arrived);
        if let Some(request) = self.all.get_mut(&seq) {
            request.background = true;
            self.background += 1;
        }
        seq
    }

    /// Returns the number of requests of the foreground.
    pub fn len(&self) -> usize {
        self.all.len() - self.background
    }

    /// Returns the writes that can wait and that the core has, or that are held.
    pub fn background_at_work(&self) -> impl Iterator<Item = Awaited> {
        let at_work =
            |request: &Request| request.background && matches!(request.state, State::Begun | State::Held);
        self.all
            .iter()
            .filter(move |(_, request)| at_work(request))
            .map(|(seq, request)| Awaited { seq: *seq, part: request.range })
    }

    /// Returns the parts of requests of the background that this request waits for, itself or because it waits for
    /// others that do. Of a begun write only a common part is awaited; of one that has not begun, all.
    pub fn awaited_by(&self, seq: RequestSeq) -> Vec<Awaited> {
        let (mut waiting, mut seen) = (vec![seq], BTreeSet::from([seq]));
        let mut awaited = Vec::new();
        while let Some(seq) = waiting.pop() {
            let Some(request) = self.all.get(&seq) else { continue };
            let changes = request.changes();
            for (other, place, writes) in self.over(request.range) {
                if other >= seq || !(writes || changes) {
                    continue;
                }
                let Some(older) = self.all.get(&other) else { continue };
                let begun = older.state == State::Begun;
                if older.background
                    && let Some(part) = place.intersection(request.range)
                {
                    let part = if begun { part } else { older.range };
                    awaited.push(Awaited { seq: other, part });
                }
                if !begun && seen.insert(other) {
                    waiting.push(other);
                }
            }
        }
        awaited
    }

    /// Returns the waiting requests of the foreground, if a request behind this one waits for its range.
    pub fn foreground_behind(&self, seq: RequestSeq) -> Vec<RequestSeq> {
        let behind = |request: &Request| self.over(request.range).any(|(other, ..)| other > seq);
        if !self.all.get(&seq).is_some_and(behind) {
            return Vec::new();
        }
        let later = self.all.range(seq..);
        let waits = |request: &Request| !request.background && request.state == State::Waits;
        later.filter(|(_, request)| waits(request)).map(|(seq, _)| *seq).collect()
    }

    /// Records that a part of a background write is done: no other request has to wait for it any more.
    pub fn part_done(&mut self, seq: RequestSeq, part: LbnRange) {
        let Some(request) = self.all.get(&seq) else { return };
        let changes = request.changes();
        let over: Vec<LbnRange> =
            self.over(part).filter(|(of, ..)| *of == seq).map(|(_, place, _)| place).collect();
        for place in over {
            self.places.remove(&(place.start(), seq));
            for (from, to) in [(place.start(), part.start()), (part.end(), place.end())] {
                if from < to {
                    self.places.insert((from, seq), (to, changes));
                }
            }
        }
    }

    /// Returns the ranges of the requests that the core or the device has, or will get without another check.
    pub fn begun(&self) -> impl Iterator<Item = LbnRange> {
        let begun = |request: &&Request| matches!(request.state, State::Begun | State::Queued);
        self.all.values().filter(begun).map(|request| request.range).filter(|range| !range.is_empty())
    }

    /// Returns whether a request that changes the disk is open.
    pub fn are_changing(&self) -> bool {
        self.changing > 0
    }

    pub fn get_mut(&mut self, seq: RequestSeq) -> Option<&mut Request> {
        self.all.get_mut(&seq)
    }

    /// Removes a request that is done.
    pub fn remove(&mut self, seq: RequestSeq) -> Option<Request> {
        let request = self.all.remove(&seq)?;
        let places = self.places.range((request.range.start(), 0)..(request.range.end(), 0));
        let its: Vec<_> = places.map(|(place, _)| *place).filter(|(_, of)| *of == seq).collect();
        for place in its {
            self.places.remove(&place);
        }
        self.changing -= usize::from(request.changes());
        self.background -= usize::from(request.background);
        if self.places.is_empty() {
            self.longest = 0;
        }
        Some(request)
    }

    /// Returns the requests that overlap a range, where they do, and whether they change the disk.
    fn over(&self, range: LbnRange) -> impl Iterator<Item = (RequestSeq, LbnRange, bool)> {
        let from = Lbn::new(range.start().get().saturating_sub(self.longest));
        let places = self.places.range((from, 0)..(range.end(), 0));
        places
            .filter(move |(_, (end, _))| *end > range.start())
            .map(|(&(start, seq), &(end, writes))| (seq, LbnRange::new(start, end.since(start)), writes))
    }

    /// Returns whether an older request has to be done first.
    pub fn is_blocked(&self, seq: RequestSeq) -> bool {
        self.all.get(&seq).is_some_and(|request| {
            let changes = request.changes();
            self.over(request.range).any(|(other, _, writes)| other < seq && (writes || changes))
        })
    }

    /// Returns the waiting requests over a range, in order of arrival, that no longer have to wait.
    pub fn unblocked(&self, range: LbnRange) -> Vec<RequestSeq> {
        let waits = |seq: &RequestSeq| self.all.get(seq).is_some_and(|request| request.state == State::Waits);
        let mut free: Vec<RequestSeq> = self.over(range).map(|(seq, ..)| seq).filter(waits).collect();
        free.retain(|seq| !self.is_blocked(*seq));
        free.sort_unstable();
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Sectors;

    proptest! {
        #[test]
        fn requests_wait_for_the_same_ones_as_in_a_comparison_with_all(
            requests in prop::collection::vec((0u64..40, 1u64..12, any::<bool>()), 1..30),
            done in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let mut index = Requests::default();
            let mut naive: Vec<(RequestSeq, LbnRange, bool)> = Vec::new();
            for (start, len, write) in requests {
                let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                let ask = if write { Ask::Write { bytes: Vec::new(), through: false } } else { Ask::Read };
                naive.push((index.add(0, range, ask, Instant::ZERO), range, write));
            }
            let blocked = |naive: &[(RequestSeq, LbnRange, bool)], at: usize| {
                let (_, range, write) = naive[at];
                naive[..at].iter().any(|(_, other, writes)| other.overlaps(range) && (*writes || write))
            };
            for which in done {
                if naive.is_empty() {
                    break;
                }
                let (seq, range, _) = naive.remove(which.index(naive.len()));
                index.remove(seq);
                for (at, (seq, ..)) in naive.iter().enumerate() {
                    prop_assert_eq!(index.is_blocked(*seq), blocked(&naive, at));
                }
                let free: Vec<RequestSeq> = (0..naive.len())
                    .filter(|at| naive[*at].1.overlaps(range) && !blocked(&naive, *at))
                    .map(|at| naive[at].0)
                    .collect();
                prop_assert_eq!(index.unblocked(range), free);
                prop_assert_eq!(index.are_changing(), naive.iter().any(|(_, _, write)| *write));
            }
        }

        /// Parts of begun background writes that are done block nothing; the parts that a request waits for are found
        /// through any chain of requests.
        #[test]
        fn the_awaited_parts_are_those_that_a_search_sector_by_sector_finds(
            requests in prop::collection::vec((0u64..60, 1u64..16, any::<bool>(), any::<bool>()), 1..14),
            done in prop::collection::vec((any::<prop::sample::Index>(), 0u64..60, 1u64..6), 0..12),
        ) {
            let mut index = Requests::default();
            // Of each request: its range, whether it writes, whether it can wait, and the sectors that are left.
            let mut naive: Vec<(LbnRange, bool, bool, BTreeSet<u64>)> = Vec::new();
            for (start, len, write, background) in requests {
                let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                let ask = if write { Ask::Write { bytes: Vec::new(), through: false } } else { Ask::Read };
                let background = background && write;
                let seq = match background {
                    true => index.add_background(0, range, ask, Instant::ZERO),
                    false => index.add(0, range, ask, Instant::ZERO),
                };
                if !index.is_blocked(seq) {
                    index.get_mut(seq).unwrap().state = State::Begun;
                }
                naive.push((range, write, background, (start..start + len).collect()));
            }
            for (which, start, len) in done {
                let seq = which.index(naive.len());
                let begun = index.get_mut(seq as RequestSeq).unwrap().state == State::Begun;
                let part = LbnRange::new(Lbn::new(start), Sectors::new(len));
                if naive[seq].2 && begun && let Some(part) = part.intersection(naive[seq].0) {
                    index.part_done(seq as RequestSeq, part);
                    naive[seq].3.retain(|lbn| !part.contains(Lbn::new(*lbn)));
                    for free in index.unblocked(part) {
                        index.get_mut(free).unwrap().state = State::Begun;
                    }
                }
            }
            let begun: Vec<bool> =
                (0..naive.len()).map(|at| index.get_mut(at as RequestSeq).unwrap().state == State::Begun).collect();
            let blocks = |older: usize, younger: usize| {
                let ((range, write, ..), (_, writes, _, left)) = (&naive[younger], &naive[older]);
                older < younger && (*write || *writes) && left.iter().any(|lbn| range.contains(Lbn::new(*lbn)))
            };
            for seq in 0..naive.len() {
                let blocked = (0..naive.len()).any(|older| blocks(older, seq));
                prop_assert_eq!(index.is_blocked(seq as RequestSeq), blocked);
                prop_assert!(begun[seq] != blocked);
                let mut expected: BTreeSet<(RequestSeq, u64)> = BTreeSet::new();
                let (mut waiting, mut seen) = (vec![seq], BTreeSet::from([seq]));
                while let Some(of) = waiting.pop() {
                    for older in (0..naive.len()).filter(|older| blocks(*older, of)) {
                        let common = naive[older].3.iter().filter(|lbn| {
                            naive[older].2 && (!begun[older] || naive[of].0.contains(Lbn::new(**lbn)))
                        });
                        expected.extend(common.map(|lbn| (older as RequestSeq, *lbn)));
                        if !begun[older] && seen.insert(older) {
                            waiting.push(older);
                        }
                    }
                }
                let found = index.awaited_by(seq as RequestSeq);
                let found: BTreeSet<(RequestSeq, u64)> = found
                    .iter()
                    .flat_map(|one| (one.part.start().get()..one.part.end().get()).map(|lbn| (one.seq, lbn)))
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
