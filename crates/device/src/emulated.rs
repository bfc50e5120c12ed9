//! A drive that is not there: a simulated drive's times, and a file's bytes.

use drive::{Behaviour, Command, CommandError, Drive, DriveError, Rules};
use hdrhistogram::Histogram;
use model::Profile;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// What is asked of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Sectors to be read.
    Read,
    /// Sectors to be written.
    Write {
        /// Their bytes.
        bytes: Vec<u8>,
        /// They are to be on the medium before it is acknowledged.
        through: bool,
    },
    /// All that was acknowledged is to be on the medium. The range means nothing.
    Flush,
    /// The sectors are not needed any more; what is read there afterwards is not said. For a device that
    /// [can](crate::Abilities::discard).
    Discard,
    /// The sectors are to be zero. For a device that [can](crate::Abilities::write_zeroes).
    WriteZeroes {
        /// They are to be on the medium before it is acknowledged.
        through: bool,
        /// The room must stay allocated.
        keep: bool,
    },
}

/// Something done, or not.
#[derive(Debug)]
pub struct Answer {
    /// The caller's name for it.
    pub id: u64,
    /// When the device was done with it, as well as that is known. The call that told it came later.
    pub at: Instant,
    /// What was read; nothing otherwise.
    pub result: Result<Vec<u8>, Failure>,
}

/// Why something was not done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A bad sector.
    #[error("sector {0} cannot be read")]
    Medium(Lbn),
    /// The drive takes no such command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// As many bytes as sectors are needed.
    #[error("{found} bytes to write to {range:?}, which has {expected}")]
    Length {
        /// Where.
        range: LbnRange,
        /// Its bytes.
        expected: Bytes,
        /// Those given.
        found: usize,
    },
    /// There are no such sectors.
    #[error(
        "LBNs {range} on a device of {sectors} sectors; ask for at least one, and for none beyond the end"
    )]
    Outside {
        /// What was asked for.
        range: LbnRange,
        /// What there is.
        sectors: Sectors,
    },
    /// The device was not made for it: see [`Abilities`](crate::Abilities).
    #[error("the device cannot {0}; ask it what it can do first")]
    Unsupported(&'static str),
    /// There is no answer, and nobody waits for it any more: it may still be carried out.
    #[error("the device has not answered for {} s", after.as_nanos() / 1_000_000_000)]
    Silent {
        /// So long it had.
        after: Duration,
    },
    /// It is not to be written now.
    #[error("{0}")]
    Taken(String),
    /// The file or the device node under it failed.
    #[error("what the device's bytes are kept in: {0}")]
    File(#[from] io::Error),
}

/// What cannot be emulated, or not over this file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmulatedError {
    /// The profile is no whole drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The file cannot be made as large as the drive.
    #[error(
        "the file cannot be made {bytes} bytes long: {source}; use a file system that takes sparse files of that size"
    )]
    Size {
        /// The drive's size.
        bytes: Bytes,
        /// What the file system says.
        source: io::Error,
    },
    /// The file holds another drive's bytes.
    #[error(
        "the file has {found} bytes, the drive {expected}; give a new file, or the profile that the file was made with"
    )]
    OtherSize {
        /// The file's.
        found: Bytes,
        /// The drive's.
        expected: Bytes,
    },
}

/// A drive emulated over a file: every command takes as long as a profile's drive would take, on the caller's clock. The
/// file's holes are sectors never written.
///
/// Writes are acknowledged from the medium, not from the drive's buffer, unless the [`Behaviour`] says otherwise: then a
/// flush is as quick as the file, for the simulated drive's buffer cannot be lost.
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
    /// What waits for room in the drive's queue, in order.
    waiting: VecDeque<(u64, LbnRange, Ask)>,
    inside: BTreeMap<RequestId, (u64, LbnRange, Ask)>,
    next: u64,
    done: VecDeque<Answer>,
    lateness: Histogram<u64>,
}

impl Emulated {
    /// A drive of this profile over `file`, which is made as large as it if it is empty.
    ///
    /// # Errors
    /// A profile without firmware, or a file of another size.
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

    /// The simulated drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Bytes of a sector.
    pub fn sector_bytes(&self) -> Bytes {
        self.sector
    }

    /// Bytes in all.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.drive.model().layout().capacity().get() * self.sector.get())
    }

    /// How long after an answer's instant the host took it, in nanoseconds: what the emulation adds to the drive's times.
    /// A write that had to wait for the file is in it.
    pub fn lateness(&self) -> &Histogram<u64> {
        &self.lateness
    }

    /// Asks for something at `now`; the answer comes in time, under `id`. More than the drive's queue takes waits in order.
    pub fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        let refused = match &ask {
            Ask::Flush => {
                // What is acknowledged is in the file: a moment, on a drive without a buffer.
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
            // Forgetting moves no arm.
            Ask::Discard => {
                let result = self.discard(id, range).map(|()| Vec::new());
                self.done.push_back(Answer { id, at: now, result });
                return;
            }
        };
        match refused {
            Some(failure) => self.done.push_back(Answer { id, at: now, result: Err(failure) }),
            None => self.waiting.push_back((id, range, ask)),
        }
        self.fill(now);
    }

    /// Hands over to the drive what it has room for.
    fn fill(&mut self, now: Instant) {
        while self.drive.outstanding() < self.drive.queue_depth() {
            let Some((id, range, ask)) = self.waiting.pop_front() else { return };
            let name = RequestId::new(self.next);
            self.next += 1;
            let writes = matches!(ask, Ask::Write { .. } | Ask::WriteZeroes { .. });
            let op = if writes { Op::Write } else { Op::Read };
            match self.drive.submit(now, Command { id: name, op, range }) {
                Ok(()) => {
                    self.inside.insert(name, (id, range, ask));
                }
                Err(error) => self.done.push_back(Answer { id, at: now, result: Err(error.into()) }),
            }
        }
    }

    /// When something will have happened, if nothing else is asked for.
    pub fn next_event(&self) -> Option<Instant> {
        match self.done.front() {
            Some(answer) => Some(answer.at),
            None => self.drive.next_event(),
        }
    }

    /// Lets time pass until `now`: reads and writes the file for what the drive is done with.
    pub fn advance(&mut self, now: Instant) {
        // Each in its turn: what follows in the queue begins when its predecessor was done, not when the host looked.
        while let Some(at) = self.drive.next_event().filter(|at| *at <= now) {
            self.drive.advance(at);
            while let Some(done) = self.drive.pop_completion() {
                if let Some((id, range, ask)) = self.inside.remove(&done.id) {
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
            // Neither waits for the drive.
            Ask::Flush | Ask::Discard => Ok(Vec::new()),
        }
    }

    /// A hole in the file; nothing, where the file system knows none.
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

    /// A hole in the file unless its room is to be kept, or zeroes.
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

    /// The next answer; `now` is when the host takes it.
    pub fn poll(&mut self, now: Instant) -> Option<Answer> {
        let answer = self.done.pop_front()?;
        let late: Duration = now.saturating_since(answer.at);
        // It grows; only what no histogram can hold is refused.
        let _ = self.lateness.record(late.as_nanos());
        Some(answer)
    }
}

/// Makes a hole; whether the file system knows such.
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
