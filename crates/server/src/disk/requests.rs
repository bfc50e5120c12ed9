//! The foreground's requests, from arrival to answer.
//!
//! Overlapping requests, if one of them writes, are carried out in order of arrival: a client with several in flight
//! gets the same results as with one at a time. The core orders all others.

use device::{Ask, Failure};
use std::collections::BTreeMap;
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

#[derive(Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<RequestSeq, Request>,
    /// The ranges by their beginning: the end, and whether the request changes the disk.
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

    /// Returns the begun writes that can wait, with their ranges.
    pub fn begun_in_background(&self) -> impl Iterator<Item = (RequestSeq, LbnRange)> {
        let begun = |request: &Request| request.background && request.state == State::Begun;
        self.all.iter().filter(move |(_, request)| begun(request)).map(|(seq, request)| (*seq, request.range))
    }

    /// Returns whether a request of the foreground waits for this one.
    pub fn is_awaited(&self, seq: RequestSeq) -> bool {
        self.all.get(&seq).is_some_and(|request| {
            let changes = request.changes();
            self.over(request.range).any(|(other, writes)| {
                other > seq
                    && (writes || changes)
                    && self.all.get(&other).is_some_and(|other| !other.background)
            })
        })
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
        let place = self.places.remove(&(request.range.start(), seq));
        self.changing -= usize::from(place.is_some_and(|(_, changes)| changes));
        self.background -= usize::from(request.background);
        if self.places.is_empty() {
            self.longest = 0;
        }
        Some(request)
    }

    /// Returns the requests that overlap a range, and whether they change the disk.
    fn over(&self, range: LbnRange) -> impl Iterator<Item = (RequestSeq, bool)> {
        let from = Lbn::new(range.start().get().saturating_sub(self.longest));
        let places = self.places.range((from, 0)..(range.end(), 0));
        places
            .filter(move |(_, (end, _))| *end > range.start())
            .map(|(&(_, seq), &(_, writes))| (seq, writes))
    }

    /// Returns whether an older request has to be done first.
    pub fn is_blocked(&self, seq: RequestSeq) -> bool {
        self.all.get(&seq).is_some_and(|request| {
            let changes = request.changes();
            self.over(request.range).any(|(other, writes)| other < seq && (writes || changes))
        })
    }

    /// Returns the waiting requests over a range, in order of arrival, that no longer have to wait.
    pub fn unblocked(&self, range: LbnRange) -> Vec<RequestSeq> {
        let waits = |seq: &RequestSeq| self.all.get(seq).is_some_and(|request| request.state == State::Waits);
        let mut free: Vec<RequestSeq> = self.over(range).map(|(seq, _)| seq).filter(waits).collect();
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
    }
}
