//! The bytes of a trace, read a piece at a time.

use super::TraceError;
use std::io::{ErrorKind, Read};

/// Bytes read from the source at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// The longest line that a text format may have, and the longest run of bytes that [`Input::peek`] gives.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// A buffer over a source of bytes, with the place of its first byte for errors.
pub(super) struct Input<'a> {
    source: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    /// The first byte of the buffer that has not been consumed.
    start: usize,
    /// The number of bytes consumed.
    offset: u64,
    /// The number of lines consumed.
    lines: u64,
    ended: bool,
}

impl<'a> Input<'a> {
    pub(super) fn new(source: impl Read + 'a) -> Self {
        let source = Box::new(source);
        Self { source, buffer: Vec::new(), start: 0, offset: 0, lines: 0, ended: false }
    }

    /// Returns the number of bytes consumed.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns at least `bytes` bytes from the present place on, without consuming them; fewer at the end of the
    /// source.
    pub(super) fn peek(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        let bytes = bytes.min(LINE_BYTES_MAX);
        while self.buffer.len() - self.start < bytes && !self.ended {
            self.fill()?;
        }
        Ok(self.buffer.get(self.start..).unwrap_or_default())
    }

    /// Skips `bytes` of the bytes that were peeked.
    pub(super) fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.buffer.len() - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Returns the next line without its end, and its number from 1; `None` at the end of the source.
    ///
    /// # Errors
    /// The line has more than a megabyte; the source failed.
    pub(super) fn line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        let mut searched = 0;
        let (len, end) = loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            if let Some(at) = rest.iter().skip(searched).position(|&byte| byte == b'\n') {
                break (searched + at, searched + at + 1);
            }
            searched = rest.len();
            if searched > LINE_BYTES_MAX {
                return Err(TraceError::Text {
                    line: self.lines as usize + 1,
                    column: LINE_BYTES_MAX,
                    found: "a line of more than a megabyte (is the file binary?)".to_owned(),
                    expected: "the end of the line",
                });
            }
            if self.ended {
                break (searched, searched);
            }
            self.fill()?;
        };
        if end == 0 {
            return Ok(None);
        }
        let from = self.start;
        self.consume(end);
        self.lines += 1;
        let line = self.buffer.get(from..from + len).unwrap_or_default();
        Ok(Some((self.lines, line.strip_suffix(b"\r").unwrap_or(line))))
    }

    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let len = self.buffer.len();
        self.buffer.resize(len + CHUNK_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer.truncate(len + *read.as_ref().unwrap_or(&0));
        let read = read.map_err(|error| TraceError::Read {
            offset: self.offset + len as u64,
            found: error.to_string(),
        })?;
        self.ended = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives one byte at a time, and fails once with an interruption.
    struct Dribble<'a>(&'a [u8], bool);

    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::take(&mut self.1) {
                return Err(ErrorKind::Interrupted.into());
            }
            self.0.take(1).read(into).inspect(|&read| self.0 = &self.0[read..])
        }
    }

    #[test]
    fn lines_come_whole_from_a_slow_source() {
        let mut input = Input::new(Dribble(b"one\r\n\ntwo\nthree", true));
        let mut lines = Vec::new();
        while let Some((number, line)) = input.line().unwrap() {
            lines.push((number, String::from_utf8(line.to_vec()).unwrap()));
        }
        let expected = [(1, "one"), (2, ""), (3, "two"), (4, "three")];
        assert_eq!(lines, expected.map(|(number, line)| (number, line.to_owned())));
        assert_eq!(input.offset(), 15);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let mut input = Input::new(std::io::repeat(b'x'));
        assert!(input.line().unwrap_err().to_string().contains("more than a megabyte"));
        assert!(input.buffer.len() < 2 * LINE_BYTES_MAX);
    }

    #[test]
    fn peeking_consumes_nothing() {
        let mut input = Input::new(Dribble(b"abcdef", false));
        assert_eq!(input.peek(3).unwrap(), b"abc");
        input.consume(2);
        assert!(input.peek(4).unwrap().starts_with(b"cdef"));
        assert!(input.peek(100).unwrap().starts_with(b"cdef"));
        assert_eq!(input.offset(), 2);
    }
}
