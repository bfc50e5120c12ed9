//! A connection: bytes in, requests out; answers in, bytes out.

mod handshake;

use crate::error::Violation;
use crate::export::Export;
use crate::reply::{self, Reply};
use crate::request::{Command, Header, Request};
use crate::wire::{
    GREETING, OPTION, Put, REQUEST, REQUEST_HEADER, Reader, command, flag, handshake as greeting,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// It cannot be.
    #[default]
    Off,
    /// It can be, if the client wants.
    Offered,
    /// It must be: until then a client learns nothing of the exports.
    Required,
}

/// What one client may keep the server busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are not yet answered. What a client sends beyond is left in the socket.
    pub requests: usize,
    /// Bytes of them: of writes what came, of reads what is to be sent. One request is always let in.
    pub bytes: usize,
    /// Options before an export is chosen.
    pub options: u32,
}

/// 128 requests of 64 MiB in all; Linux's client sends 128.
impl Default for Limits {
    fn default() -> Self {
        Self { requests: 128, bytes: 64 << 20, options: 1000 }
    }
}

/// What a host must know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client waits for a TLS handshake. First send all that is to be sent; then [`Connection::tls_started`], and from
    /// there on everything goes through it.
    StartTls,
    /// The client has chosen an export, by its place in the list.
    Opened(usize),
    /// To be carried out and answered.
    Request(Request),
    /// The client has said goodbye. Close when all is answered and sent.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The greeting is out; the client's flags are to come.
    Greeted,
    Options,
    /// STARTTLS has been granted.
    AwaitsTls,
    /// An export is open.
    Transmission(usize),
    Ended,
}

/// The server's side of one connection, as a state machine: it never touches a socket.
///
/// [`receive`](Self::receive) what the client has sent, while [`is_ready`](Self::is_ready); take events with
/// [`poll`](Self::poll); [`reply`](Self::reply) to requests, in any order; send what is in [`output`](Self::output). All
/// memory is bounded by [`Limits`] and by the size of what is received at once.
///
/// ```
/// use nbd::{Connection, Event, Export, Limits, Reply, Tls};
/// let exports = std::sync::Arc::from([Export::new("", 512)?]);
/// let mut connection = Connection::new(exports, Tls::Off, Limits::default());
/// let greeting = connection.output().len();
/// connection.sent(greeting);
/// let mut client = vec![0, 0, 0, 1];                                            // fixed newstyle, with 124 zeroes
/// client.extend(*b"IHAVEOPT\0\0\0\x01\0\0\0\0");                                // the export without a name
/// client.extend(*b"\x25\x60\x95\x13\0\0\0\0cookie!!\0\0\0\0\0\0\0\0\0\0\0\x04"); // read 4 bytes at 0
/// connection.receive(&client)?;
/// assert_eq!(connection.poll(), Some(Event::Opened(0)));
/// let Some(Event::Request(request)) = connection.poll() else { panic!() };
/// assert_eq!((request.offset, request.length), (0, 4));
/// connection.reply(&request, &Reply::Data(b"abcd"));
/// assert!(connection.output().ends_with(b"\x67\x44\x66\x98\0\0\0\0cookie!!abcd"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    exports: Arc<[Export]>,
    tls: Tls,
    encrypted: bool,
    limits: Limits,
    state: State,
    /// Received and not yet understood.
    input: Vec<u8>,
    /// Bytes to pass over.
    skip: u64,
    output: Vec<u8>,
    sent: usize,
    events: VecDeque<Event>,
    /// The client needs no 124 zeroes.
    no_zeroes: bool,
    /// It has asked for structured replies.
    structured: bool,
    /// The export for which it has asked for `base:allocation`.
    allocation_of: Option<usize>,
    options: u32,
    requests: usize,
    bytes: usize,
    paused: bool,
    /// Why no export may be chosen.
    closed: Option<String>,
}

impl Connection {
    /// Greets a client who is to choose among `exports`.
    pub fn new(exports: Arc<[Export]>, tls: Tls, limits: Limits) -> Self {
        let mut output = Vec::new();
        output.put_u64(GREETING);
        output.put_u64(OPTION);
        output.put_u16(greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES);
        Self {
            exports,
            tls,
            encrypted: false,
            limits,
            state: State::Greeted,
            input: Vec::new(),
            skip: 0,
            output,
            sent: 0,
            events: VecDeque::new(),
            no_zeroes: false,
            structured: false,
            allocation_of: None,
            options: 0,
            requests: 0,
            bytes: 0,
            paused: false,
            closed: None,
        }
    }

    /// Takes in what the client has sent, as it comes from the socket.
    ///
    /// # Errors
    /// The client does not keep to the protocol: close the connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.state == State::AwaitsTls && !bytes.is_empty() {
            return Err(Violation::BeforeTls { bytes: bytes.len() });
        }
        if self.state == State::Ended {
            return Ok(());
        }
        self.input.extend_from_slice(bytes);
        self.go_on()
    }

    /// Whether to go on reading from the socket: not while as much waits as may, or is to be sent.
    pub fn is_ready(&self) -> bool {
        self.has_room() && self.output().len() <= self.limits.bytes
    }

    fn has_room(&self) -> bool {
        let some = self.requests < self.limits.requests && self.bytes < self.limits.bytes;
        !self.is_paused() && (self.requests == 0 || some)
    }

    /// Lets no further request in, or goes on letting them in: for a host whose clients together have more than it can
    /// hold. A client that is choosing an export is not paused.
    ///
    /// # Errors
    /// What waited was looked at: as [`receive`](Self::receive).
    pub fn pause(&mut self, paused: bool) -> Result<(), Violation> {
        let resumed = self.paused && !paused;
        self.paused = paused;
        if resumed { self.go_on() } else { Ok(()) }
    }

    /// Lets no export be chosen from here on, and says why; or lets one be. Who has chosen keeps it.
    pub fn set_closed(&mut self, why: Option<String>) {
        self.closed = why;
    }

    fn is_paused(&self) -> bool {
        self.paused && matches!(self.state, State::Transmission(_))
    }

    /// Bytes held for the client: received, of requests not answered, or to be sent.
    pub fn memory(&self) -> usize {
        self.input.len() + self.bytes + self.output().len()
    }

    /// Whether something that was received waits: for the rest of it, or for room.
    pub fn is_waiting(&self) -> bool {
        !self.input.is_empty()
    }

    /// What happens next.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`poll`](Self::poll) has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// So many bytes of it are sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes).min(self.output.len());
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Takes all that is to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        let mut output = std::mem::take(&mut self.output);
        output.drain(..std::mem::take(&mut self.sent));
        output
    }

    /// The TLS handshake that [`Event::StartTls`] asked for is done.
    pub fn tls_started(&mut self) {
        if self.state == State::AwaitsTls {
            self.state = State::Options;
            self.encrypted = true;
        }
    }

    /// Whether the client has asked for encryption, and got it.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The export that the client has chosen.
    pub fn export(&self) -> Option<&Export> {
        match self.state {
            State::Transmission(at) => self.exports.get(at),
            _ => None,
        }
    }

    /// Whether an export is chosen; after that a client may be silent for as long as it likes.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Transmission(_) | State::Ended)
    }

    /// Requests that are not answered.
    pub fn outstanding(&self) -> usize {
        self.requests
    }

    /// Answers a request, once.
    ///
    /// # Errors
    /// With room for it, the next thing that the client has sent was looked at: as [`receive`](Self::receive).
    pub fn reply(&mut self, request: &Request, reply: &Reply<'_>) -> Result<(), Violation> {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(weight(request));
        // Not only gone through, but gone: else what is sent slowly would be kept for ever.
        if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        reply::write(&mut self.output, request, reply);
        self.go_on()
    }

    /// Understands as much of the input as there is room for.
    fn go_on(&mut self) -> Result<(), Violation> {
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        let result = self.understand(&mut rest);
        if self.state == State::Ended {
            return result;
        }
        let understood = input.len() - rest.len();
        self.input = input;
        self.input.drain(..understood);
        result
    }

    fn understand(&mut self, rest: &mut &[u8]) -> Result<(), Violation> {
        loop {
            let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(rest.len());
            self.skip -= passed as u64;
            *rest = &rest[passed..];
            if self.skip > 0 {
                return Ok(());
            }
            let mut reader = Reader(rest);
            let understood = match self.state {
                State::Greeted => self.client_flags(&mut reader)?,
                State::Options => self.option(&mut reader)?,
                State::Transmission(at) if self.has_room() => self.request(at, &mut reader)?,
                State::Transmission(_) | State::Ended => return Ok(()),
                State::AwaitsTls if rest.is_empty() => return Ok(()),
                State::AwaitsTls => return Err(Violation::BeforeTls { bytes: rest.len() }),
            };
            if understood.is_none() {
                return Ok(());
            }
            *rest = reader.0;
        }
    }

    /// A request; `None` if it is not all there yet.
    fn request(&mut self, at: usize, reader: &mut Reader<'_>) -> Result<Option<()>, Violation> {
        if reader.0.len() < REQUEST_HEADER {
            return Ok(None);
        }
        let Some(magic) = reader.u32() else { return Ok(None) };
        if magic != REQUEST {
            let (found, expected) = (u64::from(magic), u64::from(REQUEST));
            return Err(Violation::Magic { what: "a request", found, expected });
        }
        let Some((header, export)) = Header::read(reader).zip(self.exports.get(at)) else { return Ok(None) };
        if header.kind == command::DISCONNECT {
            self.state = State::Ended;
            self.events.push_back(Event::Ended);
            return Ok(Some(()));
        }
        let (structured, cookie) = (self.structured, header.cookie);
        match header.check(export, structured, self.allocation_of == Some(at)) {
            Ok(command) => {
                let Some(data) = reader.take(header.payload() as usize) else { return Ok(None) };
                let fua = header.flags & flag::FUA != 0;
                let Header { offset, length, .. } = header;
                let request =
                    Request { cookie, structured, command, fua, offset, length, data: data.to_vec() };
                self.requests += 1;
                self.bytes += weight(&request);
                self.events.push_back(Event::Request(request));
            }
            Err((errno, message)) => {
                self.skip = u64::from(header.payload());
                reply::failed(&mut self.output, structured, cookie, (errno, None), message);
            }
        }
        Ok(Some(()))
    }
}

/// What a request holds in memory, or will. A host may have taken a write's bytes out of it.
fn weight(request: &Request) -> usize {
    match request.command {
        Command::Read | Command::Write => request.length as usize,
        _ => 0,
    }
}
