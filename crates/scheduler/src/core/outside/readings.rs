//! Readings of the host's own, such as those of a probe that characterises the drive while it serves.
//!
//! A reading is idle work: the request that arrives meanwhile waits for it and finds the arm elsewhere, and the account of idle
//! time is charged with that. Unlike other idle work it does not wait for a long silence, because only its first command is a
//! risk: readings that follow each other without a request between them are one run, and a run ends with one late request,
//! however long it was. So a run begins in any silence, as soon as the account has room for one more late request. It lasts until a
//! request comes, or until the silence is so long that idle work of sessions that want blocks begins.

use super::command::NewCommand;
use super::{Command, Outside, OutsideDrive};
use crate::idle::Range;
use alloc::sync::Arc;
use units::{Instant, LbnRange, Op};

/// The state of the host's readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    /// Whether the host has readings to do.
    wanted: bool,
    /// Whether the drive has done nothing but readings since the last one.
    run: bool,
}

impl Readings {
    /// Returns whether the host has readings to do.
    pub fn are_wanted(self) -> bool {
        self.wanted
    }

    /// Returns whether a run of readings goes on.
    pub fn go_on(self) -> bool {
        self.wanted && self.run
    }

    /// Records that a foreground request has come.
    pub fn end_run(&mut self) {
        self.run = false;
    }
}

impl Outside {
    /// Returns whether the usual response time of an idle drive is known, against which a late request is charged.
    fn knows_usual(&self) -> bool {
        self.foresees() || self.alone.iter().any(|alone| alone.usual().is_some())
    }
}

impl OutsideDrive {
    /// Says whether the host has [readings](Self::read_for_host) to do. While it has, the audit
    /// ([`OutsideConfig::audit`](crate::OutsideConfig::audit)) measures their cost, as it does of background work.
    pub fn want_readings(&mut self, wanted: bool) {
        self.outside.readings = Readings { wanted, run: false };
    }

    /// Returns the instant from which on a [reading](Self::read_for_host) is permitted if nothing else
    /// happens; `None` if that needs another event, such as the end of a command.
    pub fn reading_at(&mut self, now: Instant) -> Option<Instant> {
        let Self { core, outside, adopting } = self;
        let idle = core.config.idle?;
        core.advance_audit(outside, now);
        let quiet = core.pool.is_empty() && core.outbox.is_empty() && outside.retries.is_empty();
        let no = !quiet || outside.is_busy() || !outside.readings.wanted || adopting.is_some();
        // In a silence that is long enough for them the idle work of sessions comes first.
        let sessions_from = core.stays_until(outside).unwrap_or(core.idle.since + idle.threshold);
        if no || !core.background.is_idle() && sessions_from <= now {
            None
        } else if outside.is_off() {
            outside.window_ends_at()
        } else if outside.readings.run || core.idle.asked.is_none() {
            Some(now)
        } else {
            let unused = core.keep_back(outside, &idle, now).filter(|_| !outside.knows_usual());
            core.idle.unpredicted = !outside.foresees();
            core.idle.settle(&idle);
            match (unused, core.idle.range(&idle, now)) {
                (Some(unused), _) if now < unused => Some(unused),
                (_, Range::Track) => Some(core.idle.relief()),
                (_, Range::Middle(_) | Range::Hardest) => Some(now),
            }
        }
    }

    /// Returns a command that reads `range` for the host itself, which the host sends to the drive at once;
    /// its end is [reported](Self::command_done) like any other command's. `None` if a reading is not
    /// [permitted](Self::reading_at) now, or the drive has no such range.
    ///
    /// The bytes are the host's to use or to drop. The delay of foreground requests by readings is in the estimate of the
    /// [harm of idle time](crate::Core::harm), whose bound permits the next one.
    ///
    /// ```
    /// use freeblock_scheduler::model::DriveModel;
    /// use freeblock_scheduler::units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
    /// use freeblock_scheduler::{Config, IdleTime, Outcome, OutsideConfig, OutsideDrive};
    /// use std::sync::Arc;
    /// let drive = Arc::new(DriveModel::unknown(Sectors::new(1_000_000), Bytes::new(512))?);
    /// let idle = Some(IdleTime::default());
    /// let mut core = OutsideDrive::new(drive, Config::outside(OutsideConfig::blind().serving()).with_idle(idle));
    /// core.want_readings(true);
    /// let range = LbnRange::new(Lbn::new(4_711), Sectors::new(1));
    /// let command = core.read_for_host(Instant::ZERO, range).unwrap();
    /// assert_eq!(core.read_for_host(Instant::ZERO, range), None, "one at a time");
    /// core.command_done(Instant::ZERO + Duration::from_millis(9), command.id, Outcome::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_for_host(&mut self, now: Instant, range: LbnRange) -> Option<Command> {
        let idle = self.config.idle?;
        let capacity = self.drive.layout().capacity().get();
        let fits = !range.is_empty() && range.checked_end().is_some_and(|end| end.get() <= capacity);
        if !fits || self.reading_at(now).is_none_or(|at| now < at) {
            return None;
        }
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
        outside.queue.pop_back().map(|mut order| {
            order.sent = Some(now);
            outside.readings.run = true;
            outside.stream_sees_sent(now, Op::Read);
            let command = order.command.clone();
            outside.device.push_back(order);
            outside.foresee(&drive);
            command
        })
    }
}
