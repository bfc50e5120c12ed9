//! Applications of free bandwidth: state machines over the scheduler's sessions.
//!
//! None of them reads a clock, starts a thread or touches a disk: the host hands them records and bytes, and does what
//! they ask for. So the same application runs in simulation and live.

pub mod cache;
pub mod files;
pub mod lld;
pub mod miner;
pub mod sessions;
