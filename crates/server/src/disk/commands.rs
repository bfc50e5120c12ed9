//! What is at the device, and what waits for that.
//!
//! A device may carry out what it has in any order. So nothing goes there that overlaps something of which one writes:
//! a background write cannot come after a newer one of the foreground.

use device::{Ask, Failure};
use scheduler::Command;
use std::collections::{BTreeMap, VecDeque};
use units::LbnRange;

use super::requests::Turn;

/// What the device is asked for, and for whom.
#[derive(Debug)]
pub(super) enum Errand {
    /// The core has sent it; for a foreground request, if it says so.
    Command(Command, Option<Turn>),
    /// A foreground request that the core has no part in.
    Request(Turn),
    /// An application, by its place, wants on the medium what it has written.
    Flush(usize),
}

#[derive(Debug)]
pub(super) struct Sent {
    pub errand: Errand,
    pub range: LbnRange,
    writes: bool,
    /// What is written, where somebody wants to read it.
    pub written: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Commands {
    /// By the name that the device knows it under.
    at_device: BTreeMap<u64, Sent>,
    /// In order.
    waiting: VecDeque<(Errand, LbnRange, Ask)>,
    next: u64,
}

fn writes(ask: &Ask) -> bool {
    matches!(ask, Ask::Write { .. } | Ask::Discard | Ask::WriteZeroes { .. })
}

impl Commands {
    /// To be sent as soon as nothing is in its way.
    pub fn push(&mut self, errand: Errand, range: LbnRange, ask: Ask) {
        self.waiting.push_back((errand, range, ask));
    }

    /// The next that can be sent.
    pub fn next(&mut self) -> Option<(Errand, LbnRange, Ask)> {
        let at = (0..self.waiting.len()).find(|&at| {
            let (_, range, ask) = &self.waiting[at];
            let conflicts =
                |other: LbnRange, other_writes: bool| other.overlaps(*range) && (other_writes || writes(ask));
            let there = self.at_device.values().any(|sent| conflicts(sent.range, sent.writes));
            !there && !self.waiting.range(..at).any(|(_, other, ask)| conflicts(*other, writes(ask)))
        })?;
        self.waiting.remove(at)
    }

    /// It goes to the device under the name that is returned.
    pub fn sent(&mut self, errand: Errand, range: LbnRange, ask: &Ask, written: Option<Vec<u8>>) -> u64 {
        let name = self.next;
        self.next += 1;
        self.at_device.insert(name, Sent { errand, range, writes: writes(ask), written });
        name
    }

    /// The device is done with it.
    pub fn done(&mut self, name: u64) -> Option<Sent> {
        self.at_device.remove(&name)
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
