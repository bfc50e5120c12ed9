//! Readings of the disk for a probe, which measures the properties of the drive while the disk serves clients.
//!
//! The probe needs the times of commands during which the drive did nothing else. So a reading is sent when no other
//! command is at the device and the core [permits](scheduler::HostCall::Read) it. The times of a reading count unless
//! the device answered another command in between.

use super::commands::CommandOrigin;
use super::{Disk, DiskHooks};
use device::{Ask, Device, Failure};
use scheduler::{CommandId, HostCall, Input, Output, Ready, Refused};
use std::fmt;
use thiserror::Error;
use units::{Instant, Lbn, LbnRange};

/// A reading that a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The earliest instant at which the reading is sent.
    pub at: Instant,
    /// The sectors to read.
    pub range: LbnRange,
    /// Whether the reading counts only if the device was given no other command since the last reading.
    pub next: bool,
}

/// The times of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingTimes {
    /// When the reading was sent to the device.
    pub submitted: Instant,
    /// When the device had done the reading.
    pub completed: Instant,
}

/// A reading that the device could not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct ReadingFailure {
    /// The sector that cannot be read, if that was the cause.
    pub bad: Option<Lbn>,
    /// The device's message.
    pub reason: String,
}

/// The outcome of a reading: its times, `None` if another command came between, or the device's failure.
pub type ReadingResult = Result<Option<ReadingTimes>, ReadingFailure>;

type ReadingCallback = Box<dyn FnOnce(ReadingResult) + Send>;

struct HostReading {
    reading: Reading,
    tell: ReadingCallback,
    /// The command of this reading and when it was sent, if the core has permitted it.
    sent: Option<(CommandId, Instant)>,
    /// Whether the device has answered another command since the reading was sent.
    disturbed: bool,
}

/// The state of readings.
#[derive(Default)]
pub(super) struct Readings {
    asked: Option<HostReading>,
    /// Whether the device was given another command since the last reading.
    others: bool,
    /// When the waiting reading may be permitted.
    due: Option<Instant>,
    /// The function to call when a probe is asked for.
    waker: Option<Box<dyn Fn() + Send>>,
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").field("due", &self.due).finish_non_exhaustive()
    }
}

impl Readings {
    pub fn set_waker(&mut self, waker: Option<Box<dyn Fn() + Send>>) {
        self.waker = waker;
    }

    pub fn ring(&self) -> bool {
        self.waker.as_ref().map(|waker| waker()).is_some()
    }

    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Records that a command is sent to the device at `now`.
    pub fn sees_sent(&mut self, origin: &CommandOrigin, now: Instant) {
        let id = origin.command();
        match self.asked.as_mut().and_then(|asked| asked.sent.as_mut()) {
            Some((own, at)) if id == Some(*own) => *at = now,
            _ => self.others = true,
        }
    }

    /// Records that the device has answered a command.
    pub fn sees_answered(&mut self, origin: &CommandOrigin) {
        if let Some(asked) = &mut self.asked
            && let Some((own, _)) = asked.sent
        {
            asked.disturbed |= origin.command() != Some(own);
        }
    }

    /// Reports the result of a command, if it is the reading's. A disturbed reading is begun again, unless it has to
    /// follow the last one directly ([`Reading::next`]).
    pub fn ended(&mut self, id: CommandId, at: Instant, failure: Option<&Failure>) {
        let Some(asked) = self.asked.take_if(|asked| asked.sent.is_some_and(|(own, _)| own == id)) else {
            return;
        };
        let submitted = asked.sent.map_or(at, |(_, submitted)| submitted);
        match failure {
            Some(failure) => {
                let bad = match failure {
                    Failure::Medium(lbn) => Some(*lbn),
                    _ => None,
                };
                (asked.tell)(Err(ReadingFailure { bad, reason: failure.to_string() }));
            }
            None if !asked.disturbed => {
                (asked.tell)(Ok(Some(ReadingTimes { submitted, completed: at.max(submitted) })));
            }
            None if asked.reading.next => (asked.tell)(Ok(None)),
            None => self.asked = Some(HostReading { sent: None, disturbed: false, ..asked }),
        }
    }
}

impl<D: Device, A: DiskHooks> Disk<D, A> {
    /// Tells the core whether [readings](Self::read) will follow.
    pub fn want_readings(&mut self, wanted: bool) {
        let begun = self.core.input(Input::Host(HostCall::WantReadings(wanted)));
        debug_assert!(begun.is_ok(), "{begun:?}");
        if !wanted {
            self.readings = Readings { waker: self.readings.waker.take(), ..Readings::default() };
        }
    }

    /// Reads sectors for a probe as soon as the bound on harm permits it and no other command is at the device. Then
    /// calls `tell` with the times. The next call, and the end of [readings](Self::want_readings), drop a reading that
    /// waits.
    pub fn read(
        &mut self,
        now: Instant,
        reading: Reading,
        tell: impl FnOnce(ReadingResult) + Send + 'static,
    ) {
        self.device.advance(now);
        self.pump(now);
        self.readings.asked =
            Some(HostReading { reading, tell: Box::new(tell), sent: None, disturbed: false });
        self.pump(now);
    }

    /// Begins the waiting reading, if the core permits it. Returns whether the reading was sent or has failed.
    pub(super) fn begin_reading(&mut self, now: Instant) -> bool {
        self.readings.due = None;
        let Some(asked) = self.readings.asked.take_if(|asked| asked.sent.is_none()) else { return false };
        let reading = asked.reading;
        if reading.next && self.readings.others {
            (asked.tell)(Ok(None));
            return true;
        }
        let mut command = None;
        self.core_time = self.core_time.max(now);
        if self.commands.are_none() {
            self.readings.due = if now < reading.at {
                Some(reading.at)
            } else {
                let read = HostCall::Read { at: self.core_time, range: reading.range };
                match self.core.input(Input::Host(read)) {
                    Err(Refused::Reading(refused)) => refused.permitted_at.filter(|at| now < *at),
                    _ => {
                        command = self.core.poll_with(self.core_time, &mut Ready);
                        None
                    }
                }
            };
        }
        let command = if let Some(Output::Do(command)) = command { Some(command) } else { None };
        let sent = command.as_ref().map(|command| (command.id, now));
        self.readings.asked = Some(HostReading { sent, ..asked });
        let Some(command) = command else { return false };
        self.readings.others = false;
        self.commands.push(now, CommandOrigin::Command(command, None), reading.range, Ask::Read);
        true
    }
}
