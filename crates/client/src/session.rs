//! A session of one's own.

use crate::control::{ControlError, refusal};
use crate::http;
use crate::wire::{Call, Decoder, Event, Frame, PROTOCOL, Range, VERSION, WireError};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a call came to nothing.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The session was not opened.
    #[error(transparent)]
    Open(#[from] ControlError),
    /// A call was refused; nothing has changed.
    #[error("{0}")]
    Refused(String),
    /// The daemon is gone, and the session with it.
    #[error("the daemon has ended the session: {0}; open another")]
    Gone(#[from] io::Error),
    /// It does not speak this protocol.
    #[error("the daemon does not keep to the protocol: {0}")]
    Wire(#[from] WireError),
    /// It speaks another version of it.
    #[error("the daemon speaks version {0} of the protocol, this program {VERSION}")]
    Version(u32),
}

/// A block that is done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of which task.
    pub task: u64,
    /// The block's first LBN.
    pub start: u64,
    /// Its sectors.
    pub sectors: u64,
    /// What came with the task.
    pub parameter: u64,
    /// Whether it was written.
    pub write: bool,
    /// The first bad sector, where the medium could not serve it: then there are no bytes.
    pub bad: Option<u64>,
    /// Whether nothing more is to come.
    pub last: bool,
    /// What was read.
    pub bytes: Vec<u8>,
}

/// A block that is about to be written: answer with [`Session::give`] or [`Session::not_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of which task.
    pub task: u64,
    /// The block's first LBN.
    pub start: u64,
    /// Its sectors.
    pub sectors: u64,
    /// What came with the task.
    pub parameter: u64,
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// A record.
    Record(Record),
    /// A block's bytes are wanted.
    Wanted(Wanted),
    /// Nothing in that time.
    Nothing,
}

/// A session (FAST'04, section 3): blocks of a disk in whatever order is free.
///
/// Its records arrive on a file descriptor, which `poll` works on: it is readable when [`get`](Self::get) has something,
/// or a part of it. Dropping the session closes it. A program that does not fetch its records suspends its own session
/// and nobody else's.
///
/// ```no_run
/// use client::{Got, Session, USUAL_PATH};
/// let mut session = Session::open(USUAL_PATH, "data", 20)?;
/// let (sectors, mut sum) = (session.sectors(), 0u64);
/// session.read(0, sectors, 128, 0)?;
/// loop {
///     if let Got::Record(record) = session.get(None)? {
///         sum += record.bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///         if record.last {
///             break;
///         }
///     }
/// }
/// println!("{sum}");
/// # Ok::<(), client::SessionError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    stream: UnixStream,
    decoder: Decoder,
    /// Came while an answer was waited for.
    waiting: VecDeque<Event>,
    calls: u32,
    sectors: u64,
    sector_bytes: u32,
}

impl Session {
    /// Opens a session on a disk of the daemon that listens at `socket`, with a priority of 1 to 100.
    ///
    /// # Errors
    /// No daemon, no such disk, another protocol.
    pub fn open(socket: impl AsRef<Path>, disk: &str, priority: u8) -> Result<Self, SessionError> {
        let socket = socket.as_ref();
        let path = format!("/v1/disks/{disk}/sessions?priority={priority}");
        let unreachable = |error| ControlError::Unreachable { socket: socket.into(), error };
        let (stream, came) = match http::upgrade(socket, &path, PROTOCOL).map_err(unreachable)? {
            Ok(upgraded) => upgraded,
            Err((code, body)) => {
                let strange =
                    || ControlError::Strange { socket: socket.into(), what: format!("code {code}") };
                return Err(refusal(code, &body).unwrap_or_else(strange).into());
            }
        };
        let mut decoder = Decoder::default();
        decoder.push(&came);
        let mut session =
            Self { stream, decoder, waiting: VecDeque::new(), calls: 0, sectors: 0, sector_bytes: 0 };
        loop {
            if let Some(Event::Hello { version, sectors, sector_bytes }) = session.next(None)? {
                if version != VERSION {
                    return Err(SessionError::Version(version));
                }
                (session.sectors, session.sector_bytes) = (sectors, sector_bytes);
                return Ok(session);
            }
        }
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Bytes in a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Registers blocks of `block` sectors to be read, each once, in any order; the task's number.
    ///
    /// # Errors
    /// It is refused, or the daemon is gone.
    pub fn read(
        &mut self,
        start: u64,
        sectors: u64,
        block: u64,
        parameter: u64,
    ) -> Result<u64, SessionError> {
        let range = Range { start, sectors };
        self.call(|call| Call::Read { call, range, block, parameter })
    }

    /// Registers blocks to be written; each is asked for when its turn comes ([`Got::Wanted`]).
    ///
    /// # Errors
    /// It is refused, or the daemon is gone.
    pub fn write(
        &mut self,
        start: u64,
        sectors: u64,
        block: u64,
        parameter: u64,
    ) -> Result<u64, SessionError> {
        let range = Range { start, sectors };
        self.call(|call| Call::Write { call, range, block, parameter })
    }

    /// Ends a task; how many of its blocks had not come.
    ///
    /// # Errors
    /// It is refused, or the daemon is gone.
    pub fn abort(&mut self, task: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::Abort { call, task })
    }

    /// Withdraws every block that touches the range; how many.
    ///
    /// # Errors
    /// It is refused, or the daemon is gone.
    pub fn abort_range(&mut self, start: u64, sectors: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::AbortRange { call, range: Range { start, sectors } })
    }

    /// Makes every block that touches the range foreground work; how many.
    ///
    /// # Errors
    /// It is refused, or the daemon is gone.
    pub fn promote(&mut self, start: u64, sectors: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::Promote { call, range: Range { start, sectors } })
    }

    /// Has the session left alone.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn suspend(&mut self) -> Result<(), SessionError> {
        self.call(|call| Call::Suspend { call }).map(drop)
    }

    /// Goes on.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn resume(&mut self) -> Result<(), SessionError> {
        self.call(|call| Call::Resume { call }).map(drop)
    }

    /// Ends the session; how many blocks had not come.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn close(mut self) -> Result<u64, SessionError> {
        self.call(|call| Call::Close { call })
    }

    /// The bytes of a wanted block, all of them.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn give(&mut self, wanted: &Wanted, bytes: &[u8]) -> Result<(), SessionError> {
        let call = Call::Buffer { task: wanted.task, start: wanted.start, bytes: bytes.to_vec() };
        self.send(&call)
    }

    /// They are not at hand: it is asked again later.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn not_now(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        self.send(&Call::NotNow { task: wanted.task, start: wanted.start })
    }

    /// What comes next, waiting so long at most; for ever with `None`. With zero only what is there.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn get(&mut self, timeout: Option<Duration>) -> Result<Got, SessionError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let event = match self.waiting.pop_front() {
                Some(event) => Some(event),
                None => self.next(deadline)?,
            };
            match event {
                Some(Event::Record { task, range, parameter, write, bad, last, bytes }) => {
                    let Range { start, sectors } = range;
                    let last = last && self.waiting.is_empty();
                    return Ok(Got::Record(Record {
                        task,
                        start,
                        sectors,
                        parameter,
                        write,
                        bad,
                        last,
                        bytes,
                    }));
                }
                Some(Event::Wanted { task, range: Range { start, sectors }, parameter }) => {
                    return Ok(Got::Wanted(Wanted { task, start, sectors, parameter }));
                }
                Some(_) => {}
                None => return Ok(Got::Nothing),
            }
        }
    }

    fn send(&mut self, call: &Call) -> Result<(), SessionError> {
        let mut bytes = Vec::new();
        call.encode(&mut bytes);
        self.stream.write_all(&bytes)?;
        Ok(())
    }

    fn call(&mut self, call: impl FnOnce(u32) -> Call) -> Result<u64, SessionError> {
        self.calls = self.calls.wrapping_add(1);
        let number = self.calls;
        self.send(&call(number))?;
        loop {
            match self.next(None)? {
                Some(Event::Answer { call, value }) if call == number => return Ok(value),
                Some(Event::Refused { call, text }) if call == number => {
                    return Err(SessionError::Refused(text));
                }
                Some(event) => self.waiting.push_back(event),
                None => {}
            }
        }
    }

    fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, SessionError> {
        let mut looked = false;
        loop {
            if let Some(event) = self.decoder.take()? {
                return Ok(Some(event));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) && looked {
                return Ok(None);
            }
            looked = true;
            // A timeout of zero is none to the system.
            self.stream.set_read_timeout(left.map(|left| left.max(Duration::from_micros(1))))?;
            let mut bytes = [0; 64 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(SessionError::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => self.decoder.push(bytes.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.kind() == io::ErrorKind::TimedOut => {
                    return Ok(None);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
