#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

mod memory;
mod moves;
mod rig;
mod sums;
mod tasks;
