//! The integration tests of freeblock-nbd, in one binary: it is linked once, and its tests run beside one another.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod clients;
mod pieces;
mod protocol;
