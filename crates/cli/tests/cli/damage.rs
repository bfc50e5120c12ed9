//! A daemon whose state directory is damaged while it is down, and the operator's remedies.

use crate::crash::{Asked, Client};
use crate::support::run_with;
use crate::tasks::TaskDaemon;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("freeblock-cli-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns whether a client is let in.
fn is_let_in(directory: &Path) -> bool {
    let mut socket = UnixStream::connect(directory.join("nbd")).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    socket.read_exact(&mut [0; 10]).is_ok()
}

fn wait_for(daemon: &TaskDaemon, text: &str) -> String {
    for _ in 0..400 {
        let said = daemon.says(&["tasks"]);
        if said.contains(text) {
            return said;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("no {text:?} in\n{}", daemon.says(&["tasks"]));
}

#[test]
fn a_damaged_journal_stops_the_tasks_and_opens_nothing_until_an_operator_decides() {
    let directory = directory("journal-damage");
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    daemon.says(&["scrub", "--sectors", "64", "--wait"]);
    // The restore waits for its image, and keeps the disk closed to clients meanwhile.
    let image = directory.join("image").display().to_string();
    daemon.says(&["restore", &image]);
    wait_for(&daemon, "paused");
    assert!(!is_let_in(&directory));
    daemon.kill();
    drop(daemon);
    let journal = directory.join("state/d0/tasks.journal");
    let state = directory.join("state").display().to_string();
    let good = std::fs::read(&journal).unwrap();
    let end = std::fs::read(directory.join("state/d0/tasks.journal.end")).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        Some(bytes)
    };
    let cases = [flipped(40), flipped(good.len() / 2), flipped(good.len() - 3), Some(Vec::new()), None];
    for bytes in cases {
        match &bytes {
            Some(bytes) => std::fs::write(&journal, bytes).unwrap(),
            None => std::fs::remove_file(&journal).unwrap(),
        }
        let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
        assert!(!is_let_in(&directory), "a client may write where the restore will");
        let refused = daemon.run(&["scrub"]);
        let refused = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.contains("the tasks of this disk are stopped"), "{refused}");
        let said = daemon.says(&["status"]);
        assert!(said.contains("`freeblock repair`"), "{said}");
        daemon.kill();
        let log = daemon.log();
        assert!(log.contains("ERROR") && log.contains("the tasks of this disk are stopped"), "{log}");
        drop(daemon);
        let shown = run_with(&["repair", "--state", &state]);
        assert_eq!(shown.code, Some(1), "{}", shown.out);
        assert!(shown.out.contains("tasks.journal ") && shown.out.contains("DAMAGED"), "{}", shown.out);
        // Restore the former state for the next case.
        std::fs::remove_file(directory.join("state/d0/damaged")).unwrap();
        std::fs::write(&journal, &good).unwrap();
        std::fs::write(directory.join("state/d0/tasks.journal.end"), &end).unwrap();
    }
    std::fs::write(&journal, flipped(good.len() / 2).unwrap()).unwrap();
    let repaired = run_with(&["repair", "--state", &state, "--disk", "d0", "--give-up"]).worked();
    assert!(repaired.contains("may read and not write"), "{repaired}");
    assert_eq!(
        std::fs::read(journal.with_extension("journal.damaged")).unwrap(),
        flipped(good.len() / 2).unwrap()
    );
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    assert!(!is_let_in(&directory), "the export stays closed");
    let said = daemon.says(&["scrub", "--sectors", "64", "--wait"]);
    assert!(said.starts_with("scrub 3 of d0 is done"), "no number is used again: {said}");
    daemon.kill();
    drop(daemon);
    run_with(&["repair", "--state", &state, "--disk", "d0", "--open"]).worked();
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    assert!(is_let_in(&directory));
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_disk_that_was_extended_is_served_and_its_tasks_wait_for_an_operator() {
    let directory = directory("extended");
    let disk = directory.join("raw");
    let file = std::fs::File::create_new(&disk).unwrap();
    file.set_len(16 << 20).unwrap();
    let start = || TaskDaemon::with(&directory, &disk.display().to_string());
    let Some(mut daemon) = start() else { return };
    daemon.says(&["restore", &directory.join("image").display().to_string()]);
    wait_for(&daemon, "paused");
    daemon.kill();
    drop(daemon);
    file.set_len(17 << 20).unwrap();
    let Some(mut daemon) = start() else { return };
    assert!(!is_let_in(&directory), "a client may write where the restore will");
    let said = daemon.says(&["status"]);
    let why =
        "tasks [1] began on a disk of 32768 sectors of 512 bytes, and it has 34816 sectors of 512 bytes now";
    assert!(said.contains(why), "{said}");
    daemon.kill();
    drop(daemon);
    let state = directory.join("state").display().to_string();
    let shown = run_with(&["repair", "--state", &state]);
    assert_eq!(shown.code, Some(1), "{}", shown.out);
    let (damage, way_on) = (format!("damage: {why}"), "to go on: `freeblock repair");
    assert!(shown.out.contains(&damage) && shown.out.contains(way_on), "{}", shown.out);
    run_with(&["repair", "--state", &state, "--disk", "d0", "--give-up"]).worked();
    let Some(mut daemon) = start() else { return };
    assert!(!is_let_in(&directory), "the export stays closed");
    let said = daemon.says(&["scrub", "--sectors", "64", "--wait"]);
    assert!(said.starts_with("scrub 2 of d0 is done"), "{said}");
    daemon.kill();
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn the_state_of_a_disk_that_no_configuration_lists_is_named_in_the_log() {
    let directory = directory("unlisted");
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    let image = directory.join("image").display().to_string();
    daemon.says(&["restore", &image]);
    wait_for(&daemon, "paused");
    daemon.kill();
    drop(daemon);
    // The state directory then looks as if the disk had been called `before`.
    std::fs::rename(directory.join("state/d0"), directory.join("state/before")).unwrap();
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    daemon.kill();
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("no disk of the configuration has this name"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("ERROR") && line.contains("state/before"), "{line}");
    assert!(line.contains("tasks [1] are not over; give the disk its name before again"), "{line}");
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_backup_with_damaged_kept_blocks_fails() {
    let directory = directory("kept-damage");
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    let image = directory.join("image").display().to_string();
    daemon.says(&["backup", &image]);
    daemon.says(&["pause", "1"]);
    let mut client = Client::open(&directory.join("nbd").display().to_string());
    client.ask(Asked::Write { lbn: 3_000, sectors: 8, stamp: 7, fua: true });
    assert!(client.answer().is_some());
    daemon.kill();
    drop((client, daemon));
    // No other user than the daemon's may access its files.
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = directory.join("state/d0");
    assert_eq!((mode(&state), mode(&directory.join("state"))), (0o700, 0o700));
    let files: Vec<PathBuf> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files.iter().chain([&directory.join("image"), &directory.join("disk")]) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    let kept = state.join("task-1.kept");
    let good = std::fs::read(&kept).unwrap();
    assert!(good.len() > 4_096, "a block was kept");
    std::fs::write(&kept, &good[..good.len() / 2]).unwrap();
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    let said = wait_for(&daemon, "failed");
    assert!(said.contains("task-1.kept") && said.contains("it cannot be completed"), "{said}");
    assert!(state.join("task-1.kept.damaged").exists());
    // Other tasks can still run.
    assert!(daemon.says(&["scrub", "--sectors", "64", "--wait"]).starts_with("scrub 2 of d0 is done"));
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn two_daemons_do_not_share_a_state_directory_and_repair_waits_for_the_end_of_one() {
    let directory = directory("two");
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    let state = directory.join("state").display().to_string();
    run_with(&["repair", "--state", &state, "--disk", "d0"]).complained(1, &["another process uses it"]);
    let listen = format!("unix:{}", directory.join("other").display());
    let disk = format!("d0={}", directory.join("other.disk").display());
    std::fs::write(directory.join("other.disk"), [0; 1 << 16]).unwrap();
    run_with(&["serve", "--disk", &disk, "--listen", &listen, "--state", &state])
        .complained(1, &["another process uses it", "a state directory of its own"]);
    drop(daemon);
    let shown = run_with(&["repair", "--state", &state, "--disk", "d0", "--json"]).json();
    assert_eq!(shown["damaged"], false);
    run_with(&["repair", "--state", &state, "--disk", "d1"])
        .complained(1, &["no state directory of a disk is there"]);
    std::fs::remove_dir_all(&directory).unwrap();
}
