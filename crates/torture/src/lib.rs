//! Random histories of the scheduler on a simulated drive, and checkers that test every promise of the design after each
//! step (docs/TORTURE.md).
//!
//! A [`Scenario`] is a history: a set-up and its [`Step`]s, which [`generate`] draws from a seed and a text file keeps.
//! [`run`] carries it out; [`shrink`] finds the shortest that breaks the same promise; [`Torture`] does all that for
//! hours of virtual time.
//!
//! ```
//! use freeblock_torture::{generate, run};
//! let history = generate(1);
//! let outcome = run(&history)?;
//! assert_eq!(outcome.hash, run(&history)?.hash);
//! # Ok::<(), freeblock_torture::Failure>(())
//! ```

mod calls;
mod clients;
mod desk;
mod dice;
mod exec;
mod failure;
mod generate;
mod hash;
mod history;
mod medium;
mod mine;
mod misuse;
mod outside;
mod scenario;
mod scrub;
mod shrink;
mod step;
mod torture;
mod troubles;
mod twin;
mod volume;
mod world;

pub use failure::{Check, Failure};
pub use generate::{generate, generate_on};
pub use history::{Outcome, run};
pub use scenario::{
    Conduct, DriveSpec, Host, Knowledge, Mimicry, Outer, Scenario, ScenarioError, Setup, Tells, UnknownHost,
};
pub use shrink::{prefix, shrink, shrink_until};
pub use step::{AtHand, Fate, Step, Wait};
pub use torture::{Found, Torture};
pub use world::Counts;
