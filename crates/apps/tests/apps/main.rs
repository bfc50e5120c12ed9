//! The integration tests of freeblock-apps, in one binary: it is linked once, and its tests run beside one another.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside test functions"
)]

mod backup;
mod core;
mod naive;
mod on_the_core;
mod records;
mod reorganizer;
mod scrub;
mod snapshot;
mod support;
mod verify;
