//! What a volume tells those who use it.

#[cfg(doc)]
use super::Volume;
use crate::report::{ForegroundReport, HeadTime};
use drive::{CommandError, DriveError, MediumError};
use scheduler::{Harm, IdleTimeError, Purpose, SubmitError};
use thiserror::Error;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Why a volume did not do what it was asked. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VolumeError {
    /// The core refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A core that cannot be configured so.
    #[error(transparent)]
    Config(#[from] IdleTimeError),
    /// A write with too many bytes, or too few.
    #[error("a write to LBNs {range} is {expected} bytes, and came with {found}")]
    Bytes {
        /// What was to be written.
        range: LbnRange,
        /// Its bytes.
        expected: u64,
        /// Those that came.
        found: u64,
    },
    /// A medium of another size than the drive.
    #[error("the drive has {drive} sectors and its medium {medium}; make the medium with Platters::blank")]
    Platters {
        /// The drive's sectors.
        drive: Sectors,
        /// The medium's.
        medium: Sectors,
    },
    /// A core outside that is configured to be inside.
    #[error("a core outside the drive needs a place outside; set config.place to Place::Outside")]
    Inside,
    /// A drive that reports writes before they are on the medium: a volume does not flush.
    #[error("the drive reports writes before they are on the medium; set behaviour.write_back to false")]
    WriteBack,
    /// A profile or a behaviour that no drive can have.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The drive refused a command; a defect of this crate.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The medium refused; a defect of this crate.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// A foreground request that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that [`Volume::submit_read`] or [`Volume::submit_write`] gave it.
    pub id: RequestId,
    /// Read or write.
    pub op: Op,
    /// What.
    pub range: LbnRange,
    /// What was read; empty after a write or an error.
    pub bytes: Vec<u8>,
    /// Its first bad sector; then it has failed. Of a write the other sectors are written.
    pub bad: Option<Lbn>,
    /// When it came.
    pub arrived: Instant,
    /// When it was done.
    pub at: Instant,
}

/// What a load's writes write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing: the load is there for its timing, and the bytes on the medium stay as they are. A background write that
    /// such a write overtakes counts as done, and its bytes never come to the medium: not for applications that write.
    Timing,
    /// Bytes that depend on the seed, the request and the sector.
    Seeded(u64),
}

/// Sectors that the head has passed over for a reason, and whose passing counts: told to whoever
/// [watches](Volume::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Which of the core's wishes it belonged to, counted from 1. Those of one wish are told in the order of passing.
    pub execute: u64,
    /// Read or write.
    pub op: Op,
    /// The sectors.
    pub range: LbnRange,
    /// What for.
    pub purpose: Purpose,
    /// When the core wished it.
    pub began: Instant,
    /// Whether the core was told that it was lost.
    pub lost: bool,
}

/// What a run has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeReport {
    /// The foreground's share.
    pub foreground: ForegroundReport,
    /// What the head did, in fractions of the run that add up to 1.
    pub head_time: HeadTime,
    /// Part of the foreground's rotational latency that went into reading wanted sectors.
    pub potential_used: f64,
    /// What idle time has cost the foreground.
    pub harm: Harm,
    /// How long the run was, in virtual time.
    pub simulated: Duration,
}
