//! An emulated drive: the times of a simulated drive, and the bytes of a file.

use crate::block::{Answer, Ask, Failure};
use drive::{Behaviour, Command, CommandError, Drive, DriveError, Rules};
use hdrhistogram::Histogram;
use model::Profile;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// The reason why a drive cannot be emulated over a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmulatedError {
    /// The profile does not describe a whole drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The file cannot be extended to the size of the drive.
    #[error(
        "the file cannot be made {bytes} bytes long: {source}; use a file system that takes sparse files of that size"
    )]
    Size {
        /// The drive's size in bytes.
        bytes: Bytes,
        /// The file system's error.
        source: io::Error,
    },
    /// The file belongs to another drive.
    #[error(
        "the file has {found} bytes, the drive {expected}; give a new file, or the profile that the file was made with"
    )]
    OtherSize {
        /// The file's size in bytes.
        found: Bytes,
        /// The drive's size in bytes.
        expected: Bytes,
    },
}

/// A request of the host that the drive has not answered.
#[derive(Debug)]
struct EmulatedRequest {
    id: u64,
    range: LbnRange,
    ask: Ask,
}

/// A drive emulated over a file: every command takes the time of a drive of the profile, on the caller's clock.
/// Holes of the file are sectors that were never written.
///
/// Unless the [`Behaviour`] says otherwise, a write is acknowledged when it is on the medium, and not when it is in
/// the drive's buffer. A flush takes only the time of the file in either case, because the simulated buffer cannot
/// be lost.
///
/// ```
/// use device::{Ask, Emulated};
/// use units::{Instant, Lbn, LbnRange, Sectors};
/// # let dir = std::env::temp_dir().join(format!("freeblock-emulated-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let profile = model::builtin::find("quantum-atlas-10k")?;
/// let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(dir.join("disk"))?;
/// let mut disk = Emulated::new(&profile, Default::default(), 1, file)?;
/// let range = LbnRange::new(Lbn::new(1_000_000), Sectors::new(1));
/// disk.ask(Instant::ZERO, 7, range, Ask::Write { bytes: vec![5; 512], through: false });
/// disk.ask(Instant::ZERO, 8, range, Ask::Read);
/// let mut answers = Vec::new();
/// while let Some(at) = disk.next_event() {
///     disk.advance(at);                                   // a live host waits until then
///     answers.extend(std::iter::from_fn(|| disk.poll(at)));
/// }
/// assert_eq!(answers.iter().map(|a| a.id).collect::<Vec<_>>(), [7, 8]);
/// assert_eq!(answers[1].result.as_ref().unwrap(), &vec![5; 512]);
/// assert!(answers[1].at.as_nanos() > 1_000_000, "it takes milliseconds");
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Emulated {
    drive: Drive,
    file: File,
    sector: Bytes,
    /// Requests for which the drive's queue has no room, in order of arrival.
    waiting: VecDeque<EmulatedRequest>,
    inside: BTreeMap<RequestId, EmulatedRequest>,
    next: u64,
    done: VecDeque<Answer>,
    lateness: Histogram<u64>,
}

impl Emulated {
    /// Creates a drive of this profile over `file`, which is extended to the drive's size if it is empty.
    ///
    /// # Errors
    /// The profile has no firmware, or the file has another size.
    pub fn new(
        profile: &Profile,
        behaviour: Behaviour,
        seed: u64,
        file: File,
    ) -> Result<Self, EmulatedError> {
        let write_back = Some(behaviour.write_back.unwrap_or(false));
        let drive =
            Drive::with_behaviour(profile, Rules::HARDWARE, Behaviour { write_back, ..behaviour }, seed)?;
        let sectors = drive.model().layout().capacity();
        let expected = Bytes::new(sectors.get() * drive.model().sector_bytes().get());
        let failed = |source| EmulatedError::Size { bytes: expected, source };
        let found = Bytes::new(file.metadata().map_err(failed)?.len());
        if found == Bytes::new(0) {
            file.set_len(expected.get()).map_err(failed)?;
        } else if found != expected {
            return Err(EmulatedError::OtherSize { found, expected });
        }
        Ok(Self {
            sector: drive.model().sector_bytes(),
            drive,
            file,
            waiting: VecDeque::new(),
            inside: BTreeMap::new(),
            next: 0,
            done: VecDeque::new(),
            lateness: Histogram::new(3).unwrap_or_else(|e| unreachable!("{e}")),
        })
    }

    /// Returns the simulated drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Returns the bytes of a sector.
    pub fn sector_bytes(&self) -> Bytes {
        self.sector
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.drive.model().layout().capacity().get() * self.sector.get())
    }

    /// Returns how long after their instant the host took the answers, in nanoseconds. This is the error that the
    /// emulation adds to the drive's times; it includes waits for the file.
    pub fn lateness(&self) -> &Histogram<u64> {
        &self.lateness
    }

    /// Starts a request at `now`; the answer will have the number `id`. Requests beyond the drive's queue depth wait
    /// in order.
    pub fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        let refused = match &ask {
            Ask::Flush => {
                // All acknowledged writes are in the file, so a flush takes none of the drive's time.
                let result = self.file.sync_data().map(|()| Vec::new()).map_err(Failure::from);
                self.done.push_back(Answer { id, at: now, result });
                return;
            }
            Ask::Write { bytes, .. } => {
                let expected = Bytes::new(range.len().get().saturating_mul(self.sector.get()));
                let found = bytes.len();
                (expected.get() != found as u64).then_some(Failure::Length { range, expected, found })
            }
            Ask::Read => None,
            Ask::WriteZeroes { .. } => None,
            // A discard moves no arm, so it takes none of the drive's time.
            Ask::Discard => {
                let result = self.discard(id, range).map(|()| Vec::new());
                self.done.push_back(Answer { id, at: now, result });
                return;
            }
        };
        match refused {
            Some(failure) => self.done.push_back(Answer { id, at: now, result: Err(failure) }),
            None => self.waiting.push_back(EmulatedRequest { id, range, ask }),
        }
        self.fill(now);
    }

    /// Passes waiting requests to the drive while its queue has room.
    fn fill(&mut self, now: Instant) {
        while self.drive.outstanding() < self.drive.queue_depth() {
            let Some(EmulatedRequest { id, range, ask }) = self.waiting.pop_front() else { return };
            let name = RequestId::new(self.next);
            self.next += 1;
            let writes = matches!(ask, Ask::Write { .. } | Ask::WriteZeroes { .. });
            let op = if writes { Op::Write } else { Op::Read };
            match self.drive.submit(now, Command { id: name, op, range }) {
                Ok(()) => {
                    self.inside.insert(name, EmulatedRequest { id, range, ask });
                }
                Err(error) => self.done.push_back(Answer { id, at: now, result: Err(error.into()) }),
            }
        }
    }

    /// Returns the time of the next event, if no other request arrives before.
    pub fn next_event(&self) -> Option<Instant> {
        match self.done.front() {
            Some(answer) => Some(answer.at),
            None => self.drive.next_event(),
        }
    }

    /// Advances the time to `now`, and reads or writes the file for the commands that the drive has finished.
    pub fn advance(&mut self, now: Instant) {
        // The events are handled one by one, because the next command in the queue begins when the one before has
        // ended, and not at `now`.
        while let Some(at) = self.drive.next_event().filter(|at| *at <= now) {
            self.drive.advance(at);
            while let Some(done) = self.drive.pop_completion() {
                if let Some(EmulatedRequest { id, range, ask }) = self.inside.remove(&done.id) {
                    let result = match done.failed {
                        Some(lbn) => Err(Failure::Medium(lbn)),
                        None => self.carry_out(range, ask).map_err(Failure::from),
                    };
                    self.done.push_back(Answer { id, at: done.at, result });
                }
            }
            self.fill(at);
        }
    }

    fn carry_out(&self, range: LbnRange, ask: Ask) -> io::Result<Vec<u8>> {
        let offset = range.start().get() * self.sector.get();
        match ask {
            Ask::Read => {
                let mut bytes = vec![0; (range.len().get() * self.sector.get()) as usize];
                self.file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Ask::Write { bytes, through } => {
                self.file.write_all_at(&bytes, offset)?;
                if through {
                    self.file.sync_data()?;
                }
                Ok(Vec::new())
            }
            Ask::WriteZeroes { through, keep } => {
                self.zero(offset, range.len().bytes(self.sector).get(), keep)?;
                if through {
                    self.file.sync_data()?;
                }
                Ok(Vec::new())
            }
            // Flushes and discards were answered when they arrived, and never reach the drive.
            Ask::Flush | Ask::Discard => Ok(Vec::new()),
        }
    }

    /// Makes a hole in the file; does nothing if the file system does not support holes.
    fn discard(&self, id: u64, range: LbnRange) -> Result<(), Failure> {
        let (id, capacity) = (RequestId::new(id), self.drive.model().layout().capacity());
        if range.is_empty() {
            return Err(CommandError::Empty { id, range }.into());
        }
        if range.checked_end().is_none_or(|end| end > Lbn::new(capacity.get())) {
            return Err(CommandError::PastEnd { id, range, capacity }.into());
        }
        let (at, bytes) = (range.start().get() * self.sector.get(), range.len().bytes(self.sector).get());
        punch(&self.file, at, bytes).map(|_| ()).map_err(Failure::from)
    }

    /// Makes a hole in the file. Writes zeroes if the space must be kept, or the file system has no holes.
    fn zero(&self, at: u64, bytes: u64, keep: bool) -> io::Result<()> {
        if !keep && punch(&self.file, at, bytes)? {
            return Ok(());
        }
        let zeroes = vec![0; bytes.min(1 << 20) as usize];
        let mut done = 0;
        while done < bytes {
            let piece = &zeroes[..(bytes - done).min(zeroes.len() as u64) as usize];
            self.file.write_all_at(piece, at + done)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Returns the next answer; `now` is the time at which the host takes the answer.
    pub fn poll(&mut self, now: Instant) -> Option<Answer> {
        let answer = self.done.pop_front()?;
        let late: Duration = now.saturating_since(answer.at);
        // The histogram grows with its values, so recording fails only for values that no histogram can have.
        let _ = self.lateness.record(late.as_nanos());
        Some(answer)
    }
}

/// Makes a hole; returns whether the file system can.
#[cfg(target_os = "linux")]
fn punch(file: &File, at: u64, bytes: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch(_file: &File, _at: u64, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
impl crate::Device for Emulated {
    fn sector_bytes(&self) -> Bytes {
        self.sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.size()
    }

    fn abilities(&self) -> crate::Abilities {
        crate::Abilities { discard: true, write_zeroes: true, volatile: true, rotational: true }
    }

    fn runs(&self, range: LbnRange) -> Vec<crate::Run> {
        crate::holes::runs(&self.file, range, self.sector)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        self.ask(now, id, range, ask);
    }

    fn next_event(&self) -> Option<Instant> {
        self.next_event()
    }

    fn advance(&mut self, now: Instant) {
        self.advance(now);
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        self.poll(now)
    }
}
