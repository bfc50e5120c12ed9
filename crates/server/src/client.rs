//! A client's socket, and what is under way on it.

use device::{Ring, Token, Work};
use nbd::Connection;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Received at once.
const RECEIVE: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Client {
    pub connection: Connection,
    socket: Arc<OwnedFd>,
    receiving: Option<Token>,
    sending: Option<Token>,
    /// Its requests that the drive has.
    pub asked: usize,
    /// It has said goodbye: what is under way is still answered.
    pub ending: bool,
    /// It cannot be heard or told anything any more.
    pub gone: bool,
    /// The kernel has been asked to let go of what it works on.
    cancelled: bool,
}

impl Client {
    pub fn new(connection: Connection, socket: OwnedFd) -> Self {
        let socket = Arc::new(socket);
        Self {
            connection,
            socket,
            receiving: None,
            sending: None,
            asked: 0,
            ending: false,
            gone: false,
            cancelled: false,
        }
    }

    /// Begins to send what there is, and to receive if there is room.
    pub fn go_on(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.gone {
            if !std::mem::replace(&mut self.cancelled, true) {
                for token in self.receiving.into_iter().chain(self.sending) {
                    ring.cancel(token)?;
                }
            }
            return Ok(());
        }
        if self.sending.is_none() && !self.connection.output().is_empty() {
            let bytes = self.connection.output().to_vec();
            self.sending = Some(ring.start(Work::Send(Arc::clone(&self.socket), bytes, 0))?);
        }
        if self.receiving.is_none() && !self.ending && self.connection.is_ready() {
            let work = Work::Receive(Arc::clone(&self.socket), vec![0; RECEIVE]);
            self.receiving = Some(ring.start(work)?);
        }
        Ok(())
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
        received || self.sending.take_if(|t| *t == token).is_some()
    }
}
