//! The order in which tests begin.

use crate::Test;
use std::collections::BTreeMap;
use std::time::Duration;

/// Puts tests into the order in which they begin. Tests whose time is unknown come first, mixed from all binaries,
/// because the tests of one binary are alike in their time and in the part of it that they wait. The others follow,
/// the longest first, so that no long test begins when all others have ended.
#[must_use]
pub fn order(mut tests: Vec<Test>, took: impl Fn(&Test) -> Option<Duration>) -> Vec<Test> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    tests.iter().for_each(|test| *counts.entry(test.binary).or_default() += 1);
    let mut begun: BTreeMap<usize, u64> = BTreeMap::new();
    // Returns the share of a binary's tests that have begun when this test begins, in millionths.
    let share = |test: &Test| {
        let place = begun.entry(test.binary).or_default();
        *place += 1;
        *place * 1_000_000 / counts.get(&test.binary).copied().unwrap_or(1)
    };
    let shares: Vec<u64> = tests.iter().map(share).collect();
    let mut keyed: Vec<_> = shares.into_iter().zip(tests.drain(..)).collect();
    keyed.sort_by_key(|(share, test)| match took(test) {
        None => (false, std::cmp::Reverse(Duration::ZERO), *share),
        Some(took) => (true, std::cmp::Reverse(took), *share),
    });
    keyed.into_iter().map(|(_, test)| test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(of: &[(&str, usize)]) -> Vec<Test> {
        let test = |&(name, binary): &(&str, _)| Test {
            name: name.into(),
            binary,
            filter: None,
            ignored: false,
            waits: false,
        };
        of.iter().map(test).collect()
    }

    fn names(tests: &[Test]) -> Vec<&str> {
        tests.iter().map(|test| test.name.as_str()).collect()
    }

    #[test]
    fn tests_of_unknown_time_are_mixed_from_all_binaries() {
        let all = tests(&[("a1", 0), ("a2", 0), ("a3", 0), ("a4", 0), ("b1", 1), ("b2", 1)]);
        assert_eq!(names(&order(all, |_| None)), ["a1", "a2", "b1", "a3", "a4", "b2"]);
    }

    #[test]
    fn the_longest_test_begins_first_after_those_of_unknown_time() {
        let all = tests(&[("short", 0), ("long", 0), ("new", 0), ("middle", 1)]);
        let took = |test: &Test| match test.name.as_str() {
            "short" => Some(1),
            "middle" => Some(2),
            "long" => Some(3),
            _ => None,
        };
        let ordered = order(all, |test| took(test).map(Duration::from_secs));
        assert_eq!(names(&ordered), ["new", "long", "middle", "short"]);
    }
}
