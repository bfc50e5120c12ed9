//! The inputs of a core.

use crate::background::Bad;
use crate::foreground::Request;
use crate::sessions::{SessionCall, SessionError};
use thiserror::Error;
use units::{Instant, LbnRange, RequestId, Sectors};

/// An input of a core, as data: a host that watches, records or replays a core does so by one `match`. `E` is the end of the
/// core's work: [`HeadEnd`] in the drive, [`CommandEnd`](crate::CommandEnd) outside it.
///
/// ```
/// # use freeblock_scheduler::model::DriveModel;
/// # use freeblock_scheduler::units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};
/// use freeblock_scheduler::{Config, Input, OutsideConfig, OutsideDrive, Priority, Request, SessionCall};
/// # let drive = DriveModel::unknown(Sectors::new(1_000_000), Bytes::new(512))?.into();
/// # let range = LbnRange::new(Lbn::new(4_711), Sectors::new(8));
/// let request = Request { id: RequestId::new(1), op: Op::Read, range };
/// let open = SessionCall::Open { priority: Priority::default() };
/// let mut core = OutsideDrive::new(drive, Config::outside(OutsideConfig::blind()));
/// for input in [Input::Call(open), Input::Submit { at: Instant::ZERO, request }] {
///     println!("{input:?} is answered {:?}", core.input(input));
/// }
/// assert_eq!((core.undelivered(SessionId::new(1)), core.pending()), (Some(0), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Input<E> {
    /// A foreground request arrives.
    Submit {
        /// The time.
        at: Instant,
        /// The request.
        request: Request,
    },
    /// Work that the core gave out has ended.
    Ended {
        /// The time.
        at: Instant,
        /// The work, and its outcome.
        end: E,
    },
    /// A session makes a call. The core dates it by its latest input or poll.
    Call(SessionCall),
}

/// The end of the outstanding [`HeadWork::Execute`](crate::HeadWork::Execute) of a core in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEnd<'a> {
    /// It is done except these sectors. The requests and blocks that contain them fail, and nothing else.
    Done(Bad<'a>),
    /// It was lost; whether it reached the medium is unknown. The foreground request is repeated before any other work, and the
    /// background blocks are wanted again.
    Lost,
}

/// The reason why an input was refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The refusal of an [`Input::Submit`].
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The refusal of an [`Input::Call`].
    #[error(transparent)]
    Call(#[from] SessionError),
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
        /// The most that may wait.
        most: usize,
    },
    /// No sectors.
    #[error("{id} asks for no sectors at LBN {range}; ask for at least one")]
    Empty {
        /// The request.
        id: RequestId,
        /// Its range.
        range: LbnRange,
    },
    /// The range ends past the drive's end.
    #[error("{id} asks for LBNs {range}; the drive ends at LBN {capacity}")]
    PastEnd {
        /// The request.
        id: RequestId,
        /// Its range.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
}
