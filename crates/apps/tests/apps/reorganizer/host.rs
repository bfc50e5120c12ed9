//! The most hostile host that the rules allow: any order, several accesses at once, late records, writes torn by a
//! crash, foreground reads and writes that take time, bad sectors, a memory that fails in the middle of an append.

use crate::support::{Naive, SECTOR, at, range};
use freeblock_apps::reorganizer::*;
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::rc::Rc;
use units::{Bytes, LbnRange, Op, Sectors};
use workload::random::Stream;

/// Non-volatile memory that fails after a number of operations; the append at which it fails leaves a prefix.
#[derive(Clone, Debug, Default)]
pub struct Mortal(Rc<RefCell<Cells>>);

#[derive(Debug, Default)]
struct Cells {
    bytes: Vec<u8>,
    fuel: Option<u64>,
}

impl Cells {
    fn burn(&mut self) -> bool {
        let left = self.fuel;
        self.fuel = left.map(|f| f.saturating_sub(1));
        left != Some(0)
    }
}

impl Nvram for Mortal {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        let mut cells = self.0.borrow_mut();
        if cells.burn() {
            cells.bytes.extend(bytes);
            return Ok(());
        }
        let torn = bytes.len() * (cells.bytes.len() % 7) / 7;
        cells.bytes.extend(&bytes[..torn]);
        Err(NvramLost)
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        let mut cells = self.0.borrow_mut();
        if !cells.burn() {
            return Err(NvramLost);
        }
        cells.bytes = bytes.to_vec();
        Ok(())
    }
}

impl Mortal {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().bytes.clone()
    }
}

struct Foreground {
    access: Access,
    logical: LbnRange,
    bytes: Vec<u8>,
    op: Op,
    /// Whether a write overlapped the read while it was under way: the old and the new bytes are both right.
    racy: bool,
}

/// The load and the faults beside the reorganisation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub foreground: bool,
    /// One in this number of steps is a crash; 0: none.
    pub crash: u64,
    /// A crash at this step.
    pub crash_at: Option<u64>,
    /// The number of the operation at which the memory fails.
    pub fuel: Option<u64>,
    pub refuse: bool,
}

pub struct ReorganizerWorld {
    pub host: Naive,
    /// The expected content of each logical sector.
    pub model: Vec<u8>,
    pub plan: RelocationPlan,
    pub options: Options,
    pub machine: Reorganizer<Mortal>,
    pub memory: Mortal,
    pub crashes: u64,
    pub steps: u64,
    foreground: Vec<Foreground>,
    cut_short: Vec<(LbnRange, Vec<u8>)>,
    chance: Stream,
}

impl ReorganizerWorld {
    pub fn new(plan: RelocationPlan, staging: u64, percent: u8, seed: u64) -> Self {
        let capacity = plan.capacity().get();
        let mut host = Naive::new(capacity, seed);
        host.registry.lax = seed % 2 == 1;
        let options = Options { staging, threshold_percent: percent, ..Options::default() };
        let sector = Bytes::new(SECTOR as u64);
        let memory = Mortal::default();
        let machine = Reorganizer::start(&plan, options, sector, memory.clone(), &mut host.registry).unwrap();
        ReorganizerWorld {
            model: host.medium.clone(),
            host,
            plan,
            options,
            machine,
            memory,
            crashes: 0,
            steps: 0,
            foreground: Vec::new(),
            cut_short: Vec::new(),
            chance: Stream::new(seed, "world"),
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.chance.below(NonZeroU64::new(n).unwrap())
    }

    /// Runs to the end. Panics if the machine stops making progress before, or breaks an invariant.
    pub fn run(&mut self, load: Load) {
        let mut idle = 0;
        self.memory.0.borrow_mut().fuel = load.fuel;
        while !self.machine.progress().is_finished() {
            self.steps += 1;
            assert!(self.steps < 400_000, "no end: {:?}", self.machine.progress());
            if load.foreground && self.below(4) == 0 {
                self.foreground_step();
            }
            if load.crash > 0 && self.below(load.crash) == 0 {
                if self.below(3) == 0 {
                    let fuel = self.below(6);
                    self.memory.0.borrow_mut().fuel = Some(fuel);
                } else {
                    self.crash();
                }
            }
            if load.crash_at == Some(self.steps) {
                self.crash();
            }
            let did = self.step(load.refuse);
            if self.machine.trouble() == Some(Trouble::Nvram(NvramLost)) {
                self.crash();
            }
            idle = if did { 0 } else { idle + 1 };
            if idle > 500 {
                if matches!(self.machine.trouble(), Some(Trouble::StagingExhausted { .. })) {
                    break;
                }
                panic!("deadlock: {:?} {:?}", self.machine.progress(), self.machine.trouble());
            }
            self.check_bounds();
        }
        while !self.foreground.is_empty() {
            self.end_foreground(0);
        }
        self.check_contents();
    }

    /// Runs to the end while other clients repeatedly take all room for tasks.
    pub fn run_among_others(&mut self) {
        while !self.machine.progress().is_finished() {
            self.steps += 1;
            assert!(self.steps < 100_000, "no end: {:?}", self.machine.progress());
            self.host.registry.most_tasks = if (self.steps / 20).is_multiple_of(2) { 3 } else { usize::MAX };
            self.step(false);
            self.machine.retry(&mut self.host.registry);
            self.check_bounds();
        }
        self.check_contents();
    }

    /// Takes this number of steps, which do nothing once there is nothing to do.
    pub fn some_steps(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step(false);
        }
    }

    /// Begins or completes an access of the sessions; returns false if there is none.
    fn step(&mut self, refuse: bool) -> bool {
        let (under_way, ready) = (self.host.registry.under_way(), self.host.registry.ready());
        if !under_way.is_empty() && (ready.is_empty() || under_way.len() > 4 || self.below(2) == 0) {
            let i = under_way[self.below(under_way.len() as u64) as usize];
            self.host.complete(&mut self.machine, i);
            return true;
        }
        if ready.is_empty() {
            return false;
        }
        (refuse && self.below(3) == 0) || self.host.begin(&mut self.machine).is_some()
    }

    /// Cuts the power, and recovers: writes under way are torn, everything else in flight is lost; only the medium
    /// and the non-volatile memory are left.
    pub fn crash(&mut self) {
        self.crashes += 1;
        self.host.power_cut();
        self.foreground.clear();
        self.memory.0.borrow_mut().fuel = None;
        let state = self.memory.bytes();
        let sector = Bytes::new(SECTOR as u64);
        // Every other recovery registers three blocks at a time: nothing can be read or written before all are
        // registered.
        let (memory, sessions) = (self.memory.clone(), &mut self.host.registry);
        if self.crashes.is_multiple_of(2) {
            let prepared = Prepared::recovered(&self.plan, &state, self.options, sector).unwrap();
            self.machine = Reorganizer::begin(prepared, memory, sessions).unwrap();
            while !self.machine.begin_some(sessions, 3).unwrap() {
                assert!(self.machine.is_beginning() && sessions.ready().is_empty());
            }
            assert!(!self.machine.is_beginning());
        } else {
            self.machine =
                Reorganizer::recover(&self.plan, &state, self.options, sector, memory, sessions).unwrap();
        }
        // A write that the crash cut short may have been done in part, sector by sector.
        for (logical, bytes) in std::mem::take(&mut self.cut_short) {
            for (k, new) in bytes.chunks(SECTOR).enumerate() {
                let lbn = logical.start().get() + k as u64;
                if self.logical(lbn).is_some_and(|now| now == new) {
                    self.model[at(range(lbn, 1))].copy_from_slice(new);
                }
            }
        }
        self.check_contents();
    }

    fn foreground_step(&mut self) {
        if self.foreground.len() > 3 || (!self.foreground.is_empty() && self.below(2) == 0) {
            let i = self.below(self.foreground.len() as u64) as usize;
            return self.end_foreground(i);
        }
        let capacity = self.plan.capacity().get();
        let len = 1 + self.below(12.min(capacity));
        let logical = range(self.below(capacity - len + 1), len);
        let op = if self.below(2) == 0 { Op::Read } else { Op::Write };
        // Only one write at a time goes to a place, so that the newest content is known.
        let touches = |f: &Foreground| f.logical.overlaps(logical);
        if op == Op::Write && self.foreground.iter().any(|f| f.op == Op::Write && touches(f)) {
            return;
        }
        let racy = op == Op::Read && self.foreground.iter().any(|f| f.op == Op::Write && touches(f));
        let mut bytes: Vec<u8> = (0..len as usize * SECTOR).map(|_| self.below(256) as u8).collect();
        let began = match op {
            Op::Read => self.machine.begin_read(logical, &mut bytes),
            Op::Write => self.machine.begin_write(&mut self.host.registry, logical, &bytes),
        };
        let access = match began {
            Ok(access) => access,
            Err(AccessError::Free(_)) => return,
            Err(AccessError::Halted(_)) => {
                self.cut_short.push((logical, bytes));
                return;
            }
            Err(error) => panic!("{error}"),
        };
        if op == Op::Write {
            self.foreground.iter_mut().filter(|f| f.op == Op::Read && touches(f)).for_each(|f| f.racy = true);
            for piece in access.pieces().iter().filter(|p| p.place == AccessPlace::Staging) {
                let from = at(piece.logical).start - at(logical).start;
                let len = at(piece.logical).len();
                self.model[at(piece.logical)].copy_from_slice(&bytes[from..from + len]);
            }
        }
        self.foreground.push(Foreground { access, logical, bytes, op, racy });
    }

    /// Ends a foreground access. Its part on the medium happens only now, at the latest possible time.
    fn end_foreground(&mut self, i: usize) {
        let mut f = self.foreground.swap_remove(i);
        for piece in f.access.pieces() {
            let AccessPlace::Medium(place) = piece.place else { continue };
            let part = at(piece.logical).start - at(f.logical).start;
            let part = part..part + at(piece.logical).len();
            let there = at(LbnRange::new(place, piece.logical.len()));
            if f.op == Op::Read {
                f.bytes[part].copy_from_slice(&self.host.medium[there]);
            } else {
                self.host.medium[there].copy_from_slice(&f.bytes[part.clone()]);
                self.model[at(piece.logical)].copy_from_slice(&f.bytes[part]);
            }
        }
        if f.op == Op::Read && !f.racy {
            assert_eq!(
                f.bytes,
                self.model[at(f.logical)],
                "a foreground read of {} got other bytes",
                f.logical
            );
        }
        self.machine.end(&mut self.host.registry, f.access);
    }

    /// Checks the content of every live logical sector, read through the map.
    pub fn check_contents(&mut self) {
        for lbn in 0..self.plan.capacity().get() {
            if let Some(bytes) = self.logical(lbn) {
                assert_eq!(bytes, self.model[at(range(lbn, 1))], "LBN {lbn}");
            }
        }
    }

    /// Returns a sector as the volume's clients see it; `None` if it is not live.
    fn logical(&mut self, lbn: u64) -> Option<[u8; SECTOR]> {
        let mut bytes = [0; SECTOR];
        let access = self.machine.begin_read(range(lbn, 1), &mut bytes).ok()?;
        if let AccessPlace::Medium(place) = access.pieces()[0].place {
            bytes.copy_from_slice(&self.host.medium[at(LbnRange::new(place, Sectors::new(1)))]);
        }
        self.machine.end(&mut self.host.registry, access);
        Some(bytes)
    }

    /// Checks that every block is at its destination on the medium.
    pub fn check_moved(&self) {
        for m in self.plan.moves() {
            let to = LbnRange::new(m.to, m.from.len());
            assert_eq!(self.host.medium[at(to)], self.model[at(m.from)], "{} to {}", m.from, m.to);
        }
    }

    fn check_bounds(&self) {
        let p = self.machine.progress();
        assert_eq!(p.waiting + p.staged + p.kept + p.done + p.stuck, p.blocks);
        assert!(p.staged + p.kept <= self.options.staging, "{p:?}");
        let limit = (self.options.staging * u64::from(self.options.threshold_percent) / 100).max(1);
        assert!(p.unwritable <= limit.min(self.options.staging - 1), "{p:?}");
        if !p.is_finished() && self.machine.trouble().is_none() {
            // The limit relates to usable room, which kept blocks reduce.
            let usable = self.options.staging - p.kept;
            let limit = (usable * u64::from(self.options.threshold_percent) / 100).max(1).min(usable - 1);
            let [unwritable, writable, _] = self.machine.sessions();
            let full = p.staged >= usable;
            let suspended = |session| self.host.registry.is_suspended(session);
            assert_eq!(suspended(unwritable), full || p.unwritable >= limit, "{p:?}");
            assert_eq!(suspended(writable), full, "{p:?}");
        }
    }
}
