//! The cost of background work to the foreground, measured.

mod amplify;
mod audit;
mod cost;
mod sequence;

pub use audit::{AuditArm, AuditConfig, AuditReport, AuditWindow, Promise};
pub(super) use cost::Cost;
pub use sequence::Interval;
