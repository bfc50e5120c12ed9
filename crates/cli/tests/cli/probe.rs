//! `freeblock probe`.

use crate::support::{Dir, run, run_with};

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
    run_with(&["probe", &lost])
        .complained(1, &["cannot be read, the last at LBN", "save what is on the drive"]);
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
    run("probe /nowhere/disk").complained(1, &["/nowhere/disk"]);
    run_with(&["probe", DEVICE, "-o", "/nowhere/found.toml"]).complained(1, &["cannot write"]);
}

#[test]
fn writes_are_measured_where_they_are_allowed() {
    let dir = Dir::new();
    let found = dir.path("found.toml");
    let said = run_with(&["probe", DEVICE, "--allow-writes", "100000-120000", "-o", &found]).worked();
    assert!(said.contains("write settle") && !said.contains("writes were not allowed"), "{said}");
    assert!(said.contains("a third of them writes to what may be written"), "{said}");
    let said = run_with(&["probe", DEVICE, "-o", &found]).worked();
    assert!(
        said.contains("Not sure of writes to LBN 0 to ") && said.contains("writes were not allowed"),
        "{said}"
    );
    assert!(std::fs::read_to_string(&found).unwrap().contains("writes: not sure of LBN 0 to "));
}

/// A file in the page cache's stead is no disk: its sectors take what memory takes.
#[cfg(target_os = "linux")]
#[test]
fn what_does_not_spin_is_refused_and_keeps_its_bytes() {
    let dir = Dir::new();
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i % 251) as u8).collect();
    let path = dir.path("disk");
    std::fs::write(&path, &bytes).unwrap();
    let run = run_with(&["probe", &path, "--allow-writes", "64-4095"]);
    if run.err.contains("O_DIRECT") || run.err.contains("io_uring") {
        eprintln!("skipped: {}", run.err);
        return;
    }
    // What it is that gives it away depends on how busy the machine is.
    assert!(["spins", "the drive's buffer"].iter().any(|why| run.err.contains(why)), "{}", run.err);
    run.complained(1, &[]);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
