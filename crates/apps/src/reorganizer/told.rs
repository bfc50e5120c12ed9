//! What a reorganiser is told, and what it tells of itself.

use super::journal::{NvramLost, StateError};
use scheduler::{Priority, SessionError};
use units::Duration;

/// How a reorganiser works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most blocks in the staging area, at least 2.
    pub staging: u64,
    /// The most of them that may be unwritable, in percent; 50 in the paper. At least one block may be, and at least one
    /// always may not.
    pub threshold_percent: u8,
    /// Of all three sessions.
    pub priority: Priority,
}

impl Default for Options {
    /// 1024 blocks (8 MiB of the paper's 8 KiB blocks), half of them unwritable at most.
    fn default() -> Self {
        Self { staging: 1024, threshold_percent: 50, priority: Priority::default() }
    }
}

/// Why a reorganisation cannot start.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StartError {
    /// Too little room: one block would have to be written before it can be.
    #[error("a staging area of {0} blocks; give 2 or more, with fewer a cycle has no end")]
    Staging(u64),
    /// Not a percentage.
    #[error("a threshold of {0} %; give 1 to 100")]
    Threshold(u8),
    /// There is no room for its sessions, or for their tasks.
    #[error("reading cannot be registered: {0}")]
    Session(#[from] SessionError),
    /// The staging area's memory.
    #[error(transparent)]
    Nvram(#[from] NvramLost),
}

/// Why a reorganisation cannot go on after a crash.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecoverError {
    /// The saved state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The same as at a start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a reorganiser is not getting on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// It halted. Nothing is lost; `recover` goes on.
    #[error(transparent)]
    Nvram(NvramLost),
    /// Some blocks are not registered. It is tried again at the next event.
    #[error("blocks are waiting to be registered: {0}")]
    Session(SessionError),
    /// Bad destinations left so many blocks in the staging area that there is no room to break a cycle.
    #[error("{kept} of {staging} staged blocks have no good place left; recover with a larger staging area")]
    StagingExhausted {
        /// Blocks that stay in staging.
        kept: u64,
        /// Blocks that it has room for.
        staging: u64,
    },
}

/// Where a reorganisation stands, in blocks. Nothing is counted twice: waiting + staged + kept + done + stuck = blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Of the plan.
    pub blocks: u64,
    /// Not read yet.
    pub waiting: u64,
    /// In the staging area, to be written.
    pub staged: u64,
    /// Of these, those that have to wait for another block to be read.
    pub unwritable: u64,
    /// Where they belong, or the best place that was left.
    pub done: u64,
    /// Where they were, because they cannot be read.
    pub stuck: u64,
    /// In the staging area, because there is no good place for them.
    pub kept: u64,
}

impl Progress {
    /// Whether nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.waiting == 0 && self.staged == 0
    }
}

/// What was done since start or recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records handed over, reads and writes: the steps that the others are counted in.
    pub steps: u64,
    /// Blocks read into the staging area.
    pub staged: u64,
    /// Of these, those whose destination was still occupied: dependencies broken by staging.
    pub broken: u64,
    /// Blocks written to their destination.
    pub moved: u64,
    /// Blocks that came when there was no room for them any more; they are read again.
    pub dropped: u64,
    /// Writes done again because newer bytes had come meanwhile, or because someone else wrote there.
    pub rewritten: u64,
    /// Parts of foreground accesses that went to the staging area or to a block's new place.
    pub redirected: u64,
    /// The most blocks in the staging area at a time.
    pub most_staged: u64,
    /// Steps during which the read-unwritable session was suspended.
    pub unwritable_suspended_steps: u64,
    /// Steps during which both read sessions were suspended: the staging area was full.
    pub full_steps: u64,
    /// Time between records during which the read-unwritable session was suspended.
    pub unwritable_suspended: Duration,
}
