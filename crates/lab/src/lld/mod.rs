//! OSDI'00, section 5: a log-structured disk on a simulated drive, under Postmark.
//!
//! One process that waits for its I/O, as the paper's log-structured logical disk (LLD) was:
//! [`LogDisk`](disk::LogDisk) executes each request on the mechanics with the scheduler's core inside the drive, so
//! that a free cleaner gets the gaps of exactly these requests; [`run`] puts files and Postmark on it. All bytes are
//! real: every read is compared with the bytes written.

mod disk;
mod run;
mod transaction;

#[cfg(test)]
pub(crate) use disk::Spent;
pub(crate) use disk::Strategy;
pub(crate) use run::{PostmarkRun, PostmarkSetUp, files_for, one_surface_atlas, one_surface_profile, run};
pub(crate) use transaction::{PARTS, Transaction};
