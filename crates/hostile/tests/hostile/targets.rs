//! Runs every target on some thousand inputs by seed, and on inputs that broke it before; on many more under FREEBLOCK_LONG.

use hostile::{Mutator, TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

fn inputs() -> u64 {
    testing::sized(4_000, 300_000)
}

/// Runs a target on an input; a failure prints the input in the format of a corpus file.
fn try_on(target: &Target, what: &str, bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} fails on {what}; keep it in corpus/{}: {text}", target.name, target.name);
    }
}

fn drives(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    // A file has one input a line, in hexadecimal digits.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    for (at, line) in std::fs::read_to_string(corpus).unwrap_or_default().lines().enumerate() {
        let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect();
        try_on(target, &format!("line {} of the corpus", at + 1), &bytes);
    }
    for seed in (target.seeds)() {
        try_on(target, "a seed", &seed);
    }
    let mut mutator = Mutator::new(20_001_023, target);
    for n in 0..inputs() {
        try_on(target, &format!("input {n}"), &mutator.draw());
    }
}

macro_rules! drive {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            drives(stringify!($name));
        })*

        #[test]
        fn none_is_left_out() {
            let driven = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), driven);
        }
    };
}

drive! { nbd session http task config journal backup reorganizer recording mimic learner probe profile disksim trace mixture policy scenario }

/// Each target has a binary for the fuzzer, and each binary runs its target. `fuzz/` is not compiled here, because its build
/// needs every dependency a second time: so the text of the binaries is compared, and they call [`hostile::run`], whose type is
/// checked.
#[test]
fn each_target_can_be_fuzzed() {
    const RUN: fn(&str, &[u8]) = hostile::run;
    RUN("policy", b"sptf");
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for Target { name, .. } in TARGETS {
        let declared = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&declared), "fuzz/Cargo.toml lacks\n{declared}");
        let file = fuzz.join("fuzz_targets").join(format!("{name}.rs"));
        let expected = format!(
            "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run(\"{name}\", bytes));\n"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), expected, "{}", file.display());
    }
    let files = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
    assert_eq!(
        (files, manifest.matches("[[bin]]").count()),
        (TARGETS.len(), TARGETS.len()),
        "files and binaries"
    );
}
