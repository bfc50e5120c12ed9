//! The commands of a detour, and the part of a gap for which a detour is planned.

use super::transfer::Transfer;
use alloc::vec::Vec;
use units::{Duration, LbnRange};

/// The part of a gap for which a detour is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapPart {
    /// The whole gap.
    Whole,
    /// The gap and the given additional time, a revolution, for detours that yield more than the given number of sectors.
    Longer(Duration, u64),
    /// The rest of the gap behind a detour.
    Rest,
    /// The rest of the gap behind a detour, for blocks that one command can read together with the request.
    Merged,
    /// The time before the given first command of a detour.
    Before(Transfer),
}

/// The commands of a detour.
#[derive(Debug, Default)]
pub(super) struct DetourCommands {
    pub own: Vec<DetourCommand>,
    /// The range that is merged with the foreground's command.
    pub merged: Option<WantedRange>,
}

/// A range of LBNs, and the number of wanted sectors in the range.
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
    /// The number of wanted sectors in the transfer.
    pub useful: u32,
}
