//! Readings of the host's own.

use super::command::For;
use super::{Front, Sent};
use crate::failure::{Broken, Check, hold};
use units::{Instant, Lbn, LbnRange, Sectors};

/// The host's own readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    /// Whether the host has readings to do.
    pub wanted: bool,
    /// The instant of the next one, if nothing else happens.
    pub at: Option<Instant>,
}

impl Front {
    /// Begins or ends readings.
    pub(super) fn want_readings(&mut self, wanted: bool) -> Result<(), Broken> {
        self.core.want_readings(wanted);
        self.readings = Readings { wanted, at: None };
        self.drain()
    }

    /// Reads a sector for the host, if the core permits that now.
    pub(super) fn read(&mut self) -> Result<(), Broken> {
        self.readings.at = None;
        if !self.readings.wanted {
            return Ok(());
        }
        let Some(at) = self.core.reading_at(self.now) else { return Ok(()) };
        if self.now < at {
            self.readings.at = Some(at);
            return Ok(());
        }
        let untold = self.at_drive.len() + self.waiting.len() + self.replies.len();
        hold(untold == 0 && self.group_for != For::Detour, Check::Request, || {
            format!("a reading is permitted beside {untold} commands, for {:?}", self.group_for)
        })?;
        hold(self.requests.is_empty(), Check::Request, || {
            "the foreground waits, and a reading is permitted".into()
        })?;
        let range = LbnRange::new(Lbn::new(self.dice.below(self.capacity)), Sectors::new(1));
        let command = match self.core.read_for_host(self.now, range) {
            Some(command) if command.range == range => command,
            other => {
                return Err((Check::Refusal, format!("a permitted reading of {range:?} is {other:?}")));
            }
        };
        hold(self.core.reading_at(self.now).is_none(), Check::Request, || {
            "two readings are permitted at once".into()
        })?;
        self.counts.commands += 1;
        self.counts.readings += 1;
        self.hash.add(command.id.get());
        self.group += 1;
        self.group_for = For::Nothing;
        self.waiting.push(Sent::reading(command, self.now, self.group));
        self.go()
    }
}
