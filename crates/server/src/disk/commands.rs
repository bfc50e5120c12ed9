//! The commands at the device, and the commands that wait for them.
//!
//! A device may reorder its commands. So a command is not sent while it overlaps another command at the device and one
//! of the two writes ([`OverlapQueue`]).

use device::{Ask, Failure};
use freeblock::OverlapQueue;
use scheduler::{Command, CommandId};
use std::fmt;
use units::{Duration, Instant, LbnRange, Op};

use super::requests::RequestSeq;

/// The number of given-up commands at the device from which on no more are sent, because the device is probably dead.
/// The commands that wait then time out one after the other.
const SILENT_COMMANDS_MAX: usize = 16;

/// The origin of a command.
#[derive(Debug)]
pub(super) enum CommandOrigin {
    /// A command of the core, with the foreground request that the command serves, if it serves one.
    Command(Command, Option<RequestSeq>),
    /// A foreground request that bypasses the core.
    Request(RequestSeq),
    /// The application wants its writes on the medium.
    Flush,
    /// The command was given up. The device may still carry it out.
    GivenUp,
}

/// A command for the device, from its arrival here to the device's answer.
#[derive(Debug)]
pub(super) struct DeviceCommand {
    pub origin: CommandOrigin,
    pub range: LbnRange,
    /// [`Op::Write`] if the command changes the disk, also for a discard.
    pub op: Op,
    /// When the command arrived here; once it is at the device, when it was sent.
    pub since: Instant,
    /// The request to the device; `None` once the command is at the device.
    ask: Option<Ask>,
    /// The bytes of a write, if a background block that is partly read overlaps it.
    pub written: Option<Vec<u8>>,
}

impl CommandOrigin {
    /// Returns the id of the core's command, if the core has sent it.
    pub fn command(&self) -> Option<CommandId> {
        match self {
            Self::Command(command, _) => Some(command.id),
            Self::Request(_) | Self::Flush | Self::GivenUp => None,
        }
    }
}

impl fmt::Display for CommandOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command, seq) => {
                let whose = if seq.is_some() { "a request's" } else { "the background's" };
                write!(f, "{whose} {}", if command.op.is_write() { "write" } else { "read" })
            }
            Self::Request(_) => f.write_str("a flush or discard"),
            Self::Flush => f.write_str("a task's flush"),
            Self::GivenUp => f.write_str("a command that was given up"),
        }
    }
}

impl DeviceCommand {
    fn is_given_up(&self) -> bool {
        matches!(self.origin, CommandOrigin::GivenUp)
    }
}

/// The commands at the device, by the numbers that the device knows them under, and the commands that wait.
#[derive(Debug, Default)]
pub(super) struct Commands {
    queue: OverlapQueue<DeviceCommand>,
    /// The number of commands at the device that were given up.
    silent: usize,
}

impl Commands {
    /// Adds a command, to be sent as soon as no command at the device forbids it.
    pub fn push(&mut self, now: Instant, origin: CommandOrigin, range: LbnRange, ask: Ask) {
        let changes = matches!(ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. });
        let op = if changes { Op::Write } else { Op::Read };
        let command = DeviceCommand { origin, range, op, since: now, ask: Some(ask), written: None };
        self.queue.push(op, range, command);
    }

    /// Returns the next command that can be sent, with its number for the device. The command counts as at the device
    /// from here on.
    pub fn send_next(&mut self, now: Instant) -> Option<(u64, &mut DeviceCommand, Ask)> {
        if self.silent >= SILENT_COMMANDS_MAX {
            return None;
        }
        let (name, command) = self.queue.begin_next()?;
        command.since = now;
        let ask = command.ask.take()?;
        Some((name, command, ask))
    }

    /// Removes a command that the device has answered.
    pub fn done(&mut self, name: u64) -> Option<DeviceCommand> {
        let command = self.queue.done(name)?;
        self.silent -= usize::from(command.is_given_up());
        Some(command)
    }

    /// Returns whether no command waits or is at the device.
    pub fn are_none(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn silent(&self) -> usize {
        self.silent
    }

    /// Returns when the oldest command, at the device or waiting, will have taken `timeout`.
    pub fn due(&self, timeout: Duration) -> Option<Instant> {
        let sent = self.queue.under_way().find(|command| !command.is_given_up());
        let oldest = sent.into_iter().chain(self.queue.oldest()).map(|command| command.since).min();
        oldest.map(|since| since + timeout)
    }

    /// Gives up the oldest command that has taken `timeout` by `now`. Returns the command's origin, its range, and
    /// since when it has waited. A write at the device still blocks commands that overlap it, because the device may
    /// yet do it.
    pub fn give_up(&mut self, now: Instant, timeout: Duration) -> Option<(CommandOrigin, LbnRange, Instant)> {
        let over = |command: &DeviceCommand| command.since + timeout <= now;
        let sent = self.queue.under_way_mut().find(|(_, command)| !command.is_given_up());
        if let Some((name, command)) = sent.filter(|(_, command)| over(command)) {
            self.silent += 1;
            let origin = std::mem::replace(&mut command.origin, CommandOrigin::GivenUp);
            let (range, since, op) = (command.range, command.since, command.op);
            if !op.is_write() {
                self.queue.unblock(name);
            }
            return Some((origin, range, since));
        }
        self.queue.oldest().filter(|command| over(command))?;
        let DeviceCommand { origin, range, since, .. } = self.queue.withdraw_oldest()?;
        Some((origin, range, since))
    }
}

/// Returns the sector that a failed command could not read or write, or the command's first sector if that is unknown.
pub(super) fn blamed(failure: &Failure, command: &Command) -> units::Lbn {
    match failure {
        Failure::Medium(lbn) if command.range.contains(*lbn) => *lbn,
        // The failure concerns the whole command, so it must also reach a foreground request merged with background
        // parts.
        _ => command.range.start(),
    }
}
