//! A limit on the log lines that clients of the control socket can cause.

use crate::ration::Ration;
use device::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::warn;

/// The interval at which suppressed lines are reported.
pub(super) const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// The ration of log lines, shared by all connections of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Trouble(Arc<(Clock, Mutex<Ration>)>);

impl Trouble {
    pub fn new() -> Self {
        Self(Arc::new((Clock::start(), Mutex::default())))
    }

    /// Writes a line, or counts it as suppressed.
    pub fn said(&self, line: impl FnOnce()) {
        self.tell();
        if self.with(|ration, now| ration.may(now)) {
            line();
        }
    }

    /// Reports how many lines were suppressed, when it is time.
    pub fn tell(&self) {
        Self::count(self.with(Ration::left_out));
    }

    /// Reports the rest at the end.
    pub fn tell_all(&self) {
        Self::count(self.with(|ration, _| ration.rest()));
    }

    fn count(lines: Option<u64>) {
        if let Some(lines) = lines {
            warn!(lines, "there was more trouble with clients of the control socket than this log names");
        }
    }

    fn with<R>(&self, what: impl FnOnce(&mut Ration, units::Instant) -> R) -> R {
        let (clock, ration) = &*self.0;
        what(&mut ration.lock().unwrap_or_else(PoisonError::into_inner), clock.now())
    }
}
