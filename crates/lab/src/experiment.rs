//! Experiments, and their outcomes.

use crate::{Claim, Figure, Lab, LabError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A paper that is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// Lumb, Schindler, Ganger, Nagle, Riedel: Towards Higher Disk Head Utilization.
    Osdi00,
    /// Thereska, Schindler, Bucy, Salmon, Lumb, Ganger: A Framework for Building Unobtrusive Disk Maintenance
    /// Applications.
    Fast04,
    /// Lumb, Schindler, Ganger: Freeblock Scheduling Outside of Disk Firmware.
    Fast02,
    /// Popovici, Arpaci-Dusseau, Arpaci-Dusseau: Robust, Portable I/O Scheduling with the Disk Mimic.
    Atc03,
    /// No paper: our own goals.
    Ours,
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Osdi00 => "OSDI 2000, Towards Higher Disk Head Utilization",
            Self::Fast04 => "FAST 2004, A Framework for Building Unobtrusive Disk Maintenance Applications",
            Self::Fast02 => "FAST 2002, Freeblock Scheduling Outside of Disk Firmware",
            Self::Atc03 => "USENIX ATC 2003, Robust, Portable I/O Scheduling with the Disk Mimic",
            Self::Ours => "our own goals",
        })
    }
}

/// An experiment: a constant in its file.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line: paper and figure, such as `osdi00-fig2`.
    pub id: &'static str,
    /// The paper.
    pub paper: Paper,
    /// The reproduced part of the paper, such as `figure 2`.
    pub reproduces: &'static str,
    /// The title, in a line.
    pub title: &'static str,
    /// A description of the set-up, in a sentence or two.
    pub set_up: &'static str,
    /// The ids of the claims, known without a run; [`conduct`](Self::conduct) compares them with those of the run.
    pub claims: &'static [&'static str],
    /// Whether the numbers are times measured on this machine; the numbers of all other experiments are the same on
    /// every machine.
    pub timed: bool,
    /// Runs the experiment.
    pub run: fn(&Lab) -> Result<Outcome, LabError>,
}

impl Experiment {
    /// Runs the experiment, and compares its claims with those declared.
    ///
    /// # Errors
    /// The experiment failed, or its claims differ from those declared.
    pub fn conduct(&self, lab: &Lab) -> Result<Outcome, LabError> {
        let failed = |e: LabError| LabError::new(format!("{}: {}", self.id, e.doing), e.source);
        let outcome = (self.run)(lab).map_err(failed)?;
        let yielded: Vec<&str> = outcome.claims.iter().map(|claim| claim.id.as_str()).collect();
        if yielded != self.claims {
            let problem = format!(
                "the experiment declares the claims [{}]; list them in order",
                self.claims.join(", ")
            );
            return Err(LabError::new(
                format!("{} yields the claims [{}]", self.id, yielded.join(", ")),
                problem,
            ));
        }
        Ok(outcome)
    }
}

/// The outcome of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures to draw.
    pub figures: Vec<Figure>,
    /// The claims to compare with the paper.
    pub claims: Vec<Claim>,
    /// Notes for the reader: assumptions, reasons why a claim does not hold.
    pub notes: Vec<String>,
}
