//! The results of a volume for its users.

#[cfg(doc)]
use super::Volume;
use crate::report::{ForegroundReport, HeadTime};
use drive::{CommandError, DriveError, MediumError};
use scheduler::{Harm, IdleTimeError, Purpose, SubmitError};
use thiserror::Error;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// The reason why a volume refused a call. A refusal changes nothing.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VolumeError {
    /// The core refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The configuration of the core is invalid.
    #[error(transparent)]
    Config(#[from] IdleTimeError),
    /// A write with too many bytes, or too few.
    #[error("a write to LBNs {range} needs {expected} bytes, and {found} were given")]
    Bytes {
        /// The range of the write.
        range: LbnRange,
        /// The number of bytes in the range.
        expected: u64,
        /// The number of bytes given.
        found: u64,
    },
    /// A medium of another size than the drive.
    #[error("the drive has {drive} sectors and its medium {medium}; make the medium with Platters::blank")]
    Platters {
        /// The drive's sectors.
        drive: Sectors,
        /// The medium's sectors.
        medium: Sectors,
    },
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

/// A finished foreground request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that [`Volume::submit_read`] or [`Volume::submit_write`] gave the request.
    pub id: RequestId,
    /// Whether the request was a read or a write.
    pub op: Op,
    /// The LBNs of the request.
    pub range: LbnRange,
    /// The data of a read; empty after a write or an error.
    pub bytes: Vec<u8>,
    /// The first bad sector, if the request failed. The other sectors of a write are written.
    pub bad: Option<Lbn>,
    /// The instant of arrival.
    pub arrived: Instant,
    /// The instant of completion.
    pub at: Instant,
}

/// The contents of a load's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No contents: only the timing of the load matters, and the bytes on the medium do not change. A background
    /// write that such a write covers counts as done, and its bytes never reach the medium: do not use such a load
    /// with applications that write.
    Timing,
    /// Bytes that depend on the seed, the request and the sector.
    Seeded(u64),
}

/// Sectors that the head has passed over for a purpose, as reported to a [watcher](Volume::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The number of the core's order, from 1. The sectors of one order are reported in the order of passing.
    pub execute: u64,
    /// Whether the sectors were read or written.
    pub op: Op,
    /// The sectors.
    pub range: LbnRange,
    /// The purpose.
    pub purpose: Purpose,
    /// The instant of the order; outside the drive, the instant at which the command was given to the drive.
    pub began: Instant,
    /// The instant at which the core first gave the order. It is earlier than `began` if the command had to wait for
    /// another command with the same sectors, or if it repeats a lost command.
    pub first_ordered: Instant,
    /// Whether the loss of the order was reported to the core.
    pub lost: bool,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeReport {
    /// The foreground's results.
    pub foreground: ForegroundReport,
    /// The parts of the head's time, as fractions of the run that add up to 1.
    pub head_time: HeadTime,
    /// The share of the foreground's rotational latency that was used for wanted sectors.
    pub potential_used: f64,
    /// The core's estimate of the foreground's delay by background work in idle time.
    pub harm: Harm,
    /// The duration of the run in virtual time.
    pub simulated: Duration,
}
