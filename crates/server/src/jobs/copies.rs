//! Copy-before-write: the content of blocks at one instant, kept before clients overwrite it.
//!
//! A block is safe when its old content is durable in a copy. From the instant on, a write to a block that is not safe
//! is held ([`Copies::hold`]). The block is read ([`PriorityReader`]) and kept durably in the state directory; then the
//! block is safe, and the write is sent to the device. So a background read of a block that is not safe returns the
//! content at the instant, and a background read of a kept block may return a later content.

use super::job::{Context, Copying, blocks_of};
use super::priority_reader::{PriorityReader, ReadBlock};
use crate::task::budget::Budget;
use crate::task::file_request::{FILE_TIMEOUT, FileOp};
use crate::task::table::{Figures, LISTED_BAD_SECTORS_MAX};
use apps::backup::image::Header;
use scheduler::{BlockSet, Record, SessionError};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use units::{Duration, Lbn, LbnRange, Sectors};

/// The most blocks that are read at a time for one held write. As many more may be on their way to the kept file.
const AHEAD_BLOCKS_MAX: usize = 64;
/// The most bytes of the blocks that [`AHEAD_BLOCKS_MAX`] counts; one block may be larger.
const AHEAD_BYTES_MAX: u64 = 4 << 20;

/// The flush at the instant of a copy. Without it a power cut could undo writes that were acknowledged before the
/// instant, and the blocks read later would not belong to the same instant as those kept before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InstantFlush {
    #[default]
    Wanted,
    InFlight,
    Done,
}

impl InstantFlush {
    /// Returns whether to request the flush now, and records the request.
    pub fn wants(&mut self) -> bool {
        let wants = *self == Self::Wanted;
        if wants {
            *self = Self::InFlight;
        }
        wants
    }

    /// Takes the result of the flush.
    ///
    /// # Errors
    /// The disk cannot be flushed: the copy fails.
    pub fn flushed(&mut self, result: Result<(), String>) -> Result<(), String> {
        result.map_err(|why| format!("the disk cannot be flushed: {why}"))?;
        *self = Self::Done;
        Ok(())
    }
}

/// The bad sectors that a task has found.
#[derive(Default)]
pub(crate) struct Bad {
    pub lbns: BTreeSet<u64>,
    /// The number of further bad sectors, which are not listed.
    pub more: u64,
}

impl Bad {
    /// Adds bad sectors of the block that begins at `home`, given as offsets from there.
    pub fn note(&mut self, home: Lbn, sectors: &[u32]) {
        for lbn in sectors.iter().map(|s| home.get().saturating_add(u64::from(*s))) {
            if self.lbns.len() < LISTED_BAD_SECTORS_MAX {
                self.lbns.insert(lbn);
            } else if !self.lbns.contains(&lbn) {
                self.more += 1;
            }
        }
    }
}

/// The blocks of a disk that are kept, or have to be kept before a write overwrites them.
pub(crate) struct Copies {
    header: Header,
    capacity: Sectors,
    priority_reader: PriorityReader,
    /// Blocks that may be overwritten.
    safe: BlockSet,
    /// Blocks kept or requested to be kept. A later background read of such a block may be newer than the instant.
    kept: BlockSet,
    /// For each request to keep a block that is not done yet, when the request was made, in time that the daemon has
    /// run.
    keeping: VecDeque<Duration>,
    /// The number of records in the kept file, one for each kept block, that are durable.
    records: u64,
    pub bad: Bad,
}

impl Copies {
    /// Begins to keep the blocks as they are at the instant of the call, or continues from the figures in the journal
    /// if `begun`. Requests the opening of the kept file; the caller passes its blocks to [`opened`](Self::opened).
    pub fn begin(cx: &mut Context<'_>, header: Header, room: Budget, begun: bool, before: &Figures) -> Self {
        let begun = begun.then_some(before.records);
        cx.kept(FileOp::OpenKept { header, room, begun });
        let blocks = header.shape.blocks;
        Self {
            header,
            capacity: cx.disk.capacity,
            priority_reader: PriorityReader::default(),
            safe: BlockSet::empty(blocks),
            kept: BlockSet::empty(blocks),
            keeping: VecDeque::new(),
            records: begun.unwrap_or(0),
            bad: Bad { lbns: before.bad.iter().copied().collect(), more: before.bad_more },
        }
    }

    /// Records the blocks that are in the kept file.
    pub fn opened(&mut self, present: &BlockSet) {
        present.for_each(0, present.blocks(), |block| {
            self.safe.insert(block);
            self.kept.insert(block);
        });
    }

    /// Returns the blocks that are kept, or requested to be.
    pub fn kept(&self) -> &BlockSet {
        &self.kept
    }

    /// Returns whether blocks are on their way to the kept file.
    pub fn is_keeping(&self) -> bool {
        !self.keeping.is_empty()
    }

    /// Records that a block may be overwritten.
    pub fn is_safe(&mut self, block: u64) {
        self.safe.insert(block);
    }

    /// Records that all blocks may be overwritten.
    pub fn are_all_safe(&mut self) {
        self.safe = BlockSet::full(self.header.shape.blocks);
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// Records that a block is in the kept file, durably, and the number of records in the file.
    pub fn synced(&mut self, block: u64, records: u64) {
        self.keeping.pop_front();
        self.records = records;
        self.safe.insert(block);
    }

    /// Returns the range of a block; the last may be shorter.
    pub fn range(&self, block: u64) -> LbnRange {
        let start = self.header.shape.home(block);
        let rest = self.capacity.get().saturating_sub(start.get());
        LbnRange::new(start, Sectors::new(rest.min(self.header.shape.block.get())))
    }

    /// Returns the numbers of the blocks that a range touches.
    pub fn blocks_of(&self, range: LbnRange) -> Range<u64> {
        blocks_of(range, self.header.shape.block, self.safe.blocks())
    }

    /// Returns whether a write to the range has to wait.
    pub fn needs(&self, range: LbnRange) -> bool {
        let Range { start: first, end } = self.blocks_of(range);
        self.safe.count(first, end) < end.saturating_sub(first)
    }

    /// Returns whether a write to the range has to wait. If so, also has the blocks read and kept.
    ///
    /// # Errors
    /// A block cannot be kept.
    pub fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange, copying: Copying) -> Result<bool, String> {
        if !self.needs(range) {
            return Ok(false);
        }
        let block_bytes = (self.header.block_bytes() as u64).max(1);
        // Limit the number of blocks: the caller asks again after the next block is kept.
        let ahead = usize::try_from(AHEAD_BYTES_MAX / block_bytes).unwrap_or(AHEAD_BLOCKS_MAX);
        let ahead = ahead.clamp(1, AHEAD_BLOCKS_MAX);
        if self.keeping.len() >= ahead {
            return Ok(true);
        }
        let Range { start: first, end } = self.blocks_of(range);
        let waiting = (first..end).filter(|block| !self.safe.contains(*block) && !self.kept.contains(*block));
        for block in waiting.take(ahead) {
            let place = self.range(block);
            match self.priority_reader.ask(cx, block, place, copying) {
                Ok(()) | Err(SessionError::TooManyTasks { .. }) => {}
                Err(error) => return Err(not_kept(&error)),
            }
        }
        Ok(true)
    }

    /// Returns whether the core reports in `record` a block that is being read to be kept.
    pub fn is_of(&self, record: &Record) -> bool {
        self.priority_reader.is_of(record)
    }

    /// Takes the core's record of a block that was read to be kept. Returns the block if it is complete and is now
    /// being kept.
    ///
    /// # Errors
    /// A block cannot be kept.
    pub fn done(
        &mut self,
        cx: &mut Context<'_>,
        record: &Record,
        bytes: &[u8],
    ) -> Result<Option<u64>, String> {
        let sector = self.header.sector_bytes as usize;
        let read = self.priority_reader.done(cx, record, bytes, sector).map_err(|error| not_kept(&error))?;
        let Some(ReadBlock { block, mut bytes, bad }) = read.filter(|read| !self.kept.contains(read.block))
        else {
            return Ok(None);
        };
        bytes.resize(self.header.block_bytes(), 0);
        self.bad.note(self.header.shape.home(block), &bad);
        self.kept.insert(block);
        self.keeping.push_back(cx.ran);
        cx.kept(FileOp::Keep { mark: block, block, bytes, bad });
        Ok(Some(block))
    }

    /// # Errors
    /// The state directory has not answered for [`FILE_TIMEOUT`]: writes must not wait longer.
    pub fn check_time(&self, ran: Duration) -> Result<(), String> {
        match self.keeping.front() {
            Some(since) if *since + FILE_TIMEOUT <= ran => Err(format!(
                "blocks that clients overwrite could not be kept: the state directory has not answered for {:.0} s; put \
                 the directory on another device than this disk, and begin anew",
                FILE_TIMEOUT.as_secs_f64()
            )),
            _ => Ok(()),
        }
    }

    /// Closes the session of the reads.
    pub fn close(&mut self, cx: &mut Context<'_>) {
        self.priority_reader.close(cx);
    }
}

fn not_kept(error: &SessionError) -> String {
    format!("a block could not be kept: {error}")
}
