//! The foreground: waiting requests, and their positions on the drive.

use model::{DriveModel, Piece, Position, Track};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, SessionId};

/// Requests that follow each other by less than this are a burst. A cache sends its write-backs at once, even over a socket; of
/// independent requests at a hundred a second, only one in a hundred follows another so closely.
const BURST_INTERVAL_MAX: Duration = Duration::from_micros(100);

/// A foreground request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Request {
    /// The host's number of the request.
    pub id: RequestId,
    /// Whether the request reads or writes.
    pub op: Op,
    /// The LBNs to read or write.
    pub range: LbnRange,
}

/// A request in the pool, with the position of its first piece.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The request.
    pub request: Request,
    /// The arrival time.
    pub arrived: Instant,
    /// The request's rank in the order of arrival.
    pub sequence: u64,
    /// The first piece.
    pub piece: Piece,
    /// The first piece's track.
    pub track: Track,
    /// The session that promoted the request from its background work; `None` for a request of the host.
    pub promoted: Option<SessionId>,
    /// Whether the request directly follows another one, as in a burst.
    pub follows: bool,
}

/// Returns whether a request that arrives now directly follows the last one, which arrived at `came`.
pub(crate) fn follows(came: &mut Option<Instant>, now: Instant) -> bool {
    came.replace(now).is_some_and(|last| now.saturating_since(last) < BURST_INTERVAL_MAX)
}

impl Pending {
    /// Returns the pending request; `None` if its first LBN is not on the drive.
    pub(crate) fn new(drive: &DriveModel, request: Request, arrived: Instant, sequence: u64) -> Option<Self> {
        let piece = drive.layout().pieces(request.range).next()?;
        let track = drive.layout().track(piece.track);
        Some(Self { request, arrived, sequence, piece, track, promoted: None, follows: false })
    }

    /// Returns the position of the arm for the first piece.
    #[inline]
    pub fn position(&self) -> Position {
        self.track.into()
    }

    /// Returns the request's first LBN.
    #[inline]
    pub fn lbn(&self) -> Lbn {
        self.request.range.start()
    }
}
