//! The options of a reorganiser, its errors, and its figures.

use super::journal::{NvramLost, ReorganizeStateError};
use scheduler::{Priority, SessionError};
use units::Duration;

/// The options of a reorganiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most blocks in the staging area, at least 2.
    pub staging: u64,
    /// The share of the staging area that may hold blocks whose destination is still occupied, in percent; 50 in the
    /// paper. One such block may always be there, and room for one other block is always reserved.
    pub threshold_percent: u8,
    /// The priority of all three sessions.
    pub priority: Priority,
}

impl Default for Options {
    /// Returns 1024 blocks (8 MiB of the paper's 8 KiB blocks), at most half of them unwritable.
    fn default() -> Self {
        Self { staging: 1024, threshold_percent: 50, priority: Priority::default() }
    }
}

/// The reason for which a reorganisation cannot start.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReorganizeStartError {
    /// The staging area has less than two blocks, so that a cycle cannot be broken.
    #[error("a staging area of {0} blocks; give 2 or more, with fewer blocks a cycle cannot be broken")]
    Staging(u64),
    /// The threshold is no percentage.
    #[error("a threshold of {0} %; give 1 to 100")]
    Threshold(u8),
    /// The scheduler has no room for the sessions or their tasks.
    #[error("reading cannot be registered: {0}")]
    Session(#[from] SessionError),
    /// The staging area's memory failed.
    #[error(transparent)]
    Nvram(#[from] NvramLost),
}

/// The reason for which a reorganisation cannot be resumed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecoverError {
    /// The saved state is refused.
    #[error(transparent)]
    State(#[from] ReorganizeStateError),
    /// An error that can occur at any start.
    #[error(transparent)]
    Start(#[from] ReorganizeStartError),
}

/// The reason for which a reorganiser makes no progress.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// The reorganiser halted. Nothing is lost; `recover` resumes.
    #[error(transparent)]
    Nvram(NvramLost),
    /// Some blocks could not be registered. The next event tries them again.
    #[error("blocks are waiting to be registered: {0}")]
    Session(SessionError),
    /// Bad destinations left too many blocks in the staging area: there is no room to break a cycle.
    #[error("{kept} of {staging} staged blocks have no good place left; recover with a larger staging area")]
    StagingExhausted {
        /// Blocks that stay in the staging area.
        kept: u64,
        /// Blocks that fit into it.
        staging: u64,
    },
}

/// The progress of a reorganisation, in blocks; waiting + staged + kept + done + stuck = blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Blocks of the plan.
    pub blocks: u64,
    /// Blocks not read yet.
    pub waiting: u64,
    /// Blocks in the staging area, to be written.
    pub staged: u64,
    /// Staged blocks that cannot be written before another block is read.
    pub unwritable: u64,
    /// Blocks at their destination, or at the best place that was left.
    pub done: u64,
    /// Blocks that stay at their source because they cannot be read.
    pub stuck: u64,
    /// Blocks that stay in the staging area because there is no good place for them.
    pub kept: u64,
}

impl Progress {
    /// Returns whether all blocks have reached their final place.
    pub fn is_finished(&self) -> bool {
        self.waiting == 0 && self.staged == 0
    }
}

/// Counts since start or recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Completion records of reads and writes; a step of the counts below is one such record.
    pub steps: u64,
    /// Blocks read into the staging area.
    pub staged: u64,
    /// Blocks whose destination was still occupied when they were staged: dependencies broken by staging.
    pub broken: u64,
    /// Blocks written to their destination.
    pub moved: u64,
    /// Blocks that were delivered while the staging area had no room for them, and are read again.
    pub dropped: u64,
    /// Writes repeated because newer bytes had come meanwhile, or because another session wrote there.
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
