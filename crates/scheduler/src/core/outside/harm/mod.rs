//! The cost of background work to the foreground, measured.

mod amplify;
mod audit;
mod compare;
mod cost;
mod sequence;
mod unaccounted;

pub use audit::{AuditReport, AuditWindow, Promise};
pub use compare::AuditArm;
pub(super) use cost::Cost;
pub use sequence::Interval;
