//! The events of a run.

use drive::{Breakdown, Served};
use scheduler::{AnyCore, IdleTimeError, Record, Request, SessionError, SubmitError};
use thiserror::Error;
use units::{Duration, Instant, RequestId};

/// The reason why a run cannot begin or continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SetupError {
    /// The core refused the background work.
    #[error("the background cannot start: {0}")]
    Background(#[from] SessionError),
    /// The configuration of the core is invalid.
    #[error(transparent)]
    Config(#[from] IdleTimeError),
    /// A foreground request is invalid for the drive.
    #[error("the foreground cannot go on: {0}")]
    Foreground(#[from] SubmitError),
    /// The drive refuses a command of the core.
    #[error("the drive refuses a command: {0}")]
    Drive(#[from] drive::CommandError),
}

/// A completed request with the parts of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request.
    pub request: Request,
    /// The instant of its arrival at the host.
    pub arrived: Instant,
    /// The instant at which its service began. Until then it waited in the host or in the drive's queue.
    pub started: Instant,
    /// The instant of its completion.
    pub at: Instant,
    /// The way in which the drive served it; `None` in a drive without a buffer, and if the device does not report it.
    pub served: Option<Served>,
    /// The time of the arm's moves for the request. If a write was acknowledged from the buffer, its moves and its
    /// latency follow the completion.
    pub seek: Duration,
    /// The unused rotational latency.
    pub rotation: Duration,
    /// The time in which the request's sectors passed under the head; zero if the buffer served the request.
    pub transfer: Duration,
}

impl Finished {
    /// Returns a request of which only these instants are known.
    pub fn of(request: Request, arrived: Instant, started: Instant, at: Instant) -> Self {
        let none = Duration::ZERO;
        Self { request, arrived, started, at, served: None, seek: none, rotation: none, transfer: none }
    }
}

/// Callbacks for the events of a run.
pub trait Observer {
    /// A foreground request has arrived.
    fn arrived(&mut self, request: Request, at: Instant) {
        let _ = (request, at);
    }

    /// A foreground request that arrived at `arrived` is done at `at`.
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        let _ = (request, arrived, at);
    }

    /// A foreground request is done; called after [`completed`](Self::completed), with the parts of the request's time.
    fn finished(&mut self, done: &Finished) {
        let _ = done;
    }

    /// A command that an [`Array`](crate::Array) sent to one of its drives is done. `request` is the array's request
    /// that needed the command, and `done` has the drive's addresses. [`completed`](Self::completed) and
    /// [`finished`](Self::finished) report the requests of the load, with addresses of the array.
    fn command_finished(&mut self, drive: usize, request: RequestId, done: &Finished) {
        let _ = (drive, request, done);
    }

    /// A background block is delivered. An application may register, abort or close in `core`.
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, at: Instant) {
        let _ = (core, record, at);
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Observer for Nothing {}

/// Returns a completed request with the parts of its command's time, as far as the device reports them.
pub(crate) fn explained(
    request: Request,
    arrived: Instant,
    at: Instant,
    breakdown: Option<Breakdown>,
) -> Finished {
    let Some(Breakdown { served, began, seek, latency, transfer, .. }) = breakdown else {
        return Finished::of(request, arrived, arrived, at);
    };
    let started = began.max(arrived);
    Finished { request, arrived, started, at, served: Some(served), seek, rotation: latency, transfer }
}
