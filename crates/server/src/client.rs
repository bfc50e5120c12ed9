//! A client's socket, and what is under way on it.

use device::{Ring, Token, Work};
use nbd::{Connection, Violation};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Instant;

/// Received at once.
const RECEIVE: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Client {
    pub connection: Connection,
    socket: Arc<OwnedFd>,
    receiving: Option<Token>,
    /// And the bytes that are on their way.
    sending: Option<(Token, usize)>,
    /// Its requests that the device has.
    pub asked: usize,
    /// It has said goodbye: what is under way is still answered.
    pub ending: bool,
    /// It cannot be heard or told anything any more.
    pub gone: bool,
    /// The kernel has been asked to let go of what it works on.
    cancelled: bool,
    /// When it came.
    pub since: Instant,
    /// When it last took or gave a byte.
    pub stirred: Instant,
}

impl Client {
    pub fn new(connection: Connection, socket: OwnedFd, now: Instant) -> Self {
        Self {
            connection,
            socket: Arc::new(socket),
            receiving: None,
            sending: None,
            asked: 0,
            ending: false,
            gone: false,
            cancelled: false,
            since: now,
            stirred: now,
        }
    }

    /// Begins to send what there is, and to receive if there is room.
    pub fn go_on(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.gone {
            if !std::mem::replace(&mut self.cancelled, true) {
                for token in self.receiving.into_iter().chain(self.sending.map(|(token, _)| token)) {
                    ring.cancel(token)?;
                }
            }
            return Ok(());
        }
        if self.sending.is_none() && !self.connection.output().is_empty() {
            let bytes = self.connection.take_output();
            self.send(ring, bytes, 0)?;
        }
        if self.receiving.is_none() && !self.ending && self.connection.is_ready() {
            let work = Work::Receive(Arc::clone(&self.socket), vec![0; RECEIVE]);
            self.receiving = Some(ring.start(work)?);
        }
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
        self.stirred = now;
        if from < bytes.len() && !self.gone { self.send(ring, bytes, from) } else { Ok(()) }
    }

    /// Takes in what came from the socket.
    pub fn received(&mut self, bytes: &[u8], now: Instant) -> Result<(), Violation> {
        self.stirred = now;
        self.connection.receive(bytes)
    }

    /// Bytes held for it.
    pub fn memory(&self) -> usize {
        self.connection.memory() + self.sending.map_or(0, |(_, bytes)| bytes)
    }

    /// Whether it is for the client to stir: nothing of its is at the device.
    pub fn is_awaited(&self) -> bool {
        self.asked == 0 && !self.gone
    }

    /// Whether nothing is under way any more and nothing will be.
    pub fn is_over(&self) -> bool {
        let quiet = self.sending.is_none() && self.asked == 0;
        let said = self.gone || self.ending && self.connection.output().is_empty();
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
