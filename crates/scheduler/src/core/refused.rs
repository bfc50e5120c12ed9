//! The reasons why a core refuses an input.

use crate::idle::IdleTimeError;
use crate::sessions::SessionError;
use alloc::format;
use thiserror::Error;
use units::{Bytes, Instant, LbnRange, RequestId, Sectors};

/// The reason why an input was refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The refusal of an [`Input::Submit`](super::Input::Submit).
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The refusal of an [`Input::Call`](super::Input::Call).
    #[error(transparent)]
    Call(#[from] SessionError),
    /// The refusal of a [`HostCall::Read`](super::HostCall::Read).
    #[error(transparent)]
    Reading(#[from] ReadingRefused),
    /// The refusal of a [`HostCall::Adopt`](super::HostCall::Adopt).
    #[error(transparent)]
    Adopt(#[from] AdoptError),
}

/// The reason why a foreground request was refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The pool is full.
    #[error("{most} requests are waiting; submit {id} again after a completion")]
    Full {
        /// The request.
        id: RequestId,
        /// The maximum of waiting requests.
        most: usize,
    },
    /// The request has no sectors.
    #[error("{id} asks for no sectors at LBN {range}; ask for at least one")]
    Empty {
        /// The request.
        id: RequestId,
        /// The request's range.
        range: LbnRange,
    },
    /// The range ends past the drive's end.
    #[error("{id} asks for LBNs {range}; the drive ends at LBN {capacity}")]
    PastEnd {
        /// The request.
        id: RequestId,
        /// The request's range.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
}

/// The refusal of a reading: a foreground request waits, a command is at the drive, the bound on harm does not permit it, or the
/// drive has no such range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a reading is not permitted now; repeat it{}", .permitted_at.map_or(" after the next event".into(), |at| format!(" at {at}")))]
#[non_exhaustive]
pub struct ReadingRefused {
    /// The instant from which on a reading is permitted if nothing else happens; `None` if that needs another event, such as the
    /// end of a command.
    pub permitted_at: Option<Instant>,
}

impl ReadingRefused {
    /// Returns the refusal of a reading that has to wait for another event.
    pub const fn until_an_event() -> Self {
        Self { permitted_at: None }
    }
}

/// The reason why a core does not adopt another model of the drive. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The model has another size than the drive.
    #[error(
        "the model has {found} sectors of {found_bytes}, the drive {capacity} of {sector_bytes}; give a model of this drive"
    )]
    OtherSize {
        /// Sectors of the new model.
        found: Sectors,
        /// Bytes in a sector of the new model.
        found_bytes: Bytes,
        /// Sectors of the present model.
        capacity: Sectors,
        /// Bytes in a sector of the present model.
        sector_bytes: Bytes,
    },
    /// A setting of idle time is invalid.
    #[error(transparent)]
    Idle(#[from] IdleTimeError),
}
