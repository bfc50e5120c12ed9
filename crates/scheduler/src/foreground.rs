//! The foreground: waiting requests, and their places.

use model::{DriveModel, Piece, Position, Track};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, SessionId};

/// Requests with less distance in time are a burst. A cache's write-backs are sent at once, also over a socket; of a hundred
/// independent requests a second one in a hundred follows so closely.
const BURST_INTERVAL_MAX: Duration = Duration::from_micros(100);

/// A foreground request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Request {
    /// The host's number for it.
    pub id: RequestId,
    /// Whether it reads or writes.
    pub op: Op,
    /// Its LBNs.
    pub range: LbnRange,
}

/// A request in the pool, with the place of its first piece.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The request.
    pub request: Request,
    /// Its arrival.
    pub arrived: Instant,
    /// Its place in the order of arrival.
    pub sequence: u64,
    /// The first piece.
    pub piece: Piece,
    /// The first piece's track.
    pub track: Track,
    /// The session whose background work it was, if it was promoted.
    pub promoted: Option<SessionId>,
    /// Whether it directly follows another, as in a burst.
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

    /// Returns the position of the arm for it.
    #[inline]
    pub fn position(&self) -> Position {
        self.track.into()
    }

    /// Returns its first LBN.
    #[inline]
    pub fn lbn(&self) -> Lbn {
        self.request.range.start()
    }
}
