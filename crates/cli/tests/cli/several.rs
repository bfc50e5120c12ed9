//! One daemon with several disks: comparisons of them, and tasks of all.

use crate::support::run_with;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SECTOR: usize = 512;

/// A daemon whose disks are files.
struct FileDaemon {
    child: Child,
    directory: PathBuf,
    /// The daemon's log until it serves.
    log: String,
}

impl FileDaemon {
    /// Starts a daemon on the files `d0`, `d1` ... of a directory; `None` if there is no io_uring.
    fn start(directory: &Path, disks: usize, more: &str) -> Option<Self> {
        let names: Vec<String> = (0..disks).map(|disk| format!("d{disk}")).collect();
        let named: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
        Self::with(directory, &named, more)
    }

    /// Starts a daemon on disks of these names and files.
    fn with(directory: &Path, disks: &[(&str, &str)], more: &str) -> Option<Self> {
        let config = configured(directory, disks, "control", more);
        let mut child = Command::new(env!("CARGO_BIN_EXE_freeblock"))
            .args(["serve", "--config", &config])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut log = String::new();
        let begun = lines.any(|line| {
            log += &(line.clone() + "\n");
            line.starts_with("control at")
        });
        std::thread::spawn(move || lines.for_each(drop));
        if !begun {
            let _ = child.wait();
            assert!(log.contains("io_uring"), "the daemon does not start: {log}");
            testing::missing("io_uring");
            return None;
        }
        Some(Self { child, directory: directory.to_owned(), log })
    }

    fn run(&self, args: &[&str]) -> Output {
        let control = self.directory.join("control");
        let mut command = Command::new(env!("CARGO_BIN_EXE_freeblock"));
        command.args(args).arg("--control").arg(control).output().unwrap()
    }

    fn says(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn tasks(&self) -> Vec<Value> {
        let status = client::Control::new(self.directory.join("control")).get("/v1/status").unwrap();
        let disks = status["disks"].as_array().unwrap();
        disks.iter().flat_map(|disk| disk["tasks"].as_array().unwrap().clone()).collect()
    }

    /// Waits until all tasks are over.
    fn rest(&self) -> Vec<Value> {
        loop {
            let tasks = self.tasks();
            let over =
                |task: &Value| ["done", "failed", "cancelled"].contains(&task["state"].as_str().unwrap());
            if tasks.iter().all(over) {
                return tasks;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Writes a configuration with disks of these names and files; returns its path.
fn configured(directory: &Path, disks: &[(&str, &str)], control: &str, more: &str) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let mut config = format!("state = {:?}\ncontrol = {:?}\n{more}\n", at("state"), at(control));
    for (name, file) in disks {
        let (device, listen) = (at(file), at(&format!("{name}.sock")));
        writeln!(config, "[[disk]]\nname = {name:?}\ndevice = {device:?}\nlisten = [\"unix:{listen}\"]")
            .unwrap();
    }
    std::fs::write(directory.join("config"), config).unwrap();
    at("config")
}

impl Drop for FileDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("freeblock-cli-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..len.div_ceil(8)).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.take(len).collect()
}

fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { 0x1d }
}

/// RAID 6 on four files, with data from sector 8 on, in chunks of 32 sectors. The daemon is killed while it compares.
#[test]
fn a_comparison_names_what_differs_on_the_members_of_raid_6_through_kill_9() {
    let (directory, offset, chunk, stripes) = (directory("verify"), 8 * SECTOR, 32 * SECTOR, 512);
    let mut disks: Vec<Vec<u8>> = (0..4).map(|member| noise(offset + stripes * chunk, member + 1)).collect();
    for stripe in 0..stripes {
        let p = 3 - stripe % 4;
        let place = offset + stripe * chunk..offset + (stripe + 1) * chunk;
        for byte in place {
            let (first, second) = (disks[(p + 2) % 4][byte], disks[(p + 3) % 4][byte]);
            disks[p][byte] = first ^ second;
            disks[(p + 1) % 4][byte] = first ^ double(second);
        }
    }
    // Changes one sector of data, one of P and one of Q.
    let role = |part: usize| (0..4).find(|stripe| (3 - stripe + part) % 4 == 1).unwrap();
    let changed: Vec<usize> =
        [role(0) + 40, role(1) + 200, role(2) + 444].map(|stripe| 8 + stripe * 32 + 5).into();
    changed.iter().for_each(|lbn| disks[1][lbn * SECTOR + 100] ^= 16);
    let write = |disks: &[Vec<u8>]| {
        let files = disks.iter().enumerate();
        files.for_each(|(n, disk)| std::fs::write(directory.join(format!("d{n}")), disk).unwrap());
    };
    write(&disks);
    let Some(mut daemon) = FileDaemon::start(&directory, 4, "") else { return };
    let verify = ["verify", "d0", "d1", "d2", "d3", "--array", "raid6", "--chunk", "16k", "--offset", "8"];
    let said = daemon.says(&verify);
    assert!(said.starts_with("verify 1 of d0 is "), "{said}");
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        drop(daemon);
        let Some(again) = FileDaemon::start(&directory, 4, "") else { return };
        daemon = again;
    }
    let tasks = daemon.rest();
    let task = &tasks[0];
    assert_eq!(
        (&task["state"], &task["done"], &task["blocks"]),
        (&"done".into(), &512.into(), &512.into()),
        "{task}"
    );
    assert_eq!(task["differences"]["lbns"], serde_json::to_value(&changed).unwrap());

    // Compares again with --wait, and with the result as text. The comparison is a task of d0, which is not the first
    // member of the array.
    changed.iter().for_each(|lbn| disks[1][lbn * SECTOR + 100] ^= 16);
    drop(daemon);
    write(&disks);
    let Some(daemon) = FileDaemon::start(&directory, 4, "") else { return };
    let said = daemon.says(&[&verify[..], &["--wait"]].concat());
    assert!(said.starts_with("verify 2 of d0 is done\n"), "{said}");
    let output = daemon.run(&["verify", "d1", "d2", "--sectors", "8", "--wait"]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, complained) = (text(output.stdout), text(output.stderr));
    let expected = "verify 1 of d1 is done: 8 SECTORS DO NOT AGREE\n";
    assert!(
        said.starts_with(expected) && said.ends_with("agree at LBNs: 0, 1, 2, 3, 4, 5, 6, 7\n"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(complained.contains("verify 1 of d1: 8 SECTORS DO NOT AGREE"), "{complained}");
    let refused = |args: &[&str], expected: &str| {
        let output = daemon.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    refused(&["verify", "d0"], "members: 1; give 2 to 255");
    refused(&["snapshot", "--name", "q"], "`freeblock snapshot DISK --name q`");
    refused(&["snapshot", "d0", "--name", "q", "--expire", "0s"], "at least 1s");
    refused(&["verify", "d0", "d9"], "there is no disk \"d9\"");
    refused(&["verify", "d0", "d1", "--sectors", "99999999"], "sectors: 99999999 from LBN 0 on; give 1 to");
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_scrub_of_all_disks_tries_and_reports_each_disk() {
    let (directory, disks) = (directory("each"), 3);
    for disk in 0..disks {
        // The disks are so large that no scrub ends during the test.
        std::fs::File::create(directory.join(format!("d{disk}"))).unwrap().set_len(64 << 30).unwrap();
    }
    let Some(daemon) = FileDaemon::start(&directory, disks, "tasks_at_once = 9") else { return };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    daemon.says(&["scrub", "--disk", "d1"]);
    let output = daemon.run(&["scrub", "--disk", "all"]);
    assert_eq!(output.status.code(), Some(1));
    let (said, complained) = (text(output.stdout), text(output.stderr));
    for begun in ["scrub 1 of d0", "scrub 1 of d2"] {
        assert!(said.contains(begun), "{said}");
    }
    assert!(complained.contains("d1: ") && complained.contains("scrub 1 of LBNs 0 to"), "{complained}");
    let output = daemon.run(&["scrub", "--disk", "all", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["tasks"].as_array().unwrap().len(), 0, "{reported}");
    let refused: Vec<&str> =
        reported["errors"].as_array().unwrap().iter().map(|error| error["disk"].as_str().unwrap()).collect();
    assert_eq!(refused, ["d0", "d1", "d2"]);
    for disk in ["d0", "d1", "d2"] {
        daemon.says(&["cancel", "1", "--disk", disk]);
    }
    // A scrub that fails after it has begun does not hide the others.
    std::fs::File::options().write(true).open(directory.join("d1")).unwrap().set_len(0).unwrap();
    let output = daemon.run(&["scrub", "--disk", "all", "--sectors", "64", "--wait"]);
    let (said, complained) = (text(output.stdout), text(output.stderr));
    assert!(said.contains("scrub 2 of d0") && said.contains("scrub 2 of d2"), "{said}{complained}");
    for command in ["cancel", "pause", "resume"] {
        let output = daemon.run(&[command, "1", "--disk", "all"]);
        let complained = text(output.stderr);
        assert!(
            complained.contains("only scrub, status, tasks and snapshots take all disks"),
            "{complained}"
        );
        assert_eq!(output.status.code(), Some(2));
    }
    let output = daemon.run(&["backup", "/nowhere", "--disk", "all"]);
    assert!(text(output.stderr).contains("only scrub, status, tasks and snapshots take all disks"));
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Returns the list of a disk's tasks, once one is stopped, or paused because it waits for an image that is not there.
fn waiting(daemon: &FileDaemon, disk: &str) -> String {
    loop {
        let said = daemon.says(&["tasks", "--disk", disk]);
        if said.contains("paused") || said.contains("stopped") {
            return said;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_disk_in_the_place_of_one_with_tasks_is_left_out_and_the_others_are_served() {
    let directory = directory("left-out");
    let file = |name: &str| directory.join(name);
    for disk in ["d0", "d1", "d2", "strange"] {
        std::fs::write(file(disk), [7; 1 << 20]).unwrap();
    }
    let Some(daemon) = FileDaemon::start(&directory, 3, "") else { return };
    daemon.says(&["restore", "--disk", "d1", &file("image").display().to_string()]);
    let before = waiting(&daemon, "d1");
    drop(daemon);
    std::fs::rename(file("d1"), file("own")).unwrap();
    std::fs::rename(file("strange"), file("d1")).unwrap();
    let Some(daemon) = FileDaemon::start(&directory, 3, "") else { return };
    let line = daemon.log.lines().find(|line| line.contains("the disk is not served, but the others are"));
    let line = line.unwrap_or_else(|| panic!("{}", daemon.log));
    assert!(line.contains("ERROR") && line.contains("the tasks in d1 are of the disk "), "{line}");
    let connects = |disk: &str| UnixStream::connect(file(&format!("{disk}.sock"))).is_ok();
    assert_eq!(["d0", "d1", "d2"].map(connects), [true, false, true]);
    daemon.says(&["scrub", "--disk", "d2", "--sectors", "64", "--wait"]);
    assert!(!daemon.run(&["scrub", "--disk", "d1"]).status.success());
    drop(daemon);
    assert!(!file("state/d1/damaged").exists(), "the tasks go on when their own disk is back");
    // If the disk left out is the only one, the daemon does not start.
    let alone = configured(&directory, &[("d1", "d1")], "control", "");
    run_with(&["serve", "--config", &alone]).complained(1, &["the tasks in d1 are of the disk "]);
    std::fs::rename(file("own"), file("d1")).unwrap();
    let Some(daemon) = FileDaemon::start(&directory, 3, "") else { return };
    assert_eq!(waiting(&daemon, "d1"), before);
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_start_that_fails_leaves_the_tasks_that_a_disk_has_under_its_old_name() {
    let directory = directory("renamed");
    std::fs::write(directory.join("d0"), [7; 1 << 20]).unwrap();
    let Some(daemon) = FileDaemon::start(&directory, 1, "") else { return };
    daemon.says(&["restore", &directory.join("image").display().to_string()]);
    let before = waiting(&daemon, "d0");
    drop(daemon);
    let marker = directory.join("state/d0/damaged");
    let fails = configured(&directory, &[("other", "d0")], "none/control", "");
    let failed = run_with(&["serve", "--config", &fails]);
    assert!(failed.code == Some(1) && failed.err.contains("none/control"), "{}", failed.err);
    assert!(!marker.exists(), "{}", failed.err);
    let Some(daemon) = FileDaemon::start(&directory, 1, "") else { return };
    assert_eq!(waiting(&daemon, "d0"), before);
    drop(daemon);
    // The same disk under another name and by another path.
    std::fs::hard_link(directory.join("d0"), directory.join("link")).unwrap();
    let Some(daemon) = FileDaemon::with(&directory, &[("other", "link")], "") else { return };
    assert!(daemon.run(&["status"]).status.success());
    assert!(marker.exists(), "clients may write");
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn scrubs_of_all_disks_keep_to_tasks_at_once() {
    let (directory, disks) = (directory("all"), 5);
    for disk in 0..disks {
        // The disks are so large that no scrub ends during the test.
        std::fs::File::create(directory.join(format!("d{disk}"))).unwrap().set_len(64 << 30).unwrap();
    }
    let Some(daemon) = FileDaemon::start(&directory, disks, "tasks_at_once = 2") else { return };
    let said = daemon.says(&["scrub", "--disk", "all"]);
    assert_eq!(said.matches("scrub 1 of d").count(), disks, "{said}");
    for cancelled in 0..disks {
        let left = disks - cancelled;
        let scrubs = loop {
            let scrubs = daemon.tasks();
            let running = scrubs.iter().filter(|scrub| scrub["state"] == "running").count();
            assert!(running <= 2, "{scrubs:?}");
            let waits = |scrub: &&Value| {
                scrub["state"] == "queued"
                    && scrub["reason"]
                        .as_str()
                        .is_some_and(|why| why.contains("2 scrubs and comparisons run"))
            };
            if running == left.min(2) && scrubs.iter().filter(waits).count() == left - running {
                break scrubs;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        // There is one scrub for each disk, in the order of the disks.
        let runs = scrubs.iter().position(|scrub| scrub["state"] == "running").unwrap();
        daemon.says(&["cancel", "1", "--disk", &format!("d{runs}")]);
    }
    let screen = daemon.says(&["status"]);
    assert_eq!(screen.lines().count(), disks + 3, "{screen}");
    let said = daemon.says(&["scrub", "--disk", "all", "--sectors", "64", "--wait"]);
    assert_eq!(said.matches(" is done\n").count(), disks, "{said}");
    drop(daemon);
    std::fs::remove_dir_all(&directory).unwrap();
}
