//! The ledger of claims, and docs/REPRODUCTION.md.

use crate::support::{Dir, run, run_with};
use std::fs;
use std::path::Path;

/// One of the fastest experiments, with exact numbers.
const ONE: &str = "osdi00-fig5";

#[test]
fn a_run_is_recorded_and_the_document_is_made_of_the_ledger_alone() {
    let dir = Dir::new();
    let [ledger, document, page] = ["claims.json", "claims.md", "page.html"].map(|name| dir.path(name));
    let record = ["--ledger", &ledger, "--markdown", &document];
    let report = ["lab", "report", ONE, "--quick", "-o", &page, "--commit", "c0ffee", "--date", "2026-01-31"];
    let said = run_with(&[&report[..], &record].concat()).worked();
    assert!(
        said.contains(&format!("wrote {ledger}\n")) && said.contains(&format!("wrote {document}\n")),
        "{said}"
    );
    let text = fs::read_to_string(&document).unwrap();
    assert!(text.contains("quick at c0ffee (2026-01-31)") && text.contains("| `osdi00-fig5` |"), "{text}");

    fs::remove_file(&document).unwrap();
    let said = run_with(&[&["lab", "report", "-o", &page][..], &record].concat()).worked();
    assert_eq!(said, format!("wrote {document}\n"), "nothing runs without --commit");
    assert_eq!(fs::read_to_string(&document).unwrap(), text);
}

#[test]
fn mistakes_with_a_ledger_are_named() {
    let dir = Dir::new();
    run("lab report osdi00-fig5 --markdown x.md").complained(2, &["--ledger"]);
    run("lab report osdi00-fig5 --ledger x.json --commit c0ffee").complained(2, &["--date"]);
    let missing = dir.path("missing.json");
    run_with(&["lab", "report", "--ledger", &missing])
        .complained(1, &["there is no ledger at", "give --commit and --date"]);
    let broken = dir.path("broken.json");
    fs::write(&broken, "{").unwrap();
    run_with(&["lab", "report", "--ledger", &broken]).complained(1, &["broken.json", "no ledger", "line 1"]);
    assert_eq!(fs::read_to_string(&broken).unwrap(), "{", "a file that is no ledger is left as it is");
}

#[test]
fn the_committed_document_is_the_one_that_the_committed_ledger_gives() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let ledger = docs.join("results/claims.json").to_str().unwrap().to_owned();
    let dir = Dir::new();
    let document = dir.path("REPRODUCTION.md");
    run_with(&["lab", "report", "--ledger", &ledger, "--markdown", &document]).worked();
    let [made, committed] =
        [document.into(), docs.join("REPRODUCTION.md")].map(|path| fs::read_to_string(path).unwrap());
    assert!(
        made == committed,
        "run `make reproduction`, or `freeblock lab report --ledger docs/results/claims.json --markdown docs/REPRODUCTION.md`"
    );
}
