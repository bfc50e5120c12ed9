//! The image format, version 1: a header, chunks in any order, an index, a footer (docs/BACKUP.md). Little-endian.

use super::{Sink, Source};
use crate::codec::{Cursor, seal, unseal};
use crate::snapshot::{Shape, SnapshotId, VolumeId};
use scheduler::BLOCK_SECTORS_MAX;
use thiserror::Error;
use units::{Lbn, Sectors};

const MAGIC: &[u8; 8] = b"FBIMAGE1";
const CHUNK: u32 = u32::from_le_bytes(*b"CHNK");
const INDEX: u32 = u32::from_le_bytes(*b"INDX");
const FOOTER: &[u8; 8] = b"FBFOOTER";
/// Bytes of the header.
pub const HEADER_BYTES: u64 = 92;
/// Bytes before a chunk's body.
pub const CHUNK_BYTES: u64 = 28;
const FOOTER_BYTES: usize = 36;
/// The largest block size that an image may claim, in bytes: a damaged header must not make a reader allocate more.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// The value of [`Header::chunks`] for a difference found by comparing blocks: the number is known only at the end.
pub const OPEN: u64 = u64::MAX;

/// The header of an image: which snapshot it holds, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The identifier of the image, drawn at random by the host; every chunk's checksum depends on it.
    pub image: u64,
    /// The volume, with the size and number of its blocks.
    pub shape: Shape,
    /// The snapshot in the image.
    pub snapshot: SnapshotId,
    /// The base of a difference; `None` for an image of all blocks.
    pub base: Option<SnapshotId>,
    /// Bytes in a sector.
    pub sector_bytes: u32,
    /// The number of chunks in a complete image; if this is [`OPEN`], the index has the number.
    pub chunks: u64,
}

/// Damage in an image, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the image is damaged at byte {at}: {what}; {mend}", mend = .what.mend())]
pub struct Damage {
    /// The offset of the damage, in bytes from the start of the image.
    pub at: u64,
    /// The kind of damage.
    pub what: What,
}

/// The kind of damage in an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum What {
    /// The first bytes are not a header of this version.
    #[error("the header is cut off, damaged, or not of an image of version 1")]
    Header,
    /// Neither a chunk nor the index begins here.
    #[error("neither a whole chunk nor the index begins here")]
    Chunk,
    /// The chunk's data do not match its checksum.
    #[error("the data of block {0} do not fit their checksum")]
    Body(u64),
    /// Two chunks hold the same block.
    #[error("two chunks hold block {0}")]
    Twice(u64),
    /// Chunks are missing.
    #[error("the image has {found} of {expected} chunks")]
    Incomplete {
        /// The number of chunks found.
        found: u64,
        /// The number of chunks in the header.
        expected: u64,
    },
    /// The index does not match the chunks.
    #[error("the index is cut off, damaged, or of other chunks")]
    Index,
    /// The footer does not match.
    #[error("the footer is cut off, damaged, or followed by more bytes")]
    Footer,
    /// The source cannot be read.
    #[error("the source cannot be read: {0}")]
    Source(String),
}

impl What {
    fn mend(&self) -> &'static str {
        match self {
            Self::Header => "an image without a header cannot be read; give another copy",
            Self::Incomplete { .. } => "the backup was not finished: resume it",
            Self::Source(_) => "mend the source, and read again",
            Self::Footer => "if the backup was not finished, resume it; the blocks can be salvaged",
            Self::Chunk | Self::Body(_) | Self::Twice(_) | Self::Index => "undamaged blocks can be salvaged",
        }
    }
}

impl Header {
    /// Returns the bytes in a whole block.
    pub fn block_bytes(&self) -> usize {
        self.shape.block.get() as usize * self.sector_bytes as usize
    }

    /// Returns whether the fields are within the bounds of the format and fit each other.
    pub fn fits(&self) -> bool {
        let (block, sector) = (self.shape.block.get(), u64::from(self.sector_bytes));
        let end = self.shape.blocks.checked_mul(block).and_then(|n| n.checked_add(self.shape.first.get()));
        (1..=BLOCK_SECTORS_MAX).contains(&block)
            && sector > 0
            && block * sector <= BLOCK_BYTES_MAX
            && self.shape.blocks < 1 << 50
            && end.is_some()
            && (self.chunks <= self.shape.blocks || (self.chunks == OPEN && self.base.is_some()))
            && self.snapshot.0 > 0
            && self.base.is_none_or(|b| b.0 > 0 && b < self.snapshot)
    }

    /// Returns whether a complete image may have `chunks` chunks.
    fn takes(&self, chunks: u64) -> bool {
        self.chunks == chunks || (self.chunks == OPEN && chunks <= self.shape.blocks)
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&self.sector_bytes.to_le_bytes());
        out.extend_from_slice(&self.shape.volume.0.to_le_bytes());
        let Shape { first, block, blocks, .. } = self.shape;
        let base = self.base.map_or(0, |b| b.0);
        for n in [self.image, self.snapshot.0, base, first.get(), block.get(), blocks, self.chunks] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The bytes are not the header of an image.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let parse = || {
            let mut c = Cursor::new(unseal(bytes)?.strip_prefix(MAGIC)?);
            (c.u32()? == 1).then_some(())?;
            let (sector_bytes, volume) = (c.u32()?, VolumeId(c.u128()?));
            let (image, snapshot) = (c.u64()?, SnapshotId(c.u64()?));
            let base = c.u64().map(|b| (b > 0).then_some(SnapshotId(b)))?;
            let (first, block, blocks) = (Lbn::new(c.u64()?), Sectors::new(c.u64()?), c.u64()?);
            let shape = Shape { volume, first, block, blocks };
            let header = Self { image, shape, snapshot, base, sector_bytes, chunks: c.u64()? };
            (c.is_empty() && header.fits()).then_some(header)
        };
        parse().ok_or(Damage { at: 0, what: What::Header })
    }
}

/// Returns a checksum that depends on the image, so that a chunk left over from another image does not pass for one
/// of this image.
fn sum(image: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&image.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Writes an image: bytes wait in memory until the sink takes them.
#[derive(Clone, Debug)]
pub struct ImageWriter<S> {
    header: Header,
    sink: S,
    at: u64,
    index: Vec<IndexEntry>,
    waiting: Vec<u8>,
    /// Whether index and footer were appended.
    ended: bool,
}

impl<S: Sink> ImageWriter<S> {
    /// Creates a writer of a new image.
    pub fn new(header: Header, sink: S) -> Self {
        let waiting = header.encode();
        Self { header, sink, at: waiting.len() as u64, index: Vec::new(), waiting, ended: false }
    }

    /// Continues an image of which the first [`Scan::keep`] bytes are kept; before the call the host cuts off the
    /// rest.
    pub fn resume(scan: Scan, sink: S) -> Self {
        Self {
            header: scan.header,
            sink,
            at: scan.keep,
            index: scan.index,
            waiting: Vec::new(),
            ended: false,
        }
    }

    /// Returns the image's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the sink.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the sink; bytes that it has not taken are dropped.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Iterates over the blocks in the image.
    pub fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.index.iter().map(|entry| entry.block)
    }

    /// Returns the number of bytes that the sink has not taken.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a chunk. `bad` has the indices in the block of the sectors that could not be read; a lost block has no
    /// bytes and all sectors bad.
    pub fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        let mut body: Vec<u8> = bad.iter().flat_map(|s| s.to_le_bytes()).collect();
        body.extend_from_slice(bytes);
        let mut head = CHUNK.to_le_bytes().to_vec();
        head.extend_from_slice(&(bad.len() as u32).to_le_bytes());
        head.extend_from_slice(&block.to_le_bytes());
        head.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        head.extend_from_slice(&sum(self.header.image, &body).to_le_bytes());
        let own = sum(self.header.image, &head);
        head.extend_from_slice(&own.to_le_bytes());
        self.index.push(IndexEntry { block, at: self.at });
        self.at += (head.len() + body.len()) as u64;
        self.waiting.extend_from_slice(&head);
        self.waiting.extend_from_slice(&body);
    }

    /// Adds index and footer.
    pub fn finish(&mut self) {
        self.ended = true;
        let start = self.at;
        let mut out = INDEX.to_le_bytes().to_vec();
        out.extend_from_slice(&(self.index.len() as u64).to_le_bytes());
        self.index.sort_unstable();
        for n in self.index.iter().flat_map(|entry| [entry.block, entry.at]) {
            out.extend_from_slice(&n.to_le_bytes());
        }
        seal(&mut out);
        let mut footer = FOOTER.to_vec();
        for n in [start, self.index.len() as u64, self.header.image] {
            footer.extend_from_slice(&n.to_le_bytes());
        }
        seal(&mut footer);
        out.extend_from_slice(&footer);
        self.at += out.len() as u64;
        self.waiting.extend_from_slice(&out);
    }

    /// Gives the waiting bytes to the sink; returns whether the sink took all of them. If so, a finished image is
    /// durable.
    ///
    /// # Errors
    /// The sink failed.
    pub fn flush(&mut self) -> Result<bool, String> {
        while !self.waiting.is_empty() {
            let n = self.sink.append(&self.waiting)?.min(self.waiting.len());
            if n == 0 {
                return Ok(false);
            }
            self.waiting.drain(..n);
        }
        if self.ended {
            self.sink.sync()?;
        }
        Ok(true)
    }
}

/// A chunk: one block in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of the chunk in the image, in bytes.
    pub at: u64,
    /// The offset of the next chunk.
    pub end: u64,
    /// The block.
    pub block: u64,
    /// The block's bytes, with zeros for bad sectors; empty if the block is lost.
    pub bytes: Vec<u8>,
    /// The sectors of the block that could not be read.
    pub bad: Vec<u32>,
}

/// Reads `len` bytes, fewer only at the end of the source.
pub(super) fn bytes_at<S: Source>(source: &mut S, at: u64, len: usize) -> Result<Vec<u8>, Damage> {
    let mut bytes = vec![0; len];
    let n = source.read_at(at, &mut bytes).map_err(|e| Damage { at, what: What::Source(e) })?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Reads the header.
///
/// # Errors
/// The source cannot be read, or does not begin with a header.
pub fn header<S: Source>(source: &mut S) -> Result<Header, Damage> {
    Header::decode(&bytes_at(source, 0, HEADER_BYTES as usize)?)
}

/// Reads the chunk at offset `at`; returns `None` if the index begins there.
///
/// # Errors
/// Neither a chunk nor the index begins at `at`, or the chunk is damaged.
pub fn chunk<S: Source>(source: &mut S, header: &Header, at: u64) -> Result<Option<Chunk>, Damage> {
    let damage = |what| Damage { at, what };
    let head = bytes_at(source, at, CHUNK_BYTES as usize)?;
    if head.starts_with(&INDEX.to_le_bytes()) {
        return Ok(None);
    }
    let parse = || {
        let (own, check) = head.split_last_chunk::<4>()?;
        let mut c = Cursor::new(&head);
        let (magic, bad, block) = (c.u32()?, c.u32()?, c.u64()?);
        let (len, body) = (c.u32()?, c.u32()?);
        let sectors = header.shape.block.get();
        let size = header.block_bytes() as u64;
        let fits = u64::from(len) == size || (len == 0 && u64::from(bad) == sectors);
        let sound = magic == CHUNK && sum(header.image, own) == u32::from_le_bytes(*check);
        (sound && fits && u64::from(bad) <= sectors && block < header.shape.blocks)
            .then_some((bad, block, len, body))
    };
    let (bad, block, len, check) = parse().ok_or(damage(What::Chunk))?;
    let body_len = bad as usize * 4 + len as usize;
    let body = bytes_at(source, at + CHUNK_BYTES, body_len)?;
    if body.len() != body_len || sum(header.image, &body) != check {
        return Err(damage(What::Body(block)));
    }
    let (list, bytes) = body.split_at(bad as usize * 4);
    let list: Vec<u32> =
        list.chunks_exact(4).filter_map(|b| b.try_into().ok().map(u32::from_le_bytes)).collect();
    let ascending = list.windows(2).all(|w| w[0] < w[1]);
    if !ascending || list.last().is_some_and(|s| u64::from(*s) >= header.shape.block.get()) {
        return Err(damage(What::Body(block)));
    }
    let end = at + CHUNK_BYTES + body_len as u64;
    Ok(Some(Chunk { at, end, block, bytes: bytes.to_vec(), bad: list }))
}

/// Checks index and footer, which begin at `at`, against the chunks that were seen.
pub(super) fn ending<S: Source>(
    source: &mut S,
    header: &Header,
    at: u64,
    index: &[IndexEntry],
) -> Result<(), Damage> {
    let damage = |what| Damage { at, what };
    let bytes = bytes_at(source, at, 12 + index.len() * 16 + 4)?;
    let mut sorted = index.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|w| w[0].block == w[1].block) {
        return Err(Damage { at: pair[1].at, what: What::Twice(pair[1].block) });
    }
    let fits = || {
        let mut c = Cursor::new(unseal(&bytes)?);
        (c.u32()? == INDEX && c.u64()? == index.len() as u64).then_some(())?;
        for entry in &sorted {
            (c.u64()? == entry.block && c.u64()? == entry.at).then_some(())?;
        }
        Some(())
    };
    fits().ok_or(damage(What::Index))?;
    let from = at + bytes.len() as u64;
    let footer = bytes_at(source, from, FOOTER_BYTES + 1)?;
    let fits = || {
        let mut c = Cursor::new(unseal(&footer)?.strip_prefix(FOOTER)?);
        (c.u64()? == at && c.u64()? == index.len() as u64 && c.u64()? == header.image).then_some(())
    };
    fits().ok_or(Damage { at: from, what: What::Footer })?;
    if !header.takes(index.len() as u64) {
        return Err(damage(What::Incomplete { found: index.len() as u64, expected: header.chunks }));
    }
    Ok(())
}

/// An entry of the index: a block, and the offset of its chunk in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexEntry {
    /// The number of the block.
    pub block: u64,
    /// The offset in bytes.
    pub at: u64,
}

/// The index of a finished image: finds a block's chunk without reading the others.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    header: Header,
    at: u64,
    chunks: u64,
}

/// Bytes of an entry of the index, and of the part of the index before its first entry.
const ENTRY_BYTES: u64 = 16;
const INDEX_HEAD_BYTES: u64 = 12;

impl Index {
    /// Reads header and footer, and verifies the index.
    ///
    /// # Errors
    /// Header, footer or index is damaged, or the backup was not finished.
    pub fn open<S: Source>(source: &mut S) -> Result<Self, Damage> {
        let header = header(source)?;
        let size = source.size().map_err(|e| Damage { at: 0, what: What::Source(e) })?;
        let from = size.saturating_sub(FOOTER_BYTES as u64);
        let footer = bytes_at(source, from, FOOTER_BYTES)?;
        let parse = || {
            let mut c = Cursor::new(unseal(&footer)?.strip_prefix(FOOTER)?);
            let (at, chunks, image) = (c.u64()?, c.u64()?, c.u64()?);
            let end = chunks.checked_mul(ENTRY_BYTES)?.checked_add(INDEX_HEAD_BYTES + 4)?.checked_add(at)?;
            (image == header.image && end == from && header.takes(chunks)).then_some((at, chunks))
        };
        let (at, chunks) = parse().ok_or(Damage { at: from, what: What::Footer })?;
        let index = Self { header, at, chunks };
        index.verify(source, from - 4)?;
        Ok(index)
    }

    /// Returns the image's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the chunks of the blocks in `first..end` as pairs of block and offset, ascending.
    ///
    /// # Errors
    /// The source fails.
    pub fn find<S: Source>(&self, source: &mut S, first: u64, end: u64) -> Result<Vec<(u64, u64)>, Damage> {
        let (mut low, mut high) = (0, self.chunks);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(source, middle)?.block < first {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut found = Vec::new();
        for i in low..self.chunks {
            let entry = self.entry(source, i)?;
            if entry.block >= end {
                break;
            }
            found.push((entry.block, entry.at));
        }
        Ok(found)
    }

    fn entry<S: Source>(&self, source: &mut S, i: u64) -> Result<IndexEntry, Damage> {
        let here = self.at + INDEX_HEAD_BYTES + i * ENTRY_BYTES;
        let bytes = bytes_at(source, here, ENTRY_BYTES as usize)?;
        let mut c = Cursor::new(&bytes);
        let entry = c.u64().zip(c.u64()).map(|(block, at)| IndexEntry { block, at });
        entry.ok_or(Damage { at: here, what: What::Index })
    }

    /// Compares the index, which ends at `end`, with its checksum.
    fn verify<S: Source>(&self, source: &mut S, end: u64) -> Result<(), Damage> {
        let damage = Damage { at: self.at, what: What::Index };
        let mut hasher = crc32fast::Hasher::new();
        let mut at = self.at;
        while at < end {
            let bytes = bytes_at(source, at, (end - at).min(1 << 16) as usize)?;
            if bytes.is_empty() {
                return Err(damage);
            }
            hasher.update(&bytes);
            at += bytes.len() as u64;
        }
        let check = bytes_at(source, end, 4)?;
        if check != hasher.finalize().to_le_bytes() { Err(damage) } else { Ok(()) }
    }
}

/// The usable part of an image whose writer was interrupted.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The image's header.
    pub header: Header,
    /// The bytes before this offset are sound; the host cuts off the rest.
    pub keep: u64,
    /// Whether the image is complete: nothing remains to be written.
    pub complete: bool,
    /// The damage at which the sound part ends.
    pub cut: Option<Damage>,
    index: Vec<IndexEntry>,
}

impl Scan {
    /// Returns the number of sound chunks.
    pub fn chunks(&self) -> u64 {
        self.index.len() as u64
    }
}

/// Reads an image up to its first damage; the volume is not read.
///
/// # Errors
/// The header is damaged: start a new image.
pub fn scan<S: Source>(source: &mut S) -> Result<Scan, Damage> {
    let header = header(source)?;
    let mut scan = Scan { header, keep: HEADER_BYTES, complete: false, cut: None, index: Vec::new() };
    loop {
        match chunk(source, &header, scan.keep) {
            Ok(Some(chunk)) => {
                scan.index.push(IndexEntry { block: chunk.block, at: scan.keep });
                scan.keep = chunk.end;
            }
            Ok(None) => {
                scan.cut = ending(source, &header, scan.keep, &scan.index).err();
                scan.complete = scan.cut.is_none();
                return Ok(scan);
            }
            Err(damage) => {
                scan.cut = Some(damage);
                return Ok(scan);
            }
        }
    }
}
