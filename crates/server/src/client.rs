//! A client's socket, and what is under way on it.

use crate::tls::{Session, Tls};
use device::{Ring, Token, Work};
use nbd::{Connection, Violation};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use units::Instant;

/// Received at once.
const RECEIVE: usize = 256 << 10;

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
    /// What is received into next: clearing a new one costs more than most requests.
    spare: Vec<u8>,
    /// And the bytes that are on their way.
    sending: Option<(Token, usize)>,
    /// Since when it has taken none of them.
    offered: Instant,
    /// The log says that it takes nothing.
    pub slow_told: bool,
    /// It has sent something.
    pub heard: bool,
    /// Its requests that the device has.
    pub asked: usize,
    /// It has said goodbye: what is under way is still answered.
    pub ending: bool,
    /// It has chosen the export.
    pub opened: bool,
    /// It cannot be heard or told anything any more.
    pub gone: bool,
    /// The kernel has been asked to let go of what it works on.
    cancelled: bool,
    /// When it came.
    pub since: Instant,
    /// When it last took or gave a byte, or was let to.
    pub stirred: Instant,
    paused: bool,
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
            spare: Vec::new(),
            sending: None,
            offered: now,
            slow_told: false,
            heard: false,
            asked: 0,
            ending: false,
            opened: false,
            gone: false,
            cancelled: false,
            since: now,
            stirred: now,
            paused: false,
        }
    }

    /// Begins to send what there is, and to receive if there is room.
    pub fn go_on(&mut self, ring: &mut Ring, now: Instant) -> io::Result<()> {
        if self.gone {
            if !std::mem::replace(&mut self.cancelled, true) {
                for token in self.receiving.into_iter().chain(self.sending.map(|(token, _)| token)) {
                    ring.cancel(token)?;
                }
            }
            return Ok(());
        }
        if self.sending.is_none() {
            let bytes = self.outgoing();
            if !bytes.is_empty() {
                self.offered = now;
                self.send(ring, bytes, 0)?;
            }
        }
        if self.receiving.is_none() && !self.ending && self.connection.is_ready() {
            let mut buffer = std::mem::take(&mut self.spare);
            buffer.resize(RECEIVE, 0);
            let work = Work::Receive(Arc::clone(&self.socket), buffer);
            self.receiving = Some(ring.start(work)?);
        }
        Ok(())
    }

    /// What goes out next.
    fn outgoing(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.outbox);
        let Some(tls) = &mut self.tls else {
            return if out.is_empty() { self.connection.take_output() } else { out };
        };
        let sent = match tls.send(self.connection.output(), &mut out) {
            Ok(plain) => {
                self.connection.sent(plain);
                let last = self.ending && self.connection.output().is_empty() && self.asked == 0;
                if last && !std::mem::replace(&mut self.closed, true) { tls.close(&mut out) } else { Ok(()) }
            }
            Err(error) => Err(error),
        };
        // Into memory: it does not fail while the session lives.
        self.gone |= sent.is_err();
        out
    }

    /// Encrypts everything from here on, but for the word that it may begin.
    pub fn start_tls(&mut self, tls: &Tls) -> Result<(), ClientError> {
        self.outbox.extend(self.connection.take_output());
        self.tls = Some(Session::new(tls)?);
        Ok(())
    }

    fn send(&mut self, ring: &mut Ring, bytes: Vec<u8>, from: usize) -> io::Result<()> {
        let left = bytes.len() - from;
        let token = ring.start(Work::Send(Arc::clone(&self.socket), bytes, from))?;
        self.sending = Some((token, left));
        Ok(())
    }

    /// Some of the bytes were sent, from `from` on; the others follow.
    pub fn sent(&mut self, ring: &mut Ring, bytes: Vec<u8>, from: usize, now: Instant) -> io::Result<()> {
        (self.stirred, self.offered, self.slow_told) = (now, now, false);
        if from < bytes.len() && !self.gone { self.send(ring, bytes, from) } else { Ok(()) }
    }

    /// Takes in what came from the socket.
    pub fn received(&mut self, bytes: &[u8], now: Instant) -> Result<(), ClientError> {
        (self.stirred, self.heard) = (now, true);
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

    /// Bytes held for it.
    pub fn memory(&self) -> usize {
        self.connection.memory() + self.outbox.len() + self.sending.map_or(0, |(_, bytes)| bytes)
    }

    /// Lets nothing more in, or goes on.
    pub fn pause(&mut self, paused: bool, now: Instant) -> Result<(), Violation> {
        if std::mem::replace(&mut self.paused, paused) && !paused {
            self.stirred = now;
        }
        self.connection.pause(paused)
    }

    /// Whether it is for the client to stir: nothing of its is at the device, and it may go on or has something to take.
    pub fn is_awaited(&self) -> bool {
        self.asked == 0 && !self.gone && (!self.paused || self.sending.is_some())
    }

    /// Whether nothing is under way any more and nothing will be.
    pub fn is_over(&self) -> bool {
        let quiet = self.sending.is_none() && self.asked == 0;
        let empty = self.connection.output().is_empty() && self.outbox.is_empty();
        let said = self.gone || self.ending && empty && (self.tls.is_none() || self.closed);
        quiet && said && (self.receiving.is_none() || self.ending)
    }

    /// What is to be cancelled when it is over.
    pub fn under_way(&self) -> Option<Token> {
        self.receiving
    }

    /// Whether this operation is the client's; forgets it.
    pub fn ended(&mut self, token: Token) -> bool {
        let received = self.receiving.take_if(|t| *t == token).is_some();
        received || self.sending.take_if(|(t, _)| *t == token).is_some()
    }
}
