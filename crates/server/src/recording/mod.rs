//! A scheduler core's inputs and outputs, recorded in a file, and replayed on another core.
//!
//! A core is a state machine: the same inputs give the same outputs. A [`Recorder`] writes all inputs of a live
//! run, a line of JSON each, and a [`CoreReplay`] gives them to a fresh core and compares the outputs.

mod entry;
mod frames;
mod replay;
mod threaded_file;

pub use frames::{FrameError, FrameLines, Frames};
pub use replay::{CoreReplay, CoreReplayError, Replayed};
pub use threaded_file::ThreadedFile;

use entry::RecordingEntry;
use scheduler::policy::PolicyName;
use scheduler::{
    AdoptError, Adoption, Buffers, Command, CommandEnd, CommandId, HostCall, Input, Outcome, Output,
    OutsideDrive, Refused, SessionCall, SessionError, Sessions, Wanted,
};
use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use tracing::{error, warn};
use units::{Duration, Instant, SessionId};

/// The longest time for which entries stay in memory before their frame is written: what a crash of the daemon can
/// lose.
const FRAME_EVERY: Duration = Duration::from_secs(1);

/// A recorder of a core's inputs and outputs.
///
/// The file is a recording of `freeblock serve --record`: frames with checksums (`server/src/recording/frames.rs`),
/// with one line of JSON for the setup, one for each input with its answer, one for each poll with its output, and one for
/// the end.
pub struct Recorder {
    to: Frames<Box<dyn Write + Send>>,
    /// When the present frame began.
    since: Instant,
    /// The bytes that may still be recorded.
    left: u64,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins a recording. `setup` must suffice to make the same core in a replay.
    ///
    /// # Errors
    /// The writer has failed.
    pub fn new(to: impl Write + Send + 'static, setup: &serde_json::Value) -> io::Result<Self> {
        let mut to = Frames::new(Box::new(to) as Box<dyn Write + Send>)?;
        line(&mut to, setup)?;
        to.cut()?;
        Ok(Self { to, since: Instant::ZERO, left: u64::MAX })
    }

    /// Limits the recording to about this number of bytes from here on. At the limit the recording ends as a
    /// whole, and further inputs are not recorded.
    #[must_use]
    pub fn limited(self, bytes: u64) -> Self {
        Self { left: bytes, ..self }
    }

    /// Ends the recording without waiting until the file's thread has written it.
    fn end_early(&mut self) -> io::Result<()> {
        line(&mut self.to, &RecordingEntry::End)?;
        self.to.cut()
    }

    /// Writes an entry and returns whether the limit allows more.
    fn note(&mut self, entry: &RecordingEntry<'_>) -> io::Result<bool> {
        let before = self.to.held();
        line(&mut self.to, entry)?;
        self.left = self.left.saturating_sub((self.to.held().saturating_sub(before)) as u64);
        if self.left == 0 {
            return self.end_early().map(|()| false);
        }
        let Some(at) = entry.at() else { return Ok(true) };
        if self.to.is_full() || at.saturating_since(self.since) >= FRAME_EVERY {
            self.since = at;
            self.to.cut()?;
        }
        Ok(true)
    }

    /// Ends the recording, after the core's last input. A recording without this end was cut off.
    ///
    /// # Errors
    /// The writer has failed.
    pub fn end(mut self) -> io::Result<()> {
        line(&mut self.to, &RecordingEntry::End)?;
        self.to.end().map(|_| ())
    }
}

fn line(to: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// A core and the recorder of its inputs, if there is one.
#[derive(Debug)]
pub(crate) struct RecordedCore {
    pub core: OutsideDrive,
    pub recorder: Option<Recorder>,
}

/// Queries of the core change nothing, so they are not recorded.
impl Deref for RecordedCore {
    type Target = OutsideDrive;

    fn deref(&self) -> &OutsideDrive {
        &self.core
    }
}

impl RecordedCore {
    /// Gives the core an input, and records it.
    pub fn input(&mut self, input: Input<CommandEnd<'_>, HostCall>) -> Result<u64, Refused> {
        let recorded = self.recorder.is_some().then(|| input.clone());
        let answer = self.core.input(input);
        if let Some(input) = recorded {
            self.note(|| RecordingEntry::Input { input, answer: answer.ok() });
        }
        answer
    }

    /// Replaces the core's model of the drive and its configuration.
    pub fn adopt(&mut self, adoption: Adoption, setup: serde_json::Value) -> Result<(), AdoptError> {
        let answer = adopt(&mut self.core, adoption);
        self.note(|| RecordingEntry::Adopt { setup, adopted: answer.is_ok() });
        answer
    }

    /// Reports the end of a command, which the core cannot refuse.
    pub fn command_done(&mut self, at: Instant, id: CommandId, outcome: Outcome<'_>) {
        let ended = self.input(Input::Ended { at, end: CommandEnd::One { id, outcome } });
        debug_assert!(ended.is_ok(), "{ended:?}");
    }

    pub fn poll_with(&mut self, at: Instant, buffers: &mut dyn Buffers) -> Option<Output<Command>> {
        let mut recorded = RecordingBuffers { buffers, answers: Vec::new() };
        let output = self.core.poll_with(at, &mut recorded);
        let buffers = recorded.answers;
        self.note(|| RecordingEntry::Poll { at, buffers, output: output.clone() });
        output
    }

    /// Records an entry. If the recording cannot be written it ends, and the disk goes on.
    fn note<'a>(&mut self, entry: impl FnOnce() -> RecordingEntry<'a>) {
        let Some(writes) = &mut self.recorder else { return };
        match writes.note(&entry()) {
            Ok(true) => return,
            Ok(false) => warn!("the recording has reached its limit and ends here, whole; the disk goes on"),
            Err(error) => error!(%error, "the recording ends here; the disk goes on"),
        }
        self.recorder = None;
    }
}

impl Sessions for RecordedCore {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        self.input(Input::Call(call)).map_err(|refused| match refused {
            Refused::Call(error) => error,
            refused => unreachable!("a call is refused as another input: {refused}"),
        })
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.core.to_come(session)
    }
}

/// Replaces a core's model of the drive and its configuration. Drops a mimic that the new policy does not use.
fn adopt(core: &mut OutsideDrive, adoption: Adoption) -> Result<(), AdoptError> {
    let Adoption { drive, config } = adoption;
    core.adopt(drive, config)?;
    if !matches!(config.policy, PolicyName::Smtf(_)) {
        core.set_mimic(None);
    }
    Ok(())
}

/// Buffers that record which of them were ready.
struct RecordingBuffers<'a> {
    buffers: &'a mut dyn Buffers,
    answers: Vec<bool>,
}

impl Buffers for RecordingBuffers<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let ready = self.buffers.ready(wanted);
        self.answers.push(ready);
        ready
    }
}
