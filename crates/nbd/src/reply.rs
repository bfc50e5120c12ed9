//! Answers to requests.

use crate::error::Errno;
use crate::export::NAME_BYTES_MAX;
use crate::request::{Command, Request, extents_max};
use crate::wire::{CHUNK, Put, SIMPLE_REPLY, chunk, state};

/// The number of the metadata context `base:allocation` in block status replies.
pub(crate) const ALLOCATION_CONTEXT_ID: u32 = 1;

/// The number of the metadata context `freeblock:memory` in block status replies.
pub(crate) const MEMORY_CONTEXT_ID: u32 = 2;

/// The state of an extent of `freeblock:memory` that is in the server's memory. The state of other extents is 0.
const IN_MEMORY: u32 = 1;

/// A part of a block status: a range that is uniformly a hole or not, and zero or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes.
    pub length: u32,
    /// Whether the extent is a hole.
    pub hole: bool,
    /// Whether the extent reads as zeroes.
    pub zero: bool,
}

/// A part of a block status of the context `freeblock:memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExtent {
    /// The length in bytes.
    pub length: u32,
    /// Whether the extent is in memory, so that reading it does not wait for the disk.
    pub in_memory: bool,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Success without data. For a read or a status this counts as an I/O error.
    Done,
    /// The bytes of a read, of exactly the requested length. Another length counts as an I/O error.
    Data(&'a [u8]),
    /// The extents from the request's offset on. Those beyond the request's end are cut off; an empty list counts as
    /// an I/O error.
    Status(&'a [Extent]),
    /// The extents in both metadata contexts, as in [`Status`](Self::Status). The client gets those of the contexts
    /// that it has chosen.
    Maps {
        /// Holes and zeroes.
        allocation: &'a [Extent],
        /// The extents by whether they are in the server's memory.
        memory: &'a [MemoryExtent],
    },
    /// Failure, perhaps after a part of the request was done.
    Failed {
        /// The error, which a client's kernel passes to its users.
        errno: Errno,
        /// The first byte that failed, if that is known.
        offset: Option<u64>,
        /// A message for people; clients that asked for structured replies get it, cut at 4096 bytes.
        message: &'a str,
    },
}

pub(crate) const NO_ANSWER: Reply<'static> =
    Reply::Failed { errno: Errno::Io, offset: None, message: "the server has no answer of the right kind" };

/// Writes the answer to `request` to the end of `out`.
pub(crate) fn write(out: &mut Vec<u8>, request: &Request, reply: &Reply<'_>) {
    let Request { cookie, structured, contexts, command, .. } = *request;
    match (command, *reply) {
        (_, Reply::Failed { errno, offset, message }) => {
            failed(out, structured, cookie, (errno, offset), message)
        }
        (Command::Read, Reply::Data(data)) if data_header(out, request, data.len()) => {
            out.extend_from_slice(data);
        }
        (Command::BlockStatus { one }, Reply::Status(extents)) => {
            let maps = [contexts.allocation.then(|| (ALLOCATION_CONTEXT_ID, allocated(extents)))];
            statuses(out, request, one, maps.into_iter().flatten().collect());
        }
        (Command::BlockStatus { one }, Reply::Maps { allocation, memory }) => {
            let here = |extent: &MemoryExtent| (extent.length, if extent.in_memory { IN_MEMORY } else { 0 });
            let maps = [
                contexts.allocation.then(|| (ALLOCATION_CONTEXT_ID, allocated(allocation))),
                contexts.memory.then(|| (MEMORY_CONTEXT_ID, memory.iter().map(here).collect())),
            ];
            statuses(out, request, one, maps.into_iter().flatten().collect());
        }
        (Command::Read | Command::BlockStatus { .. }, _) => write(out, request, &NO_ANSWER),
        (_, _) => simple(out, cookie, 0),
    }
}

/// Writes the header that precedes a read's data, if `request` is a read of `bytes` bytes; returns whether it is.
pub(crate) fn data_header(out: &mut Vec<u8>, request: &Request, bytes: usize) -> bool {
    let Request { cookie, structured, command, length, .. } = *request;
    if command != Command::Read || bytes != length as usize {
        return false;
    }
    if structured {
        data_chunk(out, request, true);
    } else {
        simple(out, cookie, 0);
    }
    true
}

/// Writes the header that precedes the data of a part of a read.
pub(crate) fn data_chunk(out: &mut Vec<u8>, part: &Request, last: bool) {
    begin(out, last, chunk::OFFSET_DATA, part.cookie, part.length.saturating_add(8));
    out.put_u64(part.offset);
}

/// A length in bytes and the state of an extent, as they are sent.
type Piece = (u32, u32);

fn allocated(extents: &[Extent]) -> Vec<Piece> {
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let piece =
        |extent: &Extent| (extent.length, flag(extent.hole, state::HOLE) | flag(extent.zero, state::ZERO));
    extents.iter().map(piece).collect()
}

/// Writes a block status for each of these contexts. Writes an error if there is no context, or one without extents.
fn statuses(out: &mut Vec<u8>, request: &Request, one: bool, maps: Vec<(u32, Vec<Piece>)>) {
    let Request { cookie, length, .. } = *request;
    let most = if one { 1 } else { extents_max(length) };
    let maps: Vec<_> =
        maps.into_iter().map(|(context, pieces)| (context, fitting(&pieces, length, most))).collect();
    if maps.is_empty() || maps.iter().any(|(_, pieces)| pieces.is_empty()) {
        return write(out, request, &NO_ANSWER);
    }
    let last = maps.len() - 1;
    for (nth, (context, pieces)) in maps.into_iter().enumerate() {
        begin(out, nth == last, chunk::BLOCK_STATUS, cookie, 4 + 8 * pieces.len() as u32);
        out.put_u32(context);
        for (length, state) in pieces {
            out.put_u32(length);
            out.put_u32(state);
        }
    }
}

/// Merges adjacent extents of the same state, and limits them to `length` bytes and `most` extents.
fn fitting(extents: &[Piece], length: u32, most: usize) -> Vec<Piece> {
    let mut left = length;
    let mut fitting: Vec<Piece> = Vec::new();
    for (length, state) in extents {
        let length = (*length).min(left);
        left -= length;
        match fitting.last_mut() {
            _ if length == 0 => {}
            Some((last, of)) if of == state => *last += length,
            _ => fitting.push((length, *state)),
        }
    }
    fitting.truncate(most);
    fitting
}

/// Writes that a request has failed, and the byte at which it failed, if that is known.
pub(crate) fn failed(
    out: &mut Vec<u8>,
    structured: bool,
    cookie: u64,
    (errno, offset): (Errno, Option<u64>),
    message: &str,
) {
    if !structured {
        return simple(out, cookie, errno.value());
    }
    let mut most = message.len().min(NAME_BYTES_MAX);
    while !message.is_char_boundary(most) {
        most -= 1;
    }
    let message = &message.as_bytes()[..most];
    let (kind, more) = if offset.is_some() { (chunk::ERROR_OFFSET, 8) } else { (chunk::ERROR, 0) };
    begin(out, true, kind, cookie, 6 + more + message.len() as u32);
    out.put_u32(errno.value());
    out.put_u16(message.len() as u16);
    out.extend_from_slice(message);
    if let Some(offset) = offset {
        out.put_u64(offset);
    }
}

fn simple(out: &mut Vec<u8>, cookie: u64, errno: u32) {
    out.put_u32(SIMPLE_REPLY);
    out.put_u32(errno);
    out.put_u64(cookie);
}

fn begin(out: &mut Vec<u8>, last: bool, kind: u16, cookie: u64, length: u32) {
    out.put_u32(CHUNK);
    out.put_u16(if last { chunk::DONE } else { 0 });
    out.put_u16(kind);
    out.put_u64(cookie);
    out.put_u32(length);
}
