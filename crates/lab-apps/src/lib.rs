//! Applications of free bandwidth that the papers' experiments use and the daemon does not: [`cache`], the buffer
//! cache with its cleaner of dirty blocks; [`lld`], a log-structured disk with its cleaner, and [`files`], a file
//! system on it; [`miner`], queries over a table that is read once.
//!
//! Like the applications of `freeblock-apps`, these are state machines over the scheduler's sessions: none of them
//! reads a clock, starts a thread or touches a disk.

pub mod cache;
pub mod files;
pub mod lld;
pub mod miner;
