//! The calls that clients make, and the end of every history. A host provides its core and its clients; the calls and the
//! required answers are the same for all hosts.

use crate::clients::{Clients, NewTask, Session, range};
use crate::desk::Door;
use crate::dice::Dice;
use crate::failure::{Broken, Check, hold};
use crate::setup::Setup;
use crate::step::Step;
use scheduler::{AnyCore, MOST_SESSIONS, Parameter, Priority, Request, SessionError, Sharing, SubmitError};
use std::collections::BTreeMap;
use units::{Duration, Instant, LbnRange, Op, RequestId, SessionId};

/// The number of foreground requests at the end, without a block for any session, that prove starvation.
const STARVATION_REQUESTS: u64 = 30_000;

/// The same for one session among others.
const PATIENCE_SHARED: u64 = 60_000;

/// The seconds of silence without a block for any session, beyond the longest permitted rest, that prove that idle time is
/// not used.
const SILENCE_S: u64 = 30;

/// The least weight of ageing, in millionths, under which a request is served within a history.
const LEAST_AGE: u32 = 5_000;

/// The longest access of a tiny drive.
const LONGEST_ACCESS: Duration = Duration::from_millis(60);

/// A host whose clients make calls.
pub(crate) trait Calls {
    fn setup(&self) -> &Setup;
    fn capacity(&self) -> u64;
    fn clients(&self) -> &Clients;
    fn both(&mut self) -> (&mut dyn AnyCore, &mut Clients);
    /// Returns the time, and the place in the order of events.
    fn clock(&self) -> (Instant, u64);
    /// Adds an event and returns its place in their order.
    fn event(&mut self) -> u64;
    fn dice(&mut self) -> &mut Dice;
    /// Handles a possible promotion, or the release of promoted work.
    fn promoted(&mut self) {}
    /// Submits a foreground request. Returns whether it was accepted.
    fn submit(&mut self, op: Op, range: LbnRange) -> Result<bool, Broken>;
    /// Returns the number of unfinished foreground requests.
    fn outstanding(&self) -> usize;
    /// Returns the last accepted request.
    fn newest(&self) -> RequestId;
    /// Returns whether a request is unfinished.
    fn waits(&self, request: RequestId) -> bool;
    /// Advances the time.
    fn advance(&mut self, by: Duration) -> Result<(), Broken>;
    /// Returns the longest silence, in seconds, for which wanted work may rest.
    fn longest_rest_s(&self) -> u64;
    /// Returns whether gaps are not used now, and the core reports a reason.
    fn leaves_gaps_alone(&self) -> bool {
        false
    }
    /// Returns whether each block fits into some gap.
    fn gaps_hold_every_block(&self) -> bool {
        true
    }

    /// Returns a valid range of the drive for any numbers.
    fn clip(&self, start: u64, len: u64) -> LbnRange {
        let capacity = self.capacity();
        let start = start % capacity;
        range(start, len.clamp(1, capacity - start))
    }

    /// Carries out a step that is a call; returns `None` for any other.
    fn call(&mut self, step: &Step) -> Option<Result<(), Broken>> {
        Some(match *step {
            Step::Open { session, priority } => self.open(session, priority),
            Step::Close { session } => match self.clients().session(session) {
                Some(id) => self.close(id),
                None => Ok(()),
            },
            Step::Task { op, session, task, start, len, block } => match self.clients().session(session) {
                Some(session) => {
                    let (range, parameter) = (self.clip(start, len), Parameter(self.clock().1));
                    self.register(NewTask {
                        number: task,
                        session,
                        op,
                        range,
                        block: block.max(1),
                        parameter,
                    })
                }
                None => Ok(()),
            },
            Step::Abort { task } => self.abort(task),
            Step::AbortRange { session, start, len } => match self.clients().session(session) {
                Some(id) => {
                    let range = self.clip(start, len);
                    let (core, clients) = self.both();
                    let (told, left) = (core.abort_range(id, range), clients.withdrawn(id, range));
                    counted(told, left, "abort-range")
                }
                None => Ok(()),
            },
            Step::Promote { session, start, len } => self.promote(session, start, len),
            Step::Suspend { session } => self.suspend(session, true),
            Step::Resume { session } => self.suspend(session, false),
            Step::Serve { session, on } => match self.clients().session(session) {
                Some(id) => {
                    let (core, clients) = self.both();
                    clients.serve(id, on);
                    core.serve_reads_by_writes(id, on).map_err(refused)
                }
                None => Ok(()),
            },
            Step::Submit { op, start, len } => {
                let range = self.clip(start, len);
                self.submit(op, range).map(|_| ())
            }
            Step::Advance { ns } => self.advance(Duration::from_nanos(ns)),
            _ => return None,
        })
    }

    fn open(&mut self, number: u32, priority: u8) -> Result<(), Broken> {
        let Some(priority) = Priority::new(priority) else { return Ok(()) };
        let known = self.clients().session(number).is_some();
        if known || self.clients().sessions.len() >= MOST_SESSIONS {
            return Ok(());
        }
        let serve = self.setup().writes_serve_reads;
        let (core, clients) = self.both();
        let id = core.open(priority).map_err(refused)?;
        clients.opened(id, Session { number, priority, serve, suspended: None, wanted: 0 })
    }

    fn close(&mut self, id: SessionId) -> Result<(), Broken> {
        let (core, clients) = self.both();
        let (told, left) = (core.close(id), clients.closed(id));
        counted(told, left, "close")
    }

    fn register(&mut self, task: NewTask) -> Result<(), Broken> {
        let (now, sequence) = self.clock();
        let (core, clients) = self.both();
        let id = task.register(core).map_err(refused)?;
        clients.registered(id, task, now, sequence)
    }

    fn abort(&mut self, task: u32) -> Result<(), Broken> {
        for id in self.clients().tasks_of(task) {
            let (core, clients) = self.both();
            let told = core.abort(id);
            if let Some(left) = clients.aborted(id) {
                counted(told, left, "abort")?;
            }
        }
        Ok(())
    }

    fn promote(&mut self, session: u32, start: u64, len: u64) -> Result<(), Broken> {
        let Some(id) = self.clients().session(session) else { return Ok(()) };
        let range = self.clip(start, len);
        let (core, clients) = self.both();
        let most = clients.touching(id, range);
        let told = core.promote(id, range);
        hold(told.is_ok_and(|n| n <= most), Check::Count, || {
            format!("promote says {told:?}, and {most} blocks are wanted there")
        })?;
        self.promoted();
        Ok(())
    }

    fn suspend(&mut self, number: u32, on: bool) -> Result<(), Broken> {
        let Some(id) = self.clients().session(number) else { return Ok(()) };
        let sequence = self.clock().1;
        let (core, clients) = self.both();
        let told = if on { core.suspend(id) } else { core.resume(id) };
        if let Some(session) = clients.sessions.get_mut(&id) {
            session.suspended = on.then(|| session.suspended.unwrap_or(sequence));
        }
        told.map_err(refused)?;
        self.promoted();
        Ok(())
    }

    /// Checks that no session starves: with a steady foreground, each that is not suspended gets its blocks; after a resume,
    /// all do.
    fn everybody_gets_everything(&mut self, hog: bool) -> Result<(), Broken> {
        if hog && self.setup().sharing == Sharing::Lottery {
            self.beside_hog()?;
        }
        if self.setup().idle.is_some() && self.dice().one_in(2) {
            self.in_silence()?;
        }
        self.in_gaps()?;
        let of = self.clients().sessions.values();
        let suspended: Vec<u32> = of.filter(|s| s.suspended.is_some()).map(|s| s.number).collect();
        for number in suspended {
            self.suspend(number, false)?;
        }
        self.in_gaps()?;
        self.no_request_starves()
    }

    /// Checks that ageing serves a distant request, however many nearer ones there are.
    fn no_request_starves(&mut self) -> Result<(), Broken> {
        let (age, most) = (self.setup().age, self.setup().most_pending);
        if age < LEAST_AGE || most < 4 || !self.dice().one_in(3) {
            return Ok(());
        }
        let (near, capacity) = (self.dice().next() % self.capacity(), self.capacity());
        let far = self.clip(near + capacity / 2, 1);
        if !self.submit(Op::Read, far)? {
            return Ok(());
        }
        let (old, step) = (self.newest(), Duration::from_millis(2));
        let longest = Duration::from_secs(2) + LONGEST_ACCESS * (4_000_000 / u64::from(age));
        let mut waited = Duration::ZERO;
        while self.waits(old) {
            while self.outstanding() < 4 {
                let by = self.dice().below(24);
                let range = self.clip(near + by, 1);
                if !self.submit(Op::Read, range)? {
                    break;
                }
            }
            self.advance(step)?;
            waited += step;
            hold(waited < longest, Check::Starved, || {
                format!(
                    "a request for LBN {} has waited for {} s while others passed it",
                    far.start(),
                    waited.as_secs_f64()
                )
            })?;
        }
        self.advance(Duration::from_secs(1))
    }

    /// Submits a foreground read at a random place, and runs until it is done.
    fn request(&mut self) -> Result<(), Broken> {
        let (start, len) = (self.dice().next(), self.dice().range(1, 8));
        let range = self.clip(start, len);
        let taken = self.submit(Op::Read, range)?;
        let mut waited = 0;
        // A pool that is full of promoted work needs time as well.
        while self.outstanding() > 0 || (waited == 0 && !taken) {
            waited += 1;
            hold(waited < 100_000, Check::Starved, || "the foreground is never done".into())?;
            self.advance(Duration::from_millis(5))?;
        }
        Ok(())
    }

    fn in_gaps(&mut self) -> Result<(), Broken> {
        let (mut left, mut without) = (self.clients().active_wanted(), 0);
        while left > 0 {
            self.request()?;
            without += 1;
            let now = self.clients().active_wanted();
            if now != left {
                (left, without) = (now, 0);
            }
            // Then a silence must suffice.
            let no_gap_will_do = without >= STARVATION_REQUESTS && !self.gaps_hold_every_block();
            if no_gap_will_do || self.leaves_gaps_alone() && without > PATIENCE_CAREFUL {
                return if self.setup().idle.is_some() { self.in_silence() } else { Ok(()) };
            }
            hold(without < STARVATION_REQUESTS, Check::Starved, || {
                format!(
                    "{left} blocks are wanted, and {without} requests have brought none: {}",
                    self.wanted()
                )
            })?;
        }
        Ok(())
    }

    /// Checks that idle time alone suffices as well.
    fn in_silence(&mut self) -> Result<(), Broken> {
        let (mut left, mut silence) = (self.clients().active_wanted(), 0);
        while left > 0 {
            self.advance(Duration::from_secs(1))?;
            silence += 1;
            let now = self.clients().active_wanted();
            if now != left {
                (left, silence) = (now, 0);
            }
            hold(silence < SILENCE_S + self.longest_rest_s(), Check::Starved, || {
                format!(
                    "{left} blocks are wanted, and {silence} s of silence have brought none: {}",
                    self.wanted()
                )
            })?;
        }
        Ok(())
    }

    /// Checks that each session makes progress beside one of the highest priority that always wants everything.
    fn beside_hog(&mut self) -> Result<(), Broken> {
        let number = u32::MAX;
        self.open(number, 100)?;
        let Some(hog) = self.clients().session(number) else { return Ok(()) };
        // A session that was opened last, with few wanted blocks and as few tickets as possible.
        let tickets = if self.dice().one_in(2) { 1 } else { 10 };
        self.open(number - 1, tickets)?;
        if let Some(session) = self.clients().session(number - 1) {
            let (parameter, start) = (Parameter(self.event()), self.dice().next());
            let range = self.clip(start, 12);
            let op = if self.dice().one_in(2) { Op::Write } else { Op::Read };
            self.register(NewTask { number: number - 1, session, op, range, block: 2, parameter })?;
        }
        let others = |clients: &Clients| -> Vec<(SessionId, u64)> {
            let active = clients.sessions.iter().filter(|(id, s)| **id != hog && s.suspended.is_none());
            active.map(|(id, s)| (*id, s.wanted)).collect()
        };
        let mut seen: Vec<(SessionId, u64, u64)> =
            others(self.clients()).into_iter().map(|(id, left)| (id, left, 0)).collect();
        while seen.iter().any(|(_, left, _)| *left > 0) {
            if self.clients().sessions.get(&hog).is_some_and(|s| s.wanted == 0) {
                let parameter = Parameter(self.event());
                let range = self.clip(0, u64::MAX);
                self.register(NewTask { number, session: hog, op: Op::Read, range, block: 1, parameter })?;
            }
            self.request()?;
            let now: BTreeMap<SessionId, u64> = others(self.clients()).into_iter().collect();
            let gaps_will_do = self.gaps_hold_every_block();
            for (id, left, without) in &mut seen {
                // A scrub closes its session at its end.
                let now = now.get(id).copied().unwrap_or(0);
                *without += 1;
                if *left != now || now == 0 {
                    (*left, *without) = (now, 0);
                }
                if *without >= PATIENCE_SHARED && !gaps_will_do {
                    return self.close(hog);
                }
                hold(*without < PATIENCE_SHARED, Check::Starved, || {
                    format!(
                        "{id} wants {left} blocks, and gets none of {without} gaps beside a session of priority 100"
                    )
                })?;
            }
        }
        self.close(hog)
    }

    /// Returns the wanted blocks, for a message.
    fn wanted(&self) -> String {
        let tasks = self.clients().tasks.values().take(4);
        let of = tasks.map(|t| {
            let first =
                (0..t.range.len().get().div_ceil(t.block)).map(|b| t.block_range(b)).find(|r| t.wants(*r));
            format!("{:?} of task {} at {first:?}", t.op, t.number)
        });
        of.collect::<Vec<_>>().join(", ")
    }
}

/// The number of foreground requests without a block for any session after which a core's report that gaps are not used is
/// accepted.
const PATIENCE_CAREFUL: u64 = 2_000;

/// Checks a call's count of undelivered blocks.
pub(crate) fn counted(told: Result<u64, SessionError>, left: u64, call: &str) -> Result<(), Broken> {
    hold(told == Ok(left), Check::Count, || format!("{call} says {told:?}, and {left} blocks had not come"))
}

/// Returns whether a foreground request was accepted; it may be refused only if the pool is full.
pub(crate) fn taken(
    told: Result<(), SubmitError>,
    request: Request,
    core: &impl Door,
    room: usize,
) -> Result<bool, Broken> {
    match told {
        Ok(()) => Ok(true),
        Err(SubmitError::Full { most, .. }) => {
            let full = most == room && core.pending() - core.promoted_pending() >= most;
            hold(full, Check::Refusal, || format!("{request:?} is refused, and the pool is not full"))?;
            Ok(false)
        }
        Err(other) => Err((Check::Refusal, format!("{request:?} is refused: {other}"))),
    }
}

/// Checks that no work rests that could continue: with nothing under way no request may wait, and if idle time is used and
/// blocks are wanted there is an instant of the next attempt.
pub(crate) fn goes_on(
    core: &impl Door,
    clients: &Clients,
    setup: &Setup,
    waiting: usize,
) -> Result<(), Broken> {
    let promoted = core.promoted_pending();
    hold(waiting + promoted == 0, Check::Hang, || {
        format!("{waiting} requests and {promoted} promoted ones wait, and nothing is done")
    })?;
    let wanted = clients.active_wanted();
    hold(wanted == 0 || setup.idle.is_none() || core.wake_at().is_some(), Check::Hang, || {
        format!("{wanted} blocks are wanted, the drive is idle, and no wake-up is set")
    })
}

/// Returns the failure of a call that must be accepted.
pub(crate) fn refused(error: SessionError) -> Broken {
    (Check::Refusal, format!("a call that is right is refused: {error}"))
}
