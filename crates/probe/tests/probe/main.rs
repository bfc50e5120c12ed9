//! The integration tests of freeblock-probe, in one binary: it is linked once, and its tests run beside one another.

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
