//! The crate as its users see it: its own types, and its examples.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod examples;
mod overlap_queue;
mod scheduled_disk;
