//! Commands to a running daemon.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) struct TaskDaemon {
    child: Child,
    directory: PathBuf,
    log: Option<std::thread::JoinHandle<String>>,
}

impl TaskDaemon {
    /// Starts a daemon with an emulated disk; `None` if there is no io_uring.
    pub(crate) fn start(directory: &Path) -> Option<Self> {
        let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../drive/tests/data/small.toml");
        Self::with(directory, &format!("emulated:{profile},file={}", directory.join("disk").display()))
    }

    /// Starts a daemon with this device.
    pub(crate) fn with(directory: &Path, device: &str) -> Option<Self> {
        let at = |name: &str| directory.join(name).display().to_string();
        std::fs::create_dir_all(directory).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_freeblock"))
            .args(["serve", "--disk", &format!("d0={device}")])
            .args([
                "--listen",
                &format!("unix:{}", at("nbd")),
                "--state",
                &at("state"),
                "--control",
                &at("control"),
            ])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut log = String::new();
        let reported = lines.find(|line| {
            log.push_str(line);
            log.push('\n');
            line.starts_with("control at") || line.contains("io_uring")
        });
        let log = std::thread::spawn(move || lines.fold(log, |log, line| log + &line + "\n"));
        if reported.as_ref().is_none_or(|line| !line.starts_with("control at")) {
            let _ = child.wait();
            let said = log.join().unwrap();
            assert!(said.contains("io_uring"), "the daemon does not start: {said}");
            testing::missing("io_uring");
            return None;
        }
        Some(Self { child, directory: directory.to_owned(), log: Some(log) })
    }

    /// Returns the daemon's standard error, after the daemon has ended.
    pub(crate) fn log(&mut self) -> String {
        self.log.take().map(|log| log.join().unwrap()).unwrap_or_default()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let control = self.directory.join("control");
        Command::new(env!("CARGO_BIN_EXE_freeblock"))
            .args(args)
            .arg("--control")
            .arg(control)
            .output()
            .unwrap()
    }

    pub(crate) fn says(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until this number of tasks is done, or for `tries` twentieths of a second. No process starts for each try.
    fn wait_for(&self, done: usize, tries: u32) {
        let control = client::Control::new(self.directory.join("control"));
        for _ in 0..tries {
            let status = control.get("/v1/status").unwrap();
            let tasks = status["disks"][0]["tasks"].as_array().unwrap();
            if tasks.iter().filter(|task| task["state"] == "done").count() >= done {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for TaskDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon is killed while a scrub records checksums and clients write. A later scrub finds the bit that the test has
/// changed on the disk, and nothing else.
#[test]
fn a_scrub_with_checksums_reports_rot_through_kill_9() {
    use crate::crash::{Asked, Client};
    let directory = std::env::temp_dir().join(format!("freeblock-cli-sums-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    let sums = directory.join("sums");
    std::fs::create_dir_all(&sums).unwrap();
    let sums = sums.display().to_string();
    let scrub = ["scrub", "--block-sectors", "8", "--checksums", &sums];
    let write = |lbns: &[u64], stamp| {
        let mut client = Client::open(&directory.join("nbd").display().to_string());
        for &lbn in lbns {
            client.ask(Asked::Write { lbn, sectors: 3, stamp, fua: true });
            assert!(client.answer().is_some());
        }
    };
    write(&[5, 800, 2_000], 1);
    daemon.says(&scrub);
    for stamp in 2..5 {
        daemon.kill();
        drop(daemon);
        let Some(again) = TaskDaemon::start(&directory) else { return };
        daemon = again;
        write(&[800, 1_600], stamp);
    }
    daemon.wait_for(1, 400);
    // Blocks that were written while the first scrub ran have no checksums yet.
    let said = daemon.says(&[&scrub[..], &["--wait"]].concat());
    assert!(said.starts_with("scrub 2 of d0 is done\n"), "{said}");
    let said = daemon.says(&[&scrub[..], &["--wait"]].concat());
    assert!(said.contains("  checksums: 449 blocks verified, 0 recorded\n"), "{said}");
    daemon.kill();
    drop(daemon);
    // Change a bit of LBN 2,001.
    let disk = directory.join("disk");
    let mut bytes = std::fs::read(&disk).unwrap();
    bytes[2_001 * 512 + 77] ^= 16;
    std::fs::write(&disk, bytes).unwrap();
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    write(&[5, 1_600], 9);
    let output = daemon.run(&[&scrub[..], &["--wait"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("scrub 4 of d0 is done: 1 BLOCKS DIFFER FROM THEIR CHECKSUMS\n"), "{said}");
    assert!(said.contains("  differing from their checksums, blocks at: 2000\n"), "{said}");
    assert!(said.contains(" 2 recorded"), "{said}");
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn tasks_are_started_steered_and_outlive_a_kill() {
    let directory = std::env::temp_dir().join(format!("freeblock-cli-tasks-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    assert_eq!(daemon.says(&["tasks"]), "no tasks\n");
    assert!(daemon.says(&["scrub", "--block-sectors", "8", "--wait"]).starts_with("scrub 1 of d0 is done\n"));
    let image = directory.join("image").display().to_string();
    assert!(daemon.says(&["backup", &image, "--priority", "7"]).starts_with("backup 2 of d0 is "));
    daemon.says(&["pause", "2"]);
    daemon.says(&["priority", "2", "70"]);
    daemon.kill();
    drop(daemon);
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    let tasks = daemon.says(&["tasks"]);
    assert!(tasks.contains("scrub") && tasks.contains("backup") && tasks.contains("70"), "{tasks}");
    daemon.says(&["resume", "2"]);
    daemon.wait_for(2, 400);
    assert_eq!(daemon.says(&["tasks", "--json"]).matches("\"state\": \"done\"").count(), 2);
    let status = daemon.says(&["status"]);
    assert_eq!(status.matches(" done ").count(), 3, "a header and two tasks: {status}");
    assert!(daemon.says(&["restore", &image, "--wait"]).starts_with("restore 3 of d0 is done\n"));
    let again = daemon.run(&["backup", &image, "--wait"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(
        (again.status.code(), said.contains("something else is there; name a new file")),
        (Some(1), true),
        "{said}"
    );
    assert_eq!(daemon.run(&["pause", "9"]).status.code(), Some(1));
    assert_eq!(daemon.run(&["priority", "2", "0"]).status.code(), Some(2));
    drop(daemon);
    let _ = std::fs::remove_dir_all(&directory);
}

/// `RLIMIT_FSIZE`: the kernel sends SIGXFSZ, which ends a process that does not expect it.
#[test]
fn a_file_at_the_limit_of_its_size_stops_its_task_and_not_the_daemon() {
    if !crate::serve::has("prlimit") {
        return;
    }
    let directory = std::env::temp_dir().join(format!("freeblock-cli-fsize-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    let id = daemon.child.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &id, "--fsize=65536"]).status().unwrap();
    assert!(limited.success());
    let image = directory.join("image").display().to_string();
    daemon.says(&["backup", &image]);
    // The backup waits for room, and says why.
    while !daemon.says(&["tasks"]).contains("File too large") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(daemon.says(&["scrub", "--wait"]).starts_with("scrub 2 of d0 is done\n"));
    drop(daemon);
    let _ = std::fs::remove_dir_all(&directory);
}

/// A snapshot over NBD: the daemon is killed, clients overwrite the disk, and the snapshot stays what it was.
#[test]
fn a_snapshot_is_an_export_of_one_instant_through_kill_9() {
    use crate::crash::{Asked, Client};
    let directory = std::env::temp_dir().join(format!("freeblock-cli-snapshot-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    let socket = directory.join("nbd").display().to_string();
    let write = |lbns: std::ops::Range<u64>, stamp| {
        let mut client = Client::open(&socket);
        for lbn in lbns.step_by(50) {
            client.ask(Asked::Write { lbn, sectors: 50, stamp, fua: true });
            assert!(client.answer().is_some());
        }
    };
    write(0..3_000, 1);
    assert_eq!(daemon.says(&["snapshots"]), "no snapshots\n");
    assert!(Client::of_export(&socket, "d0@nightly").is_none());
    let said = daemon.says(&["snapshot", "d0", "--name", "nightly", "--expire", "1h"]);
    assert!(said.starts_with("snapshot 1 of d0 is running\n"), "{said}");
    let whole = |client: &mut Client| {
        (0..3_000).step_by(100).for_each(|lbn| assert_eq!(client.read(lbn, 100), [1; 100], "LBN {lbn}"));
    };
    for stamp in 2..4 {
        write(stamp * 100..1_000 + stamp * 500, stamp);
        whole(&mut Client::of_export(&socket, "d0@nightly").unwrap());
        daemon.kill();
        drop(daemon);
        let Some(again) = TaskDaemon::start(&directory) else { return };
        daemon = again;
    }
    let mut client = Client::of_export(&socket, "d0@nightly").unwrap();
    whole(&mut client);
    assert_eq!(Client::open(&socket).read(1_000, 2), [3, 3], "the disk itself has changed");
    if testing::needs_program("nbdcopy") {
        let copy = directory.join("copy");
        let uri = format!("nbd+unix:///d0@nightly?socket={socket}");
        let copied = Command::new("nbdcopy").args(["--requests=64", &uri]).arg(&copy).status().unwrap();
        assert!(copied.success());
        let bytes = std::fs::read(&copy).unwrap();
        assert!(bytes[..3_000 * 512].chunks(8).all(|eight| eight == 1u64.to_le_bytes()));
    }
    let listed = daemon.says(&["snapshots"]);
    assert!(
        listed.contains("d0@nightly") && listed.contains("running") && listed.contains(" min"),
        "{listed}"
    );
    let twice = daemon.run(&["snapshot", "d0", "--name", "nightly"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("has the name nightly"), "{twice:?}");
    assert_eq!(daemon.run(&["snapshot", "--name", "a/b"]).status.code(), Some(1));
    let said = daemon.says(&["snapshot", "d0", "--name", "nightly", "--remove"]);
    assert!(said.starts_with("snapshot 1 of d0 is cancelled\n"), "{said}");
    assert_eq!(client.refused(0), 5, "EIO");
    assert!(Client::of_export(&socket, "d0@nightly").is_none());
    assert!(daemon.says(&["snapshots", "--json"]).contains("\"cancelled\""));
    assert!(!directory.join("state/d0/task-1.kept").exists());
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Returns bytes that hold their own address.
fn pattern(sectors: u64) -> Vec<u8> {
    (0..sectors * 64).flat_map(u64::to_le_bytes).collect()
}

#[test]
fn blocks_change_places_and_differences_are_backed_up_over_kills() {
    let directory = std::env::temp_dir().join(format!("freeblock-cli-moves-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let at = |name: &str| directory.join(name);
    // The number of the drive's sectors: the daemon refuses a file of another size.
    const ALL: usize = 3_590;
    std::fs::write(at("disk"), pattern(ALL as u64)).unwrap();
    let Some(mut daemon) = TaskDaemon::start(&directory) else { return };
    let path = |name: &str| at(name).display().to_string();
    daemon.says(&["backup", &path("full"), "--wait"]);
    // The first and the second thousand sectors change places, in blocks that fit into every gap.
    std::fs::write(at("plan"), "freeblock plan 1\nblock 8\nmove 0 1000 1000\nmove 1000 0 1000\n").unwrap();
    assert!(daemon.says(&["reorganize", &path("plan")]).starts_with("reorganize 2 of d0 is "));
    // The reorganisation has done some of its work by then, more or less.
    std::thread::sleep(std::time::Duration::from_millis(300));
    daemon.kill();
    drop(daemon);
    let Some(daemon) = TaskDaemon::start(&directory) else { return };
    daemon.wait_for(2, 1_200);
    assert_eq!(daemon.says(&["tasks", "--json"]).matches("\"state\": \"done\"").count(), 2);
    let tasks = daemon.says(&["tasks"]);
    assert_eq!(tasks.matches(" done ").count(), 3, "a header and two tasks: {tasks}");
    let (before, after) = (pattern(ALL as u64), std::fs::read(at("disk")).unwrap());
    let part = |bytes: &[u8], first: usize, end: usize| bytes[first * 512..end * 512].to_vec();
    assert!(part(&after, 0, 1_000) == part(&before, 1_000, 2_000), "the bytes of LBN 1000 are not at 0");
    assert!(part(&after, 1_000, 2_000) == part(&before, 0, 1_000), "the bytes of LBN 0 are not at 1000");
    assert!(part(&after, 2_000, ALL) == part(&before, 2_000, ALL), "sectors outside the plan have changed");
    // Two thousand of the disk's sectors differ from the full image.
    daemon.says(&["backup", &path("one"), "--since", &path("full"), "--wait"]);
    let (full, one) =
        (std::fs::metadata(at("full")).unwrap().len(), std::fs::metadata(at("one")).unwrap().len());
    assert!(one > 2_000 * 512 && one < 2_100 * 512 + 4_096 && full > one, "{one} of {full}");
    daemon.says(&["restore", &path("full"), "--wait"]);
    assert!(part(&std::fs::read(at("disk")).unwrap(), 0, ALL) == before);
    daemon.says(&["restore", &path("full"), &path("one"), "--wait"]);
    assert!(std::fs::read(at("disk")).unwrap() == after);
    let wrong = daemon.run(&["reorganize", &path("full"), "--wait"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(1) && said.contains("the file is no text; give a plan"), "{said}");
    drop(daemon);
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn without_a_daemon_the_socket_is_named() {
    let run =
        Command::new(env!("CARGO_BIN_EXE_freeblock")).args(["status", "--control", "/no/such.sock"]).output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1));
    assert!(said.contains("/no/such.sock: ") && said.contains("is the daemon running"), "{said}");
}
