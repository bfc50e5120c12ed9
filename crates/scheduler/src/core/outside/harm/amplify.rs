//! Amplification: the percentage by which the mean response time grows if the mean head time grows by one percent.
//!
//! The prior follows from the queue. For open arrivals that keep the drive busy for a share `u` of the time, the mean response
//! time of a single server is inversely proportional to `1 - u`, so that a relative change of the head time is amplified by
//! `1 / (1 - u)`. In a closed loop amplification is limited: lost head time delays at most the requests that can be outstanding
//! together, so the amplification is at most their number times head time over response time. This limit is 1 for a loop without
//! think time. The prior is the smaller of both values, and at least 1.
//!
//! The posterior treats the changes of head time and response time between windows, each with its standard error, as normal
//! measurements of a normally distributed amplification.

/// The standard deviation of the prior as a part of the prior, which is seldom wrong by more than half.
const PRIOR_DEVIATION_SHARE: f64 = 0.5;

/// The largest amplification: that of an open queue which is busy for all but a fiftieth of the time. For a busier queue the
/// idle time is not known well enough.
const AMPLIFICATION_RATIO_MAX: f64 = 50.0;

/// The queue as completions show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// The share of the time in which a request is outstanding.
    pub busy_share: f64,
    /// The most requests that were outstanding together.
    pub outstanding_max: usize,
    /// Mean head time over mean response time.
    pub head_over_response: f64,
}

/// A relative change with its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub mean: f64,
    pub error: f64,
}

impl Queue {
    /// Returns the amplification that follows from the queue alone.
    pub fn prior(&self) -> f64 {
        let open = 1.0 / (1.0 - self.busy_share).max(1.0 / AMPLIFICATION_RATIO_MAX);
        let closed = self.outstanding_max as f64 * self.head_over_response;
        open.min(closed).max(1.0)
    }

    /// Returns the amplification after the windows have measured the changes of head time and response time.
    pub fn posterior(&self, head: Change, response: Change) -> f64 {
        let prior = self.prior();
        let deviation = prior * PRIOR_DEVIATION_SHARE;
        let measured = 1.0 / (response.error * response.error);
        if !(measured.is_normal() && head.error.is_finite()) {
            return prior;
        }
        // The larger the error of the head's change, the less the measurement weighs.
        let reported = head.mean * head.mean / (1.0 + head.error * head.error * measured) * measured;
        let slope = if head.mean == 0.0 { 0.0 } else { response.mean / head.mean };
        let precision = 1.0 / (deviation * deviation);
        ((prior * precision + slope * reported) / (precision + reported)).clamp(1.0, AMPLIFICATION_RATIO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Queue = Queue { busy_share: 0.8, outstanding_max: 40, head_over_response: 0.5 };

    #[test]
    fn open_arrivals_amplify_by_one_over_the_idle_share() {
        assert!((OPEN.prior() - 5.0).abs() < 1e-9);
        let never_idle = Queue { busy_share: 1.0, outstanding_max: 1_000, ..OPEN };
        assert!((never_idle.prior() - AMPLIFICATION_RATIO_MAX).abs() < 1e-9);
    }

    #[test]
    fn a_closed_loop_that_keeps_the_drive_busy_amplifies_nothing() {
        let closed = Queue { busy_share: 1.0, outstanding_max: 10, head_over_response: 0.1 };
        assert!((closed.prior() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn windows_that_show_little_leave_the_prior() {
        let unknown = Change { mean: 0.01, error: 0.01 };
        let posterior = OPEN.posterior(unknown, Change { mean: 0.3, error: 1.0 });
        assert!((posterior - 5.0).abs() < 0.1, "{posterior}");
        let nothing = Change { mean: 0.0, error: f64::INFINITY };
        assert!((OPEN.posterior(nothing, nothing) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn windows_that_show_much_replace_the_prior() {
        let head = Change { mean: 0.2, error: 0.001 };
        let posterior = OPEN.posterior(head, Change { mean: 0.4, error: 0.002 });
        assert!((posterior - 2.0).abs() < 0.05, "{posterior}");
    }
}
