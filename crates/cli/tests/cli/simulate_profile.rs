//! `freeblock simulate --where outside`: the scheduler's profile of the drive.

use crate::support::{Dir, FinishedRun, keys, number, run, run_with};
use serde_json::Value;

/// Writes the Atlas 10K's profile with changed words.
fn profile(dir: &Dir, name: &str, changes: &[(&str, &str)]) -> String {
    let mut text = run("drive show quantum-atlas-10k --toml").worked();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from:?} in:\n{text}");
        text = text.replacen(from, to, 1);
    }
    dir.file(name, &text)
}

/// The changes that give the profile the bus and the write cache of the simulated drive's default behaviour.
const AS_IT_IS: [(&str, &str); 2] = [
    ("bulk_sector_ms = 0.099", "bulk_sector_ms = 0.0064"),
    ("write_back = \"always\"", "write_back = \"none\""),
];

const UNKNOWN: (&str, &str) = ("write_back = \"always\"", "write_back = \"unknown\"");

/// Runs a scan beside this number of requests, with a profile.
fn reported(profile: &str, requests: u32, more: &str) -> FinishedRun {
    let requests = requests.to_string();
    let mut args = vec!["simulate", "--where", "outside", "--workload", "oltp", "--background", "scan"];
    args.extend(["--requests", &requests, "--profile", profile]);
    args.extend(more.split_whitespace());
    run_with(&args)
}

/// Removes the fields that name the profile, and the clock.
fn but_for_the_clock(mut json: Value) -> Value {
    let fields = json.as_object_mut().unwrap();
    fields.remove("wall_s");
    fields.remove("title");
    json
}

#[test]
fn a_profile_that_is_right_is_as_knowing_all() {
    let exact = "--behaviour queue=sptf:64 --json";
    let all =
        run(&format!("simulate --where outside --workload oltp --background scan --requests 3000 {exact}"));
    let by_profile = reported("quantum-atlas-10k", 3_000, exact).json();
    assert_eq!(but_for_the_clock(by_profile), but_for_the_clock(all.json()));
    let page = reported("quantum-atlas-10k", 500, "--behaviour queue=sptf:64").worked();
    assert!(
        page.lines().next().is_some_and(|title| title.contains(", fcfs outside the drive")
            && title.ends_with(", with the profile quantum-atlas-10k")),
        "{page}"
    );
}

#[test]
fn a_profile_of_the_noisy_drive_is_trusted_and_its_gaps_are_used() {
    let dir = Dir::new();
    // If the profile does not say whether the drive caches writes, the scheduler finds out.
    for (name, changes) in [("right.toml", AS_IT_IS), ("unknown.toml", [AS_IT_IS[0], UNKNOWN])] {
        let json = reported(&profile(&dir, name, &changes), 4_000, "--pass-through off --json").json();
        let outside = &json["outside"];
        assert_eq!(
            keys(outside),
            ["caution", "caution_s", "detours", "foresight", "gaps", "harm_percent", "idle", "mistrusted"]
        );
        assert_eq!(outside["mistrusted"], Value::Bool(false), "{name}: {outside}");
        assert!(number(outside, "/foresight/within_100us") > 0.85, "{name}: {outside}");
        assert!(number(outside, "/gaps/used") > 1_000.0, "{name}: {outside}");
        assert!(number(outside, "/detours/share") < 0.01, "{name}: {outside}");
    }
}

#[test]
fn a_drive_that_is_not_as_its_profile_says_is_mistrusted_and_no_gap_used() {
    let dir = Dir::new();
    let slower = profile(&dir, "slower.toml", &[AS_IT_IS[0], AS_IT_IS[1], ("rpm = 10025", "rpm = 9600")]);
    // The second profile has the bus and cache of the drive's file, not those of the default behaviour.
    for wrong in [slower.as_str(), "quantum-atlas-10k"] {
        let outside = &reported(wrong, 5_000, "--json").json()["outside"];
        assert_eq!(outside["mistrusted"], Value::Bool(true), "{wrong}: {outside}");
        assert!(outside["caution"].is_string(), "{wrong}: {outside}");
        assert_eq!(number(outside, "/gaps/used"), 0.0, "{wrong}: {outside}");
    }
    let page = reported(&slower, 5_000, "").worked();
    assert!(page.contains("\nMISTRUSTED      the drive has not behaved"), "{page}");
}

#[test]
fn a_profile_that_cannot_be_believed_is_refused() {
    let dir = Dir::new();
    let (size, whole) = ("17808504 sectors of 512 bytes", "17966953 of 512");
    for (args, words) in [
        ("--profile quantum-atlas-10k", ["--profile", "--where outside"]),
        ("--where outside --blind --profile quantum-atlas-10k", ["--profile", "leave one of them out"]),
        ("--where outside --profile none", ["--profile none", "give --blind"]),
        ("--where outside --profile atlas10k", ["--profile: no built-in drive", "quantum-atlas-10k"]),
        ("--where outside --profile seagate-cheetah-18lp", [size, whole]),
        (
            "--where outside --profile seagate-cheetah-18lp",
            ["--profile seagate-cheetah-18lp", "give a profile of"],
        ),
    ] {
        run(&format!("simulate {args}")).complained(2, &words);
    }
    run("simulate --where outside --profile nowhere.toml")
        .complained(1, &["--profile: cannot read nowhere.toml"]);
    let sectors = profile(&dir, "sectors.toml", &[("sector_bytes = 512", "sector_bytes = 4096")]);
    reported(&sectors, 100, "").complained(2, &["17966953 sectors of 4096 bytes", whole]);
    let text = run("drive show quantum-atlas-10k --toml").worked();
    let mute = dir.file("mute.toml", text.split("[firmware]").next().unwrap());
    reported(&mute, 100, "").complained(1, &["--profile", "the overhead of commands", "[firmware]"]);
}

#[test]
fn blind_the_policies_of_positions_say_that_they_go_by_distance() {
    let blind = |policy: &str| {
        run(&format!("simulate --where outside --blind --outstanding 20 --requests 500 --policy {policy}"))
    };
    let nearest = blind("sstf").worked();
    assert!(nearest.starts_with("Quantum Atlas 10K (9 GB, 1999), random 4096 bytes, "), "{nearest}");
    // Returns the page without its title and the real time.
    let rest = |page: &str| -> Vec<String> {
        page.lines().skip(1).filter(|line| !line.starts_with("time ")).map(str::to_owned).collect()
    };
    for policy in ["sptf", "sptf-sw:60"] {
        let run = blind(policy);
        assert_eq!(run.code, Some(0));
        let title = run.out.lines().next().unwrap();
        assert!(title.contains(&format!(", {policy} by LBN distance outside the drive")), "{title}");
        assert!(
            run.err.contains(&format!("{policy} knows no positions and uses LBN distance, as sstf does")),
            "{}",
            run.err
        );
        assert_eq!(rest(&run.out), rest(&nearest), "{policy}");
    }
    let known = run("simulate --where outside --outstanding 20 --requests 500 --policy sptf").worked();
    assert!(!known.contains("LBN distance"), "{known}");
}
