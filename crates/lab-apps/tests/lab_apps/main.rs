//! The integration tests of freeblock-lab-apps, in one binary: it is linked once, and its tests run beside one another.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside test functions"
)]

mod cache;
mod files;
mod lld;
mod miner;
mod miner_estimates;
mod miner_speed;
mod miner_support;
mod on_the_core;
mod postmark;
