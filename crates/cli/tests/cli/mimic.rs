//! `freeblock mimic`, and SMTF in `simulate`.

use crate::support::{Dir, keys, number, run, run_with};
use std::fs;
use std::process::{Command, Stdio};

const SMALL: &str = "emulated:mimic-less-capacity";

/// Makes a table with few requests, which knows near distances only; returns its path.
fn table(dir: &Dir, name: &str, device: &str) -> String {
    let file = dir.path(name);
    let args = ["mimic", "probe", device, "-o", &file, "--requests", "20000", "--samples", "4"];
    run_with(&args).worked();
    file
}

#[test]
fn a_probed_table_is_shown_and_checked() {
    let dir = Dir::new();
    let file = dir.path("small.mimic");
    let probe = ["mimic", "probe", SMALL, "-o", &file, "--requests", "30000", "--samples", "5", "--json"];
    let probed = run_with(&probe).json();
    assert_eq!(
        keys(&probed),
        [
            "distances",
            "drive",
            "drive_time_s",
            "file_bytes",
            "interpolated",
            "kept",
            "memory_bytes",
            "probed",
            "requests",
            "seed",
            "table",
            "unconfirmed",
            "unreadable"
        ]
    );
    assert!((30_000.0..30_200.0).contains(&number(&probed, "/requests")), "{probed}");
    assert_eq!(number(&probed, "/file_bytes"), fs::metadata(&file).unwrap().len() as f64);
    assert!(number(&probed, "/interpolated") > 0.9);

    let shown = run_with(&["mimic", "show", &file, "--json"]).json();
    assert_eq!(number(&shown, "/requests"), number(&probed, "/requests"));
    assert_eq!(shown["pairs"][3]["answered_by"], "read after read");
    assert_eq!(number(&shown, "/pairs/0/distances"), number(&probed, "/kept"));
    let page = run_with(&["mimic", "show", &file]).worked();
    assert!(page.contains("the mean of 5 samples") && page.contains('█') && page.contains(" ms │"), "{page}");

    let checked = run_with(&["mimic", "check", &file, SMALL, "--requests", "2000", "--json"]).json();
    assert_eq!(keys(&checked), ["drive", "drive_seed", "near", "noise", "random", "seed", "unreadable"]);
    for kind in ["/random", "/near"] {
        let of = |what: &str| number(&checked, &format!("{kind}/{what}"));
        assert!((of("time_mean_ms") - of("predicted_mean_ms")).abs() < 0.5, "{checked}");
        assert!(of("demerit_ms") <= of("error_rms_ms") && of("error_mean_ms") <= of("error_rms_ms"));
    }
    let noisy = format!("{SMALL},noise,seed=7");
    let page = run_with(&["mimic", "check", &file, &noisy, "--requests", "50"]).worked();
    assert!(
        page.contains("less-capacity with noise, seed 7;") && page.contains("Seed of the reads: 42"),
        "{page}"
    );
    assert_eq!(number(&shown, "/memory_bytes"), number(&probed, "/memory_bytes"));
    // The distance explains most of the variance of near times.
    assert!(number(&checked, "/near/explained") > 0.5, "{checked}");
}

#[test]
fn the_teeth_are_drawn() {
    let dir = Dir::new();
    let file = table(&dir, "small.mimic", SMALL);
    let svg = dir.path("teeth.svg");
    let range = ["--from", "-400", "--to", "400"];
    let near = run_with(&[&["mimic", "show", &file, "--svg", &svg], &range[..]].concat()).worked();
    assert!(near.contains("-400") && near.contains("400 sectors"));
    let near_svg = fs::read_to_string(&svg).unwrap();
    run_with(&["mimic", "show", &file, "--svg", &svg]).worked();
    let whole_svg = fs::read_to_string(&svg).unwrap();
    assert!(
        near_svg.starts_with("<svg") && near_svg.contains("inter-request distance") && near_svg != whole_svg
    );
    run_with(&["mimic", "show", &file, "--from", "5", "--to", "5"]).complained(2, &["--from 5 --to 5"]);
}

#[test]
fn each_pair_of_kinds_is_shown() {
    let dir = Dir::new();
    let all = dir.path("all.mimic");
    let probe =
        ["mimic", "probe", SMALL, "-o", &all, "--requests", "20000", "--samples", "2", "--types", "all"];
    run_with(&probe).worked();
    let page = run_with(&["mimic", "show", &all, "--pair", "write-after-read"]).worked();
    assert!(page.contains("Time by distance, write after read"), "{page}");
    let reads = table(&dir, "reads.mimic", SMALL);
    run_with(&["mimic", "show", &reads, "--pair", "write-after-read"])
        .complained(1, &["write after read was not probed: read after read answers for it"]);
}

#[test]
fn distances_unknown_to_a_table_are_counted() {
    let dir = Dir::new();
    let file = dir.path("few.mimic");
    run_with(&["mimic", "probe", SMALL, "-o", &file, "--requests", "2000", "--check-points", "none"])
        .worked();
    let checked = run_with(&["mimic", "check", &file, SMALL, "--requests", "2000", "--json"]).json();
    let of = |what: &str| number(&checked, &format!("/random/{what}"));
    assert_eq!(of("requests") + of("unknown"), 1_000.0, "{checked}");
    assert!(of("unknown") > 900.0, "{checked}");
    let page = run_with(&["mimic", "check", &file, SMALL, "--requests", "2000"]).worked();
    assert!(page.contains("known"), "{page}");
}

#[test]
fn the_same_seed_gives_the_same_table() {
    let dir = Dir::new();
    let probe = |name: &str, more: &[&str]| {
        let file = dir.path(name);
        let args =
            ["mimic", "probe", "emulated:mimic-less-capacity,noise", "-o", &file, "--requests", "2000"];
        run_with(&[&args[..], more].concat()).worked();
        fs::read(file).unwrap()
    };
    let one = probe("one", &[]);
    assert_eq!(one, probe("two", &[]));
    assert_ne!(one, probe("three", &["--seed", "7"]));
    assert_ne!(one, probe("four", &["--summary", "maximum"]));
    assert_ne!(one, probe("five", &["--types", "all"]));
}

#[test]
fn a_damaged_table_is_refused_by_name_and_a_fresh_start_offered() {
    let dir = Dir::new();
    let file = table(&dir, "worn.mimic", SMALL);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    for args in [
        vec!["mimic", "show", &file],
        vec!["mimic", "check", &file, SMALL],
        vec!["simulate", "--policy", "smtf", "--mimic", &file],
    ] {
        run_with(&args).complained(1, &["worn.mimic", "damaged", "checksum", "mimic probe", "begins anew"]);
    }
    bytes.truncate(100);
    fs::write(&file, &bytes).unwrap();
    run_with(&["mimic", "show", &file]).complained(1, &["worn.mimic", "100 bytes", "begins anew"]);
    let other = dir.file("no.mimic", "rpm = 7200\n");
    run_with(&["mimic", "show", &other]).complained(1, &["no.mimic", "no table of the Disk Mimic"]);
}

#[test]
fn a_failed_probe_leaves_the_old_table() {
    let dir = Dir::new();
    let file = table(&dir, "kept.mimic", SMALL);
    let before = fs::read(&file).unwrap();
    let probe = |more: &[&str]| {
        run_with(&[&["mimic", "probe", SMALL, "-o", &file, "--requests", "2000"], more].concat())
    };
    probe(&["--unit", "1000"]).complained(2, &["--unit 1000", "multiple of 512"]);
    probe(&["--memory", "1k"]).complained(2, &["memory", "at least 65536"]);
    assert_eq!(fs::read(&file).unwrap(), before);
    probe(&["--seed", "3"]).worked();
    assert_ne!(fs::read(&file).unwrap(), before);
    assert_eq!(dir.names(), ["kept.mimic"], "nothing is left beside it");
    let directory = dir.path("");
    run_with(&["mimic", "probe", SMALL, "-o", &directory])
        .complained(1, &["not a regular file", "name another file"]);
}

#[test]
fn calls_that_are_wrong_are_refused() {
    let dir = Dir::new();
    let file = table(&dir, "small.mimic", SMALL);
    run("mimic probe mimic-base -o t").complained(2, &["emulated:NAME"]);
    run("mimic probe emulated:mimic-base -o t --types all --allow-writes 0-0")
        .complained(2, &["--allow-writes 0-0: only the named sectors, 1 in all", "name at least 32 sectors"]);
    run("mimic probe emulated:mimic-base,loud -o t").complained(2, &["mimic-base,loud"]);
    run("mimic probe emulated:nowhere -o t").complained(2, &["nowhere"]);
    run("mimic probe emulated:mimic-base -o t --check-points some").complained(2, &["table-2", "N:PERCENT"]);
    run("mimic probe emulated:mimic-base -o t --samples 0").complained(2, &["1 to 1000"]);
    run("mimic probe emulated:mimic-base -o t --summary mode").complained(2, &["mean, median"]);
    run_with(&["mimic", "check", &file, "emulated:mimic-base"])
        .complained(1, &["small.mimic", "the drive has"]);
    run_with(&["simulate", "--mimic", &file]).complained(2, &["--policy smtf"]);
    run_with(&["simulate", "--learnt", &file]).complained(2, &["--learnt", "--policy smtf"]);
    run("simulate --policy smtf:all").complained(2, &["set or priority"]);
}

fn mean_access(args: &str) -> f64 {
    number(&run(args).json(), "/foreground/mean_access_ms")
}

#[test]
fn smtf_with_a_table_is_between_distance_policies_and_sptf() {
    let dir = Dir::new();
    let file = dir.path("base.mimic");
    // Enough probes to show the saw-tooth of times at the distances between outstanding requests, which are shorter if more are
    // outstanding.
    let (outstanding, probes, samples) = testing::sized((200, 1_000_000, 2), (50, 6_000_000, 5));
    let probe = format!("mimic probe emulated:mimic-base --requests {probes} --samples {samples} -o");
    run(&format!("{probe} {file}")).worked();
    let load =
        format!("simulate --drive mimic-base --outstanding {outstanding} --requests 5000 --json --policy");
    let [sstf, c_look, sptf] =
        ["sstf", "c-look", "sptf"].map(|policy| mean_access(&format!("{load} {policy}")));
    let smtf = mean_access(&format!("{load} smtf --mimic {file}"));
    assert!(sptf < smtf && smtf < sstf && smtf < c_look, "{sptf} {smtf} {sstf} {c_look}");
}

#[test]
fn smtf_with_a_table_that_knows_little_is_as_good_as_its_base() {
    let dir = Dir::new();
    let load = "simulate --drive mimic-base --outstanding 20 --requests 5000 --json --policy";
    let [sstf, fcfs] = ["sstf", "fcfs"].map(|policy| mean_access(&format!("{load} {policy}")));
    // The first table has near distances only; the second has all distances, mostly interpolated without confirmation.
    for (name, probe) in [("near", "--reach 16k --check-points none"), ("few", "--requests 100000")] {
        let file = dir.path(name);
        run(&format!("mimic probe emulated:mimic-base {probe} -o {file}")).worked();
        let smtf = mean_access(&format!("{load} smtf --mimic {file}"));
        assert!(smtf < sstf + 0.02 * (fcfs - sstf), "{name}: {smtf} {sstf} {fcfs}");
    }
}

#[test]
fn unusable_knowledge_and_tables_are_refused_by_name() {
    let dir = Dir::new();
    let (learnt, none) = (dir.path("learnt"), dir.path("none"));
    let load = "simulate --policy smtf --outstanding 8 --requests 500 --learnt";
    run(&format!("{load} {learnt}")).worked();
    run(&format!("{load} {learnt} --mimic {none}")).complained(1, &[&none]);
    // The mistake is in `--mimic-memory`, and not in the file.
    let small = run(&format!("{load} {learnt} --mimic-memory 1k"));
    assert!(!small.err.contains("remove"), "{}", small.err);
    small.complained(1, &["at least"]);
}

#[test]
fn smtf_learns_while_it_runs_and_reports_it() {
    let args = "simulate --policy smtf --outstanding 20 --requests 3000 --seed 5";
    let json = run(&format!("{args} --json")).json();
    assert_eq!(keys(&json["mimic"]), ["changes", "known", "mean_error_ms", "memory_bytes", "observed"]);
    assert_eq!(number(&json, "/mimic/changes"), 0.0);
    assert!(number(&json, "/mimic/known") > 1_000.0, "{json}");
    assert!(run(args).worked().contains("distances known by their own samples"));
}

#[test]
fn outside_the_drive_and_without_a_profile_smtf_learns_as_well() {
    let load = "simulate --where outside --pass-through off --outstanding 20 --requests 3000 --seed 5 --json";
    for known in ["", " --blind"] {
        let json = run(&format!("{load}{known} --policy smtf")).json();
        assert!(number(&json, "/mimic/known") > 1_000.0, "{json}");
        let smtf = number(&json, "/foreground/mean_access_ms");
        assert!(smtf < mean_access(&format!("{load}{known} --policy fcfs")) * 0.8, "{json}");
    }
    let blind = mean_access(&format!("{load} --blind --policy sptf"));
    assert_eq!(blind, mean_access(&format!("{load} --blind --policy sstf")), "it knows no better");
    assert!(mean_access(&format!("{load} --policy sptf")) < blind);
}

#[test]
fn without_a_profile_a_scan_goes_on_in_idle_time_only() {
    let scan = "simulate --where outside --pass-through off --blind --policy smtf --workload oltp --mpl 1 --background scan --json";
    let gaps = run(&format!("{scan} --requests 500")).json();
    assert_eq!(number(&gaps, "/head_time/free_transfer"), 0.0, "only the foreground's own reads: {gaps}");
    let idle = run(&format!("{scan} --requests 500 --idle-time on")).json();
    let [more, fewer] = [idle, gaps].map(|json| number(&json, "/background/blocks"));
    assert!(more > fewer + 100.0, "{more} {fewer}");
}

#[test]
fn learnt_knowledge_outlives_the_run() {
    let dir = Dir::new();
    let file = dir.path("atlas.learnt");
    let args = "simulate --where outside --pass-through off --blind --policy smtf --outstanding 20 --requests 3000 --json --learnt";
    let first = run(&format!("{args} {file} --seed 5")).json();
    let second = run(&format!("{args} {file} --seed 6")).json();
    let observed = |json| number(json, "/mimic/observed");
    assert!(
        observed(&first) > 2_900.0 && observed(&second) > 2.0 * observed(&first) - 10.0,
        "{first} {second}"
    );
    assert!(number(&second, "/mimic/known") > 1.8 * number(&first, "/mimic/known"));
    assert_eq!(dir.names(), ["atlas.learnt"], "nothing is left beside it");

    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&file, &damaged).unwrap();
    let anew = &["atlas.learnt", "damaged", "checksum", "begins anew"];
    run(&format!("{args} {file}")).complained(1, anew);
    assert_eq!(fs::read(&file).unwrap(), damaged, "it is still there");
    fs::write(&file, &whole).unwrap();
    let other = &["atlas.learnt", "quantum-atlas-10k", "seagate-cheetah-9lp", "begins anew"];
    run(&format!("{args} {file} --drive seagate-cheetah-9lp")).complained(1, other);
}

#[cfg(target_os = "linux")]
#[test]
fn knowledge_learnt_until_ctrl_c_is_kept() {
    let dir = Dir::new();
    let file = dir.path("atlas.learnt");
    let args = "simulate --policy smtf --outstanding 20 --requests 1000000000 --learnt";
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeblock"));
    let command = command.args(args.split(' ')).arg(&file).stderr(Stdio::piped()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let caught = || {
        let status = fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() >> 1 & 1 == 1
    };
    // Wait until the process has a handler for Ctrl-C.
    while !caught() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted after") && said.contains("atlas.learnt"), "{said}");
    let again = format!("simulate --policy smtf --outstanding 20 --requests 10 --json --learnt {file}");
    assert!(number(&run(&again).json(), "/mimic/observed") > 1_000.0);
}

#[test]
fn memory_samples_and_idle_probing_are_as_the_user_says() {
    let load = "simulate --policy smtf --outstanding 20 --requests 3000 --seed 5 --json";
    let standard = run(load).json();
    let little = run(&format!("{load} --mimic-memory 256k")).json();
    let [much, few] = [&standard, &little].map(|json| number(json, "/mimic/memory_bytes"));
    assert!(
        few <= 262_144.0 && few > 131_072.0 && much <= 67_108_864.0 && much > 33_554_432.0,
        "{few} {much}"
    );
    let thrice = run(&format!("{load} --mimic-minimum-samples 3")).json();
    let [known, seldom] = [&standard, &thrice].map(|json| number(json, "/mimic/known"));
    assert!(seldom * 2.0 < known, "{seldom} {known}");
    // Think time leaves the drive idle; in the first hundreds of requests the bound on harm permits hardly one probe.
    let idle = "simulate --where outside --pass-through off --blind --policy smtf --workload oltp --mpl 1 --think 200 --requests 1000 --json";
    let idle = format!("{idle} --idle-time on");
    let [alone, probing] =
        ["", " --mimic-probe-idle"].map(|more| number(&run(&format!("{idle}{more}")).json(), "/mimic/known"));
    assert!(probing > alone + 100.0, "{probing} {alone}");

    let wrong = "simulate --policy smtf --mimic-memory 1k --requests 10";
    run(wrong).complained(1, &["1024 bytes of memory are too few", "at least 65536"]);
    run("simulate --policy smtf --mimic-memory 0").complained(2, &["--mimic-memory", "at least 65536 bytes"]);
    run("simulate --policy smtf --mimic-memory 0M")
        .complained(2, &["--mimic-memory", "at least 65536 bytes"]);
    run("simulate --mimic-memory 1M").complained(2, &["--mimic-memory", "--policy fcfs", "--policy smtf"]);
    run("simulate --policy smtf --mimic-probe-idle").complained(2, &["--mimic-probe-idle", "--idle-time on"]);
    run("simulate --policy smtf --mimic-minimum-samples 65").complained(2, &["1 to 64"]);
    let dir = Dir::new();
    let file = table(&dir, "base.mimic", "emulated:mimic-base");
    run_with(&[
        "simulate",
        "--drive",
        "mimic-base",
        "--policy",
        "smtf",
        "--mimic",
        &file,
        "--mimic-memory",
        "70k",
    ])
    .complained(1, &["71680 bytes", "a table of", "a smaller table"]);
}

#[test]
fn bad_sectors_are_gone_round_and_counted() {
    let dir = Dir::new();
    let file = dir.path("bad.mimic");
    let bad = format!("{SMALL},bad_sectors=2000:8,seed=3");
    let probe = ["mimic", "probe", &bad, "-o", &file, "--requests", "20000", "--samples", "4"];
    let probed = run_with(&[&probe[..], &["--json"]].concat()).json();
    // The drive has 4.4 million sectors; a bad sector is not read twice.
    assert!((10.0..257.0).contains(&number(&probed, "/unreadable")), "{probed}");
    assert!((20_000.0..20_400.0).contains(&number(&probed, "/requests")), "{probed}");
    let page = run_with(&probe).worked();
    assert!(page.contains("requests met such sectors and have no times"), "{page}");
    // The table's predictions equal those of a drive without bad sectors.
    let whole = table(&dir, "whole.mimic", SMALL);
    let error = |table: &str| {
        let checked = run_with(&["mimic", "check", table, SMALL, "--requests", "2000", "--json"]).json();
        assert_eq!(number(&checked, "/unreadable"), 0.0);
        number(&checked, "/near/error_mean_ms")
    };
    assert!(error(&file) < 1.1 * error(&whole), "{} ms, {} ms", error(&file), error(&whole));

    let checked = run_with(&["mimic", "check", &file, &bad, "--requests", "2000", "--json"]).json();
    let left_out = number(&checked, "/unreadable");
    let of = |kind: &str| {
        number(&checked, &format!("/{kind}/requests")) + number(&checked, &format!("/{kind}/unknown"))
    };
    assert!(left_out > 0.0 && of("random") + of("near") + left_out == 2_000.0, "{checked}");
    let page = run_with(&["mimic", "check", &file, &bad, "--requests", "2000"]).worked();
    assert!(page.contains("met a sector that cannot be read, and are left out"), "{page}");

    let before = fs::read(&file).unwrap();
    let lost = format!("{SMALL},bad_sectors=1000000:8");
    run_with(&["mimic", "probe", &lost, "-o", &file])
        .complained(1, &["LBN ", "cannot be read", "save what is on the drive"]);
    run_with(&["mimic", "check", &file, &lost])
        .complained(1, &["cannot be read, the last at LBN ", "save what is on the drive"]);
    assert!(fs::read(&file).unwrap() == before);
}

/// A file answers as a disk does, except for its times.
#[test]
fn a_disk_is_probed_and_checked_by_reading_alone() {
    let dir = Dir::new();
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
    let (disk, table) = (dir.path("disk"), dir.path("disk.mimic"));
    fs::write(&disk, &bytes).unwrap();
    fs::set_permissions(&disk, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    let probe = ["mimic", "probe", &disk, "-o", &table, "--requests", "2000", "--samples", "2", "--json"];
    let probed = run_with(&probe);
    if probed.err.contains("O_DIRECT") || probed.err.contains("io_uring") {
        testing::missing(&format!("O_DIRECT and io_uring ({})", probed.err.trim()));
        return;
    }
    let probed = probed.json();
    assert_eq!(probed["drive"], disk.as_str());
    // The number of requests depends on the real times of the file: interpolations that hold need no further requests.
    assert!(number(&probed, "/requests") >= 100.0 && number(&probed, "/drive_time_s") > 0.0, "{probed}");
    let checked = run_with(&["mimic", "check", &table, &disk, "--requests", "200", "--json"]).json();
    assert!(number(&checked, "/random/time_mean_ms") > 0.0, "{checked}");
    assert!(run_with(&["mimic", "show", &table]).worked().contains(" ms "));
    assert!(fs::read(&disk).unwrap() == bytes);
}

#[test]
fn a_disk_is_written_only_where_it_may_be_and_keeps_its_bytes() {
    let dir = Dir::new();
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
    let (disk, table) = (dir.path("disk"), dir.path("disk.mimic"));
    fs::write(&disk, &bytes).unwrap();
    let probe =
        ["mimic", "probe", &disk, "-o", &table, "--types", "all", "--requests", "600", "--samples", "2"];
    run_with(&probe).complained(2, &["--allow-writes FIRST-LAST"]);
    let far = [&probe[..], &["--allow-writes", "64-9000"]].concat();
    let refused = run_with(&far);
    if refused.err.contains("O_DIRECT") || refused.err.contains("io_uring") {
        testing::missing(&format!("O_DIRECT and io_uring ({})", refused.err.trim()));
        return;
    }
    assert!(!refused.err.is_empty() && !std::path::Path::new(&table).exists(), "{}", refused.err);
    let probed = run_with(&[&probe[..], &["--allow-writes", "64-4095", "--json"]].concat()).json();
    assert!(number(&probed, "/requests") >= 600.0);
    let shown = run_with(&["mimic", "show", &table, "--json"]).json();
    assert_eq!(shown["pairs"][3]["answered_by"], "write after write");
    assert!(
        fs::read(&disk).unwrap() == bytes,
        "the probe put back the bytes that it overwrote, and changed no others"
    );
}
