//! `freeblock probe`.

use crate::support::{Dir, command, run, run_with};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const DEVICE: &str = "emulated:mimic-less-capacity";

#[test]
fn the_found_profile_is_one_that_other_commands_take() {
    let dir = Dir::new();
    let found = dir.path("found.toml");
    let said = run_with(&["probe", DEVICE, "-o", &found, "--name", "mine"]).worked();
    for word in
        ["revolution time", "10000 rpm", "heads", "zero-latency reads", "No region of the drive is unsure"]
    {
        assert!(said.contains(word), "no {word:?} in:\n{said}");
    }
    let shown = run_with(&["drive", "show", &found]).worked();
    assert!(shown.contains("(mine)") && shown.contains("5 heads"), "{shown}");
    run_with(&["simulate", "--drive", &found, "--requests", "100"]).worked();
}

#[test]
fn a_probe_goes_on_from_its_state_and_finds_the_same() {
    let dir = Dir::new();
    let state = dir.path("probe.state");
    let first = run_with(&["probe", DEVICE, "--resume", &state]).worked();
    assert_eq!(first, run_with(&["probe", DEVICE, "--resume", &state]).worked());
    run_with(&["probe", "emulated:mimic-base", "--resume", &state])
        .complained(1, &["the state is of another probe", "sectors"]);
    run_with(&["probe", DEVICE, "--resume", &state, "--seed", "9"]).complained(1, &["seed is 1, not 9"]);
    let broken = dir.file("broken.state", "no such thing");
    run_with(&["probe", DEVICE, "--resume", &broken])
        .complained(1, &["broken.state", "probe from the beginning"]);
}

/// Starts a probe of [`DEVICE`] that keeps its state in this file; returns when the file exists.
fn begun(state: &str) -> Child {
    let mut child = command()
        .args(["probe", DEVICE, "--resume", state])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !Path::new(state).exists() {
        assert!(Instant::now() < patience && child.try_wait().unwrap().is_none(), "no {state}");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

/// Returns the number of commands in a state file, which has to be complete.
fn commands_in(state: &str) -> u64 {
    let bytes = std::fs::read(state).unwrap();
    probe::Journal::from_bytes(&bytes, state).unwrap().commands()
}

/// Returns the layout found by a probe that continues from this file.
fn layout_found(state: &str) -> serde_json::Value {
    run_with(&["probe", DEVICE, "--resume", state, "--json"]).json()["profile"]["layout"].clone()
}

/// The probe is killed long before it saves its state for the second time.
#[test]
fn a_probe_that_is_killed_at_once_leaves_a_state_and_goes_on() {
    let dir = Dir::new();
    let (whole, state) = (dir.path("whole.state"), dir.path("killed.state"));
    let mut child = begun(&state);
    child.kill().unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    commands_in(&state);
    // The state is of the probed drive from the beginning: a probe of another drive is refused.
    run_with(&["probe", "emulated:mimic-base", "--resume", &state])
        .complained(1, &["the state is of another probe", "sectors"]);
    assert_eq!(layout_found(&state), layout_found(&whole));
}

#[cfg(unix)]
#[test]
fn an_interrupted_probe_saves_its_measurements_and_says_how_to_continue() {
    let dir = Dir::new();
    let (whole, state) = (dir.path("whole.state"), dir.path("ended.state"));
    let mut most = 0;
    // Twice: the second probe begins with the measurements of the first.
    for signal in ["-TERM", "-INT"] {
        let child = begun(&state);
        // Enough time for some measurements; the whole probe takes about a second.
        std::thread::sleep(Duration::from_millis(200));
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        let ended = crate::support::FinishedRun::from(child.wait_with_output().unwrap());
        if ended.code == Some(0) {
            // The probe has ended before the signal.
            break;
        }
        ended.complained(1, &["interrupted", "the same command goes on from its state file"]);
        let commands = commands_in(&state);
        assert!(commands > 0 && commands >= most, "{commands} after {most}");
        most = commands;
    }
    assert_eq!(layout_found(&state), layout_found(&whole));
}

#[test]
fn a_part_of_a_drive_is_a_profile_with_an_exit_code_of_its_own_and_the_next_probe_measures_anew() {
    let dir = Dir::new();
    let (found, state) = (dir.path("found.toml"), dir.path("probe.state"));
    // More bad sectors than a probe tolerates, met after the revolution time is known.
    let lost = format!("{DEVICE},bad_sectors=200000:8");
    let said = run_with(&["probe", &lost, "-o", &found, "--resume", &state]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("partial: ") && said.err.contains("measures the drive anew"), "{}", said.err);
    for word in ["Not measured, ", "save what is on the drive", "Not sure of LBN 0 to "] {
        assert!(said.out.contains(word), "no {word:?} in:\n{}", said.out);
    }
    run_with(&["drive", "show", &found]).worked();
    let whole = run_with(&["probe", DEVICE, "-o", &found, "--resume", &state]);
    let said = whole.worked();
    assert!(said.contains("No region of the drive is unsure"), "{said}");
}

#[test]
fn bad_sectors_are_gone_round_and_listed() {
    let dir = Dir::new();
    let found = dir.path("found.toml");
    let device = format!("{DEVICE},bad_sectors=8000:8,grown_defects=20,seed=3");
    let said = run_with(&["probe", &device, "-o", &found]).worked();
    assert!(
        said.contains("Cannot be read: LBN ") && said.contains("No region of the drive is unsure"),
        "{said}"
    );
    let json = run_with(&["probe", &device, "-o", &found, "--json"]).worked();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let bad = json["report"]["unreadable"].as_array().unwrap();
    assert!(!bad.is_empty() && bad.iter().all(|run| run["first"].as_u64() < run["end"].as_u64()), "{bad:?}");
    let lost = format!("{DEVICE},bad_sectors=1000000:8");
    let said = run_with(&["probe", &lost, "-o", &found]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    for words in ["Not sure of LBN 0 to ", "cannot be read, the last at LBN", "save what is on the drive"] {
        assert!(said.out.contains(words), "no {words:?} in:\n{}", said.out);
    }
}

#[test]
fn mistakes_name_the_mend() {
    run("probe").complained(2, &["DEVICE"]);
    run("probe floppy").complained(2, &["emulated:NAME"]);
    run("probe emulated:atlas").complained(2, &["did you mean"]);
    run("probe emulated:mimic-base --name A/B").complained(2, &["lower-case"]);
    for region in ["7", "9-8", "a-b", "0-18446744073709551615"] {
        run_with(&["probe", DEVICE, "--allow-writes", region]).complained(2, &["1000000-1020000"]);
    }
    run_with(&["probe", DEVICE, "--allow-writes", "10-20"]).complained(1, &["at least 64 sectors"]);
    for region in ["0-0", "9000000000-9000000100"] {
        run_with(&["probe", DEVICE, "--allow-writes", region]).complained(
            1,
            &[
                &format!("--allow-writes {region}:"),
                "at least 64 sectors",
                "within the drive's 4443800",
                "as 0-63",
            ],
        );
    }
    run("probe /nowhere/disk").complained(1, &["/nowhere/disk"]);
    run_with(&["probe", DEVICE, "-o", "/nowhere/found.toml"]).complained(1, &["cannot write"]);
}

#[test]
fn a_comma_in_a_files_name_is_no_switch_where_the_file_is() {
    let dir = Dir::new();
    let profile = run("drive show mimic-less-capacity --toml").worked();
    let (file, table) = (dir.file("a,b=c.toml", &profile), dir.path("table.mimic"));
    let device = format!("emulated:{file},drift=off");
    let probed = |device: &str| {
        run_with(&["mimic", "probe", device, "-o", &table, "--requests", "200", "--json"]).json()
    };
    assert_eq!(probed(&device)["drive"], file.as_str());
    // A file named like a drive with a switch is used as the file.
    dir.file("a", &profile);
    assert_eq!(probed(&device)["drive"], file.as_str());
    assert_eq!(probed(&format!("emulated:{},drift=off", dir.path("a")))["drive"], dir.path("a").as_str());
    // Without a file of that name the error shows both readings.
    let gone = dir.path("a,x=c.toml");
    run_with(&["probe", &format!("emulated:{gone},drift=off")]).complained(
        2,
        &[
            "\"x=c.toml\" is no behaviour",
            &format!("{:?} is no file", format!("{gone},drift=off")),
            "was taken for the drive",
            "\"x=c.toml,drift=off\" for switches",
        ],
    );
}

/// A program that runs the binary with its standard error on a terminal of 24 lines of 100, until it ends or the
/// terminal has shown this many different percentages; prints both outputs.
const ON_A_TERMINAL: &str = r#"
import fcntl, json, os, pty, re, struct, subprocess, sys, termios, threading
most, command = int(sys.argv[1]), sys.argv[2:]
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
os.close(theirs)
out = []
reader = threading.Thread(target=lambda: out.append(child.stdout.read()))
reader.start()
told = b""
enough = lambda: most > 0 and len(set(re.findall(rb"\d+%", told))) >= most
while not enough():
    try:
        some = os.read(ours, 4096)
    except OSError:  # EIO: the other end is closed
        break
    if not some:
        break
    told += some
if enough():
    child.kill()
code = child.wait()
reader.join()
print(json.dumps({"code": code, "told": told.decode(), "out": out[0].decode()}))
"#;

/// Runs the binary on a terminal; `None` if there is no Python.
fn on_a_terminal(percentages: u32, args: &[&str]) -> Option<serde_json::Value> {
    let run = std::process::Command::new("python3")
        .args(["-c", ON_A_TERMINAL, &percentages.to_string(), env!("CARGO_BIN_EXE_freeblock")])
        .args(args)
        .env("TERM", "xterm")
        .output();
    let Ok(output) = run else {
        testing::missing("python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// A drive whose probe takes minutes, and one whose probe takes seconds.
const LONG: &str = "emulated:nearline-20tb,noise";
const LONGER_THAN_PATIENCE: &str = "emulated:nearline-4tb";

#[test]
fn a_terminal_shows_a_growing_bar() {
    let Some(seen) = on_a_terminal(4, &["probe", LONG]) else { return };
    let reported = seen["told"].as_str().unwrap();
    assert!(
        reported.contains("probing") && reported.contains('█') && reported.contains("to go"),
        "{reported:?}"
    );
    let percents: Vec<u32> =
        reported.split('%').filter_map(|before| before.rsplit(' ').next()?.parse().ok()).collect();
    assert!(percents.len() > 1 && percents.is_sorted() && percents.first() < percents.last(), "{percents:?}");
    assert_eq!(seen["out"], "");
}

/// The bar appears only on a terminal: it is cleared at the end, and neither scripts nor logs contain any of it.
#[test]
fn piped_output_and_json_contain_no_bar() {
    let piped = run_with(&["probe", LONGER_THAN_PATIENCE, "--json"]);
    assert_eq!(piped.err, "");
    let json = piped.json();
    assert!(json["report"]["commands"].as_u64() > Some(1_000));
    let Some(seen) = on_a_terminal(0, &["probe", LONGER_THAN_PATIENCE, "--json"]) else { return };
    assert_eq!(seen["code"], 0);
    let out: serde_json::Value = serde_json::from_str(seen["out"].as_str().unwrap()).unwrap();
    assert_eq!(out, json);
    // On a fast computer the bar may not be drawn; if it is, its line is cleared at the end.
    let reported = seen["told"].as_str().unwrap();
    let after = reported.rsplit('\r').next().unwrap();
    assert!(!after.contains('%'), "{reported:?}");
    assert!(reported.is_empty() || reported.contains("probing"), "{reported:?}");
}

#[test]
fn writes_are_measured_where_they_are_allowed() {
    let dir = Dir::new();
    let found = dir.path("found.toml");
    let said = run_with(&["probe", DEVICE, "--allow-writes", "100000-120000", "-o", &found]).worked();
    assert!(said.contains("write settle") && !said.contains("writes were not allowed"), "{said}");
    assert!(said.contains("a third of them writes to the writable part"), "{said}");
    let said = run_with(&["probe", DEVICE, "-o", &found]).worked();
    assert!(
        said.contains("Not sure of writes to LBN 0 to ") && said.contains("writes were not allowed"),
        "{said}"
    );
    assert!(std::fs::read_to_string(&found).unwrap().contains("writes: not sure of LBN 0 to "));
}

/// A file in memory is no disk: a read takes the time of memory. For a file on a disk's file system, which direct reads reach,
/// a read would take that disk's time.
#[cfg(target_os = "linux")]
#[test]
fn a_device_that_does_not_spin_is_refused_and_keeps_its_bytes() {
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i % 251) as u8).collect();
    let Some(dir) = Dir::in_memory() else {
        testing::missing("a file system in memory at /dev/shm");
        return;
    };
    let path = dir.path("disk");
    std::fs::write(&path, &bytes).unwrap();
    let run = run_with(&["probe", &path, "--allow-writes", "64-4095"]);
    if run.err.contains("O_DIRECT") || run.err.contains("io_uring") {
        testing::missing(&format!("O_DIRECT and io_uring ({})", run.err.trim()));
        return;
    }
    // The load of the machine decides which property reveals that the file is no disk.
    assert!(["spins", "the drive's buffer"].iter().any(|why| run.err.contains(why)), "{}", run.err);
    run.complained(1, &[]);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
