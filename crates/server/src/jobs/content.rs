//! A scrub with checksums: each block that was read is compared with its sum, or its sum is recorded.
//!
//! A block is done when its sum was found right or wrong, or is durable in the store. A sum is recorded only for bytes
//! that the disk has flushed and that have not been written since. Otherwise the old content, which a power cut may
//! bring back, would not match the sum.

use super::job::Context;
use super::landed::Landed;
use crate::task::file_request::{Compared, FileOp, FileQueue, FileRequest};
use crate::task::table::{Content, LISTED_BAD_SECTORS_MAX};
use apps::scrub::Judgement;
use scheduler::BlockSet;
use tracing::{error, warn};
use units::Sectors;

/// The ticks of half a second between flushes. A flush delays clients, while a scrub can wait.
const FLUSH_TICKS: u32 = 10;
/// The number of sums waiting for a flush at which a flush is requested at once, to bound the memory.
const WAITING_SUMS_MAX: usize = 4_096;

/// A block of the store and its sum.
type Sum = (u64, u32);

/// The sums of a scrub.
pub(crate) struct Contents {
    /// The scrub's first block in the store.
    first: u64,
    block: Sectors,
    ready: bool,
    waiting: Vec<Sum>,
    comparing: bool,
    fresh: Landed<Sum>,
    /// The sums that have been flushed and are to be recorded, and those being recorded.
    flushed: Vec<Sum>,
    recording: Vec<Sum>,
    /// The blocks that are read a second time because of a write. No block is read a third time.
    again: BlockSet,
    /// The count of writes at the last successful flush, and at the one in flight.
    flushed_at: Option<u64>,
    flushing_at: u64,
    writes: u64,
    ticks: u32,
    content: Content,
    settled: Vec<(u64, Judgement)>,
}

impl Contents {
    /// Returns the state for `blocks` blocks of the store from `first` on, with the results so far.
    pub fn new(first: u64, blocks: u64, block: Sectors, content: Content) -> Self {
        Self {
            first,
            block,
            ready: false,
            waiting: Vec::new(),
            comparing: false,
            fresh: Landed::default(),
            flushed: Vec::new(),
            recording: Vec::new(),
            again: BlockSet::empty(blocks),
            flushed_at: None,
            flushing_at: 0,
            writes: 0,
            ticks: 0,
            content,
            settled: Vec::new(),
        }
    }

    pub fn content(&self) -> &Content {
        &self.content
    }

    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Begins to compare: the store is open, and forgets the sums of blocks that are written.
    pub fn set_ready(&mut self, cx: &mut Context<'_>) {
        self.ready = true;
        self.go_on(cx);
    }

    /// Takes the sum of a block that the scrub has read whole.
    pub fn read(&mut self, cx: &mut Context<'_>, block: u64, sum: u32) {
        match cx.writes.is_quiet(self.first + block) || !self.ready {
            true => self.waiting.push((self.first + block, sum)),
            false => self.unquiet(cx, (self.first + block, sum)),
        }
        self.go_on(cx);
    }

    /// Handles a block with a write since it was read, so that its sum may be old. The block is read once more, unless
    /// it has been already or is being written.
    fn unquiet(&mut self, cx: &mut Context<'_>, (of_store, _): Sum) {
        let block = of_store - self.first;
        let again = !self.again.contains(block) && cx.writes.ask_again(of_store);
        self.again.insert(block);
        // A block that is not read again gets no sum. It was read without error, so the medium is fine.
        self.settled.push((block, if again { Judgement::Again } else { Judgement::Fine }));
    }

    pub fn compared(&mut self, cx: &mut Context<'_>, compared: Vec<(u64, Compared)>, damaged: Vec<String>) {
        self.comparing = false;
        for page in damaged {
            warn!(disk = cx.disk.name, task = cx.id, "{page}");
        }
        for (block, result) in compared {
            match result {
                Compared::Same => {
                    self.content.verified += 1;
                    self.settled.push((block - self.first, Judgement::Fine));
                }
                Compared::Wrong { stored, read } => {
                    let lbn = block.saturating_mul(self.block.get());
                    let (stored, read) = (format!("{stored:08x}"), format!("{read:08x}"));
                    error!(
                        disk = cx.disk.name,
                        task = cx.id,
                        lbn,
                        stored,
                        read,
                        "a block differs from its checksum"
                    );
                    if self.content.wrong.len() < LISTED_BAD_SECTORS_MAX {
                        self.content.wrong.push(lbn);
                    } else {
                        self.content.wrong_more += 1;
                    }
                    self.settled.push((block - self.first, Judgement::Wrong));
                }
                Compared::Unknown(sum) => self.fresh.push((block, sum)),
            }
        }
        self.go_on(cx);
    }

    pub fn wants_flush(&mut self) -> bool {
        let many = self.fresh.waiting() >= WAITING_SUMS_MAX;
        let wants = self.flushed_at != Some(self.writes) && self.fresh.wants(many);
        if wants {
            self.flushing_at = self.writes;
        }
        wants
    }

    pub fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        let flushed = self.fresh.flushed();
        match result {
            Ok(()) => {
                self.flushed_at = Some(self.flushing_at);
                self.flushed.extend(flushed);
                self.go_on(cx);
            }
            Err(why) => {
                warn!(
                    disk = cx.disk.name,
                    task = cx.id,
                    why,
                    "the disk cannot be flushed: checksums are left out"
                );
                self.settled.extend(flushed.into_iter().map(|(b, _)| (b - self.first, Judgement::Fine)));
            }
        }
    }

    fn record(&mut self, cx: &mut Context<'_>) {
        for sum in std::mem::take(&mut self.flushed) {
            match cx.writes.is_quiet(sum.0) {
                true => self.recording.push(sum),
                false => self.unquiet(cx, sum),
            }
        }
        if !self.recording.is_empty() {
            self.recording.iter().for_each(|(block, _)| cx.writes.recorded(*block));
            cx.file_requests.push_back(FileRequest {
                queue: FileQueue::Sums,
                op: FileOp::Record(self.recording.clone()),
            });
        }
    }

    pub fn recorded(&mut self, cx: &mut Context<'_>) {
        let recorded = std::mem::take(&mut self.recording);
        self.content.recorded += recorded.len() as u64;
        self.settled.extend(recorded.into_iter().map(|(b, _)| (b - self.first, Judgement::Fine)));
        self.go_on(cx);
    }

    pub fn tick(&mut self, cx: &mut Context<'_>) {
        self.ticks += 1;
        if self.ticks >= FLUSH_TICKS {
            self.ticks = 0;
            self.fresh.set_due();
        }
        self.go_on(cx);
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        self.writes = cx.writes.changes();
        if self.ready && !self.comparing && !self.waiting.is_empty() {
            self.comparing = true;
            let op = FileOp::Compare(std::mem::take(&mut self.waiting));
            cx.file_requests.push_back(FileRequest { queue: FileQueue::Sums, op });
        }
        if self.flushed_at == Some(self.writes) {
            // Without a write since the last flush, no sum has to wait for another flush.
            self.flushed.extend(self.fresh.take());
        }
        if self.recording.is_empty() && !self.flushed.is_empty() {
            self.record(cx);
        }
    }

    /// Permits the next flush at once, because all remaining blocks wait for it.
    pub fn hurry(&mut self) {
        self.fresh.set_due();
    }

    /// Returns how many blocks wait for a flush.
    pub fn waiting(&self) -> u64 {
        self.fresh.iter().count() as u64
    }

    /// Returns the judgements on blocks of the scrub since the last call.
    pub fn settled(&mut self) -> Vec<(u64, Judgement)> {
        std::mem::take(&mut self.settled)
    }
}
