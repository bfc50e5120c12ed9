//! Snapshots that clients read on a busy drive.

use super::images::{backup, restored};
use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use super::tasks::access;
use crate::DiskHooks;
use crate::disk::{Floor, PromotedStatus};
use crate::manager::{ManagerError, TaskManager};
use crate::task::file_request::{FileQueue, FileReply, FileResult};
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use device::{Answer, Ask, BackgroundRequest, Failure};
use scheduler::{BlockSet, SessionCall, SessionError, Sessions};
use sim::Cure;
use std::collections::BTreeMap;
use units::{Bytes, Duration, Lbn, LbnRange, SessionId};
use workload::random::Stream;

const KEPT: &str = "/state/task-1.kept";

fn nightly() -> TaskSpec {
    TaskSpec { name: Some("nightly".into()), block_sectors: Some(8), ..TaskSpec::new(TaskKind::Snapshot) }
}

/// The reads of a client of a snapshot.
#[derive(Default)]
struct SnapshotReader {
    next: u64,
    waiting: BTreeMap<u64, LbnRange>,
    read: usize,
    failed: Vec<String>,
}

impl SnapshotReader {
    fn ask(&mut self, rig: &mut Rig, snapshot: u64, range: LbnRange) {
        self.next += 1;
        let (id, ask) = (self.next, Ask::Read);
        let request = BackgroundRequest { id, client: 1, range, ask, snapshot: Some(snapshot) };
        assert!(rig.call(|manager, s| manager.read_snapshot(s, &request)), "the snapshot is not served");
        self.waiting.insert(id, range);
    }

    /// Takes the answers and checks them against the disk's content at the instant of the snapshot.
    fn take(&mut self, rig: &mut Rig, then: &[u8]) {
        while let Some(Answer { id, result, .. }) = rig.call(|manager, _| manager.answer()) {
            let range = self.waiting.remove(&id).expect("an answer to a request");
            match result {
                Ok(bytes) => {
                    let from = range.start().get() as usize * SECTOR;
                    assert!(bytes == then[from..from + bytes.len()], "{range:?} is not of the instant");
                    self.read += 1;
                }
                Err(failure) => self.failed.push(failure.to_string()),
            }
        }
    }

    /// Makes random reads, `depth` at a time, while clients write.
    fn busy(&mut self, rig: &mut Rig, id: u64, then: &[u8], reads: usize, depth: usize, chance: &mut Stream) {
        let capacity = (then.len() / SECTOR) as u64;
        let until = self.read + reads;
        for _ in 0..100_000 {
            if self.read >= until || rig.task(id).state.is_over() {
                return;
            }
            while self.waiting.len() < depth {
                let len = 1 + below(chance, 64);
                self.ask(rig, id, range(below(chance, capacity - len), len));
            }
            if rig.outstanding() < 4 {
                access(rig, chance);
            }
            rig.step();
            self.take(rig, then);
        }
        panic!("{} reads are done, and {} wait", self.read, self.waiting.len());
    }

    /// Waits for all answers.
    fn drain(&mut self, rig: &mut Rig, then: &[u8]) {
        for _ in 0..100_000 {
            self.take(rig, then);
            if self.waiting.is_empty() {
                return;
            }
            rig.step();
        }
        panic!("{} requests are never answered", self.waiting.len());
    }

    /// Reads the whole snapshot in order.
    fn all(&mut self, rig: &mut Rig, id: u64, then: &[u8]) {
        self.drain(rig, then);
        let (capacity, read) = ((then.len() / SECTOR) as u64, self.read);
        let pieces: Vec<_> = (0..capacity).step_by(40).map(|at| range(at, 40.min(capacity - at))).collect();
        pieces.iter().for_each(|piece| self.ask(rig, id, *piece));
        self.drain(rig, then);
        assert_eq!((self.read - read, self.failed.len()), (pieces.len(), 0), "{:?}", self.failed);
    }
}

fn until_it_is(state: TaskState, rig: &mut Rig, id: u64) {
    for _ in 0..50_000 {
        if rig.task(id).state == state {
            return;
        }
        rig.step();
    }
    panic!("not {state}: {:?}", rig.task(id));
}

/// Returns a disk with a snapshot that clients can read, and the disk's content at the snapshot's instant.
fn served() -> (Rig, u64, Vec<u8>) {
    let mut rig = Rig::new();
    let then = rig.now.clone();
    let id = rig.start(nightly());
    until_it_is(TaskState::Running, &mut rig, id);
    (rig, id, then)
}

#[test]
fn a_snapshot_reads_as_its_instant_while_clients_overwrite_the_disk() {
    for (seed, depth) in [(0, 1), (1, 4), (2, 64)] {
        let mut chance = Stream::new(seed, "clients");
        let (mut rig, id, then) = served();
        assert_eq!(rig.call(|manager, _| manager.snapshots())[0].name, "tiny@nightly");
        let mut reader = SnapshotReader::default();
        reader.busy(&mut rig, id, &then, 300, depth, &mut chance);
        rig.settle();
        reader.all(&mut rig, id, &then);
        assert!(rig.now != then, "nothing was overwritten meanwhile");
        let task = rig.task(id);
        assert!(task.done > 20 && task.state == TaskState::Running, "{task:?}");
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        assert_eq!(rig.files.get(KEPT), None, "the kept blocks are removed with the snapshot");
        assert!(rig.call(|manager, _| manager.snapshots()).is_empty());
    }
}

/// A write in flight at the instant is in the snapshot or is not, and all reads of the snapshot agree.
#[test]
fn blocks_with_writes_in_flight_at_the_instant_read_the_same_ever_after() {
    for seed in 0..4 {
        let mut chance = Stream::new(seed, "in flight");
        let mut rig = Rig::new();
        let before = rig.now.clone();
        (0..6).for_each(|i| rig.write(range(100 + i * 300, 20)));
        assert!(rig.outstanding() > 0);
        let id = rig.start(nightly());
        until_it_is(TaskState::Running, &mut rig, id);
        let mut first = Vec::new();
        for at in 0..6 {
            let request = BackgroundRequest {
                id: at,
                client: 1,
                range: range(100 + at * 300, 20),
                ask: Ask::Read,
                snapshot: Some(id),
            };
            rig.call(|manager, s| manager.read_snapshot(s, &request));
        }
        let mut then = before;
        while first.len() < 6 {
            rig.step();
            while let Some(answer) = rig.call(|manager, _| manager.answer()) {
                let (bytes, from) = (answer.result.unwrap(), (100 + answer.id as usize * 300) * SECTOR);
                then[from..from + bytes.len()].copy_from_slice(&bytes);
                first.push(answer.id);
            }
        }
        for _ in 0..40 {
            access(&mut rig, &mut chance);
            (0..6).for_each(|i| rig.write(range(100 + i * 300, 20)));
            rig.settle();
        }
        SnapshotReader::default().all(&mut rig, id, &then);
    }
}

#[test]
fn a_snapshot_outlives_kills_and_power_cuts() {
    for power in [false, true] {
        let mut chance = Stream::new(5, "crash");
        let (mut rig, id, then) = served();
        let mut reader = SnapshotReader::default();
        for _ in 0..4 {
            reader.busy(&mut rig, id, &then, 40, 16, &mut chance);
            let mut cut = Stream::new(below(&mut chance, 1_000), "power");
            rig = rig.crash(power.then_some(&mut cut));
            // Clients write at once, before the kept blocks have been read.
            access(&mut rig, &mut chance);
            until_it_is(TaskState::Running, &mut rig, id);
            // The killed daemon took the unanswered requests with it.
            reader = SnapshotReader::default();
            reader.busy(&mut rig, id, &then, 40, 16, &mut chance);
            assert_eq!(rig.task(id).state, TaskState::Running);
        }
        rig.settle();
        reader.all(&mut rig, id, &then);
    }
}

#[test]
fn a_snapshot_whose_bound_is_passed_ends_by_name_and_its_readers_fail() {
    let mut chance = Stream::new(1, "bound");
    let mut rig = Rig::new();
    rig.keep = 100_000;
    let mut rig = rig.crash(None);
    let then = rig.now.clone();
    let id = rig.start(nightly());
    until_it_is(TaskState::Running, &mut rig, id);
    let mut reader = SnapshotReader::default();
    reader.busy(&mut rig, id, &then, usize::MAX, 8, &mut chance);
    let task = rig.task(id);
    assert_eq!(task.state, TaskState::Failed);
    assert!(task.reason.as_ref().is_some_and(|why| why.contains("the bound `keep`")), "{task:?}");
    reader.take(&mut rig, &then);
    assert!(reader.waiting.is_empty() && !reader.failed.is_empty(), "requests are never answered");
    let said = "the snapshot nightly has ended: more than 100000 bytes";
    assert!(reader.failed.iter().all(|failed| failed.contains(said)), "{:?}", reader.failed);
    rig.settle();
    assert_eq!(rig.files.get(KEPT), None);
    let request =
        BackgroundRequest { id: 1, client: 1, range: range(0, 8), ask: Ask::Read, snapshot: Some(id) };
    assert!(!rig.call(|manager, s| manager.read_snapshot(s, &request)));
}

/// Each copy keeps the blocks under every write, so all copies reach the bound on kept bytes at the same moment.
#[test]
fn all_snapshots_and_backups_of_a_disk_keep_no_more_than_the_bound_together() {
    const KEEP: u64 = 300_000;
    let mut chance = Stream::new(1, "bound");
    let mut rig = Rig::new();
    rig.keep = KEEP;
    let mut rig = rig.crash(None);
    let then = rig.now.clone();
    let ids: Vec<u64> = ["one", "two", "three"]
        .map(|name| rig.start(TaskSpec { name: Some(name.into()), ..nightly() }))
        .into_iter()
        .chain([rig.start(backup())])
        .collect();
    ids[..3].iter().for_each(|id| until_it_is(TaskState::Running, &mut rig, *id));
    rig.call(|manager, s| manager.pause(s, ids[3])).unwrap();
    let left = |rig: &Rig| ids.iter().filter(|id| !rig.task(**id).state.is_over()).count();
    let mut most = 0;
    for round in 0..2_000 {
        if left(&rig) < 3 {
            break;
        }
        access(&mut rig, &mut chance);
        rig.step();
        if round == 100 {
            rig = rig.crash(None);
        }
        let kept = ids.iter().map(|id| rig.files.get(&format!("/state/task-{id}.kept")));
        let kept: u64 = kept.flatten().map(|file| file.len() as u64).sum();
        assert!(kept <= KEEP, "{kept} bytes in round {round}");
        most = kept.max(most);
    }
    assert!(most > KEEP * 9 / 10, "{most}");
    assert_eq!(left(&rig), 2, "one made room for three, and one of those for two");
    rig.settle();
    for id in ids {
        let task = rig.task(id);
        if task.state == TaskState::Failed {
            let why = task.reason.unwrap();
            assert!(why.contains("for all its copies and snapshots together, the bound `keep`"), "{why}");
        } else if id < 4 {
            SnapshotReader::default().all(&mut rig, id, &then);
        }
    }
}

#[test]
fn a_snapshot_ends_at_its_time_also_if_the_daemon_was_down_then() {
    let mut rig = Rig::new();
    // The clock of the rig begins 1,000 s after 1970.
    let id = rig.start(TaskSpec { expires_unix_s: Some(1_010), ..nightly() });
    let later = TaskSpec { name: Some("later".into()), expires_unix_s: Some(1_013), ..nightly() };
    let other = rig.start(later);
    rig.run_for(Duration::from_secs(9));
    assert_eq!((rig.task(id).state, rig.task(other).state), (TaskState::Running, TaskState::Running));
    rig.run_for(Duration::from_secs(2));
    assert_eq!((rig.task(id).state, rig.task(other).state), (TaskState::Done, TaskState::Running));
    assert_eq!(rig.files.get(KEPT), None);
    let names: Vec<_> = rig.call(|manager, _| manager.snapshots()).into_iter().map(|s| s.number).collect();
    assert_eq!(names, [other]);
    // The daemon is down for the second in which the snapshot expires.
    rig.run_for(Duration::from_millis(1_500));
    let mut rig = rig.crash(None);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.task(other).state, TaskState::Done);
}

/// An operator sets the clock back or forward.
#[test]
fn a_jump_of_the_clock_ends_no_snapshot_before_its_time_and_keeps_none_beyond_it() {
    for jump_ms in [1, 4_000_000_000_000] {
        let mut rig = Rig::new();
        let id = rig.start(TaskSpec { expires_unix_s: Some(1_010), ..nightly() });
        rig.run_for(Duration::from_secs(9));
        let jumped = |rig: &mut Rig| {
            let harm = rig.volume.core().harm();
            rig.call(|manager, s| manager.tick(s, manager.now, jump_ms, harm));
            rig.task(id).state
        };
        assert_eq!(jumped(&mut rig), TaskState::Running, "{jump_ms}");
        for _ in 0..200 {
            rig.step();
            jumped(&mut rig);
            if rig.volume.now().as_nanos() > 10_500_000_000 {
                break;
            }
        }
        assert_eq!(jumped(&mut rig), TaskState::Done, "{jump_ms}");
    }
}

#[test]
fn a_name_is_used_once_and_a_restore_waits_for_the_end_of_all_snapshots() {
    let (mut rig, id, _) = served();
    let refused = |rig: &mut Rig, spec| match rig.call(|manager, _| manager.start(spec)) {
        Err(ManagerError::Busy(why)) => why,
        other => panic!("{other:?}"),
    };
    let said = refused(&mut rig, nightly());
    assert!(said.contains("snapshot 1 has the name nightly"), "{said}");
    let restore = TaskSpec { from: vec!["/image".into()], ..TaskSpec::new(TaskKind::Restore) };
    let said = refused(&mut rig, restore);
    assert!(said.contains("snapshot 1 is running, and a restore cannot go beside it"), "{said}");
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    assert_eq!(rig.start(nightly()), 2);
}

#[test]
fn a_kept_block_that_is_damaged_ends_the_snapshot_and_is_never_given_out() {
    let (mut rig, id, then) = served();
    rig.write(range(800, 8));
    rig.settle();
    let mut kept = rig.files.get(KEPT).unwrap();
    let at = kept.len() - 100;
    kept[at] ^= 1;
    rig.files.put(KEPT, &kept);
    let mut reader = SnapshotReader::default();
    reader.ask(&mut rig, id, range(0, 64));
    reader.ask(&mut rig, id, range(802, 2));
    for _ in 0..1_000 {
        rig.step();
    }
    reader.take(&mut rig, &then);
    assert_eq!(rig.task(id).state, TaskState::Failed);
    assert!(reader.failed[0].contains("is not the one that was written there"), "{:?}", reader.failed);
}

#[test]
fn a_bad_sector_fails_the_reads_that_ask_for_it_and_not_those_of_kept_blocks() {
    let (mut rig, id, then) = served();
    rig.write(range(800, 8));
    rig.settle();
    for lbn in [802, 1_602] {
        rig.volume.platters_mut().spoil(Lbn::new(lbn), Cure::None);
    }
    let mut reader = SnapshotReader::default();
    reader.ask(&mut rig, id, range(800, 8));
    reader.ask(&mut rig, id, range(1_600, 8));
    for _ in 0..1_000 {
        rig.step();
    }
    reader.take(&mut rig, &then);
    assert_eq!((reader.read, reader.failed.len()), (1, 1), "{:?}", reader.failed);
    assert!(reader.failed[0].contains("1602") || reader.failed[0].contains("1,602"), "{:?}", reader.failed);
    assert_eq!(rig.task(id).state, TaskState::Running);
}

/// A client that disconnects leaves no request behind, and a snapshot refuses writes.
#[test]
fn a_reader_that_leaves_takes_its_requests_with_it() {
    let (mut rig, id, then) = served();
    let mut reader = SnapshotReader::default();
    (0..20).for_each(|at| reader.ask(&mut rig, id, range(at * 64, 64)));
    let mut left = rig.call(|manager, s| manager.leave(s, 1));
    left.sort_unstable();
    assert_eq!(left, (1..=20).collect::<Vec<u64>>());
    for _ in 0..500 {
        rig.step();
    }
    assert!(rig.call(|manager, _| manager.answer()).is_none());
    let write =
        BackgroundRequest { id: 50, client: 1, range: range(0, 8), ask: Ask::Discard, snapshot: Some(id) };
    rig.call(|manager, s| manager.read_snapshot(s, &write));
    let answer = rig.call(|manager, _| manager.answer()).unwrap();
    assert!(matches!(answer.result, Err(Failure::Unsupported(_))));
    SnapshotReader::default().all(&mut rig, id, &then);
}

/// A floor of 1.7 s makes a read of the snapshot foreground work exactly 1.7 s after its arrival, and the status shows
/// the cost.
#[test]
fn the_floor_of_a_snapshots_reader_is_kept_to_the_instant_and_its_cost_is_counted() {
    let mut rig = Rig::new();
    let wait = Duration::from_millis(1_700);
    rig.call(|manager, _| manager.set_floor(Floor::Within(wait)));
    let id = rig.start(nightly());
    until_it_is(TaskState::Running, &mut rig, id);
    let now = rig.volume.now();
    rig.call(|manager, _| manager.set_time(now));
    assert_eq!(rig.call(|manager, _| DiskHooks::due(manager)), None);
    SnapshotReader::default().ask(&mut rig, id, range(0, 64));
    assert_eq!(rig.call(|manager, _| DiskHooks::due(manager)), Some(now + wait));
    rig.call(|manager, s| manager.do_due(s, now));
    let promoted = |rig: &mut Rig| {
        let all = rig.call(|manager, _| manager.snapshot_requests(now));
        assert_eq!((all.len(), &*all[0].name), (1, "tiny@nightly"));
        all[0].requests.promoted
    };
    assert_eq!(promoted(&mut rig).requests, 0);
    rig.call(|manager, s| manager.do_due(s, now + wait));
    assert_eq!(promoted(&mut rig).requests, 1);
    // Bytes that are read for this request are its cost; bytes of other sessions are not.
    for session in (0..20).map(SessionId::new) {
        rig.call(|manager, _| DiskHooks::promoted(manager, session, range(0, 1), Duration::from_millis(1)));
    }
    let PromotedStatus { bytes, device_us, .. } = promoted(&mut rig);
    assert_eq!((bytes, device_us), (512, 1_000.0), "one session is of its reads");
    // While the snapshot is paused, no request becomes foreground work.
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    assert_eq!(rig.call(|manager, _| DiskHooks::due(manager)), None);
}

#[test]
fn nothing_is_read_ahead_of_a_snapshots_reader_while_the_snapshot_is_paused() {
    let (mut rig, id, then) = served();
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    let mut reader = SnapshotReader::default();
    (0..8).for_each(|at| reader.ask(&mut rig, id, range(at * 32, 32)));
    for _ in 0..500 {
        rig.step();
    }
    let memory = |rig: &mut Rig| {
        rig.call(|manager, _| manager.snapshot_requests(manager.now)).remove(0).requests.memory
    };
    assert_eq!((reader.waiting.len(), memory(&mut rig).held_bytes), (8, 0));
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    reader.drain(&mut rig, &then);
    for _ in 0..500 {
        rig.step();
    }
    assert!(memory(&mut rig).held_bytes > 0, "it goes on after that");
}

#[test]
fn snapshots_share_the_memory_for_what_is_read_ahead_of_their_readers() {
    // Room for two of the smallest read-ahead windows.
    const MEMORY_BYTES: u64 = 256 << 10;
    let mut rig = Rig::new();
    rig.call(|manager, _| manager.set_read_ahead(Bytes::new(MEMORY_BYTES)));
    let then = rig.now.clone();
    let ids = ["one", "two"].map(|name| rig.start(TaskSpec { name: Some(name.into()), ..nightly() }));
    ids.iter().for_each(|id| until_it_is(TaskState::Running, &mut rig, *id));
    let held = |rig: &mut Rig| -> Vec<u64> {
        let all = rig.call(|manager, _| manager.snapshot_requests(manager.now));
        all.iter().map(|snapshot| snapshot.requests.memory.held_bytes).collect()
    };
    let mut reader = SnapshotReader::default();
    for id in ids {
        for stream in [0, 1_000, 2_000] {
            for at in 0..8 {
                reader.ask(&mut rig, id, range(stream + at * 32, 32));
                reader.drain(&mut rig, &then);
                assert!(held(&mut rig).iter().sum::<u64>() <= MEMORY_BYTES);
            }
        }
        for _ in 0..100 {
            rig.step();
            assert!(held(&mut rig).iter().sum::<u64>() <= MEMORY_BYTES);
        }
        if id == ids[0] {
            let held = held(&mut rig);
            assert!(held[0] > MEMORY_BYTES / 2, "it may have all of it: {held:?}");
            // A paused snapshot also makes room in memory for blocks of the other snapshot.
            rig.call(|manager, s| manager.pause(s, id)).unwrap();
        }
    }
    let held = held(&mut rig);
    assert!(held.iter().all(|held| (1..=MEMORY_BYTES / 2).contains(held)), "{held:?}");
}

/// Counts the promotions: calls that make background blocks foreground work.
struct CountingPromotions<'a> {
    sessions: &'a mut dyn Sessions,
    promoted: usize,
}

impl Sessions for CountingPromotions<'_> {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        self.promoted += usize::from(matches!(call, SessionCall::Promote { .. }));
        self.sessions.call(call)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }
}

/// Blocks with writes in flight at the instant are copied as background work, because no request of the foreground
/// waits for the copies. Under a floor the copies become foreground work when the request of a reader is due.
#[test]
fn blocks_with_writes_in_flight_at_the_instant_are_copied_at_once_only_under_a_floor() {
    let mut rig = Rig::new();
    let wait = Duration::from_millis(1_700);
    rig.call(|manager, _| manager.set_floor(Floor::Within(wait)));
    rig.call(|manager, _| (0..6).for_each(|i| manager.writing(range(100 + i * 300, 20))));
    rig.hangs = vec![FileQueue::Kept(1)];
    let id = rig.start(nightly());
    let blocks = BlockSet::empty((rig.now.len() / SECTOR / 8) as u64);
    let opened = FileReply {
        queue: FileQueue::Kept(id),
        result: FileResult::Opened { present: Box::new(blocks), saved: Vec::new() },
    };
    let now = rig.volume.now();
    let promoted = |rig: &mut Rig, call: &mut dyn FnMut(&mut TaskManager, &mut dyn Sessions)| {
        rig.call(|manager, sessions| {
            let mut counting = CountingPromotions { sessions, promoted: 0 };
            call(manager, &mut counting);
            counting.promoted
        })
    };
    let mut opened = Some(opened);
    let begun = promoted(&mut rig, &mut |manager, sessions| {
        manager.file_done(sessions, opened.take().unwrap(), now);
    });
    assert_eq!(begun, 0, "the copies are foreground work");
    until_it_is(TaskState::Running, &mut rig, id);
    let now = rig.volume.now();
    rig.call(|manager, _| manager.set_time(now));
    SnapshotReader::default().ask(&mut rig, id, range(0, 64));
    let requests = rig.call(|manager, _| manager.snapshot_requests(now + wait)).remove(0).requests;
    assert_eq!((requests.waiting, requests.oldest_wait_us), (1, 1_700_000.0));
    let due = |at| {
        move |manager: &mut TaskManager, sessions: &mut dyn Sessions| {
            manager.do_due(sessions, at);
        }
    };
    assert_eq!(promoted(&mut rig, &mut due(now)), 0);
    assert!(promoted(&mut rig, &mut due(now + wait)) > 0, "the reader waits for the copies without bound");
}

/// The block under a background write is copied as background work. When the write becomes urgent, the copy becomes
/// foreground work.
#[test]
fn a_copy_for_a_write_that_can_wait_is_promoted_when_it_cannot() {
    let (mut rig, _, _) = served();
    let hold = |rig: &mut Rig, urgent: bool| {
        rig.call(|manager, sessions| {
            let mut counting = CountingPromotions { sessions, promoted: 0 };
            let held = match urgent {
                true => manager.hold(&mut counting, range(800, 8)),
                false => manager.hold_later(&mut counting, range(800, 8)),
            };
            assert!(held);
            counting.promoted
        })
    };
    assert_eq!([false, false, true, true, false].map(|urgent| hold(&mut rig, urgent)), [0, 0, 1, 0, 0]);
    // The copy for a write to another block stays background work.
    assert!(rig.call(|manager, s| manager.hold_later(s, range(1_600, 8))));
    for _ in 0..10_000 {
        if !rig.call(|manager, s| manager.hold_later(s, range(1_600, 8))) {
            return;
        }
        rig.step();
    }
    panic!("idle time does not copy it");
}

/// Without this limit a write over the whole disk would have all old blocks read as foreground work at once, and each
/// block that arrives would cost a search through all of them.
#[test]
fn a_long_write_has_few_blocks_copied_at_a_time() {
    let (mut rig, ..) = served();
    let whole = range(0, (rig.now.len() / SECTOR) as u64);
    rig.write(whole);
    let mut most = 0;
    while rig.outstanding() > 0 {
        most = most.max(rig.volume.core().promoted_pending());
        rig.step();
    }
    // A block in which a track ends is two requests.
    assert!((1..=128).contains(&most), "{most} requests were to be read at once");
}

/// A write that was acknowledged before the instant is in the copy even after a power cut, although the drive held the
/// write only in its cache.
#[test]
fn the_power_cut_after_an_instant_takes_nothing_of_it() {
    for kind in [TaskKind::Snapshot, TaskKind::Backup] {
        for pace in [1, 4, usize::MAX] {
            let mut rig = Rig::new();
            (rig.caches, rig.pace) = (true, pace);
            rig.write(range(4_000, 64));
            while rig.outstanding() > 0 {
                rig.step();
            }
            let then = rig.now.clone();
            let id = rig.start(if kind == TaskKind::Snapshot { nightly() } else { backup() });
            while rig.task(id).blocks == 0 {
                rig.step();
            }
            let mut rig = rig.crash(Some(&mut Stream::new(5, "power")));
            rig.pace = usize::MAX;
            if kind == TaskKind::Snapshot {
                SnapshotReader::default().all(&mut rig, id, &then);
            } else {
                assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
                assert!(restored(&rig) == then, "at pace {pace}");
            }
        }
    }
}

/// Blocks that wait for a kept file that does not answer are in memory, so their number is limited.
#[test]
fn no_more_blocks_are_read_for_writes_than_the_state_directory_takes() {
    let (mut rig, id, _) = served();
    rig.hangs = vec![FileQueue::Kept(id)];
    rig.write(range(0, (rig.now.len() / SECTOR) as u64));
    for _ in 0..2_000 {
        rig.step();
    }
    let waiting = rig.waiting_for(FileQueue::Kept(id));
    assert!((64..=128).contains(&waiting), "{waiting} blocks wait");
}
