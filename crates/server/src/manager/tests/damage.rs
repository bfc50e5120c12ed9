//! Every kind of damage to a file of the state directory. Damage that looks like a torn write of an unacknowledged
//! record may go unnoticed. The daemon reports all other damage, and loses, invents and overwrites nothing.

use super::images::backup;
use super::log::OperatorLog as Lines;
use super::memory::MemoryFiles;
use super::rig::{Rig, SECTOR, STATE, range};
use super::tasks::busy;
use crate::disk::Fence;
use crate::manager::ManagerError;
use crate::repair::{self, Choice, Report, mend_with};
use crate::state::tests::faults::{FileFault, Share, all_faults, inject};
use crate::state::{Log, LogKind, Scan};
use crate::task::journal::{self, Journal};
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::{Closed, TaskState};
use std::path::Path;
use units::Duration;
use workload::random::Stream;

pub const JOURNAL: &str = "/state/tasks.journal";
pub const END: &str = "/state/tasks.journal.end";
pub const KEPT: &str = "/state/task-1.kept";
pub const KEPT_END: &str = "/state/task-1.kept.end";
const MARKER: &str = "/state/damaged";

/// The share of all damages that is tried by tests which start a daemon for each damage.
const DAEMONS: Share = Share::Some { short: 10, long: 1_000 };

pub fn read(files: &MemoryFiles) -> Journal {
    journal::open(files, Path::new(STATE)).unwrap()
}

/// Returns a disk with a paused restore, and the contents of the journal and its `.end` file after each earlier event.
pub fn paused_restore() -> (Rig, u64, [Vec<Vec<u8>>; 2]) {
    let mut rig = Rig::new();
    let id = rig.start(TaskSpec { block_sectors: Some(1000), ..backup() });
    assert_eq!(rig.run(id), TaskState::Done);
    let mut older = [Vec::new(), Vec::new()];
    let note = |rig: &Rig, older: &mut [Vec<Vec<u8>>; 2]| {
        for (path, older) in [JOURNAL, END].iter().zip(older) {
            older.push(rig.files.get(path).unwrap());
        }
    };
    note(&rig, &mut older);
    rig.start(TaskSpec { sectors: Some(64), ..TaskSpec::new(TaskKind::Scrub) });
    note(&rig, &mut older);
    let id = rig.start(TaskSpec { from: vec!["/backups/image".into()], ..TaskSpec::new(TaskKind::Restore) });
    note(&rig, &mut older);
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    (rig, id, older)
}

/// Returns whether every task of a journal is also in `whole`, the undamaged journal.
fn is_known(journal: &Journal, whole: &Journal) -> bool {
    journal.table.iter().all(|(id, entry)| {
        whole.table.get(id).is_some_and(|known| {
            (&known.spec, known.created, known.image) == (&entry.spec, entry.created, entry.image)
        })
    })
}

#[test]
fn every_damage_to_the_journal_stops_the_tasks_and_opens_nothing() {
    let (rig, id, older) = paused_restore();
    let files = rig.files.copy();
    let whole = read(&files);
    assert!(whole.damage.is_none() && whole.table.get(id).is_some_and(|e| e.state == TaskState::Paused));
    let mut noticed = 0;
    for (path, older) in [JOURNAL, END].into_iter().zip(&older) {
        for one in all_faults(&files.get(path).unwrap(), older, Share::Every) {
            let damaged = files.copy();
            inject(&damaged, path, &one);
            let found = read(&damaged);
            let Some(damage) = &found.damage else {
                // A power cut may tear one slot of the `.end` file, or leave that file as it was before the last event.
                let torn = match &one {
                    FileFault::Flip { .. } => true,
                    FileFault::Older(moment, _) => moment + 1 == older.len(),
                    _ => false,
                };
                assert!(path == END && torn, "{path} {one:?} was not noticed");
                assert_eq!(found, whole, "{path} {one:?}");
                continue;
            };
            noticed += 1;
            assert!(damage.why.contains("/state/tasks.journal"), "{one:?}: {}", damage.why);
            assert!(damage.closed >= Some(Closed::Writes), "{path} {one:?}: clients may write");
            assert!(damage.numbered || damage.closed == Some(Closed::All), "{path} {one:?}");
            assert!(
                !damage.numbered || found.table.next_id() == id + 1,
                "{path} {one:?}: {}",
                found.table.next_id()
            );
            assert!(is_known(&found, &whole), "{path} {one:?} makes up a task");
            // The tasks stay stopped when the file is whole again, because clients may have written in the meantime.
            damaged.set_fault(path, None);
            damaged.put(path, &files.get(path).unwrap());
            let again = read(&damaged);
            assert!(again.damage.is_some_and(|again| again.closed >= Some(Closed::Writes)));
        }
    }
    assert!(noticed > 1_000, "{noticed}");
}

/// The marker says that the journal was damaged, however damaged the marker itself is. Only an operator removes it.
#[test]
fn a_marker_that_is_there_in_any_form_keeps_the_tasks_stopped() {
    let (rig, _, _) = paused_restore();
    let files = rig.files.copy();
    inject(&files, JOURNAL, &FileFault::Cut(100));
    assert!(read(&files).damage.is_some());
    files.put(JOURNAL, &rig.files.get(JOURNAL).unwrap());
    let text = files.get(MARKER).unwrap();
    assert!(text.len() > 60, "{}", text.len());
    let garbage = [vec![0; 4_096], vec![0xff; 100], vec![b'x'; 1 << 20], b"\n".to_vec()];
    for one in all_faults(&text, &garbage, Share::Every) {
        let damaged = files.copy();
        inject(&damaged, MARKER, &one);
        let found = read(&damaged);
        if one == FileFault::Delete {
            assert!(found.damage.is_none(), "that is how an operator says that the journal is as it was");
            continue;
        }
        let damage = found.damage.unwrap_or_else(|| panic!("{one:?} was not noticed"));
        assert!(damage.closed >= Some(Closed::Writes) && damage.numbered, "{one:?}: {damage:?}");
        assert!(damage.why.ends_with("since then the disk was served without its tasks"), "{}", damage.why);
        // `freeblock repair` reports as much as the daemon.
        let shown = report(&damaged);
        let marker = shown.files.iter().find(|file| file.name == "damaged");
        assert!(shown.is_damaged() && marker.is_some_and(|file| !file.standing.is_empty()), "{one:?}");
        if !matches!(one, FileFault::Flip { .. } | FileFault::Cut(1..)) {
            let choice = Choice { give_up: true, ..Choice::default() };
            let reported = mend_with(&damaged, Path::new(STATE), &choice, 1_700_000_000, 9).unwrap();
            assert!(
                !reported.is_damaged() && reported.closed == Some(Closed::Writes),
                "{one:?}: {reported:?}"
            );
            assert!(read(&damaged).damage.is_none(), "{one:?}");
        }
    }
}

pub fn report(files: &MemoryFiles) -> Report {
    repair::report(files, Path::new(STATE), &journal::read(files, Path::new(STATE)).unwrap()).unwrap()
}

/// A sound plan of another task does not say which blocks this task has closed, so the whole disk stays closed.
#[test]
fn a_plan_that_is_not_the_tasks_own_opens_no_place() {
    let plan = |rig: &Rig| rig.files.get(PLAN).unwrap();
    let (rig, id, _) = reorganisation();
    let elsewhere = |before: &[TaskSpec]| {
        // The random numbers of a second daemon differ from those of the first.
        let mut rig = Rig::new().crash(None);
        for spec in before {
            let id = rig.start(spec.clone());
            assert_eq!(rig.run(id), TaskState::Done);
        }
        rig.files.put("/plan", b"freeblock plan 1\nblock 8\nmove 4000 4800 80\nmove 4800 4000 80\n");
        let spec = TaskSpec { plan: Some("/plan".into()), ..TaskSpec::new(TaskKind::Reorganize) };
        let id = rig.start(spec);
        rig.files.get(&format!("/state/task-{id}.plan")).unwrap()
    };
    let scrub = TaskSpec { sectors: Some(64), ..TaskSpec::new(TaskKind::Scrub) };
    let other_disk = elsewhere(&[]);
    // An earlier version copied a plan without the magic, the task's number and the checksum.
    let unnumbered = other_disk[8 + 16..other_disk.len() - 4].to_vec();
    let plans = [
        ("another disk", other_disk),
        ("another task", elsewhere(&[scrub])),
        ("an older version", unnumbered),
    ];
    for (whose, other) in plans {
        assert!(other != plan(&rig));
        for with_memory in [true, false] {
            let files = rig.files.copy();
            files.put(PLAN, &other);
            if !with_memory {
                inject(&files, MOVES, &FileFault::Cut(40));
            }
            let shown = report(&files);
            assert!(whose == "an older version" || shown.is_damaged(), "{whose}: {shown:?}");
            let mut rig = rig.again(files);
            rig.run_for(Duration::from_secs(2));
            let task = rig.task(id);
            assert_eq!(task.state, TaskState::Paused, "{whose}: {task:?}");
            for at in [0, 1_600, 4_000, 4_900] {
                let fence = rig.call(|manager, _| manager.fenced(range(at, 8)));
                assert_eq!(fence, Fence::Closed, "the plan of {whose}, {with_memory}: {at}");
            }
        }
    }
}

/// A reorganisation that an older version began has a copy of the plan that does not name the task.
#[test]
fn a_reorganisation_of_an_older_version_goes_on_and_its_plan_is_believed_with_its_memory_alone() {
    let (rig, id, _) = reorganisation();
    let own = rig.files.get(PLAN).unwrap();
    let saved = crate::task::table::Event::Progress {
        id,
        figures: read(&rig.files).table.get(id).unwrap().figures.clone(),
        saved: vec![1],
    };
    let mut whole = read(&rig.files);
    whole.table.apply(saved);
    let (body, note) = (journal::encode(&whole.table.events()), journal::Note::of(&whole.table).encode());
    let path = Path::new(JOURNAL);
    let files = rig.files.copy();
    let scan = Scan::read(&files, path, LogKind::Tasks, None, |_| true).unwrap().unwrap();
    Log::resume(&files, path, LogKind::Tasks, scan).unwrap().replace(&files, &body, &note).unwrap();
    files.put(PLAN, &own[8 + 16..own.len() - 4]);
    let mut sound = rig.again(files.copy());
    assert_eq!(sound.run(id), TaskState::Done);
    inject(&files, MOVES, &FileFault::Cut(40));
    let mut damaged = rig.again(files);
    damaged.run_for(Duration::from_secs(2));
    for at in [0, 1_600, 4_000] {
        assert_eq!(damaged.call(|manager, _| manager.fenced(range(at, 8))), Fence::Closed, "{at}");
    }
}

#[test]
fn damage_to_a_task_that_is_paused_on_request_is_reported() {
    let (mut rig, id, _) = reorganisation();
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.run_for(Duration::from_secs(1));
    let moves_end = format!("{MOVES}.end");
    for path in [PLAN, MOVES, &moves_end] {
        for one in all_faults(&rig.files.get(path).unwrap(), &[], DAEMONS) {
            if path == moves_end && matches!(one, FileFault::Flip { .. }) {
                continue;
            }
            let files = rig.files.copy();
            inject(&files, path, &one);
            let log = Lines::default();
            let mut damaged = tracing::subscriber::with_default(log.clone(), || {
                let mut damaged = rig.again(files.clone());
                damaged.run_for(Duration::from_secs(30));
                damaged
            });
            let task = damaged.task(id);
            assert_eq!(task.state, TaskState::Paused);
            let reason = task.reason.unwrap_or_else(|| panic!("{path} {one:?} is not in the task's reason"));
            assert!(reason.starts_with("/state/task-1."), "{reason}");
            let words = ["WARN", "paused, and cannot go on", "/state/task-1.", "disk=", "kind=reorganize"];
            assert_eq!(log.numbers(&words, "task"), [id], "{path} {one:?}");
            // When the file is whole again, the task stays paused until it is resumed.
            files.set_fault(path, None);
            files.put(path, &rig.files.get(path).unwrap());
            let mut again = damaged.again(files.copy());
            again.run_for(Duration::from_secs(2));
            let task = again.task(id);
            assert_eq!((task.state, task.reason), (TaskState::Paused, None), "{path} {one:?}");
            damaged.call(|manager, s| manager.resume(s, id)).unwrap();
            assert_eq!(damaged.run(id), TaskState::Done);
            again.call(|manager, s| manager.resume(s, id)).unwrap();
            assert_eq!(again.run(id), TaskState::Done);
        }
    }
}

#[test]
fn a_state_directory_of_which_journal_and_end_are_gone_is_not_new() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(100));
    assert_eq!(rig.task(id).state, TaskState::Running);
    let files = rig.files.copy();
    files.delete(JOURNAL);
    files.delete(END);
    let damage = read(&files).damage.unwrap();
    assert!(damage.why.contains("task-1.kept is there"), "{}", damage.why);
    assert_eq!((damage.closed, damage.numbered), (Some(Closed::All), false));
    assert_eq!(read(&MemoryFiles::default()), Journal::default(), "and one that is empty is");
}

/// A daemon whose journal is damaged serves its clients, shows operators what is known, and begins no task.
#[test]
fn a_daemon_with_a_damaged_journal_serves_and_begins_nothing() {
    let (rig, id, _) = paused_restore();
    let mut bytes = rig.files.get(JOURNAL).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    rig.files.put(JOURNAL, &bytes);
    let mut rig = rig.crash(None);
    let taken = rig.call(|manager, _| manager.is_taken()).unwrap();
    assert!(taken.contains("clients may not write to it until `freeblock repair`"), "{taken}");
    let refused = rig.call(|manager, _| manager.start(TaskSpec::new(TaskKind::Scrub))).unwrap_err();
    assert!(matches!(&refused, ManagerError::Damaged(why) if why.contains("is damaged")), "{refused}");
    assert!(matches!(rig.call(|manager, s| manager.resume(s, 1)), Err(ManagerError::Damaged(_))));
    let trouble = rig.call(|manager, _| manager.trouble()).unwrap();
    assert!(trouble.contains("`freeblock repair` shows what is known"), "{trouble}");
    for task in rig.call(|manager, _| manager.tasks()) {
        assert!(task.id <= id && (task.state.is_over() || task.state == TaskState::Paused));
    }
    rig.run_for(Duration::from_secs(5));
    assert_eq!(rig.files.get(JOURNAL).unwrap(), bytes, "a damaged journal is not written to");
    assert!(rig.files.get("/state/damaged").is_some());

    // The operator gives up the damaged journal and its tasks.
    let choice = Choice { give_up: true, ..Choice::default() };
    let reported = mend_with(&rig.files, Path::new(STATE), &choice, 1_700_000_000, 9).unwrap();
    assert!(!reported.is_damaged() && reported.closed == Some(Closed::Writes), "{reported:?}");
    assert_eq!(rig.files.get("/state/tasks.journal.damaged").unwrap(), bytes);
    let mut rig = rig.crash(None);
    let taken = rig.call(|manager, _| manager.is_taken()).unwrap();
    assert!(taken.contains("a task that wrote to this disk ended early"), "{taken}");
    for task in rig.call(|manager, _| manager.tasks()) {
        assert!(task.state.is_over(), "{task:?}");
    }
    // A restore, whose task number was never used, opens the disk to clients again.
    let again =
        rig.start(TaskSpec { from: vec!["/backups/image".into()], ..TaskSpec::new(TaskKind::Restore) });
    assert_eq!(again, id + 1);
    assert_eq!(rig.run(again), TaskState::Done);
    assert_eq!(rig.call(|manager, _| manager.is_taken()), None);
}

/// Returns a disk with a backup that is paused because its target is full, the content of the disk at the backup's
/// instant, and the contents of the kept file and its `.end` file before each of three kept blocks.
pub fn kept() -> (Rig, u64, Vec<u8>, [Vec<Vec<u8>>; 2]) {
    let mut rig = Rig::new();
    let then = rig.now.clone();
    rig.files.limit("/backups", Some(100_000));
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Paused);
    let mut older = [Vec::new(), Vec::new()];
    for at in [4_000, 4_200, 4_900] {
        for (path, older) in [KEPT, KEPT_END].iter().zip(&mut older) {
            older.push(rig.files.get(path).unwrap());
        }
        rig.write(range(at, 2));
        rig.settle();
    }
    (rig, id, then, older)
}

#[test]
fn a_backup_that_may_have_lost_kept_blocks_fails() {
    let (rig, id, then, older) = kept();
    rig.files.limit("/backups", None);
    let files = rig.files.copy();
    let mut chance = Stream::new(1, "damage");
    for (path, older) in [KEPT, KEPT_END].into_iter().zip(&older) {
        for one in all_faults(&files.get(path).unwrap(), older, DAEMONS) {
            let damaged = files.copy();
            inject(&damaged, path, &one);
            let mut rig = rig.again(damaged);
            let state = busy(&mut rig, id, &mut chance);
            let task = rig.task(id);
            if state == TaskState::Done {
                let torn = path == KEPT_END
                    && match &one {
                        FileFault::Flip { .. } => true,
                        FileFault::Older(moment, _) => moment + 1 == older.len(),
                        _ => false,
                    };
                assert!(torn, "{path} {one:?} was not noticed");
                assert!(super::images::restored(&rig) == then, "{path} {one:?}");
                continue;
            }
            assert_eq!(state, TaskState::Failed, "{path} {one:?}: {task:?}");
            let reason = task.reason.unwrap();
            assert!(
                reason.starts_with("/state/task-1.kept") && reason.contains("begin a new one"),
                "{reason}"
            );
            // Other tasks of the disk run on.
            let scrub = rig.start(TaskSpec { sectors: Some(64), ..TaskSpec::new(TaskKind::Scrub) });
            assert!(scrub > id);
            assert_eq!(busy(&mut rig, scrub, &mut chance), TaskState::Done);
        }
    }
}

/// Once clients have overwritten blocks that are in an unfinished image, the image is the only copy of these blocks.
#[test]
fn an_image_that_has_lost_blocks_is_not_completed() {
    let mut rig = Rig::new();
    let then = rig.now.clone();
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(400));
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.run_for(Duration::from_secs(4));
    (0..500).for_each(|block| rig.write(range(block * 8, 8)));
    rig.settle();
    let task = rig.task(id);
    assert!(task.state == TaskState::Paused && task.done > 300, "{task:?}");
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    let files = rig.files.copy();
    let image = files.get("/backups/image").unwrap();
    let mut chance = Stream::new(2, "damage");
    let (mut done, mut failed) = (0, 0);
    assert!(image.len() > 50_000, "{}", image.len());
    for one in all_faults(&image, &[], Share::Some { short: 40, long: 1_000 }) {
        if matches!(one, FileFault::Delete | FileFault::Directory | FileFault::Unreadable | FileFault::Fails)
        {
            continue;
        }
        let damaged = files.copy();
        inject(&damaged, "/backups/image", &one);
        let mut rig = rig.again(damaged);
        match busy(&mut rig, id, &mut chance) {
            TaskState::Done => {
                assert!(super::images::restored(&rig) == then, "{one:?}");
                done += 1;
            }
            state => {
                assert_eq!(state, TaskState::Failed, "{one:?}: {:?}", rig.task(id));
                failed += 1;
            }
        }
    }
    // Damage to a block that was not yet acknowledged is harmless: the block is read again.
    assert!(failed > 70, "{failed} failed, {done} were done");
}

const STORE: &str = "/sums/disk.sums";
pub const SUMS_END: &str = "/state/sums.end";

fn checksums() -> TaskSpec {
    TaskSpec { block_sectors: Some(8), checksums: Some(STORE.into()), ..TaskSpec::new(TaskKind::Scrub) }
}

/// Returns a disk with sums of all blocks, three of which were written since, and the contents of the store and its
/// `.end` file before each of the three writes.
pub fn summed() -> (Rig, [Vec<Vec<u8>>; 2]) {
    let mut rig = Rig::new();
    let id = rig.start(checksums());
    assert_eq!(rig.run(id), TaskState::Done);
    let mut older = [Vec::new(), Vec::new()];
    for at in [80, 800, 1_600] {
        for (path, older) in [STORE, SUMS_END].iter().zip(&mut older) {
            older.push(rig.files.get(path).unwrap());
        }
        rig.write(range(at, 8));
        rig.settle();
    }
    (rig, older)
}

/// Sums of blocks that were written since are never trusted: a damaged store, or an older copy, is given up with a
/// message.
#[test]
fn a_checksum_store_that_is_damaged_or_older_reports_nothing_that_was_written() {
    let (rig, older) = summed();
    let files = rig.files.copy();
    for (path, older) in [STORE, SUMS_END].into_iter().zip(&older) {
        for one in all_faults(&files.get(path).unwrap(), older, DAEMONS) {
            let damaged = files.copy();
            inject(&damaged, path, &one);
            let mut rig = rig.again(damaged);
            rig.run_for(Duration::from_secs(1));
            let id = rig.start(checksums());
            match rig.run(id) {
                TaskState::Done => {
                    let found = rig.task(id).checksums.unwrap();
                    assert_eq!((&found.wrong, found.wrong_more), (&vec![], 0), "{path} {one:?}");
                    assert!(path == SUMS_END || !matches!(one, FileFault::Older(..)), "{path} {one:?}");
                    // A missing store was given up when the daemon began, and this is a new one.
                    assert!(one != FileFault::Delete || found.verified == 0, "{path}: {found:?}");
                }
                state => {
                    assert_eq!(state, TaskState::Failed, "{path} {one:?}");
                    let reason = rig.task(id).reason.unwrap();
                    assert!(reason.contains("sums"), "{path} {one:?}: {reason}");
                }
            }
        }
    }
}

pub const PLAN: &str = "/state/task-1.plan";
pub const MOVES: &str = "/state/task-1.moves";

/// Returns a disk with a reorganisation that has moved some blocks, and up to five earlier contents of the file with
/// the state of its moves.
pub fn reorganisation() -> (Rig, u64, Vec<Vec<u8>>) {
    let mut rig = Rig::new();
    rig.files.put("/plan", b"freeblock plan 1\nblock 8\nmove 0 1600 800\nmove 1600 0 800\n");
    let spec = TaskSpec { plan: Some("/plan".into()), ..TaskSpec::new(TaskKind::Reorganize) };
    let id = rig.start(spec);
    let mut older = Vec::new();
    let before = rig.medium();
    while rig.medium() == before {
        older.extend(rig.files.get(MOVES));
        rig.step();
    }
    assert!(!rig.task(id).state.is_over());
    older.dedup();
    let last = older.split_off(older.len().saturating_sub(5));
    (rig, id, last)
}

#[test]
fn a_reorganisation_with_a_damaged_memory_stops_and_keeps_its_places() {
    let (rig, id, last) = reorganisation();
    let end = format!("{MOVES}.end");
    let files = rig.files.copy();
    for path in [PLAN, MOVES, end.as_str()] {
        let older = if path == MOVES { last.clone() } else { Vec::new() };
        for one in all_faults(&files.get(path).unwrap(), &older, DAEMONS) {
            let damaged = files.copy();
            inject(&damaged, path, &one);
            let mut rig = rig.again(damaged);
            rig.run_for(Duration::from_secs(2));
            let task = rig.task(id);
            if path == end && matches!(one, FileFault::Flip { .. }) && task.state != TaskState::Paused {
                continue;
            }
            assert_eq!(task.state, TaskState::Paused, "{path} {one:?}: {task:?}");
            let reason = task.reason.unwrap();
            assert!(
                reason.starts_with("/state/task-1.") && reason.contains("blocks are between two places"),
                "{reason}"
            );
            let fence = |rig: &mut Rig, at| rig.call(|manager, _| manager.fenced(range(at, 8)));
            assert!(
                fence(&mut rig, 0) == Fence::Closed && fence(&mut rig, 1_600) == Fence::Closed,
                "{path} {one:?}"
            );
            assert!(rig.call(|manager, s| manager.cancel(s, id)).is_err(), "{path} {one:?}");
        }
    }
    // Without damage the task goes on.
    let mut rig = rig.again(files);
    assert_eq!(rig.run(id), TaskState::Done);
    assert!(rig.now.len() / SECTOR > 2_400);
}
