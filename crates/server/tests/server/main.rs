//! The integration tests of freeblock-server, in one binary, which is linked once and runs its tests in parallel.

#![cfg(target_os = "linux")]
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside test functions"
)]

mod background;
mod clients;
mod commands;
mod control;
mod crash;
mod disk;
mod emulated;
mod faults;
mod kernel;
mod learnt;
mod limits;
mod memory;
mod page;
mod pieces;
mod proofs;
mod queueing;
mod support;
mod systemd;
mod tls;
