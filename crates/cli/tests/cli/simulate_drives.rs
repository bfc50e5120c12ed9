//! `freeblock simulate --drives`: arrays, fleets, and traces of several devices.

use crate::support::{Dir, number, run, run_with};
use serde_json::Value;
use std::collections::BTreeMap;

fn drives(json: &Value) -> &[Value] {
    json["drives"].as_array().unwrap()
}

/// Returns the sum over the drives of the number at this path.
fn sum(json: &Value, path: &str) -> f64 {
    drives(json).iter().map(|drive| number(drive, path)).sum()
}

#[test]
fn an_array_runs_in_every_layout_and_place_with_results_of_each_drive_and_of_all() {
    // The numbers of commands for 600 requests of 4 KB, of which a third are writes: one command a request, but four for a write
    // to the mirror (of four drives) or to RAID 5. No request crosses the end of a stripe's unit.
    for (place, scan) in [("inside", true), ("outside", true), ("device", false)] {
        for (layout, commands) in
            [("concatenation", 600.0), ("stripe:64k", 600.0), ("mirror", 1_200.0), ("raid5:64k", 1_200.0)]
        {
            let background = if scan { "--background scan" } else { "" };
            let args = format!(
                "simulate --drives 4 --array {layout} --where {place} --rate 100 --requests 600 {background}"
            );
            let json = run(&format!("{args} --json")).json();
            assert_eq!(json["array"], layout);
            assert_eq!(drives(&json).len(), 4, "{args}");
            assert_eq!(number(&json, "/foreground/requests"), 600.0);
            let of_drives = sum(&json, "/foreground/requests");
            // Some commands may be under way at the end.
            assert!((of_drives / commands - 1.0).abs() < 0.12, "{args}: {of_drives}");
            let (blocks, free) = (number(&json, "/background/blocks"), number(&json, "/background/mb_per_s"));
            assert_eq!(blocks, sum(&json, "/background/blocks"));
            assert!(
                (free - sum(&json, "/background/mb_per_s")).abs() < 1e-6 && (free > 0.0) == scan,
                "{args}: {free}"
            );
            let seek = sum(&json, "/head_time/seek") / 4.0;
            assert!((number(&json, "/head_time/seek") - seek).abs() < 1e-9);
            assert_eq!(drives(&json)[0]["outside"].is_object(), place == "outside");
            let title = json["title"].as_str().unwrap();
            assert!(
                title.starts_with(&format!(
                    "4 x Quantum Atlas 10K (9 GB, 1999) ({layout}), random 4096 bytes"
                )),
                "{title}"
            );
            let page = run(&args).worked();
            let table = page.split("\nDrives\n").nth(1).unwrap();
            assert_eq!(table.lines().filter(|line| line.contains("quantum-atlas-10k")).count(), 4, "{page}");
            assert_eq!(table.contains("free MB/s"), scan, "{page}");
        }
    }
}

#[test]
fn an_array_of_one_drive_has_that_drives_results() {
    for place in ["inside", "outside", "device"] {
        let args = format!("simulate --where {place} --rate 60 --requests 500 --warmup 3s --every 2 --json");
        let (alone, array) = (run(&args).json(), run(&format!("{args} --drives 1")).json());
        for figure in ["mean_response_ms", "p99_response_ms", "sd_ms", "max_ms", "requests"] {
            assert_eq!(alone["foreground"][figure], array["foreground"][figure], "{place} {figure}");
        }
        assert_eq!(alone["warmup"], array["warmup"]);
        assert_eq!(alone["series"][1]["requests"], array["series"][1]["requests"]);
    }
}

#[test]
fn the_log_of_an_array_has_each_command_with_its_drive_and_its_request() {
    let dir = Dir::new();
    let log = dir.path("raid.csv");
    let json =
        run(&format!("simulate --drives 5 --array raid5:64k --rate 80 --requests 500 --json --log {log}"))
            .json();
    let text = std::fs::read_to_string(&log).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let at = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
    for (number_of, drive) in drives(&json).iter().enumerate() {
        let of_drive = rows.iter().filter(|row| at(row, 6) == number_of as u64).count();
        assert_eq!(of_drive as f64, number(drive, "/foreground/requests"), "drive {number_of}");
    }
    // A request lasts from the arrival of its first command to the completion of its last.
    let mut requests: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for row in &rows {
        let (arrival, completion) = (at(row, 0), at(row, 2));
        let whole = requests.entry(at(row, 12)).or_insert((arrival, completion));
        *whole = (whole.0.min(arrival), whole.1.max(completion));
    }
    // Commands of requests that were not done at the end are rows too.
    let mut took: Vec<u64> = requests.values().map(|(from, to)| to - from).collect();
    assert!((500..520).contains(&took.len()), "{}", took.len());
    took.sort_unstable();
    let longest = *took.last().unwrap() as f64 / 1e6;
    assert!((longest - number(&json, "/foreground/max_ms")).abs() < 1e-6, "{longest}");
}

#[test]
fn independent_drives_have_the_results_of_their_seeds_and_sums() {
    let args = "simulate --rate 60 --requests 400 --background scan --warmup 50 --json";
    let dir = Dir::new();
    let log = dir.path("fleet.csv");
    let fleet = run(&format!("{args} --drives 3 --independent --seed 5 --log {log}")).json();
    assert_eq!(fleet["array"], "independent");
    for (drive, seed) in drives(&fleet).iter().zip(5..) {
        let alone = run(&format!("{args} --seed {seed}")).json();
        assert_eq!((drive["seed"].as_u64(), &drive["foreground"]), (Some(seed), &alone["foreground"]));
        assert_eq!(drive["background"], alone["background"]);
    }
    assert_eq!(
        (number(&fleet, "/foreground/requests"), number(&fleet, "/warmup/requests")),
        (1_050.0, 150.0)
    );
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    near(number(&fleet, "/foreground/iops"), sum(&fleet, "/foreground/iops"));
    near(number(&fleet, "/foreground/reads/mb_per_s"), sum(&fleet, "/foreground/reads/mb_per_s"));
    near(number(&fleet, "/background/mb_per_s"), sum(&fleet, "/background/mb_per_s"));
    near(number(&fleet, "/foreground/mean_response_ms"), sum(&fleet, "/foreground/mean_response_ms") / 3.0);
    let longest = drives(&fleet).iter().map(|drive| number(drive, "/foreground/max_ms")).fold(0.0, f64::max);
    assert_eq!(number(&fleet, "/foreground/max_ms"), longest);
    let text = std::fs::read_to_string(&log).unwrap();
    for drive in ["0", "1", "2"] {
        assert_eq!(text.lines().filter(|line| line.split(',').nth(6) == Some(drive)).count(), 350);
    }
}

#[test]
fn a_file_names_drives_that_differ() {
    let dir = Dir::new();
    let names = dir
        .file("drives", "# two generations\nquantum-atlas-10k\n\n seagate-cheetah-9lp \nquantum-atlas-10k\n");
    let args = ["simulate", "--drives", &names, "--rate", "100", "--requests", "400"];
    let json = run_with(&[&args[..], &["--json", "--array", "mirror"]].concat()).json();
    let named: Vec<&str> = drives(&json).iter().map(|drive| drive["drive"].as_str().unwrap()).collect();
    assert_eq!(named, ["quantum-atlas-10k", "seagate-cheetah-9lp", "quantum-atlas-10k"]);
    let page = run_with(&args).worked();
    assert!(page.contains("2 x Quantum Atlas 10K (9 GB, 1999) + 1 x Seagate Cheetah 9LP ST39102LW (9 GB, 1997) (concatenation)"), "{page}");
    let fleet = run_with(&[&args[..], &["--independent", "--json"]].concat()).json();
    assert_eq!(number(&fleet, "/foreground/requests"), 1_200.0);
    for (text, words) in [("# none\n", "names no drive"), ("nosuch\n", "nosuch")] {
        let file = dir.file("wrong", text);
        let failed = run_with(&["simulate", "--drives", &file]);
        assert!(failed.err.contains(words), "{failed:?}");
    }
    run_with(&["simulate", "--drives", &dir.path("missing")])
        .complained(1, &["missing", "a number of drives"]);
}

#[test]
fn each_device_of_a_trace_has_a_drive_of_its_own() {
    let dir = Dir::new();
    let text: String =
        (0..300).map(|n| format!("{} {} {} 8 1\n", n * 10, [3, 7, 9, 7][n % 4], n * 7_919)).collect();
    let trace = dir.file("three.trace", &text);
    let log = dir.path("log.csv");
    let workload = format!("replay:{trace}");
    let args = ["simulate", "--workload", &workload, "--device", "each"];
    let json = run_with(&[&args[..], &["--drives", "3", "--json", "--log", &log]].concat()).json();
    let counts: Vec<f64> = drives(&json).iter().map(|drive| number(drive, "/foreground/requests")).collect();
    assert_eq!(counts, [75.0, 150.0, 75.0]);
    // On its drive a device keeps the addresses that it has in the trace.
    let log = std::fs::read_to_string(&log).unwrap();
    let mut places: Vec<(usize, usize)> = log
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|row| (row[6].parse().unwrap(), row[4].parse().unwrap()))
        .collect();
    places.sort_unstable();
    let mut expected: Vec<(usize, usize)> = (0..300).map(|n| ([0, 1, 2, 1][n % 4], n * 7_919)).collect();
    expected.sort_unstable();
    assert_eq!(places, expected);
    assert!(json["title"].as_str().unwrap().contains("each device on a drive of its own"), "{json}");
    run_with(&args).complained(2, &["--device each needs --drives"]);
    run_with(&[&args[..], &["--drives", "2"]].concat()).complained(1, &["3 devices", "--drives 3"]);
    let far = dir.file("far.trace", "0 1 99999999 8 1\n5 2 8 8 1\n");
    let far = format!("replay:{far}");
    run_with(&["simulate", "--workload", &far, "--device", "each", "--drives", "2"])
        .complained(1, &["device 1 needs 100000007 sectors", "drive 0", "larger drives"]);
}

#[test]
fn flags_that_do_not_go_with_several_drives_say_why() {
    let dir = Dir::new();
    let names = dir.file("names", "quantum-atlas-10k\nnearline-20tb\n");
    for (args, code, words) in [
        ("--array mirror", 2, ["--drives", ""]),
        ("--independent", 2, ["--drives", ""]),
        ("--drives 2 --independent --array mirror", 2, ["--array", ""]),
        ("--drives 0", 2, ["from 1 to 100000", "file"]),
        ("--drives -3", 2, ["from 1 to 100000", "file"]),
        ("--drives 2000", 2, ["1024 drives at most", "--independent"]),
        ("--drives 2 --array raid5:64k", 2, ["raid5:64k has 2 drives; give 3", "another number"]),
        ("--drives 2 --array raid6", 2, ["raid5:BYTES", "--array"]),
        ("--drives 4 --array stripe:700", 2, ["--array", "whole sectors"]),
        ("--drives 2 --policy smtf", 2, ["--policy smtf", "--independent"]),
        ("--drives 2 --workload utilisation:50", 2, ["utilisation", "--rate"]),
        ("--drives 2 --independent --seeds 3", 2, ["--seeds", "more --drives"]),
        ("--drives 2 --independent --every 5", 2, ["--every", "one drive at a time"]),
        ("--drives 2 --independent --workload replay:-", 2, ["standard input", "to a file first"]),
        ("--drives 2 --where device --background scan", 2, ["--background scan", "--where inside"]),
    ] {
        run(&format!("simulate {args}")).complained(code, &words);
    }
    run_with(&["simulate", "--drives", &names, "--drive", "mimic-base"])
        .complained(2, &["--drive", "the file names"]);
}

#[test]
fn seeds_of_an_array_average_each_drive() {
    let args = "simulate --drives 3 --array stripe:64k --rate 80 --requests 300 --json";
    let both: Vec<Value> = [42, 43].map(|seed| run(&format!("{args} --seed {seed}")).json()).into();
    let mean = run(&format!("{args} --seeds 2")).json();
    for drive in 0..3 {
        let path = format!("/drives/{drive}/foreground/mean_response_ms");
        let expected = (number(&both[0], &path) + number(&both[1], &path)) / 2.0;
        assert!((number(&mean, &path) - expected).abs() < 1e-9);
        // With two results, half the width is their distance times half the quantile for one degree of
        // freedom.
        let half = (number(&both[0], &path) - number(&both[1], &path)).abs() / 2.0 * 12.7062;
        let found = number(&mean, &format!("/seeds/half_width{path}"));
        assert!(half > 0.0 && (found - half).abs() < 1e-6 * half, "{found}, not {half}");
    }
    let page = run("simulate --drives 3 --array mirror --background scan --rate 80 --requests 200 --seeds 2")
        .worked();
    let drives: Vec<&str> = page.lines().skip_while(|line| *line != "Drives").collect();
    assert_eq!((drives.len(), drives[1].matches("95% interval").count()), (6, 5), "{page}");
    assert!(drives[3..].iter().all(|line| line.matches("+- ").count() == 5), "{page}");
}

/// The log says that the run has begun; 10^9 requests take hours.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_run_with_the_results_so_far() {
    use crate::support::command;
    use std::process::{Command, Stdio};
    for more in ["", "--drives 2 --independent"] {
        let dir = Dir::new();
        let log = dir.path("log.csv");
        let args = format!("simulate --requests 1000000000 --json --log {log} {more}");
        let mut child = command().args(args.split_whitespace()).stdout(Stdio::piped()).spawn().unwrap();
        while std::fs::metadata(&log).map_or(0, |file| file.len()) < 100_000 {
            assert_eq!(child.try_wait().unwrap(), None, "it has ended");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["interrupted"], true);
        let rows = std::fs::read_to_string(&log).unwrap().lines().count() - 1;
        assert_eq!(number(&json, "/foreground/requests"), rows as f64);
    }
    let whole = run("simulate --requests 100 --json").json();
    assert!(whole.get("interrupted").is_none());
}
