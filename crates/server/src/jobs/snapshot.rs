//! Backup and replica: the disk at one instant, read while clients write on.
//!
//! The instant is that of [`CopyTask::begin`]. From then on [`Copies`] keeps blocks before clients overwrite them. So a
//! background read of a block returns its content at that instant, unless the block has been kept; then the read is not
//! used. A target that is slow, full or unreachable delays no client.

use super::backup_output::{BackupOutput, InPlaceProvider};
use super::copies::{Bad, Copies, InstantFlush};
use super::job::{Context, Copying, DurableProgress, Job, Stage};
use crate::task::budget::Budget;
use crate::task::file_request::{FileOp, FileResult, ImageTarget};
use crate::task::table::Figures;
use apps::backup::image::Header;
use apps::backup::{Backup, BackupState};
use scheduler::{Application, BlockSet, Record};
use std::collections::VecDeque;
use units::LbnRange;

/// The most bytes that are not yet synced to the target: beyond them reading is suspended. At half of them a sync is
/// requested, so that the disk is read while the target syncs. Fewer under test, so that small disks need several
/// syncs.
const UNSYNCED_BYTES_MAX: u64 = if cfg!(test) { 256 << 10 } else { 16 << 20 };

/// A backup or replica at work.
pub(crate) struct CopyTask {
    target: ImageTarget,
    opened: (Option<BlockSet>, Option<BlockSet>),
    /// Whether the target and the kept file have been open, so that their blocks are known.
    known: bool,
    /// Whether the journal says that the target belongs to this task. Before that nothing is written to the target.
    claimed: bool,
    flush: InstantFlush,
    backup: Option<Backup<InPlaceProvider, BackupOutput>>,
    /// The blocks that clients may overwrite: those kept, and those in the target according to the journal.
    copies: Copies,
    /// Blocks that are durably in the target or in the kept file.
    durable: BlockSet,
    /// Blocks written to the target since the last sync was requested.
    unsynced: Vec<u64>,
    /// The blocks of the sync that was requested.
    syncing: Option<Vec<u64>>,
    /// Blocks that are synced, but not yet handed to the journal.
    synced: Vec<u64>,
    /// For each [`Job::save`] that the journal has not confirmed yet, the blocks that were synced before the call.
    journaling: VecDeque<Vec<u64>>,
    bytes_out: u64,
    finishing: bool,
    finished: bool,
    paused: bool,
    suspended: bool,
    /// The reason why the target takes no blocks, and whether the target has to be opened again.
    trouble: Option<(String, bool)>,
    failed: Option<String>,
    /// Whether figures have changed since they were saved.
    unsaved: bool,
    saved: Vec<u8>,
    marks: u64,
}

impl CopyTask {
    /// Begins to copy the disk as it is at the instant of the call, or continues after a restart.
    pub fn begin(cx: &mut Context<'_>, target: ImageTarget, room: Budget, before: &Figures) -> Self {
        let (blocks, claimed) = (target.header.shape.blocks, !target.fresh);
        let copies = Copies::begin(cx, target.header, room, claimed, before);
        cx.target(FileOp::Open(Box::new(target.clone())));
        Self {
            saved: target.saved.clone(),
            target,
            opened: (None, None),
            known: false,
            claimed,
            flush: InstantFlush::default(),
            backup: None,
            copies,
            durable: BlockSet::empty(blocks),
            unsynced: Vec::new(),
            syncing: None,
            synced: Vec::new(),
            journaling: VecDeque::new(),
            bytes_out: 0,
            finishing: false,
            finished: false,
            paused: false,
            suspended: false,
            trouble: None,
            failed: None,
            unsaved: true,
            marks: 0,
        }
    }

    fn header(&self) -> Header {
        self.target.header
    }

    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// Begins to read the blocks that are neither in the target nor in the kept file, when both are open.
    fn start(&mut self, cx: &mut Context<'_>) {
        let (Some(target), Some(_), true) = (&self.opened.0, &self.opened.1, self.claimed) else { return };
        let mut present = target.clone();
        let kept = self.copies.kept();
        kept.for_each(0, kept.blocks(), |block| {
            let _ = present.insert(block);
        });
        let still = InPlaceProvider { shape: self.header().shape, capacity: cx.disk.capacity };
        let backup_output = BackupOutput::new(self.header(), present, kept.clone());
        let snapshot = (self.header().snapshot, None);
        let sector = self.header().sector_bytes as usize;
        match Backup::start(still, backup_output, snapshot, sector, cx.sessions, cx.priority) {
            Ok(backup) => {
                self.backup = Some(backup);
                self.suspended = false;
                self.flow(cx);
                self.collect(cx);
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Suspends or resumes reading, depending on the state.
    fn flow(&mut self, cx: &mut Context<'_>) {
        let Some(backup) = &self.backup else { return };
        let suspend = self.paused || self.trouble.is_some() || self.bytes_out > UNSYNCED_BYTES_MAX;
        if suspend != self.suspended {
            // A closed session delivers nothing, so it need not be suspended.
            let _ = match suspend {
                true => cx.sessions.suspend(backup.session()),
                false => cx.sessions.resume(backup.session()),
            };
            self.suspended = suspend;
        }
    }

    /// Passes the blocks that the backup has put out to the target, and requests a sync or the end if it is time.
    fn collect(&mut self, cx: &mut Context<'_>) {
        let Some(backup) = &mut self.backup else { return };
        let backup_output = backup.output_mut();
        for put in backup_output.take() {
            self.unsynced.push(put.block);
            self.bytes_out = self.bytes_out.saturating_add(put.bytes.len() as u64);
            let home = self.target.header.shape.home(put.block);
            self.copies.bad.note(home, &put.bad);
            cx.target(FileOp::Put { block: put.block, bytes: put.bytes, bad: put.bad });
        }
        let ending = backup.output_mut().is_ending();
        match backup.state().clone() {
            BackupState::Gone(gone) => self.fail(gone.to_string()),
            BackupState::OutputFailed(why) => self.fail(why),
            BackupState::Refused(_)
            | BackupState::Running
            | BackupState::TargetFull
            | BackupState::Finished => {}
        }
        // The image is not finished before the last block is in the kept file, from which it is completed.
        if ending && !self.finishing && self.trouble.is_none() && !self.copies.is_keeping() {
            self.finishing = true;
            cx.target(FileOp::Finish);
        }
        if self.bytes_out > UNSYNCED_BYTES_MAX / 2 {
            self.sync(cx);
        }
        self.flow(cx);
    }

    /// Requests a sync of the blocks written to the target so far, unless a sync is in flight. A sync does not wait for
    /// the journal, which takes progress only once a second.
    fn sync(&mut self, cx: &mut Context<'_>) {
        if self.syncing.is_none() && !self.unsynced.is_empty() {
            self.syncing = Some(std::mem::take(&mut self.unsynced));
            self.marks += 1;
            cx.target(FileOp::Sync { mark: self.marks });
        }
    }

    fn target_done(&mut self, cx: &mut Context<'_>, result: FileResult) {
        match result {
            FileResult::Opened { present, saved } => {
                // The blocks found in the target may be overwritten on the disk only when the journal has their count,
                // so that a later loss is noticed.
                let mut blocks = Vec::new();
                present.for_each(0, present.blocks(), |block| {
                    self.durable.insert(block);
                    blocks.push(block);
                });
                if !blocks.is_empty() {
                    self.syncing = Some(blocks);
                    self.marks += 1;
                    cx.target(FileOp::Sync { mark: self.marks });
                }
                self.opened.0 = Some(*present);
                (self.trouble, self.unsaved, self.target.fresh) = (None, true, false);
                if self.saved.is_empty() {
                    self.saved = saved;
                }
                self.start(cx);
            }
            FileResult::Synced { saved, .. } => {
                if let Some(blocks) = self.syncing.take() {
                    for block in &blocks {
                        self.durable.insert(*block);
                    }
                    self.synced.extend(blocks);
                    (self.saved, self.unsaved) = (saved, true);
                }
                self.room(cx);
            }
            FileResult::Finished => {
                (self.finished, self.unsaved) = (true, true);
                let shape = self.header().shape;
                self.copies.are_all_safe();
                self.durable = BlockSet::full(shape.blocks);
                if let Some(backup) = &mut self.backup {
                    backup.output_mut().end();
                    backup.go_on(cx.sessions);
                }
            }
            FileResult::Full(why) => {
                self.unsync();
                self.trouble = Some((why, false));
            }
            FileResult::Trouble(why) => {
                // Blocks that are not durable in the target are read again from the disk, where clients could not
                // overwrite them.
                self.unsync();
                self.unsynced.clear();
                self.trouble = Some((why, true));
                self.drop_backup(cx);
            }
            FileResult::Refused(why) => self.fail(why),
            _ => {}
        }
        self.flow(cx);
    }

    /// Takes back a failed sync: its blocks wait for the next sync.
    fn unsync(&mut self) {
        self.unsynced.extend(self.syncing.take().into_iter().flatten());
        self.finishing = false;
    }

    /// Records that a sync has succeeded, so that only later blocks count as on their way to the target.
    fn room(&mut self, cx: &mut Context<'_>) {
        let size = self.header().block_bytes() as u64;
        self.bytes_out = size.saturating_mul(self.unsynced.len() as u64);
        if self.trouble.as_ref().is_some_and(|(_, reopen)| !reopen) {
            self.trouble = None;
            self.collect(cx);
        }
    }

    fn drop_backup(&mut self, cx: &mut Context<'_>) {
        if let Some(backup) = self.backup.take() {
            let _ = cx.sessions.close(backup.session());
        }
        self.opened.0 = None;
        (self.finishing, self.bytes_out) = (false, 0);
    }

    fn kept_done(&mut self, cx: &mut Context<'_>, result: FileResult) {
        match result {
            FileResult::Opened { present, .. } => {
                present.for_each(0, present.blocks(), |block| {
                    let _ = self.durable.insert(block);
                });
                self.copies.opened(&present);
                self.opened.1 = Some(*present);
                self.unsaved = true;
                self.start(cx);
            }
            FileResult::Synced { mark: block, records, .. } => {
                self.copies.synced(block, records);
                self.durable.insert(block);
                self.unsaved = true;
                if !self.copies.is_keeping() {
                    self.collect(cx);
                }
            }
            FileResult::Refused(why) | FileResult::Trouble(why) => self.fail(why),
            _ => {}
        }
    }
}

impl Job for CopyTask {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        if self.copies.is_of(record) {
            match self.copies.done(cx, record, bytes) {
                Ok(Some(block)) => {
                    if let Some(backup) = &mut self.backup {
                        backup.output_mut().keep(block);
                    }
                }
                Ok(None) => {}
                Err(why) => self.fail(why),
            }
        } else if let Some(backup) = &mut self.backup {
            backup.done(cx.sessions, record, bytes, cx.now);
            self.collect(cx);
        }
    }

    fn file_done(&mut self, cx: &mut Context<'_>, kept: bool, result: FileResult) {
        match kept {
            true => self.kept_done(cx, result),
            false => self.target_done(cx, result),
        }
    }

    fn needs(&self, range: LbnRange) -> bool {
        self.failed.is_none() && !self.finished && self.copies.needs(range)
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

    fn wants_flush(&mut self) -> bool {
        let open = self.opened.0.is_some() && self.opened.1.is_some();
        open && !self.claimed && self.flush.wants()
    }

    fn flushed(&mut self, _: &mut Context<'_>, result: Result<(), String>) {
        if let Err(why) = self.flush.flushed(result) {
            self.fail(why);
        }
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.paused = paused;
        self.flow(cx);
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        match self.trouble.clone() {
            Some((_, true)) => {
                // The target is checked against `saved`, the job's data in the journal, from which a replica also
                // continues.
                self.target.saved = self.saved.clone();
                let target = Box::new(self.target.clone());
                cx.target(FileOp::Open(target));
            }
            Some((_, false)) => {
                self.marks += 1;
                self.syncing = Some(std::mem::take(&mut self.unsynced));
                cx.target(FileOp::Sync { mark: self.marks });
            }
            None => {
                if let Some(backup) = &mut self.backup {
                    backup.go_on(cx.sessions);
                    self.collect(cx);
                }
            }
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        if let Err(why) = self.copies.check_time(cx.ran) {
            return self.fail(why);
        }
        if self.trouble.is_none() {
            self.sync(cx);
            if let Some(backup) = &mut self.backup
                && matches!(backup.state(), BackupState::Refused(_))
            {
                backup.go_on(cx.sessions);
                self.collect(cx);
            }
        }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.drop_backup(cx);
        self.copies.close(cx);
    }

    fn stage(&self) -> Stage {
        if let Some(why) = &self.failed {
            return Stage::Failed(why.clone());
        }
        match &self.trouble {
            _ if self.finished => Stage::Done,
            Some((why, _)) => Stage::Waiting(why.clone()),
            None if self.backup.is_none() => Stage::Opening,
            None => Stage::Running,
        }
    }

    fn save(&mut self) -> Option<DurableProgress> {
        // Until the target and the kept file are open, fewer blocks are known than before the restart. The first
        // progress in the journal says that both files exist.
        self.known |= self.opened.0.is_some() && self.opened.1.is_some();
        let is_claim = !self.claimed;
        if !self.known || is_claim && self.flush != InstantFlush::Done || !std::mem::take(&mut self.unsaved) {
            return None;
        }
        self.journaling.push_back(std::mem::take(&mut self.synced));
        let done = self.durable.len();
        let blocks = self.header().shape.blocks;
        let bytes = done.saturating_mul(self.header().block_bytes() as u64);
        let Bad { lbns, more } = &self.copies.bad;
        let (bad, bad_more) = (lbns.iter().copied().collect(), *more);
        let figures = Figures {
            done: done.min(blocks),
            blocks,
            bytes,
            bad,
            bad_more,
            records: self.copies.records(),
            ..Figures::default()
        };
        Some(DurableProgress { figures, saved: self.saved.clone() })
    }

    fn saved(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.claimed, true) {
            self.start(cx);
        }
        for block in self.journaling.pop_front().unwrap_or_default() {
            self.copies.is_safe(block);
        }
    }
}
