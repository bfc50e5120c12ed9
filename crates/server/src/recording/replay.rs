//! The replay of a recording on a fresh core.

use super::adopt;
use super::entry::RecordingEntry;
use super::frames::{FrameError, FrameLines};
use scheduler::{Buffers, CommandEnd, Input, Output, OutsideDrive, Wanted};
use serde_json::Value;
use std::fmt;
use std::io::Read;
use thiserror::Error;
use units::Instant;

/// A recording that cannot be replayed, or a core that decides differently from the recorded one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CoreReplayError {
    /// The file is no recording, or a damaged one.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A line does not decode, or does not fit the lines before.
    #[error("line {line} of the recording: {problem}; replay it with the program that made it")]
    Line {
        /// The line's number, counted from 1.
        line: u64,
        /// The problem.
        problem: String,
    },
    /// The core that the recording is for cannot be made.
    #[error("the recording's setup: {0}")]
    Setup(String),
    /// The core decides differently from the live one.
    #[error("line {line} of the recording: the live run had {live}, the replay {replayed}")]
    Diverged {
        /// The line's number, counted from 1.
        line: u64,
        /// The live run's clock at the last input that had a time.
        at: Instant,
        /// The live core's decision, from the recording.
        live: String,
        /// The replayed core's decision.
        replayed: String,
    },
}

/// How far a replay has come with all decisions the same as those of the live core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of inputs; the decisions after each were compared.
    pub inputs: u64,
    /// The number of commands sent.
    pub commands: u64,
    /// The number of foreground requests that were answered.
    pub requests: u64,
    /// The number of blocks delivered.
    pub blocks: u64,
    /// The live run's clock at the last input that had a time.
    pub at: Instant,
    /// Whether the recording lacks its end: the daemon was killed, or could not write it.
    pub cut_off: bool,
}

/// The replay of one core's recorded inputs on another core, which compares the decisions of the
/// two.
pub struct CoreReplay<R, M> {
    lines: FrameLines<R>,
    line: u64,
    make: M,
    core: OutsideDrive,
    extent: Replayed,
    ended: bool,
}

impl<R, M> fmt::Debug for CoreReplay<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreReplay")
            .field("line", &self.line)
            .field("extent", &self.extent)
            .finish_non_exhaustive()
    }
}

impl<R: Read, M: FnMut(&Value) -> Result<OutsideDrive, String>> CoreReplay<R, M> {
    /// Begins a replay. `make` makes the core from the recording's setup; it also makes one for
    /// each later setup whose model and configuration the live core [adopted](crate::Disk::adopt).
    ///
    /// # Errors
    /// The file is no recording, or `make` cannot make the core.
    pub fn new(from: R, mut make: M) -> Result<Self, CoreReplayError> {
        let mut lines = FrameLines::new(from)?;
        let setup = lines.next_line()?.unwrap_or_default();
        let setup = serde_json::from_slice(setup)
            .map_err(|error| CoreReplayError::Line { line: 1, problem: error.to_string() })?;
        let core = make(&setup).map_err(CoreReplayError::Setup)?;
        let extent = Replayed { cut_off: true, ..Replayed::default() };
        Ok(Self { lines, line: 1, make, core, extent, ended: false })
    }

    /// Replays the next input and compares the decisions. Returns `false` at the end.
    ///
    /// # Errors
    /// The recording is damaged, or a decision differs.
    pub fn step(&mut self) -> Result<bool, CoreReplayError> {
        if self.ended {
            return Ok(false);
        }
        let Some(text) = self.lines.next_line()? else {
            self.ended = true;
            return Ok(false);
        };
        self.line += 1;
        let line = self.line;
        let entry: RecordingEntry<'_> = serde_json::from_slice(text)
            .map_err(|error| CoreReplayError::Line { line, problem: error.to_string() })?;
        if entry == RecordingEntry::End {
            (self.ended, self.extent.cut_off) = (true, false);
            return Ok(false);
        }
        if let Some(at) = entry.at().filter(|at| *at < self.extent.at) {
            let problem = format!("time goes back, to {} ns", at.as_nanos());
            return Err(CoreReplayError::Line { line, problem });
        }
        let replayed = self.apply(&entry).map_err(|problem| CoreReplayError::Line { line, problem })?;
        let at = entry.at().unwrap_or(self.extent.at);
        if replayed != entry {
            let (live, replayed) = (format!("{entry:?}"), format!("{replayed:?}"));
            return Err(CoreReplayError::Diverged { line, at, live, replayed });
        }
        self.extent.at = at;
        self.extent.inputs += 1;
        Ok(true)
    }

    /// Returns the extent of the replay so far.
    pub fn extent(&self) -> Replayed {
        self.extent
    }

    /// Returns the bytes of the recording that have been read.
    pub fn position(&self) -> u64 {
        self.lines.position()
    }

    /// Makes the call that an entry records; returns an entry with this core's results.
    fn apply<'a>(&mut self, entry: &RecordingEntry<'a>) -> Result<RecordingEntry<'a>, String> {
        let Self { make, core, extent, .. } = self;
        Ok(match *entry {
            RecordingEntry::Adopt { ref setup, .. } => {
                let adopted = adopt(core, make(setup)?.adoption()).is_ok();
                RecordingEntry::Adopt { setup: setup.clone(), adopted }
            }
            RecordingEntry::Input { ref input, .. } => {
                if let Input::Ended { end: CommandEnd::One { id, .. }, .. } = *input
                    && !core.is_at_drive(id)
                {
                    return Err(format!("no {id} is at the drive"));
                }
                RecordingEntry::Input { input: input.clone(), answer: core.input(input.clone()).ok() }
            }
            RecordingEntry::Poll { at, ref buffers, .. } => {
                let mut answers = ReplayBuffers { live: buffers, asked: Vec::new() };
                let output = core.poll_with(at, &mut answers);
                match &output {
                    Some(Output::Do(_)) => extent.commands += 1,
                    Some(Output::Completed(_) | Output::Failed { .. }) => extent.requests += 1,
                    Some(Output::Deliver(_)) => extent.blocks += 1,
                    None => {}
                }
                RecordingEntry::Poll { at, buffers: answers.asked, output }
            }
            RecordingEntry::End => RecordingEntry::End,
        })
    }
}

/// Buffers that are ready when those of the live run were.
struct ReplayBuffers<'a> {
    live: &'a [bool],
    asked: Vec<bool>,
}

impl Buffers for ReplayBuffers<'_> {
    fn ready(&mut self, _: &Wanted) -> bool {
        let ready = self.live.get(self.asked.len()).copied().unwrap_or(false);
        self.asked.push(ready);
        ready
    }
}
