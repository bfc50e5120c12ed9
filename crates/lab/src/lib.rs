//! The papers' experiments, from the real core and the simulated drive: data, figures, claims, a report.
//!
//! An experiment is one file in `src/experiments`: a constant `EXPERIMENT` with its description and the function that
//! runs it. `build.rs` collects the files. The function gets a [`Lab`], which has the size of the run ([`Size`]) and
//! the seeds, and spreads work over the processor's cores. The function returns an [`Outcome`]: [`Figure`]s,
//! [`Claim`]s and notes. The other modules work on any outcome: [`plot`] draws figures, [`numbers`] puts figures into
//! columns, [`store`] keeps outcomes in files, [`report`] makes a page of all outcomes, [`select`] finds experiments
//! by name.
//!
//! ```
//! use freeblock_lab::{Lab, Size, find};
//! let experiment = find("osdi00-fig5").unwrap();
//! let outcome = experiment.conduct(&Lab::new(Size::Quick, 1))?;
//! assert!(outcome.claims.iter().all(|claim| claim.holds()));
//! # Ok::<(), freeblock_lab::LabError>(())
//! ```

mod cache;
mod claim;
mod duel;
mod error;
mod escape;
mod experiment;
mod figure;
mod followed;
mod gaps;
mod head;
mod knowledge;
mod lab;
pub mod ledger;
mod lld;
mod maintenance;
pub mod numbers;
mod outside;
pub mod plot;
pub mod report;
mod scan;
pub mod select;
pub mod set_up;
mod smtf;
pub mod store;

pub use claim::{Band, Claim, Measure, Spread};
pub use error::LabError;
pub use experiment::{Experiment, Outcome, Paper};
pub use figure::{Axis, Bar, Figure, Kind, Line, Point};
pub use lab::{Lab, Progress, Size, spread};

mod experiments {
    use crate::Experiment;

    include!(concat!(env!("OUT_DIR"), "/experiments.rs"));
}

/// Returns every experiment, in the order of paper and figure.
pub fn experiments() -> &'static [Experiment] {
    experiments::ALL
}

/// Returns the experiment of this id.
pub fn find(id: &str) -> Option<&'static Experiment> {
    experiments().iter().find(|e| e.id == id)
}
