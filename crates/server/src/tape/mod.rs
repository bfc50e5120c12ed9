//! What a core was told and what it decided, kept in a file, and told again to another.
//!
//! A core is a state machine: the same inputs give the same decisions (design, promise 6). A [`Tape`] holds all inputs of a
//! live run, a line of JSON each, and [`replay`] feeds them to a fresh core and compares what that decides.

mod entry;
mod noted;
mod replay;

pub(crate) use noted::Noted;
pub use replay::{ReplayError, Replayed, replay};

use entry::{Entry, Gave, Header};
use scheduler::{Buffers, CommandId, Core, Outcome, Request, SubmitError, Wanted};
use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use tracing::error;
use units::Instant;

/// The version of the format.
const FORMAT: u32 = 1;

/// What a core is told is written here, and what it decides.
pub struct Tape {
    to: Box<dyn Write + Send>,
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape").finish_non_exhaustive()
    }
}

impl Tape {
    /// Begins one. `setup` is what whoever replays it needs to make the same core.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(to: impl Write + Send + 'static, setup: serde_json::Value) -> io::Result<Self> {
        let mut tape = Self { to: Box::new(to) };
        tape.line(&Header { format: FORMAT, setup })?;
        Ok(tape)
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")
    }
}

/// A core, and what notes its inputs, if anything does.
#[derive(Debug)]
pub(crate) struct Taped {
    pub core: Core,
    pub tape: Option<Tape>,
}

/// To ask it things: that changes nothing, and is not noted.
impl Deref for Taped {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// A tape that cannot be written is ended: the disk goes on.
pub(crate) fn note(tape: &mut Option<Tape>, entry: impl FnOnce() -> Entry) {
    if let Some(writes) = tape
        && let Err(error) = writes.line(&entry())
    {
        error!(%error, "the recording ends here");
        *tape = None;
    }
}

impl Taped {
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<(), SubmitError> {
        let told = self.core.submit(now, request);
        note(&mut self.tape, || Entry::submit(now, &request, told.is_ok()));
        told
    }

    pub fn command_done(&mut self, now: Instant, id: CommandId, outcome: Outcome<'_>) {
        note(&mut self.tape, || Entry::done(now, id, outcome));
        self.core.command_done(now, id, outcome);
    }

    pub fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<scheduler::Action> {
        let mut heard = Heard { buffers, said: Vec::new() };
        let action = self.core.poll_with(now, &mut heard);
        let said = heard.said;
        note(&mut self.tape, || Entry::Poll {
            at: now.as_nanos(),
            buffers: said,
            gave: action.as_ref().map(Gave::new),
        });
        action
    }
}

/// Notes which buffers were at hand.
struct Heard<'a> {
    buffers: &'a mut dyn Buffers,
    said: Vec<bool>,
}

impl Buffers for Heard<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let ready = self.buffers.ready(wanted);
        self.said.push(ready);
        ready
    }
}
