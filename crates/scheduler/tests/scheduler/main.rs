//! The integration tests of freeblock-scheduler, in one binary that is linked once and runs its tests in parallel.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod framework;
mod mimic;
mod outside;
mod pass_through;
mod physical;
mod policies;
mod sessions;
mod stream;
mod writes;
