//! Answers to requests.

use crate::error::Errno;
use crate::export::MOST_NAME_BYTES;
use crate::request::{Command, Request};
use crate::wire::{CHUNK, Put, SIMPLE_REPLY, chunk, state};

/// The number by which `base:allocation` goes on a connection.
pub(crate) const ALLOCATION: u32 = 1;

/// A part of a client's block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u32,
    /// Whether it is a hole.
    pub hole: bool,
    /// Whether it reads as zeroes.
    pub zero: bool,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Success. For a read or a status this counts as an I/O error, since it has no data.
    Done,
    /// The bytes of a read, with the requested length. Any other length counts as an I/O error.
    Data(&'a [u8]),
    /// The extents from the request's offset on. Those beyond its end are cut off; an empty list counts as an I/O
    /// error.
    Status(&'a [Extent]),
    /// Failure, perhaps after a part was done.
    Failed {
        /// The error, which a client's kernel passes to its users.
        errno: Errno,
        /// The first byte that failed, if it is known.
        offset: Option<u64>,
        /// A message for people; clients that asked for structured replies get it, cut at 4096 bytes.
        message: &'a str,
    },
}

pub(crate) const NO_ANSWER: Reply<'static> =
    Reply::Failed { errno: Errno::Io, offset: None, message: "the server has no answer of the right kind" };

/// Writes the answer to `request` to the end of `out`.
pub(crate) fn write(out: &mut Vec<u8>, request: &Request, reply: &Reply<'_>) {
    let Request { cookie, structured, command, length, .. } = *request;
    match (command, *reply) {
        (_, Reply::Failed { errno, offset, message }) => {
            failed(out, structured, cookie, (errno, offset), message)
        }
        (Command::Read, Reply::Data(data)) if data_header(out, request, data.len()) => {
            out.extend_from_slice(data);
        }
        (Command::BlockStatus { one }, Reply::Status(extents)) => {
            let extents = fitting(extents, length, if one { 1 } else { extents_max(length) });
            if extents.is_empty() {
                return write(out, request, &NO_ANSWER);
            }
            begin(out, true, chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
            out.put_u32(ALLOCATION);
            for extent in extents {
                out.put_u32(extent.length);
                let flag = |on: bool, flag: u32| if on { flag } else { 0 };
                out.put_u32(flag(extent.hole, state::HOLE) | flag(extent.zero, state::ZERO));
            }
        }
        (Command::Read | Command::BlockStatus { .. }, _) => write(out, request, &NO_ANSWER),
        (_, _) => simple(out, cookie, 0),
    }
}

/// Writes the header before the data of a read, if `request` is a read of this length.
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

/// Writes the header before the data of a part of a read, which may be the last part.
pub(crate) fn data_chunk(out: &mut Vec<u8>, part: &Request, last: bool) {
    begin(out, last, chunk::OFFSET_DATA, part.cookie, part.length.saturating_add(8));
    out.put_u64(part.offset);
}

/// Merges adjacent extents of the same state, and cuts them at the request's end and at `most` extents.
fn fitting(extents: &[Extent], length: u32, most: usize) -> Vec<Extent> {
    let mut left = length;
    let mut fitting: Vec<Extent> = Vec::new();
    for extent in extents {
        let length = extent.length.min(left);
        left -= length;
        match fitting.last_mut() {
            _ if length == 0 => {}
            Some(last) if (last.hole, last.zero) == (extent.hole, extent.zero) => last.length += length,
            _ => fitting.push(Extent { length, ..*extent }),
        }
    }
    fitting.truncate(most);
    fitting
}

/// Returns the most extents in a reply about this number of bytes: the client asks again for the rest. They take at
/// most 128 KiB, and are at most one more than the sectors of 512 bytes.
pub(crate) fn extents_max(length: u32) -> usize {
    (length as usize / 512 + 1).min(1 << 14)
}

/// Writes that a request has failed, and at which byte.
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
    let mut most = message.len().min(MOST_NAME_BYTES);
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
