//! The integration tests of freeblock-probe, in one binary, so that they are linked once and run in parallel.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod anywhere;
mod builtin;
mod caches;
mod calibration;
mod common;
mod confidence;
mod defects;
mod kinds;
mod noise;
mod partial;
mod parts;
mod predicting;
mod probing;
mod promises;
mod regularity;
mod resume;
mod serving;
mod spread;
mod surfaces;
mod switched;
mod time;
mod unwritable;
mod writes;
