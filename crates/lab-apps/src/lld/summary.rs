//! A segment's summary: all that the log knows of its blocks after a crash.

use super::config::Geometry;
use super::ids::{LogicalBlock, SegmentIndex, Sequence};
use thiserror::Error;
use units::Instant;

/// The first bytes of every summary.
const MAGIC: [u8; 8] = *b"FBLKLLD\0";
/// The version that is written, and the only one that is read.
const VERSION: u16 = 1;
/// The logical block of a vacant slot.
const VACANT: u32 = u32::MAX;
/// The position of the checksum in the header.
const CHECKSUM: std::ops::Range<usize> = 12..16;

/// Returns the checksum that the log keeps of a block's data: CRC-32.
pub fn checksum(data: &[u8]) -> u32 {
    crc32fast::hash(data)
}

/// The entry of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The logical block.
    pub block: LogicalBlock,
    /// CRC-32 of the data.
    pub checksum: u32,
    /// The time at which the client wrote the data; copying does not change it.
    pub modified: Instant,
}

/// The contents of a segment's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The number of the segment among all ever written.
    pub sequence: Sequence,
    /// Slot by slot; `None` for a vacant slot. Each logical block stands in a summary at most once, as an entry or as
    /// a tombstone.
    pub entries: Vec<Option<SlotEntry>>,
    /// Logical blocks that are trimmed.
    pub tombstones: Vec<LogicalBlock>,
}

/// The reason for which a summary, or its segment, is not part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The block was never written.
    #[error("never written")]
    Blank,
    /// The block does not begin like a summary.
    #[error("not a summary")]
    NotASummary,
    /// The summary was written by another version.
    #[error("version {0}; this one reads version {VERSION}")]
    Version(u16),
    /// The summary is torn, or damaged.
    #[error("the checksum does not match: torn, or gone bad")]
    Checksum,
    /// The summary belongs to another log.
    #[error("belongs to another log, identity {0:#018x}")]
    Foreign(u64),
    /// The summary belongs to a log with another layout.
    #[error(
        "belongs to a log with {segments} segments of {blocks} blocks of {block_bytes} bytes from LBN {start}"
    )]
    Geometry {
        /// Segments.
        segments: u32,
        /// Blocks in each.
        blocks: u32,
        /// Bytes of a block.
        block_bytes: u32,
        /// The first LBN.
        start: u64,
    },
    /// The summary was written for another segment.
    #[error("belongs to {0}, which lies elsewhere")]
    WrongSegment(SegmentIndex),
    /// The summary's counts or blocks are out of range.
    #[error("invalid entry: {0}")]
    BadEntry(&'static str),
    /// Two summaries claim the same sequence.
    #[error("two segments have {0}")]
    DuplicateSequence(Sequence),
    /// The last segment did not reach the medium whole.
    #[error("torn: the data of slot {slot} are not those of the summary")]
    Torn {
        /// The first slot that differs.
        slot: u32,
    },
}

impl SegmentSummary {
    /// Writes the summary to the segment's first block, of [`Geometry::block_bytes`] bytes.
    pub(super) fn encode(&self, geometry: &Geometry, segment: SegmentIndex, block: &mut [u8]) {
        let config = geometry.config();
        block.fill(0);
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            block[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[0; 6]); // two reserved bytes, and the checksum's place
        put(&config.identity.to_le_bytes());
        put(&self.sequence.get().to_le_bytes());
        put(&segment.get().to_le_bytes());
        put(&config.segments.to_le_bytes());
        put(&config.blocks_per_segment.to_le_bytes());
        put(&(geometry.block_bytes() as u32).to_le_bytes());
        put(&config.start.get().to_le_bytes());
        put(&(self.entries.len() as u32).to_le_bytes());
        put(&(self.tombstones.len() as u32).to_le_bytes());
        for entry in &self.entries {
            let (block, checksum, modified) = match entry {
                Some(e) => (e.block.get(), e.checksum, e.modified.as_nanos()),
                None => (VACANT, 0, 0),
            };
            put(&block.to_le_bytes());
            put(&checksum.to_le_bytes());
            put(&modified.to_le_bytes());
        }
        for block in &self.tombstones {
            put(&block.get().to_le_bytes());
        }
        let checksum = crc32fast::hash(block);
        block[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// The reason for which the block is not a summary of this segment of this log.
    pub fn decode(geometry: &Geometry, segment: SegmentIndex, block: &[u8]) -> Result<Self, Rejection> {
        let mut fields = Fields(block);
        if block.len() != geometry.block_bytes() || fields.take::<8>()? != MAGIC {
            let blank = block.iter().all(|&b| b == 0);
            return Err(if blank { Rejection::Blank } else { Rejection::NotASummary });
        }
        let version = u16::from_le_bytes(fields.take()?);
        if version != VERSION {
            return Err(Rejection::Version(version));
        }
        fields.take::<2>()?;
        let checksum = fields.u32()?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&block[..CHECKSUM.start]);
        crc.update(&[0; 4]);
        crc.update(&block[CHECKSUM.end..]);
        if crc.finalize() != checksum {
            return Err(Rejection::Checksum);
        }
        let config = geometry.config();
        let identity = fields.u64()?;
        if identity != config.identity {
            return Err(Rejection::Foreign(identity));
        }
        let sequence = Sequence::new(fields.u64()?);
        if sequence.get() == 0 || sequence.get() == u64::MAX {
            return Err(Rejection::BadEntry("a sequence that is never given"));
        }
        let place = SegmentIndex::new(fields.u32()?);
        let (segments, blocks, block_bytes, start) =
            (fields.u32()?, fields.u32()?, fields.u32()?, fields.u64()?);
        let ours = (config.segments, config.blocks_per_segment, block.len() as u32, config.start.get());
        if (segments, blocks, block_bytes, start) != ours {
            return Err(Rejection::Geometry { segments, blocks, block_bytes, start });
        }
        if place != segment {
            return Err(Rejection::WrongSegment(place));
        }
        let (used, tombstones) = (fields.u32()?, fields.u32()?);
        if used > geometry.slots() || tombstones > geometry.tombstones() {
            return Err(Rejection::BadEntry("more of them than there is room for"));
        }
        let named = |block: u32| {
            let block = LogicalBlock::new(block);
            if geometry.holds(block) { Ok(block) } else { Err(Rejection::BadEntry("no such logical block")) }
        };
        let mut entry = || {
            let (block, checksum, modified) = (fields.u32()?, fields.u32()?, fields.u64()?);
            if block == VACANT {
                return Ok(None);
            }
            Ok(Some(SlotEntry { block: named(block)?, checksum, modified: Instant::from_nanos(modified) }))
        };
        let entries = (0..used).map(|_| entry()).collect::<Result<Vec<_>, Rejection>>()?;
        let tombstones =
            (0..tombstones).map(|_| named(fields.u32()?)).collect::<Result<Vec<_>, Rejection>>()?;
        let mut all: Vec<LogicalBlock> = entries.iter().flatten().map(|e| e.block).collect();
        all.extend(&tombstones);
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Rejection::BadEntry("a logical block is there twice"));
        }
        Ok(Self { sequence, entries, tombstones })
    }

    /// Returns the time of the youngest block.
    pub(super) fn modified(&self) -> Instant {
        self.entries.iter().flatten().map(|e| e.modified).max().unwrap_or_default()
    }
}

/// Little-endian fields, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Rejection> {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else { return Err(Rejection::NotASummary) };
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Rejection> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Rejection> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogConfig;
    use super::*;

    fn example() -> (Geometry, SegmentSummary, Vec<u8>) {
        let geometry = LogConfig { identity: 7, ..LogConfig::default() }.check().unwrap();
        let entry = |block| SlotEntry {
            block: LogicalBlock::new(block),
            checksum: block ^ 0xABCD,
            modified: Instant::from_nanos(u64::from(block) * 1_000),
        };
        let summary = SegmentSummary {
            sequence: Sequence::new(99),
            entries: vec![Some(entry(5)), None, Some(entry(3))],
            tombstones: vec![LogicalBlock::new(8), LogicalBlock::new(1)],
        };
        let mut block = vec![0xEE; geometry.block_bytes()];
        summary.encode(&geometry, SegmentIndex::new(4), &mut block);
        (geometry, summary, block)
    }

    /// Corrects the checksum after a change that only a writer with a bug would make.
    fn resealed(mut block: Vec<u8>) -> Vec<u8> {
        block[CHECKSUM].fill(0);
        let checksum = crc32fast::hash(&block);
        block[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    #[test]
    fn a_summary_is_read_back_as_it_was_written() {
        let (geometry, summary, block) = example();
        assert_eq!(SegmentSummary::decode(&geometry, SegmentIndex::new(4), &block), Ok(summary));
    }

    #[test]
    fn no_single_changed_byte_passes() {
        let (geometry, _, block) = example();
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 0x10;
            assert!(SegmentSummary::decode(&geometry, SegmentIndex::new(4), &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn each_rejection_names_its_reason() {
        let (geometry, _, block) = example();
        let segment = SegmentIndex::new(4);
        let decode = |block: &[u8]| SegmentSummary::decode(&geometry, segment, block).unwrap_err();
        assert_eq!(decode(&vec![0; block.len()]), Rejection::Blank);
        assert_eq!(decode(&vec![1; block.len()]), Rejection::NotASummary);
        assert_eq!(decode(&block[..100]), Rejection::NotASummary);
        assert_eq!(decode(&[]), Rejection::Blank);
        let changed = |at: usize, value: u8| {
            let mut bad = block.clone();
            bad[at] = value;
            bad
        };
        assert_eq!(decode(&changed(8, 2)), Rejection::Version(2));
        assert_eq!(decode(&changed(70, 9)), Rejection::Checksum);
        assert_eq!(decode(&resealed(changed(16, 6))), Rejection::Foreign(6));
        assert_eq!(
            SegmentSummary::decode(&geometry, SegmentIndex::new(3), &block),
            Err(Rejection::WrongSegment(segment))
        );
        assert!(matches!(decode(&resealed(changed(37, 9))), Rejection::Geometry { .. }));
        assert!(matches!(decode(&resealed(changed(56, 128))), Rejection::BadEntry(_)));
        assert!(matches!(decode(&resealed(changed(63, 1))), Rejection::BadEntry(_)));
        // Entry 0's block becomes entry 2's, then one that does not exist.
        assert!(matches!(decode(&resealed(changed(64, 3))), Rejection::BadEntry(_)));
        assert!(matches!(decode(&resealed(changed(67, 1))), Rejection::BadEntry(_)));
    }
}
