//! Serves a drive to clients over NBD: one event loop a drive, on one thread, with one ring for sockets and time.
//!
//! [`Exporter`] serves an emulated drive to any NBD client. What it says goes to `tracing`.

#![cfg(target_os = "linux")]

mod client;
mod disk;
mod exporter;
mod listen;

pub use disk::{
    BOUNDS_US, Disk, DiskError, DiskStatus, Foresight, Gaps, Guard, Hosted, Latency, Paid, Place, Space,
};
pub use exporter::{Exporter, Limits, ServeError, Stop, Tally};
pub use listen::{Address, ListenError, Listener};
