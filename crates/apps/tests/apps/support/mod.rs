//! A naive host for applications: a medium of bytes, tasks as plain lists, accesses in a seeded random order, several
//! at a time if the test wants that. It has no time (it counts steps), no head, and no foreground load. Applications
//! are tested against this model before they run on the core.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

mod registry;
mod volume;

use freeblock_apps::backup::Destination;
use freeblock_apps::sessions::{Application, Record, Sessions, Wanted};
pub use registry::{RegisteredBlock, Registry};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use units::{Instant, Lbn, LbnRange, Op, Sectors};
pub use volume::carry_out;
use workload::random::Stream;

/// Bytes of a sector.
pub const SECTOR: usize = 16;

pub fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns the position of a range in an array of bytes.
pub fn at(range: LbnRange) -> std::ops::Range<usize> {
    range.start().get() as usize * SECTOR..range.end().get() as usize * SECTOR
}

/// Returns the first of the range's sectors that is in the set.
pub fn first_bad(set: &BTreeSet<u64>, range: LbnRange) -> Option<Lbn> {
    set.range(range.start().get()..range.end().get()).next().map(|l| Lbn::new(*l))
}

/// The host: registrations, medium, random numbers.
pub struct Naive {
    pub registry: Registry,
    pub medium: Vec<u8>,
    /// Sectors that cannot be read or written.
    pub bad: BTreeSet<u64>,
    /// Sectors that can be written, but not read.
    pub unreadable: BTreeSet<u64>,
    /// Sectors that can be read, but not written.
    pub unwritable: BTreeSet<u64>,
    pub steps: u64,
    /// Every block that was delivered, in order.
    pub handed: Vec<Record>,
    stream: Stream,
}

impl Naive {
    pub fn new(sectors: u64, seed: u64) -> Self {
        let mut stream = Stream::new(seed, "naive");
        Self {
            registry: Registry::new(sectors),
            medium: (0..sectors as usize * SECTOR).map(|_| stream.next_u64() as u8).collect(),
            bad: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            unwritable: BTreeSet::new(),
            steps: 0,
            handed: Vec::new(),
            stream,
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.stream.below(NonZeroU64::new(n).unwrap())
    }

    pub fn bytes(&self, range: LbnRange) -> &[u8] {
        &self.medium[at(range)]
    }

    pub fn bytes_mut(&mut self, range: LbnRange) -> &mut [u8] {
        &mut self.medium[at(range)]
    }

    fn bad_in(&self, op: Op, range: LbnRange) -> Option<Lbn> {
        let own = if op == Op::Read { &self.unreadable } else { &self.unwritable };
        first_bad(&self.bad, range).into_iter().chain(first_bad(own, range)).min()
    }

    /// Simulates a foreground write, which completes the pending blocks that it covers whole, except reads of
    /// sessions that want the medium's bytes.
    pub fn foreground_write(&mut self, app: &mut dyn Application, range: LbnRange, bytes: &[u8]) {
        self.bytes_mut(range).copy_from_slice(bytes);
        while let Some(i) = self.registry.served_by_write(range) {
            let block = self.registry.blocks()[i].clone();
            let bytes = if block.op == Op::Read { self.bytes(block.range).to_vec() } else { Vec::new() };
            self.hand_over(app, i, &bytes);
        }
    }

    /// Carries out the access to one block; returns false if none can begin now.
    pub fn step(&mut self, app: &mut dyn Application) -> bool {
        let Some(at) = self.begin(app) else { return false };
        self.complete(app, at);
        true
    }

    /// Begins the access to one block: reads it, or asks for its buffer and writes some of its sectors. Returns
    /// `None` if no block can be begun now.
    pub fn begin(&mut self, app: &mut dyn Application) -> Option<usize> {
        self.steps += 1;
        let mut candidates = self.registry.ready();
        while !candidates.is_empty() {
            let chosen = self.below(candidates.len() as u64) as usize;
            let i = candidates.swap_remove(chosen);
            let block = self.registry.blocks()[i].clone();
            let bad = self.bad_in(block.op, block.range);
            let mut bytes = self.bytes(block.range).to_vec();
            if block.op == Op::Write && bad.is_none() {
                bytes.fill(0);
                let (session, task, parameter) = (block.session, block.task, block.parameter);
                if !app.buffer(&Wanted { session, task, range: block.range, parameter }, &mut bytes) {
                    continue;
                }
                self.tear(block.range, &bytes);
            }
            let block = self.registry.block_mut(i);
            (block.under_way, block.bad) = (Some(bytes), bad);
            return Some(i);
        }
        None
    }

    /// Completes an access that is under way, and delivers its record.
    pub fn complete(&mut self, app: &mut dyn Application, i: usize) {
        let block = self.registry.blocks()[i].clone();
        let bytes = block.under_way.unwrap();
        match (block.op, block.bad) {
            (Op::Write, None) => {
                self.bytes_mut(block.range).copy_from_slice(&bytes);
                self.hand_over(app, i, &[]);
            }
            (Op::Read, None) => self.hand_over(app, i, &bytes),
            _ => self.hand_over(app, i, &[]),
        }
    }

    /// Cuts the power: writes under way are torn, all registrations are lost.
    pub fn power_cut(&mut self) {
        for block in self.registry.power_cut() {
            if let (Op::Write, Some(bytes), None) = (block.op, block.under_way, block.bad) {
                self.tear(block.range, &bytes);
            }
        }
    }

    /// Writes a random part of a write's sectors to the medium.
    fn tear(&mut self, range: LbnRange, bytes: &[u8]) {
        for (lbn, sector) in (range.start().get()..).zip(bytes.chunks(SECTOR)) {
            if self.below(2) == 0 {
                self.bytes_mut(self::range(lbn, 1)).copy_from_slice(sector);
            }
        }
    }

    fn hand_over(&mut self, app: &mut dyn Application, i: usize, bytes: &[u8]) {
        let (block, last) = self.registry.take(i);
        let done = Record {
            session: block.session,
            task: block.task,
            range: block.range,
            op: block.op,
            parameter: block.parameter,
            bad: block.bad,
            last,
        };
        self.handed.push(done);
        let now = Instant::from_nanos(self.steps * 1_000_000);
        app.done(&mut self.registry, &done, bytes, now);
    }
}

/// Holds records, so that a test can deliver them late and in any order.
#[derive(Debug, Default)]
pub struct Late(pub Vec<(Record, Vec<u8>)>);

impl Application for Late {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        self.0.push((*done, bytes.to_vec()));
    }
}

impl Late {
    /// Delivers one of the records.
    pub fn deliver(&mut self, which: u64, sessions: &mut dyn Sessions, app: &mut dyn Application) {
        if !self.0.is_empty() {
            let (done, bytes) = self.0.swap_remove((which % self.0.len() as u64) as usize);
            app.done(sessions, &done, &bytes, Instant::ZERO);
        }
    }
}

/// A destination of restores, filled with 0xee, with a cache that a crash empties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    pub bytes: Vec<u8>,
    durable: Vec<u8>,
    /// The number of writes that the drive takes before it refuses one.
    pub room: u64,
}

impl Drive {
    pub fn blank(sectors: u64) -> Self {
        let bytes = vec![0xee; sectors as usize * SECTOR];
        Self { durable: bytes.clone(), bytes, room: u64::MAX }
    }

    /// Makes each sector that was not durable old or new.
    pub fn power_cut(&mut self, keep: &mut dyn FnMut() -> bool) {
        for (now, old) in self.bytes.chunks_mut(SECTOR).zip(self.durable.chunks(SECTOR)) {
            if now != old && !keep() {
                now.copy_from_slice(old);
            }
        }
        self.durable.copy_from_slice(&self.bytes);
    }
}

impl Destination for Drive {
    fn write_at(&mut self, start: Lbn, bytes: &[u8]) -> Result<bool, String> {
        if self.room == 0 {
            return Ok(false);
        }
        self.room -= 1;
        let start = start.get() as usize * SECTOR;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(true)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.durable.copy_from_slice(&self.bytes);
        Ok(())
    }
}
