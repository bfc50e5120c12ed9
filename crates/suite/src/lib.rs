//! Runs the tests of the workspace: each in a process of its own, two at once for each processor, and reports how
//! much processor time each took. `make test` and `make test-long` call the runner on the binaries that
//! `cargo test --no-run` has built.
//!
//! There are two tiers. The long one has every test; the short one leaves out those that `long.txt` names, and sets no
//! `FREEBLOCK_LONG`, so that tests with two sizes have the smaller one.
//!
//! A few tests, which `waits.txt` names, wait for time to pass. Each such test runs beside one that computes. The
//! tests that `alone.txt` names measure this machine and run before the others, one after another.

/// The README's example, which is tested here so that it continues to compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod binaries;
mod listed;
mod order;
mod results;
mod run;

pub use binaries::{Binary, BinaryError, Kind, Test, binaries, tests};
pub use listed::{Listed, ListedError};
pub use order::order;
pub use results::{Kept, Ran, Results, ResultsError};
pub use run::{Finished, Outcome, run};
