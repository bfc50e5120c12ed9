//! Readings of the host's own, such as those of a probe that characterises the drive while the drive serves clients.
//!
//! A reading is idle work: a request that arrives during a reading waits for its end and finds the arm elsewhere, and that delay
//! is charged to idle time. Readings that follow each other without a request between them are one run. A run delays at most the
//! request that ends it, however long the run was. Therefore readings, unlike other idle work, do not wait for a long silence: a
//! run begins as soon as the bound on harm has room for one more late request. The run lasts until a request comes, or until the
//! silence is long enough for the idle work of sessions.

use super::command::NewCommand;
use super::{Command, CommandId, Outside, OutsideDrive};
use crate::core::ReadingRefused;
use crate::idle::Range;
use alloc::sync::Arc;
use units::{Instant, LbnRange, Op};

/// The state of the host's readings.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    /// Whether the host has readings to do.
    wanted: bool,
    /// Whether a run of readings goes on: no request has come since the last reading.
    run: bool,
    /// The reading that the next poll returns.
    command: Option<Command>,
}

impl Readings {
    /// Returns whether the host has readings to do.
    pub fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// Returns whether a run of readings goes on.
    pub fn go_on(&self) -> bool {
        self.wanted && self.run
    }

    /// Records that a foreground request has come.
    pub fn end_run(&mut self) {
        self.run = false;
    }

    /// Takes the permitted reading that has not been polled yet.
    pub fn take(&mut self) -> Option<Command> {
        self.command.take()
    }
}

impl Outside {
    /// Returns whether the usual response time of an idle drive is known, against which a late request is charged.
    fn knows_usual(&self) -> bool {
        self.predicts() || self.alone.iter().any(|alone| alone.usual().is_some())
    }
}

impl OutsideDrive {
    pub(super) fn want_readings(&mut self, wanted: bool) {
        self.outside.readings = Readings { wanted, run: false, command: self.outside.readings.take() };
    }

    /// Returns the instant from which on a reading is permitted if no event occurs before; `None` if that needs an event.
    fn reading_at(&mut self, now: Instant) -> Option<Instant> {
        let Self { core, outside, adopting } = self;
        let idle = core.config.idle?;
        core.advance_audit(outside, now);
        let quiet = core.pool.is_empty() && core.outbox.is_empty() && outside.retries.is_empty();
        let no = !quiet || outside.is_busy() || !outside.readings.wanted || adopting.is_some();
        // If the silence is long enough for the idle work of sessions, that work comes first.
        let sessions_from = core.stays_until(outside).unwrap_or(core.idle.since + idle.threshold);
        if no || !core.background.is_idle() && sessions_from <= now {
            None
        } else if outside.is_off() {
            outside.window_ends_at()
        } else if outside.readings.run || core.idle.asked.is_none() {
            Some(now)
        } else {
            let unused = core.reserve_harm(outside, &idle, now).filter(|_| !outside.knows_usual());
            core.idle.unpredicted = !outside.predicts();
            core.idle.settle(&idle);
            match (unused, core.idle.range(&idle, now)) {
                (Some(unused), _) if now < unused => Some(unused),
                (_, Range::Track) => Some(core.idle.relief()),
                (_, Range::Middle(_) | Range::Hardest) => Some(now),
            }
        }
    }

    /// Begins a reading of `range` for the host itself. The next poll returns the command.
    pub(super) fn read_for_host(
        &mut self,
        now: Instant,
        range: LbnRange,
    ) -> Result<CommandId, ReadingRefused> {
        let capacity = self.drive.layout().capacity().get();
        let fits = !range.is_empty() && range.checked_end().is_some_and(|end| end.get() <= capacity);
        let permitted_at = self.reading_at(now).filter(|_| fits);
        let refused = ReadingRefused { permitted_at };
        let idle = self.config.idle.filter(|_| permitted_at.is_some_and(|at| at <= now)).ok_or(refused)?;
        let Self { core, outside, .. } = self;
        let drive = Arc::clone(&core.drive);
        core.now = now;
        outside.decided = outside.clock.platter(now);
        let tag = outside.next_tag();
        core.displaced = core.displaced.or(Some(core.position));
        if !outside.readings.run {
            core.idle.left(&idle);
        }
        outside.push(&drive, NewCommand::probe(range, tag));
        let mut order = outside.queue.pop_back().ok_or(refused)?;
        order.sent = Some(now);
        outside.readings.run = true;
        outside.stream_sees_sent(now, Op::Read);
        let id = order.command.id;
        outside.readings.command = Some(order.command.clone());
        outside.device.push_back(order);
        outside.predict(&drive);
        Ok(id)
    }
}
