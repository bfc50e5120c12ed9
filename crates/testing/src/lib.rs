//! Helpers that the tests of all crates share: for what a test needs from the machine, for its size in the short and the long
//! tier (docs/TESTING.md), and the confidence [interval] of a mean over seeds.
//!
//! A test asks for each program, directory or ability of the kernel that a machine may lack, and returns if it is missing:
//! ```
//! fn a_client_reads_over_http() {
//!     if !testing::needs_program("curl") {
//!         return;
//!     }
//!     // ...
//! }
//! # a_client_reads_over_http();
//! ```
//! The test then prints `skipped: NAME needs curl` and passes; with `FREEBLOCK_REQUIRE=all`, as in CI, it fails instead.

#![allow(clippy::print_stderr, reason = "a test says why it is skipped")]

pub mod interval;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that makes each missing need a failure if it is `all`.
pub const REQUIRE: &str = "FREEBLOCK_REQUIRE";
/// The environment variable that [`in_own_process`] sets for the test's own process: the name of the test.
const OWN_PROCESS: &str = "FREEBLOCK_OWN_PROCESS";
/// The environment variable that selects the sizes of the long tier if it is set.
pub const LONG: &str = "FREEBLOCK_LONG";

/// Reports that the running test lacks `what`, and so checks nothing or only a part.
///
/// # Panics
/// With `FREEBLOCK_REQUIRE=all`.
#[track_caller]
pub fn missing(what: &str) {
    eprintln!("{}", lacks(what, std::env::var(REQUIRE).is_ok_and(|set| set == "all")));
}

#[track_caller]
#[expect(clippy::panic, reason = "this is how a test fails")]
fn lacks(what: &str, required: bool) -> String {
    // The harness names a test's thread after the test.
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread of this test");
    if required {
        panic!("{name} needs {what}, which is not here; install it, or unset {REQUIRE}");
    }
    format!("skipped: {name} needs {what}")
}

/// Returns `found`, and reports `what` as missing if it is false.
///
/// # Panics
/// If `found` is false, with `FREEBLOCK_REQUIRE=all`.
#[track_caller]
pub fn needs(what: &str, found: bool) -> bool {
    if !found {
        missing(what);
    }
    found
}

/// Returns whether a program is on the search path, in `/usr/sbin` or in `/sbin`, and reports it as missing if not.
///
/// # Panics
/// If it is missing, with `FREEBLOCK_REQUIRE=all`.
#[track_caller]
pub fn needs_program(name: &str) -> bool {
    needs(name, program(name).is_some())
}

/// Returns where a program is, on the search path or in `/usr/sbin` or `/sbin`, which the path of a user often lacks.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Returns a file or directory of `../shared`, beside the checkout: measured traces, parameter files of real drives, reference
/// answers. Reports it as missing if it is not there.
///
/// # Panics
/// If it is missing, with `FREEBLOCK_REQUIRE=all`.
#[track_caller]
#[must_use]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(name);
    needs(&format!("../shared/{name}"), path.exists()).then_some(path)
}

/// Runs the calling test again in a process of its own, for a test that measures its whole process. `test` is the name of the
/// test in its binary. Returns true in the new process. Returns false in the calling process once the test has passed; the
/// caller then has to return.
///
/// # Panics
/// If the test fails in the new process, with its output, or if no test has this name.
#[must_use]
#[expect(clippy::panic, clippy::unwrap_used, reason = "this is how a test fails")]
pub fn in_own_process(test: &str) -> bool {
    if std::env::var_os(OWN_PROCESS).is_some_and(|set| set == test) {
        return true;
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", test, "--nocapture"]).env(OWN_PROCESS, test).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.contains("1 passed") {
        panic!("{test} in a process of its own: {}\n{said}", output.status);
    }
    // The suite looks for `skipped: ` in the output, so pass on the output of the new process.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// Returns whether the long tier is running (`make test-long`, `make proofs-long`).
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// Returns a size by tier: `short` in `make test`, `long` in `make test-long`. The short size must still find the faults that
/// the test is there for.
#[must_use]
pub fn sized<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Returns the seed of tests that search new histories with each commit: the decimal number in `FREEBLOCK_TORTURE_SEED`, as
/// `freeblock torture --seed` takes it, or the first 16 hexadecimal digits of the commit's hash. Without either the seed is 1.
///
/// # Panics
/// If the variable is not a number of 64 bits in decimal.
#[must_use]
#[expect(clippy::panic, reason = "this is how a test fails")]
pub fn commit_seed() -> u64 {
    if let Some(said) = std::env::var("FREEBLOCK_TORTURE_SEED").ok().filter(|said| !said.is_empty()) {
        return said.parse().unwrap_or_else(|_| {
            panic!("FREEBLOCK_TORTURE_SEED: {said:?} is not a seed; give a decimal number of 64 bits")
        });
    }
    let commit = || {
        let git = ["rev-parse", "HEAD"];
        let out = Command::new("git").args(git).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        out.status.success().then(|| String::from_utf8(out.stdout).ok()).flatten()
    };
    let digits: String = commit().unwrap_or_default().trim().chars().take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(1)
}

/// Returns the cases of a test by tier: all of them in `make test-long`; in `make test` only `short` of them, the first one and
/// others at even distances. Each case keeps its size, so that the same is asserted of it in both tiers.
#[must_use]
pub fn some<T>(short: usize, cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let cases: Vec<T> = cases.into_iter().collect();
    if is_long() { cases } else { spread(short, cases) }
}

fn spread<T>(count: usize, cases: Vec<T>) -> Vec<T> {
    let all = cases.len();
    let first_of = |part: usize| part * all / count;
    let chosen: Vec<usize> = (0..count).map(first_of).collect();
    cases.into_iter().enumerate().filter(|(at, _)| chosen.contains(at)).map(|(_, case)| case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_need_is_skipped() {
        let said = lacks("a program", false);
        assert_eq!(said, "skipped: tests::a_missing_need_is_skipped needs a program");
    }

    #[test]
    #[should_panic(
        expected = "a_missing_need_fails_where_all_are_required needs a program that no machine has, which is not here"
    )]
    fn a_missing_need_fails_where_all_are_required() {
        lacks("a program that no machine has", true);
    }

    #[test]
    fn a_test_in_a_process_of_its_own_is_alone_there() {
        static LIVES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        LIVES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let alone = in_own_process("tests::a_test_in_a_process_of_its_own_is_alone_there");
        assert_eq!(LIVES.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(alone, std::env::var_os(OWN_PROCESS).is_some());
    }

    #[test]
    #[should_panic(expected = "tests::of_no_such_name in a process of its own")]
    fn a_process_that_runs_no_test_is_a_failure() {
        let _ = in_own_process("tests::of_no_such_name");
    }

    #[test]
    fn some_cases_are_spread_evenly() {
        assert_eq!(spread(2, (0..10).collect()), [0, 5]);
        assert_eq!(spread(4, (0..10).collect()), [0, 2, 5, 7]);
        assert_eq!(spread(1, vec!["a", "b"]), ["a"]);
        assert_eq!(spread(5, vec![1, 2]), [1, 2]);
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(needs_program("sh"));
        assert_eq!(program("freeblock-no-such-program"), None);
    }
}
