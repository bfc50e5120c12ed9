//! The cache cleaner against a naive map and a host that does its worst.

#![allow(clippy::unwrap_used, reason = "tests")]

mod dangers;
mod host;
mod model;
mod rig;
mod swarm;
