//! Wrong calls and files: each gets an error with the place and advice, and changes nothing.

use crate::support::{Dir, TINY_MODEL, TINY_SEEK, command, run, run_with};

fn atlas() -> String {
    run("drive show quantum-atlas-10k --toml").worked()
}

#[test]
fn a_truncated_profile_is_refused_at_its_end() {
    let dir = Dir::new();
    let whole = atlas();
    // The file is cut behind the second letter of a key.
    let key = whole.find("\ncylinders").unwrap() + 1;
    let place = format!("cut.toml:{}:3", whole[..=key].lines().count());
    let file = dir.file("cut.toml", &whole[..key + 2]);
    run_with(&["simulate", "--drive", &file]).complained(1, &[&place, "key with no value", "╰──"]);
    // A file cut at any place is an error or a drive, and causes no panic.
    for cut in (0..whole.len()).step_by(whole.len() / 40).filter(|&cut| whole.is_char_boundary(cut)) {
        let file = dir.file("cut.toml", &whole[..cut]);
        let run = run_with(&["drive", "show", &file]);
        assert!(run.code == Some(0) || run.code == Some(1), "{cut}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}

#[test]
fn a_misspelt_key_is_underlined() {
    let dir = Dir::new();
    dir.file("typo.toml", "format = 1\nrpms = 7200\n");
    let run = command().args(["drive", "show", "typo.toml"]).current_dir(dir.path("")).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(run.stderr).unwrap(), @r"
      × typo.toml:2:1: unknown field `rpms`, expected one of `format`, `name`, `title`, `synthetic`, `sources`, `sector_bytes`, `physical_sector_bytes`, `rpm`, `cylinders`, `heads`, `mechanics`, `seek`, `layout`, `firmware`
       ╭─[typo.toml:2:1]
     1 │ format = 1
     2 │ rpms = 7200
       · ──┬─
       ·   ╰── here
       ╰────
      help: `freeblock drive show NAME --toml` prints a profile that works
    ");
}

#[test]
fn overlapping_zones_are_refused_at_their_place() {
    let dir = Dir::new();
    let file = dir.file("overlap.toml", &atlas().replace("first_cylinder = 433", "first_cylinder = 400"));
    run_with(&["simulate", "--drive", &file]).complained(
        1,
        &[
            "layout.zone[1].first_cylinder",
            "cylinder 400 of surface 0 belongs to zone 0, too",
            "give every track to one zone",
            "╰──",
        ],
    );
}

#[test]
fn a_file_that_is_no_text_or_not_there_is_refused() {
    let dir = Dir::new();
    let binary = dir.path("binary.toml");
    std::fs::write(&binary, b"format = \xff\xfe\x00").unwrap();
    run_with(&["drive", "show", &binary]).complained(1, &["byte 9 is no text in UTF-8"]);
    run("drive show missing.toml").complained(1, &["cannot read missing.toml"]);
    run("drive import missing.parv").complained(1, &["missing.parv"]);
    run("drive validate quantum-atlas-10k --trace missing.trace")
        .complained(1, &["cannot read missing.trace"]);
    run("simulate --workload replay:missing.trace").complained(1, &["cannot read missing.trace"]);
    let directory = dir.path("");
    run_with(&["drive", "show", &directory]).complained(1, &["cannot read"]);
}

#[test]
fn the_error_for_a_missing_profile_says_what_to_give() {
    let mend = [
        "give the file of a profile (.toml",
        "a built-in drive's name: quantum-atlas-10k, seagate-cheetah-4lp",
    ];
    for args in [
        "probe emulated:./a,noise",
        "probe emulated:./a.parv,noise",
        "mimic probe emulated:./a,noise -o table",
        "simulate --drive ./a",
        "simulate --drive ./a.model",
        "drive show ./a.toml",
        #[cfg(target_os = "linux")]
        "serve --disk d0=emulated:./a,noise,file=a.img --listen tcp:127.0.0.1:0",
        #[cfg(target_os = "linux")]
        "emulate ./a --file a.img --listen 127.0.0.1:0",
    ] {
        run(args).complained(1, &["cannot read ./a", mend[0], mend[1]]);
    }
}

#[test]
fn a_trace_of_nothing_is_refused() {
    let dir = Dir::new();
    let empty = dir.file("empty.trace", "");
    run_with(&["drive", "validate", "quantum-atlas-10k", "--trace", &empty])
        .complained(1, &["empty.trace", "no requests", "at least one request"]);
    run_with(&["simulate", "--workload", &format!("replay:{empty}")]).complained(1, &["no requests"]);
}

#[test]
fn a_trace_with_a_negative_size_is_refused_at_its_place() {
    let dir = Dir::new();
    let trace = dir.file("negative.trace", "R Hit 1000 8 1.0 1.0\nR Hit 1000 -8 1.0 1.0\n");
    run_with(&["simulate", "--workload", &format!("replay:{trace}")])
        .complained(1, &["negative.trace: line 2, column 12", "\"-8\""]);
}

#[test]
fn a_replay_past_the_end_is_refused_unless_it_may_wrap() {
    let dir = Dir::new();
    let trace = dir.file("past.trace", "R Hit 1000 8 1.0 1.0\nR Hit 17966950 8 1.0 1.0\n");
    let replay = format!("replay:{trace}");
    run_with(&["simulate", "--workload", &replay])
        .complained(1, &["record 2 (17966950+8)", "17966953 sectors", "--wrap"]);
    let run = run_with(&["simulate", "--workload", &replay, "--wrap"]);
    assert_eq!(
        (run.code, run.err.contains("were wrapped to places on the drive")),
        (Some(0), true),
        "{}",
        run.err
    );
}

#[test]
fn the_error_for_a_record_larger_than_the_drive_does_not_advise_wrap() {
    let dir = Dir::new();
    dir.file("tiny.seek", TINY_SEEK);
    let drive = dir.file("tiny.model", TINY_MODEL);
    let replay = format!("replay:{}", dir.file("large.trace", "R Hit 0 20000 1.0 1.0\n"));
    for wrap in [&[][..], &["--wrap"]] {
        // The drive has no firmware, so that only its mechanics can be simulated.
        let args = ["simulate", "--where", "inside", "--drive", &drive, "--workload", &replay];
        let run = run_with(&[&args[..], wrap].concat());
        assert!(!run.err.contains("--wrap"), "{}", run.err);
        run.complained(1, &["record 1 (0+20000)", "16000 sectors", "choose a larger drive"]);
    }
}

#[test]
fn a_drive_without_firmware_is_not_replayed_on_but_by_its_mechanics() {
    let dir = Dir::new();
    dir.file("tiny.seek", TINY_SEEK);
    let drive = dir.file("tiny.model", TINY_MODEL);
    let replay = format!("replay:{}", dir.file("few.trace", "R Hit 0 8 1.0 1.0\n"));
    let args = ["simulate", "--drive", &drive, "--workload", &replay];
    run_with(&args).complained(1, &["no [firmware]", "--where inside"]);
    run_with(&[&args[..], &["--where", "inside"]].concat()).worked();
}

#[test]
fn a_trace_of_a_thousand_years_is_refused() {
    let dir = Dir::new();
    let trace = dir.file("long.trace", "0.0 0 1 2 1\n18000000000000.0 0 1 2 1\n");
    run_with(&["simulate", "--workload", &format!("replay:{trace}")])
        .complained(1, &["a hundred years", "--scale"]);
    let pauses = dir.file("pauses.trace", "R Hit 1 8 1.0 18000000000000000\nR Hit 1 8 1.0 1.0\n");
    run_with(&["simulate", "--workload", &format!("replay:{pauses}")])
        .complained(1, &["a hundred years", "--think"]);
}

#[test]
fn errors_for_unknown_names_give_the_nearest() {
    run("simulate --drive atlas10k")
        .complained(2, &["no built-in drive is called `atlas10k`", "quantum-atlas-10k"]);
    run("drive show zzz").complained(2, &["there are: quantum-atlas-10k"]);
    run("simulate --policy sjf").complained(2, &["unknown policy \"sjf\"", "fcfs, c-look"]);
    run("simulate --policy smtf:").complained(2, &["smtf takes set or priority"]);
    run("simulate --workload tpc-h").complained(2, &["tpcc, postmark and replay:FILE"]);
    run("simulate --polcy fcfs").complained(2, &["--policy"]);
    run("simlate").complained(2, &["simulate"]);
    run("drive").complained(2, &["Usage"]);
    run("").complained(2, &["Usage"]);
}

#[test]
fn wrong_numbers_are_usage_errors() {
    for (flags, mend) in [
        ("--requests 0", "a whole number from 1 to 1000000000"),
        ("--requests -3", "a whole number from 1"),
        ("--requests 18446744073709551616", "a whole number from 1"),
        ("--outstanding 0", "a whole number from 1 to 65536"),
        ("--workload oltp --mpl 4294967297", "a whole number from 1 to 65536"),
        ("--seed -1", "a whole number from 0"),
        ("--background scan --block-size -4096", "4096, 4k, 64KiB or 2T"),
        ("--background scan --block-size 0", "at least one sector"),
        ("--background scan --block-size 1000", "a multiple of 512"),
        ("--background scan --block-size 2g", "at most 2097152 sectors"),
        ("--background scan --block-size 99999999999999999999", "4096, 4k, 64KiB or 2T"),
        ("--block-size 1000", "a multiple of 512"),
        ("--block-size 2g", "at most 2097152 sectors"),
        ("--request-size 511", "a multiple of 512"),
        ("--request-size 900g", "use a larger drive or smaller requests"),
        ("--where outside --request-size 1g", "give 536870912"),
        ("--conservatism nan", "milliseconds from 0"),
        ("--think -1", "milliseconds from 0"),
        ("--think 1e300", "milliseconds from 0"),
        ("--rate 0", "from 0.001 to 1000000"),
        ("--rate inf", "from 0.001 to 1000000"),
        ("--reads 1.5", "a share from 0 to 1"),
        ("--locality nan", "a share from 0 to 1"),
        ("--age-weight -1", "a factor from 0"),
        ("--budget -1", "a whole number from 0"),
        ("--policy sptf-sw:nan", "a number from 0 to 100000"),
    ] {
        run(&format!("simulate {flags}")).complained(2, &[mend]);
    }
}

#[test]
fn conflicting_flags_are_named() {
    for (flags, words) in [
        ("--workload oltp --locality 0.5", ["--locality", "--workload random"]),
        ("--workload oltp --request-size 8k", ["--request-size", "--workload random"]),
        ("--scale 2", ["--scale", "--rate"]),
        ("--wrap", ["--wrap", "replay:FILE"]),
        ("--workload replay:x --rate 5", ["--rate", "--scale"]),
        ("--workload replay:x --reads 1", ["--reads", "a trace says"]),
        ("--rate 5 --outstanding 2", ["--rate", "--outstanding"]),
        ("--workload oltp --rate 5 --mpl 2", ["--rate", "--mpl"]),
        ("--workload replay:x --scale 5 --mpl 2", ["--scale", "--mpl"]),
        ("--compress 20", ["--compress", "replay:FILE"]),
        ("--workload replay:x --compress 20 --mpl 2", ["--compress", "--mpl"]),
        ("--workload replay:x --compress 20 --scale 2", ["--scale", "--compress"]),
        ("--rate 5 --think 2", ["--rate", "--think"]),
        ("--workload replay:x --scale 5 --think 2", ["--scale", "--think"]),
        ("--blind", ["--blind", "--where outside"]),
        ("--where outside --blind --conservatism 0.3", ["--conservatism", "omit the option"]),
        ("--conservatism 0.3", ["--conservatism", "--where outside"]),
    ] {
        run(&format!("simulate {flags}")).complained(2, &words);
    }
}

#[test]
fn a_mistake_in_a_load_is_underlined() {
    for (load, words) in [
        ("zipf:0.9,size=4x", ["\"4x\" is no size", "zipf:0.9,size=4x", "such as 512, 4k"]),
        ("random + sequential:0", ["streams is \"0\"", "random + sequential:0", "from 1 to 65536"]),
        (
            "random,range=0-99999999999",
            ["ends at LBN 99999999999", "range=0-99999999999", "below the drive's capacity"],
        ),
    ] {
        run_with(&["simulate", "--workload", load]).complained(2, &words);
    }
    let flags = [
        ("--rate", "5", "behind the semicolon"),
        ("--reads", "1", "give reads=SHARE"),
        ("--wrap", "", "replay:FILE"),
    ];
    for (flag, value, mend) in flags {
        let args = ["simulate", "--workload", "zipf:1; poisson:9", flag, value];
        run_with(&args[..if value.is_empty() { 4 } else { 5 }]).complained(2, &[flag, mend]);
    }
    run_with(&["simulate", "--where", "outside", "--workload", "random,size=1g"])
        .complained(2, &["one command", "536870912"]);
}

#[test]
fn a_load_that_the_drive_cannot_keep_up_with_ends() {
    run("simulate --rate 100000 --requests 1000000").complained(1, &["65536 requests wait", "--rate"]);
}
