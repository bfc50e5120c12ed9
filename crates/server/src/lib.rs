//! Serves a drive to clients over NBD: one event loop a drive, on one thread, with one ring for sockets and time.
//!
//! [`Exporter`] serves an emulated drive to any NBD client. What it says goes to `tracing`.

#![cfg(target_os = "linux")]

mod client;
pub mod desk;
mod exporter;
mod listen;
pub mod tasks;

pub use exporter::{Exporter, Limits, ServeError, Stop, Tally};
pub use listen::{Address, ListenError, Listener};
