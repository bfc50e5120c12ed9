//! Commands that the device does not answer.

use super::apps::CallContext;
use super::commands::CommandOrigin;
use super::{Disk, DiskHooks, nowhere};
use device::{Device, Failure};
use scheduler::Outcome;
use tracing::{error, warn};
use units::{Duration, Instant, LbnRange};

/// The default time after which an unanswered command is given up: what Linux gives a SCSI disk, and longer than disks
/// spend on a sector that is hard to read.
pub const TIMEOUT: Duration = Duration::from_secs(30);

impl<D: Device, A: DiskHooks> Disk<D, A> {
    /// Sets the time that the device has for a command, [`TIMEOUT`] by default. After that time a foreground request
    /// fails, and background blocks are requested again. Commands that overlap an unanswered write wait until the
    /// device answers.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Gives up the commands that have taken too long. Returns whether there were any.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((origin, range, since)) = self.commands.give_up(now, self.timeout) {
            any = true;
            self.counters.timed_out();
            let after = now.saturating_since(since);
            let silent = || Failure::Silent { after };
            let (seconds, unanswered) = (after.as_nanos() / 1_000_000_000, self.commands.silent());
            error!(%range, what = %origin, seconds, unanswered, "the device does not answer: the command is given up");
            self.core_time = self.core_time.max(now);
            match origin {
                CommandOrigin::Command(command, seq) => {
                    self.blocks.arrived(command.id);
                    self.readings.ended(command.id, now, Some(&silent()));
                    if let Some(request) = seq.and_then(|seq| self.requests.get_mut(seq)) {
                        request.failure = Some(silent());
                    }
                    self.core.command_done(self.core_time, command.id, Outcome::Lost);
                }
                CommandOrigin::Request(seq) => {
                    if let Some(request) = self.requests.get_mut(seq) {
                        request.failure = Some(silent());
                    }
                    self.finish(seq, now);
                }
                CommandOrigin::Flush => {
                    let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
                    self.apps.flushed(context, Err(&silent()));
                }
                CommandOrigin::GivenUp => {}
            }
        }
        any
    }

    /// Handles an answer to a command that was given up. `landed` has the bytes of a write that the device has done
    /// after all, if a background block needs them.
    pub(super) fn answered_late(
        &mut self,
        range: LbnRange,
        since: Instant,
        now: Instant,
        landed: Option<&[u8]>,
    ) {
        let seconds = now.saturating_since(since).as_nanos() / 1_000_000_000;
        warn!(%range, seconds, unanswered = self.commands.silent(), "the device has answered after all; no request waits for this answer");
        debug_assert!(landed.is_none() || range != nowhere());
        if let Some(bytes) = landed {
            self.blocks.written(range, bytes);
        }
    }
}
