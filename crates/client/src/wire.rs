//! The protocol of a session, version 1, without sockets: frames of little-endian numbers.
//!
//! A frame consists of the length of the rest (u32), a kind (u8) and fields. A call has a number chosen by the client,
//! which the answer repeats; answers come in the order of the calls. To an [`Event::Wanted`] the client responds with
//! [`Call::Buffer`] or [`Call::NotNow`], which are not answered.

use thiserror::Error;

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// The name of the protocol for the upgrade of the connection.
pub const PROTOCOL: &str = "freeblock-session";
/// The most bytes in a frame after the length: a block of 1 MiB and the fields before it.
pub const FRAME_BYTES_MAX: usize = (1 << 20) + 64;

/// The reason why bytes are no valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The frame is too long.
    #[error("a frame of {0} bytes; none has more than {FRAME_BYTES_MAX}")]
    TooLong(u64),
    /// The kind does not exist.
    #[error("a frame of kind {0}, which version {VERSION} does not have")]
    Kind(u8),
    /// The fields are too short or too long.
    #[error("a frame of kind {0} with a wrong length")]
    Length(u8),
}

/// A range of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first LBN.
    pub start: u64,
    /// The number of sectors.
    pub sectors: u64,
}

/// A message of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads each block of `block` sectors in the range. The answer is the task's number.
    Read {
        /// The call's number.
        call: u32,
        /// The range.
        range: Range,
        /// The number of sectors in a block.
        block: u64,
        /// A number that each record repeats.
        parameter: u64,
    },
    /// Writes each block of `block` sectors in the range; the daemon asks for the bytes of each block before it writes
    /// the block. The answer is the task's number.
    Write {
        /// The call's number.
        call: u32,
        /// The range.
        range: Range,
        /// The number of sectors in a block.
        block: u64,
        /// A number that each record repeats.
        parameter: u64,
    },
    /// Ends a task. The answer is the number of its blocks that were not delivered.
    Abort {
        /// The call's number.
        call: u32,
        /// The task's number.
        task: u64,
    },
    /// Withdraws every block that overlaps the range. The answer is their number.
    AbortRange {
        /// The call's number.
        call: u32,
        /// The range.
        range: Range,
    },
    /// Makes every block that overlaps the range foreground work. The answer is their number.
    Promote {
        /// The call's number.
        call: u32,
        /// The range.
        range: Range,
    },
    /// Suspends the session's tasks.
    Suspend {
        /// The call's number.
        call: u32,
    },
    /// Resumes the session's tasks.
    Resume {
        /// The call's number.
        call: u32,
    },
    /// Ends the session. The answer is the number of its blocks that were not delivered; after it the daemon closes the
    /// connection.
    Close {
        /// The call's number.
        call: u32,
    },
    /// The bytes of a block that the daemon has asked for.
    Buffer {
        /// The task.
        task: u64,
        /// The block's first LBN.
        start: u64,
        /// All bytes of the block.
        bytes: Vec<u8>,
    },
    /// The bytes of a block are not available yet: the daemon asks again later.
    NotNow {
        /// The task.
        task: u64,
        /// The block's first LBN.
        start: u64,
    },
}

/// A message of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The daemon's first message.
    Hello {
        /// The daemon's version of the protocol.
        version: u32,
        /// The number of sectors of the disk.
        sectors: u64,
        /// The number of bytes in a sector.
        sector_bytes: u32,
    },
    /// A call succeeded.
    Answer {
        /// The call's number.
        call: u32,
        /// The result of the call.
        value: u64,
    },
    /// A call was refused, and has changed nothing.
    Refused {
        /// The call's number.
        call: u32,
        /// The reason, and the action to take.
        text: String,
    },
    /// A completed block.
    Record {
        /// The number of the block's task.
        task: u64,
        /// The block's sectors.
        range: Range,
        /// The parameter that the task was registered with.
        parameter: u64,
        /// Whether the block was written rather than read.
        write: bool,
        /// The first bad sector, if the medium could not read or write the block. Then there are no bytes.
        bad: Option<u64>,
        /// Whether the session has no more blocks outstanding.
        last: bool,
        /// The bytes of a block that was read.
        bytes: Vec<u8>,
    },
    /// The daemon asks for the bytes of a block that it will write.
    Wanted {
        /// The number of the block's task.
        task: u64,
        /// The block's sectors.
        range: Range,
        /// The parameter that the task was registered with.
        parameter: u64,
    },
}

/// A message that is sent in a frame.
pub trait Frame: Sized {
    /// Appends the message as a frame.
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes a frame's kind and fields.
    ///
    /// # Errors
    /// The kind does not exist, or the fields have another length than that kind has.
    fn decode(kind: u8, fields: &[u8]) -> Result<Self, WireError>;
}

fn frame(out: &mut Vec<u8>, kind: u8, fields: &[u64], tail: &[u8]) {
    let len = 1 + fields.len() * 8 + tail.len();
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out.push(kind);
    fields.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    out.extend_from_slice(tail);
}

/// Returns the first `N` numbers of eight bytes each, and the bytes after them.
fn fields<const N: usize>(kind: u8, bytes: &[u8]) -> Result<([u64; N], &[u8]), WireError> {
    let (head, rest) = bytes.split_at_checked(N * 8).ok_or(WireError::Length(kind))?;
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(head.chunks_exact(8)) {
        *number = bytes.try_into().map(u64::from_le_bytes).map_err(|_| WireError::Length(kind))?;
    }
    Ok((numbers, rest))
}

/// Returns numbers of eight bytes each; fails if anything follows them.
fn only<const N: usize>(kind: u8, bytes: &[u8]) -> Result<[u64; N], WireError> {
    match fields(kind, bytes)? {
        (numbers, []) => Ok(numbers),
        _ => Err(WireError::Length(kind)),
    }
}

fn small(kind: u8, n: u64) -> Result<u32, WireError> {
    u32::try_from(n).map_err(|_| WireError::Length(kind))
}

impl Frame for Call {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Read { call, range, block, parameter } => {
                frame(out, 1, &[u64::from(*call), range.start, range.sectors, *block, *parameter], &[]);
            }
            Self::Write { call, range, block, parameter } => {
                frame(out, 2, &[u64::from(*call), range.start, range.sectors, *block, *parameter], &[]);
            }
            Self::Abort { call, task } => frame(out, 3, &[u64::from(*call), *task], &[]),
            Self::AbortRange { call, range } => {
                frame(out, 4, &[u64::from(*call), range.start, range.sectors], &[]);
            }
            Self::Promote { call, range } => {
                frame(out, 5, &[u64::from(*call), range.start, range.sectors], &[]);
            }
            Self::Suspend { call } => frame(out, 6, &[u64::from(*call)], &[]),
            Self::Resume { call } => frame(out, 7, &[u64::from(*call)], &[]),
            Self::Close { call } => frame(out, 8, &[u64::from(*call)], &[]),
            Self::Buffer { task, start, bytes } => frame(out, 9, &[*task, *start], bytes),
            Self::NotNow { task, start } => frame(out, 10, &[*task, *start], &[]),
        }
    }

    fn decode(kind: u8, bytes: &[u8]) -> Result<Self, WireError> {
        let call = |n| small(kind, n);
        Ok(match kind {
            1 | 2 => {
                let [n, start, sectors, block, parameter] = only(kind, bytes)?;
                let (call, range) = (call(n)?, Range { start, sectors });
                match kind {
                    1 => Self::Read { call, range, block, parameter },
                    _ => Self::Write { call, range, block, parameter },
                }
            }
            3 => {
                let [n, task] = only(kind, bytes)?;
                Self::Abort { call: call(n)?, task }
            }
            4 | 5 => {
                let [n, start, sectors] = only(kind, bytes)?;
                let (call, range) = (call(n)?, Range { start, sectors });
                if kind == 4 { Self::AbortRange { call, range } } else { Self::Promote { call, range } }
            }
            6..=8 => {
                let [n] = only(kind, bytes)?;
                let call = call(n)?;
                match kind {
                    6 => Self::Suspend { call },
                    7 => Self::Resume { call },
                    _ => Self::Close { call },
                }
            }
            9 => {
                let ([task, start], bytes) = fields(kind, bytes)?;
                Self::Buffer { task, start, bytes: bytes.to_vec() }
            }
            10 => {
                let [task, start] = only(kind, bytes)?;
                Self::NotNow { task, start }
            }
            _ => return Err(WireError::Kind(kind)),
        })
    }
}

const WRITE_FLAG: u64 = 1;
const BAD_FLAG: u64 = 2;
const LAST_FLAG: u64 = 4;

impl Frame for Event {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { version, sectors, sector_bytes } => {
                frame(out, 128, &[u64::from(*version), *sectors, u64::from(*sector_bytes)], &[]);
            }
            Self::Answer { call, value } => frame(out, 129, &[u64::from(*call), *value], &[]),
            Self::Refused { call, text } => frame(out, 130, &[u64::from(*call)], text.as_bytes()),
            Self::Record { task, range, parameter, write, bad, last, bytes } => {
                let flag = |on: bool, flag: u64| if on { flag } else { 0 };
                let flags = flag(*write, WRITE_FLAG) | flag(bad.is_some(), BAD_FLAG) | flag(*last, LAST_FLAG);
                let bad = bad.unwrap_or(0);
                frame(out, 131, &[*task, range.start, range.sectors, *parameter, flags, bad], bytes);
            }
            Self::Wanted { task, range, parameter } => {
                frame(out, 132, &[*task, range.start, range.sectors, *parameter], &[]);
            }
        }
    }

    fn decode(kind: u8, bytes: &[u8]) -> Result<Self, WireError> {
        Ok(match kind {
            128 => {
                let [version, sectors, size] = only(kind, bytes)?;
                Self::Hello { version: small(kind, version)?, sectors, sector_bytes: small(kind, size)? }
            }
            129 => {
                let [n, value] = only(kind, bytes)?;
                Self::Answer { call: small(kind, n)?, value }
            }
            130 => {
                let ([n], text) = fields(kind, bytes)?;
                Self::Refused { call: small(kind, n)?, text: String::from_utf8_lossy(text).into_owned() }
            }
            131 => {
                let ([task, start, sectors, parameter, flags, bad], bytes) = fields(kind, bytes)?;
                let bad = (flags & BAD_FLAG != 0).then_some(bad);
                let (write, last) = (flags & WRITE_FLAG != 0, flags & LAST_FLAG != 0);
                let range = Range { start, sectors };
                Self::Record { task, range, parameter, write, bad, last, bytes: bytes.to_vec() }
            }
            132 => {
                let [task, start, sectors, parameter] = only(kind, bytes)?;
                Self::Wanted { task, range: Range { start, sectors }, parameter }
            }
            _ => return Err(WireError::Kind(kind)),
        })
    }
}

/// Assembles frames from bytes as they arrive.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    at: usize,
}

impl Decoder {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        // Consumed bytes are dropped only when they are more than half, to move each byte few times.
        if self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that are missing: of the frame's length, or else of the frame. A reader that reads
    /// at most this number never reads into the next frame. Returns zero if [`take`](Self::take) would return a frame
    /// or an error.
    pub fn needs(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((len, body)) = rest.split_first_chunk::<4>() else { return 4 - rest.len() };
        match u32::from_le_bytes(*len) as usize {
            len if len > FRAME_BYTES_MAX => 0,
            len => len.saturating_sub(body.len()),
        }
    }

    /// Returns the next whole frame.
    ///
    /// # Errors
    /// The bytes are no valid frame, so all bytes after them are useless, too.
    pub fn take<T: Frame>(&mut self) -> Result<Option<T>, WireError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((len, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(WireError::TooLong(len as u64));
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let (kind, fields) = body.split_first().ok_or(WireError::Length(0))?;
        let frame = T::decode(*kind, fields)?;
        self.at += 4 + len;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arb_range() -> impl Strategy<Value = Range> {
        any::<(u64, u64)>().prop_map(|(start, sectors)| Range { start, sectors })
    }

    fn arb_call() -> impl Strategy<Value = Call> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..99);
        prop_oneof![
            (any::<u32>(), arb_range(), any::<u64>(), any::<u64>())
                .prop_map(|(call, range, block, parameter)| Call::Read { call, range, block, parameter }),
            (any::<u32>(), arb_range(), any::<u64>(), any::<u64>())
                .prop_map(|(call, range, block, parameter)| Call::Write { call, range, block, parameter }),
            any::<(u32, u64)>().prop_map(|(call, task)| Call::Abort { call, task }),
            (any::<u32>(), arb_range()).prop_map(|(call, range)| Call::AbortRange { call, range }),
            (any::<u32>(), arb_range()).prop_map(|(call, range)| Call::Promote { call, range }),
            any::<u32>().prop_map(|call| Call::Suspend { call }),
            any::<u32>().prop_map(|call| Call::Resume { call }),
            any::<u32>().prop_map(|call| Call::Close { call }),
            (any::<u64>(), any::<u64>(), bytes).prop_map(|(task, start, bytes)| Call::Buffer {
                task,
                start,
                bytes
            }),
            any::<(u64, u64)>().prop_map(|(task, start)| Call::NotNow { task, start }),
        ]
    }

    fn arb_event() -> impl Strategy<Value = Event> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..99);
        prop_oneof![
            any::<(u32, u64, u32)>().prop_map(|(version, sectors, sector_bytes)| Event::Hello {
                version,
                sectors,
                sector_bytes
            }),
            any::<(u32, u64)>().prop_map(|(call, value)| Event::Answer { call, value }),
            (any::<u32>(), ".{0,20}").prop_map(|(call, text)| Event::Refused { call, text }),
            (any::<(u64, u64, bool, bool)>(), arb_range(), any::<Option<u64>>(), bytes).prop_map(
                |((task, parameter, write, last), range, bad, bytes)| Event::Record {
                    task,
                    range,
                    parameter,
                    write,
                    bad,
                    last,
                    bytes
                }
            ),
            (any::<(u64, u64)>(), arb_range()).prop_map(|((task, parameter), range)| Event::Wanted {
                task,
                range,
                parameter
            }),
        ]
    }

    /// Checks that frames are decoded as they were encoded, for bytes that arrive in pieces of these lengths.
    fn comes_back<T: Frame + PartialEq + std::fmt::Debug>(frames: &[T], pieces: &[usize]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|f| f.encode(&mut bytes));
        let (mut decoder, mut back, mut rest) = (Decoder::default(), Vec::<T>::new(), bytes.as_slice());
        let mut pieces = pieces.iter().cycle();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((*pieces.next().unwrap()).min(rest.len()));
            decoder.push(piece);
            rest = more;
            while let Some(frame) = decoder.take().unwrap() {
                back.push(frame);
            }
        }
        assert_eq!(back, frames);
    }

    proptest! {
        #[test]
        fn calls_come_back(
            frames in proptest::collection::vec(arb_call(), 1..9),
            pieces in proptest::collection::vec(1usize..50, 1..5),
        ) {
            comes_back(&frames, &pieces);
        }

        #[test]
        fn events_come_back(
            frames in proptest::collection::vec(arb_event(), 1..9),
            pieces in proptest::collection::vec(1usize..50, 1..5),
        ) {
            comes_back(&frames, &pieces);
        }

        #[test]
        fn no_bytes_panic_and_none_are_waited_for_in_vain(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<Call>() {}
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<Event>() {}
        }
    }

    proptest! {
        /// A decoder that gets exactly the bytes that it needs has no byte of the next frame when a frame is complete.
        #[test]
        fn a_decoder_needs_one_frame_at_most(frames in proptest::collection::vec(arb_event(), 1..9)) {
            let mut decoder = Decoder::default();
            for frame in frames {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                let mut rest = bytes.as_slice();
                while decoder.needs() > 0 {
                    prop_assert_eq!(decoder.take::<Event>(), Ok(None));
                    let (piece, more) = rest.split_at_checked(decoder.needs()).unwrap();
                    decoder.push(piece);
                    rest = more;
                }
                prop_assert_eq!(rest, &[0u8; 0]);
                prop_assert_eq!(decoder.take(), Ok(Some(frame)));
            }
        }
    }

    #[test]
    fn a_frame_too_long_is_refused_before_it_comes() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.needs(), 0);
        assert_eq!(decoder.take::<Call>(), Err(WireError::TooLong(u64::from(u32::MAX))));
    }
}
