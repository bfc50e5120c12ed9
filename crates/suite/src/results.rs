//! The results of a run, as a stored table, and the changes since.

use crate::{Finished, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The factor, up or down, beyond which a time has changed, if it also differs by [`CHANGE_MIN`].
const CHANGE_FACTOR: f64 = 1.5;
/// The smallest difference of processor time that is reported; smaller ones are within the noise of the machine.
const CHANGE_MIN: Duration = Duration::from_secs(5);
/// The end of a commit's name if the tree had changes that are not in the commit.
pub(crate) const DIRTY: &str = "-dirty";

/// The results of all tests of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The tier and the number of processors, in one line.
    pub heading: String,
    /// The result of each test, by name.
    pub tests: BTreeMap<String, Kept>,
}

/// The part of a test's result that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The way in which the test ended.
    pub outcome: Outcome,
    /// The test's processor time.
    pub processor: Duration,
    /// The time from the test's start to its end.
    pub took: Duration,
    /// The commit and the day at which the test ran.
    pub ran: Ran,
}

/// The commit at which tests ran, and the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The commit's abbreviated hash, followed by `-dirty` if the tree had changes that are not in the commit.
    pub commit: String,
    /// The day, as `2026-11-27`.
    pub day: String,
}

/// An error in a kept table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// A line is not a row of the table.
    #[error(
        "line {0}: not a result, two times, a commit, a day and a test's name with tabs between; delete the file, a run writes it again"
    )]
    Line(usize),
}

impl Results {
    /// Puts the result of a test into the table, in place of an earlier one.
    pub fn put(&mut self, test: &Finished, ran: &Ran) {
        let Finished { outcome, processor, took, .. } = *test;
        self.tests.insert(test.name.clone(), Kept { outcome, processor, took, ran: ran.clone() });
    }

    /// Returns whether a test has a result of this commit. A result of a tree with uncommitted changes never counts,
    /// because the changes are unknown.
    #[must_use]
    pub fn has(&self, test: &str, ran: &Ran) -> bool {
        !ran.commit.ends_with(DIRTY) && self.tests.get(test).is_some_and(|kept| kept.ran.commit == ran.commit)
    }

    /// Returns the number of passed, skipped and failed tests of the table.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        [Outcome::Passed, Outcome::Skipped, Outcome::Failed]
            .map(|outcome| self.tests.values().filter(|kept| kept.outcome == outcome).count())
    }

    /// Reads a table.
    ///
    /// # Errors
    /// If a line is not of the form that [`Results::table`] writes.
    pub fn read(text: &str) -> Result<Self, ResultsError> {
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default().trim_start_matches("# ").to_owned();
        let mut tests = BTreeMap::new();
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let (name, result) = result(line).ok_or(ResultsError::Line(at + 2))?;
            tests.insert(name, result);
        }
        Ok(Self { heading, tests })
    }

    /// Returns the text of the table: a heading, and a line for each test.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text =
            format!("# {}\n# result, seconds of processor time, seconds, commit, day, test\n", self.heading);
        for (name, Kept { outcome, processor, took, ran: Ran { commit, day } }) in &self.tests {
            let (processor, took) = (processor.as_secs_f64(), took.as_secs_f64());
            let _ = writeln!(text, "{}\t{processor:.1}\t{took:.1}\t{commit}\t{day}\t{name}", word(*outcome));
        }
        text
    }

    /// Returns the differences, a line each: tests that are new or gone, other outcomes, other times.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, Kept { outcome, processor, .. }) in &self.tests {
            let Some(then) = before.tests.get(name) else {
                changes.push(format!("new: {name} ({})", word(*outcome)));
                continue;
            };
            if *outcome != then.outcome {
                changes.push(format!("{}, was {}: {name}", word(*outcome), word(then.outcome)));
            }
            let (now, was) = (processor.as_secs_f64(), then.processor.as_secs_f64());
            let factor = now.max(was) / now.min(was).max(0.01);
            if processor.abs_diff(then.processor) >= CHANGE_MIN && factor >= CHANGE_FACTOR {
                changes.push(format!("{now:.1} s, was {was:.1} s: {name}"));
            }
        }
        let gone = before.tests.keys().filter(|name| !self.tests.contains_key(*name));
        changes.extend(gone.map(|name| format!("gone: {name}")));
        changes
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Skipped => "skipped",
        Outcome::Failed => "failed",
    }
}

fn result(line: &str) -> Option<(String, Kept)> {
    let mut fields = line.split('\t');
    let outcome = match fields.next()? {
        "passed" => Outcome::Passed,
        "skipped" => Outcome::Skipped,
        "failed" => Outcome::Failed,
        _ => return None,
    };
    let mut seconds = || Duration::try_from_secs_f64(fields.next()?.parse().ok()?).ok();
    let (processor, took) = (seconds()?, seconds()?);
    let mut text = || Some(fields.next()?.to_owned());
    let ran = Ran { commit: text()?, day: text()? };
    Some((text()?, Kept { outcome, processor, took, ran }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(commit: &str) -> Ran {
        Ran { commit: commit.into(), day: "2000-10-23".into() }
    }

    fn results(of: &[(&str, Outcome, u64)]) -> Results {
        let test = |&(name, outcome, seconds): &(&str, _, _)| {
            let processor = Duration::from_secs(seconds);
            (name.to_owned(), Kept { outcome, processor, took: 2 * processor, ran: at("abc") })
        };
        Results { heading: "a tier".into(), tests: of.iter().map(test).collect() }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let some =
            results(&[("a::b", Outcome::Passed, 3), ("c", Outcome::Failed, 0), ("d", Outcome::Skipped, 1)]);
        assert_eq!(Results::read(&some.table()), Ok(some));
        assert_eq!(
            Results::read("# x\npassed\t1.0\t2.0\tc\td\ta\npassed\t1.0\tb"),
            Err(ResultsError::Line(3))
        );
    }

    #[test]
    fn a_test_that_ran_has_its_own_row_and_the_others_stay() {
        let mut kept = results(&[("a", Outcome::Passed, 3), ("b", Outcome::Passed, 5)]);
        let test = Finished {
            name: "b".into(),
            outcome: Outcome::Failed,
            processor: Duration::from_secs(7),
            took: Duration::from_secs(14),
            skips: Vec::new(),
            output: String::new(),
        };
        kept.put(&test, &at("def"));
        assert_eq!(kept.counts(), [1, 0, 1]);
        assert!(kept.has("a", &at("abc")) && !kept.has("a", &at("def")));
        assert!(kept.has("b", &at("def")) && !kept.has("c", &at("def")));
        // The changes of a dirty tree are unknown, so its row never counts as a result of this commit.
        kept.put(&test, &at("def-dirty"));
        assert!(!kept.has("b", &at("def-dirty")));
    }

    #[test]
    fn a_changed_test_is_named() {
        let before = results(&[
            ("a", Outcome::Passed, 20),
            ("b", Outcome::Passed, 20),
            ("c", Outcome::Passed, 1),
            ("d", Outcome::Passed, 1),
        ]);
        let now = results(&[
            ("a", Outcome::Passed, 22),
            ("b", Outcome::Passed, 40),
            ("c", Outcome::Failed, 1),
            ("e", Outcome::Passed, 1),
        ]);
        let expected = ["40.0 s, was 20.0 s: b", "failed, was passed: c", "new: e (passed)", "gone: d"];
        assert_eq!(now.since(&before), expected);
        assert!(now.since(&now).is_empty());
    }
}
