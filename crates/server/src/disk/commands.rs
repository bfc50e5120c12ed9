//! The commands at the device, and those that wait for them.
//!
//! A device may reorder its commands. So no command goes there while it overlaps another one and either writes: a
//! background write cannot land after a newer one of the foreground.

use device::{Ask, Failure};
use scheduler::{Command, CommandId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use units::{Duration, Instant, LbnRange};

use super::requests::RequestSeq;

/// The number of unanswered commands after which the device gets no more; waiting ones then fail one after the other.
const SILENT_COMMANDS_MAX: usize = 16;

/// The origin of a command.
#[derive(Debug)]
pub(super) enum CommandOrigin {
    /// The core has sent it; the foreground request that it is for, if the core says so.
    Command(Command, Option<RequestSeq>),
    /// A foreground request that bypasses the core.
    Request(RequestSeq),
    /// The application wants its writes on the medium.
    Flush,
    /// The command was given up. The device may still carry it out.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Sent {
    pub origin: CommandOrigin,
    pub range: LbnRange,
    pub since: Instant,
    pub writes: bool,
    /// The bytes written, if a background block has to learn of them.
    pub written: Option<Vec<u8>>,
}

impl CommandOrigin {
    /// Returns the name of the core's command.
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

impl Sent {
    fn is_given_up(&self) -> bool {
        matches!(self.origin, CommandOrigin::GivenUp)
    }
}

#[derive(Debug)]
struct Waiting {
    origin: CommandOrigin,
    range: LbnRange,
    ask: Ask,
    since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Commands {
    /// By the name that the device knows it under, which is the order in which they went there.
    at_device: BTreeMap<u64, Sent>,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// The number of commands at the device that were given up.
    silent: usize,
}

fn writes(ask: &Ask) -> bool {
    matches!(ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. })
}

impl Commands {
    /// Adds a command, to be sent as soon as nothing is in its way.
    pub fn push(&mut self, now: Instant, origin: CommandOrigin, range: LbnRange, ask: Ask) {
        self.waiting.push_back(Waiting { origin, range, ask, since: now });
    }

    /// Returns the next command that can be sent.
    pub fn next(&mut self) -> Option<(CommandOrigin, LbnRange, Ask)> {
        if self.silent >= SILENT_COMMANDS_MAX {
            return None;
        }
        let at = (0..self.waiting.len()).find(|&at| {
            let Waiting { range, ask, .. } = &self.waiting[at];
            let conflicts =
                |other: LbnRange, other_writes: bool| other.overlaps(*range) && (other_writes || writes(ask));
            // The result of a read that was given up is dropped, but a write may still land.
            let counts = |sent: &Sent| sent.writes || !sent.is_given_up();
            let there = |sent: &Sent| counts(sent) && conflicts(sent.range, sent.writes);
            let before = |one: &Waiting| conflicts(one.range, writes(&one.ask));
            !self.at_device.values().any(there) && !self.waiting.range(..at).any(before)
        })?;
        let Waiting { origin, range, ask, .. } = self.waiting.remove(at)?;
        Some((origin, range, ask))
    }

    /// Records that a command goes to the device; returns its name there.
    pub fn sent(
        &mut self,
        now: Instant,
        origin: CommandOrigin,
        range: LbnRange,
        ask: &Ask,
        written: Option<Vec<u8>>,
    ) -> u64 {
        let name = self.next;
        self.next += 1;
        self.at_device.insert(name, Sent { origin, range, since: now, writes: writes(ask), written });
        name
    }

    /// Removes a command that the device has answered.
    pub fn done(&mut self, name: u64) -> Option<Sent> {
        let sent = self.at_device.remove(&name)?;
        self.silent -= usize::from(sent.is_given_up());
        Some(sent)
    }

    /// Returns whether no command waits or is at the device.
    pub fn are_none(&self) -> bool {
        self.at_device.is_empty() && self.waiting.is_empty()
    }

    /// Returns the number of commands at the device that were given up.
    pub fn silent(&self) -> usize {
        self.silent
    }

    /// Returns when the next command will have taken `timeout`.
    pub fn due(&self, timeout: Duration) -> Option<Instant> {
        let sent = self.at_device.values().find(|sent| !sent.is_given_up()).map(|sent| sent.since);
        let waiting = self.waiting.front().map(|one| one.since);
        [sent, waiting].into_iter().flatten().min().map(|since| since + timeout)
    }

    /// Gives up the oldest command that has taken `timeout` by `now`; returns its origin, its range, and since when it
    /// has waited. If it is at the device, it still blocks commands that overlap it.
    pub fn give_up(&mut self, now: Instant, timeout: Duration) -> Option<(CommandOrigin, LbnRange, Instant)> {
        let over = |since: Instant| since + timeout <= now;
        let oldest = self.at_device.values_mut().find(|sent| !sent.is_given_up());
        if let Some(sent) = oldest.filter(|sent| over(sent.since)) {
            self.silent += 1;
            return Some((
                std::mem::replace(&mut sent.origin, CommandOrigin::GivenUp),
                sent.range,
                sent.since,
            ));
        }
        self.waiting.front().filter(|one| over(one.since))?;
        let Waiting { origin, range, since, .. } = self.waiting.pop_front()?;
        Some((origin, range, since))
    }
}

/// Returns the first sector that a failed command could not do, if known.
pub(super) fn blamed(failure: &Failure, command: &Command) -> units::Lbn {
    match failure {
        Failure::Medium(lbn) if command.range.contains(*lbn) => *lbn,
        // The failure is of no sector: background parts merged with a foreground request must not hide it from that.
        _ => command.range.start(),
    }
}
