//! `freeblock drive`.

use crate::support::{Dir, TINY_MODEL, TINY_SEEK, keys, number, run, run_with, shared};

#[test]
fn list_names_every_built_in_drive() {
    let shown = run("drive list").worked();
    let list = run("drive list --json").json();
    let drives = list.as_array().unwrap();
    assert!(drives.len() >= 15);
    for drive in drives {
        let name = drive["name"].as_str().unwrap();
        let row = shown.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        assert_eq!(row.contains('*'), drive["synthetic"].as_bool().unwrap(), "{row}");
    }
    let atlas = &drives[0];
    assert_eq!(
        keys(atlas),
        ["capacity_bytes", "cylinders", "heads", "name", "rpm", "sectors_per_track", "synthetic", "title"]
    );
    assert_eq!((&atlas["rpm"], &atlas["heads"]), (&10_025.into(), &6.into()));
    assert_eq!(atlas["sectors_per_track"], serde_json::json!({"least": 229, "most": 334}));
}

#[test]
fn show_prints_the_known_parameters() {
    let page = run("drive show quantum-atlas-10k").worked();
    for word in
        ["10025 rpm, 5.985 ms", "28.6 MB/s outermost", "0-432", "mean seek", "FAST 2002", "zero latency"]
    {
        assert!(page.contains(word), "no {word:?} in:\n{page}");
    }
    let json = run("drive show quantum-atlas-10k --json").json();
    assert!((number(&json, "/mean_seek_ms") - 5.6).abs() < 0.1);
    assert_eq!(number(&json, "/zones/0/sectors_per_track/most"), 334.0);
}

/// A probe that may only read has no times of writes, but a profile must have them.
#[test]
fn show_tells_that_writes_were_not_measured() {
    let dir = Dir::new();
    let text = run("drive show quantum-atlas-10k --toml").worked();
    let file =
        dir.file("read-only.toml", &text.replace("write_back = \"always\"", "write_back = \"unknown\""));
    let page = run_with(&["drive", "show", &file]).worked();
    assert!(page.contains("write settle  not measured"), "{page}");
    assert!(page.contains("electronics   known, but for writes"), "{page}");
    assert_eq!(run_with(&["drive", "show", &file, "--json"]).json()["writes_measured"], false);
}

#[test]
fn a_shown_profile_is_a_profile_again() {
    let dir = Dir::new();
    let text = run("drive show quantum-atlas-10k --toml").worked();
    assert!(text.starts_with("# The Quantum Atlas 10K"));
    let file = dir.file("mine.toml", &text);
    assert_eq!(
        run_with(&["drive", "show", &file, "--json"]).worked(),
        run("drive show quantum-atlas-10k --json").worked()
    );
    assert_eq!(run_with(&["drive", "show", &file, "--toml"]).worked(), text);
}

#[test]
fn import_prints_a_profile_and_notes() {
    let dir = Dir::new();
    dir.file("tiny.seek", TINY_SEEK);
    let model = dir.file("tiny.model", TINY_MODEL);
    let to_stdout = run_with(&["drive", "import", &model]);
    assert_eq!(to_stdout.code, Some(0), "{}", to_stdout.err);
    // 200 cylinders of 2 tracks of 40 sectors are four times the number that the file declares.
    assert!(to_stdout.err.contains("note: `Block count` declares 4000 sectors and the layout maps 16000"));
    assert!(to_stdout.out.contains("name = \"tiny\""));

    let output = dir.path("out.toml");
    let to_file = run_with(&["drive", "import", &model, "-o", &output, "--name", "mine"]);
    assert_eq!((to_file.code, to_file.out.as_str()), (Some(0), ""));
    let written = std::fs::read_to_string(&output).unwrap();
    assert_eq!(written, to_stdout.out.replace("name = \"tiny\"", "name = \"mine\""));
    assert_eq!(dir.names(), ["out.toml", "tiny.model", "tiny.seek"]);

    let result = run_with(&["simulate", "--drive", &output, "--requests", "100", "--json"]).json();
    assert_eq!(number(&result, "/foreground/requests"), 100.0);
    let direct = run_with(&["drive", "show", &model, "--json"]).json();
    assert_eq!(number(&direct, "/capacity_sectors"), 16_000.0);
}

#[test]
fn import_takes_the_disk_that_is_named() {
    let dir = Dir::new();
    dir.file("tiny.seek", TINY_SEEK);
    let name = TINY_MODEL.split_whitespace().nth(1).unwrap();
    let other = TINY_MODEL.replacen(name, "other", 1);
    let both = dir.file("both.model", &format!("{TINY_MODEL}\n{other}"));
    run_with(&["drive", "import", &both]).complained(1, &["other", "--disk NAME"]);
    run_with(&["drive", "import", &both, "--disk", "third"])
        .complained(1, &["no disk is called `third`", "other"]);
    let chosen = run_with(&["drive", "import", &both, "--disk", "other"]);
    assert_eq!(chosen.code, Some(0), "{}", chosen.err);
    assert!(chosen.out.contains("name = \"other\""), "{}", chosen.out);
}

#[test]
fn import_replaces_a_file_whole_or_not_at_all() {
    let dir = Dir::new();
    let model = dir.file("tiny.model", TINY_MODEL);
    let output = dir.file("out.toml", "old\n");
    // The seek curve is missing.
    run_with(&["drive", "import", &model, "-o", &output]).complained(1, &["tiny.model:10", "tiny.seek"]);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "old\n");
    dir.file("tiny.seek", TINY_SEEK);
    assert_eq!(run_with(&["drive", "import", &model, "-o", &output]).code, Some(0));
    assert!(std::fs::read_to_string(&output).unwrap().starts_with("format = 1"));
    assert_eq!(dir.names(), ["out.toml", "tiny.model", "tiny.seek"]);
}

#[test]
fn import_refuses_an_output_that_it_cannot_write() {
    let dir = Dir::new();
    dir.file("tiny.seek", TINY_SEEK);
    let model = dir.file("tiny.model", TINY_MODEL);
    let nowhere = dir.path("missing/out.toml");
    run_with(&["drive", "import", &model, "-o", &nowhere])
        .complained(1, &["cannot write", "out.toml", "directory"]);
    let directory = dir.path("");
    run_with(&["drive", "import", &model, "-o", &directory]).complained(1, &["not a regular file"]);
    run_with(&["drive", "import", &model, "--name", "Mine!"]).complained(2, &["lower-case letters"]);
    assert_eq!(dir.names(), ["tiny.model", "tiny.seek"]);
}

#[test]
fn import_does_not_overwrite_its_input() {
    let dir = Dir::new();
    let seek = dir.file("tiny.seek", TINY_SEEK);
    let model = dir.file("tiny.model", TINY_MODEL);
    std::fs::create_dir(dir.path("sub")).unwrap();
    let roundabout = dir.path("sub/../tiny.model");
    for output in [&model, &seek, &roundabout] {
        run_with(&["drive", "import", &model, "-o", output])
            .complained(2, &["would write over", "leave out -o"]);
    }
    assert_eq!(std::fs::read_to_string(&model).unwrap(), TINY_MODEL);
    assert_eq!(std::fs::read_to_string(&seek).unwrap(), TINY_SEEK);
    assert_eq!(dir.names(), ["sub", "tiny.model", "tiny.seek"]);
}

const VALIDATE: [&str; 7] =
    ["cdf", "classes", "demerit_ms", "model_mean_ms", "per_request_rms_ms", "requests", "trace_mean_ms"];

#[test]
fn validate_compares_times() {
    let dir = Dir::new();
    let trace =
        dir.file("few.trace", "R Hit 1000 8 9000.0 500.0\nW Hit 500000 16 1000.0 100.0\nR Hit 9 1 800 0\n");
    let args = ["drive", "validate", "quantum-atlas-10k", "--trace", &trace];
    let json = run_with(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(keys(&json), VALIDATE);
    assert_eq!(number(&json, "/requests"), 3.0);
    assert!((number(&json, "/trace_mean_ms") - 3.6).abs() < 1e-9);
    let page = run_with(&args).worked();
    assert!(page.contains("demerit figure") && page.contains("after a read"), "{page}");
}

#[test]
fn validate_refuses_a_trace_without_measured_times() {
    let dir = Dir::new();
    let untimed = dir.file("ascii.trace", "0.5 0 1 2 1\n");
    run_with(&["drive", "validate", "quantum-atlas-10k", "--trace", &untimed])
        .complained(1, &["DiskSim ascii", "how long requests took", "DiskSim validate"]);
    let past = dir.file("past.trace", "R Hit 8 8 1 1\nR Hit 99999999999 8 1 1\n");
    run_with(&["drive", "validate", "quantum-atlas-10k", "--trace", &past])
        .complained(1, &["record 2 (99999999999+8)", "taken on this drive"]);
}

#[test]
fn the_real_drives_are_close_to_their_traces() {
    let Some(trace) = shared("drives/traces/atlas10k.trace") else { return };
    let Some(parv) = shared("drives/disksim/atlas10k.parv") else { return };
    for drive in ["quantum-atlas-10k", &parv] {
        let json = run_with(&["drive", "validate", drive, "--trace", &trace, "--json"]).json();
        assert_eq!(keys(&json), VALIDATE);
        assert!(number(&json, "/demerit_ms") / number(&json, "/trace_mean_ms") < 0.05, "{drive}: {json}");
    }
}

#[test]
fn the_papers_drive_can_be_imported() {
    let Some(parv) = shared("drives/disksim/atlas10k.parv") else { return };
    let imported = run_with(&["drive", "import", &parv]);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    assert!(imported.out.contains("rpm = 10025") && imported.err.starts_with("note: "));
}

#[cfg(target_os = "linux")]
#[test]
fn inspect_refuses_other_files_and_says_what_to_name() {
    run("inspect /dev/null").complained(1, &["/dev/null: not a block device", "/dev/sdb"]);
    run("inspect /nonexistent/sdb --json").complained(1, &["/nonexistent/sdb", "/dev/sdb"]);
    run("inspect").complained(2, &["DEVICE"]);
}
