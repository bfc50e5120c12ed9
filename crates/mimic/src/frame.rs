//! What the files of this crate have in common: how they begin and end, and how numbers are read from them.
//!
//! All numbers little-endian. Eight letters, version (u32), length of the body (u64); the body; the CRC-32 of all before
//! it (u32).

/// Letters, version and length.
pub(crate) const HEAD: usize = 20;

/// Letters, version, length and checksum.
const FRAME: usize = HEAD + 4;

/// The longest name of a drive in a file, in bytes.
pub const LONGEST_NAME: usize = 255;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Something else.
    Letters,
    /// Another version.
    Version(u32),
    /// Cut off, or with more after it; in bytes.
    Length { found: u64, expected: u64 },
    /// Changed.
    Checksum { found: u32, expected: u32 },
    /// Whole, but what it says at a byte cannot be.
    Content { at: usize, what: &'static str },
}

/// Bytes that are put into a frame. They may be taken a part at a time, so that they need not all be there at once; then what
/// is said in the head comes last.
#[derive(Debug)]
pub(crate) struct Writer {
    head: [u8; HEAD],
    out: Vec<u8>,
    /// Of the body, what has been taken.
    taken: u64,
    sum: crc32fast::Hasher,
}

impl Writer {
    pub fn new(letters: [u8; 8], version: u32, size: usize) -> Self {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&letters);
        head[8..12].copy_from_slice(&version.to_le_bytes());
        let mut out = Vec::with_capacity(FRAME + size);
        out.extend_from_slice(&head);
        Self { head, out, taken: 0, sum: crc32fast::Hasher::new() }
    }

    /// What has been written since it was last taken; first of all the head, which is not known yet.
    pub fn take(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.out);
        let body = out.get(self.head_in_out()..).unwrap_or_default();
        self.sum.update(body);
        self.taken += out.len() as u64;
        out
    }

    /// The rest, and the head.
    pub fn end(mut self) -> (Vec<u8>, [u8; HEAD]) {
        let mut rest = self.take();
        self.head[HEAD - 8..].copy_from_slice(&(self.taken - HEAD as u64).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.head);
        sum.combine(&self.sum);
        rest.extend_from_slice(&sum.finalize().to_le_bytes());
        (rest, self.head)
    }

    /// All of it, of which nothing has been taken.
    pub fn sealed(self) -> Vec<u8> {
        let (mut all, head) = self.end();
        if let Some(first) = all.get_mut(..HEAD) {
            first.copy_from_slice(&head);
        }
        all
    }

    fn head_in_out(&self) -> usize {
        if self.taken == 0 { HEAD } else { 0 }
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

    /// Length (u16) and UTF-8, cut at [`LONGEST_NAME`] bytes.
    pub fn name(&mut self, name: &str) {
        let name = cut(name);
        self.out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.out.extend_from_slice(name.as_bytes());
    }

    /// The way to the next of ascending distances and a mark, in groups of seven bits (LEB128).
    pub fn way(&mut self, way: u64, mark: bool) {
        let mut way = u128::from(way) << 1 | u128::from(mark);
        while way >= 1 << 7 {
            self.out.push(way as u8 | 1 << 7);
            way >>= 7;
        }
        self.out.push(way as u8);
    }
}

/// A name as it is kept.
pub(crate) fn cut(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Reads a body.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// At the body of a frame that is whole.
    pub fn open(bytes: &'a [u8], letters: [u8; 8], version: u32) -> Result<Self, Broken> {
        if !bytes.starts_with(&letters) {
            return Err(Broken::Letters);
        }
        let found = bytes.len() as u64;
        let short = |_| Broken::Length { found, expected: FRAME as u64 };
        let mut read = Self { bytes, at: letters.len() };
        let is = read.u32().map_err(short)?;
        if is != version {
            return Err(Broken::Version(is));
        }
        let expected = read.u64().map_err(short)?.saturating_add(FRAME as u64);
        if expected != found {
            return Err(Broken::Length { found, expected });
        }
        let (rest, sum) = bytes.split_at(bytes.len() - 4);
        let expected = sum.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let found = crc32fast::hash(rest);
        if found != expected {
            return Err(Broken::Checksum { found, expected });
        }
        read.bytes = rest;
        Ok(read)
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Broken> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.wrong("something after its end")) }
    }

    pub fn wrong(&self, what: &'static str) -> Broken {
        Broken::Content { at: self.at, what }
    }

    /// A number of things of at least so many bytes each: no more are believed than there is room for.
    pub fn count(&mut self, least: usize, each: usize, what: &'static str) -> Result<usize, Broken> {
        let count = self.u64()?;
        let most = (self.bytes.len() - self.at) / each.max(1);
        usize::try_from(count).ok().filter(|n| (least..=most).contains(n)).ok_or_else(|| self.wrong(what))
    }

    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let end = self.at.checked_add(N).filter(|end| *end <= self.bytes.len());
        let found = end.and_then(|end| self.bytes[self.at..end].try_into().ok());
        let found = found.ok_or_else(|| self.wrong("nothing, where more must follow"))?;
        self.at += N;
        Ok(found)
    }

    /// The next so many bytes.
    pub fn slice(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| self.wrong("nothing, where more must follow"))?;
        self.at += len;
        Ok(found)
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
        let len = usize::from(self.take().map(u16::from_le_bytes)?);
        let name = self.bytes.get(self.at..self.at + len).filter(|_| len <= LONGEST_NAME);
        let name = name
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| self.wrong("a name that is no text"))?
            .to_owned();
        self.at += len;
        Ok(name)
    }

    /// The next of ascending distances within `furthest`, after `before` unless it is the first; and its mark.
    pub fn after(&mut self, before: i64, first: bool, furthest: i64) -> Result<(i64, bool), Broken> {
        let way = self.way()?;
        let (way, mark) = (way >> 1, way & 1 == 1);
        let next = i64::try_from(way).ok().and_then(|way| before.checked_add(way));
        let ascends = first == (way == 0);
        next.filter(|d| ascends && d.unsigned_abs() <= furthest.unsigned_abs())
            .map(|next| (next, mark))
            .ok_or_else(|| self.wrong("distances that do not ascend, or leave every drive"))
    }

    /// A number in groups of seven bits.
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
