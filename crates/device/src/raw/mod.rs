//! A disk or a file, accessed past the page cache.

mod in_use;
mod memory;
mod open;
mod transfer;

#[cfg(test)]
mod tests;

use crate::aligned::Aligned;
use crate::block::{Abilities, Answer, Ask, Device, Failure, Run};
use crate::holes;
use crate::ring::{Ended, Make, Work};
use drive::CommandError;
use open::Opened;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use transfer::{Next, PendingTransfer, Way, unknown};
use units::{Bytes, Instant, Lbn, LbnRange, RequestId, Sectors};

#[cfg(feature = "ublk")]
pub(crate) use in_use::System;
pub use in_use::User;
pub use open::{OpenError, Options};

/// The most bytes of a request: more than any client sends at once.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// A block device or a file, opened exclusively, and read and written past the page cache by operations on the
/// host's ring.
///
/// Every request is one command at the device, because the scheduler core decides how many commands are outstanding
/// there. There are two exceptions: zeroing for which the device has no command, and the rest of a command that has
/// failed, are done in pieces. A medium error is reported with the first sector that fails by itself, which is found
/// by halving pieces. If no sector fails by itself, none was bad.
///
/// A flush is `fdatasync`. A write-through is RWF_DSYNC, which the kernel maps to a forced unit access if the disk
/// has that. Zeroes and discards are the kernel's `fallocate` and discard command.
///
/// ```
/// use device::{Ask, Device, Options, Raw, Ring};
/// use units::{Instant, Lbn, LbnRange, Sectors};
/// # let path = std::env::temp_dir().join(format!("freeblock-raw-{}", std::process::id()));
/// std::fs::write(&path, vec![7; 1 << 20])?;
/// let mut disk = Raw::open(&path, Options { buffered: true, ..Options::default() })?;
/// let Ok(mut ring) = Ring::new() else { return Ok(()) }; // a kernel without io_uring
/// disk.ask(Instant::ZERO, 1, LbnRange::new(Lbn::new(8), Sectors::new(2)), Ask::Read);
/// let (name, work) = disk.next_work().expect("one command");
/// ring.start(work)?;
/// ring.wait(None)?;
/// disk.ended(Instant::from_nanos(5), name, ring.next_ended().expect("it has ended"));
/// let answer = disk.poll(Instant::from_nanos(6)).expect("an answer");
/// assert_eq!(answer.result?, vec![7; 2 * disk.sector_bytes().get() as usize]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Raw {
    opened: Opened,
    options: Options,
    /// Requests, by the number of the operation that is in flight for each.
    jobs: BTreeMap<u64, Job>,
    next: u64,
    work: VecDeque<(u64, Work)>,
    done: VecDeque<Answer>,
    /// The ways of zeroing that the device has turned out not to support.
    no_holes: bool,
    no_zeroing: bool,
}

/// A request in progress.
#[derive(Debug)]
struct Job {
    id: u64,
    range: LbnRange,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Transfer(PendingTransfer),
    Discard,
    Zero { make: Make, through: bool },
    Flush,
}

impl Raw {
    /// Opens a device or a file exclusively.
    ///
    /// # Errors
    /// The path does not exist, or is in use; the error names the mount point of a mounted device.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Ok(Self::over(open::open(path.as_ref(), options)?, options))
    }

    /// Opens a device or a file for reads only, even if it has another user; returns it with that user. For
    /// measurements, not for serving.
    ///
    /// # Errors
    /// The path does not exist, or is no disk.
    pub fn open_shared(path: impl AsRef<Path>) -> Result<(Self, Option<User>), OpenError> {
        let options = Options { read_only: true, buffered: false };
        let (opened, user) = open::open_shared(path.as_ref())?;
        Ok((Self::over(opened, options), user))
    }

    fn over(opened: Opened, options: Options) -> Self {
        Self {
            opened,
            options,
            jobs: BTreeMap::new(),
            next: 0,
            work: VecDeque::new(),
            done: VecDeque::new(),
            no_holes: false,
            no_zeroing: false,
        }
    }

    /// Returns the number of sectors.
    pub fn capacity(&self) -> Sectors {
        self.opened.capacity
    }

    /// Returns the smallest size of a write before which nothing has to be read: a physical sector, or a block of
    /// the file's file system.
    pub fn physical_sector_bytes(&self) -> Bytes {
        self.opened.physical
    }

    /// Returns whether this is a block device, and not a file.
    pub fn is_block_device(&self) -> bool {
        self.opened.block_device
    }

    /// Returns whether accesses bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.opened.direct
    }

    /// Returns the number of commands in flight.
    pub fn outstanding(&self) -> usize {
        self.jobs.len()
    }

    fn refusal(&self, id: u64, range: LbnRange, ask: &Ask) -> Option<Failure> {
        let (id, capacity) = (RequestId::new(id), self.opened.capacity);
        let inside = range.checked_end().is_some_and(|end| end <= Lbn::new(capacity.get()));
        let sector = self.opened.sector.get();
        let most = Sectors::new(REQUEST_BYTES_MAX / sector);
        let carries = matches!(ask, Ask::Read | Ask::Write { .. });
        match ask {
            Ask::Flush => return None,
            _ if range.is_empty() => return Some(CommandError::Empty { id, range }.into()),
            _ if !inside => return Some(CommandError::PastEnd { id, range, capacity }.into()),
            _ if carries && range.len() > most => {
                return Some(CommandError::TooLong { id, range, most }.into());
            }
            Ask::Read => return None,
            _ if self.options.read_only => {
                return Some(Failure::Unsupported("write: the device was opened to be read"));
            }
            Ask::Discard if !self.opened.abilities.discard => return Some(Failure::Unsupported("discard")),
            _ => {}
        }
        let Ask::Write { bytes, .. } = ask else { return None };
        let (expected, found) = (range.len().bytes(self.opened.sector), bytes.len());
        (expected.get() != found as u64).then_some(Failure::Length { range, expected, found })
    }

    fn transfer(&self, way: Way, range: LbnRange, buffer: Aligned) -> (Step, Work) {
        let (transfer, first) =
            PendingTransfer::begin(way, range, self.opened.sector, buffer, &self.opened.file);
        (Step::Transfer(transfer), first)
    }

    fn make(&self, range: LbnRange, make: Make) -> Work {
        let sector = self.opened.sector.get();
        let (at, bytes) = (range.start().get() * sector, range.len().get() * sector);
        Work::Make(std::sync::Arc::clone(&self.opened.file), make, at, bytes)
    }

    /// Returns the quickest way of zeroing that the device has not refused.
    fn zero(&self, range: LbnRange, through: bool, keep: bool) -> (Step, Work) {
        let make = match (keep || self.no_holes, self.no_zeroing) {
            (false, _) => Make::Hole,
            (true, false) => Make::Zeroes,
            (true, true) => {
                let buffer = PendingTransfer::zeroes(range, self.opened.sector, self.opened.alignment);
                return self.transfer(Way::Zero { through }, range, buffer);
            }
        };
        (Step::Zero { make, through }, self.make(range, make))
    }

    fn flush(&self) -> (Step, Work) {
        (Step::Flush, Work::Sync(std::sync::Arc::clone(&self.opened.file)))
    }

    fn start(&mut self, id: u64, range: LbnRange, (step, work): (Step, Work)) {
        let name = self.next;
        self.next += 1;
        self.jobs.insert(name, Job { id, range, step });
        self.work.push_back((name, work));
    }

    /// Handles the end of an operation.
    fn settle(&mut self, now: Instant, work: u64, ended: Ended) {
        let Some(Job { id, range, step }) = self.jobs.remove(&work) else { return };
        let result = ended.result;
        match (step, ended.work) {
            (Step::Transfer(mut transfer), Work::ReadAt(_, buffer, ..) | Work::WriteAt(_, buffer, ..)) => {
                match transfer.ended(buffer, result, &self.opened.file) {
                    Next::Piece(work) => self.start(id, range, (Step::Transfer(transfer), work)),
                    Next::Done(bytes) => self.answer(id, now, Ok(bytes)),
                    Next::Bad(lbn) => self.answer(id, now, Err(Failure::Medium(lbn))),
                    Next::Failed(error) => self.answer(id, now, Err(error.into())),
                }
            }
            // If the device cannot discard, the bytes stay, which is allowed.
            (Step::Discard, _) => match result {
                Err(error) if !unknown(&error) => self.answer(id, now, Err(error.into())),
                _ => self.answer(id, now, Ok(Vec::new())),
            },
            (Step::Zero { through, .. }, _) if result.is_ok() => match through {
                true => self.start(id, range, self.flush()),
                false => self.answer(id, now, Ok(Vec::new())),
            },
            (Step::Zero { make, through }, _) => {
                let error = result.err();
                if error.as_ref().is_some_and(unknown) {
                    self.no_holes |= make == Make::Hole;
                    self.no_zeroing |= make == Make::Zeroes;
                    return self.start(id, range, self.zero(range, through, make == Make::Zeroes));
                }
                // Zeroes that are written in pieces show which sector fails, and whether space is missing.
                let buffer = PendingTransfer::zeroes(range, self.opened.sector, self.opened.alignment);
                self.start(id, range, self.transfer(Way::Zero { through }, range, buffer));
            }
            (Step::Flush | Step::Transfer(_), _) => {
                self.answer(id, now, result.map(|_| Vec::new()).map_err(Failure::from));
            }
        }
    }

    /// Executes all operations on a file in memory at once.
    fn go_on(&mut self, now: Instant) {
        while self.opened.in_memory
            && let Some((name, work)) = self.work.pop_front()
        {
            self.settle(now, name, memory::carry_out(work));
        }
    }

    fn answer(&mut self, id: u64, at: Instant, result: Result<Vec<u8>, Failure>) {
        self.done.push_back(Answer { id, at, result });
    }
}

impl Device for Raw {
    fn sector_bytes(&self) -> Bytes {
        self.opened.sector
    }

    fn size(&self) -> Bytes {
        self.opened.capacity.bytes(self.opened.sector)
    }

    fn abilities(&self) -> Abilities {
        self.opened.abilities
    }

    fn runs(&self, range: LbnRange) -> Vec<Run> {
        // The holes of a block device are unknown.
        if self.opened.block_device {
            return vec![Run { len: range.len(), hole: false }];
        }
        holes::runs(&self.opened.file, range, self.opened.sector)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        if let Some(failure) = self.refusal(id, range, &ask) {
            return self.answer(id, now, Err(failure));
        }
        let bytes = range.len().bytes(self.opened.sector).get() as usize;
        let begun = match ask {
            Ask::Read => self.transfer(Way::Read, range, Aligned::zeroed(bytes, self.opened.alignment)),
            Ask::Write { bytes, through } => {
                let buffer = Aligned::new(bytes, self.opened.alignment);
                self.transfer(Way::Write { through }, range, buffer)
            }
            Ask::Flush => self.flush(),
            Ask::Discard => {
                let make = if self.opened.block_device { Make::Anything } else { Make::Hole };
                (Step::Discard, self.make(range, make))
            }
            Ask::WriteZeroes { through, keep } => self.zero(range, through, keep),
        };
        self.start(id, range, begun);
        self.go_on(now);
    }

    fn next_work(&mut self) -> Option<(u64, Work)> {
        self.work.pop_front()
    }

    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        self.settle(now, work, ended);
        self.go_on(now);
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.front().map(|answer| answer.at)
    }

    fn advance(&mut self, _now: Instant) {}

    fn poll(&mut self, _now: Instant) -> Option<Answer> {
        self.done.pop_front()
    }
}
