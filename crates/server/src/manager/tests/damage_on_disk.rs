//! Damage to files of the state directory on a real file system, and directories, pipes, devices or links in place of a
//! file: their lengths mean nothing, and opening some of them blocks.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

use super::damage::{kept, paused_restore, reorganisation, summed};
use super::rig::{Rig, STATE};
use crate::file_system::{File, Files, How, Machine};
use crate::files::workers::{OpenError, lock};
use crate::repair::{self, Choice, Report};
use crate::state::tests::faults::{Share, all_faults, damaged};
use crate::task::journal;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A directory that is removed at the end of the test.
struct DamageDirectory(PathBuf);

impl DamageDirectory {
    fn new(test: &str) -> Self {
        let room = std::env::temp_dir().join(format!("freeblock-damage-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&room);
        fs::create_dir_all(&room).unwrap();
        Self(room)
    }

    /// Copies the files of a state directory in memory to this directory.
    fn fill(&self, files: &dyn Files) -> Vec<String> {
        let names = files.list(Path::new(STATE)).unwrap();
        for name in &names {
            let mut file = files.open(&Path::new(STATE).join(name), How::Read).unwrap();
            fs::write(self.0.join(name), all(&mut *file)).unwrap();
        }
        names
    }

    fn report(&self) -> Report {
        let files = Machine::default();
        repair::report(&files, &self.0, &journal::read(&files, &self.0).unwrap()).unwrap()
    }
}

impl Drop for DamageDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn all(file: &mut dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_directory_with_tasks_of_a_disk_that_has_another_name_now_is_named() {
    let directory = DamageDirectory::new("names");
    let (rig, id, _) = paused_restore();
    let mut summed = Rig::new();
    let scrub = TaskSpec { checksums: Some("/sums".into()), ..TaskSpec::new(TaskKind::Scrub) };
    let scrub = summed.start(scrub);
    assert_eq!(summed.run(scrub), TaskState::Done);
    for (name, files) in [
        ("renamed", &rig.files),
        ("idle", &Rig::new().files),
        ("served", &rig.files),
        ("summed", &summed.files),
    ] {
        let within = DamageDirectory(directory.0.join(name));
        fs::create_dir(&within.0).unwrap();
        within.fill(files);
        std::mem::forget(within);
    }
    let unused = repair::unused(&directory.0, &["served"].into());
    let ids = [id - 1, id];
    let why =
        format!("tasks {ids:?} are not over; give the disk its name renamed again, or remove the directory");
    let sums = "the disk has checksums, and writes under another name are not noted in them; give the disk its name summed again, or \
                remove the directory";
    assert_eq!(unused, [(directory.0.join("renamed"), why), (directory.0.join("summed"), sums.to_owned())]);
}

/// Root repairs the state directory of a daemon that runs as another user: new files must belong to the daemon's user.
#[test]
fn all_files_that_a_repair_by_root_makes_are_the_daemons() {
    if !testing::needs("root", rustix::process::geteuid().is_root()) {
        return;
    }
    let (rig, _, _) = paused_restore();
    let directory = DamageDirectory::new("owner");
    let names = directory.fill(&rig.files);
    let mut journal = fs::read(directory.0.join("tasks.journal")).unwrap();
    journal[100] ^= 1;
    fs::write(directory.0.join("tasks.journal"), journal).unwrap();
    for path in names.iter().map(|name| directory.0.join(name)).chain([directory.0.clone()]) {
        chown(path, Some(54_321), Some(54_322)).unwrap();
    }
    repair::inspect(&directory.0).unwrap();
    let choice = Choice { give_up: true, ..Choice::default() };
    repair::mend(&directory.0, &choice, 1_700_000_000).unwrap();
    for entry in fs::read_dir(&directory.0).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (54_321, 54_322), "{:?}", entry.file_name());
    }
}

/// The kinds of files that may stand in the place of a regular file of the state directory.
const KINDS: [&str; 9] = [
    "a directory",
    "a directory with something in it",
    "a pipe",
    "a socket",
    "a device that never ends",
    "a link to nothing",
    "a link to itself",
    "a link to a directory",
    "a file of a tebibyte",
];

fn put(kind: &str, path: &Path) {
    match kind {
        "a directory" => fs::create_dir(path),
        "a directory with something in it" => fs::create_dir_all(path.join("more")),
        "a pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(io::Error::from),
        "a socket" => UnixListener::bind(path).map(drop),
        "a device that never ends" => symlink("/dev/zero", path),
        "a link to nothing" => symlink("nothing", path),
        "a link to itself" => symlink(path.file_name().unwrap(), path),
        "a link to a directory" => symlink(path.parent().unwrap(), path),
        "a file of a tebibyte" => fs::File::create(path).and_then(|file| file.set_len(1 << 40)),
        other => panic!("{other}"),
    }
    .unwrap_or_else(|error| panic!("{kind} at {}: {error}", path.display()));
}

fn take_away(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

#[test]
fn each_file_of_the_state_directory_may_be_another_kind_of_file_and_is_shown_as_damaged() {
    let room = DamageDirectory::new("kinds");
    let (restore, _, _) = paused_restore();
    let (backup, ..) = kept();
    let (moves, ..) = reorganisation();
    let (sums, _) = summed();
    let mut seen = 0;
    for rig in [restore, backup, moves, sums] {
        for name in room.fill(&rig.files) {
            assert!(!room.report().is_damaged(), "{:?}", room.report());
            let path = room.0.join(&name);
            let bytes = fs::read(&path).unwrap();
            for kind in KINDS {
                take_away(&path);
                put(kind, &path);
                assert!(room.report().is_damaged(), "{name} is {kind}, and repair says {:?}", room.report());
                let opened = Machine::default().open(&path, How::Read);
                let is_a_file = kind == "a file of a tebibyte";
                assert_eq!(opened.is_ok(), is_a_file, "{name} is {kind}");
                seen += 1;
            }
            take_away(&path);
            fs::write(&path, bytes).unwrap();
        }
        let _ = fs::remove_dir_all(&room.0);
        fs::create_dir_all(&room.0).unwrap();
    }
    assert!(seen >= 9 * 9, "{seen}");
}

/// Other parts of the daemon than the task manager write these files and check them on reading; repair checks their
/// kind.
#[test]
fn each_other_file_of_the_state_directory_is_shown_if_it_is_another_kind_of_file() {
    let room = DamageDirectory::new("others");
    let (rig, ..) = paused_restore();
    room.fill(&rig.files);
    for name in ["learnt", "learnt.new", "probe", "profile.toml", "task-1.new"] {
        let path = room.0.join(name);
        for kind in KINDS.iter().filter(|kind| **kind != "a file of a tebibyte") {
            put(kind, &path);
            let report = room.report();
            let shown = report.files.iter().find(|file| file.name == name);
            assert_eq!(shown.map(|file| file.sound), Some(Some(false)), "{name} is {kind}: {report:?}");
            take_away(&path);
        }
        fs::write(&path, b"any").unwrap();
        let report = room.report();
        assert!(!report.is_damaged(), "{report:?}");
        let unknown = |file: &repair::FileReport| file.standing.contains("no file of this version");
        assert!(!report.files.iter().any(unknown), "{report:?}");
    }
}

#[test]
fn a_marker_that_is_any_kind_of_file_stops_the_tasks() {
    let room = DamageDirectory::new("marker");
    let (rig, ..) = paused_restore();
    room.fill(&rig.files);
    let path = room.0.join("damaged");
    for kind in KINDS {
        put(kind, &path);
        let found = journal::open(&Machine::default(), &room.0).unwrap();
        assert!(found.damage.is_some_and(|damage| damage.closed.is_some()), "{kind}");
        assert!(room.report().is_damaged(), "{kind}");
        let choice = repair::Choice { give_up: true, ..repair::Choice::default() };
        let reported = repair::mend_with(&Machine::default(), &room.0, &choice, 1_700_000_000, 9).unwrap();
        assert!(!reported.is_damaged(), "{kind}: {reported:?}");
        assert!(journal::read(&Machine::default(), &room.0).unwrap().damage.is_none(), "{kind}");
        // A marker that could not be removed is put aside, and no longer counts.
        let left: Vec<_> = fs::read_dir(&room.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.iter()
            .filter(|path| path.display().to_string().contains(".damaged"))
            .for_each(|path| take_away(path));
        room.fill(&rig.files);
    }
}

#[test]
fn a_lock_that_is_another_kind_of_file_is_refused_by_name_and_nothing_waits_for_it() {
    let room = DamageDirectory::new("lock");
    let path = room.0.join("lock");
    for kind in KINDS {
        put(kind, &path);
        match lock(&room.0) {
            Err(OpenError::Directory(error)) => {
                assert!(error.to_string().contains("/lock: "), "{kind}: {error}")
            }
            Ok(_) => assert!(["a file of a tebibyte", "a link to nothing"].contains(&kind), "{kind}"),
            Err(other) => panic!("{kind}: {other}"),
        }
        take_away(&path);
    }
    for content in [&b""[..], b"anything"] {
        fs::write(&path, content).unwrap();
        assert!(lock(&room.0).is_ok());
    }
}

/// The report about each damage is the same on a real file system and on the simulated one of the other tests.
#[test]
fn damage_on_a_file_system_is_found_as_in_memory() {
    let room = DamageDirectory::new("as-in-memory");
    let (restore, ..) = paused_restore();
    let (backup, ..) = kept();
    let (moves, ..) = reorganisation();
    let (sums, _) = summed();
    for rig in [restore, backup, moves, sums] {
        for name in room.fill(&rig.files) {
            let (path, simulated) = (room.0.join(&name), format!("{STATE}/{name}"));
            let bytes = fs::read(&path).unwrap();
            for one in all_faults(&bytes, &[], Share::Some { short: 100, long: 2_000 }) {
                let Some(bytes) = damaged(&bytes, &one) else { continue };
                fs::write(&path, &bytes).unwrap();
                let files = rig.files.copy();
                files.put(&simulated, &bytes);
                let in_memory = journal::read(&files, Path::new(STATE)).unwrap();
                let in_memory = repair::report(&files, Path::new(STATE), &in_memory).unwrap();
                let here = room.report();
                let standing = |report: &Report, place: &str| {
                    let files = report
                        .files
                        .iter()
                        .map(|file| (file.name.clone(), file.sound, file.standing.replace(place, "")));
                    (files.collect::<Vec<_>>(), report.closed, report.used)
                };
                let place = room.0.display().to_string();
                assert_eq!(standing(&here, &place), standing(&in_memory, STATE), "{name} {one:?}");
            }
            fs::write(&path, bytes).unwrap();
        }
        let _ = fs::remove_dir_all(&room.0);
        fs::create_dir_all(&room.0).unwrap();
    }
}
