//! A snapshot that clients read: the disk at one instant, for as long as the task lasts.
//!
//! The instant is that of [`View::begin`], and [`Copies`] keeps blocks before clients overwrite them. Clients' reads
//! are background reads of the disk. If a block has been kept by the time when its read arrives, the bytes read may be
//! newer than the instant, and the kept bytes replace them. A block with a write in flight at the instant may have its
//! content before or after the write. Such blocks are kept before any read is answered, so that all reads agree; that
//! is background work, too.

use super::copies::{Bad, Copies, InstantFlush};
use super::job::{Context, Copying, DurableProgress, Job, Stage};
use crate::disk::{Asked, Background, BackgroundStatus};
use crate::task::budget::Budget;
use crate::task::file_request::{FileOp, FileResult};
use crate::task::table::Figures;
use apps::backup::image::Header;
use device::{Answer, Ask, BackgroundRequest, Failure};
use scheduler::{Application, Record};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::{Duration, Instant, LbnRange, SessionId};

/// A block that was read and waits for the kept blocks that replace parts of it.
struct Late {
    record: Record,
    bytes: Vec<u8>,
    /// The number of kept blocks that have not been read back.
    left: usize,
}

/// The name and the end of a snapshot, and the budget of bytes for its kept blocks.
pub(crate) struct SnapshotTerms {
    pub name: String,
    /// When the snapshot ends, in seconds since 1970.
    pub expires_unix_s: Option<u64>,
    pub room: Budget,
}

/// The most kept blocks that are read back at a time, because blocks that writes wait for go through the same queue.
const KEPT_READS_MAX: usize = 16;

/// A snapshot at work.
pub(crate) struct View {
    header: Header,
    terms: SnapshotTerms,
    copies: Copies,
    reads: Background,
    /// Reads that wait until the blocks with writes in flight at the instant are kept, and the flush is done.
    waiting: BTreeMap<u64, Asked>,
    late: BTreeMap<u64, Late>,
    marks: u64,
    /// The ranges with writes in flight at the instant, until their blocks are kept.
    unsteady: Vec<LbnRange>,
    opened: bool,
    /// Whether the journal has the instant of the snapshot. If so, the kept file must exist after a restart.
    claimed: bool,
    /// The flush at the instant, and again after each start of the daemon: a write that was in flight when the last
    /// daemon ended may be in the drive's cache only.
    flush: InstantFlush,
    /// The number of kept blocks that are being read back, and for each that waits to be, the key in `late` of the read
    /// block that it completes, and its own number.
    reading_kept: usize,
    to_read: VecDeque<(u64, u64)>,
    /// When the snapshot ends, on the clock that an operator cannot set: the time of day counts only at the daemon's
    /// start.
    ends_at: Option<Instant>,
    ended: bool,
    failed: Option<String>,
    /// Whether figures have changed since they were saved.
    unsaved: bool,
}

impl View {
    /// Begins a snapshot at the instant of the call, or continues it after a restart.
    pub fn begin(
        cx: &mut Context<'_>,
        header: Header,
        terms: SnapshotTerms,
        reads: Background,
        before: &Figures,
    ) -> Self {
        let claimed = before.blocks > 0;
        let copies = Copies::begin(cx, header, terms.room.clone(), claimed, before);
        Self {
            header,
            copies,
            reads,
            waiting: BTreeMap::new(),
            late: BTreeMap::new(),
            marks: 0,
            // After a restart no write is in flight.
            unsteady: cx.writes.in_flight(),
            opened: false,
            claimed,
            flush: InstantFlush::default(),
            reading_kept: 0,
            to_read: VecDeque::new(),
            ends_at: terms.expires_unix_s.map(|at| {
                let left_ms = at.saturating_mul(1_000).saturating_sub(cx.unix_ms);
                Instant::from_nanos(cx.now.as_nanos().saturating_add(left_ms.saturating_mul(1_000_000)))
            }),
            terms,
            ended: false,
            failed: None,
            unsaved: true,
        }
    }

    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    fn is_complete(&self) -> bool {
        self.opened && self.claimed && self.flush == InstantFlush::Done && self.unsteady.is_empty()
    }

    /// Has the unsteady blocks kept, and begins the waiting reads when the snapshot is complete.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        let hurried = self.waiting.keys().any(|id| self.reads.is_hurried(*id));
        let copying = if hurried { Copying::Now } else { Copying::Later };
        for range in std::mem::take(&mut self.unsteady) {
            match self.copies.hold(cx, range, copying) {
                Ok(true) => self.unsteady.push(range),
                Ok(false) => {}
                Err(why) => return self.fail(why),
            }
        }
        if self.is_complete() {
            for (id, asked) in std::mem::take(&mut self.waiting) {
                self.reads.read_held(cx.sessions, id, asked, cx.now);
            }
        }
    }

    /// Takes a block that was read for a client.
    fn arrived(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        let Range { start: first, end } = self.copies.blocks_of(record.range);
        let kept: Vec<u64> = (first..end).filter(|block| self.copies.kept().contains(*block)).collect();
        let all = kept.len() as u64 == end.saturating_sub(first);
        if kept.is_empty() || ((record.bad.is_some() || bytes.is_empty()) && !all) {
            return self.reads.done(cx.sessions, record, bytes, cx.now);
        }
        self.marks += 1;
        let size = record.range.len().bytes(cx.disk.sector_bytes).get();
        let mut bytes = bytes.to_vec();
        bytes.resize(usize::try_from(size).unwrap_or(0), 0);
        // All bad sectors lie in kept blocks, which have their bytes.
        let record = Record { bad: None, ..*record };
        self.late.insert(self.marks, Late { record, bytes, left: kept.len() });
        self.to_read.extend(kept.into_iter().map(|block| (self.marks, block)));
        self.read_kept(cx);
    }

    /// Has kept blocks read back, at most [`KEPT_READS_MAX`] at a time.
    fn read_kept(&mut self, cx: &mut Context<'_>) {
        while self.reading_kept < KEPT_READS_MAX
            && let Some((mark, block)) = self.to_read.pop_front()
        {
            self.reading_kept += 1;
            cx.kept(FileOp::ReadKept { mark, block });
        }
    }

    /// Replaces a part of the read block at `mark` in `late` by a kept block. Delivers the read block when no kept
    /// block is missing.
    fn replace(&mut self, cx: &mut Context<'_>, mark: u64, block: u64, bytes: &[u8], bad: &[u32]) {
        let place = self.copies.range(block);
        let Some(late) = self.late.get_mut(&mark) else { return };
        freeblock::copy_shared((late.record.range, &mut late.bytes), (place, bytes), cx.disk.sector_bytes);
        let home = self.header.shape.home(block).get();
        let lost = bad.iter().map(|sector| units::Lbn::new(home.saturating_add(u64::from(*sector))));
        let first = lost.filter(|lbn| late.record.range.contains(*lbn)).chain(late.record.bad).min();
        late.record.bad = first;
        late.left = late.left.saturating_sub(1);
        if late.left == 0
            && let Some(Late { record, bytes, .. }) = self.late.remove(&mark)
        {
            self.reads.done(cx.sessions, &record, &bytes, cx.now);
        }
    }
}

impl Job for View {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        if !self.copies.is_of(record) {
            return self.arrived(cx, record, bytes);
        }
        if let Err(why) = self.copies.done(cx, record, bytes) {
            self.fail(why);
        }
    }

    fn file_done(&mut self, cx: &mut Context<'_>, _: bool, result: FileResult) {
        match result {
            FileResult::Opened { present, .. } => {
                self.copies.opened(&present);
                (self.opened, self.unsaved) = (true, true);
                self.go_on(cx);
            }
            FileResult::Synced { mark: block, records, .. } => {
                self.copies.synced(block, records);
                self.unsaved = true;
                if !self.unsteady.is_empty() {
                    self.go_on(cx);
                }
            }
            FileResult::KeptBlock { mark, block, bytes, bad } => {
                self.reading_kept = self.reading_kept.saturating_sub(1);
                self.read_kept(cx);
                self.replace(cx, mark, block, &bytes, &bad);
            }
            FileResult::Refused(why) | FileResult::Trouble(why) => self.fail(why),
            _ => {}
        }
    }

    fn needs(&self, range: LbnRange) -> bool {
        self.failed.is_none() && !self.ended && self.copies.needs(range)
    }

    fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange, copying: Copying) -> bool {
        if !self.needs(range) {
            return false;
        }
        self.copies.hold(cx, range, copying).unwrap_or_else(|why| {
            self.fail(why);
            false
        })
    }

    fn snapshot(&self) -> Option<&str> {
        (self.claimed && self.failed.is_none() && !self.ended).then_some(&self.terms.name)
    }

    fn read(&mut self, cx: &mut Context<'_>, request: &BackgroundRequest) {
        let BackgroundRequest { id, client, range, ref ask, .. } = *request;
        match ask {
            Ask::Read => {
                self.waiting.insert(id, Asked { client, range, arrived: cx.now });
                self.reads.hold(id, cx.now, range.len(), cx.now);
                self.go_on(cx);
            }
            Ask::Flush => self.reads.flushed(id, cx.now),
            Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. } => {
                self.reads.refuse(id, Failure::Unsupported("write to a snapshot"), cx.now);
            }
        }
    }

    fn leave(&mut self, cx: &mut Context<'_>, client: u64) -> Vec<u64> {
        let (its, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, asked)| asked.client == client);
        self.waiting = others;
        let its: BTreeMap<u64, Asked> = its;
        its.keys().for_each(|id| self.reads.release(*id));
        let mut left = self.reads.leave(cx.sessions, client);
        left.extend(its.into_keys());
        left
    }

    fn answers(&mut self) -> Vec<Answer> {
        std::iter::from_fn(|| self.reads.poll()).collect()
    }

    /// A paused snapshot still keeps blocks before writes, and its readers wait.
    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.reads.suspend(cx.sessions, paused);
    }

    fn retry(&mut self, _: &mut Context<'_>) {}

    fn tick(&mut self, cx: &mut Context<'_>) {
        if let Err(why) = self.copies.check_time(cx.ran) {
            return self.fail(why);
        }
        self.ended |= self.ends_at.is_some_and(|at| at <= cx.now);
        self.go_on(cx);
    }

    fn wants_flush(&mut self) -> bool {
        self.opened && self.flush.wants()
    }

    fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        match self.flush.flushed(result) {
            Ok(()) => self.go_on(cx),
            Err(why) => self.fail(why),
        }
    }

    fn due(&self) -> Option<Instant> {
        self.reads.due()
    }

    fn do_due(&mut self, cx: &mut Context<'_>) {
        if self.reads.do_due(cx.sessions, cx.now) {
            self.go_on(cx);
        }
    }

    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        self.reads.promoted(session, part, took);
    }

    fn requests(&self, now: Instant) -> Option<BackgroundStatus> {
        Some(self.reads.status(now))
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        let name = &self.terms.name;
        let why = self.failed.as_deref().unwrap_or("the snapshot was removed, or its time is over");
        let failure = || Failure::Ended(format!("the snapshot {name} has ended: {why}"));
        for id in std::mem::take(&mut self.waiting).into_keys() {
            self.reads.release(id);
            self.reads.refuse(id, failure(), cx.now);
        }
        self.reads.close(cx.sessions, failure, cx.now);
        self.copies.close(cx);
    }

    fn stage(&self) -> Stage {
        match &self.failed {
            Some(why) => Stage::Failed(why.clone()),
            None if self.ended => Stage::Done,
            // Clients can open the snapshot; their reads wait until it is complete.
            None if self.opened && self.claimed => Stage::Running,
            None => Stage::Opening,
        }
    }

    /// Returns the progress, in which the kept blocks count as done.
    fn save(&mut self) -> Option<DurableProgress> {
        let is_claim = !self.claimed;
        if !self.opened || is_claim && self.flush != InstantFlush::Done || !std::mem::take(&mut self.unsaved)
        {
            return None;
        }
        let (done, blocks) = (self.copies.kept().len(), self.header.shape.blocks);
        let bytes = done.saturating_mul(self.header.block_bytes() as u64);
        let Bad { lbns, more } = &self.copies.bad;
        let (bad, bad_more) = (lbns.iter().copied().collect(), *more);
        let records = self.copies.records();
        let figures = Figures { done, blocks, bytes, bad, bad_more, records, ..Figures::default() };
        Some(DurableProgress { figures, saved: Vec::new() })
    }

    fn saved(&mut self, cx: &mut Context<'_>) {
        self.claimed = true;
        self.go_on(cx);
    }
}
