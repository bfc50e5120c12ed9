//! A connection: it turns bytes of the client into requests, and answers into bytes for the client.

mod handshake;
mod large;

use crate::error::{Errno, Violation};
use crate::export::Export;
use crate::output::Output;
use crate::reply::{self, Reply};
use crate::request::{Command, Contexts, Header, Request};
use crate::wire::{
    GREETING, OPTION, Put, REQUEST, REQUEST_HEADER_BYTES, Reader, command, flag, handshake as greeting,
};
use large::Large;
use std::collections::VecDeque;
use std::sync::Arc;

/// Whether a connection can be encrypted, or must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// TLS is not available.
    #[default]
    Off,
    /// TLS is available to a client that asks for it.
    Offered,
    /// TLS is required: a client without it learns nothing of the exports.
    Required,
}

/// The bytes of output beyond which the next option is not answered, so that a client that sends options and reads no
/// replies does not fill the memory.
const OPTION_OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The largest read that is sent in one piece whenever the client asks for that, as the specification requires.
const UNFRAGMENTED_BYTES_MAX: u32 = 64 << 10;

/// Bounds on one client's use of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most requests that are not answered. The bytes of further requests stay in the socket.
    pub requests: usize,
    /// The most bytes held for the client, from the first byte of a request until the last byte of its answer is sent.
    /// A read or write counts with its whole length from the admission of its header on. A request that is larger is
    /// split into pieces, when no other bytes are held for the client.
    pub bytes: usize,
    /// The most options that a client may send before it chooses an export.
    pub options: u32,
}

/// 128 requests, which is the number that Linux's client sends, of 64 MiB in all.
impl Default for Limits {
    fn default() -> Self {
        Self { requests: 128, bytes: 64 << 20, options: 1000 }
    }
}

/// An event for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client waits for a TLS handshake. The host sends all output and then calls [`Connection::tls_started`]; from
    /// there on all bytes go through TLS.
    StartTls,
    /// The client has chosen an export, by its index in the list.
    Opened(usize),
    /// A request to carry out and answer.
    Request(Request),
    /// The client has said goodbye. The host closes the connection when all requests are answered and all output is
    /// sent.
    Ended,
    /// A read that was split into pieces has failed after its first bytes were sent. Without structured replies the
    /// protocol cannot report an error then, so the host closes the connection.
    Unfinished {
        /// The first byte that the client has not received.
        offset: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The greeting is sent, and the client's flags are expected.
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
/// The host passes the client's bytes to [`receive`](Self::receive) while [`is_ready`](Self::is_ready), takes events
/// with [`poll`](Self::poll), and answers requests with [`reply`](Self::reply), in any order. It sends the bytes of
/// [`output`](Self::output) until there are none, and reports them with [`sent`](Self::sent). All memory is bounded by
/// [`Limits`] and by the number of bytes received at once. A host with many clients bounds their sum by
/// [`reserve`](Self::reserve) and [`grant`](Self::grant). A request that has no room as a whole is split into pieces,
/// and the host gets each piece as a request.
///
/// ```
/// use nbd::{Connection, Event, Export, Limits, Reply, Tls};
/// let exports = std::sync::Arc::from([Export::new("", 512)?]);
/// let mut connection = Connection::new(exports, Tls::Off, Limits::default());
/// let greeting = connection.output().len();
/// connection.sent(greeting)?;
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
    /// Received bytes; those before `understood` are parsed.
    input: Vec<u8>,
    understood: usize,
    /// An admitted write whose data are incomplete.
    writing: Option<Request>,
    /// A request that is being split into pieces. The client has no other request at that time.
    large: Option<Large>,
    /// Input bytes to skip.
    skip: u64,
    output: Output,
    events: VecDeque<Event>,
    /// Whether the client allows the server to leave out the 124 zeroes after an export's flags.
    no_zeroes: bool,
    /// Whether the client has asked for structured replies.
    structured: bool,
    /// The export for which the client has chosen metadata contexts, and the contexts.
    contexts_of: Option<(usize, Contexts)>,
    options: u32,
    /// The number of admitted requests without an answer, and the bytes that are claimed for these requests.
    requests: usize,
    claimed: usize,
    /// The bytes up to which requests are admitted without a grant.
    reserve: usize,
    /// The size of the next request, while it waits for room.
    waits: Option<usize>,
    /// Whether the next request is admitted beyond the reserve.
    granted: bool,
    /// Whether the next request is to be split into pieces instead.
    in_pieces: bool,
    /// The reason why no export may be chosen at present, if that is so.
    closed: Option<String>,
    answered: Answered,
}

/// The numbers of answered requests. A request that was split into pieces counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Requests answered without error.
    pub well: u64,
    /// Requests answered with an error.
    pub failed: u64,
}

impl Answered {
    fn count(&mut self, well: bool) {
        *if well { &mut self.well } else { &mut self.failed } += 1;
    }
}

impl Connection {
    /// Makes a connection whose client may choose among `exports`. The greeting is the first output.
    pub fn new(exports: Arc<[Export]>, tls: Tls, limits: Limits) -> Self {
        let mut output = Output::default();
        output.small().put_u64(GREETING);
        output.small().put_u64(OPTION);
        output.small().put_u16(greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES);
        Self {
            exports,
            tls,
            encrypted: false,
            limits,
            state: State::Greeted,
            input: Vec::new(),
            understood: 0,
            writing: None,
            large: None,
            skip: 0,
            output,
            events: VecDeque::new(),
            no_zeroes: false,
            structured: false,
            contexts_of: None,
            options: 0,
            requests: 0,
            claimed: 0,
            reserve: usize::MAX,
            waits: None,
            granted: false,
            in_pieces: false,
            closed: None,
            answered: Answered::default(),
        }
    }

    /// Handles bytes from the socket.
    ///
    /// # Errors
    /// The client violates the protocol, and the host has to close the connection. No further bytes are parsed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.state == State::AwaitsTls && !bytes.is_empty() {
            return self.end_if_violated(Err(Violation::BeforeTls { bytes: bytes.len() }));
        }
        if self.state == State::Ended {
            return Ok(());
        }
        if self.is_waiting() {
            self.input.extend_from_slice(bytes);
            return self.go_on();
        }
        let mut rest = bytes;
        let result = self.understand(&mut rest);
        if self.state != State::Ended {
            self.input.extend_from_slice(rest);
        }
        self.end_if_violated(result)
    }

    /// Returns whether the host should read from the socket: not while the limits are reached.
    pub fn is_ready(&self) -> bool {
        match self.state {
            State::Greeted | State::Options => self.output.len() <= OPTION_OUTPUT_BYTES_MAX,
            State::AwaitsTls => true,
            State::Transmission(_) => {
                let is_free = self.waits.is_none() && self.large.is_none() && self.has_own_room(0);
                self.writing.is_some() || self.skip > 0 || is_free
            }
            State::Ended => false,
        }
    }

    /// Returns whether the client's own limits leave room for a request of this size.
    fn has_own_room(&self, bytes: usize) -> bool {
        let held = self.held();
        self.requests < self.limits.requests
            && held < self.limits.bytes
            && held.saturating_add(bytes) <= self.limits.bytes
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.has_own_room(bytes) && (self.granted || self.held().saturating_add(bytes) <= self.reserve)
    }

    /// Returns whether a request of this size has to be split into pieces now. No other bytes are held then, so it
    /// would not get more room by waiting.
    fn goes_in_pieces(&self, bytes: usize) -> bool {
        let alone = self.requests == 0 && self.held() == 0;
        alone && (self.in_pieces || bytes > self.limits.bytes)
    }

    /// Returns the bytes of admitted requests and of unsent answers, which [`Limits`] bound.
    pub fn held(&self) -> usize {
        self.claimed + self.output.len() + self.large.as_ref().map_or(0, Large::held)
    }

    /// Makes requests that would exceed this number of held bytes wait for a [`grant`](Self::grant). For a host whose
    /// clients together could exceed its memory; without a reserve only each client's own limits count.
    pub fn reserve(&mut self, bytes: usize) {
        self.reserve = bytes;
    }

    /// Returns the size of the next request, if a [`grant`](Self::grant) is all that it waits for.
    pub fn wanted(&self) -> Option<usize> {
        self.waits.filter(|bytes| self.has_own_room(*bytes) && !self.has_room(*bytes))
    }

    /// Admits the waiting request although it exceeds the reserve.
    ///
    /// # Errors
    /// A request after it, which is parsed then, violates the protocol, as in [`receive`](Self::receive).
    pub fn grant(&mut self) -> Result<(), Violation> {
        self.granted = self.wanted().is_some();
        self.go_on()
    }

    /// Allows the waiting request to be split into pieces within the reserve, once no other bytes are held for the
    /// client. Before that, the request may still be admitted as a whole.
    ///
    /// # Errors
    /// The errors of [`grant`](Self::grant).
    pub fn go_in_pieces(&mut self) -> Result<(), Violation> {
        self.in_pieces = self.wanted().is_some();
        self.go_on()
    }

    /// Forbids the client to choose an export from here on, with the reason; `None` allows it again. An export already
    /// chosen stays open.
    pub fn set_closed(&mut self, why: Option<String>) {
        self.closed = why;
    }

    /// Replaces the exports that the client may choose among. An export already chosen stays open.
    pub fn set_exports(&mut self, exports: Arc<[Export]>) {
        if self.is_open() || self.exports == exports {
            return;
        }
        // Contexts belong to an export's index, at which another export may be now.
        self.contexts_of = self
            .contexts_of
            .filter(|(of, _)| exports.get(*of).is_some_and(|e| self.exports.get(*of) == Some(e)));
        self.exports = exports;
    }

    /// Returns the number of bytes in memory: those [`held`](Self::held), and received bytes that are not parsed, at
    /// most the number received at once.
    pub fn memory(&self) -> usize {
        self.input.len() + self.held()
    }

    /// Returns whether received bytes wait for the rest of a message, or for room.
    pub fn is_waiting(&self) -> bool {
        !self.input.is_empty()
    }

    /// Returns whether the waiting bytes end with a goodbye. A client that has said goodbye may close its sending side
    /// and still wait for answers.
    pub fn ends_with_goodbye(&self) -> bool {
        crate::ends_with_goodbye(&self.input)
    }

    /// Returns the bytes of a write's data that are still missing.
    pub fn missing(&self) -> usize {
        self.writing.as_ref().map_or(0, |write| write.length as usize - write.data.len())
    }

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns whether [`poll`](Self::poll) has an event.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next bytes to be sent; empty if there are none. More bytes may follow after them.
    pub fn output(&self) -> &[u8] {
        self.output.next()
    }

    /// Records that the next bytes of the output were sent, beginning with those that
    /// [`take_output`](Self::take_output) has returned.
    ///
    /// # Errors
    /// Input that is parsed now, because there is room, violates the protocol, as in [`receive`](Self::receive).
    pub fn sent(&mut self, bytes: usize) -> Result<(), Violation> {
        self.output.sent(bytes);
        self.go_on()
    }

    /// Takes the bytes that [`output`](Self::output) returns. They count as held until they are reported as
    /// [`sent`](Self::sent).
    pub fn take_output(&mut self) -> Vec<u8> {
        self.output.take()
    }

    /// Records that the TLS handshake of [`Event::StartTls`] is done.
    pub fn tls_started(&mut self) {
        if self.state == State::AwaitsTls {
            self.state = State::Options;
            self.encrypted = true;
        }
    }

    /// Returns whether TLS has started.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Returns the export that the client has chosen, while it is open.
    pub fn export(&self) -> Option<&Export> {
        match self.state {
            State::Transmission(at) => self.exports.get(at),
            _ => None,
        }
    }

    /// Returns whether the client has chosen an export, after which it may be silent for any time.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Transmission(_) | State::Ended)
    }

    /// Returns the number of requests that are not answered.
    pub fn outstanding(&self) -> usize {
        self.requests
    }

    /// Returns how many requests were answered since the last call.
    pub fn take_answered(&mut self) -> Answered {
        std::mem::take(&mut self.answered)
    }

    /// Answers a request. Each request is answered once.
    ///
    /// # Errors
    /// Input that is parsed now, because there is room, violates the protocol, as in [`receive`](Self::receive).
    pub fn reply(&mut self, request: &Request, reply: &Reply<'_>) -> Result<(), Violation> {
        self.release(request);
        if self.large.is_some() {
            return self.piece_answered(request, reply);
        }
        self.answered.count(!matches!(reply, Reply::Failed { .. }));
        reply::write(self.output.small(), request, reply);
        self.go_on()
    }

    /// Answers a read with its bytes, without copying them if they are many. Other requests get the answer of
    /// [`Reply::Data`].
    ///
    /// # Errors
    /// The errors of [`reply`](Self::reply).
    pub fn reply_data(&mut self, request: &Request, data: Vec<u8>) -> Result<(), Violation> {
        self.release(request);
        if self.large.is_some() {
            return self.piece_read(request, data);
        }
        self.answered.count(true);
        if reply::data_header(self.output.small(), request, data.len()) {
            self.output.data(data);
        } else {
            reply::write(self.output.small(), request, &Reply::Data(&data));
        }
        self.go_on()
    }

    /// Releases the room claimed for a request. Its answer takes room instead.
    fn release(&mut self, request: &Request) {
        self.requests = self.requests.saturating_sub(1);
        self.claimed = self.claimed.saturating_sub(request.weight());
    }

    /// Parses the input as far as there is room.
    fn go_on(&mut self) -> Result<(), Violation> {
        self.ask_for_pieces();
        let waits = |bytes| !self.has_room(bytes) && !self.goes_in_pieces(bytes);
        if self.input.is_empty() || self.waits.is_some_and(waits) {
            return Ok(());
        }
        let input = std::mem::take(&mut self.input);
        let mut rest = input.get(self.understood..).unwrap_or_default();
        let result = self.understand(&mut rest);
        let left = rest.len();
        if self.state == State::Ended {
            self.understood = 0;
            return self.end_if_violated(result);
        }
        self.input = input;
        self.understood = self.input.len() - left;
        if self.understood > self.input.len() / 2 {
            self.input.drain(..std::mem::take(&mut self.understood));
        }
        self.end_if_violated(result)
    }

    /// If the client has violated the protocol, ends the parsing of its bytes.
    fn end_if_violated(&mut self, result: Result<(), Violation>) -> Result<(), Violation> {
        if result.is_err() {
            self.state = State::Ended;
            (self.input, self.understood) = (Vec::new(), 0);
            self.writing = None;
        }
        result
    }

    fn understand(&mut self, rest: &mut &[u8]) -> Result<(), Violation> {
        self.waits = None;
        loop {
            let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(rest.len());
            self.skip -= passed as u64;
            *rest = &rest[passed..];
            if self.skip > 0 || self.fill_write(rest) {
                return Ok(());
            }
            if self.large.is_some() {
                self.ask_for_pieces();
                if self.writing.is_some() {
                    continue;
                }
                return Ok(());
            }
            let mut reader = Reader(rest);
            let understood = match self.state {
                State::Greeted => self.client_flags(&mut reader)?,
                State::Options if self.output.len() > OPTION_OUTPUT_BYTES_MAX => return Ok(()),
                State::Options => self.option(&mut reader)?,
                State::Transmission(at) => self.request(at, &mut reader)?,
                State::Ended => return Ok(()),
                State::AwaitsTls if rest.is_empty() => return Ok(()),
                State::AwaitsTls => return Err(Violation::BeforeTls { bytes: rest.len() }),
            };
            if understood.is_none() {
                return Ok(());
            }
            *rest = reader.0;
        }
    }

    /// Adds received bytes to the data of the admitted write. Returns whether more are missing.
    fn fill_write(&mut self, rest: &mut &[u8]) -> bool {
        let missing = self.missing();
        let Some(write) = &mut self.writing else { return false };
        let (data, behind) = rest.split_at(missing.min(rest.len()));
        write.data.extend_from_slice(data);
        *rest = behind;
        if data.len() < missing {
            return true;
        }
        self.events.extend(self.writing.take().map(Event::Request));
        false
    }

    fn let_in(&mut self, request: Request) {
        self.requests += 1;
        self.claimed += request.weight();
        if request.command == Command::Write {
            self.begin_write(request);
        } else {
            self.events.push_back(Event::Request(request));
        }
    }

    fn begin_write(&mut self, mut request: Request) {
        request.data = Vec::with_capacity(request.length as usize);
        self.writing = Some(request);
    }

    /// Admits a request that has no room as a whole, when no other bytes are held for the client.
    fn let_in_alone(&mut self, mut request: Request, flags: u16, minimum: u32) {
        let piece = self.piece_bytes(minimum);
        match request.command {
            // A shorter status is allowed: the client asks again for the rest.
            Command::BlockStatus { .. } => {
                request.length = request.length.min(u32::try_from(piece).unwrap_or(u32::MAX));
                self.let_in(request);
            }
            Command::Read if flags & flag::DF != 0 && request.length <= UNFRAGMENTED_BYTES_MAX => {
                self.let_in(request);
            }
            Command::Read if flags & flag::DF != 0 => {
                let error = (Errno::Overflow, None);
                let message = "there is no room to send that many bytes in one piece; ask for 64 KiB at most";
                reply::failed(self.output.small(), true, request.cookie, error, message);
            }
            _ => self.begin_large(request, piece),
        }
    }

    /// Parses a request. Returns `None` if its header is incomplete, or if it has no room.
    fn request(&mut self, at: usize, reader: &mut Reader<'_>) -> Result<Option<()>, Violation> {
        if reader.0.len() < REQUEST_HEADER_BYTES {
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
        let chosen = self.contexts_of.filter(|(of, _)| *of == at);
        let contexts = chosen.map(|(_, contexts)| contexts).unwrap_or_default();
        let checked = header.check(export, structured, contexts);
        let fua = header.flags & flag::FUA != 0;
        let minimum = export.block_sizes().minimum;
        let Header { offset, length, .. } = header;
        let request = checked.map(|command| Request {
            cookie,
            structured,
            contexts,
            command,
            fua,
            offset,
            length,
            data: Vec::new(),
        });
        let weight = request.as_ref().map_or(0, Request::weight);
        let whole = self.has_room(weight);
        if !whole && !self.goes_in_pieces(weight) {
            self.waits = Some(weight);
            return Ok(None);
        }
        (self.granted, self.in_pieces) = (false, false);
        match request {
            Ok(request) if !whole => self.let_in_alone(request, header.flags, minimum),
            Ok(request) => self.let_in(request),
            Err((errno, message)) => {
                self.skip = u64::from(header.payload());
                reply::failed(self.output.small(), structured, cookie, (errno, None), message);
            }
        }
        Ok(Some(()))
    }
}
