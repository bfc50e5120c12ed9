//! A line of a recording.

use scheduler::{Command, CommandEnd, HostCall, Input, Output};
use serde::{Deserialize, Serialize};
use units::Instant;

/// A call of the scheduler core, and its result; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RecordingEntry<'a> {
    /// An input and the core's answer: a number, or `None` for a refusal.
    Input { input: Input<CommandEnd<'a>, HostCall>, answer: Option<u64> },
    /// A replacement of the core's model of the drive and configuration: the setup from which a
    /// replay makes a core that has them, and whether the core accepted it.
    Adopt { setup: serde_json::Value, adopted: bool },
    /// A poll: for each buffer that the core asked for, whether it was ready; and the core's
    /// output.
    Poll { at: Instant, buffers: Vec<bool>, output: Option<Output<Command>> },
    /// The end of the inputs.
    End,
}

impl RecordingEntry<'_> {
    /// Returns the time of the call, if it has one.
    pub fn at(&self) -> Option<Instant> {
        match *self {
            Self::Input { input: Input::Submit { at, .. } | Input::Ended { at, .. }, .. }
            | Self::Input { input: Input::Host(HostCall::Read { at, .. }), .. }
            | Self::Poll { at, .. } => Some(at),
            Self::Input { input: Input::Call(_) | Input::Host(_), .. } | Self::Adopt { .. } | Self::End => {
                None
            }
        }
    }
}
