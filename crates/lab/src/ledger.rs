//! The ledger: the newest result of each claim in each size, with the commit and the day of its run; and the document
//! that is generated from it.
//!
//! Full-size runs take hours and are spread over days, so the results come from several commits. Each entry therefore
//! names its commit.
//!
//! ```
//! use freeblock_lab::ledger::{Ledger, LedgerRun};
//! use freeblock_lab::{Lab, Size, find};
//! let experiment = find("osdi00-fig5").unwrap();
//! let outcome = experiment.conduct(&Lab::new(Size::Quick, 1))?;
//! let mut ledger = Ledger::default();
//! let (commit, date) = ("1234567".to_owned(), "2026-01-31".to_owned());
//! ledger.record(LedgerRun { experiment: "osdi00-fig5".into(), size: Size::Quick, seed: 1, commit, date, claims: outcome.claims });
//! assert!(ledger.markdown(freeblock_lab::experiments()).contains("| `osdi00-fig5` |"));
//! # Ok::<(), freeblock_lab::LabError>(())
//! ```

use crate::{Claim, Experiment, Paper, Size};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use thiserror::Error;

/// The results of all claims, one run for each experiment and size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    runs: Vec<LedgerRun>,
}

/// The claims of one run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerRun {
    /// The experiment's id.
    pub experiment: String,
    /// The size of the run.
    pub size: Size,
    /// The first seed.
    pub seed: u64,
    /// The commit that was built.
    pub commit: String,
    /// The day of the run, as 2026-01-31.
    pub date: String,
    /// The claims, with the values of this run.
    pub claims: Vec<Claim>,
}

/// A ledger that cannot be read or written.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The text was not written by [`Ledger::to_json`].
    #[error("the file is no ledger of claims: {0}; restore it from git, or delete it to begin a new one")]
    Read(serde_json::Error),
    /// A number cannot be written as JSON.
    #[error("the ledger cannot be written as JSON: {0}")]
    Write(serde_json::Error),
}

impl Ledger {
    /// Reads a ledger from the text of its file.
    ///
    /// # Errors
    /// [`LedgerError::Read`] with line and column.
    pub fn from_json(text: &str) -> Result<Self, LedgerError> {
        serde_json::from_str(text).map_err(LedgerError::Read)
    }

    /// Returns the text of the ledger's file.
    ///
    /// # Errors
    /// [`LedgerError::Write`].
    pub fn to_json(&self) -> Result<String, LedgerError> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(LedgerError::Write)
    }

    /// Returns the claims of an experiment's last run, of the full size if there is one.
    pub fn claims(&self, experiment: &str) -> &[Claim] {
        let of = |size| self.runs.iter().find(|run| run.experiment == experiment && run.size == size);
        of(Size::Full).or_else(|| of(Size::Quick)).map_or(&[], |run| &run.claims)
    }

    /// Records a run in place of the former one of the same experiment and size. Runs are kept in the order of their
    /// experiments' ids, so that a file changes only where a result does.
    pub fn record(&mut self, run: LedgerRun) {
        self.runs.retain(|old| (&old.experiment, old.size) != (&run.experiment, run.size));
        self.runs.push(run);
        self.runs.sort_by(|a, b| {
            (&a.experiment, a.size == Size::Full).cmp(&(&b.experiment, b.size == Size::Full))
        });
    }

    /// Returns the document: a summary, then each paper's claims with the paper's words, our values, the band, the
    /// reason where a claim does not hold, and the command.
    pub fn markdown(&self, experiments: &[Experiment]) -> String {
        let mut text = String::from(HEAD);
        let papers = papers(experiments);
        self.summary(&mut text, &papers, experiments);
        for paper in papers {
            // Writing to a string does not fail.
            let _ = write!(text, "\n## {paper}\n");
            for experiment in experiments.iter().filter(|e| e.paper == paper && !e.claims.is_empty()) {
                self.section(&mut text, experiment);
            }
        }
        text
    }

    fn summary(&self, text: &mut String, papers: &[Paper], experiments: &[Experiment]) {
        text.push_str("| paper | claims | hold, quick | hold, full |\n|---|---|---|---|\n");
        let row = |text: &mut String, name: &str, of: &dyn Fn(&Experiment) -> bool| {
            let declared = || {
                experiments.iter().filter(|e| of(e)).flat_map(|e| e.claims.iter().map(move |id| (e.id, *id)))
            };
            let holding = |size| {
                let found: Vec<&Claim> = declared()
                    .filter_map(|(experiment, id)| self.claim(experiment, id, size))
                    .map(|(_, claim)| claim)
                    .collect();
                let holding = found.iter().filter(|claim| claim.holds()).count();
                format!("{holding} of {} run", found.len())
            };
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {} |",
                declared().count(),
                holding(Size::Quick),
                holding(Size::Full)
            );
        };
        for &paper in papers {
            row(text, &paper.to_string(), &|e| e.paper == paper);
        }
        row(text, "all", &|_| true);
        let mut commits: Vec<String> = self
            .runs
            .iter()
            .map(|run| format!("{} at {} ({})", word(run.size), run.commit, run.date))
            .collect();
        commits.sort();
        commits.dedup();
        let _ = writeln!(text, "\nCommits of these runs: {}.", commits.join("; "));
    }

    fn section(&self, text: &mut String, experiment: &Experiment) {
        let title = experiment.title.trim_end_matches('.');
        let _ = write!(text, "\n### {}: {title}\n", experiment.reproduces);
        let _ = write!(text, "\n{}\n\n", experiment.set_up);
        text.push_str(
            "| claim | the paper | ours, quick | ours, full | band | holds |\n|---|---|---|---|---|---|\n",
        );
        let mut reasons = String::new();
        for id in experiment.claims {
            let [quick, full] = [Size::Quick, Size::Full].map(|size| self.claim(experiment.id, id, size));
            let ours = |found: Option<(&LedgerRun, &Claim)>| {
                found.map_or("not run".to_owned(), |(_, claim)| values(claim))
            };
            let words = full.or(quick).map_or("", |(_, claim)| claim.paper.as_str());
            let bands = full.or(quick).map_or(String::new(), |(_, claim)| {
                lines(claim.measures.iter().map(|m| format!("{}{}", m.band, m.unit)))
            });
            let holds = |found: Option<(&LedgerRun, &Claim)>| match found {
                None => "-",
                Some((_, claim)) if claim.holds() => "yes",
                Some(_) => "**no**",
            };
            let _ = writeln!(
                text,
                "| `{id}` | {} | {} | {} | {bands} | {}, {} |",
                cell(words),
                ours(quick),
                ours(full),
                holds(quick),
                holds(full)
            );
            for (run, claim) in
                [full, quick].into_iter().flatten().filter(|(_, claim)| !claim.holds()).take(1)
            {
                let _ = writeln!(reasons, "- `{id}`, {}: {}", word(run.size), reason(claim));
            }
        }
        if !reasons.is_empty() {
            let _ = write!(text, "\n{reasons}");
        }
        let _ = writeln!(
            text,
            "\n`freeblock lab run {} --quick`, and without `--quick` for the full size.",
            experiment.id
        );
    }

    fn claim(&self, experiment: &str, id: &str, size: Size) -> Option<(&LedgerRun, &Claim)> {
        let run = self.runs.iter().find(|run| run.experiment == experiment && run.size == size)?;
        run.claims.iter().find(|claim| claim.id == id).map(|claim| (run, claim))
    }
}

const HEAD: &str = "\
# The papers' claims, reproduced

This page is for a reader who wants to know how far the simulation meets the papers, and where it does not.
`freeblock lab report` generates it from the ledger of runs (`docs/results/claims.json`); `make reproduction` runs the quick size and
writes both. A claim holds if the mean of our value over the seeds lies in the band, which was fixed before the first run. A
value over several seeds stands with its least and its most.

";

/// Returns the papers in the order of the experiments.
fn papers(experiments: &[Experiment]) -> Vec<Paper> {
    let mut papers = Vec::new();
    for experiment in experiments.iter().filter(|e| !e.claims.is_empty()) {
        if !papers.contains(&experiment.paper) {
            papers.push(experiment.paper);
        }
    }
    papers
}

fn word(size: Size) -> &'static str {
    match size {
        Size::Quick => "quick",
        Size::Full => "full",
    }
}

/// Returns our values, one for each line of the cell; those out of their band in bold.
fn values(claim: &Claim) -> String {
    if claim.measures.is_empty() {
        return "not measured".to_owned();
    }
    lines(claim.measures.iter().map(|measure| {
        let sentence = cell(&measure.sentence());
        if measure.holds() { sentence } else { format!("**{sentence}**") }
    }))
}

fn lines(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("<br>")
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// Returns the first sentence of the claim's note.
fn reason(claim: &Claim) -> String {
    let note = claim.note.trim();
    if note.is_empty() {
        return "no reason is known yet.".to_owned();
    }
    let ends = note.match_indices(". ").find(|(at, _)| note[at + 2..].starts_with(char::is_uppercase));
    cell(ends.map_or(note, |(at, _)| &note[..=at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Band, LabError, Outcome};

    const EXPERIMENT: Experiment = Experiment {
        id: "x-fig1",
        paper: Paper::Osdi00,
        reproduces: "figure 1",
        title: "A title",
        set_up: "Set up.",
        claims: &["x-fig1a", "x-fig1b"],
        timed: false,
        run: |_| Ok::<_, LabError>(Outcome::default()),
    };

    fn run(size: Size, commit: &str, second: f64) -> LedgerRun {
        let claims = vec![
            Claim::new("x-fig1a", "half | most").measure("a", 0.5, "%", Band::AtLeast(0.4)),
            Claim::new("x-fig1b", "all")
                .measure("", second, "%", Band::AtLeast(0.9))
                .note("The drive is 2.5 times as large. More."),
        ];
        LedgerRun {
            experiment: "x-fig1".into(),
            size,
            seed: 42,
            commit: commit.into(),
            date: "2026-01-31".into(),
            claims,
        }
    }

    #[test]
    fn a_ledger_that_is_written_is_read_again() {
        let mut ledger = Ledger::default();
        ledger.record(run(Size::Full, "a", 0.5));
        ledger.record(run(Size::Quick, "b", 98.550_000_000_000_01));
        assert_eq!(Ledger::from_json(&ledger.to_json().unwrap()).unwrap(), ledger);
    }

    #[test]
    fn a_later_run_replaces_the_former_of_its_size_only() {
        let mut ledger = Ledger::default();
        ledger.record(run(Size::Full, "old-full", 0.5));
        ledger.record(run(Size::Quick, "old-quick", 0.5));
        ledger.record(run(Size::Quick, "new-quick", 0.95));
        let commits: Vec<&str> = ledger.runs.iter().map(|run| run.commit.as_str()).collect();
        assert_eq!(commits, ["new-quick", "old-full"]);
    }

    #[test]
    fn the_document_counts_claims_that_hold_and_gives_one_sentence_of_reason() {
        let mut ledger = Ledger::default();
        ledger.record(run(Size::Quick, "c0ffee", 0.5));
        let text = ledger.markdown(&[EXPERIMENT]);
        assert!(text.contains("| all | 2 | 1 of 2 run | 0 of 0 run |"), "{text}");
        assert!(text.contains("- `x-fig1b`, quick: The drive is 2.5 times as large.\n"), "{text}");
        assert!(
            text.contains("half \\| most") && text.contains("**0.50%**") && text.contains("not run"),
            "{text}"
        );
        assert!(text.contains("quick at c0ffee (2026-01-31)"), "{text}");
    }

    #[test]
    fn a_claim_without_a_run_is_listed_all_the_same() {
        let text = Ledger::default().markdown(&[EXPERIMENT]);
        assert!(text.contains("| `x-fig1a` |  | not run | not run |  | -, - |"), "{text}");
    }
}
