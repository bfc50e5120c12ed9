//! The calls of operators: scrubs that overlap, backups that are cancelled, and the tasks that are over.

use super::images::backup;
use super::log::OperatorLog;
use super::memory::below;
use super::rig::Rig;
use crate::file_system::Places;
use crate::manager::status::Outcome;
use crate::manager::{LIVE_TASKS_MAX, ManagerError, REMEMBERED_TASKS_MAX};
use crate::task::file_request::FileQueue;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::{Table, TaskState};
use client::wire::{Call, Event, Range};
use units::Duration;
use workload::random::Stream;

const IMAGE: &str = "/backups/image";

fn scrub(first: u64, sectors: u64) -> TaskSpec {
    let (first_lbn, sectors) = (Some(first), Some(sectors));
    TaskSpec { first_lbn, sectors, block_sectors: Some(8), ..TaskSpec::new(TaskKind::Scrub) }
}

fn outcome(rig: &mut Rig, kind: TaskKind) -> Outcome {
    rig.call(|manager, _| manager.outcomes()).into_iter().find(|(of, _)| *of == kind).unwrap().1
}

#[test]
fn a_scrub_of_sectors_that_another_scrub_reads_is_refused() {
    let mut rig = Rig::new();
    let first = rig.start(scrub(80, 80));
    for (from, sectors) in [(80, 80), (0, 81), (159, 1), (100, 8), (0, 800)] {
        let refused = rig.call(|manager, _| manager.start(scrub(from, sectors))).unwrap_err();
        let said = "scrub 1 of LBNs 80 to 160 is ";
        assert!(matches!(&refused, ManagerError::Busy(why) if why.starts_with(said)), "{refused}");
    }
    let beside = [rig.start(scrub(0, 80)), rig.start(scrub(160, 80))];
    for id in [first].into_iter().chain(beside) {
        assert_eq!(rig.run(id), TaskState::Done);
    }
    rig.start(scrub(0, 800));
}

#[test]
fn a_cancelled_backup_leaves_no_file_at_whatever_moment() {
    let mut chance = Stream::new(11, "cancel");
    for round in 0..12 {
        let mut rig = Rig::new();
        let id = rig.start(backup());
        for _ in 0..below(&mut chance, 400) {
            rig.step();
        }
        if rig.task(id).state.is_over() {
            continue;
        }
        // A pause before the cancellation changes nothing.
        if round % 3 == 0 {
            rig.call(|manager, s| manager.pause(s, id)).unwrap();
        }
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        if round % 2 == 0 {
            rig = rig.crash(Some(&mut chance));
        }
        rig.run_for(Duration::from_secs(1));
        let task = rig.task(id);
        if task.state == TaskState::Cancelled {
            assert_eq!((rig.files.get(IMAGE), task.reason), (None, None), "round {round}");
            let again = rig.start(backup());
            assert_eq!(rig.run(again), TaskState::Done);
            assert!(rig.files.get(IMAGE).is_some());
            continue;
        }
        // The power failed before the journal recorded the cancellation: the task continues, and completes its file.
        assert_eq!(rig.run(id), TaskState::Done);
    }
}

#[test]
fn a_file_that_a_cancelled_backup_did_not_make_stays() {
    let mut rig = Rig::new();
    rig.files.put(IMAGE, b"something else");
    rig.hangs = vec![FileQueue::Target(1)];
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(400));
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    rig.hangs.clear();
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.files.get(IMAGE).as_deref(), Some(&b"something else"[..]));
}

#[test]
fn a_cancel_is_over_when_the_file_is_gone() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(400));
    rig.hangs = vec![FileQueue::Target(id)];
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    let reported = std::sync::Arc::new(std::sync::Mutex::new(false));
    let heard = reported.clone();
    rig.call(|manager, _| manager.when_discarded(id, Box::new(move |_| *heard.lock().unwrap() = true)));
    rig.run_for(Duration::from_secs(1));
    assert!(!*reported.lock().unwrap() && rig.files.get(IMAGE).is_some());
    rig.hangs.clear();
    rig.run_for(Duration::from_secs(1));
    assert!(*reported.lock().unwrap() && rig.files.get(IMAGE).is_none());
}

#[test]
fn with_force_a_backup_overwrites_an_existing_file() {
    let mut rig = Rig::new();
    rig.files.put(IMAGE, &[7; 100_000]);
    let refused = rig.start(backup());
    assert_eq!(rig.run(refused), TaskState::Failed);
    assert!(rig.task(refused).reason.unwrap().ends_with("name a new file, or say force"));
    let forced = rig.start(TaskSpec { force: true, ..backup() });
    rig.run_for(Duration::from_millis(300));
    // After a kill the task continues its own file and does not begin again.
    let done = rig.task(forced).done;
    rig = rig.crash(None);
    assert!(rig.task(forced).done >= done);
    assert_eq!(rig.run(forced), TaskState::Done);
    assert_ne!(rig.files.get(IMAGE).unwrap()[..4], [7; 4]);
}

#[test]
fn the_last_success_and_failure_of_each_kind_are_remembered_over_restarts() {
    let mut rig = Rig::new();
    assert_eq!(outcome(&mut rig, TaskKind::Backup), Outcome::default());
    rig.files.put(IMAGE, b"something else");
    let failed = rig.start(backup());
    assert_eq!(rig.run(failed), TaskState::Failed);
    let backups = outcome(&mut rig, TaskKind::Backup);
    assert_eq!((backups.failed, backups.last_success_unix_ms), (1, None));
    rig.run_for(Duration::from_secs(1));
    let done = rig.start(scrub(0, 8));
    assert_eq!(rig.run(done), TaskState::Done);
    let scrubs = outcome(&mut rig, TaskKind::Scrub);
    assert!(scrubs.last_success_unix_ms > backups.last_failure_unix_ms);
    for _ in 0..REMEMBERED_TASKS_MAX + 5 {
        let id = rig.start(scrub(0, 8));
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    }
    let mut rig = rig.crash(None);
    let tasks = rig.call(|manager, _| manager.tasks());
    assert_eq!(tasks.len(), REMEMBERED_TASKS_MAX);
    assert_eq!((tasks[0].id, tasks[1].id), (failed, done));
    assert_eq!(outcome(&mut rig, TaskKind::Scrub), scrubs);
    assert_eq!(outcome(&mut rig, TaskKind::Backup), Outcome { failed: 0, ..backups });
}

/// The system may have no thread left when a task begins.
#[test]
fn a_task_whose_files_get_no_thread_fails_with_the_reason() {
    let store = TaskSpec { checksums: Some("/sums/disk.sums".into()), ..TaskSpec::new(TaskKind::Scrub) };
    let snapshot = TaskSpec { name: Some("nightly".into()), ..TaskSpec::new(TaskKind::Snapshot) };
    let restore = TaskSpec { from: vec![IMAGE.into()], ..TaskSpec::new(TaskKind::Restore) };
    let plan = TaskSpec { plan: Some("/plan".into()), ..TaskSpec::new(TaskKind::Reorganize) };
    let (target, kept) = (FileQueue::Target(1), FileQueue::Kept(1));
    for (spec, queue) in [
        (backup(), target),
        (backup(), kept),
        (snapshot, kept),
        (restore, target),
        (plan, kept),
        (store, FileQueue::Sums),
    ] {
        let kind = spec.kind;
        let mut rig = Rig::new();
        rig.no_threads = vec![queue];
        let id = rig.start(spec);
        rig.run_for(Duration::from_secs(1));
        let task = rig.task(id);
        assert_eq!(task.state, TaskState::Failed, "{kind}, {queue:?}");
        assert_eq!(task.reason.as_deref(), Some("no thread"), "{kind}, {queue:?}");
    }
}

/// The daemon is killed before the files of the last task are removed. Earlier, while the clock was far ahead, more
/// tasks have ended than a restart looks for.
#[test]
fn the_files_of_the_tasks_that_ended_last_are_removed_whatever_the_clock_said() {
    const FUTURE_MS: u64 = 4_000_000_000_000;
    let mut rig = Rig::new();
    for _ in 0..2 * LIVE_TASKS_MAX {
        let id = rig.start(scrub(0, 8));
        rig.call(|manager, s| {
            let now = manager.now;
            manager.set_now(now, FUTURE_MS);
            manager.cancel(s, id).unwrap();
        });
    }
    rig.run_for(Duration::from_secs(1));
    let id = rig.start(backup());
    rig.run_for(Duration::from_millis(400));
    rig.hangs = vec![FileQueue::Kept(id), FileQueue::Target(id)];
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    let kept = format!("/state/task-{id}.kept");
    assert!(rig.files.get(&kept).is_some() && rig.files.get(IMAGE).is_some());
    // A rewritten journal keeps the order in which the tasks ended.
    let order = |table: &Table| table.over().map(|(id, _)| id).collect::<Vec<_>>();
    let mut again = Table::default();
    rig.call(|manager, _| {
        assert!(manager.table.events().into_iter().all(|event| again.apply(event)));
        assert_eq!(order(&again), order(&manager.table));
    });
    let rig = rig.crash(None);
    assert!(rig.files.get(&kept).is_none() && rig.files.get(IMAGE).is_none());
}

#[test]
fn tasks_outside_of_narrower_targets_go_on_and_are_named() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    let log = OperatorLog::default();
    let narrower = |target: &str| Places::new(Some(vec![target.into()]));
    tracing::subscriber::with_default(log.clone(), || {
        rig.call(|manager, _| manager.warn_of_tasks_outside(&narrower("/backups")));
        assert_eq!(log.numbers(&["goes on outside of `targets`"], "task"), [0; 0]);
        rig.call(|manager, _| manager.warn_of_tasks_outside(&narrower("/other")));
    });
    let named =
        ["WARN", "kind=backup", "to: /backups/image", "goes on outside of `targets`; cancel the task"];
    assert_eq!(log.numbers(&named, "task"), [id]);
    assert_eq!(rig.run(id), TaskState::Done);
}

#[test]
fn a_session_has_a_limit_of_tasks_that_are_not_over() {
    let mut rig = Rig::new();
    let id = rig.call(|manager, s| manager.open_client_session(s, 20, Box::new(|| {}))).unwrap();
    let mut answer = |call| rig.call(|manager, s| manager.client_call(s, id, call)).unwrap();
    let range = Range { start: 0, sectors: 8 };
    let tasks = |call: u32| match call % 2 {
        0 => Call::Read { call, range, block: 8, parameter: 0 },
        _ => Call::Write { call, range, block: 8, parameter: 0 },
    };
    let mut registered: Vec<u64> = Vec::new();
    let refused = loop {
        match answer(tasks(registered.len() as u32)) {
            Event::Answer { value, .. } => registered.push(value),
            Event::Refused { text, .. } => break text,
            other => panic!("{other:?}"),
        }
        assert!(registered.len() <= 4_096);
    };
    assert!(
        registered.len() == 4_096 && refused.contains("4096 tasks of this session are not over"),
        "{refused}"
    );
    for (call, task) in (0..).zip([registered[0], registered[1]]) {
        assert!(matches!(answer(Call::Abort { call, task }), Event::Answer { value: 1, .. }));
        assert!(matches!(answer(tasks(call)), Event::Answer { .. }));
        assert!(matches!(answer(tasks(call)), Event::Refused { .. }));
    }
}

#[test]
fn writes_that_are_withdrawn_by_range_do_not_count() {
    let mut rig = Rig::new();
    let id = rig.call(|manager, s| manager.open_client_session(s, 20, Box::new(|| {}))).unwrap();
    let mut answer = |call| rig.call(|manager, s| manager.client_call(s, id, call)).unwrap();
    let write = |start| Call::Write { call: 0, range: Range { start, sectors: 16 }, block: 8, parameter: 0 };
    let _stays = answer(write(1_000));
    for _ in 1..4_096 {
        assert!(matches!(answer(write(0)), Event::Answer { .. }));
    }
    for (start, sectors) in [(4, 4), (7, 2)] {
        assert!(matches!(answer(write(0)), Event::Refused { .. }));
        let call = Call::AbortRange { call: 0, range: Range { start, sectors } };
        assert!(matches!(answer(call), Event::Answer { value: 4_095, .. }));
    }
    for _ in 1..4_096 {
        assert!(matches!(answer(write(0)), Event::Answer { .. }));
    }
    assert!(matches!(answer(write(0)), Event::Refused { .. }));
}
