//! The errors of a simulated drive: invalid profiles and refused commands.

use units::{LbnRange, RequestId, Sectors};

/// The reason for which a [`Drive`](crate::Drive) cannot be made from a profile.
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
        /// The path of the field.
        place: &'static str,
        /// The value of the field.
        ms: f64,
    },
    /// A number is out of its range.
    #[error("{place}: {value}; {mend}")]
    Number {
        /// The path of the field.
        place: &'static str,
        /// The value of the field.
        value: String,
        /// The valid values, as an instruction to the user.
        mend: &'static str,
    },
}

/// The reason for which a drive refuses a command. A refused command has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command has no sectors.
    #[error("{id}: no sectors at LBN {}; ask for at least one", range.start())]
    Empty {
        /// The id of the command.
        id: RequestId,
        /// The range of the command.
        range: LbnRange,
    },
    /// The command goes past the last LBN.
    #[error("{id}: LBNs {range} on a drive of {capacity} sectors; stay below LBN {capacity}")]
    PastEnd {
        /// The id of the command.
        id: RequestId,
        /// The range of the command.
        range: LbnRange,
        /// The number of sectors of the drive.
        capacity: Sectors,
    },
    /// The command has too many sectors.
    #[error("{id}: {} sectors in one command; ask for at most {most}", range.len())]
    TooLong {
        /// The id of the command.
        id: RequestId,
        /// The range of the command.
        range: LbnRange,
        /// The most sectors of a command.
        most: Sectors,
    },
    /// The command comes with a flush or a discard, and the device has no write cache.
    #[error("{id}: the device takes no flush and no discard; send the command without")]
    CacheOps {
        /// The id of the command.
        id: RequestId,
    },
    /// The queue is full.
    #[error("{id}: the drive already holds {depth} commands; wait for a completion")]
    QueueFull {
        /// The id of the command.
        id: RequestId,
        /// The most commands that the drive takes at a time.
        depth: u32,
    },
}
