//! The common part of this crate's files: their beginning and end, and the encoding of numbers.
//!
//! A file has eight letters, the version (u32), the length of the body (u64), the body, and the CRC-32 of everything
//! before it (u32). All numbers are little-endian.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// The bytes of letters, version and length.
pub(crate) const HEAD_BYTES: usize = 20;

/// The bytes of letters, version, length and checksum.
const FRAME_BYTES: usize = HEAD_BYTES + 4;

/// The bytes of a file that each reader has in memory at a time.
const WINDOW_BYTES: usize = 4 << 10;

/// The longest name of a drive in a file, in bytes; a longer one is cut.
pub const NAME_BYTES_MAX: usize = 255;

/// The reason why bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The letters are those of another kind of file.
    Letters,
    /// The version is not the one that this program reads.
    Version(u32),
    /// The bytes are cut off, or followed by more; lengths in bytes.
    Length { found: u64, expected: u64 },
    /// The bytes have changed.
    Checksum { found: u32, expected: u32 },
    /// The bytes are whole, but their content at this offset is impossible.
    Content { at: u64, what: &'static str },
    /// The file cannot be read.
    Unreadable(ErrorKind),
    /// The content takes at least `least` bytes of memory, which is more than the limit.
    NoRoom { least: u64 },
}

/// Writes bytes in a frame. The caller may take them a part at a time, so that they need not all be in memory at
/// once; the contents of the file's head then come last.
#[derive(Debug)]
pub(crate) struct Writer {
    head: [u8; HEAD_BYTES],
    out: Vec<u8>,
    /// The bytes of the body that have been taken.
    taken: u64,
    sum: crc32fast::Hasher,
}

impl Writer {
    pub fn new(letters: [u8; 8], version: u32, size: usize) -> Self {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&letters);
        head[8..12].copy_from_slice(&version.to_le_bytes());
        let mut out = Vec::with_capacity(FRAME_BYTES + size);
        out.extend_from_slice(&head);
        Self { head, out, taken: 0, sum: crc32fast::Hasher::new() }
    }

    /// Takes the bytes written since the last call. The first bytes of the file are a placeholder for the head, which
    /// is not known yet.
    pub fn take(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.out);
        let body = out.get(self.head_in_out()..).unwrap_or_default();
        self.sum.update(body);
        self.taken += out.len() as u64;
        out
    }

    /// Returns the remaining bytes, and the head that replaces the placeholder.
    pub fn end(mut self) -> (Vec<u8>, [u8; HEAD_BYTES]) {
        let mut rest = self.take();
        self.head[HEAD_BYTES - 8..].copy_from_slice(&(self.taken - HEAD_BYTES as u64).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.head);
        sum.combine(&self.sum);
        rest.extend_from_slice(&sum.finalize().to_le_bytes());
        (rest, self.head)
    }

    /// Returns the whole file, if no bytes have been taken.
    pub fn sealed(self) -> Vec<u8> {
        let (mut all, head) = self.end();
        if let Some(first) = all.get_mut(..HEAD_BYTES) {
            first.copy_from_slice(&head);
        }
        all
    }

    fn head_in_out(&self) -> usize {
        if self.taken == 0 { HEAD_BYTES } else { 0 }
    }

    pub fn u16(&mut self, n: u16) {
        self.out.extend_from_slice(&n.to_le_bytes());
    }

    pub fn u8(&mut self, n: u8) {
        self.out.push(n);
    }

    pub fn u32(&mut self, n: u32) {
        self.out.extend_from_slice(&n.to_le_bytes());
    }

    pub fn u64(&mut self, n: u64) {
        self.out.extend_from_slice(&n.to_le_bytes());
    }

    pub fn i64(&mut self, n: i64) {
        self.out.extend_from_slice(&n.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a name: length (u16) and UTF-8, cut at [`NAME_BYTES_MAX`] bytes.
    pub fn name(&mut self, name: &str) {
        let name = cut(name);
        self.out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.out.extend_from_slice(name.as_bytes());
    }

    /// Writes the difference between two consecutive distances and a mark of one bit, in groups of seven bits
    /// (LEB128).
    pub fn way(&mut self, way: u64, mark: bool) {
        let mut way = u128::from(way) << 1 | u128::from(mark);
        while way >= 1 << 7 {
            self.out.push(way as u8 | 1 << 7);
            way >>= 7;
        }
        self.out.push(way as u8);
    }
}

/// Returns the part of a name that a file stores.
pub(crate) fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// A source of bytes with random access.
pub(crate) trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// A file of which little is in memory: several readers share it, each with a window of its own.
pub(crate) struct File<'a>(RefCell<&'a mut dyn Source>);

impl<'a> File<'a> {
    pub fn new(source: &'a mut dyn Source) -> Self {
        Self(RefCell::new(source))
    }

    fn len(&self) -> io::Result<u64> {
        self.0.borrow_mut().seek(SeekFrom::End(0))
    }

    /// Fills `into` with the bytes of the file from offset `at` on.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut source = self.0.borrow_mut();
        source.seek(SeekFrom::Start(at))?;
        source.read_exact(into)
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("File")
    }
}

/// Reads the fields of a body.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    file: &'a File<'a>,
    /// The end of the body.
    end: u64,
    at: u64,
    /// The bytes of the file from `begin` on that are in memory.
    window: Vec<u8>,
    begin: u64,
}

impl<'a> Reader<'a> {
    /// Opens a frame at its body, after reading the whole file to check its length and checksum.
    pub fn open(file: &'a File<'a>, letters: [u8; 8], version: u32) -> Result<Self, Broken> {
        let found = file.len().map_err(unreadable)?;
        let mut read = Self { file, end: found, at: 0, window: Vec::new(), begin: 0 };
        let (other, short) = (Broken::Letters, Broken::Length { found, expected: FRAME_BYTES as u64 });
        if read.take().map_err(or_unreadable(other))? != letters {
            return Err(other);
        }
        let is = read.u32().map_err(or_unreadable(short))?;
        if is != version {
            return Err(Broken::Version(is));
        }
        let expected = read.u64().map_err(or_unreadable(short))?.saturating_add(FRAME_BYTES as u64);
        if expected != found {
            return Err(Broken::Length { found, expected });
        }
        let body = read.at;
        (read.end, read.at) = (found - 4, 0);
        let mut sum = crc32fast::Hasher::new();
        while read.at < read.end {
            read.refill(1)?;
            sum.update(&read.window);
            read.at += read.window.len() as u64;
        }
        let mut last = [0; 4];
        file.read(read.end, &mut last).map_err(unreadable)?;
        let (found, expected) = (sum.finalize(), u32::from_le_bytes(last));
        if found != expected {
            return Err(Broken::Checksum { found, expected });
        }
        read.at = body;
        Ok(read)
    }

    /// Loads at least the next `least` bytes, and bytes after them, into the window.
    fn refill(&mut self, least: usize) -> Result<(), Broken> {
        let left = self.end.saturating_sub(self.at);
        if left < least as u64 {
            return Err(self.wrong("the data end early"));
        }
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW_BYTES.max(least));
        self.window.resize(size, 0);
        self.begin = self.at;
        let read = self.file.read(self.at, &mut self.window);
        if read.is_err() {
            self.window.clear();
        }
        read.map_err(unreadable)
    }

    /// Checks that the body has ended.
    pub fn end(&self) -> Result<(), Broken> {
        if self.at == self.end { Ok(()) } else { Err(self.wrong("bytes follow the end")) }
    }

    pub fn wrong(&self, what: &'static str) -> Broken {
        Broken::Content { at: self.at, what }
    }

    /// Reads a number of items, each of at least `each` bytes. The number must be at least `least`, and the items
    /// must fit into the rest of the body.
    pub fn count(&mut self, least: usize, each: usize, what: &'static str) -> Result<usize, Broken> {
        let count = self.u64()?;
        let most = (self.end - self.at) / each.max(1) as u64;
        usize::try_from(count)
            .ok()
            .filter(|n| *n >= least && *n as u64 <= most)
            .ok_or_else(|| self.wrong(what))
    }

    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        if let Some(found) = self.window(N).and_then(|found| found.try_into().ok()) {
            self.at += N as u64;
            return Ok(found);
        }
        self.refill(N)?;
        let found = self.window(N).and_then(|found| found.try_into().ok());
        let found = found.ok_or_else(|| self.wrong("the data end early"))?;
        self.at += N as u64;
        Ok(found)
    }

    /// Returns the next `len` bytes, if they are in the window.
    fn window(&self, len: usize) -> Option<&[u8]> {
        // The window of a reader of a part of the body is a copy, which may extend past the end of that part.
        self.at.checked_add(len as u64).filter(|end| *end <= self.end)?;
        let from = usize::try_from(self.at.checked_sub(self.begin)?).ok()?;
        self.window.get(from..from.checked_add(len)?)
    }

    /// Skips `len` bytes; returns a reader of these bytes.
    pub fn pass(&mut self, len: u64) -> Result<Self, Broken> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end);
        let end = end.ok_or_else(|| self.wrong("the data end early"))?;
        let other = Self { end, ..self.clone() };
        self.at = end;
        Ok(other)
    }

    pub fn u8(&mut self) -> Result<u8, Broken> {
        self.take::<1>().map(|[b]| b)
    }

    pub fn u16(&mut self) -> Result<u16, Broken> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Broken> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Broken> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Broken> {
        self.take().map(i64::from_le_bytes)
    }

    pub fn name(&mut self) -> Result<String, Broken> {
        let len = usize::from(self.u16()?);
        if len <= NAME_BYTES_MAX && self.window(len).is_none() {
            self.refill(len)?;
        }
        let name = self.window(len).filter(|_| len <= NAME_BYTES_MAX);
        let name = name
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| self.wrong("a name that is no text"))?
            .to_owned();
        self.at += len as u64;
        Ok(name)
    }

    /// Reads the next of ascending distances, which is at most `furthest` from zero and larger than `before` unless
    /// it is the first; and its mark.
    pub fn after(&mut self, before: i64, first: bool, furthest: i64) -> Result<(i64, bool), Broken> {
        let way = self.way()?;
        let (way, mark) = (way >> 1, way & 1 == 1);
        let next = i64::try_from(way).ok().and_then(|way| before.checked_add(way));
        let ascends = first == (way == 0);
        next.filter(|d| ascends && d.unsigned_abs() <= furthest.unsigned_abs())
            .map(|next| (next, mark))
            .ok_or_else(|| self.wrong("distances that do not ascend, or leave every drive"))
    }

    /// Reads a number of up to 70 bits in groups of seven bits.
    fn way(&mut self) -> Result<u128, Broken> {
        let mut way = 0u128;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            way |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(way);
            }
        }
        Err(self.wrong("a number without an end"))
    }
}

fn unreadable(error: io::Error) -> Broken {
    Broken::Unreadable(error.kind())
}

/// Maps errors to `otherwise`, except errors of reading the file.
fn or_unreadable(otherwise: Broken) -> impl Fn(Broken) -> Broken {
    move |error| if matches!(error, Broken::Unreadable(_)) { error } else { otherwise }
}
