//! A disk without a profile is probed while the daemon serves it.

use crate::serve::{Daemon, PROFILE, start};
use crate::support::{Dir, run_with};
use serde_json::Value;

/// Starts a daemon with a disk without a profile; also returns the control socket.
fn blind(dir: &Dir, more: &str) -> Option<(Daemon, String)> {
    let profile = dir.file("small.toml", PROFILE);
    let [file, socket, state, control] =
        ["d0.img", "nbd.sock", "state", "control"].map(|name| dir.path(name));
    let text = format!(
        "state = \"{state}\"\ncontrol = \"{control}\"\n[[disk]]\nname = \"d0\"\ndevice = \"emulated:{profile},file={file}\"\nlisten = [\"unix:{socket}\"]\nprofile = \"none\"\n{more}"
    );
    let config = dir.file("freeblock.toml", &text);
    let daemon = start(&["--config", &config, "--json"], 1)?;
    // The control socket appears a moment after the disk.
    while !std::path::Path::new(&control).exists() {
        std::thread::yield_now();
    }
    Some((daemon, control))
}

/// Asks for the probe's state until it is as wanted.
fn until(control: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let state = run_with(&["probe", "--control", control, "d0", "--json"]).json();
        if wanted(&state) {
            return state;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

#[test]
fn the_probe_of_a_served_disk_goes_on_after_kill_9() {
    let dir = Dir::new();
    let commands = |state: &Value| state["commands"].as_u64().unwrap_or(0);
    let Some((mut daemon, control)) = blind(&dir, "") else { return };
    let measured = commands(&until(&control, |state| commands(state) > 50));
    daemon.kill();
    daemon.gone();
    std::fs::remove_file(&control).unwrap();
    let (daemon, control) = blind(&dir, "").unwrap();
    let first = until(&control, |state| commands(state) > 0);
    assert!(commands(&first) >= measured, "{first}: {measured} readings before the kill");
    let status = run_with(&["status", "--control", &control]).worked();
    assert!(status.contains("\n  probe       "), "{status}");
    daemon.end();
}

/// Runs in the long tier only: it takes a minute or two of real time, in which little is computed.
#[test]
fn a_served_disk_is_probed_to_the_end_uses_gaps_and_begins_with_its_profile_after_a_restart() {
    let dir = Dir::new();
    let Some((daemon, control)) = blind(&dir, "") else { return };
    let ended = until(&control, |state| state["state"] != "probing");
    assert_eq!(ended["state"], "found", "{ended}");
    let status = |control: &str| run_with(&["status", "--control", control, "--json"]).json();
    assert_ne!(status(&control)["disks"][0]["status"]["caution"], "unknown");
    let said = daemon.end_with_log().1;
    assert!(said.contains("the probe has found a profile"), "{said}");
    std::fs::remove_file(&control).unwrap();
    let (daemon, control) = blind(&dir, "").unwrap();
    assert_eq!(status(&control)["disks"][0]["status"]["probe"], Value::Null);
    let said = daemon.end_with_log().1;
    assert!(said.contains("goes on with the profile that was found"), "{said}");
}

#[test]
fn with_probe_false_a_disk_is_not_probed_until_a_client_asks_for_it() {
    let dir = Dir::new();
    let Some((daemon, control)) = blind(&dir, "probe = false\n") else { return };
    let before = run_with(&["status", "--control", &control, "--json"]).json();
    assert_eq!(before["disks"][0]["status"]["probe"], Value::Null);
    let state = until(&control, |state| state["state"] == "probing");
    assert_eq!(state["reason"], Value::Null);
    daemon.end();
}

#[test]
fn a_disk_with_a_profile_is_not_probed() {
    let dir = Dir::new();
    let known = format!("profile = \"{}\"\n", dir.file("known.toml", PROFILE));
    let text = |profile: &str| {
        let [file, socket, state, control] =
            ["d0.img", "nbd.sock", "state", "control"].map(|name| dir.path(name));
        format!(
            "state = \"{state}\"\ncontrol = \"{control}\"\n[[disk]]\nname = \"d0\"\ndevice = \"{file}\"\nlisten = [\"unix:{socket}\"]\n{profile}"
        )
    };
    let file = dir.path("d0.img");
    std::fs::File::create(&file).unwrap().set_len(crate::serve::SECTORS * 512).unwrap();
    let config = dir.file("freeblock.toml", &text(&known));
    let Some(daemon) = start(&["--config", &config, "--json"], 1) else { return };
    let control = dir.path("control");
    while !std::path::Path::new(&control).exists() {
        std::thread::yield_now();
    }
    run_with(&["probe", "--control", &control, "d0"]).complained(1, &["the disk has a profile"]);
    daemon.end();
}
