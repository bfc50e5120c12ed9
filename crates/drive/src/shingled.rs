//! A simulated drive with overlapping tracks (SMR). Writes go to a log; when the log is full, all commands wait until a band
//! has been rewritten. On such a drive, service times do not follow from positions.

use crate::black_box::{BlackBox, Reply};
use crate::error::{CommandError, DriveError};
use crate::firmware::{COMMAND_SECTORS_MAX, Command, Drive};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, CacheOps, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// The layout of a shingled drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShingledConfig {
    /// The size of the log, which occupies the first sectors of the underlying drive. The host cannot address them.
    pub log: Sectors,
    /// The size of a band, which can only be written as a whole.
    pub band: Sectors,
    /// The most commands in the drive, including the one in service.
    pub depth: u32,
}

impl ShingledConfig {
    /// Returns a configuration like that of a drive-managed SMR drive of 8 TB, whose bands have some 30 MB and whose log has
    /// some 20 GB: bands of the same size, and a log with the same share of the capacity.
    pub fn of(capacity: Sectors, sector_bytes: Bytes) -> Self {
        let band = Sectors::new(30_000_000 / sector_bytes.get().max(1));
        Self { log: Sectors::new((capacity.get() / 400).max(1)), band, depth: 32 }
    }
}

/// A run of LBNs whose current data is in the log.
#[derive(Clone, Copy, Debug)]
struct Logged {
    len: u64,
    /// The position of the first sector in the log. Positions count all sectors ever written to the log, so that they never
    /// repeat.
    at: u64,
}

/// The command in service.
#[derive(Debug, Clone)]
struct InService {
    id: RequestId,
    /// The remaining commands to the underlying drive.
    steps: VecDeque<(Op, LbnRange)>,
    first: Lbn,
    failed: Option<Lbn>,
}

/// A shingled drive over a plain drive. Commands are served one after another.
#[derive(Clone, Debug)]
pub struct Shingled {
    drive: Drive,
    config: ShingledConfig,
    /// The runs in the log, by their first LBN.
    logged: BTreeMap<u64, Logged>,
    /// The first LBN of each run in the log, by the run's position.
    by_place: BTreeMap<u64, u64>,
    /// The position of the next write to the log.
    head: u64,
    waiting: VecDeque<Command>,
    service: Option<InService>,
    done: VecDeque<Reply>,
    cleaned: u64,
    now: Instant,
}

impl Shingled {
    /// Makes a shingled drive from a plain one.
    ///
    /// # Errors
    /// The log is empty or as large as the drive, a band is empty or longer than a command may be, or `depth` is zero.
    pub fn new(drive: Drive, config: ShingledConfig) -> Result<Self, DriveError> {
        let capacity = BlackBox::capacity(&drive);
        let wrong = |place, value: String, mend| Err(DriveError::Number { place, value, mend });
        if config.log.get() == 0 || config.log >= capacity {
            return wrong(
                "shingled.log",
                config.log.to_string(),
                "give some of the drive's sectors, not all",
            );
        }
        if config.band.get() == 0 || config.band > COMMAND_SECTORS_MAX {
            return wrong("shingled.band", config.band.to_string(), "give 1 to 1048576 sectors");
        }
        if config.depth == 0 {
            return wrong("shingled.depth", "0".to_owned(), "give at least 1");
        }
        Ok(Self {
            drive,
            config,
            logged: BTreeMap::new(),
            by_place: BTreeMap::new(),
            head: 0,
            waiting: VecDeque::new(),
            service: None,
            done: VecDeque::new(),
            cleaned: 0,
            now: Instant::ZERO,
        })
    }

    /// Returns the number of bands rewritten so far.
    pub fn cleaned_bands(&self) -> u64 {
        self.cleaned
    }

    /// Returns the number of sectors whose current data is in the log.
    pub fn logged(&self) -> Sectors {
        Sectors::new(self.logged.values().map(|l| l.len).sum())
    }

    /// Returns the LBNs of the underlying drive for sectors in bands.
    fn native(&self, start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start + self.config.log.get()), Sectors::new(len))
    }

    fn in_log(&self, at: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(at % self.config.log.get()), Sectors::new(len))
    }

    /// Returns the runs in the log that overlap the LBNs `from..to`, each with its first LBN.
    fn overlapping(&self, from: u64, to: u64) -> Vec<(u64, Logged)> {
        let before = self.logged.range(..from).next_back().filter(|(start, l)| *start + l.len > from);
        before.into_iter().chain(self.logged.range(from..to)).map(|(&start, &l)| (start, l)).collect()
    }

    /// Removes the LBNs `from..to` from the log, because newer data replaces theirs.
    fn forget(&mut self, from: u64, to: u64) {
        for (start, l) in self.overlapping(from, to) {
            self.logged.remove(&start);
            self.by_place.remove(&l.at);
            let end = start + l.len;
            if start < from {
                self.log(start, Logged { len: from - start, at: l.at });
            }
            if end > to {
                self.log(to, Logged { len: end - to, at: l.at + (to - start) });
            }
        }
    }

    fn log(&mut self, start: u64, l: Logged) {
        self.logged.insert(start, l);
        self.by_place.insert(l.at, start);
    }

    fn read(&self, from: u64, to: u64) -> VecDeque<(Op, LbnRange)> {
        let mut steps = VecDeque::new();
        let mut next = from;
        for (start, l) in self.overlapping(from, to) {
            let (a, b) = (start.max(from), (start + l.len).min(to));
            if next < a {
                steps.push_back((Op::Read, self.native(next, a - next)));
            }
            steps.push_back((Op::Read, self.in_log(l.at + (a - start), b - a)));
            next = b;
        }
        if next < to {
            steps.push_back((Op::Read, self.native(next, to - next)));
        }
        steps
    }

    /// Appends the steps that rewrite the band of `lbn` with its current data, and removes its LBNs from the log.
    fn clean(&mut self, lbn: u64, steps: &mut VecDeque<(Op, LbnRange)>) {
        let band = self.config.band.get();
        let from = lbn / band * band;
        let to = (from + band).min(BlackBox::capacity(self).get());
        steps.extend(self.read(from, to));
        steps.push_back((Op::Write, self.native(from, to - from)));
        self.forget(from, to);
        self.cleaned += 1;
    }

    fn write(&mut self, from: u64, to: u64) -> VecDeque<(Op, LbnRange)> {
        let mut steps = VecDeque::new();
        let (log, len) = (self.config.log.get(), to - from);
        if len > log {
            // A write that is longer than the log goes to its bands directly.
            let band = self.config.band.get();
            for first in (from / band * band..to).step_by(band as usize) {
                self.clean(first, &mut steps);
            }
            return steps;
        }
        self.forget(from, to);
        if self.head % log + len > log {
            self.head += log - self.head % log;
        }
        while let Some((&tail, &start)) = self.by_place.first_key_value() {
            if self.head + len - tail <= log {
                break;
            }
            self.clean(start, &mut steps);
        }
        steps.push_back((Op::Write, self.in_log(self.head, len)));
        self.log(from, Logged { len, at: self.head });
        self.head += len;
        steps
    }

    /// Submits the next step of the current command to the underlying drive. A command without further steps is complete, and
    /// the next one begins.
    fn go_on(&mut self, now: Instant) {
        loop {
            if self.service.is_none() {
                let Some(command) = self.waiting.pop_front() else { return };
                let (from, to) = (command.range.start().get(), command.range.end().get());
                let steps = match command.op {
                    Op::Read => self.read(from, to),
                    Op::Write => self.write(from, to),
                };
                self.service =
                    Some(InService { id: command.id, steps, first: command.range.start(), failed: None });
            }
            let Some(service) = &mut self.service else { return };
            let Some((op, range)) = service.steps.pop_front() else {
                self.done.push_back(Reply { id: service.id, at: now, failed: service.failed });
                self.service = None;
                continue;
            };
            let step = Command { id: service.id, op, range };
            match self.drive.submit(now, step) {
                Ok(()) => return,
                Err(error) => {
                    debug_assert!(false, "the drive under the shingled layer refuses a command: {error}")
                }
            }
        }
    }
}

impl BlackBox for Shingled {
    fn capacity(&self) -> Sectors {
        Sectors::new(BlackBox::capacity(&self.drive).get() - self.config.log.get())
    }

    fn sector_bytes(&self) -> Bytes {
        BlackBox::sector_bytes(&self.drive)
    }

    fn queue_depth(&self) -> usize {
        self.config.depth as usize
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        command.check(BlackBox::capacity(self), CacheOps::default())?;
        self.advance(now);
        if self.outstanding() >= self.queue_depth() {
            return Err(CommandError::QueueFull { id: command.id, depth: self.config.depth });
        }
        self.waiting.push_back(command);
        if self.service.is_none() {
            self.go_on(now);
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        if self.done.is_empty() { self.drive.next_event() } else { Some(self.now) }
    }

    fn advance(&mut self, now: Instant) {
        while let Some(at) = self.drive.next_event().filter(|&at| at <= now) {
            self.drive.advance(at);
            while let Some(step) = self.drive.pop_completion() {
                if let (Some(service), Some(_)) = (&mut self.service, step.failed) {
                    // The host does not see the drive's internal addresses, so the error has the command's first
                    // sector.
                    service.failed = service.failed.or(Some(service.first));
                }
                self.go_on(step.at);
            }
        }
        self.drive.advance(now);
        self.now = self.now.max(now);
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.waiting.len() + usize::from(self.service.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMPS: u64 = 1 << 32;

    fn drive() -> Drive {
        let toml = include_str!("../tests/data/small.toml");
        let mut profile = model::Profile::from_toml(toml, "small.toml").unwrap();
        profile.firmware.get_or_insert_default();
        Drive::new(&profile).unwrap()
    }

    proptest! {
        /// The steps of each command are executed on an array with one number for each sector.
        #[test]
        fn reads_return_the_last_data_written(
            log in 40_u64..300, band in 1_u64..700,
            writes in proptest::collection::vec((any::<u64>(), 1_u64..40), 1..80),
        ) {
            let config = ShingledConfig { log: Sectors::new(log), band: Sectors::new(band), depth: 1 };
            let mut smr = Shingled::new(drive(), config).unwrap();
            let capacity = BlackBox::capacity(&smr).get();
            // Every sector initially contains its own number.
            let mut medium: Vec<u64> = (0..capacity + log).collect();
            let mut naive: Vec<u64> = (log..capacity + log).collect();
            for (stamp, (place, len)) in (STAMPS..).zip(writes) {
                let from = place % (capacity - len + 1);
                let mut buffer = Vec::new();
                for (op, range) in smr.write(from, from + len) {
                    let at = range.start().get() as usize..range.end().get() as usize;
                    match op {
                        Op::Read => buffer.extend_from_slice(&medium[at]),
                        Op::Write if buffer.is_empty() => medium[at].fill(stamp),
                        Op::Write => {
                            medium[at].copy_from_slice(&buffer);
                            buffer.clear();
                        }
                    }
                }
                naive[from as usize..(from + len) as usize].fill(stamp);
            }
            let mut all = Vec::new();
            for (_, range) in smr.read(0, capacity) {
                all.extend_from_slice(&medium[range.start().get() as usize..range.end().get() as usize]);
            }
            prop_assert_eq!(all, naive);
        }
    }
}
