//! What is at the device, and what waits for that.
//!
//! A device may carry out what it has in any order. So nothing goes there that overlaps something of which one writes:
//! a background write cannot come after a newer one of the foreground.

use device::{Ask, Failure};
use scheduler::Command;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use units::{Duration, Instant, LbnRange};

use super::requests::Turn;

/// When a device has left so many commands without an answer it gets no more, and what waits for it fails in its turn.
const MOST_SILENT: usize = 16;

/// What the device is asked for, and for whom.
#[derive(Debug)]
pub(super) enum Errand {
    /// The core has sent it; for a foreground request, if it says so.
    Command(Command, Option<Turn>),
    /// A foreground request that the core has no part in.
    Request(Turn),
    /// An application, by its place, wants on the medium what it has written.
    Flush(usize),
    /// Nobody waits for it any more. The device may still carry it out.
    Nobody,
}

#[derive(Debug)]
pub(super) struct Sent {
    pub errand: Errand,
    pub range: LbnRange,
    pub since: Instant,
    writes: bool,
    /// What is written, where somebody wants to read it.
    pub written: Option<Vec<u8>>,
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command, turn) => {
                let whose = if turn.is_some() { "a request's" } else { "the background's" };
                write!(f, "{whose} {}", if command.op.is_write() { "write" } else { "read" })
            }
            Self::Request(_) => f.write_str("a flush or discard"),
            Self::Flush(_) => f.write_str("a task's flush"),
            Self::Nobody => f.write_str("nobody's"),
        }
    }
}

impl Sent {
    fn is_nobodys(&self) -> bool {
        matches!(self.errand, Errand::Nobody)
    }
}

#[derive(Debug)]
struct Waiting {
    errand: Errand,
    range: LbnRange,
    ask: Ask,
    since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Commands {
    /// By the name that the device knows it under, and so in the order in which they went there.
    at_device: BTreeMap<u64, Sent>,
    /// In order.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// Of those at the device nobody waits for so many.
    silent: usize,
}

fn writes(ask: &Ask) -> bool {
    matches!(ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. })
}

impl Commands {
    /// To be sent as soon as nothing is in its way.
    pub fn push(&mut self, now: Instant, errand: Errand, range: LbnRange, ask: Ask) {
        self.waiting.push_back(Waiting { errand, range, ask, since: now });
    }

    /// The next that can be sent.
    pub fn next(&mut self) -> Option<(Errand, LbnRange, Ask)> {
        if self.silent >= MOST_SILENT {
            return None;
        }
        let at = (0..self.waiting.len()).find(|&at| {
            let Waiting { range, ask, .. } = &self.waiting[at];
            let conflicts =
                |other: LbnRange, other_writes: bool| other.overlaps(*range) && (other_writes || writes(ask));
            // What a read brings that nobody waits for is thrown away; a write may still land.
            let counts = |sent: &Sent| sent.writes || !sent.is_nobodys();
            let there = |sent: &Sent| counts(sent) && conflicts(sent.range, sent.writes);
            let before = |one: &Waiting| conflicts(one.range, writes(&one.ask));
            !self.at_device.values().any(there) && !self.waiting.range(..at).any(before)
        })?;
        let Waiting { errand, range, ask, .. } = self.waiting.remove(at)?;
        Some((errand, range, ask))
    }

    /// It goes to the device under the name that is returned.
    pub fn sent(
        &mut self,
        now: Instant,
        errand: Errand,
        range: LbnRange,
        ask: &Ask,
        written: Option<Vec<u8>>,
    ) -> u64 {
        let name = self.next;
        self.next += 1;
        self.at_device.insert(name, Sent { errand, range, since: now, writes: writes(ask), written });
        name
    }

    /// The device is done with it.
    pub fn done(&mut self, name: u64) -> Option<Sent> {
        let sent = self.at_device.remove(&name)?;
        self.silent -= usize::from(sent.is_nobodys());
        Some(sent)
    }

    /// Commands at the device that nobody waits for any more.
    pub fn silent(&self) -> usize {
        self.silent
    }

    /// When the next will have taken `timeout`.
    pub fn due(&self, timeout: Duration) -> Option<Instant> {
        let sent = self.at_device.values().find(|sent| !sent.is_nobodys()).map(|sent| sent.since);
        let waiting = self.waiting.front().map(|one| one.since);
        [sent, waiting].into_iter().flatten().min().map(|since| since + timeout)
    }

    /// Waits no longer for the oldest that has taken `timeout` by `now`: what it was for, and since when. At the device it
    /// stays, and in the way of what overlaps it.
    pub fn give_up(&mut self, now: Instant, timeout: Duration) -> Option<(Errand, LbnRange, Instant)> {
        let over = |since: Instant| since + timeout <= now;
        let oldest = self.at_device.values_mut().find(|sent| !sent.is_nobodys());
        if let Some(sent) = oldest.filter(|sent| over(sent.since)) {
            self.silent += 1;
            return Some((std::mem::replace(&mut sent.errand, Errand::Nobody), sent.range, sent.since));
        }
        self.waiting.front().filter(|one| over(one.since))?;
        let Waiting { errand, range, since, .. } = self.waiting.pop_front()?;
        Some((errand, range, since))
    }
}

/// The first sector that a failed command could not do, as far as that is known.
pub(super) fn blamed(failure: &Failure, command: &Command) -> units::Lbn {
    match failure {
        Failure::Medium(lbn) if command.range.contains(*lbn) => *lbn,
        // Nothing of the medium: what was merged with a foreground request is not to hide that from it.
        _ => command.range.start(),
    }
}
