//! A line of a recording.

use scheduler::{Command, CommandEnd, HostCall, Input, Output};
use serde::{Deserialize, Serialize};
use units::Instant;

/// A call of the core, and its result; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RecordingEntry<'a> {
    /// An input and its answer: a number, or nothing for a refusal.
    Input { input: Input<CommandEnd<'a>, HostCall>, answer: Option<u64> },
    /// Another model of the drive and another configuration, by the setup of a core that has them, and whether the core adopts them.
    Adopt { setup: serde_json::Value, adopted: bool },
    /// A poll: the buffers that were ready, and the core's output.
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
