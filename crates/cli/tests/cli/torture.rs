//! `freeblock torture`.

use crate::support::{Dir, run, run_with};

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../torture/seeds");

#[test]
fn the_same_seed_gives_the_same_histories() {
    let first = run("torture --seed 3 --steps 2000").worked();
    assert_eq!(first, run("torture --seed 3 --steps 2000").worked());
    for word in ["seed 3", "every promise held", "power cuts", "held against a drive without background"] {
        assert!(first.contains(word), "no {word:?} in:\n{first}");
    }
    let hours = run("torture --seed 3 --hours 0.02").worked();
    assert!(hours.contains("hours of virtual time"), "{hours}");
}

#[test]
fn threads_and_minutes_change_nothing_of_a_history() {
    let one = run("torture --seed 3 --host outside --steps 1500 --jobs 1").worked();
    assert_eq!(one, run("torture --seed 3 --host outside --steps 1500 --jobs 3").worked());
    let minutes = run("torture --seed 3 --minutes 0.01 --host core").worked();
    assert!(minutes.starts_with("seed 3: ") && minutes.contains("every promise held"), "{minutes}");
}

#[test]
fn a_random_seed_is_printed() {
    let drawn = || {
        let text = run("torture --seed random --host core --steps 1").worked();
        text.split([' ', ':']).nth(1).and_then(|seed| seed.parse::<u64>().ok()).unwrap()
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn any_number_of_histories_is_skipped() {
    let all = run("torture --seed 3 --skip 9223372036854775807 --steps 1").worked();
    assert!(all.contains("9,223,372,036,854,775,808 histories, every promise held"), "{all}");
}

#[test]
fn a_history_is_carried_out_again() {
    let file = format!("{SEEDS}/one-place-promoted-twice.history");
    let first = run_with(&["torture", "--replay", &file]).worked();
    assert!(first.contains("every promise held, actions"), "{first}");
    assert_eq!(first, run_with(&["torture", "--replay", &file]).worked());
}

#[test]
fn a_file_that_is_no_history_is_refused_by_line() {
    let dir = Dir::new();
    let file = dir.file("no.history", "freeblock-torture 1\nsteps\nopen 1 20\njump 3\n");
    run_with(&["torture", "--replay", &file]).complained(1, &["no.history:4", "jump", "docs/TORTURE.md"]);
    run_with(&["torture", "--replay", &dir.path("none")]).complained(1, &["cannot read"]);
    run("torture --hours 0").complained(2, &["more than 0"]);
    run("torture --skip 18446744073709551615").complained(2, &["--skip", "9223372036854775807"]);
    run("torture --skip -1").complained(2, &["--skip"]);
    run("torture --hours 1 --steps 1").complained(2, &["cannot be used with"]);
    run("torture --minutes 1 --steps 1").complained(2, &["cannot be used with"]);
    run("torture --minutes 0").complained(2, &["more than 0"]);
    run("torture --seed few").complained(2, &["--seed"]);
    run("torture --host drive").complained(2, &["--host", "volume-outside"]);
    run_with(&["torture", "--replay", &file, "--seed", "1"]).complained(2, &["cannot be used with"]);
}
