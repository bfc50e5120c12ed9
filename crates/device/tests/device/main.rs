//! The integration tests of freeblock-device, in one binary, which is linked once and runs its tests in parallel.

#![cfg(target_os = "linux")]
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside test functions"
)]

mod embed;
mod emulated;
mod faulty;
mod inspect;
mod raw;
mod ring;
mod sg;
