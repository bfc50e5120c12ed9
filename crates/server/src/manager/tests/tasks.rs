//! Tasks on a busy drive: scrubs, comparisons, and the behaviour that all kinds of tasks have in common.

use super::images::{backup, replica};
use super::log::OperatorLog;
use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use crate::handle::Peers;
use crate::manager::permits::Permits;
use crate::manager::{ManagerError, TaskChange};
use crate::task::budget::Budget;
use crate::task::file_request::FileQueue;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use sim::Cure;
use units::{Duration, Lbn};
use workload::random::Stream;

pub(super) fn scrub() -> TaskSpec {
    TaskSpec { block_sectors: Some(8), ..TaskSpec::new(TaskKind::Scrub) }
}

/// Makes a random access of a client.
pub(super) fn access(rig: &mut Rig, chance: &mut Stream) {
    let capacity = (rig.now.len() / SECTOR) as u64;
    let len = 1 + below(chance, 24);
    let range = range(below(chance, capacity - len), len);
    if below(chance, 3) == 0 { rig.read(range) } else { rig.write(range) }
}

/// Runs with a busy foreground until the task is over or paused.
pub(super) fn busy(rig: &mut Rig, id: u64, chance: &mut Stream) -> TaskState {
    for _ in 0..50_000 {
        let state = rig.task(id).state;
        if state.is_over() || state == TaskState::Paused {
            return state;
        }
        if rig.outstanding() < 4 {
            access(rig, chance);
        }
        rig.step();
    }
    panic!("no end: {:?}", rig.task(id));
}

#[test]
fn a_scrub_reads_all_blocks_and_names_bad_sectors() {
    let mut rig = Rig::new();
    rig.volume.platters_mut().spoil(Lbn::new(77), Cure::None);
    rig.volume.platters_mut().spoil(Lbn::new(2_000), Cure::None);
    let id = rig.start(scrub());
    assert_eq!(rig.run(id), TaskState::Done);
    let task = rig.task(id);
    assert_eq!((task.done, task.bad_lbns, task.bad_more), (task.blocks, vec![77, 2_000], 0));
    assert!(task.blocks > 600);
}

/// The log names the first ten bad sectors and at the end their number, for a backup as for a scrub.
#[test]
fn bad_sectors_stand_in_the_log_and_do_not_fill_it() {
    for spec in [scrub(), backup()] {
        let mut rig = Rig::new();
        (0..40).for_each(|i| rig.volume.platters_mut().spoil(Lbn::new(77 + i * 50), Cure::None));
        let log = OperatorLog::default();
        let kind = format!("kind={}", spec.kind);
        tracing::subscriber::with_default(log.clone(), || {
            let id = rig.start(spec);
            assert_eq!(rig.run(id), TaskState::Done);
        });
        let named = log.numbers(&["WARN", "a sector cannot be read", "disk=", "task=", &kind], "lbn");
        assert_eq!(named.len(), 10, "{named:?}");
        assert!(named.iter().all(|lbn| lbn % 50 == 27), "{named:?}");
        assert_eq!(
            log.numbers(&["WARN", "sectors could not be read or written", "disk=", "task=", &kind], "bad"),
            [40]
        );
    }
}

#[test]
fn pause_resume_cancel_priority_and_deadline() {
    let mut rig = Rig::new();
    let id = rig.start(TaskSpec { deadline_unix_s: Some(1_001), ..scrub() });
    rig.run_for(Duration::from_millis(400));
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.run_for(Duration::from_millis(400));
    let done = rig.task(id).done;
    assert!(done > 0 && done < rig.task(id).blocks);
    rig = rig.crash(None);
    rig.run_for(Duration::from_secs(2));
    let task = rig.task(id);
    assert_eq!((task.state, task.done), (TaskState::Paused, done), "paused also after a restart");
    assert!(task.misses_deadline);
    rig.call(|manager, _| manager.set_deadline(id, None)).unwrap();
    rig.call(|manager, s| manager.set_priority(s, id, 90)).unwrap();
    let refused = rig.call(|manager, s| manager.set_priority(s, id, 101)).unwrap_err();
    assert_eq!(refused.to_string(), "priority: 101; give 1 to 100");
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    assert_eq!(rig.run(id), TaskState::Done);
    let task = rig.task(id);
    assert_eq!((task.priority, task.misses_deadline), (90, false));
    let over = rig.call(|manager, s| manager.cancel(s, id)).unwrap_err();
    assert_eq!(over.to_string(), "task 1 is done; start a new one");
    let other = rig.start(scrub());
    rig.call(|manager, s| manager.cancel(s, other)).unwrap();
    assert_eq!(rig.task(other).state, TaskState::Cancelled);
    assert_eq!(rig.call(|manager, s| manager.pause(s, 9)).unwrap_err(), ManagerError::NoTask(9));
    assert_eq!(rig.crash(None).task(other).state, TaskState::Cancelled);
}

#[test]
fn scrubs_beyond_the_limit_wait_and_a_paused_one_lets_the_next_run() {
    let mut rig = Rig::with_permits(1);
    let part = |first| TaskSpec { first_lbn: Some(first), sectors: Some(2_400), ..scrub() };
    let (first, second) = (rig.start(part(0)), rig.start(part(2_400)));
    rig.run_for(Duration::from_millis(50));
    assert_eq!(rig.task(first).state, TaskState::Running);
    let waits = rig.task(second);
    assert_eq!((waits.state, waits.done), (TaskState::Queued, 0));
    let why = waits.reason.unwrap();
    assert_eq!(why, "the task waits: at most 1 scrubs and comparisons run at a time (tasks_at_once)");
    rig.call(|manager, s| manager.pause(s, first)).unwrap();
    while rig.task(second).state == TaskState::Queued {
        rig.run_for(Duration::from_millis(50));
    }
    let done = rig.task(first).done;
    // The resumed scrub is queued until the other scrub is done.
    rig.call(|manager, s| manager.resume(s, first)).unwrap();
    assert_eq!((rig.task(first).state, rig.task(second).state), (TaskState::Queued, TaskState::Running));
    assert_eq!(rig.run(second), TaskState::Done);
    assert_eq!(rig.task(first).done, done);
    assert_eq!(rig.run(first), TaskState::Done);
}

/// The daemon has no other disks here, so a comparison is blocked from its beginning.
#[test]
fn a_blocked_comparison_lets_others_run_and_tries_again_when_it_may_run() {
    let mut rig = Rig::new();
    let permits = Permits::at_most(1);
    rig.call(|manager, _| manager.set_permits(permits.clone()));
    let members = vec!["tiny".into(), "other".into()];
    let id = rig.start(TaskSpec { members, ..TaskSpec::new(TaskKind::Verify) });
    let state = |rig: &Rig| (rig.task(id).state, rig.task(id).reason.unwrap_or_default());
    let none = "members: the daemon has no disk \"tiny\"; cancel the task, or configure that disk";
    let blocked = (TaskState::Paused, none.to_owned());
    let why = "the task waits: at most 1 scrubs and comparisons run at a time (tasks_at_once)";
    let queued = (TaskState::Queued, why.to_owned());
    assert_eq!(state(&rig), blocked);
    let of_another = permits.take().expect("it has kept its permit");
    rig.run_for(super::super::live::RETRY_AFTER + Duration::from_secs(1));
    assert_eq!(state(&rig), queued);
    drop(of_another);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(state(&rig), blocked, "it has tried again");
    // A resumed task tries again at once, if a permit is free.
    let of_another = permits.take().expect("it has kept its permit");
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    assert_eq!(state(&rig), queued);
    drop(of_another);
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    assert_eq!(state(&rig), blocked);
}

#[test]
fn a_comparison_that_begins_before_the_disks_are_served_waits_for_these_alone() {
    let mut rig = Rig::new();
    rig.peers = Peers::default();
    let members = vec!["tiny".into(), "other".into()];
    let id = rig.start(TaskSpec { members, ..TaskSpec::new(TaskKind::Verify) });
    let state = |rig: &Rig| (rig.task(id).state, rig.task(id).reason);
    rig.run_for(Duration::from_secs(60));
    assert_eq!(state(&rig), (TaskState::Queued, None));
    rig.peers.set([]);
    rig.run_for(Duration::from_secs(1));
    let none = "members: the daemon has no disk \"tiny\"; cancel the task, or configure that disk";
    assert_eq!(state(&rig), (TaskState::Paused, Some(none.into())));
}

#[test]
fn comparisons_have_a_bound_of_memory_together() {
    let mut rig = Rig::new();
    let memory = Budget::of(units::Bytes::new(300_000));
    rig.call(|manager, _| manager.set_memory(memory.clone()));
    let of = |bytes| TaskSpec {
        members: vec!["tiny".into(), "other".into()],
        memory_bytes: Some(bytes),
        ..TaskSpec::new(TaskKind::Verify)
    };
    let refused =
        |rig: &mut Rig, bytes| rig.call(|manager, _| manager.start(of(bytes))).unwrap_err().to_string();
    assert_eq!(
        refused(&mut rig, 300_001),
        "memory_bytes: 300001, and comparisons have 300000 together (comparison_memory); give at most 300000"
    );
    let first = rig.start(of(200_000));
    assert_eq!(
        refused(&mut rig, 100_001),
        "memory_bytes: 100001, and other comparisons have 200000 of 300000 (comparison_memory); give at most 100000"
    );
    let second = rig.start(of(65_536));
    assert_eq!(
        refused(&mut rig, 65_536),
        "memory_bytes: 65536, and other comparisons have 265536 of 300000 (comparison_memory); wait for one to end, or cancel one"
    );
    rig.call(|manager, s| manager.cancel(s, first)).unwrap();
    assert_eq!(memory.left().get(), 300_000 - 65_536);
    rig.call(|manager, s| manager.cancel(s, second)).unwrap();
    assert_eq!(memory.left(), memory.most());
}

#[test]
fn a_journal_that_cannot_be_written_starts_nothing_and_claims_nothing() {
    let mut rig = Rig::new();
    let old = rig.start(TaskSpec { first_lbn: Some(8), ..scrub() });
    rig.run_for(Duration::from_millis(400));
    rig.files.limit("/state", Some(0));
    // After a restart the log says once that the journal cannot be written.
    let log = OperatorLog::default();
    let mut rig = tracing::subscriber::with_default(log.clone(), || {
        let mut rig = rig.crash(None);
        rig.files.limit("/state", Some(0));
        rig.run_for(Duration::from_secs(60));
        rig
    });
    let said = ["ERROR", "the journal of tasks cannot be written: /state/tasks.journal: ", "disk="];
    assert_eq!(log.numbers(&said, "disk").len(), 1);
    // At the second try the journal is closed, and the reported reason is still the first one.
    for _ in 0..2 {
        let reported = std::sync::Arc::new(std::sync::Mutex::new(None));
        let heard = reported.clone();
        let id = rig.call(|manager, _| {
            let TaskChange { task: id, seq } =
                manager.start(TaskSpec { sectors: Some(8), ..scrub() }).unwrap();
            manager.when_durable(seq, Box::new(move |reported| *heard.lock().unwrap() = Some(reported)));
            id
        });
        let said = reported.lock().unwrap().clone().unwrap().unwrap_err();
        assert!(
            said.starts_with("the journal of tasks cannot be written: /state/tasks.journal: ")
                && said.ends_with("no storage space; make room there"),
            "{said}"
        );
        assert_eq!(rig.task(id).state, TaskState::Failed);
    }
    let done = rig.task(old).done;
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.task(old).done, done, "nothing is claimed that is not durable");
    rig.files.limit("/state", None);
    assert_eq!(rig.run(old), TaskState::Done);
    rig.run_for(Duration::from_secs(1));
    let rig = rig.crash(None);
    assert_eq!(rig.task(old).state, TaskState::Done);
    assert_eq!(rig.task(old).done, rig.task(old).blocks);
}

#[test]
fn old_tasks_are_dropped_and_numbers_never_come_back() {
    let mut rig = Rig::new();
    for _ in 0..super::super::REMEMBERED_TASKS_MAX + 5 {
        let id = rig.start(scrub());
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    }
    let rig = rig.crash(None);
    let tasks = rig.volume.app(rig.manager).unwrap().tasks();
    assert_eq!(tasks.len(), super::super::REMEMBERED_TASKS_MAX);
    assert_eq!(tasks.last().unwrap().id, super::super::REMEMBERED_TASKS_MAX as u64 + 5);
}

/// When neither the journal nor the kept file answers, clients' writes go to the disk after some time.
#[test]
fn a_state_directory_that_hangs_holds_no_write_for_ever() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(100));
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.hangs = vec![FileQueue::Journal, FileQueue::Kept(id)];
    rig.write(range(3_000, 8));
    rig.run_for(Duration::from_secs(25));
    assert_eq!(rig.outstanding(), 1, "it is needed as it was");
    rig.run_for(Duration::from_secs(40));
    assert_eq!(rig.outstanding(), 0);
    let task = rig.task(id);
    assert_eq!(task.state, TaskState::Failed);
    let why = task.reason.unwrap();
    assert!(why.contains("the state directory has not answered for 30 s"), "{why}");
}

/// The state directory is full, so neither the kept blocks nor the end of a task can be recorded, and clients overwrite
/// blocks that the task needs. After a kill the task must fail.
#[test]
fn a_copy_that_ended_while_the_state_directory_was_full_does_not_go_on_after_a_kill() {
    let snapshot = TaskSpec { name: Some("then".into()), ..TaskSpec::new(TaskKind::Snapshot) };
    for spec in [backup(), replica(), snapshot] {
        for cancelled in [false, true] {
            let kind = spec.kind;
            let mut rig = Rig::new();
            let id = rig.start(spec.clone());
            rig.run_for(Duration::from_millis(100));
            rig.call(|manager, s| manager.pause(s, id)).unwrap();
            rig.files.limit("/state", Some(0));
            if cancelled {
                rig.call(|manager, s| manager.cancel(s, id)).unwrap();
            }
            rig.write(range(3_000, 8));
            rig.settle();
            assert!(rig.task(id).state.is_over(), "{kind}: {:?}", rig.task(id));
            let mut rig = rig.crash(None);
            rig.files.limit("/state", None);
            rig.run_for(Duration::from_secs(1));
            assert_eq!(rig.task(id).state, TaskState::Failed, "{kind}, {cancelled}: {:?}", rig.task(id));
        }
    }
}
