//! Learners in files: each is read back as it was written, and other bytes are refused.

use mimic::{
    CheckPoints, Distance, Learner, LearnerConfig, LearntError, Metric, Pair, Samples, Table, TableBuilder,
};
use proptest::prelude::*;
use units::{Bytes, Duration, Sectors};

fn config() -> LearnerConfig {
    let memory = Bytes::new(1 << 20);
    LearnerConfig { memory, ..LearnerConfig::new(Sectors::new(1_000_000), Sectors::new(8)) }
}

fn table() -> Table {
    let mut builder = TableBuilder::new(Metric::Mean, 7);
    for (distance, us) in [(-900_000, 9_000), (1, 500), (900_001, 11_000)] {
        let samples: Samples = [Duration::from_micros(us)].into_iter().collect();
        builder.push(Pair::ALL[0], Distance::new(distance), &samples, true);
    }
    builder.stand_in(Pair::ALL[0]);
    builder.build()
}

/// A pair, a distance in steps, and a time in ns.
type Seen = (usize, i64, u64);

fn seen() -> impl Strategy<Value = Vec<Seen>> {
    let steps = prop_oneof![3 => -40..40i64, 1 => -120_000..120_000i64];
    prop::collection::vec((0..4usize, steps, 100_000..15_000_000u64), 0..400)
}

fn learn(learner: &mut Learner, seen: &[Seen]) {
    for &(pair, steps, ns) in seen {
        learner.learn(Pair::ALL[pair], Distance::new(steps * 8 + 1), Duration::from_nanos(ns));
    }
}

/// Corrects the length and the checksum of changed bytes, as an attacker would.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = (bytes.len() - 24) as u64;
    bytes[12..20].copy_from_slice(&body.to_le_bytes());
    let at = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn same(a: &Learner, b: &Learner) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.stats(), b.stats());
    for pair in Pair::ALL {
        for steps in (-60..60).chain((-120_000..120_000).step_by(997)) {
            let distance = Distance::new(steps * 8 + 1);
            prop_assert_eq!(a.time_at(pair, distance, 9), b.time_at(pair, distance, 9));
        }
        prop_assert!(a.known(pair).eq(b.known(pair)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After a restart the learner predicts as before, and continues to the byte as if without a
    /// restart.
    #[test]
    fn a_restart_makes_no_difference(
        before in seen(), after in seen(), minimum_samples in 1..3u8, with_table: bool, exact: bool,
    ) {
        let memory = Bytes::new(if exact { 64 << 20 } else { 1 << 18 });
        let config = LearnerConfig { minimum_samples, memory, ..config() };
        let mut learner = Learner::new(config, with_table.then(table)).unwrap();
        prop_assert_eq!(learner.is_exact(), exact);
        learn(&mut learner, &before);
        let mut again = Learner::load(config, "a drive", &learner.save("a drive")).unwrap();
        same(&learner, &again)?;
        prop_assert_eq!(learner.table(), again.table());
        learn(&mut learner, &after);
        learn(&mut again, &after);
        same(&learner, &again)?;
        prop_assert_eq!(learner.save("a drive"), again.save("a drive"));
    }

    /// With more or less memory, another grain or another rule, all known distances stay known.
    #[test]
    fn the_configuration_may_change(before in seen(), memory in 1u64 << 18..1 << 24, unit in 1..20u64) {
        let mut learner = Learner::new(config(), None).unwrap();
        learn(&mut learner, &before);
        let other = LearnerConfig {
            memory: Bytes::new(memory),
            unit: Sectors::new(unit),
            check_points: CheckPoints::CAREFUL,
            ..config()
        };
        let loaded = Learner::load(other, "a drive", &learner.save("a drive")).unwrap();
        for pair in Pair::ALL {
            for (distance, _) in learner.known(pair) {
                prop_assert!(loaded.time_at(pair, distance, 0).is_some());
            }
        }
        prop_assert_eq!(loaded.stats().observed, learner.stats().observed);
        prop_assert!(loaded.memory().get() <= memory.max(1 << 18) + (1 << 15));
    }

    #[test]
    fn no_damaged_byte_goes_unnoticed(before in seen(), at: prop::sample::Index, bit in 0..8u32, cut: prop::sample::Index) {
        let mut learner = Learner::new(config(), None).unwrap();
        learn(&mut learner, &before);
        let mut bytes = learner.save("a drive");
        prop_assert!(Learner::load(config(), "a drive", &bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Learner::load(config(), "a drive", &bytes).is_err());
    }

    /// Even changed bytes with a matching checksum give either an error, or a learner that can be used,
    /// learns and can be saved.
    #[test]
    fn no_sealed_bytes_panic_the_reader(
        before in seen(), with_table: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in 0..12usize,
    ) {
        let mut learner = Learner::new(config(), with_table.then(table)).unwrap();
        learn(&mut learner, &before);
        let mut bytes = learner.save("a drive");
        for (at, byte) in changes {
            let at = 20 + at.index(bytes.len() - 20);
            bytes[at] = byte;
        }
        bytes.truncate((bytes.len() - cut).max(24));
        if let Ok(mut read) = Learner::load(config(), "a drive", &sealed(bytes)) {
            learn(&mut read, &before);
            prop_assert!(Learner::load(config(), "a drive", &read.save("a drive")).is_ok());
        }
    }
}

#[test]
fn forgotten_times_stay_forgotten() {
    let mut learner = Learner::new(config(), Some(table())).unwrap();
    let mut changes = 0;
    for i in 0..200_000u64 {
        // The times are a sawtooth by distance, and later that of another drive.
        let steps = (i * 7_919 % 97) as i64;
        let us = if i < 20_000 { 1_000 + steps * 50 } else { 9_000 + (96 - steps) * 50 };
        learn(&mut learner, &[(0, steps, us as u64 * 1_000)]);
        changes = learner.stats().changes;
        if changes > 0 {
            break;
        }
    }
    assert_eq!(changes, 1);
    let known = learner.stats().known;
    let again = Learner::load(config(), "a drive", &learner.save("a drive")).unwrap();
    assert!(again.table().is_none(), "the table it started from as well");
    assert_eq!((again.stats().known, again.stats().changes), (known, 1));
    assert!(known < 5);
}

#[test]
fn each_refusal_has_its_reason_and_mend() {
    let mut learner = Learner::new(config(), None).unwrap();
    learn(&mut learner, &[(0, 7, 2_000_000), (3, 9, 4_000_000)]);
    let whole = learner.save("WD-4711");
    let says = |config: LearnerConfig, drive: &str, bytes: &[u8], words: &[&str]| {
        let message = Learner::load(config, drive, bytes).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    let anew = "begin anew without it";
    says(config(), "WD-4711", b"", &["holds no learner's state", anew]);
    says(config(), "WD-4711", &whole[..10], &["damaged", "10 bytes", anew]);
    let mut later = whole.clone();
    later[8] = 3;
    says(config(), "WD-4711", &later, &["version 3", "version 2", anew]);
    let mut changed = whole.clone();
    changed[70] ^= 4;
    says(config(), "WD-4711", &changed, &["damaged", "checksum", anew]);
    says(config(), "WD-4712", &whole, &["WD-4711", "WD-4712", anew]);
    let larger = LearnerConfig { capacity: Sectors::new(2_000_000), ..config() };
    says(larger, "WD-4711", &whole, &["1000000 sectors", "2000000", anew]);
    let none = LearnerConfig { unit: Sectors::ZERO, ..config() };
    says(none, "WD-4711", &whole, &["unit"]);
    // One pair claims 256 distances more than it has.
    let mut claims = whole.clone();
    let last = whole.len() - 4 - 2 - (1 + 1 + 4) - 8 - 1;
    claims[last] = 1;
    says(config(), "WD-4711", &sealed(claims), &["is impossible", anew]);
    assert!(matches!(Learner::load(config(), "WD-4711", b"FBMIMIC\n"), Err(LearntError::NotLearnt)));
}
