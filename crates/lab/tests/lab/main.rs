//! The integration tests of freeblock-lab, in one binary, so that they are linked once and run in parallel.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod experiments;
mod page;
