//! A limit on the log lines that clients of the control socket can cause.

use crate::log_rate_limit::LogRateLimit;
use device::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::warn;

/// The interval at which the number of suppressed lines is logged.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The log lines about a socket, under one limit for all its connections.
#[derive(Clone, Debug)]
pub(crate) struct LimitedLog(Arc<(Clock, Mutex<LogRateLimit>)>);

impl LimitedLog {
    pub fn new() -> Self {
        Self(Arc::new((Clock::start(), Mutex::default())))
    }

    /// Writes a line, or suppresses it and counts it.
    pub fn write(&self, line: impl FnOnce()) {
        self.report();
        if self.with(|limit, now| limit.allow(now)) {
            line();
        }
    }

    /// Logs the number of suppressed lines when a window of the limit has ended.
    pub fn report(&self) {
        Self::count(self.with(LogRateLimit::take_suppressed));
    }

    /// Logs the number of suppressed lines at the end of the daemon.
    pub fn report_rest(&self) {
        Self::count(self.with(|limit, _| limit.rest()));
    }

    fn count(lines: Option<u64>) {
        if let Some(lines) = lines {
            warn!(lines, "further lines about clients of the control socket were suppressed");
        }
    }

    fn with<R>(&self, what: impl FnOnce(&mut LogRateLimit, units::Instant) -> R) -> R {
        let (clock, limit) = &*self.0;
        what(&mut limit.lock().unwrap_or_else(PoisonError::into_inner), clock.now())
    }
}
