//! A task's log and the log's `.end` file are replaced by older copies of both. The copies fit each other. Only the
//! journal of tasks, which has the number of acknowledged records, shows that records are missing.

use super::damage::{KEPT, KEPT_END, MOVES, kept, read, report};
use super::memory::MemoryFiles;
use super::rig::{Rig, range};
use crate::disk::Fence;
use crate::state::{LogKind, Scan};
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use std::path::Path;
use units::Duration;

const MOVES_END: &str = "/state/task-1.moves.end";

fn records(files: &MemoryFiles, log: &str, kind: LogKind) -> u64 {
    Scan::read(files, Path::new(log), kind, None, |_| true).unwrap().unwrap().records()
}

fn is_shown_as_damaged(files: &MemoryFiles, log: &str) -> bool {
    let shown = report(files);
    let file = shown.files.iter().find(|file| log.ends_with(&file.name)).unwrap();
    shown.is_damaged() && file.standing.contains("both files are older copies")
}

#[test]
fn a_backup_fails_whose_kept_blocks_are_an_older_copy_with_its_end() {
    let (mut rig, id, _, [logs, ends]) = kept();
    rig.run_for(Duration::from_secs(2));
    rig.files.limit("/backups", None);
    assert_eq!(
        read(&rig.files).table.get(id).unwrap().figures.records,
        records(&rig.files, KEPT, LogKind::Kept)
    );
    for (log, end) in logs.iter().zip(&ends) {
        let files = rig.files.copy();
        files.put(KEPT, log);
        files.put(KEPT_END, end);
        assert!(is_shown_as_damaged(&files, KEPT));
        let mut rig = rig.again(files);
        assert_eq!(rig.run(id), TaskState::Failed);
        let reason = rig.task(id).reason.unwrap();
        assert!(reason.starts_with(KEPT) && reason.contains("both files are older copies"), "{reason}");
    }
    // The newest copies are no damage.
    let mut rig = rig.again(rig.files.copy());
    assert_eq!(rig.run(id), TaskState::Done);
}

#[test]
fn a_reorganisation_stops_and_keeps_its_places_whose_memory_is_an_older_copy_with_its_end() {
    let mut rig = Rig::new();
    rig.files.put("/plan", b"freeblock plan 1\nblock 8\nmove 0 1600 800\nmove 1600 0 800\n");
    let id = rig.start(TaskSpec { plan: Some("/plan".into()), ..TaskSpec::new(TaskKind::Reorganize) });
    let mut pairs: Vec<[Vec<u8>; 2]> = Vec::new();
    let journaled = |rig: &Rig| read(&rig.files).table.get(id).unwrap().figures.records;
    while journaled(&rig) < 20 {
        rig.step();
        let pair = [MOVES, MOVES_END].map(|path| rig.files.get(path));
        if let [Some(log), Some(end)] = pair
            && pairs.last().is_none_or(|[_, last]| *last != end)
        {
            pairs.push([log, end]);
        }
    }
    assert!(!rig.task(id).state.is_over());
    let (journaled, mut older) = (journaled(&rig), 0);
    for [log, end] in pairs {
        let files = rig.files.copy();
        files.put(MOVES, &log);
        files.put(MOVES_END, &end);
        // The log is written before its `.end` file, so the two may be of different moments: that is found without the
        // journal.
        if Scan::read(&files, Path::new(MOVES), LogKind::Moves, None, |_| true).is_err()
            || records(&files, MOVES, LogKind::Moves) >= journaled
        {
            continue;
        }
        older += 1;
        assert!(is_shown_as_damaged(&files, MOVES));
        let mut rig = rig.again(files);
        rig.run_for(Duration::from_secs(2));
        let task = rig.task(id);
        let reason = task.reason.unwrap_or_default();
        assert!(
            task.state == TaskState::Paused && reason.contains("both files are older copies"),
            "{reason}"
        );
        for at in [0, 1_600] {
            assert_eq!(rig.call(|manager, _| manager.fenced(range(at, 8))), Fence::Closed);
        }
    }
    assert!(older > 10, "{older}");
    let mut rig = rig.again(rig.files.copy());
    assert_eq!(rig.run(id), TaskState::Done);
}
