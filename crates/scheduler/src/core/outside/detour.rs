//! The commands of a detour, and the part of a gap that it is planned for.

use super::transfer::Transfer;
use alloc::vec::Vec;
use units::{Duration, LbnRange};

/// The part of a gap that a detour is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapPart {
    /// The whole gap.
    Whole,
    /// The gap and one more revolution, for detours that yield more than a number of sectors.
    Longer(Duration, u64),
    /// The rest behind a detour.
    Rest,
    /// The same, for blocks that one command can read with the request.
    Merged,
    /// The time before the first command of a detour, which is this one.
    Before(Transfer),
}

/// The commands of a detour.
#[derive(Debug, Default)]
pub(super) struct DetourCommands {
    pub own: Vec<DetourCommand>,
    /// The range that is merged with the foreground's command.
    pub merged: Option<WantedRange>,
}

/// LBNs, and the number of wanted sectors among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedRange {
    pub range: LbnRange,
    pub useful: u32,
}

/// A command of a detour.
#[derive(Clone, Copy, Debug)]
pub(super) struct DetourCommand {
    pub transfer: Transfer,
    pub tag: u64,
    /// The number of wanted sectors.
    pub useful: u32,
}
