//! `freeblock repair`: its report for every kind of damage, and the choices of operators.

use super::damage::{
    END, JOURNAL, KEPT, KEPT_END, MOVES, PLAN, SUMS_END, kept, paused_restore, read, reorganisation, report,
    summed,
};
use super::memory::MemoryFiles;
use super::rig::{Rig, STATE};
use crate::repair::{self, Choice, mend_with};
use crate::state::tests::faults::{FileFault, Share, all_faults, inject};
use crate::task::journal;
use crate::task::table::{Closed, TaskState};
use std::path::Path;

/// The share of all damages that is tried by tests which only read the directory.
const READS: Share = Share::Some { short: 600, long: usize::MAX };

/// Returns whether a damaged `.end` file looks as after a power cut: one of its two slots is torn, or the file is as it
/// was before the last record.
fn is_like_a_power_cut(path: &str, one: &FileFault, older: &[Vec<u8>]) -> bool {
    path.ends_with(".end")
        && match one {
            FileFault::Flip { .. } => true,
            FileFault::Older(moment, _) => moment + 1 == older.len(),
            _ => false,
        }
}

/// Checks that `freeblock repair` reports every kind of damage to a file.
fn is_shown_by_repair(files: &MemoryFiles, path: &str, older: &[Vec<u8>]) {
    let sound = report(files);
    assert!(!sound.is_damaged(), "{sound:?}");
    let listed = Path::new(path).file_name().unwrap().to_str().unwrap();
    let bytes = files.get(path).unwrap();
    let damaged = files.copy();
    for one in all_faults(&bytes, older, READS) {
        inject(&damaged, path, &one);
        let shown = report(&damaged);
        damaged.set_fault(path, None);
        damaged.put(path, &bytes);
        if shown.is_damaged() || is_like_a_power_cut(path, &one, older) {
            continue;
        }
        // Only the lack of a map cannot be noticed, because no other file names it; then it is not listed as sound.
        let alone = path.ends_with(".map");
        let is_listed = shown.files.iter().any(|file| file.name == listed);
        assert!(one == FileFault::Delete && alone && !is_listed, "{path} {one:?} is not shown: {shown:?}");
    }
}

#[test]
fn repair_shows_every_damage_to_every_file_of_the_state_directory() {
    let (rig, _, [journal, end]) = paused_restore();
    is_shown_by_repair(&rig.files, JOURNAL, &journal);
    is_shown_by_repair(&rig.files, END, &end);
    let (rig, _, _, [kept, end]) = kept();
    is_shown_by_repair(&rig.files, KEPT, &kept);
    is_shown_by_repair(&rig.files, KEPT_END, &end);
    let (rig, _, older) = reorganisation();
    let mut map = b"# where it was, sectors, where it is\n0 8 1600\n8 8 -\n".to_vec();
    map.extend(format!("# crc32 of the lines above: {:08x}\n", crc32fast::hash(&map)).into_bytes());
    rig.files.put("/state/task-1.map", &map);
    is_shown_by_repair(&rig.files, "/state/task-1.map", &[]);
    is_shown_by_repair(&rig.files, PLAN, &[]);
    is_shown_by_repair(&rig.files, MOVES, &older);
    is_shown_by_repair(&rig.files, "/state/task-1.moves.end", &[]);
    // Older copies of a checksum store's `.end` file are not tried: only the store shows that this file is old, and
    // repair does not read the store.
    let (rig, _) = summed();
    is_shown_by_repair(&rig.files, SUMS_END, &[]);
}

/// Every subset of the files that a task needs is removed, also all of them, so that only the journal names them.
#[test]
fn repair_names_every_file_that_the_journal_needs_and_that_is_gone() {
    let (moves, ..) = reorganisation();
    let (backup, ..) = kept();
    let (sums, _) = summed();
    let mut mapped = reorganisation().0;
    let reason = Some("bad sectors were in the way: where each block is stands in task-1.map".to_owned());
    mapped.call(|manager, _| manager.state(1, TaskState::Paused, reason));
    mapped.files.put("/state/task-1.map", b"any");
    let moves_end = format!("{MOVES}.end");
    let all: [(&Rig, &[&str]); 4] = [
        (&moves, &[PLAN, MOVES, &moves_end]),
        (&backup, &[KEPT, KEPT_END]),
        (&sums, &[SUMS_END]),
        (&mapped, &["/state/task-1.map"]),
    ];
    for (rig, needed) in all {
        for choice in 1..1_u32 << needed.len() {
            let files = rig.files.copy();
            let gone =
                needed.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1).map(|(_, path)| *path);
            gone.clone().for_each(|path| files.delete(path));
            let shown = report(&files);
            for path in gone {
                let name = path.trim_start_matches("/state/");
                // An `.end` file is reported with its log.
                let name = if name == "sums.end" { name } else { name.trim_end_matches(".end") };
                let damaged = |file: &repair::FileReport| file.name == name && file.sound == Some(false);
                assert!(shown.files.iter().any(damaged), "{choice}: {name} is not shown: {shown:?}");
            }
        }
    }
}

#[test]
fn repair_applies_only_the_choices_given() {
    let (rig, id, _) = paused_restore();
    let mend =
        |files: &MemoryFiles, choice: Choice| mend_with(files, Path::new(STATE), &choice, 1_700_000_000, 9);
    let refused = |files: &MemoryFiles, choice: Choice| mend(files, choice).unwrap_err().to_string();
    let sound = rig.files.copy();
    assert!(refused(&sound, Choice::default()).contains("say what is to be done"));
    let give_up = Choice { give_up: true, ..Choice::default() };
    assert!(refused(&sound, give_up.clone()).contains("the journal is sound"));
    let fail = |id| Choice { fail: vec![id], ..Choice::default() };
    assert!(refused(&sound, fail(99)).contains("there is no task 99"));
    assert!(refused(&sound, fail(1)).contains("task 1 is done"));
    let reported = mend(&sound, fail(id)).unwrap();
    assert_eq!(reported.closed, Some(Closed::Writes), "writes stay closed, as the restore had them");
    assert!(reported.tasks.iter().any(|task| task.id == id && task.state == TaskState::Failed));
    let reported = mend(&sound, Choice { open: true, ..Choice::default() }).unwrap();
    assert_eq!(reported.closed, None);

    // Only one file of a task is left, so the task numbers that were used are unknown.
    let lost = rig.files.copy();
    lost.put("/state/task-1.kept", b"something");
    lost.delete(JOURNAL);
    lost.delete(END);
    let reported = mend(&lost, give_up).unwrap();
    assert_eq!((reported.used, reported.closed), (1_700_000_000, Some(Closed::All)));
    assert_eq!(read(&lost).table.next_id(), 1_700_000_001);
    // The clock says 3 s after 1970, which is less than the number in a file's name.
    lost.put("/state/task-77.map", b"something");
    lost.delete(JOURNAL);
    lost.delete(END);
    let reported =
        mend_with(&lost, Path::new(STATE), &Choice { give_up: true, ..Choice::default() }, 3, 9).unwrap();
    assert_eq!(reported.used, 77);

    // A repair that is killed at any point leaves a directory that either still counts as damaged or is repaired.
    let mut calls = 0;
    loop {
        let killed = rig.files.copy();
        inject(&killed, JOURNAL, &FileFault::Cut(100));
        killed.stop_after(Some(calls));
        let reported = mend(&killed, Choice { give_up: true, ..Choice::default() });
        killed.stop_after(None);
        let found = journal::read(&killed, Path::new(STATE)).unwrap();
        assert!(
            reported.is_err() == found.damage.is_some() || calls > 0 && found.damage.is_none(),
            "{calls}"
        );
        let closed = found.damage.map_or(found.table.closed(), |damage| damage.closed);
        assert!(closed >= Some(Closed::Writes), "killed after {calls} calls it is open");
        if reported.is_ok() {
            break;
        }
        assert!(mend(&killed, Choice { give_up: true, ..Choice::default() }).is_ok() || closed.is_some());
        calls += 1;
    }
    assert!(calls > 8, "{calls}");
}
