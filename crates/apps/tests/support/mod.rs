//! A naive host for applications: a medium of bytes, tasks as plain lists, blocks done in a seeded random order. What it
//! lacks: time (it counts steps), a head, foreground load. It is the model that applications are tested against before
//! they meet the core.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by tests that each use a part of it")]

use freeblock_apps::sessions::{Application, Done, Parameter, Sessions, Wanted};
use scheduler::{Priority, SessionError};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use units::{Instant, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};
use workload::random::Stream;

/// Bytes of a sector.
pub const SECTOR: usize = 16;

#[derive(Clone, Debug)]
struct Session {
    suspended: bool,
    left: u64,
}

#[derive(Clone, Debug)]
struct Block {
    session: SessionId,
    task: TaskId,
    range: LbnRange,
    op: Op,
    parameter: Parameter,
    promoted: bool,
}

/// The calls' side: what is registered.
#[derive(Clone, Debug)]
pub struct Registry {
    capacity: Sectors,
    sessions: BTreeMap<SessionId, Session>,
    blocks: Vec<Block>,
    next: u64,
}

/// The host: registry, medium, chance.
pub struct Naive {
    pub registry: Registry,
    pub medium: Vec<u8>,
    /// Sectors that cannot be read or written.
    pub bad: BTreeSet<u64>,
    pub steps: u64,
    /// Every block that was handed over, in order.
    pub handed: Vec<Done>,
    stream: Stream,
}

impl Naive {
    pub fn new(sectors: u64, seed: u64) -> Self {
        let medium = (0..sectors as usize * SECTOR).map(|i| (i / SECTOR * 31 + i) as u8).collect();
        Self {
            registry: Registry {
                capacity: Sectors::new(sectors),
                sessions: BTreeMap::new(),
                blocks: Vec::new(),
                next: 1,
            },
            medium,
            bad: BTreeSet::new(),
            steps: 0,
            handed: Vec::new(),
            stream: Stream::new(seed, "naive"),
        }
    }

    pub fn bytes(&self, range: LbnRange) -> &[u8] {
        &self.medium[range.start().get() as usize * SECTOR..range.end().get() as usize * SECTOR]
    }

    pub fn bytes_mut(&mut self, range: LbnRange) -> &mut [u8] {
        &mut self.medium[range.start().get() as usize * SECTOR..range.end().get() as usize * SECTOR]
    }

    /// A foreground write, as far as sessions see it: pending writes to sectors that it covers whole are complete.
    pub fn foreground_write(&mut self, app: &mut dyn Application, range: LbnRange, bytes: &[u8]) {
        self.bytes_mut(range).copy_from_slice(bytes);
        while let Some(at) = self.registry.blocks.iter().position(|b| {
            b.op == Op::Write && b.range.start() >= range.start() && b.range.end() <= range.end()
        }) {
            self.finish(app, at, None);
        }
    }

    /// Does one pending block, a promoted one first, else any of the sessions that are not suspended. False when there
    /// is none that can be done now.
    pub fn step(&mut self, app: &mut dyn Application) -> bool {
        self.steps += 1;
        let ready = |b: &&Block| !self.registry.sessions[&b.session].suspended;
        let mut candidates: Vec<usize> = (0..self.registry.blocks.len())
            .filter(|&i| self.registry.blocks[i].promoted || ready(&&self.registry.blocks[i]))
            .collect();
        if candidates.iter().any(|&i| self.registry.blocks[i].promoted) {
            candidates.retain(|&i| self.registry.blocks[i].promoted);
        }
        while !candidates.is_empty() {
            let at = candidates
                .swap_remove(self.stream.below(NonZeroU64::new(candidates.len() as u64).unwrap()) as usize);
            let block = self.registry.blocks[at].clone();
            let bad = (block.range.start().get()..block.range.end().get()).find(|l| self.bad.contains(l));
            if block.op == Op::Write && bad.is_none() {
                let mut into = vec![0; block.range.len().get() as usize * SECTOR];
                let wanted = Wanted {
                    session: block.session,
                    task: block.task,
                    range: block.range,
                    parameter: block.parameter,
                };
                if !app.buffer(&wanted, &mut into) {
                    continue;
                }
                self.bytes_mut(block.range).copy_from_slice(&into);
            }
            self.finish(app, at, bad.map(Lbn::new));
            return true;
        }
        false
    }

    fn finish(&mut self, app: &mut dyn Application, at: usize, bad: Option<Lbn>) {
        let block = self.registry.blocks.remove(at);
        let session = self.registry.sessions.get_mut(&block.session).unwrap();
        session.left -= 1;
        let done = Done {
            session: block.session,
            task: block.task,
            range: block.range,
            op: block.op,
            parameter: block.parameter,
            bad,
            last: session.left == 0,
        };
        let bytes = match (block.op, bad) {
            (Op::Read, None) => self.bytes(block.range).to_vec(),
            _ => Vec::new(),
        };
        self.handed.push(done);
        let now = Instant::from_nanos(self.steps * 1_000_000);
        app.done(&mut self.registry, &done, &bytes, now);
    }
}

impl Registry {
    /// Blocks that are pending.
    pub fn pending(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_suspended(&self, session: SessionId) -> bool {
        self.sessions[&session].suspended
    }

    fn add(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        op: Op,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let owner = self.sessions.get_mut(&session).ok_or(SessionError::NoSession(session))?;
        if range.is_empty() {
            return Err(SessionError::EmptyRange(range.start()));
        }
        if block.get() == 0 {
            return Err(SessionError::BlockSize(block));
        }
        if range.checked_end().is_none_or(|end| end.get() > self.capacity.get()) {
            return Err(SessionError::PastEnd { range, capacity: self.capacity });
        }
        let task = TaskId::new(self.next);
        self.next += 1;
        let mut at = range.start().get();
        while at < range.end().get() {
            let end = (at + block.get()).min(range.end().get());
            let range = LbnRange::new(Lbn::new(at), Sectors::new(end - at));
            self.blocks.push(Block { session, task, range, op, parameter, promoted: false });
            owner.left += 1;
            at = end;
        }
        Ok(task)
    }

    fn withdraw(&mut self, of: impl Fn(&Block) -> bool) -> u64 {
        let before = self.blocks.len();
        let sessions = &mut self.sessions;
        self.blocks.retain(|b| {
            let gone = of(b);
            if gone {
                sessions.get_mut(&b.session).unwrap().left -= 1;
            }
            !gone
        });
        (before - self.blocks.len()) as u64
    }

    fn known(&self, session: SessionId) -> Result<(), SessionError> {
        self.sessions.get(&session).map(|_| ()).ok_or(SessionError::NoSession(session))
    }
}

fn touch(a: LbnRange, b: LbnRange) -> bool {
    a.start() < b.end() && b.start() < a.end()
}

impl Sessions for Registry {
    fn open(&mut self, _: Priority) -> Result<SessionId, SessionError> {
        let id = SessionId::new(self.next);
        self.next += 1;
        self.sessions.insert(id, Session { suspended: false, left: 0 });
        Ok(id)
    }

    fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.add(session, range, block, Op::Read, parameter)
    }

    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.add(session, range, block, Op::Write, parameter)
    }

    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        match self.withdraw(|b| b.task == task) {
            0 => Err(SessionError::NoTask(task)),
            gone => Ok(gone),
        }
    }

    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.known(session)?;
        Ok(self.withdraw(|b| b.session == session && touch(b.range, range)))
    }

    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.known(session)?;
        let mut promoted = 0;
        for block in &mut self.blocks {
            if block.session == session && touch(block.range, range) && !block.promoted {
                block.promoted = true;
                promoted += 1;
            }
        }
        Ok(promoted)
    }

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.known(session)?;
        self.sessions.get_mut(&session).unwrap().suspended = true;
        Ok(())
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.known(session)?;
        self.sessions.get_mut(&session).unwrap().suspended = false;
        Ok(())
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        self.known(session)?;
        let gone = self.withdraw(|b| b.session == session);
        self.sessions.remove(&session);
        Ok(gone)
    }
}
