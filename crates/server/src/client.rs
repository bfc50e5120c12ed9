//! A client's socket, and what is under way on it.

use crate::tls::{Session, Tls};
use device::{Ring, Token, Work, is_closed};
use nbd::{Connection, Violation};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use units::Instant;

/// Received at once, and while the data of a large write are coming. A client that is silent has the smaller buffer.
const RECEIVE_BYTES: usize = 64 << 10;
const RECEIVE_BYTES_MAX: usize = 256 << 10;

/// What ends a client, though nothing is wrong with its socket.
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
    /// Once it is agreed on, everything goes through it.
    tls: Option<Session>,
    /// To be sent as it is, before anything else.
    outbox: Vec<u8>,
    /// It has been told that no more is sent.
    closed: bool,
    socket: Arc<OwnedFd>,
    /// Its address, for people.
    pub from: String,
    receiving: Option<Token>,
    /// Tells when the client hangs up while nothing is received.
    watching: Option<Token>,
    /// It sends nothing more, and may still take answers.
    half: bool,
    /// What is received into next: clearing a new one costs more than most requests.
    spare: Vec<u8>,
    /// And the bytes of the buffer that is on its way.
    sending: Option<(Token, usize)>,
    /// Since when it has taken none of them.
    offered: Instant,
    /// The log says that it takes nothing.
    pub slow_told: bool,
    /// It has sent something.
    pub heard: bool,
    /// Its requests that wait for the device or are there.
    pub asked: usize,
    /// It has said goodbye: what is under way is still answered.
    pub ending: bool,
    /// It has chosen the export.
    pub opened: bool,
    /// It cannot be heard or told anything any more.
    pub gone: bool,
    /// When it came.
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
            receiving: None,
            watching: None,
            half: false,
            spare: Vec::new(),
            sending: None,
            offered: now,
            slow_told: false,
            heard: false,
            asked: 0,
            ending: false,
            opened: false,
            gone: false,
            since: now,
        }
    }

    /// Begins to send what there is, to receive if there is room, and else to look whether the client is still there.
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
        if self.receiving.is_some() || self.ending {
            return Ok(Ok(()));
        }
        if self.connection.is_ready() {
            let mut buffer = std::mem::take(&mut self.spare);
            buffer.resize(self.connection.missing().clamp(RECEIVE_BYTES, RECEIVE_BYTES_MAX), 0);
            let work = Work::Receive(Arc::clone(&self.socket), buffer);
            self.receiving = Some(ring.start(work)?);
        } else if self.watching.is_none() && !self.half {
            self.watching = Some(ring.start(Work::HangUp(Arc::clone(&self.socket)))?);
        }
        Ok(Ok(()))
    }

    /// The watch has ended; whether the client is gone. If it only sends nothing more, sending to it says when it is.
    pub fn hung_up(&mut self, result: &io::Result<usize>) -> bool {
        self.half = true;
        is_closed(result)
    }

    /// What goes out next.
    fn outgoing(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut out = std::mem::take(&mut self.outbox);
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
        // Into memory: it does not fail while the session lives.
        self.gone |= sent.is_err();
        Ok(out)
    }

    /// Encrypts everything from here on, but for the word that it may begin.
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

    /// Some of the bytes were sent, from `from` on; the others follow. Their memory is free when all of them were.
    pub fn sent(
        &mut self,
        ring: &mut Ring,
        bytes: Vec<u8>,
        from: usize,
        now: Instant,
    ) -> io::Result<Result<(), ClientError>> {
        (self.offered, self.slow_told) = (now, false);
        if from < bytes.len() {
            return if self.gone { Ok(Ok(())) } else { self.send(ring, bytes, from).map(Ok) };
        }
        let all = bytes.len();
        drop(bytes);
        Ok(if self.tls.is_some() { Ok(()) } else { self.connection.sent(all).map_err(ClientError::from) })
    }

    /// Takes in what came from the socket.
    pub fn received(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.heard = true;
        let Some(tls) = &mut self.tls else { return Ok(self.connection.receive(bytes)?) };
        let received = tls.receive(bytes);
        if received.is_err() {
            // What is wrong is told to the client, if it can be.
            let _ = tls.send(&[], &mut self.outbox);
        }
        let received = received?;
        if !tls.is_handshaking() && !self.connection.is_encrypted() {
            self.connection.tls_started();
        }
        self.ending |= received.closed;
        Ok(self.connection.receive(&received.plain)?)
    }

    /// Since when it has taken nothing of what it is sent, if that is not told of yet.
    pub fn takes_nothing_since(&self) -> Option<Instant> {
        self.sending.filter(|_| !self.gone && !self.slow_told).map(|_| self.offered)
    }

    /// Gives back what was received into.
    pub fn reuse(&mut self, buffer: Vec<u8>) {
        self.spare = buffer;
    }

    /// Bytes of its requests and answers that count.
    pub fn held(&self) -> usize {
        // Without encryption the connection counts what is on its way, too.
        let sending = self.sending.filter(|_| self.tls.is_some()).map_or(0, |(_, bytes)| bytes);
        self.connection.held() + self.outbox.len() + sending
    }

    /// All bytes in memory for it.
    pub fn memory(&self) -> usize {
        self.connection.memory() - self.connection.held() + self.held()
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        let quiet = self.sending.is_none() && self.asked == 0;
        let empty = self.connection.output().is_empty() && self.outbox.is_empty();
        self.gone || self.ending && quiet && empty && (self.tls.is_none() || self.closed)
    }

    /// What is to be cancelled when it is over.
    pub fn under_way(&self) -> impl Iterator<Item = Token> {
        [self.receiving, self.watching, self.sending.map(|(token, _)| token)].into_iter().flatten()
    }

    /// Whether this operation is the client's; forgets it.
    pub fn ended(&mut self, token: Token) -> bool {
        let own = |place: &mut Option<Token>| place.take_if(|one| *one == token).is_some();
        own(&mut self.receiving)
            || own(&mut self.watching)
            || self.sending.take_if(|(one, _)| *one == token).is_some()
    }
}
