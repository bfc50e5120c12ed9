//! The integration tests of freeblock-mimic, in one binary, so that they are linked once and run in parallel.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod at_once;
mod drives;
mod file;
mod learner;
mod learnt;
mod memory;
mod outside;
mod prober;
mod saving;
mod table;
