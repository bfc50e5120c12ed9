//! The replay of a tape on a fresh core.

use super::entry::{Gave, TapeEntry};
use super::frames::{FrameError, FrameLines};
use scheduler::{Buffers, CommandId, Outcome, OutsideDrive, Sessions, Wanted};
use std::collections::BTreeSet;
use std::io::Read;
use thiserror::Error;
use units::Instant;

/// A tape that cannot be replayed, or a core that decides differently.
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
    /// The core that the tape is for cannot be made.
    #[error("the recording's setup: {0}")]
    Setup(String),
    /// The core decides differently from the live one.
    #[error("line {line} of the recording: the live run had {live}, the replay {replayed}")]
    Diverged {
        /// The line's number, counted from 1.
        line: u64,
        /// The live run's clock at the last input that had a time.
        at: Instant,
        /// The decision on the tape.
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
    /// Whether the tape has no end: the daemon was killed, or could not write it.
    pub cut_off: bool,
}

/// The replay of one core's inputs on another, which compares the decisions.
#[derive(Debug)]
pub struct Replay<R> {
    lines: FrameLines<R>,
    line: u64,
    teller: Teller,
    ended: bool,
}

impl<R: Read> Replay<R> {
    /// Begins a replay; `make` makes the core from the tape's setup.
    ///
    /// # Errors
    /// The file is no tape, or no core can be made for it.
    pub fn new(
        from: R,
        make: impl FnOnce(&serde_json::Value) -> Result<OutsideDrive, String>,
    ) -> Result<Self, ReplayError> {
        let mut lines = FrameLines::new(from)?;
        let setup = lines.next_line()?.unwrap_or_default();
        let setup = serde_json::from_slice(setup)
            .map_err(|error| ReplayError::Line { line: 1, problem: error.to_string() })?;
        let core = make(&setup).map_err(ReplayError::Setup)?;
        let told = Replayed { cut_off: true, ..Replayed::default() };
        let teller = Teller { core, commands: BTreeSet::new(), told };
        Ok(Self { lines, line: 1, teller, ended: false })
    }

    /// Replays the next input and compares. Returns whether there was one.
    ///
    /// # Errors
    /// The tape is damaged, or a decision differs.
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
        let entry: TapeEntry = serde_json::from_slice(text)
            .map_err(|error| ReplayError::Line { line, problem: error.to_string() })?;
        if entry == TapeEntry::End {
            (self.ended, self.teller.told.cut_off) = (true, false);
            return Ok(false);
        }
        if let Some(at) = entry.at().filter(|at| *at < self.teller.told.at) {
            let problem = format!("time goes back, to {} ns", at.as_nanos());
            return Err(ReplayError::Line { line, problem });
        }
        let replayed = self.teller.tell(&entry).map_err(|problem| ReplayError::Line { line, problem })?;
        let at = entry.at().unwrap_or(self.teller.told.at);
        if replayed != entry {
            let (live, replayed) = (format!("{entry:?}"), format!("{replayed:?}"));
            return Err(ReplayError::Diverged { line, at, live, replayed });
        }
        self.teller.told.at = at;
        self.teller.told.inputs += 1;
        Ok(true)
    }

    /// Returns the extent of the replay so far.
    pub fn told(&self) -> Replayed {
        self.teller.told
    }

    /// Returns the bytes of the recording that have been read.
    pub fn position(&self) -> u64 {
        self.lines.position()
    }
}

#[derive(Debug)]
struct Teller {
    core: OutsideDrive,
    /// The commands at the drive.
    commands: BTreeSet<CommandId>,
    told: Replayed,
}

impl Teller {
    /// Gives the core an entry's input; returns the entry as this core makes it.
    fn tell(&mut self, entry: &TapeEntry) -> Result<TapeEntry, String> {
        let mut now = entry.clone();
        match (entry, &mut now) {
            (&TapeEntry::Submit { at, request, .. }, TapeEntry::Submit { taken, .. }) => {
                *taken = self.core.submit(at, request).is_ok();
            }
            (&TapeEntry::Done { at, id, bad }, _) => {
                self.done(at, id, bad.map_or(Outcome::Done, Outcome::NoData))?;
            }
            (&TapeEntry::Lost { at, id }, _) => self.done(at, id, Outcome::Lost)?,
            (TapeEntry::Poll { at, buffers, .. }, TapeEntry::Poll { buffers: asked, gave, .. }) => {
                let mut said = Said { live: buffers, asked: Vec::new() };
                let action = self.core.poll_with(*at, &mut said);
                *asked = said.asked;
                *gave = action.as_ref().map(Gave::new);
                match action {
                    Some(scheduler::Action::Do(command)) => {
                        self.commands.insert(command.id);
                        self.told.commands += 1;
                    }
                    Some(scheduler::Action::Completed(_) | scheduler::Action::Failed { .. }) => {
                        self.told.requests += 1;
                    }
                    Some(scheduler::Action::Deliver(_)) => self.told.blocks += 1,
                    None => {}
                }
            }
            (TapeEntry::Call { call, .. }, TapeEntry::Call { got, .. }) => *got = self.core.call(*call).ok(),
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
struct Said<'a> {
    live: &'a [bool],
    asked: Vec<bool>,
}

impl Buffers for Said<'_> {
    fn ready(&mut self, _: &Wanted) -> bool {
        let ready = self.live.get(self.asked.len()).copied().unwrap_or(false);
        self.asked.push(ready);
        ready
    }
}
