//! A client's socket, and the operations in flight on it.

use crate::tls::{Session, Tls};
use device::{Ring, Snapshot, Token, Work, is_closed, watch_close};
use nbd::{Connection, Violation};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use units::Instant;

/// The least and the most bytes of one receive; it exceeds the least only while the data of a large write arrive.
const RECEIVE_BYTES: usize = 64 << 10;
const RECEIVE_BYTES_MAX: usize = 256 << 10;

/// The most unread bytes that are searched for a disconnect request.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// The reasons to end a client although its socket works.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

#[derive(Debug)]
pub(crate) struct Client {
    pub connection: Connection,
    /// The TLS session. Once it exists, all bytes go through it.
    tls: Option<Session>,
    /// Bytes to send unencrypted, before anything else.
    outbox: Vec<u8>,
    /// Whether this side has announced the end of its TLS stream.
    closed: bool,
    socket: Arc<OwnedFd>,
    /// The client's address or user, for the log.
    pub from: String,
    /// The client's slot. A client without one only gets the answer that no slot is free.
    pub slot: Option<u64>,
    receiving: Option<Token>,
    /// An operation that reports when the client hangs up while nothing is received.
    watching: Option<Token>,
    /// A descriptor that reports the end of the connection, used once the client has ended its sending side: the client
    /// may still read answers.
    half: Option<Arc<OwnedFd>>,
    /// Received bytes of the TLS handshake that wait to be handled.
    handshake: Option<Vec<u8>>,
    /// A buffer for the next receive: clearing a new one costs more than most requests.
    spare: Vec<u8>,
    /// The send operation in flight, with the bytes in its buffer.
    sending: Option<(Token, usize)>,
    /// When the bytes in flight were offered, or when the client last took some of them.
    offered: Instant,
    /// Whether the log already says that the client takes no answers.
    pub is_reported_slow: bool,
    /// Whether the client has sent anything.
    pub heard: bool,
    /// The number of the client's requests that wait for the device or are at it.
    pub asked: usize,
    /// Whether no further request is received, because the client has said goodbye or the server stops. Requests in
    /// flight are still answered.
    pub ending: bool,
    /// Whether the client's encryption has failed: the client gets the TLS alert, and no answer.
    pub broken: bool,
    /// Whether the client has chosen an export.
    pub opened: bool,
    /// Whether the chosen export is the background export, or a snapshot.
    pub background: bool,
    /// The number of the chosen snapshot, if the export is one.
    pub snapshot: Option<u64>,
    /// The snapshots that the connection offers after the other exports.
    pub snapshots: Arc<[Snapshot]>,
    /// Whether the connection is dead in both directions.
    pub gone: bool,
    /// When the client connected.
    pub since: Instant,
}

impl Client {
    pub fn new(connection: Connection, socket: OwnedFd, from: String, now: Instant) -> Self {
        Self {
            connection,
            tls: None,
            outbox: Vec::new(),
            closed: false,
            socket: Arc::new(socket),
            from,
            slot: None,
            receiving: None,
            watching: None,
            half: None,
            handshake: None,
            spare: Vec::new(),
            sending: None,
            offered: now,
            is_reported_slow: false,
            heard: false,
            asked: 0,
            ending: false,
            broken: false,
            opened: false,
            background: false,
            snapshot: None,
            snapshots: Arc::default(),
            gone: false,
            since: now,
        }
    }

    /// Sends pending bytes, receives if there is room, and otherwise watches for the client's hang-up.
    pub fn go_on(&mut self, ring: &mut Ring, now: Instant) -> io::Result<Result<(), ClientError>> {
        if self.gone {
            return Ok(Ok(()));
        }
        if self.sending.is_none() {
            let bytes = match self.outgoing() {
                Ok(bytes) => bytes,
                Err(error) => return Ok(Err(error)),
            };
            if !bytes.is_empty() {
                self.offered = now;
                self.send(ring, bytes, 0)?;
            }
        }
        if self.receiving.is_some() || self.handshake.is_some() {
            return Ok(Ok(()));
        }
        if self.connection.is_ready() && !self.ending {
            let mut buffer = std::mem::take(&mut self.spare);
            buffer.resize(self.connection.missing().clamp(RECEIVE_BYTES, RECEIVE_BYTES_MAX), 0);
            let work = Work::Receive(Arc::clone(&self.socket), buffer);
            self.receiving = Some(ring.start(work)?);
        } else if self.watching.is_none() {
            let work = match &self.half {
                None => Work::HangUp(Arc::clone(&self.socket)),
                Some(epoll) => Work::Close(Arc::clone(epoll)),
            };
            self.watching = Some(ring.start(work)?);
        }
        Ok(Ok(()))
    }

    /// Handles the end of the operation that watches for the client's hang-up, and returns whether the client is gone.
    ///
    /// Over TCP, a client that has closed its socket looks like a client that has ended only its sending side. A client
    /// that has sent a disconnect request is taken for the latter, and gets its answers; if it is gone, sending to it
    /// or a keep-alive probe fails.
    pub fn hung_up(&mut self, result: &io::Result<usize>) -> bool {
        if is_closed(result) || self.half.is_some() {
            return true;
        }
        match watch_close(&self.socket) {
            Ok(epoll) => self.half = Some(Arc::new(epoll)),
            // Without a descriptor the end of the connection would not be noticed, so the client counts as gone.
            Err(_) => return true,
        }
        // While a receive is in flight, its result reports the client's end.
        self.receiving.is_none() && !self.ending && !self.may_have_said_goodbye()
    }

    /// Returns whether the client's last bytes, some of which may not be read yet, may be a disconnect request.
    /// Encrypted bytes, or more than [`UNREAD_BYTES_MAX`], are not searched, and the answer is yes: reading them will
    /// tell.
    fn may_have_said_goodbye(&self) -> bool {
        let unread = rustix::io::ioctl_fionread(&*self.socket).map_or(0, |bytes| bytes as usize);
        if unread == 0 {
            return self.connection.ends_with_goodbye();
        }
        if self.tls.is_some() || unread > UNREAD_BYTES_MAX {
            return true;
        }
        let mut bytes = vec![0; unread];
        rustix::net::recv(&*self.socket, &mut bytes[..], rustix::net::RecvFlags::PEEK)
            .is_ok_and(|(read, _)| nbd::ends_with_goodbye(&bytes[..read]))
    }

    /// Returns the bytes to send next.
    fn outgoing(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut out = std::mem::take(&mut self.outbox);
        if self.broken {
            return Ok(out);
        }
        let Some(tls) = &mut self.tls else {
            return Ok(if out.is_empty() { self.connection.take_output() } else { out });
        };
        let sent = match tls.send(self.connection.output(), &mut out) {
            Ok(plain) => {
                self.connection.sent(plain)?;
                let last = self.ending && self.connection.output().is_empty() && self.asked == 0;
                if last && !std::mem::replace(&mut self.closed, true) { tls.close(&mut out) } else { Ok(()) }
            }
            Err(error) => Err(error),
        };
        // Writing to memory fails only if the TLS session is dead.
        self.gone |= sent.is_err();
        Ok(out)
    }

    /// Encrypts everything from here on, except the answer after which TLS begins.
    pub fn start_tls(&mut self, tls: &Tls) -> Result<(), ClientError> {
        while !self.connection.output().is_empty() {
            let some = self.connection.take_output();
            self.connection.sent(some.len())?;
            self.outbox.extend(some);
        }
        self.tls = Some(Session::new(tls)?);
        Ok(())
    }

    fn send(&mut self, ring: &mut Ring, bytes: Vec<u8>, from: usize) -> io::Result<()> {
        let all = bytes.len();
        let token = ring.start(Work::Send(Arc::clone(&self.socket), bytes, from))?;
        self.sending = Some((token, all));
        Ok(())
    }

    /// Records that the bytes before `from` were sent, and sends the rest. The buffer is freed when all of it is sent.
    pub fn sent(
        &mut self,
        ring: &mut Ring,
        bytes: Vec<u8>,
        from: usize,
        now: Instant,
    ) -> io::Result<Result<(), ClientError>> {
        (self.offered, self.is_reported_slow) = (now, false);
        if from < bytes.len() {
            return if self.gone { Ok(Ok(())) } else { self.send(ring, bytes, from).map(Ok) };
        }
        let all = bytes.len();
        drop(bytes);
        Ok(if self.tls.is_some() { Ok(()) } else { self.connection.sent(all).map_err(ClientError::from) })
    }

    /// Returns whether the client's TLS handshake is going on.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(Session::is_handshaking)
    }

    /// Keeps received bytes of the handshake. Nothing more is received until they are taken.
    pub fn keep_handshake(&mut self, bytes: Vec<u8>) {
        self.handshake = Some(bytes);
    }

    /// Returns the bytes that [`keep_handshake`](Self::keep_handshake) kept.
    pub fn take_handshake(&mut self) -> Option<Vec<u8>> {
        self.handshake.take()
    }

    pub fn received(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.heard = true;
        let Some(tls) = &mut self.tls else { return Ok(self.connection.receive(bytes)?) };
        let received = tls.receive(bytes);
        if received.is_err() {
            // Send the TLS alert to the client if possible.
            let _ = tls.send(&[], &mut self.outbox);
        }
        let received = received?;
        if !tls.is_handshaking() && !self.connection.is_encrypted() {
            self.connection.tls_started();
        }
        self.ending |= received.closed;
        Ok(self.connection.receive(&received.plain)?)
    }

    /// Returns since when the client has taken none of the bytes offered to it, or `None` if the log already says so.
    pub fn takes_nothing_since(&self) -> Option<Instant> {
        self.sending.filter(|_| !self.gone && !self.is_reported_slow).map(|_| self.offered)
    }

    /// Takes a receive buffer back for the next receive.
    pub fn reuse(&mut self, buffer: Vec<u8>) {
        self.spare = buffer;
    }

    /// Returns the bytes of the client's requests and answers that count toward the limits.
    pub fn held(&self) -> usize {
        // Without TLS the connection itself counts the bytes in flight.
        let sending = self.sending.filter(|_| self.tls.is_some()).map_or(0, |(_, bytes)| bytes);
        self.connection.held() + self.outbox.len() + sending
    }

    /// Returns all bytes of memory held for the client.
    pub fn memory(&self) -> usize {
        self.connection.memory() - self.connection.held() + self.held()
    }

    /// Returns whether the client is finished and nothing is in flight.
    pub fn is_over(&self) -> bool {
        let answered =
            self.asked == 0 && self.connection.output().is_empty() && (self.tls.is_none() || self.closed);
        let sent = self.sending.is_none() && self.outbox.is_empty();
        self.gone || self.ending && sent && (answered || self.broken)
    }

    /// Returns the operations to cancel when the client is over.
    pub fn under_way(&self) -> impl Iterator<Item = Token> {
        [self.receiving, self.watching, self.sending.map(|(token, _)| token)].into_iter().flatten()
    }

    /// Forgets the operation; returns whether it was the client's.
    pub fn ended(&mut self, token: Token) -> bool {
        let own = |place: &mut Option<Token>| place.take_if(|one| *one == token).is_some();
        own(&mut self.receiving)
            || own(&mut self.watching)
            || self.sending.take_if(|(one, _)| *one == token).is_some()
    }
}
