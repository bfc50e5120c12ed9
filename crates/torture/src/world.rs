//! The host: time, the head, the medium, clients and foreground around one core, and what they hold against it.

mod idle;

use crate::clients::{Clients, range};
use crate::desk::Desk;
use crate::dice::{Dice, mix};
use crate::exec::{Exec, Held};
use crate::failure::{Broken, Check, hold};
use crate::medium::{Author, Health, Medium, lbns};
use crate::scenario::Setup;
use crate::scrub::{Ideal, Scrub};
use crate::step::{AtHand, Fate};
use crate::twin::{Alone, Twin, has_background};
use drive::Mechanics;
use model::{DriveModel, Position};
use scheduler::{Action, Config, Core, Harm, Record, Request, SubmitError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// Polls at one instant after which something must be wrong.
const ENDLESS: u32 = 1 << 20;

/// A foreground request that is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreground {
    pub op: Op,
    pub range: LbnRange,
    /// Its place in the order of events.
    pub submitted: u64,
    pub arrived: Instant,
    pub version: u64,
    /// Whether the foreground had nothing else to wait for when it came.
    pub alone: bool,
}

/// What happened in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// Foreground requests done, failed ones included.
    pub requests: u64,
    /// Scrubs of the whole drive that ended.
    pub scrubs: u64,
    /// Background blocks delivered.
    pub blocks: u64,
    /// Of those, written.
    pub written: u64,
    /// Of those, on bad sectors.
    pub bad: u64,
    /// Idle visits.
    pub idle: u64,
    /// Idle visits cut short.
    pub cuts: u64,
    /// Commands lost.
    pub lost: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Foreground times held against the twin's.
    pub compared: u64,
}

pub(crate) struct World {
    pub setup: Setup,
    config: Config,
    pub drive: Arc<DriveModel>,
    mechanics: Mechanics,
    pub core: Core,
    pub medium: Medium,
    pub clients: Clients,
    pub now: Instant,
    /// Counts events, to tell which came first.
    pub sequence: u64,
    versions: u64,
    exec: Option<Exec>,
    /// A lost foreground command, which must be done again first.
    retry: Option<Exec>,
    /// The place in the order of events, and the bad sectors, of what was done last.
    last: (u64, Vec<Lbn>),
    pub requests: BTreeMap<RequestId, Foreground>,
    next_request: u64,
    pub polls: Option<u32>,
    pub at_hand: AtHand,
    pub late: Duration,
    pub fate: Option<Fate>,
    /// Whether nothing waits to be polled.
    drained: bool,
    pub twin: Twin,
    /// Whether blocks have been promoted since the start.
    pub promoted: bool,
    /// Since when the foreground has asked for nothing.
    since: Instant,
    /// The foreground request done last.
    before: Option<RequestId>,
    /// A request that found the drive idle: what the core says it cost.
    alone: Option<(RequestId, Alone, Harm, Harm)>,
    /// What the last access left of the head's place.
    pub hash: u64,
    pub counts: Counts,
    pub dice: Dice,
    /// What was written last to each sector.
    pub ideal: Ideal,
    pub scrub: Option<Scrub>,
}

impl World {
    pub fn new(setup: &Setup) -> Result<Self, Broken> {
        let drive = setup.drive.build().map_err(|e| (Check::Panic, e))?;
        let drive = Arc::new(drive);
        let config = setup.config();
        Ok(Self {
            setup: setup.clone(),
            config,
            mechanics: Mechanics::new(Arc::clone(&drive)),
            core: Core::new(Arc::clone(&drive), config),
            medium: Medium::new(drive.layout().capacity().get()),
            clients: Clients::default(),
            now: Instant::from_nanos(setup.start_ns),
            sequence: 0,
            versions: 0,
            exec: None,
            retry: None,
            last: (0, Vec::new()),
            requests: BTreeMap::new(),
            next_request: 1,
            polls: None,
            at_hand: AtHand::All,
            late: Duration::ZERO,
            fate: None,
            drained: true,
            twin: Twin::new(&drive, config),
            promoted: false,
            since: Instant::ZERO,
            before: None,
            alone: None,
            hash: 0,
            counts: Counts::default(),
            dice: Dice::new(setup.seed),
            ideal: Rc::new(RefCell::new(vec![0; drive.layout().capacity().get() as usize])),
            scrub: None,
            drive,
        })
    }

    pub fn capacity(&self) -> u64 {
        self.drive.layout().capacity().get()
    }

    pub fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn note(&mut self, n: u64) {
        self.hash = mix(self.hash ^ n).wrapping_add(n);
    }

    /// A foreground request comes in; whether it was taken.
    pub fn submit(&mut self, op: Op, range: LbnRange) -> Result<bool, Broken> {
        self.sequence += 1;
        let id = RequestId::new(self.next_request);
        let request = Request { id, op, range };
        let was_idle = self.exec.as_ref().is_some_and(Exec::is_idle);
        let told = self.core.submit(self.now, request);
        self.twin.advance(self.now);
        self.twin.submit(self.now, request, told)?;
        match told {
            Ok(()) => {
                self.next_request += 1;
                self.since = self.now;
                let (version, submitted) = (self.version(), self.sequence);
                let (alone, arrived) = (self.requests.is_empty(), self.now);
                self.requests.insert(id, Foreground { op, range, submitted, arrived, version, alone });
            }
            Err(SubmitError::Full { most, .. }) => {
                let full = most == self.setup.most_pending
                    && self.core.pending() - self.core.promoted_pending() >= most;
                hold(full, Check::Refusal, || format!("{request:?} is refused, and the pool is not full"))?;
            }
            Err(other) => return Err((Check::Refusal, format!("{request:?} is refused: {other}"))),
        }
        // What is under way in idle time is cut short whoever polls slowly.
        if was_idle && told.is_ok() {
            self.poll()?;
        }
        self.drain()?;
        Ok(told.is_ok())
    }

    /// Lets time go on for so long.
    pub fn advance(&mut self, by: Duration) -> Result<(), Broken> {
        let until = self.now + by;
        self.drain()?;
        loop {
            let due = self.exec.as_ref().map(|e| e.due);
            let wake = self.core.wake_at().filter(|_| self.drained);
            if let Some(wake) = wake {
                hold(wake > self.now, Check::Endless, || "a wake-up that has passed".into())?;
            }
            let Some(next) = due.into_iter().chain(wake).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.twin.advance(self.now);
            if due == Some(next) {
                self.due()?;
            }
            self.drain()?;
        }
        self.now = until;
        self.twin.advance(until);
        Ok(())
    }

    /// Polls as often as the host does.
    pub fn drain(&mut self) -> Result<(), Broken> {
        self.drained = false;
        for polled in 0..self.polls.unwrap_or(u32::MAX) {
            hold(polled < ENDLESS, Check::Endless, || "polls give actions without end".into())?;
            if !self.poll()? {
                self.drained = true;
                return self.twin.in_step(self.now, self.exec.as_ref());
            }
        }
        Ok(())
    }

    /// One action; false if there was none, or it was to go on.
    fn poll(&mut self) -> Result<bool, Broken> {
        let (action, held, harm) = self.ask()?;
        let Some(action) = action else { return Ok(false) };
        self.act(action, held, harm)
    }

    /// What the core says next, the buffers that it was given for that, and its account before.
    fn ask(&mut self) -> Result<(Option<Action>, Vec<Held>, Harm), Broken> {
        let mut desk = Desk {
            clients: &self.clients,
            at_hand: self.at_hand,
            held: Vec::new(),
            versions: &mut self.versions,
            broken: None,
        };
        let harm = self.core.harm();
        let action = self.core.poll_with(self.now, &mut desk);
        let Desk { held, broken, .. } = desk;
        broken.map_or(Ok((action, held, harm)), Err)
    }

    fn act(&mut self, action: Action, held: Vec<Held>, harm: Harm) -> Result<bool, Broken> {
        match action {
            Action::Execute => {
                self.execute(held, harm)?;
                return Ok(false);
            }
            Action::Send(command) => {
                return Err((Check::Request, format!("a core in the drive sends {}", command.id)));
            }
            Action::Cut => self.cut()?,
            Action::Completed(id) | Action::Failed { id, .. } => {
                return Err((
                    Check::Request,
                    format!("{id} is said to be done at a time when nothing was done"),
                ));
            }
            Action::Deliver(record) => self.delivered(&record)?,
        }
        Ok(true)
    }

    fn execute(&mut self, held: Vec<Held>, harm: Harm) -> Result<(), Broken> {
        self.sequence += 1;
        hold(self.exec.is_none(), Check::Request, || "two things at once".into())?;
        let from = self.mechanics.position();
        let accesses = self.core.accesses();
        hold(!accesses.is_empty(), Check::Request, || "nothing is to be done, and that at once".into())?;
        let mut exec = Exec::plan(&mut self.mechanics, &self.drive, accesses, self.now, self.sequence);
        exec.held = held;
        // Whoever gave a buffer for what was lost still holds it.
        let lost = self.retry.take().map(|lost| {
            exec.held.extend(lost.held);
            exec.sequence = lost.sequence;
            lost.foreground
        });
        let numbers: Vec<u64> = accesses
            .iter()
            .flat_map(|a| {
                [u64::from(a.track.get()), a.sector.into(), a.sectors.into(), a.op.is_write().into()]
            })
            .collect();
        numbers.into_iter().for_each(|n| self.note(n));
        self.note(exec.due.as_nanos());
        let told = self.core.busy_until();
        hold(told == Some(exec.due), Check::Prediction, || {
            format!("the head is done at {:?}, and the core said {told:?}: {:?}", exec.due, exec.accesses)
        })?;
        for pass in exec.passes.iter().filter(|p| p.op.is_write()) {
            // A promoted write is the foreground's, and has a buffer.
            let has = !pass.foreground || self.candidates(&exec).is_empty();
            let buffer = pass.lbn.is_some_and(|lbn| exec.buffer(lbn).is_some());
            hold(!has || buffer, Check::Buffers, || {
                format!("{:?} is written, and nobody was asked for it: {:?}", pass.lbn, exec.accesses)
            })?;
        }
        if let Some(lost) = lost {
            let again = exec.foreground == lost && !has_background(&exec.accesses);
            hold(again, Check::Request, || {
                format!("a lost command is not done again first: {:?}", exec.accesses)
            })?;
        }
        if exec.is_idle() {
            self.counts.idle += 1;
            self.check_idle(&exec, from)?;
        } else {
            let twice = exec.foreground.windows(2).any(|w| w[0] == w[1]);
            hold(!twice, Check::Request, || format!("a sector twice for one request: {:?}", exec.accesses))?;
            let known = !self.candidates(&exec).is_empty();
            hold(known || self.promoted, Check::Request, || {
                format!("the head goes for what nobody asked for: {:?}", exec.accesses)
            })?;
            self.check_harm(&exec, harm);
        }
        self.exec = Some(exec);
        Ok(())
    }

    /// Foreground requests that what is under way may be.
    fn candidates(&self, exec: &Exec) -> Vec<RequestId> {
        let of = |r: &Foreground| r.op == exec.op && lbns(r.range).eq(exec.foreground.iter().copied());
        self.requests.iter().filter(|(_, r)| of(r)).map(|(id, _)| *id).collect()
    }

    fn cut(&mut self) -> Result<(), Broken> {
        self.counts.cuts += 1;
        let Some(exec) = &mut self.exec else {
            return Err((Check::Cut, "nothing is under way that could be cut short".into()));
        };
        hold(exec.foreground.is_empty(), Check::Cut, || "a foreground request is cut short".into())?;
        let due = self.core.busy_until().unwrap_or(self.now);
        let kept = self.core.accesses();
        let (now, old) = (self.now, exec.due);
        let wrong =
            |what: &str| (Check::Cut, format!("{what}: {kept:?} of {:?}, until {due:?}", exec.accesses));
        if kept.len() > exec.accesses.len() || due < now || due < exec.ready || due > old {
            return Err(wrong("no cut"));
        }
        let mut sectors = 0;
        for (new, old) in kept.iter().zip(&exec.accesses) {
            let same = scheduler::Access { sectors: old.sectors, ..*new } == *old;
            let whole = new.sectors == old.sectors || (new.sectors < old.sectors && !new.op.is_write());
            if !same || !whole {
                return Err(wrong("not what was begun"));
            }
            sectors += new.sectors as usize;
        }
        if exec.passes.get(sectors.wrapping_sub(1)).is_some_and(|p| p.at > due) {
            return Err(wrong("more than has passed"));
        }
        exec.passes.truncate(sectors);
        exec.accesses.truncate(kept.len());
        exec.due = due;
        Ok(())
    }

    /// What is under way is due.
    fn due(&mut self) -> Result<(), Broken> {
        let late = std::mem::replace(&mut self.late, Duration::ZERO);
        if late > Duration::ZERO
            && let Some(exec) = &mut self.exec
        {
            exec.due += late;
            exec.delayed = true;
            if !self.twin.is_lockstep() {
                self.twin.on = false;
            }
            return Ok(());
        }
        let Some(exec) = self.exec.take() else { return Ok(()) };
        self.sequence += 1;
        if let Some(fate) = self.fate.take() {
            return self.lose(exec, fate);
        }
        self.completed(exec)
    }

    fn lose(&mut self, exec: Exec, fate: Fate) -> Result<(), Broken> {
        self.counts.lost += 1;
        let done = match fate {
            Fate::Nothing => 0,
            Fate::All => exec.passes.len(),
            Fate::Sectors(n) => exec.passes.len().min(n as usize),
        };
        let job = self.candidates(&exec).first().copied();
        self.apply(&exec, done, job, None)?;
        self.core.lost(self.now);
        self.twin.lost(self.now);
        self.alone = None;
        if !exec.foreground.is_empty() {
            self.retry = Some(exec);
        }
        Ok(())
    }

    fn completed(&mut self, exec: Exec) -> Result<(), Broken> {
        let bad = self.bad(&exec);
        self.core.completed_with(self.now, &bad);
        self.twin.completed(self.now, &bad);
        self.last = (exec.sequence, bad);
        let candidates = self.candidates(&exec);
        if candidates.is_empty() {
            return self.apply(&exec, exec.passes.len(), None, Some(()));
        }
        // Which request it was is known from what is said of it first.
        let (action, held, harm) = self.ask()?;
        let id = match action {
            Some(Action::Completed(id) | Action::Failed { id, .. }) => id,
            Some(Action::Deliver(_) | Action::Execute) | None if self.promoted => {
                self.apply(&exec, exec.passes.len(), None, Some(()))?;
                if let Some(action) = action {
                    self.act(action, held, harm)?;
                }
                return Ok(());
            }
            other => {
                return Err((Check::Request, format!("a foreground request is done, and is told {other:?}")));
            }
        };
        let right = candidates.contains(&id);
        hold(right, Check::Request, || format!("{id} is said to be done, done was one of {candidates:?}"))?;
        self.apply(&exec, exec.passes.len(), Some(id), Some(()))?;
        if let Some(action) = action {
            self.answered(id, action)?;
        }
        Ok(())
    }

    /// Sectors of which the last pass failed.
    fn bad(&self, exec: &Exec) -> Vec<Lbn> {
        let mut last: BTreeMap<Lbn, bool> = BTreeMap::new();
        for pass in &exec.passes {
            let Some(lbn) = pass.lbn else { continue };
            let good = match self.medium.health(lbn) {
                Health::Good => true,
                // Written before it was read again, it is good by then.
                Health::Bad => pass.op.is_write() || last.get(&lbn).copied().unwrap_or(false),
                Health::Stuck => false,
            };
            last.insert(lbn, good);
        }
        last.into_iter().filter(|(_, good)| !good).map(|(lbn, _)| lbn).collect()
    }

    /// Lets the first `done` sectors pass. `known` if the host learns what was read.
    fn apply(
        &mut self,
        exec: &Exec,
        done: usize,
        job: Option<RequestId>,
        known: Option<()>,
    ) -> Result<(), Broken> {
        let job = job.and_then(|id| self.requests.get(&id));
        for pass in &exec.passes[..done] {
            let Some(lbn) = pass.lbn else { continue };
            if pass.op.is_write() {
                let (version, author) = match (pass.foreground.then_some(job).flatten(), exec.buffer(lbn)) {
                    (Some(job), _) => (job.version, Author::Foreground { submitted: job.submitted }),
                    (None, Some(held)) => (held.version, Author::Background { registered: held.registered }),
                    (None, None) => {
                        return Err((Check::Buffers, format!("LBN {lbn} is written with nothing")));
                    }
                };
                if self.medium.write(lbn, pass.at, version, author)? {
                    self.ideal.borrow_mut()[lbn.get() as usize] = version;
                }
            } else if known.is_some() && !self.last.1.contains(&lbn) {
                // Bad when it passed, but mended by a write of the same command: the host has what was written.
                self.medium.read(lbn, pass.at);
            }
        }
        self.note_for_scrub(exec.passes[..done].iter().filter(|p| p.op.is_write()).filter_map(|p| p.lbn));
        Ok(())
    }

    /// The foreground hears of a request.
    fn answered(&mut self, id: RequestId, action: Action) -> Result<(), Broken> {
        self.note(id.get());
        self.note(self.now.as_nanos());
        let Some(request) = self.requests.remove(&id) else { return Ok(()) };
        self.counts.requests += 1;
        let first = self.last.1.iter().find(|lbn| request.range.contains(**lbn)).copied();
        let expected = match first {
            Some(bad) => Action::Failed { id, bad },
            None => Action::Completed(id),
        };
        hold(action == expected, Check::Bad, || format!("{action:?}, but bad are {:?}", self.last.1))?;
        if first.is_none() && request.op.is_write() {
            self.medium.acknowledge(request.range, request.version)?;
        }
        self.twin.expect(action);
        if self.twin.is_lockstep() {
            self.counts.compared += 1;
        }
        self.since = self.now;
        self.before = Some(id);
        if let Some((of, here, was, is)) = self.alone.take().filter(|a| a.0 == id) {
            self.compare_harm(of, request, here, was, is)?;
        }
        Ok(())
    }

    fn delivered(&mut self, record: &Record) -> Result<(), Broken> {
        self.check_delivered(record)?;
        self.scrubbed(record)
    }

    fn check_delivered(&mut self, record: &Record) -> Result<(), Broken> {
        let first = record.range.start().get();
        for n in
            [record.session.get(), record.task.get(), first, record.range.len().get(), record.last.into()]
        {
            self.note(n);
        }
        self.note(record.bad.map_or(u64::MAX, Lbn::get));
        self.counts.blocks += 1;
        self.counts.written += u64::from(record.op.is_write());
        self.counts.bad += u64::from(record.bad.is_some());
        let (since, served) =
            self.clients.tasks.get(&record.task).map_or((self.now, true), |t| (t.since, t.served));
        let suspended = self.clients.sessions.get(&record.session).and_then(|s| s.suspended);
        self.clients.delivered(record)?;
        if let Some(bad) = record.bad {
            // Not always the lowest: what had come before of a block that is read in pieces may have gone bad since.
            let right = record.range.contains(bad) && self.last.1.contains(&bad);
            return hold(right, Check::Bad, || {
                format!("{record:?}, but of what was done last these are bad: {:?}", self.last.1)
            });
        }
        let spoilt = self.last.1.iter().find(|lbn| record.range.contains(**lbn));
        if record.op.is_write() {
            let unwritten = self.medium.unwritten_since(record.range, since);
            return hold(unwritten.is_none(), Check::Written, || {
                format!("{record:?}, and nothing was written to LBN {unwritten:?} (bad: {spoilt:?})")
            });
        }
        let unread = self.medium.unread_since(record.range, since, served);
        hold(unread.is_none(), Check::Data, || {
            format!("{record:?}, and nothing was read of LBN {unread:?} (bad: {spoilt:?})")
        })?;
        let alone = suspended.is_some_and(|since| since < self.last.0);
        hold(!alone, Check::Suspended, || format!("{record:?}, and its session was suspended before"))
    }

    /// The power fails now, and comes back.
    pub fn power_cut(&mut self) -> Result<(), Broken> {
        self.counts.power_cuts += 1;
        self.sequence += 1;
        if let Some(exec) = self.exec.take() {
            let done = exec.passes.partition_point(|p| p.at <= self.now);
            let job = self.candidates(&exec).first().copied();
            self.apply(&exec, done, job, None)?;
        }
        self.medium.check_acknowledged()?;
        self.requests.clear();
        self.scrub_stops();
        self.core = Core::new(Arc::clone(&self.drive), self.config);
        self.twin = Twin::new(&self.drive, self.config);
        self.mechanics.place(Position::default());
        (self.retry, self.fate, self.late) = (None, None, Duration::ZERO);
        (self.promoted, self.before, self.alone) = (false, None, None);
        self.since = Instant::ZERO;
        self.sequence += 1;
        self.clients.restart(&mut self.core, self.now, self.sequence)?;
        self.scrub_goes_on()?;
        self.last = (self.sequence, Vec::new());
        self.twin.on &= self.twin.is_lockstep() || self.polls.is_none();
        self.drain()
    }

    /// What must hold after every step.
    pub fn check(&self) -> Result<(), Broken> {
        self.clients.check_counts(&self.core, self.drained)?;
        let pending = self.core.pending();
        let (most, promoted) = (self.setup.most_pending, self.core.promoted_pending());
        hold(pending - promoted <= most + 1 && promoted <= most, Check::Bound, || {
            format!("{pending} requests wait, {promoted} of them promoted, and {most} of each may")
        })?;
        if self.drained && !self.promoted {
            let under_way = usize::from(self.exec.as_ref().is_some_and(|e| !e.foreground.is_empty()));
            let waiting = self.requests.len().saturating_sub(under_way);
            hold(pending == waiting, Check::Bound, || {
                format!("{waiting} requests wait, and the core says {pending}")
            })?;
        }
        self.medium.check_acknowledged()
    }

    /// A range of the drive, whatever the numbers are.
    pub fn clip(&self, start: u64, len: u64) -> LbnRange {
        let capacity = self.capacity();
        let start = start % capacity;
        range(start, len.clamp(1, capacity - start))
    }
}
