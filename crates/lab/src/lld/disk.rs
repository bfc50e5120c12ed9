//! A log-structured disk on a simulated drive: does the I/O of the log, and sums the time by purpose.

use drive::{Mechanics, Medium, MediumError};
use lab_apps::files::{LogicalBlock as FileBlock, Store};
use lab_apps::lld::{
    CleanError, Data, ForegroundCleaner, FreeCleanError, FreeCleaner, FreeConfig, Log, LogicalBlock,
    NotPending, Reads, SegmentIndex, Step, WriteError, checksum as checksum_of,
};
use model::{DriveModel, Position};
use scheduler::{Config, HeadWork, InDrive, Output, Purpose, Record, Request, SubmitError};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use units::{Duration, Instant, LbnRange, Op, RequestId};

/// The way in which segments of the log are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The foreground cleaner alone.
    Original,
    /// The free cleaner, and the foreground cleaner when the free cleaner does not keep up.
    Freeblock(FreeConfig),
}

/// Counts and times by purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub reads: u64,
    pub reading: Duration,
    pub segments: u64,
    pub writing: Duration,
    /// The part of the time `writing` for blocks that a cleaner copied, in proportion to their number.
    pub writing_copies: Duration,
    pub fresh: u64,
    pub copies: u64,
    /// Reads of the foreground cleaner.
    pub cleaning_reads: u64,
    pub cleaning: Duration,
    /// Blocks that were read in gaps for the free cleaner.
    pub free_blocks: u64,
}

impl Spent {
    pub fn since(self, earlier: Self) -> Self {
        let less = |a: Duration, b: Duration| a.saturating_sub(b);
        Self {
            reads: self.reads - earlier.reads,
            reading: less(self.reading, earlier.reading),
            segments: self.segments - earlier.segments,
            writing: less(self.writing, earlier.writing),
            writing_copies: less(self.writing_copies, earlier.writing_copies),
            fresh: self.fresh - earlier.fresh,
            copies: self.copies - earlier.copies,
            cleaning_reads: self.cleaning_reads - earlier.cleaning_reads,
            cleaning: less(self.cleaning, earlier.cleaning),
            free_blocks: self.free_blocks - earlier.free_blocks,
        }
    }
}

/// The reason why the disk cannot go on.
#[derive(Debug, Error)]
pub(crate) enum DiskError {
    #[error(transparent)]
    Log(#[from] WriteError),
    #[error(transparent)]
    Clean(#[from] CleanError),
    #[error(transparent)]
    Free(#[from] FreeCleanError),
    #[error(transparent)]
    Medium(#[from] MediumError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    NotPending(#[from] NotPending),
    #[error("{0} has no data: the block was never written, or is lost")]
    Nothing(LogicalBlock),
    #[error("{0} has other data than were written")]
    Corrupt(LogicalBlock),
}

/// A log on a drive.
pub(crate) struct LogDisk {
    drive: Arc<DriveModel>,
    core: InDrive,
    mechanics: Mechanics,
    medium: Medium,
    now: Instant,
    /// The computing time before each request, in which the platter moves on.
    per_request: Duration,
    /// Whether adjacent blocks of a file are read at once.
    merge: bool,
    /// Whether the foreground cleaner reads the summary of a segment before its blocks.
    summaries: bool,
    /// The last segment of which the foreground cleaner has read the summary.
    cleaning: Option<SegmentIndex>,
    requests: u64,
    log: Log,
    foreground: ForegroundCleaner,
    free: Option<FreeCleaner>,
    records: Vec<Record>,
    /// Blocks of a file that came with the read of a block beside them.
    ahead: BTreeMap<LogicalBlock, Vec<u8>>,
    spent: Spent,
}

impl LogDisk {
    pub fn new(
        drive: &Arc<DriveModel>,
        log: Log,
        strategy: Strategy,
        reads: Reads,
        per_request: Duration,
        merge: bool,
        summaries: bool,
    ) -> Result<Self, DiskError> {
        let free = match strategy {
            Strategy::Original => None,
            Strategy::Freeblock(config) => Some(FreeCleaner::new(config, &log)?),
        };
        Ok(Self {
            core: InDrive::new(Arc::clone(drive), Config::default()),
            mechanics: Mechanics::new(Arc::clone(drive)),
            medium: Medium::new(drive.layout().capacity(), drive.sector_bytes()),
            drive: Arc::clone(drive),
            now: Instant::ZERO,
            per_request,
            merge,
            summaries,
            cleaning: None,
            requests: 0,
            log,
            foreground: ForegroundCleaner::new(reads),
            free,
            records: Vec::new(),
            ahead: BTreeMap::new(),
            spent: Spent::default(),
        })
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets the process compute for this time, in which the disk has no request.
    pub fn compute(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Executes a foreground request and returns its time. Background records of that time are kept in `records`.
    fn request(&mut self, op: Op, range: LbnRange) -> Result<Duration, DiskError> {
        let began = self.now;
        self.now += self.per_request;
        self.requests += 1;
        self.core.submit(self.now, Request { id: RequestId::new(self.requests), op, range })?;
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    self.execute();
                    self.core.completed(self.now);
                }
                Output::Deliver(record) => self.records.push(record),
                _ => {}
            }
        }
        Ok(self.now.since(began))
    }

    fn execute(&mut self) {
        for access in self.core.accesses() {
            let track = self.drive.layout().track(access.track);
            let ready = self.mechanics.seek_to(self.now, Position::from(track), access.op);
            let from = ready.max(access.not_before);
            self.now = self.mechanics.wait_and_transfer(from, track, access.sector, access.sectors).end;
            debug_assert!(access.purpose == Purpose::Foreground || self.free.is_some());
        }
    }

    fn bytes(&self, range: LbnRange) -> Result<Vec<u8>, DiskError> {
        let mut bytes = vec![0; range.len().bytes(self.drive.sector_bytes()).get() as usize];
        self.medium.read(range, &mut bytes)?;
        Ok(bytes)
    }

    /// Passes records to the free cleaner, and lets it continue.
    fn look_after_free(&mut self) -> Result<(), DiskError> {
        let Some(mut free) = self.free.take() else { return Ok(()) };
        let outcome = self.feed(&mut free);
        self.free = Some(free);
        outcome
    }

    fn feed(&mut self, free: &mut FreeCleaner) -> Result<(), DiskError> {
        for record in std::mem::take(&mut self.records) {
            let bytes = self.bytes(record.range)?;
            self.spent.free_blocks += 1;
            free.record(&mut self.log, &record, &bytes)?;
        }
        Ok(free.step(&mut self.log, &mut self.core, self.now)?)
    }

    /// Writes every complete segment, and waits for it.
    fn write_out(&mut self) -> Result<(), DiskError> {
        while let Some(write) = self.log.pending_write() {
            let (segment, range): (SegmentIndex, LbnRange) = (write.segment, write.range);
            let (fresh, copies) = (u64::from(write.fresh), u64::from(write.copies));
            self.medium.write(range, write.bytes)?;
            let time = self.request(Op::Write, range)?;
            self.log.written(segment)?;
            self.spent.segments += 1;
            self.spent.writing += time;
            self.spent.writing_copies += time * copies / (fresh + copies).max(1);
            self.spent.fresh += fresh;
            self.spent.copies += copies;
            self.look_after_free()?;
        }
        Ok(())
    }

    /// Writes complete segments and cleans, as is necessary before the client's next call. A segment whose cleaning
    /// has begun is cleaned to its end, as in the paper's LLD.
    fn settle(&mut self) -> Result<(), DiskError> {
        self.write_out()?;
        while self.log.needs_cleaning() || self.foreground.at_work() {
            match self.foreground.step(&mut self.log, self.now)? {
                Step::Read(range) => {
                    self.read_summary(range)?;
                    let time = self.request(Op::Read, range)?;
                    self.spent.cleaning += time;
                    self.spent.cleaning_reads += 1;
                    let bytes = self.bytes(range)?;
                    self.foreground.deliver(&self.log, range, &bytes)?;
                }
                Step::WriteOut => self.write_out()?,
                Step::Done => break,
            }
        }
        self.look_after_free()?;
        self.write_out()
    }

    /// Reads the summary of the segment that contains `wanted`, if the cleaner has not read anything from that
    /// segment yet.
    fn read_summary(&mut self, wanted: LbnRange) -> Result<(), DiskError> {
        let segment = self.log.geometry().slot_at(wanted.start()).map(|(segment, _)| segment);
        if let Some(segment) = segment.filter(|_| self.summaries && segment != self.cleaning) {
            self.cleaning = Some(segment);
            let time = self.request(Op::Read, self.log.geometry().summary_range(segment))?;
            self.spent.cleaning += time;
            self.spent.cleaning_reads += 1;
        }
        Ok(())
    }

    /// Repeats a call of the log until the log has room for it; writes segments out and cleans in between.
    fn insist<T>(
        &mut self,
        mut call: impl FnMut(&mut Log, Instant) -> Result<T, WriteError>,
    ) -> Result<T, DiskError> {
        loop {
            let now = self.now;
            match call(&mut self.log, now) {
                Err(WriteError::WriteOut) => self.write_out()?,
                Err(WriteError::NeedsCleaning { .. }) => self.settle()?,
                other => {
                    let value = other?;
                    self.settle()?;
                    return Ok(value);
                }
            }
        }
    }

    /// Returns the place of a block, if it is on the medium.
    fn on_medium(&self, block: LogicalBlock) -> Option<(LbnRange, u32)> {
        match self.log.read(block) {
            Ok(Data::Medium { range, checksum }) => Some((range, checksum)),
            _ => None,
        }
    }
}

impl Store for LogDisk {
    type Error = DiskError;

    fn read(&mut self, block: FileBlock, into: &mut [u8]) -> Result<(), DiskError> {
        let block = LogicalBlock::new(block.get());
        if let Some(data) = self.ahead.remove(&block) {
            into.copy_from_slice(&data);
            return Ok(());
        }
        match self.log.read(block)? {
            Data::Nothing => Err(DiskError::Nothing(block)),
            Data::Memory(data) => {
                into.copy_from_slice(data);
                Ok(())
            }
            Data::Medium { range, checksum } => {
                let time = self.request(Op::Read, range)?;
                self.spent.reading += time;
                self.spent.reads += 1;
                let bytes = self.bytes(range)?;
                if checksum_of(&bytes) != checksum {
                    return Err(DiskError::Corrupt(block));
                }
                into.copy_from_slice(&bytes);
                self.settle()
            }
        }
    }

    fn write(&mut self, block: FileBlock, data: &[u8]) -> Result<(), DiskError> {
        let block = LogicalBlock::new(block.get());
        self.ahead.remove(&block);
        self.insist(|log, now| log.write(block, data, now)).map(|_| ())
    }

    fn free(&mut self, block: FileBlock) -> Result<(), DiskError> {
        let block = LogicalBlock::new(block.get());
        self.ahead.remove(&block);
        self.insist(|log, _| log.trim(block)).map(|_| ())
    }

    /// Reads adjacent blocks of a file at once, if `merge` is set.
    fn will_read(&mut self, blocks: &[FileBlock]) {
        self.ahead.clear();
        if !self.merge {
            return;
        }
        let mut places: Vec<(LbnRange, LogicalBlock, u32)> = blocks
            .iter()
            .map(|block| LogicalBlock::new(block.get()))
            .filter_map(|block| self.on_medium(block).map(|(range, checksum)| (range, block, checksum)))
            .collect();
        places.sort_unstable();
        for run in places.chunk_by(|a, b| a.0.end() == b.0.start()).filter(|run| run.len() > 1) {
            let range = LbnRange::new(run[0].0.start(), run[run.len() - 1].0.end().since(run[0].0.start()));
            let Ok(time) = self.request(Op::Read, range) else { return };
            self.spent.reading += time;
            self.spent.reads += 1;
            for &(range, block, checksum) in run {
                // A damaged block is not kept, so that the later read of that block finds the damage and reports it.
                if let Ok(bytes) = self.bytes(range)
                    && checksum_of(&bytes) == checksum
                {
                    self.ahead.insert(block, bytes);
                }
            }
        }
    }
}
