//! The observer of a simulation: its log and its time series.

use super::given::Caller;
use super::log::Log;
use crate::problem::Problem;
use drive::Served;
use scheduler::Request;
use sim::{Finished, Interval, Observer, Series};
use units::{Instant, RequestId};

/// The log and the time series of a run, and a calling program that observes its requests, each if wanted. Nothing is recorded
/// during a warm-up.
pub(super) struct RunWatch<'a, 'l> {
    pub(super) log: Option<&'l mut Log>,
    pub(super) series: Option<Series>,
    pub(super) caller: Caller<'a>,
    pub(super) warm: bool,
    /// The number of the drive in the log's rows; `None` for an array, which names the drive with each command.
    pub(super) drive: Option<u32>,
}

impl RunWatch<'_, '_> {
    /// Ends the warm-up.
    pub(super) fn measure_from(&mut self, now: Instant) {
        self.warm = true;
        if let Some(series) = &mut self.series {
            series.restart(now);
        }
    }

    /// Checks that no write to the log has failed.
    ///
    /// # Errors
    /// The first failure of a write.
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.log.as_deref().map_or(Ok(()), Log::check)
    }

    /// Returns the time series.
    ///
    /// # Errors
    /// The series has too many intervals.
    pub(super) fn finish(self, now: Instant) -> Result<Option<Vec<Interval>>, Problem> {
        let series = self.series.map(|series| series.finish(now)).transpose();
        series.map_err(|error| Problem::usage(format!("--every: {error}")))
    }
}

impl Observer for RunWatch<'_, '_> {
    fn arrived(&mut self, request: Request, at: Instant) {
        if let Some(series) = &mut self.series {
            series.arrived(request, at);
        }
    }

    fn finished(&mut self, done: &Finished) {
        if let Some(series) = &mut self.series {
            series.finished(done);
        }
        if !self.warm {
            return;
        }
        if let (Some(log), Some(drive)) = (&mut self.log, self.drive) {
            log.add(drive, done.request.id, done);
        }
        if !matches!(done.served, Some(Served::Flushed | Served::Discarded)) {
            self.caller.finished(done);
        }
    }

    fn command_finished(&mut self, drive: usize, request: RequestId, done: &Finished) {
        if let Some(log) = self.log.as_mut().filter(|_| self.warm) {
            log.add(u32::try_from(drive).unwrap_or(u32::MAX), request, done);
        }
    }
}
