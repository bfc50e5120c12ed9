//! The integration tests of freeblock-lab, in one binary: it is linked once, and its tests run beside one another.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod experiments;
mod page;
