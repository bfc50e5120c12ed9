//! A request that has no room as a whole: it is split into pieces, a few of which are at the host at a time.
//!
//! Meanwhile the client has no other request, so that answers do not mix, and all of the client's room is for the
//! pieces.

use super::{Connection, Event};
use crate::error::{Errno, Violation};
use crate::reply::{self, Reply};
use crate::request::{Command, Request};
use std::collections::BTreeMap;

/// The number of pieces that fit into a client's room, so that the disk executes some while the client reads others.
const PIECES_AT_ONCE: usize = 4;

/// Pieces begin and end at multiples of this, so that a disk with large physical sectors writes whole ones.
const PIECE_UNIT_BYTES: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) struct Large {
    /// The client's request, without its data.
    whole: Request,
    /// The length of a piece, in bytes; the first and the last may be shorter.
    piece: u64,
    /// The offset of the next piece; the end of the request if there is none.
    next: u64,
    /// Pieces of a read that were answered before earlier ones, by offset. They wait because a client without
    /// structured replies gets the bytes in order.
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    /// The next byte to send to a client without structured replies. If it is not the first, the reply has begun.
    in_order: u64,
    failed: Option<Failure>,
}

#[derive(Clone, Debug)]
struct Failure {
    errno: Errno,
    offset: Option<u64>,
    message: String,
}

impl Large {
    fn end(&self) -> u64 {
        self.whole.offset + u64::from(self.whole.length)
    }

    /// Returns the bytes of pieces that wait for earlier ones.
    pub fn held(&self) -> usize {
        self.early_bytes
    }

    /// Returns the next piece, if there is one.
    fn piece(&self) -> Option<Request> {
        let until = (self.next / self.piece + 1).saturating_mul(self.piece).min(self.end());
        let length = u32::try_from(until - self.next).unwrap_or(u32::MAX);
        let Request { cookie, structured, contexts, command, fua, .. } = self.whole;
        let data = Vec::new();
        let piece = Request { cookie, structured, contexts, command, fua, offset: self.next, length, data };
        (length > 0).then_some(piece)
    }
}

impl Connection {
    /// Returns the length of a piece, for an export with a minimum block of `minimum` bytes.
    pub(super) fn piece_bytes(&self, minimum: u32) -> u64 {
        let unit = PIECE_UNIT_BYTES.max(u64::from(minimum));
        let room = (self.room() / PIECES_AT_ONCE) as u64;
        (room - room % unit).max(unit)
    }

    /// Returns the number of bytes that may be held for the client without a grant.
    fn room(&self) -> usize {
        self.reserve.min(self.limits.bytes)
    }

    /// Begins to split a request into pieces.
    pub(super) fn begin_large(&mut self, whole: Request, piece: u64) {
        let (next, in_order) = (whole.offset, whole.offset);
        let (early, early_bytes) = (BTreeMap::new(), 0);
        self.large = Some(Large { whole, piece, next, early, early_bytes, in_order, failed: None });
    }

    /// Gives the host as many pieces as there is room for. A piece of a write is given when its data have been
    /// received.
    pub(super) fn ask_for_pieces(&mut self) {
        while let Some(piece) = self.large.as_ref().filter(|_| self.writing.is_none()).and_then(Large::piece)
        {
            let weight = piece.weight();
            let alone = self.requests == 0 && self.held() == 0;
            let fits =
                self.held().saturating_add(weight) <= self.room() && self.requests < self.limits.requests;
            if !fits && !alone {
                return;
            }
            self.requests += 1;
            self.claimed += weight;
            if let Some(large) = &mut self.large {
                large.next += u64::from(piece.length);
            }
            if piece.command == Command::Write {
                self.begin_write(piece);
            } else {
                self.events.push_back(Event::Request(piece));
            }
        }
    }

    /// Handles a piece of a read that has succeeded.
    pub(super) fn piece_read(&mut self, piece: &Request, data: Vec<u8>) -> Result<(), Violation> {
        if data.len() != piece.length as usize {
            return self.piece_answered(piece, &Reply::Done);
        }
        let last = self.requests == 0;
        let Some(large) = self.large.as_mut().filter(|large| large.failed.is_none()) else {
            return self.end_large();
        };
        if large.whole.structured {
            let last = last && large.next == large.end();
            reply::data_chunk(self.output.small(), piece, last);
            self.output.data(data);
        } else {
            large.early_bytes += data.len();
            large.early.insert(piece.offset, data);
            while let Some(data) = large.early.remove(&large.in_order) {
                if large.in_order == large.whole.offset {
                    reply::data_header(self.output.small(), &large.whole, large.whole.length as usize);
                }
                large.early_bytes -= data.len();
                large.in_order += data.len() as u64;
                self.output.data(data);
            }
        }
        self.end_large()
    }

    /// Handles a piece that is done or has failed. After a failure no further pieces are given to the host.
    pub(super) fn piece_answered(&mut self, piece: &Request, reply: &Reply<'_>) -> Result<(), Violation> {
        match *reply {
            Reply::Data(data) if piece.command == Command::Read => {
                return self.piece_read(piece, data.to_vec());
            }
            Reply::Failed { errno, offset, message } => self.large_failed(errno, offset, message),
            _ => {}
        }
        self.end_large()
    }

    fn large_failed(&mut self, errno: Errno, offset: Option<u64>, message: &str) {
        let missing = match self.writing.take() {
            Some(piece) => {
                self.release(&piece);
                piece.length as usize - piece.data.len()
            }
            None => 0,
        };
        let Some(large) = &mut self.large else { return };
        let left = large.end() - large.next;
        if large.whole.command == Command::Write {
            self.skip += missing as u64 + left;
        }
        large.next = large.end();
        (large.early, large.early_bytes) = (BTreeMap::new(), 0);
        large.failed.get_or_insert_with(|| Failure { errno, offset, message: message.to_owned() });
    }

    /// Answers the client when all pieces are answered.
    fn end_large(&mut self) -> Result<(), Violation> {
        let over = |large: &mut Large| self.requests == 0 && large.next == large.end();
        let Some(Large { whole, in_order, failed, .. }) = self.large.take_if(over) else {
            return self.go_on();
        };
        self.answered.count(failed.is_none());
        let begun = !whole.structured && in_order > whole.offset;
        match failed {
            // A reply without structure reports success at its beginning, so a later failure can only be reported by
            // closing the connection.
            Some(_) if begun => {
                self.state = super::State::Ended;
                (self.input, self.understood) = (Vec::new(), 0);
                self.events.push_back(Event::Unfinished { offset: in_order });
                return Ok(());
            }
            Some(Failure { errno, offset, message }) => {
                let (structured, cookie) = (whole.structured, whole.cookie);
                reply::failed(self.output.small(), structured, cookie, (errno, offset), &message);
            }
            None if whole.command == Command::Read => {}
            None => reply::write(self.output.small(), &whole, &Reply::Done),
        }
        self.go_on()
    }
}
