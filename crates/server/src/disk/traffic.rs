//! The commands of the core on their way to the device, their bytes, and the device's answers.

use super::apps::{CallContext, Spare};
use super::commands::{CommandOrigin, DeviceCommand, blamed};
use super::requests::RequestSeq;
use super::{Disk, DiskHooks};
use device::{Answer, Ask, Device, Failure};
use freeblock::cut_out;
use scheduler::{Command, Outcome, Part, Purpose};
use tracing::{error, info, warn};
use units::{Duration, Instant, Op, RequestId};

impl<D: Device, A: DiskHooks> Disk<D, A> {
    /// Queues a command of the core, a write with its bytes.
    pub(super) fn command(&mut self, command: Command, now: Instant) {
        let seq = command.request.map(RequestId::get);
        let ask = match command.op {
            Op::Read => Ask::Read,
            Op::Write => match self.content_of(&command, seq) {
                Some((bytes, through)) => Ask::Write { bytes, through },
                None => {
                    debug_assert!(false, "no task gave the bytes that are written to {}", command.range);
                    error!(range = %command.range, "a background write without its bytes; the write is not done");
                    let outcome = Outcome::NoData(command.range.start());
                    return self.core.command_done(self.core_time, command.id, outcome);
                }
            },
        };
        self.blocks.await_parts(&command);
        let range = command.range;
        self.commands.push(now, CommandOrigin::Command(command, seq), range, ask);
    }

    /// Returns the bytes that a command writes, and whether the write is a write-through. `None` if bytes are missing,
    /// which is a defect.
    fn content_of(&mut self, command: &Command, seq: Option<RequestSeq>) -> Option<(Vec<u8>, bool)> {
        let (mut own, mut through) = (None, false);
        if let Some(request) = seq.and_then(|seq| self.requests.get_mut(seq))
            && let Ask::Write { bytes, through: wanted } = &mut request.ask
        {
            (own, through) = (Some((request.range, bytes)), *wanted);
        }
        Some((self.writes.content(command.range, own)?, through))
    }

    /// Sends the commands that nothing blocks. Returns whether there were any.
    pub(super) fn send(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((name, command, ask)) = self.commands.send_next(now) {
            any = true;
            let range = command.range;
            if let (CommandOrigin::Command(of, _), Ask::Write { bytes, .. }) = (&command.origin, &ask) {
                let wanted = self.blocks.needs(range, &of.parts);
                command.written = wanted.then(|| bytes.clone());
            }
            self.readings.sees_sent(&command.origin, now);
            self.device.ask(now, name, range, ask);
        }
        any
    }

    /// Handles an answer of the device.
    pub(super) fn answered(&mut self, answer: Answer, now: Instant) {
        let Some(command) = self.commands.done(answer.id) else { return };
        let DeviceCommand { origin, range, op, since, written, .. } = command;
        let writes = op.is_write();
        self.readings.sees_answered(&origin);
        let purpose = match &origin {
            CommandOrigin::Command(command, _) => Some(command.purpose),
            CommandOrigin::Request(_) | CommandOrigin::Flush | CommandOrigin::GivenUp => None,
        };
        self.counters.spent(&self.core.core, purpose, range, writes, since, answer.at);
        if writes && let Some(background) = self.background() {
            background.overwritten(range);
        }
        match origin {
            CommandOrigin::Command(command, seq) => {
                self.core_time = self.core_time.max(answer.at);
                let parts = self.blocks.arrived(command.id);
                if seq.is_none() && command.purpose == Purpose::Foreground && answer.result.is_ok() {
                    self.promoted(&command, &parts, answer.at.saturating_since(since));
                }
                self.readings.ended(command.id, answer.at, answer.result.as_ref().err());
                self.command_done(&command, &parts, seq, answer.result, written);
                self.log_trust(now);
            }
            CommandOrigin::Request(seq) => {
                if let (Err(failure), Some(request)) = (answer.result, self.requests.get_mut(seq)) {
                    request.failure = Some(failure);
                }
                self.finish(seq, now);
            }
            CommandOrigin::Flush => {
                debug_assert!(range.is_empty());
                let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
                self.apps.flushed(context, answer.result.as_ref().map(|_| ()));
            }
            CommandOrigin::GivenUp => {
                if writes && answer.result.is_err() {
                    self.blocks.write_failed(range);
                }
                let landed = written.filter(|_| answer.result.is_ok());
                self.answered_late(range, since, now, landed.as_deref());
            }
        }
    }

    /// Logs when the device has contradicted its profile for some time, and when it agrees with the profile again.
    fn log_trust(&mut self, now: Instant) {
        let core = &self.core.core;
        let caution = core.caution();
        let within = || core.prediction_errors().within(Duration::from_micros(100));
        match self.watch.note(now, caution) {
            Some(true) => warn!(
                ?caution,
                predicted = within(),
                "the disk does not do what its profile says: gaps are unused, and tasks have idle time only; usual where the disk caches writes, otherwise probe the disk again"
            ),
            Some(false) => {
                info!(predicted = within(), "the disk does what its profile says again: gaps are used");
            }
            None => {}
        }
    }

    fn command_done(
        &mut self,
        command: &Command,
        parts: &[Part],
        seq: Option<RequestSeq>,
        result: Result<Vec<u8>, Failure>,
        written: Option<Vec<u8>>,
    ) {
        let Command { id, op, range, .. } = *command;
        let failure = match result {
            Ok(read) => {
                self.counters.done(command, seq.is_none(), self.sector);
                self.moved(command, parts, seq);
                let bytes = if op.is_write() { written } else { Some(read) };
                if let Some(bytes) = bytes {
                    self.blocks.done(op, range, parts, &bytes);
                    if let Some(request) =
                        seq.and_then(|seq| self.requests.get_mut(seq)).filter(|_| !op.is_write())
                    {
                        request.read = cut_out(bytes, range, request.range, self.sector);
                    }
                }
                None
            }
            Err(failure) => {
                if op.is_write() {
                    self.blocks.write_failed(range);
                }
                Some(failure)
            }
        };
        let outcome = failure.as_ref().map_or(Outcome::Done, |f| Outcome::NoData(blamed(f, command)));
        // This also replaces the failure of an earlier command, which a request or block merged with this one had
        // caused.
        if let Some(request) = seq.and_then(|seq| self.requests.get_mut(seq)) {
            request.failure = failure;
        }
        self.core.command_done(self.core_time, id, outcome);
    }

    /// Divides the time of a command for promoted blocks among the blocks by their sectors, and reports each share to
    /// the block's owner.
    fn promoted(&mut self, command: &Command, parts: &[Part], took: Duration) {
        let all = command.range.len().get().max(1);
        for part in parts {
            if command.foreground.is_some_and(|own| own.covers(part.part)) {
                let share = u128::from(took.as_nanos()) * u128::from(part.part.len().get()) / u128::from(all);
                let share = Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX));
                self.apps.promoted(part.session, part.part, share);
            }
        }
    }

    /// Reports to the application the bytes that a command has read or written of its blocks, except promoted blocks,
    /// which are foreground work.
    fn moved(&mut self, command: &Command, parts: &[Part], seq: Option<RequestSeq>) {
        let when = match command.purpose {
            Purpose::Idle { .. } => Spare::Idle,
            Purpose::Background { .. } | Purpose::Foreground => Spare::Gap,
        };
        let promoted = command.foreground.filter(|_| seq.is_none());
        for part in parts {
            if promoted.is_none_or(|own| !own.covers(part.part)) {
                self.apps.moved(part.session, part.part.len().bytes(self.sector), when);
            }
        }
    }
}
