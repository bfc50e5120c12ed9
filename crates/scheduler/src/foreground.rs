//! The foreground: requests that wait, and what is known of them before the head moves.

use model::{DriveModel, Piece, Position, Track};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, SessionId};

/// Requests that are less apart have come together: one who writes back sends many at once, over a socket too, and of
/// a hundred independent ones a second one in a hundred comes so soon after another.
const TOGETHER: Duration = Duration::from_micros(100);

/// A foreground request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host's name for it.
    pub id: RequestId,
    /// Read or write.
    pub op: Op,
    /// What.
    pub range: LbnRange,
}

/// A request in the pool, its first piece found on the medium once and for all.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The request.
    pub request: Request,
    /// When it came.
    pub arrived: Instant,
    /// Its place in the order of arrival.
    pub sequence: u64,
    /// The first piece.
    pub piece: Piece,
    /// The first piece's track.
    pub track: Track,
    /// Whose background work it was, if its client has made it urgent.
    pub promoted: Option<SessionId>,
    /// Whether it came on the heels of another, as in a burst.
    pub follows: bool,
}

/// Whether a request that comes now follows the last one closely, which `came` then.
pub(crate) fn follows(came: &mut Option<Instant>, now: Instant) -> bool {
    came.replace(now).is_some_and(|last| now.saturating_since(last) < TOGETHER)
}

impl Pending {
    /// `None` when the request's first LBN is not on the drive.
    pub(crate) fn new(drive: &DriveModel, request: Request, arrived: Instant, sequence: u64) -> Option<Self> {
        let piece = drive.layout().pieces(request.range).next()?;
        let track = drive.layout().track(piece.track);
        Some(Self { request, arrived, sequence, piece, track, promoted: None, follows: false })
    }

    /// Where the arm must be for it.
    #[inline]
    pub fn position(&self) -> Position {
        self.track.into()
    }

    /// Its first LBN.
    #[inline]
    pub fn lbn(&self) -> Lbn {
        self.request.range.start()
    }
}
