//! Tests the scheduler on simulated drives by random histories, and checks every promise of the design after each step
//! (docs/TORTURE.md).
//!
//! A history ([`Scenario`]) is a set-up and a list of [`Step`]s. [`generate`] draws a history from a seed; a text file can
//! store it. [`run`] executes a history; [`shrink`] finds a shorter one that breaks the same promise; [`Torture`] runs
//! histories for hours of virtual time.
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
mod counts;
#[cfg(target_os = "linux")]
mod daemon;
mod dice;
mod exec;
mod failure;
mod generate;
mod hash;
mod history;
mod medium;
mod mine;
mod misuse;
mod outer;
mod outside;
mod polled;
mod scenario;
mod scrub;
mod setup;
mod shrink;
mod stage;
mod step;
mod torture;
mod troubles;
mod twin;
mod volume;
mod world;

pub use counts::Counts;
pub use failure::{Check, Failure};
pub use generate::{generate, generate_on};
pub use history::run;
pub use outer::{Conduct, Knowledge, Manner, Outer, Tells};
pub use scenario::{Scenario, ScenarioError};
pub use setup::{DriveSpec, Host, Mimicry, Setup, UnknownHost};
pub use shrink::{prefix, shrink, shrink_until};
pub use stage::Outcome;
pub use step::{AtHand, Fate, Step, Wait};
pub use torture::{Found, Torture};
