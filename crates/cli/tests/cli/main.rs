//! Drives the `freeblock` binary as a user or a script does.

// The helpers of tests are tests.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod demo;
mod drive;
mod lab;
mod mistakes;
mod probe;
mod simulate;
mod support;
mod terminal;
mod torture;
