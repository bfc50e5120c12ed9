//! The state of a disk's checksum store, and the writes that outdate sums (docs/SCRUB.md).
//!
//! A scrub with checksums records them in a file, the store. From then on, also between scrubs, a write to a block
//! whose sum may be in the store is held until the store has durably forgotten that sum: a stored sum always matches
//! the last write. The journal names the store of a disk. If the store fails, or cannot be opened when the daemon
//! begins, the journal drops the store before the next write goes to the disk, and the store is never trusted again.

use super::owner::Owner;
use super::{TaskChange, TaskManager};
use crate::jobs::job::{DiskWrites, blocks_of};
use crate::task::file_request::{FILE_TIMEOUT, FileOp, FileQueue, FileRequest, FileResult};
use crate::task::table::{Event, SumStore};
use scheduler::{BlockSet, Sessions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use tracing::{error, info};
use units::{Duration, LbnRange, Sectors};

/// The most blocks whose sums a store forgets with one request, about a thousand of its pages: a discard of the whole
/// disk takes many requests, and each is answered within [`FILE_TIMEOUT`].
const FORGOTTEN_BLOCKS_MAX: u64 = 1 << 20;

/// A checksum store that forgets the sums of the blocks that are written.
#[derive(Debug)]
struct WatchedStore {
    id: u64,
    block: Sectors,
    /// The blocks whose sums may be in the store.
    maybe: BlockSet,
    /// The blocks of the request to forget that is in flight, and those of the next request.
    forgetting: Vec<Range<u64>>,
    next: Vec<Range<u64>>,
    /// When the request in flight was made, in time that the daemon has run.
    since: Duration,
}

#[derive(Debug, Default)]
enum StoreState {
    #[default]
    None,
    Kept(WatchedStore),
    /// The store has failed, but a restarted daemon would still trust it. Writes wait until this journal entry or the
    /// file `sums.end` records that the store is given up. The duration is the daemon's running time at the failure.
    Leaving(u64, Duration),
}

/// The recent writes, for a scrub with checksums.
#[derive(Debug)]
struct Watch {
    /// The number of the task.
    id: u64,
    block: Sectors,
    /// Blocks to which a write began or ended since the scrub last asked for them.
    touched: BlockSet,
}

/// The checksums of a disk.
#[derive(Debug, Default)]
pub(crate) struct DiskSums {
    state: StoreState,
    watch: Option<Watch>,
    /// The foreground writes in flight.
    writing: Vec<LbnRange>,
    /// The blocks whose bytes a task or session has handed over for writing and that are not written yet.
    given: BTreeMap<Owner, BTreeSet<LbnRange>>,
    /// The number of times that a write began or ended.
    writes: u64,
    /// The task that a store has been opened for, and the journal entry that names the store: when the entry is
    /// durable, the task may begin.
    ready: Option<TaskChange>,
}

impl DiskSums {
    /// Records writes for a scrub with checksums from here on.
    pub fn watch(&mut self, id: u64, block: Sectors, capacity: Sectors) {
        let blocks = capacity.get().div_ceil(block.get().max(1));
        self.watch = Some(Watch { id, block, touched: BlockSet::empty(blocks) });
    }

    /// Ends the recording of writes for a task that is over.
    fn unwatch(&mut self, id: u64) {
        if self.is_of(id) {
            self.watch = None;
        }
    }

    fn is_of(&self, id: u64) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.id == id)
    }

    fn touch(&mut self, range: LbnRange) {
        self.writes += 1;
        if let Some(watch) = &mut self.watch {
            for block in blocks_of(range, watch.block, watch.touched.blocks()) {
                let _ = watch.touched.insert(block);
            }
        }
    }

    fn hold(&mut self, range: LbnRange, file_requests: &mut VecDeque<FileRequest>, ran: Duration) -> bool {
        let kept = match &mut self.state {
            StoreState::None => return false,
            StoreState::Leaving(..) => return true,
            StoreState::Kept(kept) => kept,
        };
        let Range { start: first, end } = blocks_of(range, kept.block, kept.maybe.blocks());
        let pending = || kept.forgetting.iter().chain(&kept.next);
        let known = |from| kept.maybe.next(from).filter(|block| *block < end);
        let Some(mut at) = known(first) else {
            return pending().any(|blocks| blocks.start < end && first < blocks.end);
        };
        while let Some(blocks) = pending().find(|blocks| blocks.contains(&at)) {
            let Some(rest) = known(blocks.end) else { return true };
            at = rest;
        }
        kept.next.push(at..end);
        kept.forget(file_requests, ran);
        true
    }
}

impl DiskWrites for DiskSums {
    fn in_flight(&self) -> Vec<LbnRange> {
        self.writing.iter().chain(self.given.values().flatten()).copied().collect()
    }

    fn changes(&self) -> u64 {
        self.writes
    }

    fn is_quiet(&self, block: u64) -> bool {
        let Some(watch) = &self.watch else { return false };
        let of = |range: LbnRange| blocks_of(range, watch.block, watch.touched.blocks()).contains(&block);
        let is_pending = match &self.state {
            StoreState::Kept(kept) => {
                kept.forgetting.iter().chain(&kept.next).any(|blocks| blocks.contains(&block))
            }
            StoreState::None | StoreState::Leaving(..) => true,
        };
        !is_pending
            && !watch.touched.contains(block)
            && !self.writing.iter().chain(self.given.values().flatten()).any(|range| of(*range))
    }

    fn ask_again(&mut self, block: u64) -> bool {
        if let Some(watch) = &mut self.watch {
            watch.touched.remove(block);
        }
        self.is_quiet(block)
    }

    fn recorded(&mut self, block: u64) {
        if let StoreState::Kept(kept) = &mut self.state {
            kept.maybe.insert(block);
        }
    }
}

impl WatchedStore {
    /// Requests that the store forget the next blocks. One request, with one sync, serves all writes that wait.
    fn forget(&mut self, file_requests: &mut VecDeque<FileRequest>, ran: Duration) {
        if self.forgetting.is_empty() && !self.next.is_empty() {
            (self.forgetting, self.since) = (Vec::new(), ran);
            let mut room = FORGOTTEN_BLOCKS_MAX;
            while let Some(blocks) = self.next.first_mut()
                && room > 0
            {
                let stop = blocks.start.saturating_add(room).min(blocks.end);
                self.forgetting.push(blocks.start..stop);
                room -= stop.saturating_sub(blocks.start);
                blocks.start = stop;
                if stop >= blocks.end {
                    self.next.remove(0);
                }
            }
            file_requests.push_back(FileRequest {
                queue: FileQueue::Sums,
                op: FileOp::Forget(self.forgetting.clone()),
            });
        }
    }
}

impl TaskManager {
    /// Opens the store that the journal names, before any client can write.
    pub(super) fn begin_sums(&mut self) {
        let Some(store) = self.table.sums().cloned() else { return };
        self.keep_sums(&store, BlockSet::full);
        let SumStore { path, block, .. } = store;
        let op = self.open_sums(None, path, Sectors::new(block), 0, false);
        self.file_requests.push_back(FileRequest { queue: FileQueue::Sums, op });
        self.send_file_requests();
    }

    /// Returns the request to open a store: for a task, or without one the store that the journal names.
    fn open_sums(&self, task: Option<u64>, path: PathBuf, block: Sectors, id: u64, anew: bool) -> FileOp {
        let disk = self.config.disk.clone();
        let known = self.table.sums().map(|store| (store.path.clone(), store.id));
        FileOp::OpenSums(Box::new(crate::task::file_request::OpenSums {
            task,
            path,
            block,
            known,
            id,
            anew,
            disk,
        }))
    }

    fn keep_sums(&mut self, store: &SumStore, maybe: impl FnOnce(u64) -> BlockSet) {
        let block = Sectors::new(store.block.max(1));
        let blocks = self.config.disk.capacity.get().div_ceil(block.get());
        let kept = WatchedStore {
            id: store.id,
            block,
            maybe: maybe(blocks),
            forgetting: Vec::new(),
            next: Vec::new(),
            since: self.ran,
        };
        self.sums.state = StoreState::Kept(kept);
    }

    /// Requests that the store of a scrub be opened.
    pub(super) fn want_sums(&mut self, id: u64, path: PathBuf, block: Sectors, number: u64, anew: bool) {
        if self.table.sums().is_none() && matches!(self.sums.state, StoreState::Kept(_)) {
            // The task replaces the store: the entry that drops the old one is durable before the task begins.
            self.sums.state = StoreState::None;
        }
        let op = self.open_sums(Some(id), path, block, number, anew);
        self.file_requests.push_back(FileRequest { queue: FileQueue::Sums, op });
    }

    /// Returns whether a write has to wait until the store has forgotten the sums of its blocks.
    pub(super) fn hold_for_sums(&mut self, range: LbnRange) -> bool {
        let held = self.sums.hold(range, &mut self.file_requests, self.ran);
        self.send_file_requests();
        held
    }

    /// Records that a write of the foreground is sent to the disk.
    pub(crate) fn writing(&mut self, range: LbnRange) {
        self.sums.touch(range);
        self.sums.writing.push(range);
    }

    /// Records that a write of the foreground has succeeded or failed.
    pub(crate) fn wrote(&mut self, range: LbnRange) {
        self.sums.touch(range);
        if let Some(at) = self.sums.writing.iter().position(|other| *other == range) {
            self.sums.writing.swap_remove(at);
        }
    }

    /// Records that a task or session has handed over the bytes of a block, which will be written.
    pub(super) fn gave(&mut self, owner: Owner, range: LbnRange) {
        self.sums.touch(range);
        self.sums.given.entry(owner).or_default().insert(range);
    }

    /// Records that a block of a task or session was written.
    pub(super) fn took(&mut self, owner: Owner, range: LbnRange) {
        self.sums.touch(range);
        if let Some(given) = self.sums.given.get_mut(&owner) {
            given.retain(|block| block.start() < range.start() || block.end() > range.end());
        }
    }

    /// Records that a task or session is over and writes no more blocks.
    pub(super) fn gone(&mut self, owner: Owner) {
        for block in self.sums.given.remove(&owner).unwrap_or_default() {
            self.sums.touch(block);
        }
        if let Owner::Task(id) = owner {
            self.sums.unwatch(id);
            self.sums.ready = self.sums.ready.filter(|change| change.task != id);
        }
    }

    /// Handles the reply to a request to the checksum store.
    pub(super) fn sums_done(&mut self, sessions: &mut dyn Sessions, result: FileResult) {
        match result {
            FileResult::Forgotten => {
                if let StoreState::Kept(kept) = &mut self.sums.state {
                    for blocks in std::mem::take(&mut kept.forgetting) {
                        kept.maybe.remove_range(blocks.start, blocks.end);
                    }
                    kept.forget(&mut self.file_requests, self.ran);
                }
                self.send_file_requests();
            }
            FileResult::SumsOpened { task, path, id, empty } => {
                self.opened_sums(sessions, task, path, id, empty)
            }
            FileResult::SumsRefused { task: None, why } => {
                self.leave_sums(sessions, &format!("the checksums of this disk are given up: {why}"));
            }
            FileResult::SumsRefused { task: Some(id), why } => {
                self.forward_sums(sessions, id, FileResult::Refused(why))
            }
            FileResult::Trouble(why) => {
                let why = format!("the checksum store has failed and is no longer used: {why}");
                self.leave_sums(sessions, &why);
            }
            result => {
                if let Some(id) = self.sums.watch.as_ref().map(|watch| watch.id) {
                    self.forward_sums(sessions, id, result);
                }
            }
        }
    }

    fn forward_sums(&mut self, sessions: &mut dyn Sessions, id: u64, result: FileResult) {
        self.with(sessions, id, |live, cx| live.job.file_done(cx, true, result));
        self.settle(sessions, id);
    }

    fn opened_sums(
        &mut self,
        sessions: &mut dyn Sessions,
        task: Option<u64>,
        path: PathBuf,
        id: u64,
        empty: bool,
    ) {
        let watched = self.sums.watch.as_ref().map(|watch| (watch.id, watch.block.get()));
        let Some((task, block)) = watched.filter(|(of, _)| Some(*of) == task) else { return };
        let store = SumStore { path, id, block };
        let same = self.table.sums() == Some(&store) && matches!(self.sums.state, StoreState::Kept(_));
        if same {
            self.forward_sums(sessions, task, FileResult::SumsReady);
            return;
        }
        info!(disk = self.config.disk.name, store = %store.path.display(), "checksums are kept");
        self.keep_sums(&store, if empty { BlockSet::empty } else { BlockSet::full });
        let seq = self.note(Event::Sums { store: Some(store) });
        self.sums.ready = Some(TaskChange { task, seq });
    }

    /// Drops the checksum store. Writes wait until that is durable.
    fn leave_sums(&mut self, sessions: &mut dyn Sessions, why: &str) {
        if let StoreState::Kept(WatchedStore { id, .. }) = self.sums.state {
            error!(disk = self.config.disk.name, why, "no checksums");
            // A task that begins another store has already requested the journal entry that drops this one.
            let seq = match self.table.sums() {
                Some(_) => self.note(Event::Sums { store: None }),
                None => self.seq,
            };
            self.sums.state =
                if seq <= self.durable { StoreState::None } else { StoreState::Leaving(seq, self.ran) };
            self.file_requests
                .push_back(FileRequest { queue: FileQueue::Journal, op: FileOp::LeaveSums(id) });
            self.send_file_requests();
        }
        if let Some(id) = self.sums.watch.as_ref().map(|watch| watch.id) {
            self.forward_sums(sessions, id, FileResult::Refused(why.to_owned()));
        }
    }

    /// Handles the reply to the request to mark the store's file as given up, or the reason why that failed.
    pub(super) fn left_sums(&mut self, failed: Option<String>) {
        let disk = &self.config.disk.name;
        match (failed, &self.sums.state) {
            (Some(why), _) => error!(disk, why, "the end of the checksum store cannot be written"),
            (None, StoreState::Leaving(..)) => self.sums.state = StoreState::None,
            (None, _) => {}
        }
    }

    /// Stops waiting for a store, or for the journal entry that drops the store, after [`FILE_TIMEOUT`]. A file system
    /// can hang, and on a disk whose writes wait for the store it would hang for ever.
    pub(super) fn give_up_sums(&mut self, sessions: &mut dyn Sessions) {
        match &self.sums.state {
            StoreState::Kept(kept)
                if !kept.forgetting.is_empty() && kept.since + FILE_TIMEOUT <= self.ran =>
            {
                let (place, s) =
                    (self.table.sums().map(|s| s.path.display().to_string()), FILE_TIMEOUT.as_secs_f64());
                let why = format!(
                    "{}: the checksum store has not answered for {s:.0} s and is no longer used; put the store on another device, never on this disk itself",
                    place.unwrap_or_default()
                );
                self.leave_sums(sessions, &why);
            }
            StoreState::Leaving(_, since) if *since + FILE_TIMEOUT <= self.ran => {
                error!(
                    disk = self.config.disk.name,
                    "the state directory does not answer: after a restart the checksum store may be believed again; remove the store then"
                );
                self.sums.state = StoreState::None;
            }
            _ => {}
        }
    }

    /// Handles the report that the journal is durable up to an entry, or that it cannot be written.
    pub(super) fn journaled_sums(&mut self, sessions: &mut dyn Sessions, seq: u64, failed: bool) {
        match self.sums.state {
            StoreState::Leaving(at, _) if !failed && at <= seq => self.sums.state = StoreState::None,
            _ => {}
        }
        if let Some(change) = self.sums.ready
            && change.seq <= seq
            && !failed
        {
            self.sums.ready = None;
            self.forward_sums(sessions, change.task, FileResult::SumsReady);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::tests::manager_config;

    fn range(start: u64, len: u64) -> LbnRange {
        LbnRange::new(units::Lbn::new(start), Sectors::new(len))
    }

    /// A write in flight carries bytes that the scrub has not read.
    #[test]
    fn no_sum_is_recorded_of_a_block_that_is_being_written() {
        let mut manager = TaskManager::open(manager_config(), Default::default()).unwrap();
        let capacity = manager.config.disk.capacity;
        manager.sums.watch(1, Sectors::new(8), capacity);
        let store = SumStore { path: "/sums".into(), id: 1, block: 8 };
        assert!(!manager.sums.is_quiet(3), "there is no store");
        manager.keep_sums(&store, BlockSet::empty);
        assert!(manager.sums.is_quiet(3));
        let (client, task) = (Owner::Client(7), Owner::Task(7));
        type Step = fn(&mut TaskManager, Owner);
        let ways: [(Step, Step); 3] = [
            (
                |manager, owner| manager.gave(owner, range(30, 2)),
                |manager, owner| manager.took(owner, range(24, 16)),
            ),
            (|manager, owner| manager.gave(owner, range(30, 2)), |manager, owner| manager.gone(owner)),
            (|manager, _| manager.writing(range(30, 3)), |manager, _| manager.wrote(range(30, 3))),
        ];
        for (owner, (begin, end)) in [client, task].into_iter().flat_map(|owner| ways.map(|way| (owner, way)))
        {
            begin(&mut manager, owner);
            assert!(!manager.sums.is_quiet(3) && manager.sums.is_quiet(2) && manager.sums.is_quiet(5));
            assert!(!manager.sums.ask_again(3), "it goes on, however often it is read");
            end(&mut manager, owner);
            assert!(!manager.sums.is_quiet(3), "the reads before are old");
            assert!(manager.sums.ask_again(3) && manager.sums.is_quiet(3));
            manager.sums.ask_again(4);
        }
        let file_requests = manager.file_requests.len();
        assert!(!manager.hold_for_sums(range(24, 8)), "it is not in the store");
        manager.sums.recorded(3);
        assert!(manager.hold_for_sums(range(26, 1)) && !manager.sums.is_quiet(3), "it is being forgotten");
        assert!(manager.hold_for_sums(range(26, 1)));
        assert_eq!(manager.file_requests.len(), file_requests + 1, "once");
    }
}
