//! Backups, replicas, differences and restores on a busy drive, with failures of every part.

use super::log::OperatorLog;
use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use super::tasks::{access, busy, scrub};
use crate::file_system::{Files, How};
use crate::files::source::FileSink;
use crate::manager::ManagerError;
use crate::task::file_request::FileQueue;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::{Closed, Event, TaskState};
use apps::backup::image::header;
use apps::backup::{Destination, ImageWriter, restore, verify};
use sim::Cure;
use std::path::Path;
use units::{Duration, Lbn};
use workload::random::Stream;

const IMAGE: &str = "/backups/image";

pub(super) fn backup() -> TaskSpec {
    TaskSpec { to: Some(IMAGE.into()), block_sectors: Some(8), ..TaskSpec::new(TaskKind::Backup) }
}

pub(super) fn replica() -> TaskSpec {
    TaskSpec { to: Some(IMAGE.into()), block_sectors: Some(8), ..TaskSpec::new(TaskKind::Replica) }
}

/// A disk in memory to restore to.
struct Bytes(Vec<u8>);

impl Destination for Bytes {
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String> {
        let from = at.get() as usize * SECTOR;
        let to = (from + bytes.len()).min(self.0.len());
        self.0[from..to].copy_from_slice(&bytes[..to - from]);
        Ok(true)
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the content of the image as a restore would write it.
pub(super) fn restored(rig: &Rig) -> Vec<u8> {
    restored_from(rig, IMAGE)
}

/// Returns the content of the image at a path as a restore would write it.
pub(super) fn restored_from(rig: &Rig, path: &str) -> Vec<u8> {
    let image = rig.files.get(path).unwrap();
    verify(&mut image.as_slice()).unwrap();
    let mut disk = Bytes(vec![0; rig.now.len()]);
    restore(&mut image.as_slice(), None, &mut disk).unwrap();
    disk.0
}

#[test]
fn a_backup_is_of_the_instant_at_which_it_began() {
    for seed in 0..4 {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(seed, "clients"));
        let then = rig.now.clone();
        let id = rig.start(backup());
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done);
        // A task that is shown as done is shown with all of its work.
        assert_eq!(rig.task(id).done, rig.task(id).blocks);
        rig.settle();
        assert_ne!(rig.now, then, "nothing was overwritten meanwhile");
        assert!(restored(&rig) == then, "the image is not of that instant");
        assert_eq!(rig.task(id).done, rig.task(id).blocks);
        assert_eq!(rig.files.get("/state/task-1.kept"), None, "the kept blocks are deleted");
    }
}

/// A backup reads as fast as a scrub: it waits for its target, not for a clock.
#[test]
fn a_backup_of_an_idle_disk_takes_as_long_as_a_scrub() {
    let took = |spec: TaskSpec| {
        let mut rig = Rig::new();
        let id = rig.start(spec);
        let began = rig.volume.now();
        assert_eq!(rig.run(id), TaskState::Done);
        rig.volume.now().saturating_since(began).as_secs_f64()
    };
    let scrubbed = took(scrub());
    for spec in [backup(), replica()] {
        let kind = spec.kind;
        let copied = took(spec);
        assert!(copied < scrubbed * 1.2 + 0.3, "{kind}: {copied} s, and the scrub {scrubbed} s");
    }
}

/// Returns a disk with a running backup and a block that waits for a kept file that hangs, and the content of the disk
/// at the start of the backup.
fn keeping() -> (Rig, u64, Vec<u8>) {
    let mut rig = Rig::new();
    let then = rig.now.clone();
    let id = rig.start(backup());
    while rig.task(id).state != TaskState::Running {
        rig.step();
    }
    rig.hangs = vec![FileQueue::Kept(id)];
    rig.write(range(4_980, 8));
    (rig, id, then)
}

/// All blocks have been read, and the last block that a client overwrites is still on its way to the kept file.
#[test]
fn a_backup_ends_after_its_last_block_is_kept() {
    let (mut rig, id, then) = keeping();
    rig.run_for(Duration::from_secs(10));
    assert_eq!(rig.task(id).state, TaskState::Running, "{:?}", rig.task(id));
    rig.hangs.clear();
    rig.serve();
    assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
    rig.settle();
    assert!(restored(&rig) == then && rig.now != then);
}

#[test]
fn a_replica_has_the_bytes_of_its_start_while_clients_write() {
    for seed in 0..3 {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(seed, "clients"));
        let then = rig.now.clone();
        let id = rig.start(replica());
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done);
        rig.settle();
        assert_ne!(rig.now, then);
        assert!(rig.files.get(IMAGE).unwrap() == then);
    }
}

#[test]
fn bad_sectors_are_named_and_the_rest_is_in_the_image() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(3, "clients"));
    let bad = [5, 1_000, 1_001, 4_000];
    bad.iter().for_each(|lbn| rig.volume.platters_mut().spoil(Lbn::new(*lbn), Cure::Write));
    let mut then = rig.now.clone();
    let id = rig.start(backup());
    // A foreground write repairs a bad sector, and the block is kept before the write.
    rig.write(range(1_000, 8));
    assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done);
    assert_eq!(rig.task(id).bad_lbns, bad);
    for lbn in bad {
        then[lbn as usize * SECTOR..][..SECTOR].fill(0);
    }
    assert!(restored(&rig) == then);
}

/// The kill comes at any step, with or without a power cut; the tasks continue, and their results are right.
#[test]
fn crashes_at_random_moments_forget_no_task_and_spoil_no_backup() {
    for seed in 0..16 {
        let mut chance = Stream::new(seed, "crashes");
        let mut rig = Rig::new();
        rig.pace = 1 + below(&mut chance, 4) as usize;
        let then = rig.now.clone();
        let spec = if seed % 2 == 0 { backup() } else { replica() };
        let ids = [rig.start(scrub()), rig.start(spec)];
        while rig.task(ids[1]).state == TaskState::Queued && rig.task(ids[1]).blocks == 0 {
            rig.step();
        }
        let mut claimed = [0, 0];
        for _ in 0..5 {
            for _ in 0..below(&mut chance, 400) {
                if rig.outstanding() < 4 {
                    access(&mut rig, &mut chance);
                }
                rig.step();
            }
            for (id, claimed) in ids.iter().zip(&mut claimed) {
                *claimed = rig.task(*id).done.max(*claimed);
            }
            let power = below(&mut chance, 2) == 0;
            rig = rig.crash(power.then_some(&mut chance));
            rig.pace = 1 + below(&mut chance, 4) as usize;
            for (id, claimed) in ids.iter().zip(&claimed) {
                let task = rig.task(*id);
                assert!(task.done >= *claimed, "seed {seed}: claimed {claimed}, then {task:?}");
                assert!(
                    !matches!(task.state, TaskState::Failed | TaskState::Cancelled),
                    "seed {seed}: {task:?}"
                );
            }
        }
        rig.pace = usize::MAX;
        for id in ids {
            assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "seed {seed}: {:?}", rig.task(id));
        }
        rig.settle();
        let copy = if seed % 2 == 0 { restored(&rig) } else { rig.files.get(IMAGE).unwrap() };
        assert!(copy == then, "seed {seed}");
        assert!(rig.medium() == rig.now, "seed {seed}: the foreground's own bytes");
    }
}

#[test]
fn a_full_target_pauses_the_task_and_delays_no_client() {
    for spec in [backup(), replica()] {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(1, "clients"));
        let then = rig.now.clone();
        let room = if spec.kind == TaskKind::Backup { 300_000 } else { rig.now.len() as u64 };
        rig.files.limit("/backups", Some(room));
        let id = rig.start(spec.clone());
        let log = OperatorLog::default();
        let state = tracing::subscriber::with_default(log.clone(), || busy(&mut rig, id, &mut chance));
        if spec.kind == TaskKind::Replica {
            assert_eq!(state, TaskState::Done, "a replica takes its room at once");
            continue;
        }
        assert_eq!(state, TaskState::Paused);
        let reason = rig.task(id).reason.unwrap();
        assert!(reason.starts_with("/backups/image: no storage space"), "{reason}");
        assert!(log.has(&["WARN", "cannot go on", "disk=", "task=", "kind=backup", "no storage space"]));
        // Clients write all over the disk.
        for _ in 0..300 {
            access(&mut rig, &mut chance);
            rig.run_for(Duration::from_millis(5));
        }
        rig.settle();
        rig = rig.crash(None);
        rig.run_for(Duration::from_secs(2));
        assert_eq!(rig.task(id).state, TaskState::Paused);
        rig.files.limit("/backups", None);
        rig.run_for(Duration::from_secs(12));
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done);
        assert!(restored(&rig) == then);
    }
}

/// The task tries again every ten seconds, and a comparison gives its permit back in between.
#[test]
fn a_task_that_cannot_go_on_is_in_the_log_once_until_it_makes_progress() {
    let log = OperatorLog::default();
    let lines = |words: &[&str]| log.numbers(words, "task").len();
    tracing::subscriber::with_default(log.clone(), || {
        // The rig has no other disks.
        let members = vec!["tiny".into(), "other".into()];
        for spec in [TaskSpec { members, ..TaskSpec::new(TaskKind::Verify) }, backup()] {
            let kind = format!("kind={}", spec.kind);
            let mut rig = Rig::with_permits(1);
            rig.files.limit("/backups", Some(300_000));
            let id = rig.start(spec.clone());
            rig.run_for(Duration::from_secs(300));
            assert_eq!(rig.task(id).state, TaskState::Paused);
            assert_eq!(lines(&["WARN", "cannot go on", &kind]), 1);
            let before = lines(&[&kind]);
            rig.run_for(Duration::from_secs(300));
            assert_eq!(lines(&[&kind]), before);
            if spec.kind == TaskKind::Backup {
                rig.files.limit("/backups", None);
                rig.run_for(Duration::from_secs(60));
                assert_eq!(rig.task(id).state, TaskState::Done);
                assert_eq!((lines(&["INFO", "goes on", &kind]), lines(&["INFO", "done", &kind])), (1, 1));
            }
        }
    });
}

#[test]
fn a_target_that_vanishes_pauses_the_task_until_it_is_back() {
    for spec in [backup(), replica()] {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(1, "clients"));
        let then = rig.now.clone();
        let id = rig.start(spec.clone());
        for _ in 0..300 {
            access(&mut rig, &mut chance);
            rig.step();
        }
        assert_eq!(rig.task(id).state, TaskState::Running);
        rig.files.set_gone("/backups", true);
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Paused);
        assert!(rig.task(id).reason.unwrap().contains("the device is gone"));
        for _ in 0..100 {
            access(&mut rig, &mut chance);
            rig.run_for(Duration::from_millis(5));
        }
        rig.settle();
        rig.files.set_gone("/backups", false);
        // The task retries by itself; `resume` does so at once.
        rig.call(|manager, s| manager.resume(s, id)).unwrap();
        rig.run_for(Duration::from_secs(1));
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "{:?}", rig.task(id));
        rig.settle();
        let copy = if spec.kind == TaskKind::Backup { restored(&rig) } else { rig.files.get(IMAGE).unwrap() };
        assert!(copy == then, "{spec:?}");
    }
}

#[test]
fn a_backup_that_would_keep_too_much_gives_up_and_lets_writes_go() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(1, "clients"));
    rig.keep = 100_000;
    rig = rig.crash(None);
    let id = rig.start(backup());
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    for _ in 0..100 {
        access(&mut rig, &mut chance);
        rig.run_for(Duration::from_millis(20));
    }
    rig.settle();
    let task = rig.task(id);
    assert_eq!(task.state, TaskState::Failed);
    assert!(task.reason.unwrap().starts_with("more than 100000 bytes of the disk as it was"));
}

#[test]
fn images_are_restored_and_a_crash_writes_nothing_twice() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(5, "clients"));
    let then = rig.now.clone();
    let id = rig.start(backup());
    assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done);
    rig.settle();
    let spec = TaskSpec { from: vec![IMAGE.into()], ..TaskSpec::new(TaskKind::Restore) };
    rig.call(|manager, _| manager.set_writers(1));
    let refused = rig.call(|manager, _| manager.start(spec.clone())).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "1 clients have the disk open for writing; close them, or set `force`: their writes then fail"
    );
    rig.call(|manager, _| manager.set_writers(0));
    let id = rig.start(spec);
    let taken = rig.call(|manager, _| manager.is_taken());
    assert_eq!(taken.unwrap(), "restore 2 is writing this disk; wait until it is done, or cancel it");
    let busy =
        rig.call(|manager, _| manager.start(TaskSpec { to: Some("/b".into()), ..backup() })).unwrap_err();
    assert!(matches!(busy, ManagerError::Busy(_)), "{busy}");
    let mut claimed = 0;
    for _ in 0..4 {
        for _ in 0..below(&mut chance, 300) {
            rig.step();
        }
        claimed = rig.task(id).done.max(claimed);
        rig = rig.crash(Some(&mut chance));
        assert!(rig.task(id).done >= claimed);
    }
    let taken = rig.call(|manager, _| manager.is_taken()).is_some();
    assert_eq!(taken, !rig.task(id).state.is_over(), "after a crash it still has the disk for itself");
    assert_eq!(rig.run(id), TaskState::Done);
    assert!(rig.medium() == then);
    assert_eq!(rig.call(|manager, _| manager.is_taken()), None);
}

#[test]
fn a_restore_begins_after_earlier_writes_of_clients() {
    let mut rig = Rig::new();
    let then = rig.now.clone();
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
    rig.call(|manager, _| crate::DiskHooks::set_changing(manager, true));
    let restore = TaskSpec { from: vec![IMAGE.into()], force: true, ..TaskSpec::new(TaskKind::Restore) };
    let id = rig.start(restore);
    rig.run_for(Duration::from_secs(5));
    assert_eq!(rig.task(id).state, TaskState::Queued);
    assert!(rig.call(|manager, _| manager.is_taken()).is_some(), "nothing new comes in meanwhile");
    // A client's write that was accepted before the restore.
    rig.write(range(40, 16));
    rig.settle();
    rig.call(|manager, _| crate::DiskHooks::set_changing(manager, false));
    assert_eq!(rig.run(id), TaskState::Done);
    assert!(rig.medium() == then);
}

#[test]
fn a_damaged_image_is_refused_before_anything_is_written() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
    let mut image = rig.files.get(IMAGE).unwrap();
    image[50_000] ^= 1;
    rig.files.put(IMAGE, &image);
    rig.write(range(0, 16));
    rig.settle();
    let before = rig.medium();
    let id = rig.start(TaskSpec { from: vec![IMAGE.into()], ..TaskSpec::new(TaskKind::Restore) });
    assert_eq!(rig.run(id), TaskState::Failed);
    assert!(rig.task(id).reason.unwrap().contains("the image is damaged at byte"));
    assert!(rig.medium() == before);
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let mut rig = Rig::new();
    rig.files.put(IMAGE, b"another program's only copy");
    for (spec, said) in [
        (backup(), "/backups/image: something else is there; name a new file, or say force"),
        (replica(), "/backups/image: the file is not empty; name a new one, or say force"),
        (
            TaskSpec { to: Some("/disk".into()), ..backup() },
            "/disk: the path is the disk itself; name another file",
        ),
    ] {
        let id = rig.start(spec);
        assert_eq!(rig.run(id), TaskState::Failed);
        assert_eq!(rig.task(id).reason.unwrap(), said);
    }
    assert_eq!(rig.files.get(IMAGE).unwrap(), b"another program's only copy");
}

fn difference(to: &str, since: &[&str]) -> TaskSpec {
    TaskSpec { since: since.iter().map(Into::into).collect(), to: Some(to.into()), ..backup() }
}

/// Applies images one on top of the other, as a restore does.
fn stacked(rig: &Rig, images: &[&str]) -> Vec<u8> {
    let (mut disk, mut onto) = (Bytes(vec![0; rig.now.len()]), None);
    for image in images {
        let bytes = rig.files.get(image).unwrap();
        onto = Some(restore(&mut bytes.as_slice(), onto, &mut disk).unwrap().point);
    }
    disk.0
}

/// The images up to each one of a chain give the disk as it was at that image's instant, also after crashes, and a
/// difference holds only changed blocks.
#[test]
fn differences_restore_the_disk_at_each_instant_and_hold_only_changed_blocks() {
    for seed in 0..4 {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(seed, "differences"));
        let (images, mut chain) = (["/backups/full", "/backups/one", "/backups/two"], Vec::new());
        for (at, image) in images.into_iter().enumerate() {
            rig.settle();
            let (then, before) = (rig.now.clone(), if at > 0 { stacked(&rig, &chain) } else { Vec::new() });
            let id = rig.start(difference(image, &chain));
            for _ in 0..2 {
                for _ in 0..below(&mut chance, 300) {
                    if rig.outstanding() < 4 && !rig.task(id).state.is_over() {
                        access(&mut rig, &mut chance);
                    }
                    rig.step();
                }
                let power = below(&mut chance, 2) == 0;
                rig = rig.crash(power.then_some(&mut chance));
            }
            assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "{:?}", rig.task(id));
            rig.settle();
            chain.push(image);
            assert!(stacked(&rig, &chain) == then, "{image} of seed {seed} is not of its instant");
            if at > 0 {
                let changed = then.chunks(8 * SECTOR).zip(before.chunks(8 * SECTOR)).filter(|(a, b)| a != b);
                let bytes = rig.files.get(image).unwrap();
                assert_eq!(verify(&mut bytes.as_slice()).unwrap().chunks, changed.count() as u64);
            }
        }
        // Restore the chain to the disk.
        let then = stacked(&rig, &chain);
        let from = images.iter().map(Into::into).collect();
        let id = rig.start(TaskSpec { from, ..TaskSpec::new(TaskKind::Restore) });
        assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
        assert!(rig.medium() == then);
    }
}

#[test]
fn a_difference_is_only_from_images_of_this_disk_in_their_order() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(1, "differences"));
    let full = rig.start(difference("/backups/full", &[]));
    assert_eq!(busy(&mut rig, full, &mut chance), TaskState::Done);
    let one = rig.start(difference("/backups/one", &["/backups/full"]));
    assert_eq!(busy(&mut rig, one, &mut chance), TaskState::Done);
    rig.files.put("/backups/junk", b"junk");
    for (since, said) in [
        (&["/backups/junk"][..], "not of an image"),
        (&["/backups/one"][..], "name that before it"),
        (&["/backups/one", "/backups/full"][..], "name that before it"),
    ] {
        let id = rig.start(difference("/backups/two", since));
        assert_eq!(rig.run(id), TaskState::Failed, "{since:?}");
        let why = rig.task(id).reason.unwrap();
        assert!(why.contains(said), "{why}");
    }
    let wrong = TaskSpec { block_sectors: Some(16), ..difference("/backups/two", &["/backups/full"]) };
    let id = rig.start(wrong);
    assert_eq!(rig.run(id), TaskState::Failed);
    assert!(rig.task(id).reason.unwrap().contains("say block_sectors 8"));
}

/// A daemon that is killed before the journal records the end of a task continues the task after its restart. A
/// cancelled or failed backup that completes in this way still holds the disk as it was at the start of the backup.
#[test]
fn a_kill_before_the_end_of_a_backup_is_known_spoils_nothing() {
    for fails in [false, true] {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(1, "clients"));
        if fails {
            rig.keep = 100_000;
            rig = rig.crash(None);
        }
        let then = rig.now.clone();
        let id = rig.start(backup());
        rig.run_for(Duration::from_millis(300));
        // Some blocks are kept, and overwritten.
        rig.call(|manager, s| manager.pause(s, id)).unwrap();
        (0..5).for_each(|at| rig.write(range(4_000 + at * 16, 8)));
        rig.run_for(Duration::from_secs(1));
        rig.hangs = vec![FileQueue::Journal];
        if !fails {
            rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        }
        for _ in 0..100 {
            let range = range(below(&mut chance, 4_000), 16);
            rig.write(range);
            rig.run_for(Duration::from_millis(20));
        }
        assert!(rig.task(id).state.is_over(), "{:?}", rig.task(id));
        assert!(rig.outstanding() > 0, "the requests overwrite the disk");
        rig.keep = 1 << 30;
        rig = rig.crash(None);
        rig.call(|manager, s| manager.resume(s, id)).unwrap();
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "{:?}", rig.task(id));
        assert!(restored(&rig) == then, "fails: {fails}");
    }
}

/// A daemon that is killed before the journal records the end of a restore continues the restore. That must not
/// overwrite acknowledged writes of clients.
#[test]
fn a_kill_before_the_end_of_a_restore_is_known_loses_no_write() {
    for cancelled in [true, false] {
        let mut rig = Rig::new();
        let id = rig.start(backup());
        assert_eq!(rig.run(id), TaskState::Done);
        let id = rig.start(TaskSpec { from: vec![IMAGE.into()], ..TaskSpec::new(TaskKind::Restore) });
        // The restore has begun to write.
        (0..60).for_each(|_| _ = rig.step());
        assert_eq!(rig.task(id).state, TaskState::Running);
        rig.hangs = vec![FileQueue::Journal];
        if cancelled {
            rig.call(|manager, s| manager.cancel(s, id)).unwrap();
        } else {
            rig.run_for(Duration::from_secs(20));
        }
        if rig.call(|manager, _| manager.is_taken()).is_some() {
            // The restore itself is not over either, so clients may not write.
            assert!(!cancelled);
            continue;
        }
        let all = rig.now.len() / SECTOR;
        (0..20).for_each(|at| rig.write(range(at * (all as u64 / 20), 8)));
        rig.run_for(Duration::from_secs(40));
        let written = rig.now.clone();
        rig = rig.crash(None);
        assert_eq!(rig.run(id), TaskState::Done);
        assert!(rig.medium() == written, "cancelled: {cancelled}");
    }
}

fn restore_task(path: &str) -> TaskSpec {
    TaskSpec { from: vec![path.into()], ..TaskSpec::new(TaskKind::Restore) }
}

fn close_all(rig: &mut Rig) {
    let closed = Some(Closed::All);
    rig.call(|manager, _| manager.note(Event::Closed { closed }));
    assert!(rig.call(|manager, _| manager.is_taken()).is_some());
}

#[test]
fn a_restore_that_could_not_write_every_sector_fails_and_opens_nothing() {
    let mut rig = Rig::new();
    // The image lacks a sector that could not be read.
    rig.volume.platters_mut().spoil(Lbn::new(1_000), Cure::Write);
    let then = rig.now.clone();
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
    (0..40).for_each(|at| rig.write(range(at * 100, 16)));
    rig.settle();
    close_all(&mut rig);
    let bad = [77, 79, 4_000];
    bad.iter().for_each(|lbn| rig.volume.platters_mut().spoil(Lbn::new(*lbn), Cure::None));
    let id = rig.start(restore_task(IMAGE));
    assert_eq!(rig.run(id), TaskState::Failed);
    let task = rig.task(id);
    let reason = task.reason.unwrap();
    assert!(reason.starts_with("3 sectors could not be written; "), "{reason}");
    assert_eq!(task.bad_lbns, [77, 79, 1_000, 4_000]);
    assert!(rig.call(|manager, _| manager.is_taken()).is_some(), "it was closed after damage");
    let medium = rig.medium();
    for (lbn, sector) in medium.chunks(SECTOR).enumerate().filter(|(lbn, _)| *lbn != 1_000) {
        let here = lbn * SECTOR..(lbn + 1) * SECTOR;
        assert!(bad.contains(&(lbn as u64)) || *sector == then[here], "LBN {lbn}");
    }
}

/// A block of the first image that could not be written is still to be written after a kill. It would overwrite the block
/// of the difference at the same place, if that were written already.
#[test]
fn blocks_of_a_difference_wait_until_every_block_of_the_image_before_is_written() {
    let mut rig = Rig::new();
    let chain = ["/backups/full", "/backups/one"];
    for (at, image) in chain.into_iter().enumerate() {
        let id = rig.start(difference(image, &chain[..at]));
        assert_eq!(rig.run(id), TaskState::Done);
        (0..300).for_each(|block| rig.write(range(block * 16, 16)));
        rig.settle();
    }
    let (first, both) = (stacked(&rig, &chain[..1]), stacked(&rig, &chain));
    let bad = 101 * SECTOR..102 * SECTOR;
    rig.volume.platters_mut().spoil(Lbn::new(101), Cure::None);
    let from = chain.iter().map(Into::into).collect();
    let id = rig.start(TaskSpec { from, ..TaskSpec::new(TaskKind::Restore) });
    while !rig.task(id).state.is_over() {
        rig.step();
        let medium = rig.medium();
        if medium[..bad.start] == first[..bad.start] && medium[bad.end..] == first[bad.end..] {
            // All other sectors of the first image are written. The next write to this sector does not fail.
            rig.volume.platters_mut().spoil(Lbn::new(101), Cure::Write);
        }
        let beside = bad.end..bad.end + SECTOR;
        assert!(medium[beside.clone()] != both[beside], "the difference is written");
    }
    let task = rig.task(id);
    let reason = task.reason.unwrap_or_default();
    assert!(
        task.state == TaskState::Failed && reason.starts_with("1 sectors could not be written; "),
        "{reason}"
    );
}

#[test]
fn a_restore_of_less_than_the_disk_leaves_it_closed() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
    close_all(&mut rig);
    // An image that has only the first ten blocks of the disk.
    let whole = rig.files.get(IMAGE).unwrap();
    let mut header = header(&mut whole.as_slice()).unwrap();
    let block = vec![1; header.block_bytes()];
    (header.shape.blocks, header.chunks) = (10, 10);
    let file = Files::open(&rig.files, Path::new("/backups/part"), How::Make).unwrap();
    let mut part = ImageWriter::new(header, FileSink::new(file, 0));
    (0..10).for_each(|at| part.put(at, &block, &[]));
    part.finish();
    assert!(part.flush().unwrap());
    for (path, opens) in [("/backups/part", false), (IMAGE, true)] {
        let id = rig.start(restore_task(path));
        assert_eq!(rig.run(id), TaskState::Done);
        assert_eq!(rig.call(|manager, _| manager.is_taken()).is_none(), opens, "{path}");
    }
}

#[test]
fn no_task_that_writes_to_the_disk_begins_on_one_that_is_read_only() {
    let mut rig = Rig::new();
    rig.call(|manager, _| manager.set_read_only());
    for spec in
        [restore_task(IMAGE), TaskSpec { plan: Some("/p".into()), ..TaskSpec::new(TaskKind::Reorganize) }]
    {
        let refused = rig.call(|manager, _| manager.start(spec)).unwrap_err().to_string();
        assert!(refused.contains("the task writes to the disk, which is read_only"), "{refused}");
    }
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
}

/// A daemon that is stopped takes no answers, so the stop does not count as silence of the state directory.
#[test]
fn a_backup_outlives_a_stop_of_the_daemon() {
    let (mut rig, id, then) = keeping();
    rig.run_for(Duration::from_secs(1));
    let (later, harm) = (rig.volume.now() + Duration::from_secs(60), rig.volume.core().harm());
    rig.call(|manager, s| manager.tick(s, later, 1_000_000, harm));
    assert_eq!(rig.task(id).state, TaskState::Running, "{:?}", rig.task(id));
    rig.hangs.clear();
    rig.serve();
    assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
    rig.settle();
    assert!(restored(&rig) == then && rig.now != then);
}

/// The kept blocks of a cancelled backup are not removed, and its end is not in the journal, so writes must wait. The
/// daemon's stop for a minute does not count as waiting.
#[test]
fn no_write_goes_because_the_daemon_was_stopped_before_the_end_of_a_backup_was_known() {
    let (mut rig, id, _) = keeping();
    rig.hangs = vec![FileQueue::Journal, FileQueue::Kept(id)];
    rig.call(|manager, s| manager.cancel(s, id)).unwrap();
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.outstanding(), 1);
    let (later, harm) = (rig.volume.now() + Duration::from_secs(60), rig.volume.core().harm());
    rig.call(|manager, s| manager.tick(s, later, 1_000_000, harm));
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.outstanding(), 1);
    rig.hangs.clear();
    rig.settle();
}
