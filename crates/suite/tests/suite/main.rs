//! The runner on test binaries that are shell scripts: they list tests and run one, as Rust's harness does.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod documents;
mod examples;
mod packages;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A test binary as a shell script: each test does what its name says, and one is ignored.
const SCRIPT: &str = r#"#!/bin/sh
case "$1 $2 $3 $4" in
  *--ignored*) echo 'ignored: test' ;;
  --list*) for test in passes fails skips kills works ignored; do echo "$test: test"; done ;;
  *" passes "*|*" ignored "*) echo "FREEBLOCK_LONG is ${FREEBLOCK_LONG-unset}"; echo 'test result: ok. 1 passed; 0 failed' ;;
  *" skips "*) echo 'skipped: skips needs a teapot'; echo 'test result: ok. 1 passed; 0 failed' ;;
  *" fails "*) echo 'the reason for which it failed'; exit 101 ;;
  *" kills "*) kill -9 $$ ;;
  *" works "*) i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo 'test result: ok. 1 passed; 0 failed' ;;
esac
"#;

struct Suite {
    directory: PathBuf,
}

impl Suite {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("freeblock-suite-{}-{test}", std::process::id()));
        std::fs::create_dir_all(directory.join("made")).unwrap();
        std::fs::write(directory.join("long.txt"), "").unwrap();
        std::fs::write(directory.join("waits.txt"), "made/tests::works it is slow").unwrap();
        std::fs::write(directory.join("alone.txt"), "").unwrap();
        let suite = Self { directory };
        suite.program("script", SCRIPT);
        suite.program("git", "#!/bin/sh\n[ \"$1\" != rev-parse ] || cat \"$(dirname \"$0\")/commit\"\n");
        suite.at_commit("aaaa")
    }

    /// Puts a program where the runner finds it first.
    fn program(&self, name: &str, text: &str) {
        let file = self.directory.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn at_commit(self, commit: &str) -> Self {
        std::fs::write(self.directory.join("commit"), commit).unwrap();
        self
    }

    fn long(self, list: &str) -> Self {
        std::fs::write(self.directory.join("long.txt"), list).unwrap();
        self
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let at = self.directory.display();
        let messages = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"{at}/made/Cargo.toml","target":{{"kind":["test"],"name":"made"}},"profile":{{"test":true}},"executable":"{at}/script"}}
{{"reason":"compiler-artifact","manifest_path":"{at}/made/Cargo.toml","target":{{"kind":["bin"],"name":"made"}},"profile":{{"test":false}},"executable":"{at}/made/none"}}
{{"reason":"build-finished","success":true}}
"#
        );
        let mut child = Command::new(env!("CARGO_BIN_EXE_suite"))
            .args(arguments)
            .arg("--lists")
            .arg(&self.directory)
            .env_remove("FREEBLOCK_LONG")
            .env("PATH", format!("{at}:{}", std::env::var("PATH").unwrap()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(messages.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        (status.code(), [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat())
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

#[test]
fn one_failure_fails_the_suite_and_is_shown() {
    let suite = Suite::new("fails");
    let (code, said) = suite.run(&["short"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("---- made/tests::fails ----\nthe reason for which it failed\n"), "{said}");
    assert!(said.contains("---- made/tests::kills ----\n(signal: 9"), "{said}");
    assert!(said.contains("\n3 passed, 2 failed\n"), "{said}");
    assert!(said.contains("skipped: skips needs a teapot"), "{said}");
}

#[test]
fn a_passing_check_passes() {
    let (code, said) = Suite::new("passes").run(&["short", "passes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\n1 passed, 0 failed\n"), "{said}");
}

#[test]
fn the_slowest_test_stands_first_with_its_processor_time() {
    let suite = Suite::new("slowest").long("made/tests::fails it fails\nmade/tests::kills it is killed");
    let (code, said) = suite.run(&["short"]);
    assert_eq!(code, Some(0), "{said}");
    let table = said.split("in seconds of processor time:\n").nth(1).unwrap();
    let (time, name) = table.lines().next().unwrap().trim().split_once("  ").unwrap();
    assert_eq!(name, "made/tests::works", "{said}");
    assert!(time.parse::<f64>().unwrap() > 0.0, "{said}");
}

#[test]
fn the_short_tier_leaves_out_what_is_listed_or_ignored_and_the_long_one_runs_it() {
    let suite = Suite::new("tiers").long("made/tests::fails it fails\nmade/tests::kills it is killed");
    let (_, short) = suite.run(&["short"]);
    assert!(short.starts_with("3 tests of 6, in 1 binaries\n"), "{short}");
    let (code, long) = suite.run(&["long"]);
    assert!(long.starts_with("6 tests of 6, in 1 binaries\n"), "{long}");
    assert_eq!(code, Some(1), "{long}");
}

#[test]
fn a_listed_test_that_is_gone_is_an_error() {
    let suite = Suite::new("gone").long("made/tests::no_such_test of old");
    let (code, said) = suite.run(&["short"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there is no test made/tests::no_such_test; correct the name"), "{said}");
}

#[test]
fn a_table_is_kept_and_changes_since_are_named() {
    let suite = Suite::new("kept").long("made/tests::fails it fails\nmade/tests::kills it is killed");
    let file = suite.directory.join("table.tsv");
    let table = || std::fs::read_to_string(&file).unwrap();
    let arguments = ["short", "--results", file.to_str().unwrap()];
    assert_eq!(suite.run(&arguments).0, Some(0));
    assert!(table().starts_with("# short tier, "), "{}", table());
    let row = |result: &str, commit: &str, test: &str| {
        let mut rows = table().lines().map(str::to_owned).collect::<Vec<_>>();
        rows.retain(|row| row.starts_with(&format!("{result}\t")) && row.contains(&format!("\t{commit}\t")));
        rows.iter().any(|row| row.ends_with(&format!("\tmade/tests::{test}")))
    };
    assert!(row("passed", "aaaa", "passes"), "{}", table());
    std::fs::write(&file, table().replace("made/tests::passes", "made/tests::was")).unwrap();
    let suite = suite.at_commit("bbbb");
    let (_, said) = suite.run(&arguments);
    assert!(said.contains("  new: made/tests::passes (passed)\n  gone: made/tests::was\n"), "{said}");
    // The table of results has a row for a failed test, too.
    let (code, said) = suite.run(&["long", "--results", file.to_str().unwrap(), "fails"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("  new: made/tests::fails (failed)\n"), "{said}");
    assert!(row("failed", "bbbb", "fails") && row("passed", "bbbb", "passes"), "{}", table());
}

#[test]
fn a_run_goes_on_where_the_last_one_of_its_commit_was_stopped() {
    const STOPS: &str = r#"#!/bin/sh
case "$1 $2 $3 $4" in
  *--ignored*) exit ;;
  *--list*) for test in first stops then; do echo "$test: test"; done; exit ;;
  *" stops "*) [ -e "$0.stopped" ] || {
    : >"$0.stopped"
    until grep -qs 'first$' TABLE; do sleep 0.01; done # the row of the test before is written beside this one's start
    kill -9 $PPID
    exit 1
  } ;;
esac
echo 'test result: ok. 1 passed; 0 failed'
"#;
    let suite = Suite::new("stopped");
    let file = suite.directory.join("table.tsv");
    suite.program("script", &STOPS.replace("TABLE", &format!("'{}'", file.display())));
    std::fs::write(suite.directory.join("waits.txt"), "").unwrap();
    // The tests run one after another.
    let alone =
        ["first", "stops", "then"].map(|test| format!("made/tests::{test} it is in order\n")).concat();
    std::fs::write(suite.directory.join("alone.txt"), alone).unwrap();
    let arguments = ["long", "--results", file.to_str().unwrap()];
    assert_eq!(suite.run(&arguments).0, None, "it was killed");
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("\tmade/tests::first\n"));
    let (code, said) = suite.run(&arguments);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 have a row of commit aaaa, and do not run again\n"), "{said}");
    assert!(said.contains("\n2 passed, 0 failed\n"), "{said}");
    let suite = suite.at_commit("bbbb");
    let (_, said) = suite.run(&arguments);
    assert!(said.contains("\n3 passed, 0 failed\n"), "{said}");
}

#[test]
fn a_failure_before_a_run_was_stopped_fails_the_run_that_goes_on() {
    let suite = Suite::new("failed-before");
    let file = suite.directory.join("table.tsv");
    let arguments = ["short", "--results", file.to_str().unwrap()];
    assert_eq!(suite.run(&arguments).0, Some(1));
    let (code, said) = suite.run(&arguments);
    assert!(said.contains("\n0 passed, 0 failed\n"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("the table has 2 tests that passed, 1 that were skipped and 2 that failed"),
        "{said}"
    );
}

#[test]
fn a_name_that_no_test_has_is_an_error() {
    let (code, said) = Suite::new("none").run(&["short", "nowhere"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no test has \"nowhere\" in its name"), "{said}");
}

#[test]
fn times_of_tests_that_did_not_run_again_are_kept() {
    let suite = Suite::new("times").long("made/tests::fails it fails\nmade/tests::kills it is killed");
    let file = suite.directory.join("times.tsv");
    // A table of times that another version of the runner has written is replaced.
    std::fs::write(&file, "in another form\n").unwrap();
    assert_eq!(suite.run(&["short", "--times", file.to_str().unwrap()]).0, Some(0));
    assert_eq!(suite.run(&["short", "--times", file.to_str().unwrap(), "passes"]).0, Some(0));
    let times = std::fs::read_to_string(&file).unwrap();
    for name in ["passes", "skips", "works"] {
        assert_eq!(times.matches(&format!("\tmade/tests::{name}\n")).count(), 1, "{times}");
    }
}

/// Each of two tests waits until the other one has begun.
#[test]
fn tests_run_at_the_same_time() {
    const MEET: &str = r#"#!/bin/sh
case "$1 $2 $3 $4" in
  *--ignored*) exit ;;
  *--list*) for test in left right; do echo "$test: test"; done; exit ;;
  *" left "*) mine=left; other=right ;;
  *" right "*) mine=right; other=left ;;
esac
: >"$0.$mine"; i=0
while [ ! -e "$0.$other" ]; do i=$((i + 1)); [ $i -lt 2000 ] || exit 1; sleep 0.01; done
echo 'test result: ok. 1 passed; 0 failed'
"#;
    let suite = Suite::new("meet");
    std::fs::write(suite.directory.join("script"), MEET).unwrap();
    std::fs::write(suite.directory.join("waits.txt"), "").unwrap();
    std::fs::write(suite.directory.join("alone.txt"), "").unwrap();
    let (code, said) = suite.run(&["short"]);
    assert_eq!(code, Some(0), "{said}");
}

/// One test measures for a fifth of a second, and fails if the other one begins meanwhile.
#[test]
fn a_test_that_measures_this_machine_runs_before_the_others() {
    const MEASURE: &str = r#"#!/bin/sh
case "$1 $2 $3 $4" in
  *--ignored*) exit ;;
  *--list*) for test in other measures; do echo "$test: test"; done; exit ;;
  *" other "*) : >"$0.other" ;;
  *" measures "*) sleep 0.2; [ ! -e "$0.other" ] || exit 1 ;;
esac
echo 'test result: ok. 1 passed; 0 failed'
"#;
    let suite = Suite::new("measure");
    std::fs::write(suite.directory.join("script"), MEASURE).unwrap();
    std::fs::write(suite.directory.join("waits.txt"), "").unwrap();
    std::fs::write(suite.directory.join("alone.txt"), "made/tests::measures it measures").unwrap();
    let (code, said) = suite.run(&["short"]);
    assert_eq!(code, Some(0), "{said}");
}
