//! Reorganisation: moves blocks to new places as a plan says (`apps::reorganizer`, FAST'04 section 4.3).
//!
//! From the reading of the plan to the end of the task, clients may not access the plan's places, which are the ranges
//! that its moves touch ([`Job::fences`]). The state of the moves, with the content of blocks that are between two
//! places, is saved in the state directory. A block that was read is durable there before its place is overwritten
//! ([`Gate`]). A block that was written is flushed to the medium before its saved content is dropped.

use super::job::{Context, DurableProgress, Job, Stage, meets};
use super::landed::Landed;
use crate::disk::Fence;
use crate::task::file_request::{FileOp, FileResult};
use crate::task::table::{Figures, LISTED_BAD_SECTORS_MAX};
use apps::reorganizer::{Nvram, NvramLost, Prepared, Progress, Reorganizer, Trouble};
use scheduler::{Application, Record, Wanted};
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use units::{LbnRange, Op, Sectors};

/// The most calls to the core in one step of the start. They take some milliseconds (`cargo run --release -p
/// freeblock-apps --example reorganize_start`). Fewer under test, so that small plans also begin in many steps.
const CALLS_MAX: usize = if cfg!(test) { 5 } else { 1 << 12 };

/// The most bytes of blocks that are between two places, unless bad sectors require more.
const STAGING_BYTES: u64 = 16 << 20;

/// A task's progress in the journal if an older version wrote it, whose copies of plans do not name the task: the saved
/// state must exist.
const BEGUN_UNNUMBERED: &[u8] = &[1];
/// The progress in the journal of a task that is over.
const OVER: &[u8] = &[2];
/// The progress in the journal of a task whose saved state must exist, with a copy of the plan that names the task.
const BEGUN: &[u8] = &[3];

/// Returns whether a task with this progress in the journal must have a copy of the plan and a saved state.
pub(crate) fn has_files(saved: &[u8]) -> bool {
    [BEGUN, BEGUN_UNNUMBERED].contains(&saved)
}

/// The number (mark) of the request to write the map of where each block is, the last request of a task.
const MAP_MARK: u64 = u64::MAX;

/// The changes of the reorganiser's state whose write is not requested yet, each with whether it replaces the file.
#[derive(Debug, Default)]
struct UnsavedState(Vec<(Vec<u8>, bool)>);

impl Nvram for UnsavedState {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        match self.0.last_mut() {
            // Join changes whose write is not requested yet.
            Some((last, _)) => last.extend(bytes),
            None => self.0.push((bytes.to_vec(), false)),
        }
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        self.0 = vec![(bytes.to_vec(), true)];
        Ok(())
    }
}

/// An LBN range that must not be overwritten before the write of the saved state with the number `mark` is durable.
struct Gate {
    place: LbnRange,
    mark: u64,
}

/// A reorganisation at work.
pub(crate) struct Reorganize {
    plan: PathBuf,
    block: Sectors,
    staging: u64,
    /// Whether the journal says that the saved state exists. Before that no block is overwritten.
    begun: bool,
    /// Whether an older version wrote the progress in the journal; its copies of plans do not name the task.
    unnumbered: bool,
    /// The task's random number.
    number: u64,
    /// Whether a block may have been overwritten.
    overwritten: bool,
    /// The LBN ranges that the plan's moves touch, in order; `None` until the plan is read.
    places: Option<Vec<Range<u64>>>,
    /// The plan, while the task waits for the end of clients' earlier requests in the plan's LBN ranges.
    opened: Option<Box<Prepared>>,
    machine: Option<Reorganizer<UnsavedState>>,
    gates: VecDeque<Gate>,
    /// For each write of the saved state that is not durable yet, its number and the progress at that write.
    marks: VecDeque<(u64, Progress)>,
    mark: u64,
    durable: u64,
    /// The number of records in the file of the saved state that are durable.
    records: u64,
    progress: Progress,
    /// Writes that the disk may have only in its cache.
    landed: Landed<Record>,
    paused: bool,
    trouble: Option<String>,
    failed: Option<String>,
    /// Whether all blocks are moved; the reason to fail with when the map is written; and whether the end is in the
    /// journal.
    finished: bool,
    mapping: Option<String>,
    over: bool,
    unsaved: bool,
    /// The job's data that [`Job::save`] returned and that is not in the journal yet.
    handed: VecDeque<&'static [u8]>,
    block_bytes: u64,
    last: Figures,
}

impl Reorganize {
    /// Begins the reorganisation, or continues from `saved`, the job's data in the journal.
    pub fn begin(
        cx: &mut Context<'_>,
        plan: PathBuf,
        block: Sectors,
        number: u64,
        saved: &[u8],
        before: &Figures,
    ) -> Self {
        let bytes = block.get().saturating_mul(cx.disk.sector_bytes.get()).max(1);
        let reorganize = Self {
            plan,
            block,
            staging: (STAGING_BYTES / bytes).clamp(4, 1_024),
            begun: has_files(saved),
            unnumbered: saved == BEGUN_UNNUMBERED,
            number,
            overwritten: false,
            places: None,
            opened: None,
            machine: None,
            gates: VecDeque::new(),
            marks: VecDeque::new(),
            mark: 0,
            durable: 0,
            records: if has_files(saved) { before.records } else { 0 },
            progress: Progress::default(),
            landed: Landed::default(),
            paused: false,
            trouble: None,
            failed: None,
            finished: false,
            mapping: None,
            over: saved == OVER,
            unsaved: false,
            handed: VecDeque::new(),
            block_bytes: bytes,
            last: before.clone(),
        };
        if !reorganize.over {
            reorganize.open(cx);
        }
        reorganize
    }

    fn open(&self, cx: &mut Context<'_>) {
        let (plan, block, disk) = (self.plan.clone(), self.block, cx.disk.clone());
        let Self { staging, number, unnumbered, .. } = *self;
        let begun = self.begun.then_some(self.records);
        cx.kept(FileOp::OpenMoves { plan, block, disk, staging, begun, number, unnumbered });
    }

    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// Starts to move blocks, when the plan's places are free of other requests.
    fn start(&mut self, cx: &mut Context<'_>) {
        let Some(plan) = self.opened.take() else { return };
        let mut plan = *plan;
        plan.options_mut().priority = cx.priority;
        self.staging = plan.options_mut().staging;
        match Reorganizer::begin(plan, UnsavedState::default(), cx.sessions) {
            Ok(machine) => {
                self.progress = machine.progress();
                self.overwritten |= self.progress.staged + self.progress.done > 0;
                self.trouble = None;
                self.machine = Some(machine);
                self.go_on_beginning(cx);
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// Registers some of the blocks with the core. All at once would delay clients, because a million take a second.
    fn go_on_beginning(&mut self, cx: &mut Context<'_>) {
        let Some(machine) = self.machine.as_mut().filter(|machine| machine.is_beginning()) else { return };
        match machine.begin_some(cx.sessions, CALLS_MAX) {
            Ok(true) => {}
            Ok(false) => return cx.kept(FileOp::Yield),
            Err(error) => {
                self.machine = None;
                self.trouble = Some(error.to_string());
                return;
            }
        }
        self.absorb(cx, None);
        if self.paused {
            self.pause(cx, true);
        }
        self.unsaved = true;
    }

    /// Requests the write of the reorganiser's new state. `read` is the LBN range whose content the new state contains.
    fn absorb(&mut self, cx: &mut Context<'_>, read: Option<LbnRange>) {
        let Some(machine) = &mut self.machine else { return };
        for (bytes, replace) in std::mem::take(&mut machine.nvram_mut().0) {
            self.mark += 1;
            cx.kept(FileOp::Moves { mark: self.mark, bytes, replace });
            self.marks.push_back((self.mark, machine.progress()));
            self.gates.extend(read.map(|place| Gate { place, mark: self.mark }));
        }
        if let Some(Trouble::StagingExhausted { .. }) = machine.trouble() {
            // Blocks without a good destination fill the staging area: continue from the durable state with a larger
            // area.
            self.staging = self.staging.saturating_mul(2);
            self.let_go(
                cx,
                "the staging area is full of blocks that have no good place; it is enlarged".into(),
            );
        }
        self.finish(cx);
    }

    /// Drops the state in memory; `retry` continues from the durable state.
    fn let_go(&mut self, cx: &mut Context<'_>, why: String) {
        if let Some(mut machine) = self.machine.take() {
            machine.close(cx.sessions);
        }
        self.gates.clear();
        self.marks.clear();
        self.landed.clear();
        self.trouble = Some(why);
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        let Some(machine) = &self.machine else { return };
        let ended = machine.progress().is_finished() && self.durable == self.mark && !machine.is_beginning();
        if !ended || self.finished || self.mapping.is_some() {
            return;
        }
        if machine.faults().is_empty() {
            (self.finished, self.unsaved) = (true, true);
            return;
        }
        // Some blocks are not where the plan wanted them, so the user gets a map.
        let mut map = String::from("# where it was, sectors, where it is\n");
        for (from, at) in machine.whereabouts() {
            let (first, sectors) = (from.start(), from.len().get());
            let _ = match at {
                Some(at) => writeln!(map, "{first} {sectors} {at}"),
                None => writeln!(map, "{first} {sectors} -"),
            };
        }
        let Progress { stuck, kept, .. } = machine.progress();
        let mut why = format!(
            "bad sectors were in the way: where each block is stands in task-{}.map of the state directory",
            cx.id
        );
        if stuck > 0 {
            let _ = write!(why, "; {stuck} could not be read");
        }
        if kept > 0 {
            let _ = write!(why, "; {kept} have no good place, their bytes are in task-{}.moves there", cx.id);
        }
        self.mapping = Some(why);
        cx.kept(FileOp::Map(map.into_bytes()));
    }

    fn durable(&mut self, mark: u64) {
        self.durable = mark;
        while self.marks.front().is_some_and(|(at, _)| *at <= mark) {
            if let Some((_, progress)) = self.marks.pop_front() {
                (self.progress, self.unsaved) = (progress, true);
            }
        }
        while self.gates.front().is_some_and(|gate| gate.mark <= mark) {
            self.gates.pop_front();
        }
    }

    fn figures(&self) -> Figures {
        let Some(machine) = &self.machine else { return self.last.clone() };
        let Progress { blocks, done, stuck, kept, .. } = self.progress;
        let done = done + stuck + kept;
        let mut bad: Vec<u64> = machine.faults().iter().map(|fault| fault.bad.get()).collect();
        bad.sort_unstable();
        bad.dedup();
        let bad_more = bad.len().saturating_sub(LISTED_BAD_SECTORS_MAX) as u64;
        bad.truncate(LISTED_BAD_SECTORS_MAX);
        Figures {
            done,
            blocks,
            bytes: done.saturating_mul(self.block_bytes),
            bad,
            bad_more,
            records: self.records,
            ..Figures::default()
        }
    }

    fn is_at(&self, range: LbnRange) -> bool {
        meets(self.places.as_deref().unwrap_or_default(), range)
    }
}

impl Job for Reorganize {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        let Some(machine) = &mut self.machine else { return };
        if !machine.sessions().contains(&record.session) {
            return;
        }
        if record.op == Op::Write {
            // The reorganiser gets the record of this write after the flush of the write.
            self.landed.push(*record);
            return;
        }
        machine.done(cx.sessions, record, bytes, cx.now);
        self.absorb(cx, Some(record.range));
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let shut = self.gates.iter().any(|gate| gate.place.overlaps(wanted.range));
        if !self.begun || shut || self.trouble.is_some() {
            return false;
        }
        let given = self.machine.as_mut().is_some_and(|machine| machine.buffer(wanted, into));
        self.overwritten |= given;
        given
    }

    fn file_done(&mut self, cx: &mut Context<'_>, _: bool, result: FileResult) {
        match result {
            FileResult::Moves { plan, places } => {
                self.block_bytes = plan.block().get().saturating_mul(cx.disk.sector_bytes.get());
                self.places = Some(places);
                self.opened = Some(plan);
            }
            FileResult::Damaged { why, places } => {
                self.places = places.or(self.places.take());
                self.trouble = Some(why);
            }
            FileResult::Yielded => self.go_on_beginning(cx),
            FileResult::Synced { mark: MAP_MARK, .. } => {
                let why = self.mapping.clone().unwrap_or_default();
                self.fail(why);
            }
            FileResult::Synced { mark, records, .. } if self.trouble.is_none() => {
                self.records = records;
                self.durable(mark);
                self.finish(cx);
            }
            FileResult::Trouble(why) if self.trouble.is_none() => {
                self.mapping = None;
                self.let_go(cx, why);
            }
            FileResult::Refused(why) => self.fail(why),
            _ => {}
        }
    }

    fn fences(&self, range: LbnRange) -> Fence {
        if self.over || self.failed.is_some() {
            return Fence::Open;
        }
        match &self.places {
            // The task has moved blocks, and its files are damaged: refuse requests, which cannot wait for ever.
            None if self.begun && self.trouble.is_some() => Fence::Closed,
            None if self.begun => Fence::Wait,
            None => Fence::Open,
            Some(_) if self.is_at(range) => Fence::Closed,
            Some(_) => Fence::Open,
        }
    }

    fn places(&self) -> Option<Vec<Range<u64>>> {
        Some(self.places.clone().unwrap_or_default())
    }

    fn wants_clear(&self) -> bool {
        self.opened.is_some() && self.trouble.is_none()
    }

    fn clear(&mut self, cx: &mut Context<'_>) {
        self.start(cx);
    }

    fn may_cancel(&self) -> Result<(), String> {
        match self.overwritten || self.begun && self.machine.is_none() {
            true => Err("blocks have already been moved; pause the task, or let the task end and run a plan with the reverse moves"
                .into()),
            false => Ok(()),
        }
    }

    fn wants_flush(&mut self) -> bool {
        let many = self.landed.waiting() as u64 >= self.staging / 4;
        self.landed.wants(many)
    }

    fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        let flushed = self.landed.flushed();
        if let Err(why) = result {
            // Writes in the disk's cache may be lost, but the saved state still has their blocks.
            return self.let_go(cx, format!("the disk cannot be flushed: {why}"));
        }
        for record in flushed {
            if let Some(machine) = &mut self.machine {
                machine.done(cx.sessions, &record, &[], cx.now);
            }
        }
        self.absorb(cx, None);
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.paused = paused;
        if let Some(machine) = &mut self.machine {
            machine.pause(cx.sessions, paused);
            self.absorb(cx, None);
        }
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        match (&mut self.machine, self.opened.is_some()) {
            (None, false) if self.trouble.is_some() => {
                self.trouble = None;
                self.open(cx);
            }
            (None, true) => self.start(cx),
            (Some(machine), _) => {
                machine.retry(cx.sessions);
                self.absorb(cx, None);
            }
            (None, false) => {}
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.landed.set_due();
        let refused =
            matches!(self.machine.as_ref().and_then(Reorganizer::trouble), Some(Trouble::Session(_)));
        if refused && !self.paused {
            self.retry(cx);
        }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(mut machine) = self.machine.take() {
            machine.close(cx.sessions);
        }
        // After a failure the saved state stays: it says where each block is.
        if self.over || !self.overwritten && self.failed.is_none() {
            cx.kept(FileOp::ForgetMoves);
        }
    }

    fn stage(&self) -> Stage {
        match (&self.failed, &self.trouble) {
            _ if self.over => Stage::Done,
            (Some(why), _) => Stage::Failed(why.clone()),
            (None, Some(why)) => Stage::Waiting(why.clone()),
            (None, None) if self.machine.as_ref().is_some_and(Reorganizer::is_beginning) => Stage::Opening,
            (None, None) => match self.machine.as_ref().map(Reorganizer::trouble) {
                None => Stage::Opening,
                Some(Some(trouble @ Trouble::Session(_))) => Stage::Waiting(trouble.to_string()),
                Some(_) => Stage::Running,
            },
        }
    }

    fn save(&mut self) -> Option<DurableProgress> {
        if self.machine.is_none() || !std::mem::take(&mut self.unsaved) {
            return None;
        }
        // Only when the saved state is durable does the journal say that it must exist.
        let known: &[u8] = match (self.durable, self.finished) {
            (0, _) if !self.begun => &[],
            (_, false) if self.unnumbered => BEGUN_UNNUMBERED,
            (_, false) => BEGUN,
            (_, true) => OVER,
        };
        self.handed.push_back(known);
        self.last = self.figures();
        Some(DurableProgress { figures: self.last.clone(), saved: known.to_vec() })
    }

    fn saved(&mut self, _: &mut Context<'_>) {
        let known = self.handed.pop_front().unwrap_or_default();
        self.begun |= !known.is_empty();
        self.over |= known == OVER;
    }
}
