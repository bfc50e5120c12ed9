//! `freeblock simulate`.

use crate::support::{Dir, keys, number, run, run_with};
use serde_json::Value;

#[test]
fn json_has_the_keys_that_scripts_read() {
    let json = run("simulate --requests 200 --json").json();
    assert_eq!(
        keys(&json),
        [
            "background",
            "behaviour",
            "foreground",
            "head_time",
            "seed",
            "simulated_s",
            "title",
            "wall_s",
            "where"
        ]
    );
    assert_eq!(
        keys(&json["foreground"]),
        [
            "iops",
            "max_ms",
            "mb_per_s",
            "mean_access_ms",
            "mean_response_ms",
            "p50_ms",
            "p90_ms",
            "p95_ms",
            "p999_ms",
            "p99_response_ms",
            "queue_length",
            "queue_length_max",
            "reads",
            "requests",
            "sd_ms",
            "utilisation",
            "writes"
        ]
    );
    assert_eq!(
        keys(&json["foreground"]["reads"]),
        [
            "iops", "max_ms", "mb_per_s", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p999_ms", "p99_ms",
            "requests", "sd_ms"
        ]
    );
    assert_eq!(keys(&json["foreground"]["reads"]), keys(&json["foreground"]["writes"]));
    assert_eq!(
        keys(&json["head_time"]),
        ["extra_seek", "free_transfer", "idle", "rotation", "seek", "transfer"]
    );
    assert_eq!(
        keys(&json["background"]),
        ["blocks", "done", "last5_time_share", "mb_per_s", "potential_used", "scans_per_day"]
    );
    let background = &json["background"];
    assert_eq!((&background["done"], &background["last5_time_share"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(number(background, "/blocks") + number(background, "/mb_per_s"), 0.0);
    assert_eq!(number(&json, "/seed"), 42.0);
    let sum: f64 = json["head_time"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{json}");
}

#[test]
fn without_a_scan_ten_thousand_requests_are_simulated() {
    assert_eq!(number(&run("simulate --json").json(), "/foreground/requests"), 10_000.0);
}

/// Returns the output without its one number that depends on real time.
fn but_for_the_clock(output: &str) -> String {
    let kept: Vec<&str> =
        output.lines().filter(|line| !line.contains("wall_s") && !line.starts_with("time ")).collect();
    assert!(kept.len() + 1 == output.lines().count());
    kept.join("\n")
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for args in [
        "simulate --workload oltp --background scan --requests 5000 --seed 7 --json",
        "simulate --policy sptf --outstanding 20 --requests 5000 --seed 7",
        "simulate --workload oltp --rate 50 --requests 2000 --seed 7 --json",
        "simulate --where outside --conservatism 0.3 --workload oltp --background scan --requests 2000 --seed 7 --json",
    ] {
        let (one, two) = (run(args).worked(), run(args).worked());
        assert_eq!(but_for_the_clock(&one), but_for_the_clock(&two), "{args}");
        let other = run(&args.replace("--seed 7", "--seed 8")).worked();
        assert_ne!(but_for_the_clock(&one), but_for_the_clock(&other), "{args}");
    }
}

/// The shares of rotational latency under each policy, from the design's feasibility study.
#[test]
fn rotational_latency_shares_are_those_of_the_feasibility_study() {
    for (policy, expected) in [("fcfs", 0.337), ("c-look", 0.499), ("sstf", 0.505), ("sptf", 0.219)] {
        let args = format!("simulate --policy {policy} --outstanding 20 --requests 50000 --json");
        let rotation = number(&run(&args).json(), "/head_time/rotation");
        assert!((rotation - expected).abs() < 0.005, "{policy}: {rotation}");
    }
}

/// A whole-disk scan under OLTP at FCFS; the expected bandwidth is from the design's feasibility study.
#[test]
fn a_scan_runs_until_it_is_done_and_gets_the_studys_bandwidth() {
    let json = run("simulate --workload oltp --mpl 10 --background scan --json").json();
    assert_eq!(json["background"]["done"], Value::Bool(true));
    let mb_per_s = number(&json, "/background/mb_per_s");
    let scans = number(&json, "/background/scans_per_day");
    let last5 = number(&json, "/background/last5_time_share");
    assert!((4.7..=5.5).contains(&mb_per_s), "{mb_per_s}");
    assert!((45.0..=53.0).contains(&scans), "{scans}");
    assert!((0.2..=0.4).contains(&last5), "{last5}");
    assert_eq!(number(&json, "/background/blocks"), (17_966_953.0_f64 / 8.0).ceil());
}

#[test]
fn a_scan_leaves_the_foreground_as_it_was() {
    let args = "simulate --workload oltp --policy sptf --requests 3000 --json";
    let without = run(args).json();
    let with = run(&format!("{args} --background scan --block-size 64KiB")).json();
    assert_eq!(with["foreground"], without["foreground"]);
    assert!(number(&with, "/background/blocks") > 0.0);
    assert_eq!(with["background"]["done"], Value::Bool(false));
}

#[test]
fn a_load_in_one_line_runs_with_its_own_arrivals_or_those_of_the_flags() {
    let iops = |load: &str, flags: &[&str]| {
        let args = ["simulate", "--requests", "3000", "--json", "--workload", load];
        number(&run_with(&[&args[..], flags].concat()).json(), "/foreground/iops")
    };
    let open = iops("3*zipf:0.9,size=4k/64k,range=0%-50% + sequential:4,run=256; constant:50", &[]);
    assert!((open - 50.0).abs() < 0.5, "{open}");
    // On the outer tracks of a tenth of the drive requests are served faster, and several outstanding ones faster still.
    let (whole, part) = (iops("random,size=4k", &[]), iops("random,range=0%-10%", &[]));
    let many = iops("random,range=0%-10%", &["--outstanding", "20", "--policy", "look"]);
    assert!(whole < part && part < many, "{whole} {part} {many}");
    let page = run_with(&["simulate", "--requests", "100", "--workload", "zipf:0.9; closed:2"]).worked();
    assert!(page.contains("zipf:0.9,size=4k,reads=2/3; closed:2"), "{page}");
}

/// The order of mean response times in the literature, for random loads: policies that know positions are ahead of those that know
/// addresses (Worthington, Ganger and Patt, SIGMETRICS 1994), ageing costs SPTF some of its lead, and SCAN takes longer than
/// LOOK for the same order.
#[test]
fn policies_for_comparison_have_their_known_order() {
    let response = |policy: &str| {
        let args = format!("simulate --policy {policy} --outstanding 20 --requests 20000 --json");
        number(&run(&args).json(), "/foreground/mean_response_ms")
    };
    let [fcfs, scan, look, asptf, sptf] = ["fcfs", "scan", "look", "asptf:20", "sptf"].map(response);
    assert!(
        sptf < asptf && asptf < look && look < scan && scan < fcfs,
        "fcfs {fcfs}, scan {scan}, look {look}, asptf {asptf}, sptf {sptf}"
    );
}

#[test]
fn every_flag_of_a_load_does_something() {
    let base = "simulate --requests 2000 --json";
    let base_iops = number(&run(base).json(), "/foreground/iops");
    for flags in [
        "--locality 0.9",
        "--reads 1",
        "--request-size 64k",
        "--think 10",
        "--rate 20",
        "--zero-latency off --request-size 64k",
        "--outstanding 20 --policy sptf-sw:40",
        "--drive nearline-20tb",
    ] {
        let changed = run(&format!("{base} {flags}")).json();
        assert_ne!(number(&changed, "/foreground/iops"), base_iops, "{flags}");
    }
    let aged = |weight: &str| {
        let args = format!("{base} --policy sptf --outstanding 50 --age-weight {weight}");
        number(&run(&args).json(), "/foreground/p99_response_ms")
    };
    assert!(aged("0.05") < aged("0"));
    let searched = |tracks: &str| {
        let args = format!("{base} --background scan --budget {tracks}");
        number(&run(&args).json(), "/background/blocks")
    };
    assert!(searched("0") <= searched("500"));
}

#[test]
fn a_page_shows_where_the_heads_time_goes() {
    let page = run("simulate --workload oltp --background scan --requests 2000").worked();
    for word in ["OLTP, 10 tasks, think time 30", "free bandwidth", "potential used", "rotation", "█"] {
        assert!(page.contains(word), "no {word:?} in:\n{page}");
    }
}

#[test]
fn a_page_shows_percentiles_reads_writes_and_the_queue() {
    let args = "simulate --rate 60 --requests 2000";
    let (page, json) = (run(args).worked(), run(&format!("{args} --json")).json());
    let foreground = &json["foreground"];
    let value = |path: &str| format!("{:.3}", number(foreground, path));
    for (row, parts) in [
        ("response time", vec![value("/mean_response_ms") + " ms mean", value("/sd_ms") + " ms standard"]),
        ("percentiles, ms", vec![value("/p50_ms") + " (50%)", value("/p999_ms") + " (99.9%)"]),
        ("percentiles, ms", vec![value("/p90_ms") + " (90%)", value("/max_ms") + " (longest)"]),
        ("reads", vec![value("/reads/mean_ms") + " ms mean", value("/reads/p99_ms") + " (99%)"]),
        ("writes", vec![value("/writes/mean_ms") + " ms mean", value("/writes/max_ms") + " (longest)"]),
        ("queue", vec![format!("{:.2} requests on average", number(foreground, "/queue_length"))]),
    ] {
        let line =
            page.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row}:\n{page}"));
        for part in parts {
            assert!(line.contains(&part), "no {part:?} in {line:?}");
        }
    }
    // Little's law holds, except for the requests that are left at the end.
    let little = number(foreground, "/iops") * number(foreground, "/mean_response_ms") / 1e3;
    let queue = number(foreground, "/queue_length");
    assert!((queue / little - 1.0).abs() < 0.01, "{queue} {little}");
    let ordered = ["p50_ms", "p90_ms", "p95_ms", "p99_response_ms", "p999_ms", "max_ms"]
        .map(|name| foreground[name].as_f64().unwrap());
    assert!(ordered.is_sorted(), "{ordered:?}");
    // A load of reads alone has no separate row for reads.
    assert!(!run("simulate --requests 50 --reads 1").worked().contains("\nreads "));
}

#[test]
fn a_validate_trace_is_replayed_with_its_pauses() {
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 5000000.0\nW Hit 500000 16 1.0 1.0\n");
    let replay = format!("replay:{trace}");
    let json = run_with(&["simulate", "--workload", &replay, "--json"]).json();
    assert_eq!(number(&json, "/foreground/requests"), 2.0);
    assert!((5.0..5.1).contains(&number(&json, "/simulated_s")), "{json}");
    let at_once = run_with(&["simulate", "--workload", &replay, "--outstanding", "2", "--json"]).json();
    assert!(number(&at_once, "/simulated_s") < 0.1);
}

#[test]
fn mpl_and_outstanding_are_one_number() {
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 5000000.0\nW Hit 500000 16 1.0 1.0\n");
    let replay = format!("--workload replay:{trace}");
    for (load, own, other) in [
        ("--requests 200", "--outstanding", "--mpl"),
        ("--requests 200 --workload oltp", "--mpl", "--outstanding"),
        (replay.as_str(), "--outstanding", "--mpl"),
    ] {
        let result = |flags: String| {
            let mut json = run(&format!("simulate {load} {flags} --json")).json();
            json.as_object_mut().unwrap().remove("wall_s");
            json
        };
        let two = result(format!("{own} 2"));
        assert_eq!(two, result(format!("{other} 2")), "{load}");
        // If both --mpl and --outstanding are given, the one that is the load's own counts.
        assert_eq!(two, result(format!("{own} 2 {other} 1")), "{load}");
        assert_ne!(two, result(format!("{other} 1")), "{load}");
    }
}

#[test]
fn a_timed_trace_is_replayed_at_its_times_on_its_busiest_device() {
    let dir = Dir::new();
    let trace = dir.file("timed.trace", "100.0 3 64 8 1\n100.5 4 0 8 1\n1100.0 3 128 16 0\n");
    let replay = format!("replay:{trace}");
    let json = run_with(&["simulate", "--workload", &replay, "--json"]).json();
    assert_eq!(number(&json, "/foreground/requests"), 2.0);
    assert!((1.0..1.1).contains(&number(&json, "/simulated_s")), "{json}");
    let fast = run_with(&["simulate", "--workload", &replay, "--scale", "0.1", "--json"]).json();
    assert!((0.1..0.2).contains(&number(&fast, "/simulated_s")), "{fast}");
    let run = run_with(&["simulate", "--workload", &replay]);
    assert!(run.out.contains("device 3 with 2 of the 3 requests to 2 devices"), "{}", run.out);
    assert!(run.err.contains("1 of the trace's records are to other devices"), "{}", run.err);
}

#[test]
fn a_compressed_trace_keeps_its_dependencies() {
    let dir = Dir::new();
    let trace = dir.file("repeats.trace", "1.0 0 800 8 1\n2.0 0 800 8 1\n3.0 0 800 8 1\n4.0 0 800 8 1\n");
    let replay = format!("replay:{trace}");
    let mean = |flags: [&str; 2]| {
        let json = run_with(&["simulate", "--workload", &replay, flags[0], flags[1], "--json"]).json();
        assert_eq!(number(&json, "/foreground/requests"), 4.0);
        number(&json, "/foreground/mean_response_ms")
    };
    // With --scale all four requests queue at the drive; with --compress each waits for the one before.
    let (scaled, compressed) = (mean(["--scale", "0.001"]), mean(["--compress", "1000"]));
    assert!(compressed < 0.75 * scaled, "{compressed} {scaled}");
    let page = run_with(&["simulate", "--workload", &replay, "--compress", "1000"]).worked();
    assert!(page.contains("1000 times faster"), "{page}");
    let closed = dir.file("closed.trace", "R Hit 1000 8 1.0 1.0\n");
    let replay = format!("replay:{closed}");
    let run = run_with(&["simulate", "--workload", &replay, "--compress", "2"]);
    run.complained(2, &["--compress needs arrival times"]);
}

#[test]
fn a_run_that_ends_early_says_so() {
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 1.0\n");
    let replay = format!("replay:{trace}");
    let run = run_with(&["simulate", "--workload", &replay, "--requests", "5", "--json"]);
    assert_eq!(run.code, Some(0));
    assert!(run.err.contains("the trace ended after 1 of 5 requests"), "{}", run.err);
}

#[test]
fn the_readers_changes_to_a_trace_are_reported() {
    let dir = Dir::new();
    let trace = dir.file("spc.trace", "0,64,1000,R,0.5\n0,128,0,W,0.6\n");
    let workload = format!("replay:{trace}");
    let said = [
        "1 of the trace's records have no bytes and are left out",
        "1 of the trace's records were widened to whole sectors",
    ];
    let page = run_with(&["simulate", "--workload", &workload]);
    assert_eq!((page.code, page.err), (Some(0), said.map(|note| format!("note: {note}\n")).concat()));
    let json = run_with(&["simulate", "--workload", &workload, "--json"]).json();
    assert_eq!(json["trace"]["notes"], serde_json::json!(said));
}

#[test]
fn the_utilisation_that_is_asked_for_is_reached() {
    for policy in ["fcfs", "sptf"] {
        for asked in [10.0, 50.0, 90.0] {
            let args =
                format!("simulate --workload utilisation:{asked} --policy {policy} --requests 20000 --json");
            let busy = 100.0 * (1.0 - number(&run(&args).json(), "/head_time/idle"));
            assert!((busy - asked).abs() < 2.0, "{policy} {asked}: {busy}");
        }
    }
    let busy = run("simulate --workload utilisation:100 --json").json();
    assert_eq!(number(&busy, "/head_time/idle"), 0.0);
}

/// Inside the drive the background costs the foreground nothing, so loads whose requests depend on earlier completions
/// make the same requests at the same times.
#[test]
fn transactions_and_small_files_run_the_same_with_and_without_a_scan() {
    for load in ["tpcc", "postmark"] {
        let without = run(&format!("simulate --workload {load} --requests 3000 --json")).json();
        let with =
            run(&format!("simulate --workload {load} --requests 3000 --background scan --json")).json();
        assert_eq!(without["foreground"], with["foreground"], "{load}");
        assert!(number(&with, "/background/mb_per_s") > 1.0, "{load}");
    }
}

#[test]
fn loads_with_times_of_their_own_take_no_others() {
    for (args, words) in [
        (
            "utilisation:50 --rate 3",
            ["--rate does not go with --workload utilisation", "how many requests come"],
        ),
        (
            "utilisation:50 --mpl 3",
            ["--mpl does not go with --workload utilisation", "how many requests come"],
        ),
        ("tpcc --think 3", ["--think does not go with --workload tpcc", "times of its own"]),
        ("tpcc --reads 0.5", ["--reads does not go with --workload tpcc", "the transactions say"]),
        (
            "postmark --outstanding 2",
            ["--outstanding does not go with --workload postmark", "times of its own"],
        ),
        ("utilisation:0", ["nothing to simulate", "utilisation:0.01"]),
        ("utilisation:101", ["from 0 to 100 percent", "utilisation:101"]),
        ("utilisation", ["utilisation:50 for 50%", "utilisation"]),
    ] {
        run(&format!("simulate --workload {args}")).complained(2, &words);
    }
}

#[test]
fn outside_the_drive_conservatism_costs_bandwidth_and_spares_the_foreground() {
    let of = |flags: &str| {
        let args = "simulate --where outside --pass-through off --workload oltp --policy sptf --requests 4000 --json";
        let json = run(&format!("{args} {flags}")).json();
        let sum: f64 = json["head_time"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{json}");
        (number(&json, "/foreground/mean_response_ms"), number(&json, "/background/mb_per_s"))
    };
    let (alone, nothing) = of("");
    assert_eq!(nothing, 0.0);
    let (hasty, much) = of("--background scan --conservatism 0");
    let (careful, less) = of("--background scan --conservatism 0.4");
    assert!(careful < hasty && careful < alone * 1.05, "{alone} {careful} {hasty}");
    assert!(less < much && less > much / 3.0, "{less} {much}");
    let (bounded, some) = of("--background scan");
    assert!(bounded < alone * 1.01 && some > 0.0, "{alone} {bounded}");
}

#[test]
fn outside_the_result_shows_trust_in_the_drive_and_the_harm_of_detours() {
    let simulate = |more: &str| {
        run(&format!("simulate --where outside --workload oltp --background scan --requests 4000 {more}"))
    };
    let json = simulate("--json").json();
    let reported = &json["outside"];
    // The names are those in a daemon's status.
    assert_eq!(
        keys(reported),
        ["caution", "caution_s", "detours", "foresight", "gaps", "harm_percent", "idle", "mistrusted"]
    );
    assert_eq!(keys(&reported["caution_s"]), ["buffered", "harm", "mistrust", "unknown", "unsynchronised"]);
    assert_eq!(keys(&reported["foresight"]), ["commands", "early", "late", "unexplained", "within_100us"]);
    assert_eq!(keys(&reported["detours"]), ["foreground_us", "lost_us", "share"]);
    assert_eq!(keys(&reported["idle"]), keys(&reported["detours"]));
    assert_eq!(
        (&reported["caution"], &reported["mistrusted"]),
        (&Value::Null, &Value::Bool(false)),
        "{reported}"
    );
    assert!(number(reported, "/foresight/within_100us") > 0.8, "{reported}");
    // At the beginning the drive is not trusted yet.
    let doubted = number(reported, "/caution_s/mistrust") + number(reported, "/caution_s/unsynchronised");
    assert!(doubted > 0.0 && doubted < number(&json, "/simulated_s") / 4.0, "{reported}");
    assert!(
        number(reported, "/detours/share") < 0.01 && number(reported, "/harm_percent") == 1.0,
        "{reported}"
    );
    let page = simulate("").worked();
    for line in ["predicted  ", "gaps  ", "gaps unused  ", "harm  ", "; bound 1%\n"] {
        assert!(page.contains(line), "no {line:?} in:\n{page}");
    }
    // With --audit on the cost is measured as well, by comparison with time windows without background work.
    let audited = simulate("--audit on --json").json();
    let measured = &audited["outside"]["measured"];
    for window in ["on", "plain"] {
        assert!(number(measured, &format!("/{window}/requests")) > 100.0, "{measured}");
        assert!(number(measured, &format!("/{window}/response_ms")) > 1.0, "{measured}");
    }
    let page = simulate("--audit on").worked();
    assert!(page.contains("\nmeasured  "), "{page}");
    // FAST 2002's scheduler has no bound on harm; a scheduler inside the drive has no profile to trust.
    let paper = simulate("--conservatism 0.3 --json").json();
    assert_eq!(
        (&paper["outside"]["harm_percent"], &paper["outside"]["caution"]),
        (&Value::Null, &Value::Null)
    );
    assert!(simulate("--conservatism 0.3").worked().contains("; no bound\n"));
    assert!(run("simulate --requests 100 --json").json().get("outside").is_none());
}

#[test]
fn a_drive_that_differs_from_its_profile_is_reported_as_mistrusted() {
    let args = "simulate --where outside --workload oltp --background scan --requests 6000 --behaviour noise,seek_ageing_ppm=400000";
    let json = run(&format!("{args} --json")).json();
    let reported = &json["outside"];
    assert_eq!(
        (reported["caution"].as_str(), reported["mistrusted"].as_bool()),
        (Some("mistrust"), Some(true)),
        "{reported}"
    );
    assert!(number(reported, "/caution_s/mistrust") > number(&json, "/simulated_s") / 2.0, "{reported}");
    let page = run(args).worked();
    let rows: Vec<(&str, &str)> =
        page.lines().filter_map(|row| row.split_once("  ")).map(|(name, of)| (name, of.trim())).collect();
    for (name, begins) in [
        ("gaps unused", ""),
        ("unused now", "the drive does not behave as"),
        ("MISTRUSTED", "the drive has not behaved"),
    ] {
        let found = rows.iter().any(|(row, of)| *row == name && of.starts_with(begins));
        assert!(found, "no row {name:?} that begins {begins:?} in:\n{page}");
    }
    let blind = run("simulate --where outside --blind --requests 500 --json").json();
    assert_eq!(blind["outside"]["caution"].as_str(), Some("unknown"));
}

#[test]
fn outside_the_zero_latency_switch_is_applied() {
    let response = |switch: &str| {
        let args = "simulate --where outside --requests 3000 --request-size 64k --json";
        number(&run(&format!("{args} {switch}")).json(), "/foreground/mean_response_ms")
    };
    let (own, on, off) = (response(""), response("--zero-latency on"), response("--zero-latency off"));
    assert_eq!(own, on, "the Atlas 10K does");
    assert!(off > on * 1.02, "{off} ms, {on} ms with");
}
