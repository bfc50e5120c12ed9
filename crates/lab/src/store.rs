//! Outcomes in files: JSON with the program and the command that made it.

use crate::{Experiment, Outcome, Size};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The parameters on which an outcome depends, except the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The release of the program.
    pub version: String,
    /// The identity of the program's file, so that a rebuilt program does not reuse old numbers.
    pub program: String,
    /// The size of the run.
    pub size: Size,
    /// The first seed.
    pub seed: u64,
}

/// An experiment's outcome, as saved in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The experiment's id.
    pub experiment: String,
    /// The other parameters that the numbers depend on.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The command that makes the outcome.
    pub command: String,
    /// Figures, claims, notes.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// An outcome that cannot be written or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The outcome cannot be written as JSON.
    #[error("the outcome of {experiment} cannot be written as JSON: {source}")]
    Write {
        /// The experiment's id.
        experiment: String,
        /// The error of the JSON writer.
        source: serde_json::Error,
    },
    /// The text was not written by [`Saved::to_json`].
    #[error("the file has no saved outcome: {0}; delete the file, or run without --resume")]
    Read(#[from] serde_json::Error),
}

impl Saved {
    /// Returns the text of the outcome's file.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn to_json(&self) -> Result<String, StoreError> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|source| StoreError::Write { experiment: self.experiment.clone(), source })
    }

    /// Reads an outcome from the text of its file.
    ///
    /// # Errors
    /// [`StoreError::Read`] with line and column.
    pub fn from_json(text: &str) -> Result<Self, StoreError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Returns the name of the file for the outcome of this experiment.
    pub fn file_name(experiment: &str) -> String {
        format!("{experiment}.json")
    }

    /// Returns whether this is the outcome of `experiment` with the parameters `stamp`, so that another run would
    /// give the same numbers.
    pub fn is_of(&self, experiment: &Experiment, stamp: &Stamp) -> bool {
        let claims = self.outcome.claims.iter().map(|claim| claim.id.as_str());
        self.experiment == experiment.id
            && self.stamp == *stamp
            && claims.eq(experiment.claims.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Band, Claim, Figure, Kind, Lab, LabError, Line, Paper, Spread};

    fn saved() -> Saved {
        let claim = Claim::new("x", "half")
            .measure("a", Spread::of(&[0.1, 0.2]), "%", Band::Within(0.0, 1.0))
            .measure("b", 3.0, "%", Band::AtMost(2.0))
            .note("why");
        let figure = Figure {
            id: "x".into(),
            title: "t".into(),
            x: Axis::new("x"),
            y: Axis::between("y", 0.0, 1.0),
            kind: Kind::Lines(vec![Line::new("l", [(0.1, 1.0 / 3.0)])]),
        };
        Saved {
            experiment: "x-fig1".into(),
            stamp: Stamp { version: "1".into(), program: "p".into(), size: Size::Quick, seed: u64::MAX },
            command: "freeblock lab run x-fig1".into(),
            outcome: Outcome { figures: vec![figure], claims: vec![claim], notes: vec!["n".into()] },
        }
    }

    #[test]
    fn a_written_result_is_read_again() {
        let saved = saved();
        assert_eq!(Saved::from_json(&saved.to_json().unwrap()).unwrap(), saved);
    }

    #[test]
    fn another_seed_size_or_program_is_another_result() {
        let saved = saved();
        let run = |_: &Lab| Err(LabError::new("an experiment", "is not run here"));
        let experiment = |id| Experiment {
            id,
            paper: Paper::Osdi00,
            reproduces: "",
            title: "",
            set_up: "",
            claims: &["x"],
            timed: false,
            run,
        };
        let of = experiment("x-fig1");
        assert!(saved.is_of(&of, &saved.stamp) && !saved.is_of(&experiment("x-fig2"), &saved.stamp));
        assert!(!saved.is_of(&Experiment { claims: &["x", "y"], ..of }, &saved.stamp), "a claim is missing");
        assert!(!saved.is_of(&Experiment { claims: &[], ..of }, &saved.stamp), "a claim too many");
        for other in [
            Stamp { seed: 1, ..saved.stamp.clone() },
            Stamp { size: Size::Full, ..saved.stamp.clone() },
            Stamp { program: "q".into(), ..saved.stamp.clone() },
            Stamp { version: "2".into(), ..saved.stamp.clone() },
        ] {
            assert!(!saved.is_of(&of, &other));
        }
    }

    #[test]
    fn a_cut_file_is_no_result() {
        let text = saved().to_json().unwrap();
        for cut in 0..text.len() - 2 {
            assert!(Saved::from_json(&text[..cut]).is_err(), "{cut}");
        }
    }
}
