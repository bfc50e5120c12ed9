//! The requests of clients, from arrival to answer: all of the foreground, and background writes.
//!
//! Overlapping requests, if one of them writes, are carried out in order of arrival: a client with several requests in
//! flight gets the same results as with one at a time. The core orders all other requests.

use device::{Ask, Failure};
use std::collections::BTreeMap;
use units::{Instant, Lbn, LbnRange};

/// The number of a request in the order of arrival.
pub(super) type RequestSeq = u64;

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// An older overlapping request has to be done first.
    Waits,
    /// The core's pool is full.
    Queued,
    /// The application has to read the blocks under the write first, or has fenced off its range.
    Held,
    /// The core or the device has the request.
    Begun,
}

#[derive(Debug)]
pub(super) struct Request {
    /// The client's number for the request.
    pub id: u64,
    pub range: LbnRange,
    pub ask: Ask,
    /// Whether the request is a background write: the core gets it as background work.
    pub background: bool,
    pub arrived: Instant,
    pub state: State,
    /// The number of ranges of older requests that have to be done first.
    blockers: usize,
    /// Whether the request is a background write that a foreground request waits for, directly or through other
    /// requests.
    awaited: bool,
    /// The bytes read.
    pub read: Vec<u8>,
    /// The reason why the request failed.
    pub failure: Option<Failure>,
}

impl Request {
    pub fn changes(&self) -> bool {
        matches!(self.ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. })
    }
}

/// A part of a background write that a foreground request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub seq: RequestSeq,
    pub part: LbnRange,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<RequestSeq, Request>,
    /// The ranges that are not done, by first sector: the end, and whether the request changes the disk. A background
    /// write of which a part in the middle is done has two ranges.
    places: BTreeMap<(Lbn, RequestSeq), (Lbn, bool)>,
    /// The length in sectors of the longest range. A search for overlaps begins this far before the searched range.
    longest: u64,
    next: RequestSeq,
    /// The number of requests that change the disk.
    changing: usize,
    /// The number of background writes.
    background: usize,
    /// The number of requests and ranges that searches have looked at.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

impl Requests {
    /// Adds a request. A flush has no range and waits for no other request.
    pub fn add(&mut self, id: u64, range: LbnRange, ask: Ask, arrived: Instant) -> RequestSeq {
        let seq = self.next;
        self.next += 1;
        let mut request = Request {
            id,
            range,
            ask,
            background: false,
            arrived,
            state: State::Waits,
            blockers: 0,
            awaited: false,
            read: Vec::new(),
            failure: None,
        };
        if !matches!(request.ask, Ask::Flush) {
            let changes = request.changes();
            request.blockers = self.over(range).filter(|(.., writes)| *writes || changes).count();
            self.longest = self.longest.max(range.len().get());
            self.changing += usize::from(changes);
            self.places.insert((range.start(), seq), (range.end(), changes));
        }
        self.all.insert(seq, request);
        seq
    }

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

    /// Returns the background writes that the core has or that are held.
    pub fn background_at_work(&self) -> impl Iterator<Item = Awaited> {
        let at_work =
            |request: &Request| request.background && matches!(request.state, State::Begun | State::Held);
        self.all
            .iter()
            .filter(move |(_, request)| at_work(request))
            .map(|(seq, request)| Awaited { seq: *seq, part: request.range })
    }

    /// Records that this foreground request waits. Returns the parts of begun or held background writes that the
    /// request waits for, directly or through a chain of other requests. Marks the background writes of such a chain
    /// that have not begun as awaited. Of a begun write only the overlapping part is awaited, of a held write all.
    ///
    /// A chain ends at another foreground request, because that request has made its own call. The other links of a
    /// chain are writes, each of which overlaps the next, so all of them together cover one range.
    pub fn awaited_by(&mut self, seq: RequestSeq) -> Vec<Awaited> {
        let mut awaited = Vec::new();
        let Some(mut waiting) = self.all.get(&seq).map(|request| request.range) else { return awaited };
        if self.background == 0 {
            return awaited;
        }
        // Each link of the chain so far, with the range that waits for requests older than the link.
        let mut steps = vec![(seq, waiting)];
        for (&seq, older) in self.all.range_mut(..seq).rev() {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
            if !older.background || older.state == State::Begun || !older.range.overlaps(waiting) {
                continue;
            }
            older.awaited = true;
            if older.state == State::Held {
                awaited.push(Awaited { seq, part: older.range });
            }
            let (start, end) =
                (older.range.start().min(waiting.start()), older.range.end().max(waiting.end()));
            waiting = LbnRange::new(start, end.since(start));
            steps.push((seq, waiting));
        }
        let begun = |seq: RequestSeq| {
            self.all.get(&seq).is_some_and(|request| request.background && request.state == State::Begun)
        };
        awaited.extend(self.over(waiting).filter(|(seq, ..)| begun(*seq)).filter_map(|(seq, place, _)| {
            let younger = steps.partition_point(|(step, _)| *step > seq).checked_sub(1)?;
            Some(Awaited { seq, part: place.intersection(steps[younger].1)? })
        }));
        awaited
    }

    /// Returns the parts of a background write that a foreground request waits for, directly or through other requests.
    /// The write has just begun, or is held.
    pub fn awaited_parts(&self, seq: RequestSeq) -> Vec<Awaited> {
        let Some(write) = self.all.get(&seq).filter(|write| write.awaited) else { return Vec::new() };
        if write.state == State::Held {
            return vec![Awaited { seq, part: write.range }];
        }
        let waits = |other: RequestSeq| {
            other > seq && self.all.get(&other).is_some_and(|other| !other.background || other.awaited)
        };
        let parts = self.over(write.range).filter(|(other, ..)| waits(*other));
        parts
            .filter_map(|(_, place, _)| Some(Awaited { seq, part: place.intersection(write.range)? }))
            .collect()
    }

    /// Records that a part of a background write is done, so that no other request has to wait for the part.
    pub fn part_done(&mut self, seq: RequestSeq, part: LbnRange) {
        let over: Vec<LbnRange> =
            self.over(part).filter(|(of, ..)| *of == seq).map(|(_, place, _)| place).collect();
        for place in over {
            self.free(seq, place, part);
        }
    }

    /// Removes a part from a range of a request, and from the counts of the younger requests that waited for the range.
    fn free(&mut self, seq: RequestSeq, place: LbnRange, part: LbnRange) {
        let Some(part) = place.intersection(part) else { return };
        let Some((_, changes)) = self.places.remove(&(place.start(), seq)) else { return };
        let rest = [(place.start(), part.start()), (part.end(), place.end())];
        let rest = rest.map(|(from, to)| LbnRange::new(from, to.since(from)));
        for place in rest.iter().filter(|place| !place.is_empty()) {
            self.places.insert((place.start(), seq), (place.end(), changes));
        }
        let behind = |(other, _, writes): &(RequestSeq, _, bool)| *other > seq && (*writes || changes);
        let behind: Vec<RequestSeq> = self.over(part).filter(behind).map(|(other, ..)| other).collect();
        for other in behind {
            if let Some(request) = self.all.get_mut(&other) {
                let left = rest.iter().filter(|place| place.overlaps(request.range)).count();
                request.blockers = (request.blockers + left).saturating_sub(1);
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
        let its = places.filter(|((_, of), _)| *of == seq);
        let its: Vec<_> =
            its.map(|((start, _), (end, _))| LbnRange::new(*start, end.since(*start))).collect();
        for place in its {
            self.free(seq, place, place);
        }
        self.changing -= usize::from(request.changes());
        self.background -= usize::from(request.background);
        if self.places.is_empty() {
            self.longest = 0;
        }
        Some(request)
    }

    /// Returns the unfinished ranges that overlap `range`, with their requests, and whether these change the disk.
    fn over(&self, range: LbnRange) -> impl Iterator<Item = (RequestSeq, LbnRange, bool)> {
        let from = Lbn::new(range.start().get().saturating_sub(self.longest));
        let places = self.places.range((from, 0)..(range.end(), 0));
        #[cfg(test)]
        let places = places.inspect(|_| self.looked_at.set(self.looked_at.get() + 1));
        places
            .filter(move |(_, (end, _))| *end > range.start())
            .map(|(&(start, seq), &(end, writes))| (seq, LbnRange::new(start, end.since(start)), writes))
    }

    /// Returns whether an older request has to be done first.
    pub fn is_blocked(&self, seq: RequestSeq) -> bool {
        self.all.get(&seq).is_some_and(|request| request.blockers > 0)
    }

    /// Returns the waiting requests over a range, in order of arrival, that no longer have to wait.
    pub fn unblocked(&self, range: LbnRange) -> Vec<RequestSeq> {
        let is_free = |seq: &RequestSeq| {
            self.all.get(seq).is_some_and(|request| request.state == State::Waits && request.blockers == 0)
        };
        let mut free: Vec<RequestSeq> = self.over(range).map(|(seq, ..)| seq).filter(is_free).collect();
        free.sort_unstable();
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
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

        /// Finished parts of begun background writes block no request. The parts that a foreground request waits for
        /// are found through chains of requests of any length.
        #[test]
        fn the_awaited_parts_are_those_that_a_search_sector_by_sector_finds(
            requests in prop::collection::vec((0u64..30, 1u64..16, any::<bool>(), prop::bool::weighted(0.8)), 1..14),
            done in prop::collection::vec((any::<prop::sample::Index>(), 0u64..30, 1u64..16), 0..12),
        ) {
            let mut index = Requests::default();
            // For each request: its range, whether it writes, whether it can wait, and the sectors that are left.
            let mut naive: Vec<(LbnRange, bool, bool, BTreeSet<u64>)> = Vec::new();
            let mut early: BTreeSet<(RequestSeq, u64)> = BTreeSet::new();
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
                } else if !background {
                    early.extend(sectors(&index.awaited_by(seq)));
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
                        early.extend(sectors(&index.awaited_parts(free)));
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
                if begun[seq] || naive[seq].2 {
                    continue;
                }
                let mut expected: BTreeSet<(RequestSeq, u64)> = BTreeSet::new();
                let (mut waiting, mut seen) = (vec![seq], BTreeSet::from([seq]));
                while let Some(of) = waiting.pop() {
                    for older in (0..naive.len()).filter(|older| blocks(*older, of)) {
                        if begun[older] {
                            let common = naive[older].3.iter().filter(|lbn| naive[of].0.contains(Lbn::new(**lbn)));
                            expected.extend(common.filter(|_| naive[older].2).map(|lbn| (older as RequestSeq, *lbn)));
                        } else if seen.insert(older) {
                            waiting.push(older);
                        }
                    }
                }
                // Each part was found when the request arrived, when the write began, or for another request in
                // between.
                prop_assert!(expected.is_subset(&early), "{expected:?} {early:?}");
                let found = sectors(&index.awaited_by(seq as RequestSeq));
                prop_assert!(found.is_subset(&expected), "{found:?} {expected:?}");
            }
        }
    }

    fn sectors(parts: &[Awaited]) -> BTreeSet<(RequestSeq, u64)> {
        let lbns = |one: &Awaited| one.part.start().get()..one.part.end().get();
        parts.iter().flat_map(|one| lbns(one).map(|lbn| (one.seq, lbn))).collect()
    }

    /// Without such a bound one client whose writes all overlap could keep the disk's thread busy.
    #[test]
    fn the_work_for_a_request_grows_no_faster_than_the_number_of_those_it_overlaps() {
        const WRITES: u64 = 1_000;
        let write = || Ask::Write { bytes: Vec::new(), through: false };
        // The ranges of younger writes begin before those of older ones, behind them, or at the same sector.
        for place in [|at: u64| WRITES - at, |at| at, |_| 0] {
            let mut index = Requests::default();
            let range = |at| LbnRange::new(Lbn::new(place(at)), Sectors::new(WRITES));
            let first = index.add_background(0, range(0), write(), Instant::ZERO);
            index.get_mut(first).unwrap().state = State::Begun;
            let step = |index: &mut Requests| {
                let looked_at = index.looked_at.take() as u64;
                assert!(looked_at <= 8 * WRITES, "{looked_at} for one request");
            };
            for at in 1..WRITES {
                index.add_background(at, range(at), write(), Instant::ZERO);
                step(&mut index);
            }
            let all = LbnRange::new(Lbn::ZERO, Sectors::new(2 * WRITES));
            let read = index.add(WRITES, all, Ask::Read, Instant::ZERO);
            step(&mut index);
            assert!(!index.awaited_by(read).is_empty());
            step(&mut index);
            for seq in 0..WRITES {
                index.part_done(seq, LbnRange::new(range(seq).start(), Sectors::new(8)));
                let range = index.remove(seq).unwrap().range;
                step(&mut index);
                let [next] = index.unblocked(range)[..] else { panic!("one request at a time can begin") };
                index.get_mut(next).unwrap().state = State::Begun;
                assert_eq!(index.awaited_parts(next).is_empty(), next == read);
                step(&mut index);
            }
        }
    }

    #[test]
    fn a_flush_waits_for_no_write_that_lies_around_the_place_of_its_empty_range() {
        let mut index = Requests::default();
        let (place, around) = (Lbn::new(100), LbnRange::new(Lbn::new(90), Sectors::new(20)));
        index.add(0, around, Ask::Discard, Instant::ZERO);
        let flush = index.add(1, LbnRange::new(place, Sectors::ZERO), Ask::Flush, Instant::ZERO);
        assert!(!index.is_blocked(flush));
    }
}
