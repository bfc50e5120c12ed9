//! The core outside the drive.

use super::{Command, CommandEnd, CommandId, Outcome, Outside};
use crate::background::Buffers;
use crate::core::{Adoption, Config, Core, HostCall, Input, Output, Refused, SubmitError, wraps_engine};
use crate::foreground::{Pending, Request};
use crate::idle::IdleTimeError;
use alloc::boxed::Box;
use alloc::sync::Arc;
use model::DriveModel;
use units::Instant;

/// The scheduler outside the drive: it sends commands and learns from their completions (FAST'02).
///
/// One door in: [`input`](Self::input), or its short forms [`submit`](Self::submit) for the foreground, the session calls
/// ([`Sessions`](crate::Sessions)) for the background, and [`command_done`](Self::command_done) for each command. One door out:
/// after any input, and at [`wake_at`](Self::wake_at), [`poll`](Self::poll) until it returns `None`. At most
/// [`OutsideConfig::at_drive`](crate::OutsideConfig::at_drive) commands are at the drive, or
/// [`OutsideConfig::pass_through`](crate::OutsideConfig::pass_through) while the drive chooses their order. The core reads no
/// clock, and its lottery is seeded: the same inputs give the same outputs.
///
/// ```
/// use freeblock_scheduler::model::DriveModel;
/// use freeblock_scheduler::units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// use freeblock_scheduler::{Output, Config, Outcome, OutsideConfig, OutsideDrive, Request};
/// let drive = DriveModel::unknown(Sectors::new(1_000_000), Bytes::new(512))?;
/// let mut core = OutsideDrive::new(drive.into(), Config::outside(OutsideConfig::blind().serving()));
/// let range = LbnRange::new(Lbn::new(4_711), Sectors::new(8));
/// core.submit(Instant::ZERO, Request { id: RequestId::new(1), op: Op::Read, range })?;
/// let Some(Output::Do(command)) = core.poll(Instant::ZERO) else { panic!("the drive is idle") };
/// assert_eq!(command.range, range);
/// // Here a host sends the command to the device.
/// let now = Instant::ZERO + Duration::from_millis(9);
/// core.command_done(now, command.id, Outcome::Done);
/// assert_eq!(core.poll(now), Some(Output::Completed(RequestId::new(1))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OutsideDrive {
    pub(super) core: Core,
    /// The commands, and the knowledge about the drive.
    pub(super) outside: Box<Outside>,
    /// The model of the drive, and the configuration, that are [adopted](Self::adopt) when no command is at the drive.
    pub(super) adopting: Option<Box<Adoption>>,
}

wraps_engine!(OutsideDrive, Command, CommandEnd, HostCall);

impl OutsideDrive {
    /// Returns a new core, like [`new`](Self::new), for a configuration that may be invalid.
    ///
    /// # Errors
    /// The invalid field and its valid values ([`IdleTime::check`](crate::IdleTime::check)).
    pub fn try_new(drive: Arc<DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        let outside = Box::new(Outside::new(&drive, config.outside));
        Ok(Self { core: Core::try_new(drive, config, false)?, outside, adopting: None })
    }

    /// Returns a core for a drive whose arm is supposed at cylinder 0 until completions show it elsewhere.
    ///
    /// # Panics
    /// If the settings of idle time are invalid; [`try_new`](Self::try_new) returns the reason.
    pub fn new(drive: Arc<DriveModel>, config: Config) -> Self {
        Self::try_new(drive, config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reports the end of a command at `now`.
    pub fn command_done(&mut self, now: Instant, id: CommandId, outcome: Outcome<'_>) {
        self.ended(now, CommandEnd::One { id, outcome });
    }

    /// Reports that all commands at the drive were [lost](CommandEnd::AllLost).
    pub fn lost(&mut self, now: Instant) {
        self.ended(now, CommandEnd::AllLost);
    }

    /// Reports the end of one command at the drive, or of all commands there.
    pub fn ended(&mut self, now: Instant, end: CommandEnd<'_>) {
        let Self { core, outside, .. } = self;
        let CommandEnd::One { id, outcome } = end else { return core.all_lost(outside, now) };
        let place = outside.device.iter().position(|o| o.command.id == id);
        let Some(ended) = place.and_then(|place| Some((place, outside.device.remove(place)?))) else {
            debug_assert!(false, "{id} is not at the drive");
            return;
        };
        core.ended(outside, now, ended, outcome);
    }

    fn host(&mut self, call: HostCall) -> Result<u64, Refused> {
        match call {
            HostCall::WantReadings(wanted) => self.want_readings(wanted),
            HostCall::Read { at, range } => return Ok(self.read_for_host(at, range)?.get()),
            HostCall::Adopt(adoption) => self.adopt(adoption.drive, adoption.config)?,
        }
        Ok(0)
    }

    /// Adds a request that was checked.
    fn admit(&mut self, now: Instant, pending: Pending) {
        self.core.meet_stream(&mut self.outside, now, pending.request.op);
        self.core.accept(now, pending);
    }

    /// Polls like [`poll`](Self::poll); `buffers` is asked before a background block is written.
    pub fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<Command>> {
        if let Some(event) = self.core.next_event(now) {
            return Some(event.map(|none| match none {}));
        }
        if let Some(reading) = self.outside.readings.take() {
            return Some(Output::Do(reading));
        }
        self.core.promote_again();
        self.adopt_now();
        let Self { core, outside, adopting } = self;
        let command = match adopting {
            Some(_) => outside.send_decided(&core.drive, now),
            None => core.send(outside, now, buffers),
        };
        command.map(|command| Output::Do(core.with_parts(outside, command)))
    }

    /// Returns the instant of the next poll if no event occurs before: then the core chooses the next command, or may have work
    /// in idle time.
    pub fn wake_at(&self) -> Option<Instant> {
        let idle = || if self.outside.is_busy() { None } else { self.core.idle_at() };
        self.core.choice_at(&self.outside).or_else(idle)
    }

    /// Returns whether a poll would only choose background work: no result is left for the host, no foreground request waits,
    /// and blocks are wanted. The choice takes longer than an answer to a client, so a host sends its answers first.
    pub fn chooses_background(&self) -> bool {
        let foreground = self.pending() > 0 || !self.outside.queue.is_empty();
        self.core.outbox.is_empty() && !foreground && !self.core.background.is_idle()
    }

    /// Returns the number of waiting foreground requests, promoted ones included, without those at the drive.
    pub fn pending(&self) -> usize {
        self.core.pool.len() + self.outside.retries.len()
    }
}
