//! The outputs of a core, and the accesses of the head.

use crate::sessions::Record;
use core::convert::Infallible;
use model::Window;
use units::{Instant, Lbn, Op, RequestId, SessionId, TrackIndex};

/// An output of a core: work that the host gives the drive, or the end of something that a client asked for. `W` is the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Output<W> {
    /// Work for the drive: [`HeadWork`] from a core in the drive, a [`Command`](crate::Command) from a core outside it.
    Do(W),
    /// A foreground request is done.
    Completed(RequestId),
    /// A foreground request cannot be done: the medium failed.
    Failed {
        /// The request.
        id: RequestId,
        /// The request's first bad sector.
        bad: Lbn,
    },
    /// A background block is finished. The data of a read are the contents of its sectors when they passed, overlaid with
    /// later writes: for a block that is read in pieces, or written to by the same [`HeadWork::Execute`], the host
    /// returns the current contents of the medium.
    Deliver(Record),
}

/// A result that waits to be polled.
pub(super) type Event = Output<Infallible>;

impl<W> Output<W> {
    /// Applies a function to the work, if the output is work.
    pub fn map<V>(self, work: impl FnOnce(W) -> V) -> Output<V> {
        match self {
            Self::Do(of) => Output::Do(work(of)),
            Self::Completed(id) => Output::Completed(id),
            Self::Failed { id, bad } => Output::Failed { id, bad },
            Self::Deliver(record) => Output::Deliver(record),
        }
    }
}

/// The work of a core in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadWork {
    /// The host carries out [`InDrive::accesses`](crate::InDrive::accesses) in order without a pause, then calls
    /// [`InDrive::completed`](crate::InDrive::completed). [`InDrive::whose`](crate::InDrive::whose) returns the purpose of this
    /// work.
    Execute,
    /// The work in idle time ends early, because a foreground request has arrived:
    /// [`InDrive::accesses`](crate::InDrive::accesses) returns the part that is still done,
    /// [`InDrive::busy_until`](crate::InDrive::busy_until) the instant at which the head is free. The host calls
    /// [`InDrive::completed`](crate::InDrive::completed) at that instant, not before.
    Cut,
}

/// The purpose of the head's current work; detours are part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A foreground request.
    Request(RequestId),
    /// Background blocks that a session has promoted.
    Promoted(SessionId),
    /// Background blocks, in idle time.
    Idle,
}

/// The purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Purpose {
    /// For the foreground.
    Foreground,
    /// For the background, in a gap: `useful` of the sectors are wanted, the others lie between them.
    Background {
        /// Wanted sectors.
        useful: u32,
    },
    /// For the background, in idle time.
    Idle {
        /// Wanted sectors.
        useful: u32,
    },
}

/// Consecutive sectors of one track, read or written as they pass; past the track's end they continue at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The track.
    pub track: TrackIndex,
    /// The first sector.
    pub sector: u32,
    /// The number of sectors.
    pub sectors: u32,
    /// Whether the sectors are read or written.
    pub op: Op,
    /// The earliest start: the head takes the first pass of the sectors that begins after this instant and after the head is
    /// ready. A detour may reach the foreground's track earlier than the direct move does (measured seek curves have dents, and
    /// a head is ready to read before it has settled to write); with this bound the foreground access keeps the revolution that
    /// it has without a detour.
    pub not_before: Instant,
    /// The purpose.
    pub purpose: Purpose,
}

impl Access {
    /// Returns the sectors.
    pub(super) fn window(&self) -> Window {
        Window { first: self.sector, count: self.sectors }
    }
}
