//! The scripts for operators in docs/SERVE.md, run as written.

use crate::support::Dir;
use std::path::Path;
use std::process::Command;

#[test]
fn the_tour_of_the_operators_page_runs_as_it_stands() {
    if device::Ring::new().is_err() {
        testing::missing("io_uring");
        return;
    }
    if !testing::needs_program("curl") {
        return;
    }
    let (out, err) = run("## A tour, without a hard disk");
    for said in [
        "scrub 1 of d0 is done",
        "backup 2 of d0 is ",
        "freeblock_background_idle_bytes_total{disk=\"d0\"}",
        "backup 2 of d0 is cancelled",
        "  background  0.0 MB in gaps",
    ] {
        assert!(out.contains(said), "no {said:?} in:\n{out}{err}");
    }
}

#[test]
fn the_lines_that_make_a_backup_free_run_as_they_stand() {
    if device::Ring::new().is_err() {
        testing::missing("io_uring");
        return;
    }
    if !(testing::needs_program("nbdinfo") && testing::needs_program("qemu-img")) {
        return;
    }
    let section = "## Make your own backups free";
    assert_eq!(script(section).lines().count(), 10);
    let (out, err) = run(section);
    for said in ["9199079936\n", "  export      background: ", " MB; 0 waiting", "  floor       1 MB/s: "] {
        assert!(out.contains(said), "no {said:?} in:\n{out}{err}");
    }
}

/// Returns the script of a section of the page.
fn script(section: &str) -> &'static str {
    let page = include_str!("../../../../docs/SERVE.md");
    let section = page.split(&format!("{section}\n")).nth(1).unwrap();
    section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
}

/// Runs the script of a section of the page in an empty directory; returns its output.
fn run(section: &str) -> (String, String) {
    let tour = script(section);
    let here = Dir::new();
    let binaries = Path::new(env!("CARGO_BIN_EXE_freeblock")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    // The daemon of a tour that stops half way must not stay behind.
    let script = format!("trap 'kill $daemon 2>/dev/null || true' EXIT\n{tour}");
    let output = Command::new("bash")
        .args(["-eu", "-c", &script])
        .env("PATH", path)
        .current_dir(here.path("."))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{out}{err}");
    (out, err)
}
