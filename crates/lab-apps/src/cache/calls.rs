//! The calls of the cache's client, cut into blocks.

use super::mask::Span;
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;
use units::{Lbn, LbnRange, Op, Sectors};

/// The number of a client's call; its answer has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The reason for which a call was refused. A refused call changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The range is empty.
    #[error("an empty range at LBN {0}; give at least one sector")]
    Empty(Lbn),
    /// The range is not in the cached volume.
    #[error("LBNs {range} leave the cached volume {volume}")]
    Outside {
        /// The range of the call.
        range: LbnRange,
        /// The cached volume.
        volume: LbnRange,
    },
    /// The number of bytes does not fit the range.
    #[error("{bytes} bytes for {sectors} sectors; give {expected}")]
    Length {
        /// The number of bytes given.
        bytes: usize,
        /// The number of sectors in the range.
        sectors: Sectors,
        /// The number of bytes in these sectors.
        expected: u64,
    },
    /// Too many calls are under way.
    #[error("{most} calls are under way; wait for some to end")]
    Full {
        /// The limit.
        most: usize,
    },
    /// The block is not in the cache, or not pinned.
    #[error("LBN {0} is not in the cache, or not pinned; read or write it first")]
    NotThere(Lbn),
}

/// The failure of a call that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// A sector cannot be read or, for a flush, written. A sector that could not be written is still dirty.
    #[error("sector {0} is bad; write it anew, or trim it")]
    Bad(Lbn),
    /// Every buffer is dirty and none can be written. Other blocks of the same write may have been taken.
    #[error("no buffer can be written back; repair the medium, or trim the dirty blocks")]
    NoRoom,
}

/// One block's part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub call: CallId,
    pub op: Op,
    pub block: u64,
    pub span: Span,
    /// The position of the job's bytes among the call's, in sectors.
    pub at: usize,
}

/// A call whose last job has ended.
pub(super) struct Ended {
    pub op: Op,
    pub bytes: Vec<u8>,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug)]
struct Call {
    op: Op,
    bytes: Vec<u8>,
    left: usize,
    failure: Option<Failure>,
}

/// The calls under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    calls: BTreeMap<CallId, Call>,
    next: u64,
}

impl Calls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn number(&mut self) -> CallId {
        self.next += 1;
        CallId(self.next)
    }

    pub fn begin(&mut self, op: Op, bytes: Vec<u8>, jobs: usize) -> CallId {
        let id = self.number();
        self.calls.insert(id, Call { op, bytes, left: jobs, failure: None });
        id
    }

    pub fn bytes(&mut self, id: CallId) -> &mut [u8] {
        self.calls.get_mut(&id).map_or(&mut [], |c| &mut c.bytes)
    }

    /// Ends a job; returns the call if this was its last job.
    pub fn job_done(&mut self, id: CallId, failure: Option<Failure>) -> Option<Ended> {
        let call = self.calls.get_mut(&id)?;
        call.failure = call.failure.or(failure);
        call.left -= 1;
        if call.left > 0 {
            return None;
        }
        let Call { op, bytes, failure, .. } = self.calls.remove(&id)?;
        Some(Ended { op, bytes, failure })
    }
}

/// Jobs that wait for a buffer: blocks in order of arrival, each with its jobs in order.
#[derive(Clone, Debug, Default)]
pub(super) struct BufferQueue {
    order: VecDeque<u64>,
    jobs: BTreeMap<u64, VecDeque<Job>>,
}

impl BufferQueue {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn has(&self, block: u64) -> bool {
        self.jobs.contains_key(&block)
    }

    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.order.iter().copied()
    }

    pub fn push(&mut self, job: Job) {
        let jobs = self.jobs.entry(job.block).or_default();
        if jobs.is_empty() {
            self.order.push_back(job.block);
        }
        jobs.push_back(job);
    }

    pub fn take(&mut self, block: u64) -> VecDeque<Job> {
        self.order.retain(|&b| b != block);
        self.jobs.remove(&block).unwrap_or_default()
    }
}
