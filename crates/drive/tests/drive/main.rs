//! The integration tests of freeblock-drive, in one binary: it is linked once, and its tests run beside one another.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod black_box;
mod common;
mod evidence;
mod no_such_disk;
mod one_by_one;
mod physical;
mod properties;
mod real_drives;
mod switched_off;
