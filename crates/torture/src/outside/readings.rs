//! The host's own reads, which the core permits when nothing else is at the drive.

use super::command::For;
use super::{Front, SentCommand};
use crate::failure::{Broken, Check, hold};
use scheduler::{HostCall, Input, Output, ReadingRefused, Refused};
use units::{Instant, Lbn, LbnRange, Sectors};

/// The state of the host's own reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    /// Whether the host wants to read.
    pub wanted: bool,
    /// The instant of the next attempt, if nothing else happens before.
    pub at: Option<Instant>,
}

impl Front {
    /// Begins or ends the host's own reads.
    pub(super) fn want_readings(&mut self, wanted: bool) -> Result<(), Broken> {
        self.tell_readings(wanted)?;
        self.readings = Readings { wanted, at: None };
        self.drain()
    }

    /// Informs the core whether the host wants to read.
    pub(super) fn tell_readings(&mut self, wanted: bool) -> Result<(), Broken> {
        let reported = self.core.input(Input::Host(HostCall::WantReadings(wanted)));
        reported.map(drop).map_err(|e| (Check::Refusal, format!("readings are refused: {e}")))
    }

    /// Reads a sector for the host, if the core permits that now.
    pub(super) fn read(&mut self) -> Result<(), Broken> {
        self.readings.at = None;
        if !self.readings.wanted {
            return Ok(());
        }
        // The random number generator advances only if the read is permitted.
        let mut dice = self.dice.clone();
        let range = LbnRange::new(Lbn::new(dice.below(self.capacity)), Sectors::new(1));
        let read = Input::Host(HostCall::Read { at: self.now, range });
        let id = match self.core.input(read.clone()) {
            Ok(id) => id,
            Err(Refused::Reading(ReadingRefused { permitted_at, .. })) => {
                self.readings.at = permitted_at;
                let overdue = permitted_at.filter(|at| *at <= self.now);
                return hold(overdue.is_none(), Check::Refusal, || {
                    format!("a permitted reading of {range:?} is refused")
                });
            }
            Err(refused) => return Err((Check::Refusal, format!("a reading of {range:?}: {refused}"))),
        };
        self.dice = dice;
        let unreported = self.at_drive.len() + self.waiting.len() + self.replies.len();
        hold(unreported == 0 && self.group_for != For::Detour, Check::Request, || {
            format!("a reading is permitted beside {unreported} commands, for {:?}", self.group_for)
        })?;
        hold(self.requests.is_empty(), Check::Request, || {
            "the foreground waits, and a reading is permitted".into()
        })?;
        let again = self.core.input(read);
        let none = Err(Refused::Reading(ReadingRefused::until_an_event()));
        hold(again == none, Check::Request, || format!("the second of two readings at once is {again:?}"))?;
        let command = match self.core.poll(self.now) {
            Some(Output::Do(command)) if command.id.get() == id && command.range == range => command,
            other => {
                return Err((Check::Refusal, format!("a permitted reading of {range:?} is {other:?}")));
            }
        };
        self.counts.commands += 1;
        self.counts.readings += 1;
        self.hash.add(command.id.get());
        self.group += 1;
        self.group_for = For::Nothing;
        self.waiting.push(SentCommand::reading(command, self.now, self.group));
        self.go()
    }
}
