//! A recording's file: lines in frames that distinguish a torn end from damage.
//!
//! The file begins with `freeblock recording`, its version and a newline. Each frame consists of the length of its
//! content (u32, little-endian), a checksum of that length, the content, and a checksum of the whole frame. Checksums
//! are CRC-32. Each continues from the checksum before, so that a missing, repeated or misplaced frame is found. The
//! highest bit of each is set, so that no frame ends in a zero byte. A file that ends within a frame, or with zeroes
//! from some point in a frame, was torn: the daemon was killed, or the power failed. Any other mismatch is damage.

use std::io::{self, Read, Write};
use thiserror::Error;

/// The version of the file's format, and of the lines in it.
const VERSION: u32 = 5;
const LETTERS: &str = "freeblock recording ";
/// The most bytes of a recording's first line; a file with a longer one is of another kind.
const FIRST_LINE_BYTES_MAX: usize = 64;
/// The size at which a frame is full, in bytes.
const FRAME_BYTES: usize = 64 << 10;
/// The bytes of a frame's length and of that length's checksum.
const HEAD_BYTES: usize = 8;
const TAIL_BYTES: usize = 4;

/// A recording that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The file cannot be read.
    #[error("the recording cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The file is no recording.
    #[error(
        "the file is no recording: the file does not begin with {LETTERS:?}; give a file that `freeblock serve --record` has written"
    )]
    NoRecording,
    /// The recording has another version.
    #[error(
        "the recording is of version {found}, and {VERSION} is what this program reads; replay it with the program that made it"
    )]
    Version {
        /// The version found.
        found: String,
    },
    /// A checksum does not fit the content.
    #[error(
        "the recording is damaged: frame {frame}, at byte {at}: {problem}; the file was changed after it was written; record anew"
    )]
    Damaged {
        /// The frame's number, counted from 1.
        frame: u64,
        /// The byte of the file at which the frame begins.
        at: u64,
        /// The mismatch.
        problem: &'static str,
    },
}

/// A writer of lines into frames. Call [`cut`](Self::cut) only after whole lines.
#[derive(Debug)]
pub struct Frames<W> {
    to: W,
    /// The frame's head, and the content so far.
    frame: Vec<u8>,
    chain: u32,
}

impl<W: Write> Frames<W> {
    /// Begins a file. Each frame is written to `to` by one call.
    ///
    /// # Errors
    /// The writer has failed.
    pub fn new(mut to: W) -> io::Result<Self> {
        let first = format!("{LETTERS}{VERSION}\n");
        to.write_all(first.as_bytes())?;
        Ok(Self { to, frame: vec![0; HEAD_BYTES], chain: crc32fast::hash(first.as_bytes()) })
    }

    /// Returns the bytes of the present frame, its head included.
    pub fn held(&self) -> usize {
        self.frame.len()
    }

    /// Returns whether the frame has reached its size and should be [cut](Self::cut).
    pub fn is_full(&self) -> bool {
        self.frame.len() >= FRAME_BYTES
    }

    /// Ends the frame, unless it is empty.
    ///
    /// # Errors
    /// The writer has failed, or the frame exceeds four gigabytes.
    pub fn cut(&mut self) -> io::Result<()> {
        if self.frame.len() == HEAD_BYTES {
            return Ok(());
        }
        let length = u32::try_from(self.frame.len() - HEAD_BYTES)
            .map_err(|_| io::Error::other("more in a frame of the recording than there may be"))?;
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        let head = chained(self.chain, &self.frame[..4]);
        self.frame[4..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
        self.chain = chained(self.chain, &self.frame);
        self.frame.extend(self.chain.to_le_bytes());
        let written = self.to.write_all(&self.frame);
        self.frame.truncate(HEAD_BYTES);
        written
    }

    /// Cuts the last frame, and flushes.
    ///
    /// # Errors
    /// The writer has failed.
    pub fn end(mut self) -> io::Result<W> {
        self.cut()?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Adds bytes to the frame in memory.
impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn chained(chain: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(chain);
    hasher.update(bytes);
    hasher.finalize() | 1 << 31
}

/// A reader of lines from frames.
#[derive(Debug)]
pub struct FrameLines<R> {
    from: R,
    frame: Vec<u8>,
    /// The number of the frame's bytes that were returned as lines.
    given: usize,
    chain: u32,
    frames: u64,
    /// The byte of the file at which the next frame begins.
    at: u64,
}

impl<R: Read> FrameLines<R> {
    /// Checks the first line of a file.
    ///
    /// # Errors
    /// The file is no recording, or of another version.
    pub fn new(mut from: R) -> Result<Self, FrameError> {
        let mut first = Vec::new();
        while first.last() != Some(&b'\n') {
            let mut byte = [0];
            if first.len() > FIRST_LINE_BYTES_MAX || from.read(&mut byte)? == 0 {
                return Err(FrameError::NoRecording);
            }
            first.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&first);
        let found = text.strip_prefix(LETTERS).ok_or(FrameError::NoRecording)?.trim_end();
        if found != VERSION.to_string() {
            return Err(FrameError::Version { found: found.escape_debug().to_string() });
        }
        let (chain, at) = (crc32fast::hash(&first), first.len() as u64);
        Ok(Self { from, frame: Vec::new(), given: 0, chain, frames: 0, at })
    }

    /// Returns the next line, without its newline. Returns `None` at the end of the file, torn or not.
    ///
    /// # Errors
    /// A frame is damaged; no further line can be read then.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if self.given == self.frame.len() && !self.next_frame()? {
            return Ok(None);
        }
        let rest = &self.frame[self.given..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.given += (length + 1).min(rest.len());
        Ok(Some(&rest[..length]))
    }

    /// Returns the bytes of the file that have been read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Reads the next frame and returns whether there is one. A torn frame counts as none.
    fn next_frame(&mut self) -> Result<bool, FrameError> {
        (self.given, self.frame) = (0, Vec::new());
        let (frame, at) = (self.frames + 1, self.at);
        let damaged = |problem| Err(FrameError::Damaged { frame, at, problem });
        let head = self.take(HEAD_BYTES as u64)?;
        let Some((length, sum)) = head.first_chunk::<4>().zip(head.last_chunk::<4>()) else {
            return Ok(false);
        };
        if head.len() < HEAD_BYTES {
            return Ok(false);
        }
        if chained(self.chain, length) != u32::from_le_bytes(*sum) {
            let torn = self.ends_in_zeroes(&head)?;
            return if torn { Ok(false) } else { damaged("the checksum of its length does not fit") };
        }
        let lines = self.take(u64::from(u32::from_le_bytes(*length)))?;
        let tail = self.take(TAIL_BYTES as u64)?;
        let Some(sum) = tail.first_chunk::<TAIL_BYTES>() else { return Ok(false) };
        let chain = chained(self.chain, &[head.as_slice(), &lines].concat());
        if chain != u32::from_le_bytes(*sum) {
            let torn = self.ends_in_zeroes(&tail)?;
            return if torn { Ok(false) } else { damaged("the frame's checksum does not fit") };
        }
        (self.chain, self.frame, self.frames) = (chain, lines, frame);
        Ok(true)
    }

    /// Reads this number of bytes, or fewer at the end of the file. A damaged length allocates no more memory than the
    /// file has bytes.
    fn take(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut taken = Vec::new();
        self.from.by_ref().take(bytes).read_to_end(&mut taken)?;
        self.at += taken.len() as u64;
        Ok(taken)
    }

    /// Returns whether the file has only zeroes from some byte of `sum`, the last bytes read, on: a file system may
    /// have allocated space that was never written.
    fn ends_in_zeroes(&mut self, sum: &[u8]) -> io::Result<bool> {
        let mut rest = [0; 4096];
        let (mut zeroes, mut more) = (sum.last() == Some(&0), false);
        while zeroes {
            match self.from.read(&mut rest)? {
                0 => return Ok(more),
                n => zeroes = rest[..n].iter().all(|byte| *byte == 0),
            }
            more = true;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(frames: &[&[&str]]) -> Vec<u8> {
        let mut to = Frames::new(Vec::new()).unwrap();
        for lines in frames {
            lines.iter().for_each(|line| writeln!(to, "{line}").unwrap());
            to.cut().unwrap();
        }
        to.end().unwrap()
    }

    fn read(file: &[u8]) -> Result<Vec<String>, FrameError> {
        let mut lines = FrameLines::new(file)?;
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            all.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(all)
    }

    const THREE: &[&[&str]] = &[&["a", "bc"], &["", "def"], &["the last"]];
    const LINES: [&str; 5] = ["a", "bc", "", "def", "the last"];

    #[test]
    fn a_file_that_is_torn_anywhere_ends_with_its_last_whole_frame() {
        let file = written(THREE);
        assert_eq!(read(&file).unwrap(), LINES);
        let letters = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for end in letters..file.len() {
            let mut torn = file[..end].to_vec();
            let lines = read(&torn).unwrap();
            assert!(
                LINES.starts_with(&lines.iter().map(String::as_str).collect::<Vec<_>>()) && lines.len() < 5
            );
            // After a power cut the file may end with allocated space that was never written.
            torn.extend([0; 10_000]);
            assert_eq!(read(&torn).unwrap(), lines, "{end}");
        }
        assert!(matches!(read(&file[..letters - 1]), Err(FrameError::NoRecording)));
    }

    #[test]
    fn frames_in_another_order_are_damage() {
        let [one, two] = [written(&THREE[..1]).len(), written(&THREE[..2]).len()];
        let (file, start) = (written(THREE), written(&[]).len());
        let swapped = [&file[..start], &file[one..two], &file[start..one], &file[two..]].concat();
        let missing = [&file[..start], &file[one..]].concat();
        let doubled = [&file[..one], &file[start..]].concat();
        for (file, at) in [(swapped, 1), (missing, 1), (doubled, 2)] {
            let error = read(&file).unwrap_err();
            assert!(matches!(error, FrameError::Damaged { frame, .. } if frame == at), "{error}");
        }
    }

    #[test]
    fn other_files_and_other_versions_are_refused_by_name() {
        for (bytes, answers) in [
            (&b""[..], "the file is no recording"),
            (&[b'x'; 200], "the file is no recording"),
            (b"freeblock recording 1\n", "of version 1"),
            (b"freeblock recording \x1b[1m\n", "of version \\u{1b}[1m"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(answers), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_byte_that_is_changed_is_found(at in any::<prop::sample::Index>(), by in 1u8..) {
            let mut file = written(THREE);
            let at = at.index(file.len());
            file[at] ^= by;
            prop_assert!(read(&file).is_err(), "byte {}", at);
        }
    }
}
