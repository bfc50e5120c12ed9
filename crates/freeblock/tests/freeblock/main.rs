//! The facade from outside: its own parts, and its examples.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod examples;
mod overlap_queue;
mod scheduled_disk;
