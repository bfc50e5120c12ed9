//! A trace in compressed time that preserves dependencies between requests.

use crate::error::ConfigError;
use crate::issue::within;
use crate::request::Script;
use crate::request::{ClosedTask, Issued, later};
use crate::request::{Request, Source};
use crate::script::served_at_once;
use std::collections::BTreeMap;
use units::{CacheOps, Duration, Instant, LbnRange};

/// A replay at a multiple of the recorded speed, as ATC'03, section 4, makes heavier loads of a trace.
///
/// The times between arrivals shrink by a factor. The traced program cannot have used the result of a request before
/// the completion, so a request that shares a sector with one at the drive counts as dependent on it, and is held
/// until that one is complete. All requests behind it in the trace are held as well. A request that was held arrives
/// at its own time or when the hold ends, whichever is later. (In the paper a request depends on an earlier one to
/// the same block; here one shared sector is enough.)
///
/// The replay keeps its own times: use it with [`Arrival::Scripted`](crate::Arrival::Scripted).
///
/// ```
/// use freeblock_workload::{Arrival, Compressed, Fit, Issuer, Replay, trace};
/// use units::{Instant, Sectors};
/// let trace = trace::read(b"0.0 0 64 8 1\n4.0 0 200 8 1\n6.0 0 64 8 0\n6.0 0 300 8 1\n")?;
/// let replay = Replay::new(trace.records, Sectors::new(1_000), Fit::Refuse)?;
/// let mut load = Issuer::new(Compressed::new(replay, 2.0)?, Arrival::Scripted, Instant::ZERO, 1)?;
///
/// let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
/// let first = load.issue(ms(0)).unwrap();
/// assert_eq!(load.issue(ms(2)).unwrap().at, ms(2)); // half of 4 ms
/// assert_eq!(load.due(), None); // the third repeats the first, and the fourth is behind it
/// load.complete(first.task, ms(9));
/// assert_eq!(load.issue(ms(9)).unwrap().at, ms(9));
/// assert_eq!(load.issue(ms(9)).unwrap().request.range.to_string(), "300+8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compressed<S> {
    source: S,
    factor: f64,
    /// The next request, and its recorded arrival after the first.
    next: Option<Following>,
    /// The task of the next request.
    task: u32,
    start: Instant,
    /// A lower bound on the next issue: the last issue, or the completion that the next request waited for.
    not_before: Instant,
    /// The requests at the drive: the end of each, by its first sector. No two share a sector, since the later one
    /// would be held.
    at_drive: BTreeMap<u64, u64>,
    /// The sectors of each task's request.
    tasks: BTreeMap<u32, LbnRange>,
}

impl<S: Source> Compressed<S> {
    /// Creates a replay of `source` at `factor` times its recorded speed.
    ///
    /// # Errors
    /// The factor is not from 0.000001 to 1000000000000, or the requests have no arrival times.
    pub fn new(mut source: S, factor: f64) -> Result<Self, ConfigError> {
        let factor = within("factor", factor, 1e-6, 1e12, "give a factor from 0.000001 to 1000000000000")?;
        if !source.recorded().arrivals {
            return Err(ConfigError::NotRecorded {
                field: "source",
                what: "arrival times",
                mend: "replay it as a closed loop",
            });
        }
        let next = following(&mut source);
        Ok(Self {
            source,
            factor,
            next,
            task: 0,
            start: Instant::ZERO,
            not_before: Instant::ZERO,
            at_drive: BTreeMap::new(),
            tasks: BTreeMap::new(),
        })
    }

    /// Returns whether a request at the drive shares a sector with `range`.
    fn is_at_drive(&self, range: LbnRange) -> bool {
        // Disjoint ranges end in the order in which they begin, so only the last one that begins before the end of
        // `range` matters.
        let before = self.at_drive.range(..range.end().get()).next_back();
        before.is_some_and(|(_, end)| *end > range.start().get())
    }

    /// Returns the time of a request that arrived `since` after the first, if the request depends on no other.
    fn own_time(&self, since: Duration) -> Instant {
        let ns = (since.as_nanos() as f64 / self.factor).round() as u64;
        later(self.start, Duration::from_nanos(ns))
    }
}

/// A request of the source.
#[derive(Clone, Copy, Debug)]
struct Following {
    request: Request,
    /// The recorded arrival after that of the first request.
    since: Duration,
    cache: CacheOps,
}

/// Returns the next request of a source, with its arrival after the first.
fn following(source: &mut impl Source) -> Option<Following> {
    let request = source.next_request()?;
    let since = source.recorded_arrival()?.saturating_since(Instant::ZERO);
    Some(Following { request, since, cache: source.cache_ops() })
}

impl<S: Source> Script for Compressed<S> {
    fn start(&mut self, at: Instant) {
        self.start = at;
        self.not_before = at;
    }

    fn due(&self) -> Option<Instant> {
        let Following { request, since, .. } = self.next?;
        if self.is_at_drive(request.range) {
            return None;
        }
        Some(self.own_time(since).max(self.not_before))
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        let at = self.due().filter(|at| *at <= now)?;
        let Following { request, cache, .. } = self.next?;
        self.next = following(&mut self.source);
        let task = ClosedTask::new(self.task);
        self.tasks.insert(self.task, request.range);
        self.task = self.task.wrapping_add(1);
        self.not_before = at;
        if !request.range.is_empty() {
            self.at_drive.insert(request.range.start().get(), request.range.end().get());
        }
        Some(Issued { at, task, request, cache })
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        let Some(done) = self.tasks.remove(&task.get()) else { return };
        if !done.is_empty() {
            self.at_drive.remove(&done.start().get());
        }
        if self.next.is_some_and(|next| next.request.range.overlaps(done)) {
            self.not_before = self.not_before.max(now);
        }
    }

    fn is_done(&self) -> bool {
        self.next.is_none()
    }
}

impl<S: Source> Source for Compressed<S> {
    fn next_request(&mut self) -> Option<Request> {
        served_at_once(self)
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceRecord;
    use crate::{Fit, Replay};
    use proptest::prelude::*;
    use units::{Lbn, Op, Sectors};

    fn record((start, len, arrival): (u64, u64, u64)) -> TraceRecord {
        TraceRecord {
            arrival: Some(Instant::from_nanos(arrival)),
            ..TraceRecord::new(Op::Read, LbnRange::new(Lbn::new(start), Sectors::new(len)))
        }
    }

    fn compressed(requests: &[(u64, u64, u64)], factor: f64) -> Compressed<Replay> {
        let records = requests.iter().copied().map(record).collect();
        let replay = Replay::new(records, Sectors::new(1_000), Fit::Refuse).unwrap();
        Compressed::new(replay, factor).unwrap()
    }

    /// Serves one request at a time, chosen and timed by `dice`; returns the issue and the completion of each.
    fn serve(
        mut load: Compressed<Replay>,
        requests: usize,
        start: Instant,
        dice: &[(usize, u64)],
    ) -> Vec<(Instant, Instant)> {
        load.start(start);
        let (mut now, mut waiting) = (start, Vec::new());
        let mut times = vec![(Instant::ZERO, Instant::ZERO); requests];
        let mut dice = dice.iter().cycle();
        loop {
            while let Some(issued) = load.issue(now) {
                assert!(issued.at <= now);
                times[issued.task.get() as usize].0 = issued.at;
                waiting.push(issued.task);
            }
            if waiting.is_empty() {
                match load.due() {
                    Some(due) => now = due,
                    None => break,
                }
                continue;
            }
            let (which, ns) = dice.next().unwrap();
            let task = waiting.swap_remove(which % waiting.len());
            let done = Instant::from_nanos(now.as_nanos() + ns);
            // Requests that arrive meanwhile are issued in their order before the completion.
            while let Some(due) = load.due().filter(|due| *due < done) {
                let issued = load.issue(due).unwrap();
                times[issued.task.get() as usize].0 = issued.at;
                waiting.push(issued.task);
            }
            now = done;
            times[task.get() as usize].1 = now;
            load.complete(task, now);
        }
        assert!(load.is_done());
        times
    }

    proptest! {
        /// Restates the rule by which requests are held, for each pair of requests.
        #[test]
        fn a_request_comes_when_the_naive_rule_says(
            mut requests in prop::collection::vec((0..60u64, 1..9u64, 0..4_000u64), 1..60),
            dice in prop::collection::vec((0..9usize, 0..300u64), 1..60),
            factor in 1..50u32, start in 0..1_000u64,
        ) {
            requests.sort_by_key(|r| r.2);
            let factor = f64::from(factor);
            let start = Instant::from_nanos(start);
            let times = serve(compressed(&requests, factor), requests.len(), start, &dice);
            let mut before = start;
            for (i, request) in requests.iter().enumerate() {
                let own = (request.2 - requests[0].2) as f64 / factor;
                let own = Instant::from_nanos(start.as_nanos() + own.round() as u64);
                let repeated = requests[..i].iter().zip(&times).filter(|(r, _)| {
                    r.0 < request.0 + request.1 && request.0 < r.0 + r.1
                });
                let released = repeated.map(|(_, times)| times.1).max().unwrap_or(start);
                before = own.max(before).max(released);
                prop_assert_eq!(times[i].0, before, "request {}", i);
            }
        }

        #[test]
        fn as_a_plain_source_it_gives_every_request_in_order(
            requests in prop::collection::vec((0..60u64, 1..9u64, 0..4_000u64), 1..60),
        ) {
            let mut load = compressed(&requests, 20.0);
            let expected: Vec<_> = load.source.records().iter().map(|r| r.range).collect();
            let given: Vec<_> = std::iter::from_fn(|| load.next_request()).map(|r| r.range).collect();
            prop_assert_eq!(given, expected);
        }
    }

    #[test]
    fn a_held_request_holds_those_behind_it() {
        let mut load = compressed(&[(0, 8, 0), (4, 8, 10), (100, 8, 11)], 1.0);
        load.start(Instant::ZERO);
        let first = load.issue(Instant::ZERO).unwrap();
        assert_eq!((load.due(), load.issue(Instant::from_nanos(500))), (None, None));
        load.complete(first.task, Instant::from_nanos(500));
        assert_eq!(load.issue(Instant::from_nanos(500)).unwrap().at.as_nanos(), 500);
        assert_eq!(load.issue(Instant::from_nanos(500)).unwrap().at.as_nanos(), 500);
    }

    #[test]
    fn a_request_completed_in_time_holds_no_other() {
        let mut load = compressed(&[(0, 8, 0), (0, 8, 1_000)], 1.0);
        load.start(Instant::ZERO);
        let first = load.issue(Instant::ZERO).unwrap();
        load.complete(first.task, Instant::from_nanos(400));
        assert_eq!(load.due(), Some(Instant::from_nanos(1_000)));
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        let refuse = |records: Vec<TraceRecord>, factor| {
            let replay = Replay::new(records, Sectors::new(1_000), Fit::Refuse).unwrap();
            Compressed::new(replay, factor).unwrap_err().to_string()
        };
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refuse(vec![record((0, 8, 0))], factor).starts_with("factor is"));
        }
        let untimed = TraceRecord { arrival: None, ..record((0, 8, 0)) };
        assert!(refuse(vec![untimed], 2.0).contains("the source has none"));
    }
}
