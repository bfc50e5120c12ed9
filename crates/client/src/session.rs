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
/// Its records arrive on a file descriptor, which `poll` works on ([`as_fd`](Self::as_fd)). Dropping the session closes it. A
/// program that does not fetch its records suspends its own session and nobody else's.
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
        let mut bytes = [0; 64 << 10];
        // Whether more may be there at once.
        let mut more = true;
        loop {
            if let Some(event) = self.decoder.take()? {
                return Ok(Some(event));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) && !more {
                return Ok(None);
            }
            // A timeout of zero is none to the system.
            self.stream.set_read_timeout(left.map(|left| left.max(Duration::from_micros(1))))?;
            // No more than the frame that is under way: what is taken out of the descriptor and kept here, `poll` does not
            // tell of.
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
    /// Readable while there is something for [`get`](Session::get), or a part of it, that has not been taken; and when the
    /// daemon is gone. `poll` and one `get` with a time-out of zero, again and again, miss nothing.
    ///
    /// But for what comes while a call waits for its answer (any method but `get`, `give` and `not_now`): that is taken out
    /// of the descriptor, which does not tell of it any more. So after a call `get` with a time-out of zero until
    /// [`Got::Nothing`], then `poll`.
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

    /// A session, and the daemon's end of it.
    fn pair() -> (Session, UnixStream) {
        let (stream, daemon) = UnixStream::pair().unwrap();
        let (decoder, waiting) = (Decoder::default(), VecDeque::new());
        (Session { stream, decoder, waiting, calls: 0, sectors: 64, sector_bytes: 512 }, daemon)
    }

    /// What is in the descriptor, which is taken out.
    fn left(session: &Session) -> Vec<u8> {
        let mut stream = session.stream.try_clone().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let ended = stream.read_to_end(&mut bytes);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        bytes
    }

    /// After any number of gets that wait for nothing, the descriptor holds just the records that have not been taken: it is
    /// readable as long as there is one.
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

    /// A part of a record is nothing yet, wherever it is cut off; nor is it lost.
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

    /// What came before the answer waits for `get`, what came after it in the descriptor.
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
}
