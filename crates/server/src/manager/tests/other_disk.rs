//! A disk that is another than the one with which tasks began: of another size, under another name, or behind another path.

use super::damage::{JOURNAL, paused_restore, read, summed};
use super::memory::MemoryFiles;
use super::rig::{self, Rig, STATE};
use crate::manager::TaskManager;
use crate::repair::{self, Choice, mend_with};
use crate::state::{Log, LogKind, Scan};
use crate::task::journal::{self, Journal};
use crate::task::spec::DiskFacts;
use crate::task::table::{Closed, Event, SumStore, Table, TaskState};
use std::path::Path;

/// Returns the table after a start of the task manager on this device with this number of sectors.
fn on(rig: &Rig, table: &Table, device: Option<&str>, sectors: u64) -> Result<Table, String> {
    let mut config = rig::manager_config(&rig.drive, 1 << 30, 7);
    config.disk.device = device.map(str::to_owned);
    config.disk.capacity = units::Sectors::new(sectors);
    TaskManager::open(config, Journal { table: table.clone(), damage: None })
        .map(|manager| manager.table.clone())
        .map_err(|error| error.to_string())
}

#[test]
fn tasks_of_a_disk_that_has_another_size_now_stop_and_keep_it_closed_until_an_operator_decides() {
    let (rig, ..) = paused_restore();
    let size = rig.drive.layout().capacity().get();
    let open = |files: &MemoryFiles, sectors| {
        let mut config = rig::manager_config(&rig.drive, 1 << 30, 7);
        config.disk.capacity = units::Sectors::new(sectors);
        let mut manager = TaskManager::open(config, read(files)).unwrap();
        if let Some(damage) = manager.damage() {
            journal::note(files, Path::new(STATE), damage);
        }
        manager
    };
    for sectors in [size - 8, size + 8] {
        let files = rig.files.copy();
        assert_eq!(open(&files, size).trouble(), None);
        let manager = open(&files, sectors);
        let why = format!(
            "tasks [2, 3] began on a disk of {size} sectors of 512 bytes, and it has {sectors} sectors of 512 bytes now"
        );
        assert!(manager.trouble().unwrap().contains(&why), "{:?}", manager.trouble());
        assert_eq!(manager.closed(), Some(Closed::Writes));
        // With the former size the tasks stay stopped, because clients may have written in the meantime.
        let manager = open(&files, size);
        assert!(manager.trouble().unwrap().contains(&why), "{:?}", manager.trouble());
        assert_eq!(manager.closed(), Some(Closed::Writes));
        let give_up = Choice { give_up: true, ..Choice::default() };
        mend_with(&files, Path::new(STATE), &give_up, 1_700_000_000, 5).unwrap();
        let manager = open(&files, sectors);
        assert_eq!((manager.trouble(), manager.closed()), (None, Some(Closed::Writes)));
        let states: Vec<_> = manager.table.iter().map(|(_, entry)| entry.state).collect();
        assert_eq!(states, [TaskState::Done, TaskState::Failed, TaskState::Failed]);
    }
}

#[test]
fn tasks_do_not_move_to_another_disk() {
    let (rig, ..) = paused_restore();
    let with = |table: &Table, device: Option<&str>, sectors: u64| on(&rig, table, device, sectors);
    let size = rig.drive.layout().capacity().get();
    let live = read(&rig.files).table;
    let idle = Rig::new();
    let idle = read(&idle.files).table;
    let (file, serial) = ("/disk.img (inode 7)", "SERIAL-1");
    for (before, now, sectors, moves, grows) in [
        (None, Some(file), size, true, true),
        (Some(file), Some(file), size, true, true),
        (Some(file), Some("/disk.img (inode 8)"), size, false, true),
        (Some(file), Some(serial), size, false, true),
        (Some(file), Some(file), size + 8, true, true),
        (Some(serial), Some(serial), size, true, true),
        (Some(serial), Some(serial), size + 8, true, true),
        (Some(serial), None, size, false, true),
        (Some(serial), Some("/dev/sda"), size, false, true),
        (Some(serial), Some("SERIAL-2"), size, false, false),
    ] {
        for (table, may) in [(&live, moves), (&idle, grows)] {
            let table = with(table, before, size).unwrap();
            let opened = with(&table, now, sectors);
            assert_eq!(opened.is_ok(), may, "{before:?} {now:?} {sectors}: {opened:?}");
            if let Err(why) = opened {
                assert!(why.starts_with("the tasks in tiny are of the disk "), "{why}");
            }
        }
    }
}

/// Returns the files of a state directory as if the disk had this serial number.
fn with_device(files: &MemoryFiles, device: &str) -> MemoryFiles {
    let (files, path) = (files.copy(), Path::new(JOURNAL));
    let mut table = read(&files).table;
    let (volume, shape) = (table.volume().unwrap(), table.shape().unwrap());
    table.apply(journal::first(volume, Some(device.into()), shape));
    let scan = Scan::read(&files, path, LogKind::Tasks, None, |_| true).unwrap().unwrap();
    let mut log = Log::resume(&files, path, LogKind::Tasks, scan).unwrap();
    log.replace(&files, &journal::encode(&table.events()), &journal::Note::of(&table).encode()).unwrap();
    files
}

#[test]
fn a_disk_that_clients_write_under_another_name_leaves_its_tasks_and_checksums() {
    let (sums, tasks) = (summed().0, paused_restore().0);
    let other = DiskFacts {
        name: "other".into(),
        device: Some("SERIAL-1".into()),
        ..rig::manager_config(&sums.drive, 1 << 30, 7).disk
    };
    for (device, read_only, leaves) in
        [("SERIAL-1", false, true), ("SERIAL-1", true, false), ("SERIAL-2", false, false)]
    {
        let other = DiskFacts { read_only, ..other.clone() };
        let leave = |files: &MemoryFiles| repair::leave_name(files, Path::new(STATE), &other);
        let files = with_device(&sums.files, device);
        let said = leave(&files);
        assert_eq!(said.is_some_and(|said| said.contains("under the name other")), leaves);
        assert_eq!(leave(&files), None, "it is said once");
        let mut rig = sums.again(files);
        rig.settle();
        assert_eq!(rig.call(|manager, _| manager.table.sums().is_none()), leaves, "{device} {read_only}");
        let files = with_device(&tasks.files, device);
        let said = leave(&files);
        assert_eq!(said.is_some_and(|said| said.contains("under the name other")), leaves);
        let damage = read(&files).damage;
        assert_eq!(damage.is_some(), leaves, "{device} {read_only}");
        let why = "the disk of tasks [2, 3] was served under the name other";
        assert!(
            damage.is_none_or(|damage| damage.why.starts_with(why) && damage.closed == Some(Closed::Writes))
        );
    }
}

#[test]
fn a_disk_that_clients_write_under_another_path_leaves_its_tasks() {
    let tasks = paused_restore().0;
    let disk = rig::manager_config(&tasks.drive, 1 << 30, 7).disk;
    for (before, now, leaves) in [
        ("/disk (inode 7)", "/link (inode 7)", true),
        // Another file has the name now.
        ("/disk (inode 7)", "/link (inode 8)", false),
        // The file may be on another file system, where another file has this inode number.
        ("/gone (inode 7)", "/link (inode 7)", false),
        ("/disk", "/link", true),
        ("/disk", "SERIAL-1", true),
        ("SERIAL-1", "/link", false),
    ] {
        let device = Some(now.to_owned());
        let other = DiskFacts { name: "other".into(), device, own: vec!["/disk".into()], ..disk.clone() };
        let said = repair::leave_name(&with_device(&tasks.files, before), Path::new(STATE), &other);
        assert_eq!(said.is_some(), leaves, "{before}, {now}");
    }
}

#[test]
fn the_checksums_of_another_disk_are_given_up() {
    let rig = Rig::new();
    let size = rig.drive.layout().capacity().get();
    let mut idle = read(&rig.files).table;
    idle.apply(Event::Sums { store: Some(SumStore { path: "/sums".into(), id: 5, block: 8 }) });
    let (file, serial) = ("/disk.img (inode 7)", "SERIAL-1");
    for (before, now, keeps) in [
        (None, Some(file), true),
        (Some(file), Some(file), true),
        (Some(file), Some("/disk.img (inode 8)"), false),
        (Some(file), Some("/other.img (inode 7)"), false),
        (Some(file), Some(serial), false),
        (Some(serial), Some(serial), true),
        // The device does not report its serial number this time.
        (Some(serial), Some("/dev/sda"), true),
    ] {
        let mut table = idle.clone();
        table.apply(journal::first(
            table.volume().unwrap(),
            before.map(str::to_owned),
            table.shape().unwrap(),
        ));
        let opened = on(&rig, &table, now, size).unwrap();
        assert_eq!(opened.sums().is_some(), keeps, "{before:?} {now:?}");
    }
}
