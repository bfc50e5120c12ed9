//! The replay of a recording on a fresh core.

use super::entry::{Decision, RecordingEntry};
use super::frames::{FrameError, FrameLines};
use scheduler::{Buffers, CommandId, Outcome, OutsideDrive, Sessions, Wanted};
use std::collections::BTreeSet;
use std::io::Read;
use thiserror::Error;
use units::Instant;

/// A recording that cannot be replayed, or a core that decides differently.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is no recording, or a damaged one.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A line does not fit.
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
        /// The decision on the recording.
        live: String,
        /// The decision in the replay.
        replayed: String,
    },
}

/// The extent of a replay in which all decisions agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs; the decisions after each were compared.
    pub inputs: u64,
    /// Commands sent.
    pub commands: u64,
    /// Foreground requests that were answered.
    pub requests: u64,
    /// Blocks delivered.
    pub blocks: u64,
    /// The live run's clock at the last input that had a time.
    pub at: Instant,
    /// Whether the recording has no end: the daemon was killed, or could not write it.
    pub cut_off: bool,
}

/// The replay of one core's inputs on another, which compares the decisions.
#[derive(Debug)]
pub struct Replay<R> {
    lines: FrameLines<R>,
    line: u64,
    replayed: ReplayCore,
    ended: bool,
}

impl<R: Read> Replay<R> {
    /// Begins a replay; `make` makes the core from the recording's setup.
    ///
    /// # Errors
    /// The file is no recording, or no core can be made for it.
    pub fn new(
        from: R,
        make: impl FnOnce(&serde_json::Value) -> Result<OutsideDrive, String>,
    ) -> Result<Self, ReplayError> {
        let mut lines = FrameLines::new(from)?;
        let setup = lines.next_line()?.unwrap_or_default();
        let setup = serde_json::from_slice(setup)
            .map_err(|error| ReplayError::Line { line: 1, problem: error.to_string() })?;
        let core = make(&setup).map_err(ReplayError::Setup)?;
        let extent = Replayed { cut_off: true, ..Replayed::default() };
        let replayed = ReplayCore { core, commands: BTreeSet::new(), extent };
        Ok(Self { lines, line: 1, replayed, ended: false })
    }

    /// Replays the next input and compares. Returns whether there was one.
    ///
    /// # Errors
    /// The recording is damaged, or a decision differs.
    pub fn step(&mut self) -> Result<bool, ReplayError> {
        if self.ended {
            return Ok(false);
        }
        let Some(text) = self.lines.next_line()? else {
            self.ended = true;
            return Ok(false);
        };
        self.line += 1;
        let line = self.line;
        let entry: RecordingEntry = serde_json::from_slice(text)
            .map_err(|error| ReplayError::Line { line, problem: error.to_string() })?;
        if entry == RecordingEntry::End {
            (self.ended, self.replayed.extent.cut_off) = (true, false);
            return Ok(false);
        }
        if let Some(at) = entry.at().filter(|at| *at < self.replayed.extent.at) {
            let problem = format!("time goes back, to {} ns", at.as_nanos());
            return Err(ReplayError::Line { line, problem });
        }
        let replayed = self.replayed.apply(&entry).map_err(|problem| ReplayError::Line { line, problem })?;
        let at = entry.at().unwrap_or(self.replayed.extent.at);
        if replayed != entry {
            let (live, replayed) = (format!("{entry:?}"), format!("{replayed:?}"));
            return Err(ReplayError::Diverged { line, at, live, replayed });
        }
        self.replayed.extent.at = at;
        self.replayed.extent.inputs += 1;
        Ok(true)
    }

    /// Returns the extent of the replay so far.
    pub fn extent(&self) -> Replayed {
        self.replayed.extent
    }

    /// Returns the bytes of the recording that have been read.
    pub fn position(&self) -> u64 {
        self.lines.position()
    }
}

#[derive(Debug)]
struct ReplayCore {
    core: OutsideDrive,
    /// The commands at the drive.
    commands: BTreeSet<CommandId>,
    extent: Replayed,
}

impl ReplayCore {
    /// Gives the core an entry's input; returns the entry as this core makes it.
    fn apply(&mut self, entry: &RecordingEntry) -> Result<RecordingEntry, String> {
        let mut now = entry.clone();
        match (entry, &mut now) {
            (&RecordingEntry::Submit { at, request, .. }, RecordingEntry::Submit { taken, .. }) => {
                *taken = self.core.submit(at, request).is_ok();
            }
            (&RecordingEntry::Done { at, id, bad }, _) => {
                self.done(at, id, bad.map_or(Outcome::Done, Outcome::NoData))?;
            }
            (&RecordingEntry::Lost { at, id }, _) => self.done(at, id, Outcome::Lost)?,
            (RecordingEntry::Poll { at, buffers, .. }, RecordingEntry::Poll { buffers: asked, gave, .. }) => {
                let mut answers = ReplayBuffers { live: buffers, asked: Vec::new() };
                let action = self.core.poll_with(*at, &mut answers);
                *asked = answers.asked;
                *gave = action.as_ref().map(Decision::new);
                match action {
                    Some(scheduler::Action::Do(command)) => {
                        self.commands.insert(command.id);
                        self.extent.commands += 1;
                    }
                    Some(scheduler::Action::Completed(_) | scheduler::Action::Failed { .. }) => {
                        self.extent.requests += 1;
                    }
                    Some(scheduler::Action::Deliver(_)) => self.extent.blocks += 1,
                    None => {}
                }
            }
            (RecordingEntry::Call { call, .. }, RecordingEntry::Call { got, .. }) => {
                *got = self.core.call(*call).ok()
            }
            _ => {}
        }
        Ok(now)
    }

    fn done(&mut self, at: Instant, id: CommandId, outcome: Outcome<'_>) -> Result<(), String> {
        if !self.commands.remove(&id) {
            return Err(format!("no {id} is at the drive"));
        }
        self.core.command_done(at, id, outcome);
        Ok(())
    }
}

/// Buffers that answer as the applications of the live run did.
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
