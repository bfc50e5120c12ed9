//! A tape told to a fresh core.

use super::FORMAT;
use super::entry::{Call, Entry, Gave, Header, lbns, op, request};
use scheduler::{Buffers, Core, Outcome, Parameter, Priority, Sessions, Wanted};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use thiserror::Error;
use units::{Instant, Lbn, Op, Sectors, SessionId, TaskId};

/// A tape that cannot be told again, or a core that decides otherwise.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It cannot be read.
    #[error("the recording: {0}")]
    Read(#[from] io::Error),
    /// Something else stands there.
    #[error(
        "line {line} of the recording: {problem}; give a file that `freeblock serve --record` has written"
    )]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// The core that the tape is for cannot be made.
    #[error("the recording's setup: {0}")]
    Setup(String),
    /// The core decides otherwise than the live one did.
    #[error("line {line} of the recording: the live run had {live}, the replay {replayed}")]
    Diverged {
        /// Counted from 1.
        line: u64,
        /// What the tape says.
        live: String,
        /// What came instead.
        replayed: String,
    },
}

/// What was told again, with the same decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs.
    pub inputs: u64,
    /// Commands sent.
    pub commands: u64,
    /// Foreground requests that were answered.
    pub requests: u64,
    /// Blocks delivered.
    pub blocks: u64,
    /// Whether the last line was cut off: the daemon was killed.
    pub cut_off: bool,
}

/// Tells a core all that another was told, and compares what it decides. `make` makes it from the setup that the tape was
/// begun with.
///
/// # Errors
/// What is no tape, and the first decision that differs.
pub fn replay(
    tape: &mut dyn BufRead,
    make: impl FnOnce(&serde_json::Value) -> Result<Core, String>,
) -> Result<Replayed, ReplayError> {
    let (mut text, mut line) = (String::new(), 1);
    tape.read_line(&mut text)?;
    let wrong = |line, problem: String| ReplayError::Line { line, problem };
    let header: Header = serde_json::from_str(&text).map_err(|e| wrong(1, e.to_string()))?;
    if header.format != FORMAT {
        return Err(wrong(
            1,
            format!("it is of format {}, and {FORMAT} is what this program reads", header.format),
        ));
    }
    let mut teller = Teller {
        core: make(&header.setup).map_err(ReplayError::Setup)?,
        commands: BTreeMap::new(),
        told: Replayed::default(),
    };
    loop {
        text.clear();
        line += 1;
        if tape.read_line(&mut text)? == 0 {
            return Ok(teller.told);
        }
        if !text.ends_with('\n') {
            teller.told.cut_off = true;
            return Ok(teller.told);
        }
        let entry: Entry = serde_json::from_str(&text).map_err(|e| wrong(line, e.to_string()))?;
        let replayed = teller.tell(&entry).map_err(|problem| wrong(line, problem))?;
        if replayed != entry {
            let (live, replayed) = (format!("{entry:?}"), format!("{replayed:?}"));
            return Err(ReplayError::Diverged { line, live, replayed });
        }
        teller.told.inputs += 1;
    }
}

struct Teller {
    core: Core,
    /// By number, those at the drive.
    commands: BTreeMap<u64, scheduler::CommandId>,
    told: Replayed,
}

impl Teller {
    /// Tells the core; the entry as it is now.
    fn tell(&mut self, entry: &Entry) -> Result<Entry, String> {
        let mut now = entry.clone();
        match (entry, &mut now) {
            (&Entry::Submit { at, id, write, lbns, .. }, Entry::Submit { taken, .. }) => {
                *taken = self.core.submit(Instant::from_nanos(at), request(id, write, lbns)).is_ok();
            }
            (&Entry::Done { at, id, bad }, _) => {
                let command = self.commands.remove(&id).ok_or(format!("no command {id} is at the drive"))?;
                let outcome = bad.map_or(Outcome::Done, |lbn| Outcome::NoData(Lbn::new(lbn)));
                self.core.command_done(Instant::from_nanos(at), command, outcome);
            }
            (Entry::Poll { at, buffers, .. }, Entry::Poll { buffers: asked, gave, .. }) => {
                let mut said = Said { live: buffers, asked: Vec::new() };
                let action = self.core.poll_with(Instant::from_nanos(*at), &mut said);
                *asked = said.asked;
                *gave = action.as_ref().map(Gave::new);
                match action {
                    Some(scheduler::Action::Send(command)) => {
                        self.commands.insert(command.id.get(), command.id);
                        self.told.commands += 1;
                    }
                    Some(scheduler::Action::Completed(_) | scheduler::Action::Failed { .. }) => {
                        self.told.requests += 1;
                    }
                    Some(scheduler::Action::Deliver(_)) => self.told.blocks += 1,
                    _ => {}
                }
            }
            (Entry::Call { call, .. }, Entry::Call { got, .. }) => *got = self.call(call)?,
            _ => {}
        }
        Ok(now)
    }

    /// A call's number; nothing for a refusal.
    fn call(&mut self, call: &Call) -> Result<Option<u64>, String> {
        let core = &mut self.core;
        let priority = |n| Priority::new(n).ok_or(format!("{n} is no priority; they are 1 to 100"));
        Ok(match *call {
            Call::Open { priority: n } => core.open(priority(n)?).ok().map(SessionId::get),
            Call::SetPriority { session, priority: n } => {
                core.set_priority(SessionId::new(session), priority(n)?).ok().map(|()| 0)
            }
            Call::Serve { session, on } => {
                core.serve_reads_by_writes(SessionId::new(session), on).ok().map(|()| 0)
            }
            Call::ServeWrites { session, on } => {
                core.serve_writes_by_writes(SessionId::new(session), on).ok().map(|()| 0)
            }
            Call::Register { session, write, lbns: range, block, parameter } => {
                let (session, range) = (SessionId::new(session), lbns(range));
                let (block, parameter) = (Sectors::new(block), Parameter(parameter));
                let task = match op(write) {
                    Op::Read => core.read(session, range, block, parameter),
                    Op::Write => core.write(session, range, block, parameter),
                };
                task.ok().map(TaskId::get)
            }
            Call::Abort { task } => core.abort(TaskId::new(task)).ok(),
            Call::AbortRange { session, lbns: range } => {
                core.abort_range(SessionId::new(session), lbns(range)).ok()
            }
            Call::Promote { session, lbns: range } => core.promote(SessionId::new(session), lbns(range)).ok(),
            Call::Suspend { session } => core.suspend(SessionId::new(session)).ok().map(|()| 0),
            Call::Resume { session } => core.resume(SessionId::new(session)).ok().map(|()| 0),
            Call::Close { session } => core.close(SessionId::new(session)).ok(),
        })
    }
}

/// Answers as the applications of the live run did.
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
