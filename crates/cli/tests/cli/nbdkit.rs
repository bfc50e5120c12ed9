//! nbdkit with our plugin (clients/nbdkit) over a served disk.

use crate::serve::{PROFILE, SECTORS, start};
use crate::support::Dir;
use std::process::{Command, Output};

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/nbdkit/freeblock.py");

/// Returns why the test cannot run here.
fn missing() -> Option<&'static str> {
    let works = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if !works("nbdkit", &["python", "--dump-plugin"]) {
        return Some("nbdkit with its Python plugin (nbdkit-plugin-python)");
    }
    (!works("nbdcopy", &["--version"])).then_some("nbdcopy")
}

/// Runs nbdkit with these options before the plugin, and a command that finds it at $uri.
fn nbdkit(options: &[&str], socket: &str, run: &str) -> Output {
    let mut command = Command::new("nbdkit");
    command.args(["--unix", "-"]).args(options).arg("python").arg(PLUGIN).arg(format!("socket={socket}"));
    command.args(["--run", run]).output().unwrap()
}

fn worked(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn writes_through_nbdkit_are_on_the_disk_and_its_filters_work() {
    if let Some(what) = missing() {
        return testing::missing(what);
    }
    let dir = Dir::new();
    let disk = format!("d0=emulated:{},file={}", dir.file("small.toml", PROFILE), dir.path("disk"));
    let socket = dir.path("nbd");
    let Some(daemon) = start(&["--disk", &disk, "--listen", &format!("unix:{socket}"), "--json"], 1) else {
        return;
    };
    let pattern: Vec<u8> =
        (0..SECTORS * 64).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let (here, back) = (dir.path("pattern"), dir.path("back"));
    std::fs::write(&here, &pattern).unwrap();
    worked(&nbdkit(&[], &socket, &format!("nbdcopy --flush {here} $uri && nbdcopy $uri {back}")));
    assert!(
        std::fs::read(&back).unwrap() == pattern,
        "the bytes that came back differ from those that went in"
    );
    let direct = dir.path("direct");
    worked(
        &Command::new("nbdcopy").args([&format!("nbd+unix:///?socket={socket}"), &direct]).output().unwrap(),
    );
    assert!(std::fs::read(&direct).unwrap() == pattern, "the daemon has something else");
    // Writes over the pattern stay in nbdkit's filter.
    let zeroes = dir.path("zeroes");
    std::fs::write(&zeroes, vec![0; pattern.len()]).unwrap();
    let run = format!("nbdcopy --flush {zeroes} $uri && nbdcopy $uri {back}");
    worked(&nbdkit(&["--filter=cow"], &socket, &run));
    assert!(std::fs::read(&back).unwrap().iter().all(|byte| *byte == 0));
    worked(
        &Command::new("nbdcopy").args([&format!("nbd+unix:///?socket={socket}"), &direct]).output().unwrap(),
    );
    assert!(std::fs::read(&direct).unwrap() == pattern, "it went past the filter");
    daemon.end();
    let gone = nbdkit(&[], &socket, "nbdinfo $uri");
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(!gone.status.success() && said.contains("is the daemon running"), "{said}");
}
