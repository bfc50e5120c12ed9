//! The Disk Mimic (ATC'03): a table that predicts a drive's times without knowing how the drive works.
//!
//! The time of a request is assumed to depend on two quantities: the types of this request and the previous one
//! ([`Pair`]), and the signed [`Distance`] between them. A [`Table`] has a summary of the times observed at each
//! distance ([`Metric`]), and interpolates between distances if check points allow that ([`CheckPoints`]). The
//! scheduler's policy SMTF (shortest mimicked time first) chooses the request with the shortest predicted time. It gets
//! predictions through the trait [`scheduler::Mimic`], which [`Table`] and [`Learner`] implement.
//!
//! | | |
//! |---|---|
//! | off-line | [`Prober`] measures a drive by its [`ProbePlan`], and makes a [`Table`] |
//! | on-line | [`Learner`] learns from the requests of the workload, within a fixed memory; it may start from a [`Table`] |
//! | by hand | [`TableBuilder`] makes a [`Table`] of [`Samples`] from any measurement |
//! | files | [`Saved`] for a table and [`Learner::save`] for a learner make bytes with a version and a checksum |
//! | predictions | [`Table::time`] for a pair and a distance; `Mimic::time` for a request |
//!
//! This crate is sans-IO and deterministic: the drive's owner carries out the prober's requests and reports the times.

mod check_points;
mod distance;
mod file;
mod frame;
mod learner;
mod prober;
mod search;
mod summary;
mod table;

pub use check_points::CheckPoints;
pub use distance::{Distance, Pair};
pub use file::{FileError, Saved};
pub use frame::NAME_BYTES_MAX;
pub use learner::{Learner, LearnerConfig, LearnerError, LearnerStats, LearntError, SavedPart, Saving};
pub use prober::{ProbeAccess, ProbeError, ProbePlan, ProbeReport, Prober};
pub use summary::{Metric, Samples, UnknownMetric};
pub use table::{Knot, Table, TableBuilder};
