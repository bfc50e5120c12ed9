//! The calls of clients, and the checks at the end of every history. A host provides its core and its clients; the calls and
//! the required answers are the same for all hosts.

use crate::clients::{Clients, NewTask, Session, range};
use crate::dice::Dice;
use crate::failure::{Broken, Check, hold};
use crate::polled::PolledCore;
use crate::setup::Setup;
use crate::step::Step;
use scheduler::{
    AnyCore, Parameter, Priority, Refused, Request, SESSIONS_MAX, SessionCall, SessionError, Sessions,
    Sharing, SubmitError, Watched,
};
use std::collections::BTreeMap;
use units::{Duration, Instant, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};

/// The number of foreground requests at the end of a history that counts as starvation if no session gets a block
/// meanwhile.
const STARVATION_REQUESTS: u64 = 30_000;

/// The number of foreground requests at the end of a history that counts as the starvation of a session if it gets no block
/// meanwhile, but others do.
const SHARED_STARVATION_REQUESTS: u64 = 60_000;

/// The number of seconds without foreground requests that counts as starvation if no session gets a block meanwhile, in
/// addition to the longest permitted rest of idle work.
const SILENCE_S: u64 = 30;

/// The least weight of ageing, in millionths, for which the service of a distant request is checked. With less weight that
/// takes too long.
const AGE_WEIGHT_PPM_MIN: u32 = 5_000;

/// The longest access on a tiny drive: some revolutions.
const ACCESS_TIME_MAX: Duration = Duration::from_millis(60);

/// A host whose clients make calls.
pub(crate) trait Calls {
    fn setup(&self) -> &Setup;
    fn capacity(&self) -> u64;
    fn clients(&self) -> &Clients;
    fn both(&mut self) -> (&mut dyn AnyCore, &mut Clients);
    /// Returns the time, and the number of the last event.
    fn clock(&self) -> (Instant, u64);
    /// Adds an event and returns its number.
    fn event(&mut self) -> u64;
    fn dice(&mut self) -> &mut Dice;
    /// Called after a call that may have promoted blocks, or withdrawn promoted ones.
    fn promoted(&mut self) {}
    /// Submits a foreground request. Returns whether it was accepted.
    fn submit(&mut self, op: Op, range: LbnRange) -> Result<bool, Broken>;
    /// Returns the number of unfinished foreground requests.
    fn outstanding(&self) -> usize;
    /// Returns the id of the last accepted request.
    fn newest(&self) -> RequestId;
    /// Returns whether a request is unfinished.
    fn waits(&self, request: RequestId) -> bool;
    /// Advances the time.
    fn advance(&mut self, by: Duration) -> Result<(), Broken>;
    /// Returns the longest time without foreground requests, in seconds, for which idle work may rest.
    fn longest_rest_s(&self) -> u64;
    /// Returns whether the core reports a reason for which it does not use gaps now.
    fn leaves_gaps_unused(&self) -> bool {
        false
    }
    /// Returns whether every wanted block fits into some gap.
    fn gaps_hold_every_block(&self) -> bool {
        true
    }

    /// Returns a valid range of the drive for any two numbers.
    fn clip(&self, start: u64, len: u64) -> LbnRange {
        let capacity = self.capacity();
        let start = start % capacity;
        range(start, len.clamp(1, capacity - start))
    }

    /// Executes a step that is a call of a client or the passing of time; returns `None` for any other step.
    fn call(&mut self, step: &Step) -> Option<Result<(), Broken>> {
        Some(match *step {
            Step::Open { session, priority } => self.open(session, priority),
            Step::Close { session } => self.make_of(session, |session| SessionCall::Close { session }),
            Step::Task { op, session, task, start, len, block } => {
                self.register(task, session, op, self.clip(start, len), block.max(1))
            }
            Step::Abort { task } => {
                let tasks = self.clients().tasks_of(task);
                tasks.into_iter().try_for_each(|id| self.make(task, SessionCall::Abort { task: id }))
            }
            Step::AbortRange { session, start, len } => {
                let range = self.clip(start, len);
                self.make_of(session, |session| SessionCall::AbortRange { session, range })
            }
            Step::Promote { session, start, len } => {
                let range = self.clip(start, len);
                self.make_of(session, |session| SessionCall::Promote { session, range })
            }
            Step::Suspend { session } => self.make_of(session, |session| SessionCall::Suspend { session }),
            Step::Resume { session } => self.make_of(session, |session| SessionCall::Resume { session }),
            Step::Serve { session, on } => {
                self.make_of(session, |session| SessionCall::ServeByWrites { session, op: Op::Read, on })
            }
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
        if known || self.clients().sessions.len() >= SESSIONS_MAX {
            return Ok(());
        }
        self.make(number, SessionCall::Open { priority })
    }

    fn register(
        &mut self,
        task: u32,
        session: u32,
        op: Op,
        range: LbnRange,
        block: u64,
    ) -> Result<(), Broken> {
        let (block, parameter) = (Sectors::new(block), Parameter(self.clock().1));
        let Some(session) = self.clients().session(session) else { return Ok(()) };
        self.make(task, SessionCall::Register { session, op, range, block, parameter })
    }

    /// Makes a call of a session, if a session of this number is open.
    fn make_of(&mut self, session: u32, call: impl FnOnce(SessionId) -> SessionCall) -> Result<(), Broken> {
        self.clients().session(session).map_or(Ok(()), |id| self.make(session, call(id)))
    }

    /// Makes a call that must be accepted. A session or task that it opens gets the number `number`.
    fn make(&mut self, number: u32, call: SessionCall) -> Result<(), Broken> {
        self.door(number, |sessions| sessions.call(call))?.map_err(refused)?;
        if let SessionCall::Promote { .. } | SessionCall::Suspend { .. } | SessionCall::Resume { .. } = call {
            self.promoted();
        }
        Ok(())
    }

    /// Lets a client make calls, and checks the answer to each. Sessions and tasks that it opens get the number `number`.
    fn door<R>(&mut self, number: u32, call: impl FnOnce(&mut dyn Sessions) -> R) -> Result<R, Broken> {
        let serve = self.setup().writes_serve_reads;
        let (now, sequence) = self.clock();
        let (core, clients) = self.both();
        let mut seen = Ok(());
        let reported = call(&mut Watched::new(core, |call, answer| {
            if seen.is_ok() {
                seen = see(clients, (number, serve), (now, sequence), call, answer);
            }
        }));
        seen.map(|()| reported)
    }

    /// Checks that no session starves: with steady foreground requests, every session that is not suspended gets its blocks,
    /// and after a resume every session does.
    fn all_sessions_finish(&mut self, hog: bool) -> Result<(), Broken> {
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
            self.make_of(number, |session| SessionCall::Resume { session })?;
        }
        self.in_gaps()?;
        self.no_request_starves()
    }

    /// Checks that ageing serves a distant request although nearer requests arrive all the time.
    fn no_request_starves(&mut self) -> Result<(), Broken> {
        let (age, most) = (self.setup().age, self.setup().most_pending);
        if age < AGE_WEIGHT_PPM_MIN || most < 4 || !self.dice().one_in(3) {
            return Ok(());
        }
        let (near, capacity) = (self.dice().next() % self.capacity(), self.capacity());
        let far = self.clip(near + capacity / 2, 1);
        if !self.submit(Op::Read, far)? {
            return Ok(());
        }
        let (old, step) = (self.newest(), Duration::from_millis(2));
        let longest = Duration::from_secs(2) + ACCESS_TIME_MAX * (4_000_000 / u64::from(age));
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

    /// Submits a foreground read at a random LBN, and advances the time until it is complete.
    fn request(&mut self) -> Result<(), Broken> {
        let (start, len) = (self.dice().next(), self.dice().range(1, 8));
        let range = self.clip(start, len);
        let taken = self.submit(Op::Read, range)?;
        let mut waited = 0;
        // If the request was refused, the pool is full of promoted work, which needs time too.
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
            // If the core uses no gaps, or blocks fit into none, idle time must suffice.
            let no_gap_will_do = without >= STARVATION_REQUESTS && !self.gaps_hold_every_block();
            if no_gap_will_do || self.leaves_gaps_unused() && without > CAREFUL_REQUESTS {
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

    /// Checks that all sessions that are not suspended get their blocks in idle time alone.
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

    /// Checks that every session gets blocks beside a session of the highest priority that always wants the whole drive.
    fn beside_hog(&mut self) -> Result<(), Broken> {
        let number = u32::MAX;
        self.open(number, 100)?;
        let Some(hog) = self.clients().session(number) else { return Ok(()) };
        // The hardest case: a session that was opened last, with few wanted blocks and a low priority.
        let tickets = if self.dice().one_in(2) { 1 } else { 10 };
        self.open(number - 1, tickets)?;
        if self.clients().session(number - 1).is_some() {
            self.event();
            let start = self.dice().next();
            let range = self.clip(start, 12);
            let op = if self.dice().one_in(2) { Op::Write } else { Op::Read };
            self.register(number - 1, number - 1, op, range, 2)?;
        }
        let others = |clients: &Clients| -> Vec<(SessionId, u64)> {
            let active = clients.sessions.iter().filter(|(id, s)| **id != hog && s.suspended.is_none());
            active.map(|(id, s)| (*id, s.wanted)).collect()
        };
        let mut seen: Vec<(SessionId, u64, u64)> =
            others(self.clients()).into_iter().map(|(id, left)| (id, left, 0)).collect();
        while seen.iter().any(|(_, left, _)| *left > 0) {
            if self.clients().sessions.get(&hog).is_some_and(|s| s.wanted == 0) {
                self.event();
                let range = self.clip(0, u64::MAX);
                self.register(number, number, Op::Read, range, 1)?;
            }
            self.request()?;
            let now: BTreeMap<SessionId, u64> = others(self.clients()).into_iter().collect();
            let gaps_will_do = self.gaps_hold_every_block();
            for (id, left, without) in &mut seen {
                // A session may be gone, because a scrub closes its session at its end.
                let now = now.get(id).copied().unwrap_or(0);
                *without += 1;
                if *left != now || now == 0 {
                    (*left, *without) = (now, 0);
                }
                if *without >= SHARED_STARVATION_REQUESTS && !gaps_will_do {
                    return self.make(number, SessionCall::Close { session: hog });
                }
                hold(*without < SHARED_STARVATION_REQUESTS, Check::Starved, || {
                    format!(
                        "{id} wants {left} blocks, and gets none of {without} gaps beside a session of priority 100"
                    )
                })?;
            }
        }
        self.make(number, SessionCall::Close { session: hog })
    }

    /// Returns a description of some wanted blocks, for a message.
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

/// The number of foreground requests, during which no session gets a block, after which a core's report that it does not
/// use gaps is accepted as the reason.
const CAREFUL_REQUESTS: u64 = 2_000;

/// Records a call in the model of the clients, and checks its answer. `number` is for a new session or task; `serve` says
/// whether writes complete the reads of a new session; `sequence` is the event number.
fn see(
    clients: &mut Clients,
    (number, serve): (u32, bool),
    (now, sequence): (Instant, u64),
    call: SessionCall,
    answer: Result<u64, SessionError>,
) -> Result<(), Broken> {
    let left = match (call, answer) {
        (SessionCall::Abort { task }, _) => Some(clients.aborted(task).unwrap_or(0)),
        (SessionCall::AbortRange { session, range }, _) => Some(clients.withdrawn(session, range)),
        (SessionCall::Close { session }, _) => Some(clients.closed(session)),
        (SessionCall::Open { priority }, Ok(id)) => {
            let session = Session { number, priority, serve, suspended: None, wanted: 0 };
            clients.opened(SessionId::new(id), session)?;
            None
        }
        (SessionCall::Register { session, op, range, block, parameter }, Ok(id)) => {
            let task = NewTask { number, session, op, range, block: block.get(), parameter };
            clients.registered(TaskId::new(id), task, now, sequence)?;
            None
        }
        (SessionCall::Promote { session, range }, Ok(promoted)) => {
            Some(promoted.min(clients.touching(session, range)))
        }
        (SessionCall::ServeByWrites { session, op: Op::Read, on }, Ok(_)) => {
            clients.serve(session, on);
            None
        }
        (SessionCall::Suspend { session }, Ok(_)) => {
            clients.suspended(session, Some(sequence));
            None
        }
        (SessionCall::Resume { session }, Ok(_)) => {
            clients.suspended(session, None);
            None
        }
        _ => None,
    };
    hold(left.is_none_or(|left| answer == Ok(left)), Check::Count, || {
        format!("{call:?} is answered {answer:?}; the model says {left:?}")
    })
}

/// Returns whether a foreground request was accepted. The core may refuse it only if the pool is full.
pub(crate) fn taken(
    reported: Result<u64, Refused>,
    request: Request,
    core: &impl PolledCore,
    room: usize,
) -> Result<bool, Broken> {
    match reported {
        Ok(_) => Ok(true),
        Err(Refused::Submit(SubmitError::Full { most, .. })) => {
            let full = most == room && core.pending() - core.promoted_pending() >= most;
            hold(full, Check::Refusal, || format!("{request:?} is refused, and the pool is not full"))?;
            Ok(false)
        }
        Err(other) => Err((Check::Refusal, format!("{request:?} is refused: {other}"))),
    }
}

/// Checks a core that has no more outputs and no work in progress: no request may wait, and if idle time is used and blocks
/// are wanted, a wake-up must be set.
pub(crate) fn goes_on(
    core: &impl PolledCore,
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
