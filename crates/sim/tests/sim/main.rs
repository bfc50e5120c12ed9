//! The integration tests of freeblock-sim, in one binary, so that they are linked once and run in parallel.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod array;
mod idle;
mod outside;
mod promises;
mod real_sata;
mod statistics;
mod utilisation;
mod volume;
