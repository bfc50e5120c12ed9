//! Several tasks that name one file, and files that change under a task.

use super::images::{backup, replica, restored, restored_from};
use super::memory::MemoryFiles;
use super::rig::{Rig, SECTOR, range};
use crate::file_system::{Files, How, Machine};
use crate::files::worker::FileWorker;
use crate::manager::ManagerError;
use crate::task::file_request::{FileOp, FileQueue, FileResult, ImageTarget};
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use apps::backup::image::{self, Header};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Duration;
use workload::random::Stream;

const IMAGE: &str = "/backups/image";
/// Another name of the same file.
const LINK: &str = "/backups/link";

fn forced(spec: TaskSpec) -> TaskSpec {
    TaskSpec { force: true, ..spec }
}

fn to(path: &str, spec: TaskSpec) -> TaskSpec {
    TaskSpec { to: Some(path.into()), ..spec }
}

fn restore(path: &str) -> TaskSpec {
    TaskSpec { from: vec![path.into()], ..TaskSpec::new(TaskKind::Restore) }
}

/// Returns a disk with a copy to [`IMAGE`] that has written nothing, or some blocks, and is paused.
fn paused(spec: TaskSpec, written: bool) -> (Rig, u64) {
    let mut rig = Rig::new();
    let id = rig.start(spec);
    if written {
        while rig.files.get(IMAGE).is_none_or(|file| file.is_empty()) {
            rig.step();
        }
    }
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.files.get(IMAGE).unwrap().is_empty(), !written);
    (rig, id)
}

#[test]
fn a_second_task_to_the_file_of_one_that_is_not_over_is_refused() {
    for first in [backup(), replica(), forced(replica())] {
        let (mut rig, id) = paused(first.clone(), false);
        for second in [backup(), replica(), forced(backup()), to("/backups/./image", backup())] {
            let refused = rig.call(|manager, _| manager.start(second)).unwrap_err();
            let ManagerError::Busy(why) = refused else { panic!("{refused}") };
            assert_eq!(
                why.split(" to ").next().unwrap(),
                format!("{} {id}", first.kind),
                "it is said which task has it"
            );
        }
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        rig.run_for(Duration::from_secs(1));
        rig.start(forced(backup()));
    }
}

#[test]
fn a_task_to_another_name_of_that_file_fails_and_harms_nothing() {
    for (first, written) in [(backup(), false), (backup(), true), (replica(), false), (replica(), true)] {
        for second in [backup(), replica(), forced(backup()), forced(replica())] {
            for restarted in [false, true] {
                let (mut rig, id) = paused(first.clone(), written);
                let then = rig.now.clone();
                rig.files.link(IMAGE, LINK);
                if restarted {
                    rig = rig.crash(None);
                    rig.run_for(Duration::from_secs(1));
                }
                let before = rig.files.get(IMAGE).unwrap();
                let other = rig.start(to(LINK, second.clone()));
                assert_eq!(rig.run(other), TaskState::Failed);
                let reason = rig.task(other).reason.unwrap();
                assert!(
                    reason.starts_with("/backups/link: another task or program has the file open"),
                    "{reason}"
                );
                assert!(rig.files.get(IMAGE).unwrap() == before);
                rig.call(|manager, s| manager.resume(s, id)).unwrap();
                assert_eq!(rig.run(id), TaskState::Done);
                match first.kind {
                    TaskKind::Backup => assert!(restored(&rig) == then),
                    _ => assert!(rig.files.get(IMAGE).unwrap() == then),
                }
            }
        }
    }
}

#[test]
fn a_cancelled_task_removes_no_file_of_another() {
    for held in [true, false] {
        let (mut rig, id) = paused(backup(), false);
        rig.files.link(IMAGE, LINK);
        rig.hangs = vec![FileQueue::Target(id + 1)];
        let other = rig.start(to(LINK, backup()));
        rig.call(|manager, s| manager.cancel(s, other)).unwrap();
        if !held {
            rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        }
        rig.hangs.clear();
        rig.run_for(Duration::from_secs(1));
        assert_eq!(rig.files.get(LINK).is_some(), held, "an empty file of a task that is over is removed");
    }
}

/// A restart removes the unfinished image of a cancelled backup, but no other file of that name.
#[test]
fn a_restart_removes_no_file_of_the_name_of_a_cancelled_backup_that_is_not_its_own() {
    for again in [false, true] {
        let (mut rig, id) = paused(backup(), false);
        rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        rig.run_for(Duration::from_secs(1));
        assert_eq!(rig.files.get(IMAGE), None);
        if again {
            // A later backup to this name has made the file, and is paused.
            let id = rig.start(backup());
            rig.call(|manager, s| manager.pause(s, id)).unwrap();
            rig.run_for(Duration::from_secs(1));
        } else {
            rig.files.put(IMAGE, b"");
        }
        rig = rig.crash(None);
        rig.run_for(Duration::from_secs(1));
        assert!(rig.files.get(IMAGE).is_some_and(|file| file.is_empty()), "again: {again}");
        if again {
            rig.call(|manager, s| manager.resume(s, id + 1)).unwrap();
            assert_eq!(rig.run(id + 1), TaskState::Done);
        }
    }
}

#[test]
fn a_copy_whose_file_is_not_under_its_name_at_the_end_fails() {
    type Change = fn(&MemoryFiles);
    let changes: [Change; 3] = [
        |files| files.delete(IMAGE),
        |files| {
            files.link(IMAGE, LINK);
            files.delete(IMAGE);
        },
        |files| {
            files.delete(IMAGE);
            files.put(IMAGE, b"another file");
        },
    ];
    for spec in [backup(), replica()] {
        for written in [false, true] {
            for change in changes {
                let (mut rig, id) = paused(spec.clone(), written);
                change(&rig.files);
                let there = rig.files.get(IMAGE);
                rig.call(|manager, s| manager.resume(s, id)).unwrap();
                assert_eq!(rig.run(id), TaskState::Failed);
                let reason = rig.task(id).reason.unwrap();
                assert!(reason.starts_with("/backups/image: the file that was written was"), "{reason}");
                assert_eq!(rig.files.get(IMAGE), there);
            }
        }
    }
}

/// At a restart another file may have the target's name.
#[test]
fn a_copy_goes_on_in_no_other_file_than_its_own() {
    for spec in [backup(), replica(), forced(replica())] {
        for written in [false, true] {
            let blank = vec![0; Rig::new().now.len()];
            for other in [b"", b"another file".as_slice(), &blank] {
                let (rig, id) = paused(spec.clone(), written);
                rig.files.delete(IMAGE);
                rig.files.put(IMAGE, other);
                let mut rig = rig.crash(None);
                if rig.task(id).state == TaskState::Paused {
                    rig.call(|manager, s| manager.resume(s, id)).unwrap();
                }
                assert_eq!(rig.run(id), TaskState::Failed, "{} written {written}", spec.kind);
                assert!(rig.files.get(IMAGE).unwrap() == other, "it is written to");
            }
        }
    }
}

/// A deleted and newly created file has the same name and, on most file systems, the same inode number.
#[test]
fn a_file_that_was_made_anew_is_another_target() {
    let directory = std::env::temp_dir().join(format!("freeblock-anew-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (rig, _) = two_images();
    for replica in [false, true] {
        let path = directory.join("target");
        let mut worker =
            FileWorker::new(FileQueue::Target(9), Arc::new(Machine::default()), directory.clone());
        let mut target = target(&rig, &path, replica);
        let reported = worker.execute(FileOp::Open(Box::new(target.clone())));
        let Some(FileResult::Opened { saved, .. }) = reported else { panic!("{reported:?}") };
        (target.fresh, target.saved) = (false, saved);
        let again = worker.execute(FileOp::Open(Box::new(target.clone())));
        assert!(matches!(again, Some(FileResult::Opened { .. })), "{again:?}");
        drop(worker);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut worker =
            FileWorker::new(FileQueue::Target(9), Arc::new(Machine::default()), directory.clone());
        let reported = worker.execute(FileOp::Open(Box::new(target)));
        let Some(FileResult::Refused(why)) = reported else { panic!("{reported:?}") };
        assert!(why.contains("another file or device has this name now"), "{why}");
        fs::remove_file(&path).unwrap();
    }
    fs::remove_dir_all(&directory).unwrap();
}

/// A device without a serial number can only be recognised by its content: many devices have the same size, and zeros.
#[test]
fn a_replica_goes_on_in_a_device_without_a_serial_number_only_where_its_blocks_are() {
    let len = Rig::new().now.len();
    let blank = || {
        let mut rig = Rig::new();
        rig.files.put_device(IMAGE, &vec![0; len]);
        rig.pace = 1;
        let id = rig.start(forced(replica()));
        rig.call(|manager, s| manager.pause(s, id)).unwrap();
        (rig, id)
    };
    let (mut rig, id) = blank();
    rig.run_for(Duration::from_secs(1));
    let mut rig = rig.crash(None);
    if rig.task(id).state == TaskState::Paused {
        rig.call(|manager, s| manager.resume(s, id)).unwrap();
    }
    assert_eq!(rig.run(id), TaskState::Failed);
    let reason = rig.task(id).reason.unwrap();
    assert!(
        reason.contains("another device may have this name now: the target has no serial number"),
        "{reason}"
    );
    assert!(rig.files.get(IMAGE).unwrap() == vec![0; len], "it is written to");
    // Blocks of the replica on the device identify it.
    let (mut rig, id) = blank();
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    while rig.task(id).done == 0 {
        rig.step();
    }
    let mut rig = rig.crash(None);
    assert_eq!(rig.run(id), TaskState::Done);
    assert!(rig.files.get(IMAGE).unwrap() == rig.now);
}

/// Blocks of zeros do not identify a file or device.
#[test]
fn a_replica_is_not_known_by_blocks_of_zeros() {
    let (rig, _) = two_images();
    let header = header_of(&rig, "/backups/a");
    let mut target = target(&rig, Path::new(IMAGE), true);
    let mut worker = FileWorker::new(FileQueue::Target(9), Arc::new(rig.files.clone()), "/other".into());
    worker.execute(FileOp::Open(Box::new(target.clone())));
    for block in 0..header.shape.blocks.min(100) {
        let bytes = vec![u8::from(block == 3); header.block_bytes()];
        let bytes = if block == 3 { [vec![0], bytes[1..].to_vec()].concat() } else { bytes };
        assert!(worker.execute(FileOp::Put { block, bytes, bad: Vec::new() }).is_none());
        let reported = worker.execute(FileOp::Sync { mark: block });
        let Some(FileResult::Synced { saved, .. }) = reported else { panic!("{reported:?}") };
        (target.fresh, target.saved) = (false, saved);
    }
    let again = worker.execute(FileOp::Open(Box::new(target.clone())));
    assert!(matches!(again, Some(FileResult::Opened { .. })), "{again:?}");
    rig.files.put(IMAGE, &vec![0; rig.now.len()]);
    let reported = worker.execute(FileOp::Open(Box::new(target)));
    let Some(FileResult::Refused(why)) = reported else { panic!("{reported:?}") };
    assert!(why.contains("the block written at byte"), "{why}");
}

#[test]
fn a_replica_that_another_program_has_cut_fails() {
    let blocks = paused(replica(), true).0.task(1).blocks;
    for at in [1, blocks / 2] {
        for left in [0, SECTOR as u64 * 100] {
            let mut rig = Rig::new();
            rig.pace = 1;
            let id = rig.start(replica());
            while rig.task(id).done < at {
                rig.step();
            }
            assert!(rig.task(id).done < blocks);
            Files::open(&rig.files, Path::new(IMAGE), How::Write).unwrap().set_len(left).unwrap();
            rig.pace = usize::MAX;
            while !rig.task(id).state.is_over() {
                rig.step();
            }
            assert_eq!(
                rig.task(id).state,
                TaskState::Failed,
                "cut at block {at} of {blocks} to {left} bytes"
            );
        }
    }
}

#[test]
fn an_image_that_another_program_has_cut_fails() {
    let mut rig = Rig::new();
    rig.pace = 1;
    let id = rig.start(backup());
    while rig.task(id).done == 0 {
        rig.step();
    }
    let mut file = Files::open(&rig.files, Path::new(IMAGE), How::Write).unwrap();
    file.set_len(100).unwrap();
    rig.pace = usize::MAX;
    while !rig.task(id).state.is_over() {
        rig.step();
    }
    assert_eq!(rig.task(id).state, TaskState::Failed);
    let reason = rig.task(id).reason.unwrap();
    assert!(
        reason.starts_with("/backups/image: ") && reason.contains("blocks of this backup were in it"),
        "{reason}"
    );
}

#[test]
fn a_cancelled_task_whose_target_does_not_answer_says_so() {
    let (mut rig, id) = paused(backup(), true);
    rig.hangs = vec![FileQueue::Target(id)];
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    let reason = rig.task(id).reason.unwrap();
    assert!(
        reason
            .starts_with("/backups/image: the target does not answer, and still has the bytes written to it"),
        "{reason}"
    );
    rig.hangs.clear();
    rig.run_for(Duration::from_secs(1));
    assert_eq!((rig.task(id).reason, rig.files.get(IMAGE)), (None, None));
}

#[test]
fn a_replica_goes_on_only_with_the_file_that_has_its_blocks() {
    type Change = fn(&MemoryFiles, Vec<u8>);
    let changes: [(bool, Change); 4] = [
        (true, |files, _| files.put(IMAGE, b"")),
        (true, |files, now| files.put(IMAGE, &vec![0; now.len()])),
        (true, |files, now| files.put(IMAGE, &now[..4_096])),
        (false, |files, now| files.put(IMAGE, &now)),
    ];
    for (fails, change) in changes {
        let mut rig = Rig::new();
        rig.pace = 1;
        let then = rig.now.clone();
        let id = rig.start(replica());
        while rig.task(id).done == 0 {
            rig.step();
        }
        rig.call(|manager, s| manager.pause(s, id)).unwrap();
        rig.run_for(Duration::from_secs(1));
        let there = rig.files.get(IMAGE).unwrap();
        change(&rig.files, there);
        rig = rig.crash(None);
        assert!(rig.task(id).done > 0, "its progress was saved");
        rig.pace = usize::MAX;
        if rig.task(id).state == TaskState::Paused {
            rig.call(|manager, s| manager.resume(s, id)).unwrap();
        }
        let ended = rig.run(id);
        if fails {
            assert_eq!(ended, TaskState::Failed);
            let reason = rig.task(id).reason.unwrap();
            assert!(reason.starts_with("/backups/image: the block written at byte "), "{reason}");
        } else {
            assert_eq!(ended, TaskState::Done);
            assert!(rig.files.get(IMAGE).unwrap() == then);
        }
    }
}

/// Returns images of a disk at two instants.
fn two_images() -> (Rig, Vec<u8>) {
    let mut rig = Rig::new();
    for path in ["/backups/a", "/backups/b"] {
        let id = rig.start(to(path, backup()));
        assert_eq!(rig.run(id), TaskState::Done);
        (0..40).for_each(|at| rig.write(range(at * 100, 16)));
        rig.settle();
    }
    let then = restored_from(&rig, "/backups/a");
    (rig, then)
}

/// On CIFS a lock on one handle of a file prevents reads and writes through every other handle.
#[test]
fn tasks_work_where_a_lock_keeps_other_handles_out() {
    let mut rig = Rig::new();
    rig.files.set_mandatory_locks();
    let sums = TaskSpec { checksums: Some("/backups/sums".into()), ..TaskSpec::new(TaskKind::Scrub) };
    let difference = TaskSpec { since: vec!["/backups/a".into()], ..to("/backups/b", backup()) };
    let specs = [
        to("/backups/a", backup()),
        difference,
        to("/backups/c", replica()),
        restore("/backups/a"),
        sums.clone(),
        sums.clone(),
        TaskSpec { force: true, ..sums },
    ];
    for spec in specs {
        let kind = spec.kind;
        let id = rig.start(spec);
        assert_eq!(rig.run(id), TaskState::Done, "{kind}: {:?}", rig.task(id).reason);
        rig = rig.crash(None);
    }
    let verified = [5, 6, 7].map(|id| rig.task(id).checksums.is_some_and(|sums| sums.verified > 0));
    assert_eq!(verified, [false, true, false]);
}

#[test]
fn a_restore_goes_on_with_the_images_that_it_began_with_alone() {
    for (power, retried) in [(false, false), (true, false), (false, true)] {
        for changed in [false, true] {
            let (mut rig, then) = two_images();
            rig.files.put(IMAGE, &rig.files.get("/backups/a").unwrap());
            let before = rig.medium();
            if retried {
                rig.pace = 1;
            }
            let id = rig.start(restore(IMAGE));
            // Wait until the images are verified and no block has been restored.
            while retried && rig.task(id).state != TaskState::Running {
                rig.step();
            }
            while !retried && rig.medium() == before {
                rig.step();
            }
            assert_eq!(rig.task(id).state, TaskState::Running);
            let image = rig.files.get(if changed { "/backups/b" } else { "/backups/a" }).unwrap();
            if retried {
                rig.files.set_gone("/backups", true);
                rig.pace = usize::MAX;
                assert_eq!(rig.run(id), TaskState::Paused);
                rig.files.set_gone("/backups", false);
                rig.files.put(IMAGE, &image);
                rig.call(|manager, s| manager.resume(s, id)).unwrap();
            } else {
                rig.files.put(IMAGE, &image);
                let mut chance = Stream::new(3, "power");
                rig = rig.crash(power.then_some(&mut chance));
            }
            let state = rig.run(id);
            if !changed {
                assert_eq!(state, TaskState::Done, "{:?}", rig.task(id));
                assert!(rig.medium() == then);
                continue;
            }
            assert_eq!(state, TaskState::Failed, "power {power}, retried {retried}");
            let reason = rig.task(id).reason.unwrap();
            assert!(
                reason.contains("the images are others than those that the restore began with"),
                "{reason}"
            );
        }
    }
}

#[test]
fn no_backup_overwrites_an_image_that_a_task_reads() {
    let (mut rig, then) = two_images();
    let since: Vec<PathBuf> = vec!["/backups/a".into()];
    let own_base = TaskSpec { since, ..forced(to("/backups/a", backup())) };
    let id = rig.start(own_base);
    assert_eq!(rig.run(id), TaskState::Failed, "a difference to its own base");
    assert!(restored_from(&rig, "/backups/a") == then);
    // A backup of another disk to an image that a restore reads.
    rig.files.link("/backups/a", LINK);
    let id = rig.start(restore("/backups/a"));
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    let mut worker = FileWorker::new(FileQueue::Target(9), Arc::new(rig.files.clone()), "/other".into());
    let header = header_of(&rig, "/backups/b");
    let target = ImageTarget { header, force: true, ..target(&rig, Path::new(LINK), false) };
    let reported = worker.execute(FileOp::Open(Box::new(target)));
    let Some(FileResult::Refused(why)) = reported else { panic!("{reported:?}") };
    assert!(why.starts_with("/backups/link: another task or program has the file open"), "{why}");
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    assert_eq!(rig.run(id), TaskState::Done);
    assert!(rig.medium() == then);
}

/// Other users could read content of the disk in such a file.
#[test]
fn an_image_goes_to_no_file_that_other_users_can_read() {
    let directory = std::env::temp_dir().join(format!("freeblock-targets-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (rig, _) = two_images();
    for replica in [false, true] {
        for (mode, force, fresh, opens) in [
            (0o644, false, true, false),
            (0o660, false, true, false),
            (0o644, true, true, true),
            (0o600, false, true, true),
            // The image of an earlier version's task, which has not recorded the identity of its file.
            (0o644, true, false, false),
            (0o600, false, false, true),
        ] {
            let path = directory.join(format!("{replica}-{mode:o}-{force}-{fresh}"));
            fs::write(&path, b"").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let target = ImageTarget { force, fresh, ..target(&rig, &path, replica) };
            let mut worker =
                FileWorker::new(FileQueue::Target(9), Arc::new(Machine::default()), directory.clone());
            let reported = worker.execute(FileOp::Open(Box::new(target)));
            match reported {
                Some(FileResult::Opened { .. }) => assert!(opens, "{path:?}"),
                Some(FileResult::Refused(why)) => assert!(!opens && why.contains("other users"), "{why}"),
                reported => panic!("{reported:?}"),
            }
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o077;
            assert_eq!(mode == 0, opens, "{path:?}");
        }
        // An earlier version's task that has progress made its file itself; some file systems show other rights than
        // were set.
        let path = directory.join(format!("{replica}-644-false-true"));
        let target = ImageTarget { fresh: false, saved: vec![0], ..target(&rig, &path, replica) };
        let mut worker =
            FileWorker::new(FileQueue::Target(9), Arc::new(Machine::default()), directory.clone());
        let reported = format!("{:?}", worker.execute(FileOp::Open(Box::new(target))));
        assert!(!reported.contains("other users"), "{reported}");
    }
    fs::remove_dir_all(&directory).unwrap();
}

/// The owner of a file can read it, whatever its permission bits are.
#[test]
fn an_image_goes_to_no_file_of_another_user() {
    if !testing::needs("root", rustix::process::geteuid().is_root()) {
        return;
    }
    let directory = std::env::temp_dir().join(format!("freeblock-owners-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (rig, _) = two_images();
    let path = directory.join("image");
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for (owner, opens) in [(54_321, false), (0, true)] {
        std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
        let target = ImageTarget { force: true, ..target(&rig, &path, false) };
        let mut worker =
            FileWorker::new(FileQueue::Target(9), Arc::new(Machine::default()), directory.clone());
        match worker.execute(FileOp::Open(Box::new(target))) {
            Some(FileResult::Opened { .. }) => assert!(opens, "the owner is {owner}"),
            Some(FileResult::Refused(why)) => {
                assert!(!opens && why.contains("the file belongs to another user; name a new file"), "{why}");
            }
            reported => panic!("{reported:?}"),
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}

fn header_of(rig: &Rig, path: &str) -> Header {
    image::header(&mut rig.files.get(path).unwrap().as_slice()).unwrap()
}

/// Returns the target of a task that begins, with the header of the first of [`two_images`].
fn target(rig: &Rig, path: &Path, replica: bool) -> ImageTarget {
    ImageTarget {
        path: path.into(),
        header: header_of(rig, "/backups/a"),
        replica,
        fresh: true,
        force: false,
        since: Vec::new(),
        saved: Vec::new(),
        capacity: (rig.now.len() / SECTOR) as u64,
        own: Vec::new(),
    }
}
