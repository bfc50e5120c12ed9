//! A task's rate, and the estimate of when it will be done.

use std::collections::VecDeque;
use units::{Duration, Instant};

/// The period over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(60);

/// The progress of a task over the last minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Instants, the oldest first, with the bytes done by then.
    seen: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// Records the bytes done by now.
    pub fn see(&mut self, now: Instant, bytes: u64) {
        // A task that starts over reports fewer bytes than before.
        if self.seen.back().is_some_and(|last| last.1 > bytes) {
            self.seen.clear();
        }
        self.seen.push_back((now, bytes));
        // One entry older than the window stays, to cover it whole.
        while self.seen.get(1).is_some_and(|second| now.saturating_since(second.0) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Drops the progress so far, because the progress before a pause does not predict the rate.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// Returns the bytes a second over the last minute; `None` if there is too little data.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let seconds = last.0.saturating_since(first.0).as_nanos() as f64 / 1e9;
        (seconds > 0.0).then(|| last.1.saturating_sub(first.1) as f64 / seconds)
    }

    /// Returns how long `left` bytes take at the [rate](Self::rate), in seconds.
    pub fn eta(&self, left: u64) -> Option<f64> {
        self.rate().filter(|rate| *rate > 0.0).map(|rate| left as f64 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_rate_is_that_of_the_last_minute() {
        let mut pace = Pace::default();
        assert_eq!(pace.rate(), None);
        for second in 0..100 {
            pace.see(at(second), if second < 30 { 0 } else { (second - 29) * 1_000 });
        }
        assert_eq!(pace.rate(), Some(1_000.0));
        assert_eq!(pace.eta(5_000), Some(5.0));
        pace.see(at(101), 3);
        assert_eq!(pace.rate(), None, "it began again");
    }

    #[test]
    fn a_task_without_progress_has_no_eta() {
        let mut pace = Pace::default();
        (0..10).for_each(|second| pace.see(at(second), 7));
        assert_eq!((pace.rate(), pace.eta(1)), (Some(0.0), None));
    }
}
