//! Scrubs with checksums: a block that changed without a write (rot) is reported, and a block that was written is not.

use super::images::backup;
use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use super::tasks::{access, busy};
use crate::file_system::{Files, How, Lock};
use crate::manager::ManagerError;
use crate::manager::status::TaskStatus;
use crate::task::file_request::FileQueue;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::{Content, TaskState};
use std::path::Path;
use units::{Duration, Lbn};
use workload::random::Stream;

const STORE: &str = "/sums/disk.sums";
const BLOCK: u64 = 8;

fn spec() -> TaskSpec {
    TaskSpec { block_sectors: Some(BLOCK), checksums: Some(STORE.into()), ..TaskSpec::new(TaskKind::Scrub) }
}

fn anew() -> TaskSpec {
    TaskSpec { force: true, ..spec() }
}

/// Runs an undisturbed scrub of the whole disk.
fn pass(rig: &mut Rig) -> Content {
    pass_of(rig, spec())
}

fn pass_of(rig: &mut Rig, spec: TaskSpec) -> Content {
    let id = rig.start(spec);
    assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
    let task = rig.task(id);
    assert_eq!((task.done, task.bad_lbns), (task.blocks, vec![]));
    task.checksums.unwrap()
}

/// Runs a task that has to fail, and returns the reason.
fn failed(rig: &mut Rig, spec: TaskSpec) -> String {
    let id = rig.start(spec);
    assert_eq!(rig.run(id), TaskState::Failed);
    rig.task(id).reason.unwrap()
}

/// Changes a byte on the medium without a write.
fn rot(rig: &mut Rig, lbn: u64) {
    let mut sector = vec![0; SECTOR];
    let medium = rig.volume.platters_mut().medium_mut();
    medium.read(range(lbn, 1), &mut sector).unwrap();
    sector[100] ^= 4;
    medium.write(range(lbn, 1), &sector).unwrap();
}

fn blocks(rig: &Rig) -> u64 {
    ((rig.now.len() / SECTOR) as u64).div_ceil(BLOCK)
}

fn content(task: &TaskStatus) -> &Content {
    task.checksums.as_ref().unwrap()
}

#[test]
fn the_first_pass_records_and_later_ones_report_rot() {
    let mut rig = Rig::new();
    let all = blocks(&rig);
    assert_eq!(pass(&mut rig), Content { recorded: all, ..Content::default() });
    assert_eq!(pass(&mut rig), Content { verified: all, ..Content::default() });
    for lbn in [17, 1_000, 1_003] {
        rot(&mut rig, lbn);
    }
    let wrong = Content { verified: all - 2, wrong: vec![16, 1_000], ..Content::default() };
    let mut found = pass(&mut rig);
    found.wrong.sort_unstable();
    assert_eq!(found, wrong);
    // A later pass still reports the rot, also after a restart.
    let mut rig = rig.crash(None);
    found = pass(&mut rig);
    found.wrong.sort_unstable();
    assert_eq!(found, wrong);
    // A write to a rotten block repairs it.
    rig.write(range(16, 1));
    rig.write(range(1_000, 8));
    rig.settle();
    assert_eq!(pass(&mut rig), Content { verified: all - 2, recorded: 2, ..Content::default() });
}

#[test]
fn a_part_of_the_disk_has_its_place_in_the_store() {
    let mut rig = Rig::new();
    let part = |first, sectors| TaskSpec { first_lbn: Some(first), sectors: Some(sectors), ..spec() };
    assert_eq!(pass_of(&mut rig, part(160, 80)).recorded, 10);
    assert_eq!(pass(&mut rig).verified, 10);
    rot(&mut rig, 200);
    assert_eq!(pass_of(&mut rig, part(160, 80)).wrong, [200]);
    let refused = rig.call(|manager, _| manager.start(part(161, 80))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "first_lbn: 161 with checksums; give a multiple of 8, the sectors in a block"
    );
    let refused = rig.call(|manager, _| manager.start(part(160, 81))).unwrap_err();
    assert!(refused.to_string().starts_with("sectors: 81 with checksums"), "{refused}");
    let force = TaskSpec { force: true, ..TaskSpec::new(TaskKind::Scrub) };
    assert!(rig.call(|manager, _| manager.start(force)).is_err());
}

/// Clients write before, during and after each pass; the power fails, or the daemon is killed. Blocks that clients
/// wrote get new sums and are never reported, and rot is found.
#[test]
fn nothing_that_was_written_is_ever_reported_whatever_crashes() {
    let (mut verified, mut recorded, mut found) = (0, 0, 0);
    for seed in 0..12 {
        let mut chance = Stream::new(seed, "sums");
        let mut rig = Rig::new();
        rig.caches = true;
        if seed % 3 > 0 {
            pass(&mut rig);
        }
        let mut id = rig.start(spec());
        for _ in 0..6 {
            rig.pace = 1 + below(&mut chance, 4) as usize;
            for _ in 0..below(&mut chance, 600) {
                if rig.outstanding() < 4 {
                    access(&mut rig, &mut chance);
                }
                rig.step();
            }
            assert!(content(&rig.task(id)).wrong.is_empty(), "seed {seed}: {:?}", rig.task(id));
            if below(&mut chance, 3) > 0 {
                let power = below(&mut chance, 2) == 0;
                rig = rig.crash(power.then_some(&mut chance));
                assert_ne!(rig.task(id).state, TaskState::Failed, "seed {seed}: {:?}", rig.task(id));
            }
            if rig.task(id).state.is_over() {
                verified += content(&rig.task(id)).verified;
                id = rig.start(spec());
            }
        }
        rig.pace = usize::MAX;
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "seed {seed}: {:?}", rig.task(id));
        assert!(content(&rig.task(id)).wrong.is_empty(), "seed {seed}: {:?}", rig.task(id));
        rig.settle();
        let all = blocks(&rig);
        let quiet = pass(&mut rig);
        assert_eq!((quiet.wrong.as_slice(), quiet.recorded + quiet.verified), (&[][..], all), "seed {seed}");
        recorded += quiet.recorded;
        let lbn = below(&mut chance, (rig.now.len() / SECTOR) as u64);
        rot(&mut rig, lbn);
        rig = rig.crash(None);
        let rotten = pass(&mut rig);
        assert_eq!(rotten.wrong, [lbn / BLOCK * BLOCK], "seed {seed}");
        assert_eq!(rotten.recorded, 0, "seed {seed}");
        found += 1;
        assert!(rig.medium() != rig.now, "the rot is there");
    }
    assert!(verified > 0 && recorded > 0 && found == 12, "{verified}, {recorded}: the test tests nothing");
}

/// Tasks write to the disk, too, and not only clients.
#[test]
fn blocks_written_by_a_restore_are_not_reported() {
    let mut rig = Rig::new();
    let id = rig.start(backup());
    assert_eq!(rig.run(id), TaskState::Done);
    for at in 0..20 {
        rig.write(range(at * 100, 16));
    }
    rig.settle();
    pass(&mut rig);
    let image = backup().to.unwrap();
    let restore = rig.start(TaskSpec { from: vec![image], ..TaskSpec::new(TaskKind::Restore) });
    // A scrub runs beside the restore.
    let scrub = rig.start(spec());
    assert_eq!(rig.run(restore), TaskState::Done, "{:?}", rig.task(restore));
    assert_eq!(rig.run(scrub), TaskState::Done);
    assert_eq!(content(&rig.task(scrub)).wrong, [0; 0]);
    let quiet = pass(&mut rig);
    assert_eq!((quiet.wrong.as_slice(), quiet.recorded + quiet.verified), (&[][..], blocks(&rig)));
}

#[test]
fn a_store_that_was_away_while_the_disk_was_written_is_not_believed() {
    let mut rig = Rig::new();
    pass(&mut rig);
    rig.files.set_gone("/sums", true);
    rig = rig.crash(None);
    rig.run_for(Duration::from_secs(1));
    rig.write(range(160, 8));
    rig.settle();
    rig.files.set_gone("/sums", false);
    rig = rig.crash(None);
    let why = failed(&mut rig, spec());
    assert!(why.starts_with("/sums/disk.sums: the checksum store is not the one"), "{why}");
    assert!(why.ends_with("say force for that"), "{why}");
    let all = blocks(&rig);
    assert_eq!(pass_of(&mut rig, anew()).recorded, all);
    assert_eq!(pass(&mut rig).verified, all);
}

#[test]
fn a_store_that_fails_delays_no_request_and_is_not_trusted_again() {
    for state_too in [false, true] {
        let mut rig = Rig::new();
        pass(&mut rig);
        let id = rig.start(spec());
        rig.run_for(Duration::from_millis(300));
        rig.files.set_gone("/sums", true);
        rig.files.set_gone("/state", state_too);
        rig.write(range(160, 8));
        rig.settle();
        rig.run_for(Duration::from_secs(2));
        rig.files.set_gone("/state", false);
        rig.run_for(Duration::from_secs(2));
        let task = rig.task(id);
        assert_eq!(task.state, TaskState::Failed);
        let why = task.reason.unwrap();
        assert!(why.starts_with("the checksum store has failed"), "{why}");
        rig.files.set_gone("/sums", false);
        let why = failed(&mut rig, spec());
        assert!(why.contains("its sums may be old"), "{why}");
    }
}

#[test]
fn a_file_that_is_no_store_or_damaged_is_refused_by_name() {
    let mut rig = Rig::new();
    rig.files.put(STORE, &[b'x'; 5_000]);
    let why = failed(&mut rig, spec());
    assert!(why.starts_with("/sums/disk.sums: not a checksum store"), "{why}");
    assert!(failed(&mut rig, anew()).contains("not a checksum store"), "another program's file stays");
    assert_eq!(rig.files.get(STORE).unwrap(), [b'x'; 5_000]);

    let good = TaskSpec { checksums: Some("/sums/good".into()), ..spec() };
    pass_of(&mut rig, good.clone());
    let why = failed(&mut rig, spec());
    assert!(why.contains("the checksums of this disk are in /sums/good; name that file"), "{why}");
    let other = TaskSpec { block_sectors: Some(16), ..good.clone() };
    assert!(failed(&mut rig, other).contains("in blocks of 8"), "another block size");
    let own = TaskSpec { checksums: Some("/disk".into()), ..anew() };
    assert!(failed(&mut rig, own).contains("the disk itself"));
    // The start of a scrub with force has given up the disk's store, although that scrub failed.
    assert!(failed(&mut rig, good.clone()).contains("its sums may be old"));
    pass_of(&mut rig, TaskSpec { force: true, ..good.clone() });

    let mut bytes = rig.files.get("/sums/good").unwrap();
    bytes[20] ^= 1;
    rig.files.put("/sums/good", &bytes);
    rig = rig.crash(None);
    let why = failed(&mut rig, good.clone());
    assert!(why.starts_with("/sums/good: the checksum store's first page is damaged"), "{why}");
    assert_eq!(pass_of(&mut rig, TaskSpec { force: true, ..good.clone() }).recorded, blocks(&rig));
    // A damaged page loses only its own sums.
    let mut bytes = rig.files.get("/sums/good").unwrap();
    bytes[4_096 + 20] ^= 1;
    rig.files.put("/sums/good", &bytes);
    rig = rig.crash(None);
    let found = pass_of(&mut rig, good);
    assert_eq!((found.wrong.len(), found.recorded), (0, blocks(&rig).min(992)));
}

#[test]
fn a_second_scrub_is_refused_while_one_with_checksums_runs() {
    let mut rig = Rig::new();
    rig.volume.platters_mut().spoil(Lbn::new(77), sim::Cure::None);
    let id = rig.start(spec());
    let refused = rig.call(|manager, _| manager.start(spec())).unwrap_err();
    assert!(
        matches!(&refused, ManagerError::Busy(why) if why.starts_with("scrub 1 with checksums is")),
        "{refused}"
    );
    let plain = || TaskSpec { block_sectors: Some(BLOCK), ..TaskSpec::new(TaskKind::Scrub) };
    let refused = rig.call(|manager, _| manager.start(plain())).unwrap_err();
    assert!(
        matches!(&refused, ManagerError::Busy(why) if why.starts_with("scrub 1 of LBNs 0 to ")),
        "{refused}"
    );
    assert_eq!(rig.run(id), TaskState::Done);
    let plain = rig.start(plain());
    assert_eq!(rig.run(plain), TaskState::Done);
    let task = rig.task(id);
    assert_eq!((task.bad_lbns.as_slice(), content(&task).recorded), (&[77][..], blocks(&rig) - 1));
}

/// The store's file system hangs, as it does if it is on the disk whose writes wait for the store.
#[test]
fn a_store_that_does_not_answer_holds_no_write_for_ever() {
    for journal_too in [false, true] {
        let mut rig = Rig::new();
        pass(&mut rig);
        let id = rig.start(spec());
        rig.run_for(Duration::from_millis(300));
        rig.hangs = vec![FileQueue::Sums];
        if journal_too {
            rig.hangs.push(FileQueue::Journal);
        }
        rig.write(range(160, 8));
        rig.run_for(Duration::from_secs(25));
        assert_eq!(rig.outstanding(), 1, "its sum is not forgotten");
        rig.run_for(Duration::from_secs(if journal_too { 40 } else { 10 }));
        assert_eq!(rig.outstanding(), 0);
        let task = rig.task(id);
        assert_eq!(task.state, TaskState::Failed);
        let why = task.reason.unwrap();
        assert!(why.starts_with("/sums/disk.sums: the checksum store has not answered for 30 s"), "{why}");
        rig.hangs.clear();
        rig.run_for(Duration::from_secs(1));
        let why = failed(&mut rig, spec());
        assert!(why.contains("its sums may be old"), "{why}");
    }
}

/// Clients write during a long flush, and a power cut before the next flush undoes these writes. A sum of the new
/// content, recorded at the end of the first flush, would not match the old content.
#[test]
fn sums_of_what_was_written_during_a_flush_are_not_recorded_before_the_next_one() {
    for seed in 0..24 {
        let mut chance = Stream::new(seed, "slow flushes");
        let mut rig = Rig::new();
        (rig.caches, rig.flush_steps) = (true, 200);
        let id = rig.start(spec());
        while !rig.is_flushing() {
            rig.step();
        }
        for _ in 0..3 {
            rig.write(range(below(&mut chance, 4_000), 400));
        }
        while rig.is_flushing() {
            rig.step();
        }
        // The sums that this flush permits are recorded, and the next flush has not ended.
        for _ in 0..below(&mut chance, 10) {
            rig.step();
        }
        rig = rig.crash(Some(&mut chance));
        assert_eq!(rig.run(id), TaskState::Done, "seed {seed}: {:?}", rig.task(id));
        assert_eq!(content(&rig.task(id)).wrong, [0; 0], "seed {seed}");
        assert_eq!(pass(&mut rig).wrong, [0; 0], "seed {seed}");
    }
}

#[test]
fn a_store_that_another_disk_has_open_is_not_recorded_anew() {
    let mut other = Rig::new();
    pass(&mut other);
    let store = other.files.get(STORE).unwrap();
    let mut rig = Rig::new();
    rig.files.put(STORE, &store);
    let held = rig.files.claim(Path::new(STORE), How::Write, Lock::Alone).unwrap();
    let why = failed(&mut rig, anew());
    assert!(why.starts_with("/sums/disk.sums: another task or program has the file open"), "{why}");
    assert!(rig.files.get(STORE).unwrap() == store);
    drop(held);
    pass_of(&mut rig, anew());
}

/// The store is given up while the journal cannot be written. If a restart trusted the store, clients' writes would be
/// reported as rot.
#[test]
fn a_store_that_was_given_up_while_the_state_directory_was_full_is_not_believed_after_a_kill() {
    for gone in [false, true] {
        let mut rig = Rig::new();
        pass(&mut rig);
        rig.files.limit("/state", Some(0));
        rig.files.limit("/sums", Some(0));
        rig.files.set_gone("/sums", gone);
        rig.write(range(160, 8));
        rig.settle();
        rig.files.limit("/state", None);
        rig.files.limit("/sums", None);
        rig.files.set_gone("/sums", false);
        let mut rig = rig.crash(None);
        rig.run_for(Duration::from_secs(2));
        // A store that is full but not gone has still forgotten the written block, because that needs no space.
        if gone {
            let why = failed(&mut rig, spec());
            assert!(why.contains("its sums may be old"), "{why}");
        } else {
            assert_eq!(pass(&mut rig).recorded, 1);
        }
    }
}

/// A daemon that is stopped takes no answers, so the stop does not count as silence of the store.
#[test]
fn a_store_outlives_a_stop_of_the_daemon() {
    let mut rig = Rig::new();
    pass(&mut rig);
    rig.hangs = vec![FileQueue::Sums];
    rig.write(range(160, 8));
    rig.run_for(Duration::from_secs(1));
    let (later, harm) = (rig.volume.now() + Duration::from_secs(60), rig.volume.core().harm());
    rig.call(|manager, s| manager.tick(s, later, 1_000_000, harm));
    assert_eq!(rig.outstanding(), 1);
    rig.hangs.clear();
    rig.settle();
    assert_eq!(pass(&mut rig).recorded, 1, "the other sums are believed");
}

/// The old store fails after a new store in the same file was requested, and the request to give up the old one is
/// executed last.
#[test]
fn a_store_that_is_given_up_late_does_not_take_the_next_one_with_it() {
    let mut rig = Rig::new();
    pass(&mut rig);
    rig.hangs = vec![FileQueue::Journal, FileQueue::Sums];
    let id = rig.start(anew());
    rig.files.set_gone("/sums", true);
    rig.write(range(160, 8));
    rig.hangs = vec![FileQueue::Journal];
    rig.serve();
    rig.files.set_gone("/sums", false);
    let waiting = rig.waiting_for(FileQueue::Journal);
    // Execute all requests but the last, which gives the old store up; then the new store is opened.
    (rig.hangs, rig.pace) = (vec![FileQueue::Sums], waiting - 1);
    rig.serve();
    (rig.hangs, rig.pace) = (vec![FileQueue::Journal], usize::MAX);
    rig.run_for(Duration::from_millis(300));
    rig.hangs.clear();
    assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
    rig.settle();
    let all = blocks(&rig);
    let mut rig = rig.crash(None);
    assert_eq!(pass(&mut rig).verified, all);
}
