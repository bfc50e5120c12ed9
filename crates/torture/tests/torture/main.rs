//! Runs the histories that once failed (in `seeds`), and new histories drawn from the commit's hash.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // helpers of tests stand outside test functions

use freeblock_torture::{Counts, Host, Scenario, Torture, generate, generate_on, run, shrink};
use std::path::Path;

#[test]
fn former_failures_stay_fixed() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let history = Scenario::parse(&std::fs::read_to_string(&file).unwrap());
        let history = history.unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Err(failure) = run(&history) {
            panic!("{name}: {failure}");
        }
    }
}

/// The number of steps is fixed, so that the search is as thorough on every machine. It takes some twenty seconds of one
/// processor.
mod new_histories_of_this_commit_keep_every_promise {
    use super::*;

    #[test]
    fn in_the_drive() {
        search(Host::Core, (30_000, 60_000), |c| {
            vec![c.compared, c.written, c.bad, c.cuts, c.lost, c.power_cuts, c.scrubs, c.promoted, c.mined]
        });
    }

    #[test]
    fn outside_the_drive() {
        search(Host::Outside, (4_000, 9_000), |c| {
            vec![
                c.written,
                c.bad,
                c.lost,
                c.given_up,
                c.readings,
                c.adopted,
                c.power_cuts,
                c.scrubs,
                c.promoted,
                c.mined,
                c.commands,
                c.detours,
            ]
        });
    }

    #[test]
    fn on_a_volume() {
        search(Host::Volume, (6_000, 12_000), |c| {
            let applications = vec![c.flushes, c.restores, c.reorganisations, c.fetched, c.full];
            [applications, vec![c.logged, c.cleaned, c.copied, c.power_cuts]].concat()
        });
    }

    #[test]
    fn on_a_volume_outside_the_drive() {
        search(Host::VolumeOutside, (3_000, 6_000), |c| {
            vec![c.flushes, c.restores, c.reorganisations, c.fetched, c.logged, c.power_cuts]
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn in_the_daemon() {
        search(Host::Daemon, (600, 2_000), |c| {
            let clients = vec![c.requests, c.background_reads, c.snapshot_reads, c.flushes, c.bad];
            [clients, vec![c.snapshots, c.adopted, c.power_cuts, c.kills]].concat()
        });
    }

    /// Runs histories until they have this number of steps (one for the short test tier, one for the long). Runs more, up to a
    /// bound, while a count of `events` is zero, because the histories would not test that event.
    fn search(host: Host, (short, long): (u64, u64), events: impl Fn(&Counts) -> Vec<u64>) {
        let steps = testing::sized(short, long);
        let seed = testing::commit_seed();
        let mut torture = Torture::new(seed).on(host);
        let lacks = |counts: &Counts| events(counts).contains(&0);
        while torture.counts().steps < steps
            || (lacks(&torture.counts()) && torture.counts().steps < long * 10)
        {
            if let Err(found) = torture.next_history() {
                let (shortest, failure) = shrink(&found.scenario, &found.failure, 500);
                panic!(
                    "`freeblock torture --host {host} --seed {seed}` finds in history {}: {failure}\n{shortest}",
                    found.history
                );
            }
        }
        assert!(!lacks(&torture.counts()), "seed {seed}: {:?}", torture.counts());
    }
}

#[test]
fn a_stopped_run_continues_at_the_next_history() {
    let (mut whole, mut second) = (Torture::new(9), Torture::new(9));
    for _ in 0..3 {
        whole.next_history().unwrap();
    }
    second.skip(3);
    assert_eq!((second.histories(), second.upcoming()), (whole.histories(), whole.upcoming()));
    let before = whole.counts();
    whole.next_history().unwrap();
    second.next_history().unwrap();
    assert_eq!(second.counts().steps, whole.counts().steps - before.steps);
}

#[test]
fn several_threads_count_the_same_histories_in_the_same_order() {
    let last = testing::sized(5, 12);
    let run = |jobs| {
        let mut torture = Torture::new(11).on(Host::Outside);
        let mut seen = Vec::new();
        let goes_on = |torture: &Torture| {
            seen.push((torture.histories(), torture.counts()));
            torture.histories() < last
        };
        torture.go_on(jobs, goes_on).unwrap();
        (seen, torture.upcoming())
    };
    let one = run(1);
    assert_eq!(one.0.len() as u64, last + 1);
    assert_eq!(run(3), one);
}

#[test]
fn a_chosen_host_runs_the_histories_that_would_be_drawn_for_it() {
    let of = |seed| generate(seed).setup.host;
    #[cfg(target_os = "linux")]
    let daemon = [Host::Daemon];
    #[cfg(not(target_os = "linux"))]
    let daemon = [];
    for host in [Host::Core, Host::Volume, Host::VolumeOutside, Host::Outside].into_iter().chain(daemon) {
        let mut drawn = 0;
        for seed in 0..120 {
            let history = generate_on(seed, Some(host));
            assert_eq!(history.setup.host, host, "seed {seed}");
            if of(seed) == host {
                drawn += 1;
                assert_eq!(history, generate(seed), "seed {seed}");
            }
        }
        assert!(drawn > 0, "{host}");
    }
}

#[test]
fn a_history_survives_its_file() {
    for seed in 0..200 {
        let history = generate(seed);
        assert_eq!(Scenario::parse(&history.to_string()), Ok(history), "seed {seed}");
    }
}

#[test]
fn files_that_are_no_history_are_refused_by_line() {
    let good = generate_on(3, Some(Host::Core)).to_string();
    let broken = [
        (String::new(), 1, "empty"),
        ("freeblock-torture 2\n".into(), 1, "first line"),
        (good.replace("policy", "polici"), 4, "begin the steps"),
        // The hash of the draws does not match the seed.
        ("freeblock-torture 1\ndrive random 7\ndrawn 1234\nsteps\n".into(), 3, "another history"),
        ("freeblock-torture 1\noutside noisy exact beyond 0 all\nsteps\n".into(), 2, "1 to 64"),
        (good.replace("steps\n", "steps\nfetch soon 3\n"), 17, "nanoseconds"),
        (good.replace("steps\n", "steps\nopen 1 101\n"), 17, "1 to 100"),
        (good.replace("steps\n", "steps\njump 1\n"), 17, "docs/TORTURE.md"),
        (good.replace("steps\n", "steps\nopen 1\n"), 17, "priority"),
        (good.replace("steps\n", "steps\nopen 1 2 3\n"), 17, "takes 2 words"),
        (good.replace("steps\n", "steps\nadvance -3\n"), 17, "below 2^64"),
        (good.replace("steps\n", "steps\nlate 3600000000001\n"), 17, "an hour"),
        (good.replace("steps\n", "steps\nread 1 1 0 9 0\n"), 17, "give 1 to"),
        (good.replace("steps\n", "steps\nscrub 0 8\n"), 17, "1 to 100"),
        ("freeblock-torture 1\nseed 1\ndrive cut nearline-20tb 9999\nsteps\n".into(), 3, "too many"),
        ("freeblock-torture 1\nseed 4\n".into(), 2, "add a line"),
        ("freeblock-torture 1\ndrive cut no-such-drive 3\nsteps\n".into(), 2, "drive"),
    ];
    for (text, line, word) in broken {
        let error = Scenario::parse(&text).unwrap_err();
        assert!(error.line == line && error.message.contains(word), "{error} (line {line}, {word:?})");
    }
}
