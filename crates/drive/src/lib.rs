//! A drive simulated from outside.
//!
//! [`mechanics`] is the truth: an arm and a platter, exact to the nanosecond.

pub mod mechanics;

pub use mechanics::{Access, Mechanics, Pass};
