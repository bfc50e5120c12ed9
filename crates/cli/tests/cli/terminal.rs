//! Pipes, help, and sequences that terminals must not get.

use crate::support::{command, run};
use std::io::Read;
use std::process::Stdio;

#[test]
fn nothing_in_a_pipe_has_colours() {
    for args in [
        "--help",
        "drive list",
        "drive show mimic-base",
        "simulate --requests 100",
        "simulate --help",
        "simulate --drive nowhere",
        "simulate --requests x",
        "lab list",
        "lab check osdi00-fig5 --quick",
        "lab check nowhere",
    ] {
        let run = run(args);
        assert!(!run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'), "{args}: {run:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = command()
        .args(["drive", "show", "quantum-atlas-10k", "--toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command().args(["drive", "list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write to standard output"));
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in
        ["", "drive", "drive list", "drive show", "drive import", "drive validate", "simulate", "demo"]
            .into_iter()
            .chain(["lab", "lab list", "lab run", "lab check", "lab report"])
            .chain(["mimic", "mimic probe", "mimic show", "mimic check"])
    {
        let help = run(&format!("{command} --help")).worked();
        let example = format!("freeblock {command}");
        assert!(help.contains("Example"), "{help}");
        assert!(help.split("Example").last().unwrap().contains(example.trim_end()), "{help}");
    }
}

#[test]
fn the_version_is_printed() {
    assert_eq!(run("--version").worked(), format!("freeblock {}\n", env!("CARGO_PKG_VERSION")));
}
