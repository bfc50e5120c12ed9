//! The integration tests of freeblock-nbd, in one binary, which is linked once and runs its tests in parallel.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod clients;
mod pieces;
mod protocol;
