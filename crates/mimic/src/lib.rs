//! The Disk Mimic (ATC'03): a table that predicts a drive's times without knowing how the drive works.
//!
//! A time is taken to depend on two quantities: the types of this request and the one before ([`Pair`]), and the
//! signed [`Distance`] between them. A [`Table`] has a summary of the times observed at each distance ([`Metric`]),
//! and interpolates between them if check points allow it ([`CheckPoints`]). The scheduler's policy SMTF chooses the
//! request with the shortest predicted time; it asks through the trait [`scheduler::Mimic`], which [`Table`] and
//! [`Learner`] implement.
//!
//! | | |
//! |---|---|
//! | off-line | [`Prober`] probes a black box by its [`ProbePlan`], and yields a [`Table`] |
//! | on-line | [`Learner`] learns from requests as they are carried out, within a fixed memory, from nothing or a [`Table`] |
//! | by hand | [`TableBuilder`] makes one of [`Samples`] that were measured in any way |
//! | kept | [`Saved`], [`Learner::save`]: bytes for a file, versioned and checksummed |
//! | asked | [`Table::time`] for a pair and a distance; `Mimic::time` for requests |
//!
//! All of it is sans-IO and deterministic: the owner of the drive carries out the prober's requests, and reports
//! their times.

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
