//! A session of the calling program.

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

/// The reason for which a call failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The session was not opened.
    #[error(transparent)]
    Open(#[from] ControlError),
    /// A call was refused, and has changed nothing.
    #[error("{0}")]
    Refused(String),
    /// The daemon has ended the connection, and the session with it.
    #[error("the daemon has ended the session: {0}; open another")]
    Gone(#[from] io::Error),
    /// The daemon violates the protocol.
    #[error("the daemon does not keep to the protocol: {0}")]
    Wire(#[from] WireError),
    /// The daemon has another version of the protocol.
    #[error("the daemon speaks version {0} of the protocol, this program {VERSION}")]
    Version(u32),
}

/// A completed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the block's task.
    pub task: u64,
    /// The block's first LBN.
    pub start: u64,
    /// The number of sectors in the block.
    pub sectors: u64,
    /// The parameter that the task was registered with.
    pub parameter: u64,
    /// Whether the block was written rather than read.
    pub write: bool,
    /// The first bad sector, if the medium could not read or write the block. Then there are no bytes.
    pub bad: Option<u64>,
    /// Whether the session has no more blocks outstanding.
    pub last: bool,
    /// The bytes of a block that was read.
    pub bytes: Vec<u8>,
}

/// A block that is about to be written: answer with [`Session::give`] or [`Session::not_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the block's task.
    pub task: u64,
    /// The block's first LBN.
    pub start: u64,
    /// The number of sectors in the block.
    pub sectors: u64,
    /// The parameter that the task was registered with.
    pub parameter: u64,
}

/// The next event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// A record.
    Record(Record),
    /// A request for a block's bytes.
    Wanted(Wanted),
    /// No event within the time-out.
    Nothing,
}

/// A session (FAST'04, section 3): the disk reads and writes the registered blocks in any order.
///
/// The records arrive on a file descriptor that supports `poll` ([`as_fd`](Self::as_fd)). Dropping the session closes
/// it. If a program does not fetch its records, only its own session is suspended.
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
    /// Events that arrived while a call waited for its answer.
    waiting: VecDeque<Event>,
    calls: u32,
    sectors: u64,
    sector_bytes: u32,
}

impl Session {
    /// Opens a session on a disk of the daemon that listens at `socket`, with a priority of 1 to 100.
    ///
    /// # Errors
    /// The daemon cannot be reached, has no such disk, or has another version of the protocol.
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

    /// Returns the number of sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the number of bytes in a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Registers blocks of `block` sectors in the range to be read, each once, in any order. Each record repeats
    /// `parameter`. Returns the task's number.
    ///
    /// # Errors
    /// The call is refused, or the daemon has gone.
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

    /// Registers blocks of `block` sectors to be written. The daemon asks for the bytes of each block before it writes
    /// the block ([`Got::Wanted`]). Returns the task's number.
    ///
    /// # Errors
    /// The call is refused, or the daemon has gone.
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

    /// Ends a task; returns the number of its blocks that were not delivered.
    ///
    /// # Errors
    /// The call is refused, or the daemon has gone.
    pub fn abort(&mut self, task: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::Abort { call, task })
    }

    /// Withdraws every block that overlaps the range; returns their number.
    ///
    /// # Errors
    /// The call is refused, or the daemon has gone.
    pub fn abort_range(&mut self, start: u64, sectors: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::AbortRange { call, range: Range { start, sectors } })
    }

    /// Makes every block that overlaps the range foreground work; returns their number.
    ///
    /// # Errors
    /// The call is refused, or the daemon has gone.
    pub fn promote(&mut self, start: u64, sectors: u64) -> Result<u64, SessionError> {
        self.call(|call| Call::Promote { call, range: Range { start, sectors } })
    }

    /// Suspends the session's tasks.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn suspend(&mut self) -> Result<(), SessionError> {
        self.call(|call| Call::Suspend { call }).map(drop)
    }

    /// Resumes the session's tasks.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn resume(&mut self) -> Result<(), SessionError> {
        self.call(|call| Call::Resume { call }).map(drop)
    }

    /// Ends the session; returns the number of its blocks that were not delivered.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn close(mut self) -> Result<u64, SessionError> {
        self.call(|call| Call::Close { call })
    }

    /// Sends all bytes of a block that the daemon has asked for.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn give(&mut self, wanted: &Wanted, bytes: &[u8]) -> Result<(), SessionError> {
        let call = Call::Buffer { task: wanted.task, start: wanted.start, bytes: bytes.to_vec() };
        self.send(&call)
    }

    /// Tells the daemon that the bytes of a block are not available yet; the daemon asks again later.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn not_now(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        self.send(&Call::NotNow { task: wanted.task, start: wanted.start })
    }

    /// Returns the next event, after waiting at most `timeout` (`None`: no limit; zero: only events that have arrived).
    ///
    /// # Errors
    /// The daemon has gone.
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
        let mut bytes = [0; 64 << 10];
        // Whether the descriptor may already have more bytes.
        let mut more = true;
        loop {
            if let Some(event) = self.decoder.take()? {
                return Ok(Some(event));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) && !more {
                return Ok(None);
            }
            // To the system, a time-out of zero means no time-out.
            self.stream.set_read_timeout(left.map(|left| left.max(Duration::from_micros(1))))?;
            // A read takes no more than the current frame from the descriptor, because `poll` does not report bytes
            // that are already in the decoder.
            let wanted = self.decoder.needs().min(bytes.len());
            match self.stream.read(bytes.get_mut(..wanted).unwrap_or_default()) {
                Ok(0) => return Err(SessionError::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => {
                    self.decoder.push(bytes.get(..n).unwrap_or_default());
                    more = n == wanted;
                }
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
    /// Returns the session's descriptor. It is readable while it has an event for [`get`](Session::get), or a part of
    /// one, and once the daemon has gone. A program that alternates `poll` with one `get` with a time-out of zero
    /// misses no event.
    ///
    /// There is an exception: while a call waits for its answer (any method except `get`, `give` and `not_now`), it
    /// reads events from the descriptor and keeps them, so `poll` no longer reports them. After a call, use `get` with
    /// a time-out of zero until [`Got::Nothing`], and then `poll`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn record(start: u64, bytes: usize) -> Event {
        let range = Range { start, sectors: 8 };
        let bytes = vec![start as u8; bytes];
        Event::Record { task: 1, range, parameter: 0, write: false, bad: None, last: false, bytes }
    }

    fn sent(daemon: &mut UnixStream, events: &[Event]) {
        let mut bytes = Vec::new();
        events.iter().for_each(|event| event.encode(&mut bytes));
        daemon.write_all(&bytes).unwrap();
    }

    /// Returns a session, and the daemon's end of its connection.
    fn pair() -> (Session, UnixStream) {
        let (stream, daemon) = UnixStream::pair().unwrap();
        let (decoder, waiting) = (Decoder::default(), VecDeque::new());
        (Session { stream, decoder, waiting, calls: 0, sectors: 64, sector_bytes: 512 }, daemon)
    }

    /// Reads all bytes that are in the descriptor.
    fn left(session: &Session) -> Vec<u8> {
        let mut stream = session.stream.try_clone().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let ended = stream.read_to_end(&mut bytes);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        bytes
    }

    /// After any number of gets that do not wait, the descriptor contains exactly the records that were not fetched, so
    /// it is readable while there is one.
    #[test]
    fn a_get_takes_one_record_out_of_the_descriptor() {
        let all: Vec<Event> = (0..100).map(|n| record(n, if n == 50 { 70_000 } else { 512 })).collect();
        for taken in [0, 1, 2, 50, 51, 53, 64, 99, 100] {
            let (mut session, mut daemon) = pair();
            sent(&mut daemon, &all);
            for n in 0..taken {
                let got = session.get(NOW).unwrap();
                assert!(matches!(&got, Got::Record(record) if record.start == n as u64), "{n}: {got:?}");
            }
            let mut rest = Vec::new();
            all[taken..].iter().for_each(|event| event.encode(&mut rest));
            assert!(left(&session) == rest, "after {taken}");
        }
    }

    /// A part of a record, cut anywhere, is no event, and is completed by the rest.
    #[test]
    fn a_record_in_parts_is_got_when_it_is_whole() {
        let mut bytes = Vec::new();
        record(7, 40).encode(&mut bytes);
        for cut in 0..bytes.len() {
            let (mut session, mut daemon) = pair();
            daemon.write_all(&bytes[..cut]).unwrap();
            assert_eq!(session.get(NOW).unwrap(), Got::Nothing, "{cut}");
            daemon.write_all(&bytes[cut..]).unwrap();
            assert!(matches!(session.get(NOW).unwrap(), Got::Record(record) if record.start == 7), "{cut}");
        }
    }

    /// Events before the answer are kept for `get`; events after it stay in the descriptor.
    #[test]
    fn a_call_takes_no_more_than_its_answer_out_of_the_descriptor() {
        let (mut session, mut daemon) = pair();
        let answer = Event::Answer { call: 1, value: 9 };
        sent(&mut daemon, &[record(1, 512), record(2, 512), answer, record(3, 512)]);
        assert_eq!(session.abort(5).unwrap(), 9);
        let mut rest = Vec::new();
        record(3, 512).encode(&mut rest);
        assert!(left(&session) == rest);
        let starts = std::iter::from_fn(|| match session.get(NOW).unwrap() {
            Got::Record(record) => Some(record.start),
            _ => None,
        });
        assert_eq!(starts.collect::<Vec<_>>(), [1, 2]);
        drop(daemon);
        assert!(matches!(session.get(NOW), Err(SessionError::Gone(_))));
    }

    /// A record that was the last when it was sent is not the last while kept events follow it.
    #[test]
    fn a_record_is_the_last_only_if_no_other_waits() {
        let (mut session, mut daemon) = pair();
        let mut first = record(1, 512);
        if let Event::Record { last, .. } = &mut first {
            *last = true;
        }
        let mut second = first.clone();
        if let Event::Record { range, .. } = &mut second {
            range.start = 2;
        }
        sent(&mut daemon, &[first, second, Event::Answer { call: 1, value: 9 }]);
        assert_eq!(session.abort(5).unwrap(), 9);
        let got = [(); 2].map(|()| match session.get(NOW).unwrap() {
            Got::Record(record) => (record.start, record.last),
            other => panic!("{other:?}"),
        });
        assert_eq!(got, [(1, false), (2, true)]);
    }
}
