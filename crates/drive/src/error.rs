//! The errors, with their place and their mend.

use units::{LbnRange, RequestId, Sectors};

/// A profile from which no drive can be simulated from outside.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DriveError {
    /// The layout or the mechanics are invalid.
    #[error(transparent)]
    Profile(#[from] model::ProfileError),
    /// The profile has no firmware.
    #[error(
        "the profile has no [firmware]: add one to simulate this drive from outside, or simulate inside the drive"
    )]
    NoFirmware,
    /// A time is out of range.
    #[error("{place}: {ms} ms; give milliseconds from 0 to 1000")]
    Time {
        /// The field.
        place: &'static str,
        /// Its value.
        ms: f64,
    },
    /// A number is out of its range.
    #[error("{place}: {value}; {mend}")]
    Number {
        /// The field.
        place: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        mend: &'static str,
    },
}

/// A command that the drive refuses; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It has no sectors.
    #[error("{id}: no sectors at LBN {}; ask for at least one", range.start())]
    Empty {
        /// The command.
        id: RequestId,
        /// Its range.
        range: LbnRange,
    },
    /// It goes past the last LBN.
    #[error("{id}: LBNs {range} on a drive of {capacity} sectors; stay below LBN {capacity}")]
    PastEnd {
        /// The command.
        id: RequestId,
        /// Its range.
        range: LbnRange,
        /// The sectors of the drive.
        capacity: Sectors,
    },
    /// It has more sectors than one command may have.
    #[error("{id}: {} sectors in one command; ask for at most {most}", range.len())]
    TooLong {
        /// The command.
        id: RequestId,
        /// Its range.
        range: LbnRange,
        /// Most sectors.
        most: Sectors,
    },
    /// It comes with a flush or a discard, and the device has no cache of writes.
    #[error("{id}: the device takes no flush and no discard; send the command without")]
    CacheOps {
        /// The command.
        id: RequestId,
    },
    /// The queue is full.
    #[error("{id}: the drive already holds {depth} commands; wait for a completion")]
    QueueFull {
        /// The command.
        id: RequestId,
        /// The most commands.
        depth: u32,
    },
}
