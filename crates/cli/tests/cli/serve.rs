//! `freeblock serve`, with independent client programs.

use crate::record::load;
use crate::support::{Dir, command, run_with};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A drive of two megabytes.
pub(crate) const PROFILE: &str = include_str!("../../../drive/tests/data/small.toml");
pub(crate) const SECTORS: u64 = 3_590;

pub(crate) struct Daemon {
    pub(crate) child: Child,
    rest: std::thread::JoinHandle<String>,
}

/// Starts the daemon and waits until it has reported all its `disks`. `None` if there is no io_uring.
pub(crate) fn start(args: &[&str], disks: usize) -> Option<Daemon> {
    start_command(command().arg("serve").args(args), disks)
}

/// Starts a command that runs the daemon, and waits until the daemon has reported all its `disks`.
pub(crate) fn start_command(command: &mut Command, disks: usize) -> Option<Daemon> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while said.matches(" at nbd").count() < disks {
        if stderr.read_line(&mut said).unwrap() == 0 {
            assert!(!child.wait().unwrap().success());
            assert!(said.contains("io_uring"), "{said}");
            testing::missing("io_uring");
            return None;
        }
    }
    // Read the rest, so that a full pipe does not block the daemon.
    let rest = std::thread::spawn(move || {
        let _ = stderr.read_to_string(&mut said);
        said
    });
    Some(Daemon { child, rest })
}

impl Daemon {
    /// Ends the daemon as systemd does; returns its output.
    pub(crate) fn end(self) -> Value {
        self.end_with_log().0
    }

    /// Ends the daemon as systemd does; returns its output and its log.
    pub(crate) fn end_with_log(mut self) -> (Value, String) {
        let id = self.child.id().to_string();
        // The daemon reports its disks before it has a handler for SIGTERM, so wait for the handler.
        while self.child.try_wait().unwrap().is_none() && !catches_term(&id) {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let ended = self.child.wait().unwrap();
        let said = self.rest.join().unwrap();
        assert!(ended.success(), "{said}");
        (serde_json::from_str(&out).unwrap(), said)
    }

    /// Kills the daemon: as abrupt as a power cut, except that the kernel survives.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits until the killed process is gone.
    pub(crate) fn gone(mut self) {
        self.child.wait().unwrap();
        self.rest.join().unwrap();
    }
}

/// Returns whether a process has a handler for SIGTERM, the fifteenth signal.
fn catches_term(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 == 1
}

pub(crate) fn has(program: &str) -> bool {
    testing::needs_program(program)
}

#[track_caller]
pub(crate) fn works(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

fn uri(socket: &str) -> String {
    format!("nbd+unix:///?socket={socket}")
}

#[test]
fn two_disks_are_served_one_known_and_one_unknown() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let disk = |name: &str, more: &str| {
        let (file, socket) = (dir.path(&format!("{name}.img")), dir.path(&format!("{name}.sock")));
        format!(
            "[[disk]]\nname = \"{name}\"\ndevice = \"emulated:{profile},file={file}\"\nlisten = [\"unix:{socket}\"]\n{more}"
        )
    };
    let config = dir
        .file("freeblock.toml", &format!("{}{}", disk("known", ""), disk("blind", "profile = \"none\"\n")));
    let Some(daemon) = start(&["--config", &config, "--json"], 2) else { return };
    let mut image: Vec<u8> = (0..SECTORS * 512).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
    for name in ["known", "blind"] {
        let (uri, file) = (uri(&dir.path(&format!("{name}.sock"))), dir.file("image", ""));
        std::fs::write(&file, &image).unwrap();
        if has("nbdcopy") && has("nbdinfo") {
            let info = works("nbdinfo", &[&uri]);
            for line in ["is_rotational: true", "can_fua: true", "can_multi_conn: true", "can_trim: true"] {
                assert!(info.contains(line), "no {line:?} in\n{info}");
            }
            works("nbdcopy", &[&file, &uri]);
            works("nbdcopy", &[&uri, &dir.path("back")]);
            assert!(std::fs::read(dir.path("back")).unwrap() == image);
        }
        if has("qemu-img") && has("qemu-io") {
            works("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &file, &uri]);
            works("qemu-img", &["compare", "-f", "raw", "-F", "raw", &file, &uri]);
            let commands = [
                "write -f -P 18 512 1024",
                "read -P 18 512 1024",
                "write -z 1024 512",
                "read -P 0 1024 512",
                "flush",
            ];
            let mut args = vec!["-f", "raw", uri.as_str()];
            commands.iter().for_each(|command| args.extend(["-c", command]));
            let out = works("qemu-io", &args);
            assert!(!out.contains("verification failed"), "{out}");
        }
        image.rotate_left(512);
    }
    let said = daemon.end();
    let [known, blind] = [&said[0], &said[1]];
    assert_eq!((&known["name"], &blind["name"]), (&"known".into(), &"blind".into()));
    for disk in [known, blind] {
        assert_eq!(disk["failed"], 0, "{disk}");
        assert!(disk["requests"].as_u64().is_some_and(|n| n > 10) || !has("nbdcopy"), "{disk}");
    }
    assert_eq!(blind["status"]["caution"], "unknown", "{blind}");
    assert_ne!(known["status"]["caution"], "unknown", "{known}");
    assert!(!dir.names().iter().any(|name| name.ends_with(".sock")), "sockets go with the daemon");
}

#[test]
fn mistakes_are_underlined() {
    let dir = Dir::new();
    let config =
        dir.file("f.toml", "[[disk]]\nname = \"a\"\ndevice = \"/dev/null\"\nlisten = [\"unx:/s\"]\n");
    run_with(&["serve", "--config", &config])
        .complained(1, &["unix:PATH or tcp:ADDRESS:PORT", "unx:/s", "here"]);
    run_with(&["serve"]).complained(2, &["--config"]);
    run_with(&["serve", "--disk", "a=/dev/null"]).complained(2, &["--listen"]);
    run_with(&["serve", "--disk", "/dev/null", "--listen", "unix:/s"]).complained(2, &["NAME=DEVICE"]);
    let (disk, listen) = (format!("a={}", dir.path("none")), format!("unix:{}", dir.path("s")));
    run_with(&["serve", "--disk", &disk, "--listen", &listen]).complained(1, &["cannot open"]);
    assert_eq!(dir.names(), ["f.toml"], "nothing is left behind");
}

/// A mistake that shows only when a disk is opened is underlined as well.
#[test]
fn an_option_that_fails_at_opening_is_underlined() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let device = format!("emulated:{profile},file={}", dir.path("d.img"));
    let text =
        format!("[[disk]]\nname = \"a\"\ndevice = \"{device}\"\nlisten = [\"unix:{}\"]\n", dir.path("s"));
    let none = dir.path("none/x");
    let state = format!("state = \"{}\"\n", dir.path("state"));
    for (text, said, place) in [
        (format!("control = \"/s\"\n{text}"), "no state directory", "f.toml:1:11"),
        (format!("state = \"{profile}\"\n{text}"), "File exists", "f.toml:1:9"),
        (format!("{state}control = \"{none}\"\n{text}"), "No such file", "f.toml:2:11"),
        (text.replace(&device, &none), "No such file", "f.toml:3:10"),
        (text.replace(&profile, "atlas"), "no built-in drive is called `atlas`", "f.toml:3:10"),
        (text.replace("unix:", "unix:/none/"), "No such file", "f.toml:4:11"),
        (format!("{text}profile = \"atlas\"\n"), "no built-in drive is called `atlas`", "f.toml:5:11"),
        (format!("{text}profile = \"quantum-atlas-10k\"\n"), "its profile 9199079936", "f.toml:5:11"),
        (format!("{text}mimic_table = \"{none}\"\n"), "only smtf uses a table", "f.toml:5:15"),
        (format!("{text}policy = \"smtf\"\nmimic_table = \"{none}\"\n"), "No such file", "f.toml:6:15"),
        (format!("{text}policy = \"smtf\"\nmimic_memory = \"4k\"\n"), "too few", "f.toml:6:16"),
        (format!("{text}record = \"{none}\"\n"), "No such file", "f.toml:5:10"),
        (format!("{text}export = \"{}\"\n", "x".repeat(5_000)), "the name of export", "f.toml:5:10"),
    ] {
        dir.file("f.toml", &text);
        let run = command().args(["serve", "--config", "f.toml"]).current_dir(dir.path("")).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr);
        if err.contains("io_uring") {
            return testing::missing("io_uring");
        }
        assert_eq!(run.status.code(), Some(1), "{err}");
        assert!(err.contains(said) && err.contains(place) && err.contains("here"), "{said}, {place}: {err}");
    }
}

/// The disks before the failing one are served already: they end, and the daemon names the failing disk.
#[test]
fn a_later_disk_that_cannot_be_had_ends_the_daemon() {
    let dir = Dir::new();
    let (profile, file) = (dir.file("small.toml", PROFILE), dir.path("d.img"));
    let disk = |name: &str, device: &str| {
        let socket = dir.path(&format!("{name}.sock"));
        format!("[[disk]]\nname = \"{name}\"\ndevice = \"{device}\"\nlisten = [\"unix:{socket}\"]\n")
    };
    let emulated = format!("emulated:{profile},file={file}");
    std::fs::write(&file, "").unwrap();
    std::fs::hard_link(&file, dir.path("same.img")).unwrap();
    let same = format!("emulated:{profile},file={}", dir.path("same.img"));
    for (device, words) in [
        (same, "the file cannot be opened for exclusive use"),
        (dir.path("none"), "No such file or directory"),
    ] {
        let config = dir.file("f.toml", &format!("{}{}", disk("a", &emulated), disk("b", &device)));
        let run = run_with(&["serve", "--config", &config]);
        if run.err.contains("io_uring") {
            return testing::missing("io_uring");
        }
        run.complained(1, &[words]);
    }
}

#[test]
fn a_disks_knowledge_is_kept_and_a_damaged_file_does_not_stop_it() {
    let dir = Dir::new();
    let (profile, image) = (dir.file("small.toml", PROFILE), dir.path("d.img"));
    let disk = format!("d=emulated:{profile},file={image}");
    let (state, listen) = (dir.path("state"), format!("unix:{}", dir.path("d.sock")));
    let serve = ["--disk", &disk, "--listen", &listen, "--profile", "none", "--state", &state, "--json"];
    let learnt = std::path::Path::new(&state).join("d/learnt");
    let Some(daemon) = start(&serve, 1) else { return };
    daemon.end();
    let first = std::fs::read(&learnt).unwrap();
    assert!(first.starts_with(b"FBLEARN"));
    // The mimic continues from its own file silently. With a damaged file it begins anew, and the log says so.
    let Some(daemon) = start(&serve, 1) else { return };
    let (_, log) = daemon.end_with_log();
    assert!(!log.contains("begins anew"), "{log}");
    assert_eq!(std::fs::read(&learnt).unwrap(), first);
    std::fs::write(&learnt, &first[..first.len() - 9]).unwrap();
    let Some(daemon) = start(&serve, 1) else { return };
    let (_, log) = daemon.end_with_log();
    let line = log.lines().find(|line| line.contains("begins anew")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") && line.contains("d/learnt"), "{line}");
    assert_eq!(std::fs::read(&learnt).unwrap(), first);
    let aside = learnt.with_file_name("learnt.refused-1");
    assert_eq!(std::fs::read(aside).unwrap(), first[..first.len() - 9]);
}

/// With a profile the default policy is SPTF, and blocks are read in gaps; without one it is SMTF, which learns the
/// drive's times, and blocks are read only in idle time. The daemon's decisions are in its recording, and their results
/// in its status.
#[test]
fn a_profile_gives_sptf_and_predictions_and_none_gives_smtf_and_idle_time_only() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    for (name, more, policy) in [("known", &[][..], "sptf"), ("blind", &["--profile", "none"], "smtf")] {
        let path = |what: &str| dir.path(&format!("{name}.{what}"));
        let disk = format!("d=emulated:{profile},file={},noise", path("img"));
        let [state, control, recording, socket] = ["state", "control", "recording", "sock"].map(path);
        let listen = format!("unix:{socket}");
        let args = ["--disk", &disk, "--listen", &listen, "--state", &state, "--control", &control];
        let args = [&args[..], &["--record", &recording, "--json"], more].concat();
        let Some(daemon) = start(&args, 1) else { return };
        while !std::path::Path::new(&control).exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        run_with(&["scrub", "--block-sectors", "8", "--control", &control]).worked();
        // On a busy machine there is little idle time: repeat until some has been used.
        let taken = || {
            let status = run_with(&["status", "--json", "--control", &control]).json();
            let disk = &status["disks"][0];
            let bytes = |key: &str| disk["status"]["background"][key].as_u64().unwrap();
            (bytes("gap_bytes"), bytes("idle_bytes"), disk["tasks"][0]["state"] == "done")
        };
        for _ in 0..40 {
            load(&socket, 100);
            if policy == "sptf" && taken().0 + taken().1 > 0 {
                break;
            }
        }
        let (in_gaps, in_idle_time, done) = taken();
        let said = daemon.end();
        let (status, predicted) = (&said[0]["status"], said[0]["status"]["foresight"]["commands"].as_u64());
        match policy {
            "sptf" => assert!(in_gaps + in_idle_time > 0 && predicted > Some(0), "{said}"),
            _ => assert_eq!((in_gaps, status["caution"].as_str()), (0, Some("unknown"))),
        }
        assert!(in_gaps + in_idle_time > 0 || !done, "{said}");
        let reported = run_with(&["simulate", "--replay-live", &recording]).worked();
        assert!(reported.contains(&format!("d, {policy}, recorded by")), "{reported}");
    }
}

#[test]
fn smtf_starts_only_from_a_table_of_this_drive() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let table = dir.path("d.mimic");
    let small = format!("emulated:{profile}");
    run_with(&["mimic", "probe", &small, "-o", &table, "--requests", "3000", "--samples", "2"]).worked();
    let serve = |name: &str, more: &[&str]| {
        let disk = format!("d=emulated:{profile},file={}", dir.path(&format!("{name}.img")));
        let (state, socket) = (dir.path(&format!("{name}.state")), dir.path(&format!("{name}.sock")));
        let listen = format!("unix:{socket}");
        let args = ["--disk", &disk, "--listen", &listen, "--state", &state, "--json", "--profile", "none"];
        let daemon = start(&[&args[..], more].concat(), 1)?;
        load(&socket, 20);
        daemon.end();
        // The times that a recorded disk has learnt are not saved.
        Some(std::fs::metadata(std::path::Path::new(&state).join("d/learnt")).map_or(0, |file| file.len()))
    };
    let Some(without) = serve("without", &[]) else { return };
    let Some(with) = serve("with", &["--mimic-table", &table]) else { return };
    // The saved times include the table that smtf started from, and the next start continues from them.
    let size = std::fs::metadata(&table).unwrap().len();
    assert!(with > without + size / 2, "{with} bytes with a table of {size}, {without} without");
    assert!(serve("with", &["--mimic-table", &table]).is_some_and(|again| again > size));
    // The replay of a recording begins with the same table.
    let file = dir.path("recording");
    if serve("recorded", &["--mimic-table", &table, "--record", &file]).is_some() {
        let reported = run_with(&["simulate", "--replay-live", &file]).worked();
        assert!(reported.ends_with("every decision was the same\n"), "{reported}");
    }

    let (disk, listen) =
        (format!("d=emulated:{profile},file={}", dir.path("no.img")), format!("unix:{}", dir.path("no")));
    let refused = |file: &str, policy: &[&str], words: &[&str]| {
        let args =
            ["serve", "--disk", &disk, "--listen", &listen, "--profile", "none", "--mimic-table", file];
        run_with(&[&args[..], policy].concat()).complained(1, words);
    };
    let bytes = std::fs::read(&table).unwrap();
    let mut worn = bytes.clone();
    worn[bytes.len() / 2] ^= 1;
    std::fs::write(dir.path("worn.mimic"), worn).unwrap();
    refused(&dir.path("worn.mimic"), &[], &["worn.mimic: the table is damaged: its checksum"]);
    let others = dir.path("other.mimic");
    let probe = ["mimic", "probe", "emulated:mimic-less-capacity", "-o", &others, "--requests", "2000"];
    run_with(&probe).worked();
    refused(
        &others,
        &[],
        &["other.mimic: the table is of", "sectors, the drive has 3590", "probe this drive"],
    );
    refused(&table, &["--policy", "sptf"], &["d: only smtf uses a table", "say policy smtf"]);
    refused(&dir.path("none"), &[], &["none"]);
}

#[test]
fn a_disk_that_is_not_characterised_is_served_by_smtf_that_learns_on_line() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let serve = |name: &str, more: &[&str], requests: u64| {
        let disk = format!("d=emulated:{profile},file={},noise", dir.path(&format!("{name}.img")));
        let (state, socket) = (dir.path(&format!("{name}.state")), dir.path(&format!("{name}.sock")));
        let listen = format!("unix:{socket}");
        let args = ["--disk", &disk, "--listen", &listen, "--state", &state, "--json"];
        let daemon = start(&[&args[..], more].concat(), 1)?;
        load(&socket, requests);
        daemon.end();
        Some(std::path::Path::new(&state).join("d/learnt"))
    };
    // Without a policy on the command line a disk without a profile learns from its requests.
    let Some(after_few) = serve("few", &["--profile", "none"], 1) else { return };
    let Some(after_many) = serve("many", &["--profile", "none"], 300) else { return };
    let [few, many] = [after_few, after_many].map(|file| std::fs::metadata(file).unwrap().len());
    assert!(many > few + 500, "{many} bytes after {few}");
    // A disk with a profile does not learn.
    let Some(known) = serve("known", &[], 1) else { return };
    assert!(!known.exists());

    // The recording of all decisions shows that the order is SMTF's, with the user's parameters.
    let file = dir.path("recording");
    let more =
        ["--profile", "none", "--record", &file, "--mimic-memory", "1M", "--mimic-minimum-samples", "2"];
    if serve("recorded", &more, 300).is_some() {
        let reported = run_with(&["simulate", "--replay-live", &file]).worked();
        assert!(
            reported.contains("d, smtf, recorded by") && reported.ends_with("every decision was the same\n"),
            "{reported}"
        );
        let setup = std::fs::read(&file).unwrap();
        let setup = String::from_utf8_lossy(&setup);
        assert!(
            setup.contains(r#""learning":{"memory_bytes":1048576,"minimum_samples":2,"probe_idle":false}"#)
        );
    }
    // Too little memory is refused before any client is let in.
    let disk = format!("d=emulated:{profile},file={}", dir.path("refused.img"));
    let listen = format!("unix:{}", dir.path("refused.sock"));
    let refused =
        ["serve", "--disk", &disk, "--listen", &listen, "--profile", "none", "--mimic-memory", "4k"];
    run_with(&refused).complained(1, &["d: 4096 bytes of memory are too few", "at least 65536"]);
}
