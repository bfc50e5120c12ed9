//! Applications on the real core in a simulated drive that holds bytes: random foreground, bad sectors, completions that
//! are lost or late, power cuts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests stand outside test functions")]

mod backup;
mod cache;
mod lld;
mod miner;
mod reorganizer;
mod scrub;
mod together;
mod world;
