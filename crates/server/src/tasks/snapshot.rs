//! Backup and replica: the disk at one instant, read while clients write on.
//!
//! The instant is that of [`Snapshot::begin`]. From there on a foreground write to a block that is not safe yet is held
//! ([`Job::hold`]), the block is read with priority ([`Keeper`]) and kept durably in the state directory; then the
//! write goes. So a background read of a block that is not safe returns its content at that instant, and a background
//! read of a kept block is not used. A target that is slow, full or unreachable delays no client.

use super::job::{Context, Job, Stage, blocks_of};
use super::keeper::{Keeper, Read};
use super::outlet::{Outlet, Still};
use crate::desk::ANSWER;
use crate::desk::order::{News, Target, Work};
use crate::desk::table::{Figures, MOST_BAD};
use apps::backup::image::Header;
use apps::backup::{Backup, State};
use scheduler::{Application, BlockSet, Record};
use std::collections::{BTreeSet, VecDeque};
use units::{Instant, Lbn, LbnRange, Sectors};

/// The most bytes on their way to the target: beyond them reading waits. At half of them a sync is ordered, so that the
/// disk is read while the target syncs. Fewer under test, so that small disks need several syncs, too.
const MOST_UNSYNCED: u64 = if cfg!(test) { 256 << 10 } else { 16 << 20 };

/// A backup or replica at work.
pub(crate) struct Snapshot {
    target: Target,
    opened: (Option<BlockSet>, Option<BlockSet>),
    /// Whether both files have been open, so that their content is known.
    known: bool,
    /// Whether the journal says that the target is this task's: before that nothing is written to it.
    claimed: bool,
    backup: Option<Backup<Still, Outlet>>,
    keeper: Keeper,
    /// Blocks that are kept, or in the target and in the journal: writes to them may go.
    safe: BlockSet,
    /// Blocks that are in the target or kept, durably.
    durable: BlockSet,
    /// Blocks ordered to be kept: background reads of them are too new.
    kept: BlockSet,
    /// The times of the orders to keep blocks that are not durable yet.
    keeping: VecDeque<Instant>,
    /// Blocks put since the last sync was ordered.
    unsynced: Vec<u64>,
    /// The blocks of the sync that was ordered.
    syncing: Option<Vec<u64>>,
    /// Blocks that are synced, but not yet handed to the journal.
    synced: Vec<u64>,
    /// For each [`Job::save`] that the journal has not confirmed yet: the blocks that were synced before it.
    journaling: VecDeque<Vec<u64>>,
    bytes_out: u64,
    finishing: bool,
    finished: bool,
    paused: bool,
    suspended: bool,
    /// Why the target takes nothing, and whether it has to be opened again.
    trouble: Option<(String, bool)>,
    failed: Option<String>,
    bad: BTreeSet<u64>,
    bad_more: u64,
    /// Whether figures have changed since they were saved.
    news: bool,
    saved: Vec<u8>,
    marks: u64,
}

impl Snapshot {
    /// Begins at the instant of the call, or continues after a restart.
    pub fn begin(cx: &mut Context<'_>, target: Target, keep_most: u64, before: &Figures) -> Self {
        let (blocks, claimed) = (target.header.shape.blocks, !target.fresh);
        cx.kept(Work::OpenKept { header: target.header, most: keep_most, begun: claimed });
        cx.target(Work::Open(Box::new(target.clone())));
        Self {
            saved: target.saved.clone(),
            target,
            opened: (None, None),
            known: false,
            claimed,
            backup: None,
            keeper: Keeper::default(),
            safe: BlockSet::empty(blocks),
            durable: BlockSet::empty(blocks),
            kept: BlockSet::empty(blocks),
            keeping: VecDeque::new(),
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
            bad: before.bad.iter().copied().collect(),
            bad_more: before.bad_more,
            news: true,
            marks: 0,
        }
    }

    fn header(&self) -> Header {
        self.target.header
    }

    /// Returns the range of a block; the last may be shorter.
    fn range(&self, cx: &Context<'_>, block: u64) -> LbnRange {
        let start = self.header().shape.home(block);
        let rest = cx.disk.capacity.get().saturating_sub(start.get());
        LbnRange::new(start, Sectors::new(rest.min(self.header().shape.block.get())))
    }

    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// Begins to read the blocks that neither file has.
    fn start(&mut self, cx: &mut Context<'_>) {
        let (Some(target), Some(_), true) = (&self.opened.0, &self.opened.1, self.claimed) else { return };
        let mut present = target.clone();
        self.kept.for_each(0, self.kept.blocks(), |block| {
            let _ = present.insert(block);
        });
        let still = Still { shape: self.header().shape, capacity: cx.disk.capacity };
        let outlet = Outlet::new(self.header(), present, self.kept.clone());
        let snapshot = (self.header().snapshot, None);
        let sector = self.header().sector_bytes as usize;
        match Backup::start(still, outlet, snapshot, sector, cx.sessions, cx.priority) {
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
        let suspend = self.paused || self.trouble.is_some() || self.bytes_out > MOST_UNSYNCED;
        if suspend != self.suspended {
            // A closed session delivers nothing, so it need not be suspended.
            let _ = match suspend {
                true => cx.sessions.suspend(backup.session()),
                false => cx.sessions.resume(backup.session()),
            };
            self.suspended = suspend;
        }
    }

    /// Passes on the blocks that the backup has put out.
    fn collect(&mut self, cx: &mut Context<'_>) {
        let Some(backup) = &mut self.backup else { return };
        let outlet = backup.output_mut();
        for put in outlet.take() {
            self.unsynced.push(put.block);
            self.bytes_out = self.bytes_out.saturating_add(put.bytes.len() as u64);
            let home = self.target.header.shape.home(put.block);
            note_bad(&mut self.bad, &mut self.bad_more, home, &put.bad);
            cx.target(Work::Put { block: put.block, bytes: put.bytes, bad: put.bad });
        }
        let ending = backup.output_mut().is_ending();
        match backup.state().clone() {
            State::Gone(gone) => self.fail(gone.to_string()),
            State::OutputFailed(why) => self.fail(why),
            State::Refused(_) | State::Running | State::TargetFull | State::Finished => {}
        }
        // Otherwise a block still on its way to the kept file would be missing.
        if ending && !self.finishing && self.trouble.is_none() && self.keeping.is_empty() {
            self.finishing = true;
            cx.target(Work::Finish);
        }
        if self.bytes_out > MOST_UNSYNCED / 2 {
            self.sync(cx);
        }
        self.flow(cx);
    }

    /// Orders a sync of the blocks put so far, unless one is in flight. It does not wait for the journal, which takes
    /// progress only once a second.
    fn sync(&mut self, cx: &mut Context<'_>) {
        if self.syncing.is_none() && !self.unsynced.is_empty() {
            self.syncing = Some(std::mem::take(&mut self.unsynced));
            self.marks += 1;
            cx.target(Work::Sync { mark: self.marks });
        }
    }

    fn keep(&mut self, cx: &mut Context<'_>, read: Read) {
        let Read { block, mut bytes, bad } = read;
        if self.kept.contains(block) {
            return;
        }
        bytes.resize(self.header().block_bytes(), 0);
        let home = self.header().shape.home(block);
        note_bad(&mut self.bad, &mut self.bad_more, home, &bad);
        self.kept.insert(block);
        if let Some(backup) = &mut self.backup {
            backup.output_mut().keep(block);
        }
        self.keeping.push_back(cx.now);
        cx.kept(Work::Keep { mark: block, block, bytes, bad });
    }

    fn told_target(&mut self, cx: &mut Context<'_>, news: News) {
        match news {
            News::Opened(present) => {
                // They are safe when the journal has their number: a target that loses some is noticed then.
                let mut blocks = Vec::new();
                present.for_each(0, present.blocks(), |block| {
                    self.durable.insert(block);
                    blocks.push(block);
                });
                if !blocks.is_empty() {
                    self.syncing = Some(blocks);
                    self.marks += 1;
                    cx.target(Work::Sync { mark: self.marks });
                }
                self.opened.0 = Some(*present);
                (self.trouble, self.news, self.target.fresh) = (None, true, false);
                self.start(cx);
            }
            News::Synced { saved, .. } => {
                if let Some(blocks) = self.syncing.take() {
                    for block in &blocks {
                        self.durable.insert(*block);
                    }
                    self.synced.extend(blocks);
                    (self.saved, self.news) = (saved, true);
                }
                self.room(cx);
            }
            News::Finished => {
                (self.finished, self.news) = (true, true);
                let shape = self.header().shape;
                self.safe = BlockSet::full(shape.blocks);
                self.durable = BlockSet::full(shape.blocks);
                if let Some(backup) = &mut self.backup {
                    backup.output_mut().end();
                    backup.go_on(cx.sessions);
                }
            }
            News::Full(why) => {
                self.unsync();
                self.trouble = Some((why, false));
            }
            News::Trouble(why) => {
                // Blocks that are put and not durable will be read again: they have not been overwritten.
                self.unsync();
                self.unsynced.clear();
                self.trouble = Some((why, true));
                self.drop_backup(cx);
            }
            News::Refused(why) => self.fail(why),
            _ => {}
        }
        self.flow(cx);
    }

    /// Takes back a failed sync: its blocks wait for the next.
    fn unsync(&mut self) {
        self.unsynced.extend(self.syncing.take().into_iter().flatten());
        self.finishing = false;
    }

    /// Records that the target has taken all blocks on their way.
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

    fn told_kept(&mut self, cx: &mut Context<'_>, news: News) {
        match news {
            News::Opened(present) => {
                present.for_each(0, present.blocks(), |block| {
                    self.safe.insert(block);
                    self.durable.insert(block);
                    self.kept.insert(block);
                });
                self.opened.1 = Some(*present);
                self.news = true;
                self.start(cx);
            }
            News::Synced { mark: block, .. } => {
                self.keeping.pop_front();
                self.safe.insert(block);
                self.durable.insert(block);
                self.news = true;
                if self.keeping.is_empty() {
                    self.collect(cx);
                }
            }
            News::Refused(why) | News::Trouble(why) => self.fail(why),
            _ => {}
        }
    }
}

fn note_bad(bad: &mut BTreeSet<u64>, more: &mut u64, home: Lbn, sectors: &[u32]) {
    for lbn in sectors.iter().map(|s| home.get().saturating_add(u64::from(*s))) {
        if bad.len() < MOST_BAD {
            bad.insert(lbn);
        } else if !bad.contains(&lbn) {
            *more += 1;
        }
    }
}

impl Job for Snapshot {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        if self.keeper.is_of(record) {
            let sector = self.header().sector_bytes as usize;
            match self.keeper.done(cx, record, bytes, sector) {
                Ok(Some(read)) => self.keep(cx, read),
                Ok(None) => {}
                Err(error) => self.fail(format!("a block could not be kept: {error}")),
            }
        } else if let Some(backup) = &mut self.backup {
            backup.done(cx.sessions, record, bytes, cx.now);
            self.collect(cx);
        }
    }

    fn told(&mut self, cx: &mut Context<'_>, kept: bool, news: News) {
        match kept {
            true => self.told_kept(cx, news),
            false => self.told_target(cx, news),
        }
    }

    fn needs(&self, range: LbnRange) -> bool {
        let (first, end) = blocks_of(range, self.header().shape.block, self.safe.blocks());
        self.failed.is_none() && !self.finished && self.safe.count(first, end) < end.saturating_sub(first)
    }

    fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange) -> bool {
        if !self.needs(range) {
            return false;
        }
        let (first, end) = blocks_of(range, self.header().shape.block, self.safe.blocks());
        for block in first..end {
            if self.safe.contains(block) || self.kept.contains(block) {
                continue;
            }
            let place = self.range(cx, block);
            if let Err(error) = self.keeper.ask(cx, block, place)
                && !matches!(error, scheduler::SessionError::TooManyTasks { .. })
            {
                self.fail(format!("a block could not be kept: {error}"));
                return false;
            }
        }
        true
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.paused = paused;
        self.flow(cx);
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        match self.trouble.clone() {
            Some((_, true)) => {
                // A replica continues from the record in the journal.
                self.target.saved = self.saved.clone();
                let target = Box::new(self.target.clone());
                cx.target(Work::Open(target));
            }
            Some((_, false)) => {
                self.marks += 1;
                self.syncing = Some(std::mem::take(&mut self.unsynced));
                cx.target(Work::Sync { mark: self.marks });
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
        if self.keeping.front().is_some_and(|at| *at + ANSWER <= cx.now) {
            let s = ANSWER.as_secs_f64();
            return self.fail(format!(
                "what clients overwrite could not be kept: the state directory has not answered for {s:.0} s; put it on \
                 another device, never on this disk itself, and begin anew"
            ));
        }
        if self.trouble.is_none() {
            self.sync(cx);
            if let Some(backup) = &mut self.backup
                && matches!(backup.state(), State::Refused(_))
            {
                backup.go_on(cx.sessions);
                self.collect(cx);
            }
        }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.drop_backup(cx);
        self.keeper.close(cx);
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

    fn save(&mut self) -> Option<(Figures, Vec<u8>)> {
        // Before both files are open less is known than before; once the target is claimed, both must exist.
        self.known |= self.opened.0.is_some() && self.opened.1.is_some();
        if !self.known || !std::mem::take(&mut self.news) {
            return None;
        }
        self.journaling.push_back(std::mem::take(&mut self.synced));
        let done = self.durable.len();
        let blocks = self.header().shape.blocks;
        let bytes = done.saturating_mul(self.header().block_bytes() as u64);
        let bad = self.bad.iter().copied().collect();
        let figures =
            Figures { done: done.min(blocks), blocks, bytes, bad, bad_more: self.bad_more, content: None };
        Some((figures, self.saved.clone()))
    }

    fn saved(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.claimed, true) {
            self.start(cx);
        }
        for block in self.journaling.pop_front().unwrap_or_default() {
            self.safe.insert(block);
        }
    }
}
