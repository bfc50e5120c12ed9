//! The integration tests of freeblock-workload, in one binary: it is linked once, and its tests run beside one another.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod loads;
mod mixtures;
mod postmark;
mod postmark_blocks;
mod side;
mod tpcc;
mod traces;
