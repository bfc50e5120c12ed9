//! A trace in compressed time that keeps what its requests must have waited for.

use crate::error::ConfigError;
use crate::issue::{ClosedTask, Issued, later, within};
use crate::replay::Replay;
use crate::request::{Request, Source};
use crate::script::{Script, served_at_once};
use std::collections::BTreeMap;
use units::{Instant, LbnRange};

/// A replay at a multiple of its speed, as ATC'03, section 4, makes heavier loads of a trace.
///
/// The times between arrivals shrink by a factor. What the traced program did not know until a request was done, it
/// cannot have acted upon before: so a request to sectors that an earlier one still waits for is taken to depend on it,
/// and is held until that one is complete; everything behind it in the trace is held as well, and then comes at its
/// own time or at once, whichever is later. (The paper speaks of repeated requests to a block; here one shared sector
/// is enough.)
///
/// It keeps its own times: use it with [`Arrival::Scripted`](crate::Arrival::Scripted).
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
pub struct Compressed {
    replay: Replay,
    factor: f64,
    /// How many have been issued; the number of the next, and of its task.
    issued: u32,
    start: Instant,
    /// The next comes no earlier: when the last one came, or when what it waited for was done.
    not_before: Instant,
    /// What is at the drive: where it begins, and where it ends. No two share a sector, since the later would be held.
    at_drive: BTreeMap<u64, u64>,
}

impl Compressed {
    /// `replay` at `factor` times its speed.
    ///
    /// # Errors
    /// A factor that is not from 0.000001 to 1000000000000; requests without arrival times; more than 4,294,967,295.
    pub fn new(replay: Replay, factor: f64) -> Result<Self, ConfigError> {
        let factor = within("factor", factor, 1e-6, 1e12, "give a factor from 0.000001 to 1000000000000")?;
        if !replay.recorded().arrivals {
            return Err(ConfigError::NotRecorded {
                field: "replay",
                what: "arrival times",
                mend: "replay it as a closed loop",
            });
        }
        if u32::try_from(replay.len()).is_err() {
            return Err(ConfigError::field("replay", replay.len(), "give at most 4294967295 requests"));
        }
        Ok(Self {
            replay,
            factor,
            issued: 0,
            start: Instant::ZERO,
            not_before: Instant::ZERO,
            at_drive: BTreeMap::new(),
        })
    }

    /// How many requests there are in all.
    pub fn len(&self) -> usize {
        self.replay.len()
    }

    /// Whether there are none; never, by construction.
    pub fn is_empty(&self) -> bool {
        self.replay.is_empty()
    }

    fn range(&self, number: u32) -> Option<LbnRange> {
        self.replay.records().get(number as usize).map(|record| record.range)
    }

    /// Whether something at the drive shares a sector with `range`.
    fn is_at_drive(&self, range: LbnRange) -> bool {
        // Disjoint ranges end in the order in which they begin, so only the last that begins before its end counts.
        let before = self.at_drive.range(..range.end().get()).next_back();
        before.is_some_and(|(_, end)| *end > range.start().get())
    }

    /// When the request would come if it depended on nothing.
    fn own_time(&self, number: u32) -> Option<Instant> {
        let records = self.replay.records();
        let origin = records.first()?.arrival?;
        let since = records.get(number as usize)?.arrival?.saturating_since(origin);
        let ns = (since.as_nanos() as f64 / self.factor).round() as u64;
        Some(later(self.start, units::Duration::from_nanos(ns)))
    }
}

impl Script for Compressed {
    fn start(&mut self, at: Instant) {
        self.start = at;
        self.not_before = at;
    }

    fn due(&self) -> Option<Instant> {
        let range = self.range(self.issued)?;
        if self.is_at_drive(range) {
            return None;
        }
        Some(self.own_time(self.issued)?.max(self.not_before))
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        let at = self.due().filter(|at| *at <= now)?;
        let record = *self.replay.records().get(self.issued as usize)?;
        let task = ClosedTask::new(self.issued);
        self.issued += 1;
        self.not_before = at;
        self.at_drive.insert(record.range.start().get(), record.range.end().get());
        Some(Issued { at, task, request: Request { op: record.op, range: record.range } })
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        let Some(done) = self.range(task.get()) else { return };
        self.at_drive.remove(&done.start().get());
        if self.range(self.issued).is_some_and(|next| next.overlaps(done)) {
            self.not_before = self.not_before.max(now);
        }
    }

    fn is_done(&self) -> bool {
        self.issued as usize >= self.replay.len()
    }
}

impl Source for Compressed {
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
    use crate::replay::Fit;
    use crate::trace::TraceRecord;
    use proptest::prelude::*;
    use units::{Lbn, Op, Sectors};

    fn record((start, len, arrival): (u64, u64, u64)) -> TraceRecord {
        TraceRecord {
            arrival: Some(Instant::from_nanos(arrival)),
            ..TraceRecord::new(Op::Read, LbnRange::new(Lbn::new(start), Sectors::new(len)))
        }
    }

    fn compressed(requests: &[(u64, u64, u64)], factor: f64) -> Compressed {
        let records = requests.iter().copied().map(record).collect();
        let replay = Replay::new(records, Sectors::new(1_000), Fit::Refuse).unwrap();
        Compressed::new(replay, factor).unwrap()
    }

    /// Serves one request at a time, whichever and for however long `dice` says; when each came and was done.
    fn serve(mut load: Compressed, start: Instant, dice: &[(usize, u64)]) -> Vec<(Instant, Instant)> {
        load.start(start);
        let (mut now, mut waiting) = (start, Vec::new());
        let mut times = vec![(Instant::ZERO, Instant::ZERO); load.len()];
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
            // What comes in the meantime comes in its own order with the completion.
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
        /// The rule in its own words, for each pair of requests.
        #[test]
        fn a_request_comes_when_the_naive_rule_says(
            mut requests in prop::collection::vec((0..60u64, 1..9u64, 0..4_000u64), 1..60),
            dice in prop::collection::vec((0..9usize, 0..300u64), 1..60),
            factor in 1..50u32, start in 0..1_000u64,
        ) {
            requests.sort_by_key(|r| r.2);
            let factor = f64::from(factor);
            let start = Instant::from_nanos(start);
            let times = serve(compressed(&requests, factor), start, &dice);
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
            let expected: Vec<_> = load.replay.records().iter().map(|r| r.range).collect();
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
    fn what_was_done_in_time_holds_nobody() {
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
