//! The most hostile host that the rules allow: any order, several accesses at once that land in any order, blocks
//! written in two parts, accesses dropped after their bytes were taken, late records, writes torn by a bad sector or
//! a crash, tasks refused, foreground writes that may or may not complete pending tasks.

use lab_apps::cache::{Action, Cache, HeadTime};
use scheduler::{Application, Parameter, Record, Request, SessionCall, SessionError, Sessions, Wanted};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};
use workload::random::Stream;

/// Bytes of a sector, which holds its own LBN and a version.
pub const SECTOR: usize = 16;

pub fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

pub fn sectors(range: LbnRange) -> impl Iterator<Item = u64> {
    range.start().get()..range.end().get()
}

/// Returns the bytes of a sector in this version.
pub fn stamp(lbn: u64, version: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes[..8].copy_from_slice(&lbn.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Returns the version of these bytes of a sector.
pub fn version(lbn: u64, bytes: &[u8]) -> u64 {
    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()), lbn, "another sector's bytes");
    u64::from_le_bytes(bytes[8..].try_into().unwrap())
}

#[derive(Clone, Debug)]
pub struct RegisteredTask {
    pub id: TaskId,
    pub range: LbnRange,
    parameter: Parameter,
    pub promoted: bool,
    /// The part of `range` whose write has not begun.
    left: LbnRange,
    under_way: usize,
    bad: Option<Lbn>,
    /// Whether the task has ended, and its record is on the way to the cache.
    ended: bool,
}

/// The sessions of the host: a single one, for writes.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub tasks: Vec<RegisteredTask>,
    next: u64,
    capacity: u64,
    pub most_tasks: usize,
    /// The number of tasks that may still be promoted now.
    pub most_promoted: usize,
}

impl Registry {
    fn known(&self, session: SessionId) -> Result<(), SessionError> {
        if session == SessionId::new(0) { Ok(()) } else { Err(SessionError::NoSession(session)) }
    }
}

impl Sessions for Registry {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        match call {
            SessionCall::Open { .. }
            | SessionCall::Suspend { .. }
            | SessionCall::Resume { .. }
            | SessionCall::Close { .. } => Ok(0),
            SessionCall::SetPriority { session, .. } | SessionCall::ServeByWrites { session, .. } => {
                self.known(session).map(|()| 0)
            }
            SessionCall::Register { session, op, range, block, parameter } => {
                assert_eq!(op, Op::Write, "the cache reads in the foreground");
                self.known(session)?;
                assert!(!range.is_empty() && range.len() == block && range.end().get() <= self.capacity);
                for task in &self.tasks {
                    let apart = task.range.end() <= range.start() || range.end() <= task.range.start();
                    assert!(apart || task.ended, "{range} is registered twice");
                }
                if self.tasks.len() >= self.most_tasks {
                    return Err(SessionError::TooManyTasks { most: self.most_tasks });
                }
                self.next += 1;
                let id = TaskId::new(self.next);
                self.tasks.push(RegisteredTask {
                    id,
                    range,
                    parameter,
                    promoted: false,
                    left: range,
                    under_way: 0,
                    bad: None,
                    ended: false,
                });
                Ok(id.get())
            }
            SessionCall::Abort { task } => {
                let at = self.tasks.iter().position(|t| t.id == task).ok_or(SessionError::NoTask(task))?;
                self.tasks.swap_remove(at);
                Ok(1)
            }
            SessionCall::AbortRange { .. } => panic!("the cache aborts tasks"),
            SessionCall::Promote { session, range } => {
                self.known(session)?;
                let mut promoted = 0;
                for task in &mut self.tasks {
                    let touches = task.range.overlaps(range);
                    let pending = !task.left.is_empty() && !task.ended;
                    if touches && pending && self.most_promoted > 0 {
                        self.most_promoted -= 1;
                        task.promoted = true;
                        promoted += 1;
                    }
                }
                Ok(promoted)
            }
        }
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.known(session)?;
        Ok(self.tasks.iter().filter(|task| !task.ended).count() as u64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Task(TaskId),
    Request(RequestId),
}

/// An access under way.
#[derive(Clone, Debug)]
struct RunningAccess {
    whose: Whose,
    op: Op,
    range: LbnRange,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Completion {
    Task(TaskId),
    Request(RequestId, Result<Vec<u8>, Lbn>),
}

pub struct Host {
    pub registry: Registry,
    pub medium: Vec<u8>,
    pub bad: BTreeSet<u64>,
    /// Foreground requests that wait.
    pub queue: Vec<Request>,
    flights: Vec<RunningAccess>,
    completions: Vec<Completion>,
    /// The bound on the tasks that are promoted at a time, if any.
    pub most_promoted: Option<usize>,
    /// Whether a foreground write completes the pending tasks that it covers.
    pub coalesces: bool,
    /// The percentage of tries in which a task that is not promoted finds a gap.
    pub free_percent: u64,
    /// The percentage of accesses that are dropped after their bytes were taken, or write only a part.
    pub odd_percent: u64,
    pub now: Instant,
    pub stream: Stream,
}

/// A head at a fixed place.
pub struct At(pub u64);

impl HeadTime for At {
    fn lbn(&self) -> Lbn {
        Lbn::new(self.0)
    }

    fn positioning(&self, _: Instant, range: LbnRange) -> Duration {
        Duration::from_nanos(range.start().get().abs_diff(self.0))
    }
}

impl Host {
    pub fn new(capacity: u64, seed: u64) -> Self {
        Self {
            registry: Registry {
                capacity,
                most_tasks: usize::MAX,
                most_promoted: usize::MAX,
                ..Registry::default()
            },
            medium: (0..capacity).flat_map(|lbn| stamp(lbn, 0)).collect(),
            bad: BTreeSet::new(),
            queue: Vec::new(),
            flights: Vec::new(),
            completions: Vec::new(),
            most_promoted: None,
            coalesces: false,
            free_percent: 50,
            odd_percent: 0,
            now: Instant::ZERO,
            stream: Stream::new(seed, "host"),
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.stream.below(NonZeroU64::new(n.max(1)).unwrap())
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn sector(&self, lbn: u64) -> &[u8] {
        &self.medium[lbn as usize * SECTOR..(lbn as usize + 1) * SECTOR]
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty() && self.completions.is_empty()
    }

    /// Polls the cache: queues its requests, and returns its answers.
    pub fn poll(&mut self, cache: &mut Cache) -> Vec<Action> {
        let mut answers = Vec::new();
        loop {
            let head = At(self.now.as_nanos() / 1_000_000 % (self.registry.capacity + 9));
            let action = cache.poll(&mut self.registry, &head, self.now);
            match action {
                None => return answers,
                Some(Action::Submit(request)) => self.queue.push(request),
                Some(other) => answers.push(other),
            }
        }
    }

    /// Does one thing at random: begins a write of a task or a request, lets an access land, or delivers a
    /// completion.
    pub fn step(&mut self, cache: &mut Cache) {
        if let Some(most) = self.most_promoted {
            let promoted = self.registry.tasks.iter().filter(|t| t.promoted).count();
            self.registry.most_promoted = most.saturating_sub(promoted);
        }
        match self.below(4) {
            0 => self.begin_task(cache),
            1 => self.begin_request(cache),
            2 => self.land(),
            _ => self.deliver(cache),
        }
    }

    /// Begins a part of a background write, if the cache gives its bytes.
    pub fn begin_task(&mut self, cache: &mut Cache) {
        let free = self.chance(self.free_percent);
        let ready: Vec<usize> = (0..self.registry.tasks.len())
            .filter(|&i| {
                let task = &self.registry.tasks[i];
                !task.left.is_empty() && !task.ended && (free || task.promoted)
            })
            .collect();
        if ready.is_empty() {
            return;
        }
        let at = ready[self.below(ready.len() as u64) as usize];
        let odd = self.chance(self.odd_percent);
        let left = self.registry.tasks[at].left;
        let len = if odd { 1 + self.below(left.len().get()) } else { left.len().get() };
        let part = range(left.start().get(), len);
        if self.begin_part(cache, at, part) && odd && self.chance(30) {
            // The access is not carried out after all; the bytes will be asked for again.
            self.flights.pop();
            let task = &mut self.registry.tasks[at];
            (task.left, task.under_way) = (left, task.under_way - 1);
        }
    }

    /// Begins a part of a task; returns whether the cache gave its bytes.
    pub fn begin_part(&mut self, cache: &mut Cache, at: usize, part: LbnRange) -> bool {
        let task = &mut self.registry.tasks[at];
        let wanted =
            Wanted { session: SessionId::new(0), task: task.id, range: part, parameter: task.parameter };
        let mut bytes = vec![0; part.len().get() as usize * SECTOR];
        if !cache.buffer(&wanted, &mut bytes) {
            // The cache's refusal ends the promotion: the task is background work again.
            task.promoted = false;
            return false;
        }
        assert_eq!(part.start(), task.left.start());
        task.left = range(part.end().get(), task.left.end().get() - part.end().get());
        task.under_way += 1;
        self.flights.push(RunningAccess { whose: Whose::Task(task.id), op: Op::Write, range: part, bytes });
        true
    }

    pub fn begin_request(&mut self, cache: &mut Cache) {
        if self.queue.is_empty() {
            return;
        }
        let at = self.below(self.queue.len() as u64) as usize;
        let Request { id, op, range } = self.queue.swap_remove(at);
        let mut bytes = vec![0; range.len().get() as usize * SECTOR];
        if op.is_write() {
            cache.bytes(id, range, &mut bytes).unwrap();
        }
        self.flights.push(RunningAccess { whose: Whose::Request(id), op, range, bytes });
    }

    /// Lets one of the accesses under way reach the medium.
    pub fn land(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let at = self.below(self.flights.len() as u64) as usize;
        let flight = self.flights.remove(at);
        let bad = sectors(flight.range).find(|lbn| self.bad.contains(lbn)).map(Lbn::new);
        let mut bytes = Vec::new();
        match flight.op {
            Op::Read => bytes.extend(sectors(flight.range).flat_map(|lbn| self.sector(lbn).to_vec())),
            Op::Write => {
                let good = bad.map_or(flight.range.len().get(), |b| b.since(flight.range.start()).get());
                self.put(flight.range.start().get(), &flight.bytes[..good as usize * SECTOR]);
            }
        }
        match flight.whose {
            Whose::Request(id) => {
                let result = bad.map_or(Ok(bytes), Err);
                self.completions.push(Completion::Request(id, result));
                if self.coalesces && flight.op.is_write() && bad.is_none() {
                    self.coalesce(flight.range);
                }
            }
            Whose::Task(id) => self.part_landed(id, bad),
        }
    }

    fn part_landed(&mut self, id: TaskId, bad: Option<Lbn>) {
        // A task that was aborted meanwhile gets no completion; its bytes are on the medium all the same.
        let Some(task) = self.registry.tasks.iter_mut().find(|t| t.id == id) else { return };
        task.under_way -= 1;
        task.bad = task.bad.or(bad);
        if task.under_way == 0 && (task.left.is_empty() || task.bad.is_some()) && !task.ended {
            task.ended = true;
            self.completions.push(Completion::Task(id));
        }
    }

    fn coalesce(&mut self, range: LbnRange) {
        for task in &mut self.registry.tasks {
            let inside = task.range.start() >= range.start() && task.range.end() <= range.end();
            if inside && task.under_way == 0 && !task.ended {
                task.ended = true;
                self.completions.push(Completion::Task(task.id));
            }
        }
    }

    pub fn put(&mut self, start: u64, bytes: &[u8]) {
        for (lbn, new) in (start..).zip(bytes.chunks_exact(SECTOR)) {
            let (old, new_version) = (version(lbn, self.sector(lbn)), version(lbn, new));
            assert!(new_version >= old, "sector {lbn}: version {new_version} lands on the newer {old}");
            self.medium[lbn as usize * SECTOR..][..SECTOR].copy_from_slice(new);
        }
    }

    /// Delivers one of the completions to the cache.
    pub fn deliver(&mut self, cache: &mut Cache) {
        if self.completions.is_empty() {
            return;
        }
        let at = self.below(self.completions.len() as u64) as usize;
        match self.completions.remove(at) {
            Completion::Request(id, result) => {
                cache.completed(id, result.as_deref().map_err(|&bad| bad), self.now).unwrap();
            }
            Completion::Task(id) => {
                // The record of an aborted task is withdrawn.
                let Some(at) = self.registry.tasks.iter().position(|t| t.id == id) else { return };
                let task = self.registry.tasks.swap_remove(at);
                let done = Record {
                    session: SessionId::new(0),
                    task: id,
                    range: task.range,
                    op: Op::Write,
                    parameter: task.parameter,
                    bad: task.bad,
                    last: self.registry.tasks.is_empty(),
                };
                cache.done(&mut self.registry, &done, &[], self.now);
            }
        }
    }

    /// Cuts the power: some sectors of each write under way land; the rest of the host's state is lost.
    pub fn crash(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            let reached = self.below(flight.range.len().get() + 1);
            let good = sectors(flight.range).take(reached as usize).take_while(|l| !self.bad.contains(l));
            if flight.op.is_write() {
                self.put(flight.range.start().get(), &flight.bytes[..good.count() * SECTOR]);
            }
        }
        self.queue.clear();
        self.completions.clear();
        self.registry.tasks.clear();
    }
}
