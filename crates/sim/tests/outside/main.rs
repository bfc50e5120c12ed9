//! The core outside the drive.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

mod promises;
mod rig;
mod surprise;
