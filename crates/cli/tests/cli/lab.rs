//! `freeblock lab`.

use crate::support::{Dir, command, keys, run, run_with, shared};
use serde_json::Value;

/// One of the fastest experiments, with exact numbers.
const ONE: &str = "osdi00-fig5";

fn ids() -> Vec<String> {
    let list = run("lab list --json").json();
    let id = |entry: &Value| entry["id"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(id).collect()
}

#[test]
fn the_list_names_every_experiment_and_its_claims() {
    let list = run("lab list --json").json();
    let entries = list.as_array().unwrap();
    assert!(!entries.is_empty());
    let page = run("lab list").worked();
    for entry in entries {
        assert_eq!(keys(entry), ["claims", "id", "paper", "reproduces", "set_up", "timed", "title"]);
        assert!(page.contains(entry["id"].as_str().unwrap()), "{page}");
        for claim in entry["claims"].as_array().unwrap() {
            assert!(page.contains(claim.as_str().unwrap()), "{page}");
        }
    }
    let places: Vec<_> = ["osdi00-fig2", ONE].map(|id| ids().iter().position(|i| i == id).unwrap()).into();
    assert!(places.is_sorted());
}

#[test]
fn claims_are_checked_with_the_agreed_keys() {
    let run = run(&format!("lab check {ONE} --quick --json"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    let checked = run.json();
    assert_eq!(keys(&checked), ["claims"]);
    let claims = checked["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 1);
    assert_eq!(keys(&claims[0]), ["band", "holds", "id", "measures", "note", "ours", "paper"]);
    assert_eq!((claims[0]["id"].as_str(), claims[0]["holds"].as_bool()), (Some(ONE), Some(true)));
    assert!(claims[0]["ours"].is_string() && claims[0]["band"].is_string());
    for measure in claims[0]["measures"].as_array().unwrap() {
        assert_eq!(keys(measure), ["band", "holds", "ours", "unit", "what"]);
    }
    let page = self::run(&format!("lab check {ONE} --quick --exact --jobs 1")).worked();
    assert!(page.ends_with("1 of 1 claim holds\n"), "{page}");
    for head in ["id", "paper", "ours", "band", "holds"] {
        assert!(page.lines().next().unwrap().contains(head), "{page}");
    }
}

#[test]
fn the_number_of_jobs_changes_nothing() {
    let with = |jobs: &str| run(&format!("lab check {ONE} --quick --seed 7 --json --jobs {jobs}")).worked();
    assert_eq!(with("1"), with("3"));
}

#[test]
fn names_may_be_abbreviated_and_errors_name_the_nearest() {
    let page = run("lab check osdi00-fig5 --quick").worked();
    assert!(page.contains(ONE));
    for verb in ["run", "check", "report"] {
        run(&format!("lab {verb} osdi00-fig55 --quick"))
            .complained(2, &["no experiment is called `osdi00-fig55`", "did you mean osdi00-fig5"]);
        run(&format!("lab {verb} nonsense --quick")).complained(2, &["freeblock lab list"]);
    }
    run("lab check osdi00-fig5 --jobs 0").complained(2, &["a whole number from 1 to 1024"]);
    run("lab check osdi00-fig5 --seed x").complained(2, &["a whole number from 0"]);
    run("lab").complained(2, &["Usage"]);
}

#[test]
fn a_run_writes_its_files_and_goes_on_where_it_was() {
    let dir = Dir::new();
    let out = dir.path("a/b");
    let args = ["lab", "run", ONE, "--quick", "--seed", "3", "-o", &out];
    let page = run_with(&args).worked();
    let (json, svg) = (format!("{out}/{ONE}.json"), format!("{out}/{ONE}.svg"));
    for said in [&json, &svg, "FCFS", "rotation", "freeblock lab run osdi00-fig5 --quick --seed 3"] {
        assert!(page.contains(said), "no {said:?} in:\n{page}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [format!("{ONE}.figure.json"), format!("{ONE}.json"), format!("{ONE}.svg")]);
    let figure: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{out}/{ONE}.figure.json")).unwrap()).unwrap();
    assert_eq!(figure["id"], ONE);
    let first = std::fs::read_to_string(&json).unwrap();
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg "));

    // A mark in the file shows whether it is kept: with --resume it is, and with another seed it is replaced.
    let mut marked: Value = serde_json::from_str(&first).unwrap();
    marked["notes"] = Value::from(vec!["kept"]);
    std::fs::write(&json, marked.to_string()).unwrap();
    let again = run_with(&[&args[..], &["--resume"]].concat()).worked();
    assert!(again.contains("before") && again.contains("note: kept"), "{again}");
    let page = dir.path("page.html");
    let resume = format!("--resume={out}");
    run_with(&["lab", "report", ONE, "--quick", "--seed", "3", &resume, "-o", &page]).worked();
    assert!(std::fs::read_to_string(&page).unwrap().contains("<li>kept</li>"));
    run_with(&args).worked();
    assert_eq!(std::fs::read_to_string(&json).unwrap(), first, "the same seed gives the same file");
    let other = ["lab", "run", ONE, "--quick", "--seed", "4", "-o", &out, "--resume"];
    assert!(!run_with(&other).worked().contains("before"));

    // A file that is no result is reported as such.
    std::fs::write(&json, &first[..first.len() / 2]).unwrap();
    let again = run_with(&[&args[..], &["--resume"]].concat());
    assert_eq!(again.code, Some(0));
    assert!(again.err.contains("no saved outcome") && again.err.contains("runs again"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&json).unwrap(), first);
}

#[test]
fn the_report_is_one_page_that_needs_nothing() {
    let dir = Dir::new();
    let file = dir.path("made/page.html");
    let said = run_with(&["lab", "report", ONE, "osdi00-fig2", "--quick", "-o", &file]).worked();
    assert_eq!(said, format!("wrote {file}: 2 of 2 claims hold\n"));
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for outside in ["http", "src=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for id in [ONE, "osdi00-fig2"] {
        let section = format!("<section id=\"{id}\">");
        let command = format!("freeblock lab run {id} --quick --seed 42");
        for part in [&section, &command] {
            assert_eq!(page.matches(part.as_str()).count(), 1, "{part}");
        }
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn an_unwritable_place_is_reported_before_the_run() {
    let dir = Dir::new();
    let file = dir.file("file", "");
    run_with(&["lab", "run", "-o", &format!("{file}/under")])
        .complained(1, &["cannot make the directory", "-o"]);
    run_with(&["lab", "report", "-o", &format!("{file}/page.html")])
        .complained(1, &["cannot make the directory"]);
    // The command is refused before the experiments run, which would take minutes.
    run_with(&["lab", "report", "-o", &dir.path("")])
        .complained(1, &["is not a regular file", "name another file"]);
    assert_eq!(dir.names(), ["file"]);
}

#[test]
fn an_empty_list_of_known_failures_is_refused() {
    let dir = Dir::new();
    let known = dir.file("known.toml", "");
    // All experiments at full size would take minutes.
    run_with(&["lab", "check", "--known", &known, "--quick"])
        .complained(1, &["known.toml names no measure", "leave --known out"]);
}

#[test]
fn results_go_to_a_directory_of_their_own() {
    let dir = Dir::new();
    let output = command().args(["lab", "run", ONE, "--quick"]).current_dir(dir.path("")).output().unwrap();
    assert_eq!((output.status.code(), dir.names()), (Some(0), vec!["lab".to_owned()]));
}

#[test]
fn a_report_has_the_table_of_drives_held_against_their_traces() {
    let Some(trace) = shared("drives/traces/atlas10k.trace") else { return };
    let dir = Dir::new();
    let page = dir.path("page.html");
    let measured = format!("quantum-atlas-10k={trace}");
    run_with(&["lab", "report", ONE, "--quick", "-o", &page, "--validate", &measured]).worked();
    let text = std::fs::read_to_string(&page).unwrap();
    let (_, table) = text.split_once("<h2>Drives held against traces of real ones</h2>").unwrap();
    let row = "<td>Quantum Atlas 10K (9 GB, 1999)</td><td>10000</td><td>0.073</td>";
    assert!(table.contains(row), "{}", &table[..900]);
    // The page shows the command that makes the whole page.
    let command = format!("<pre>freeblock lab report {ONE} --quick --seed 42 --validate {measured}</pre>");
    assert!(text.contains(&command), "{}", &text[..4_000]);
    run_with(&["lab", "report", ONE, "--quick", "-o", &page, "--validate", "atlas"])
        .complained(2, &["--validate", "quantum-atlas-10k=atlas10k.trace"]);
    run_with(&["lab", "report", ONE, "--quick", "-o", &page, "--validate", "quantum-atlas-10k=/nonexistent"])
        .complained(1, &["/nonexistent"]);
}
