//! The pauses in which the drive recalibrates its servo.

use crate::behaviour::Recalibration;
use crate::dice::{Component, Dice};
use units::{Duration, Instant};

/// The schedule of recalibrations. An idle drive recalibrates on time; a busy one when the current access is finished.
#[derive(Clone, Debug)]
pub(crate) struct Recalibrations {
    every: Duration,
    takes: Duration,
    due: Instant,
}

impl Recalibrations {
    pub(crate) fn new(of: Recalibration, seed: u64) -> Self {
        let first = Dice::new(seed, Component::Recalibration).up_to(of.every);
        Self { every: of.every, takes: of.takes, due: Instant::ZERO + first }
    }

    /// Returns the time at which the next recalibration is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Returns the time at which the arm, free since `free` and wanted at `at`, can start, after the recalibrations due before.
    pub(crate) fn set_out(&mut self, free: Instant, at: Instant) -> Instant {
        // Skips the recalibrations that ended while the arm was idle.
        let over = at.saturating_since(self.due + self.takes);
        if self.due >= free && over > Duration::ZERO {
            self.due += self.every * (over.as_nanos() / self.every.as_nanos());
        }
        let mut out = at;
        while self.due <= out {
            out = out.max(self.due.max(free) + self.takes);
            self.due += self.every;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn due_at(ms: u64) -> Recalibrations {
        Recalibrations { every: Duration::from_secs(1), takes: Duration::from_millis(50), due: at(ms) }
    }

    #[test]
    fn an_idle_arm_recalibrates_on_time_and_a_busy_one_when_it_is_free() {
        assert_eq!(due_at(500).set_out(at(100), at(499)), at(499));
        assert_eq!(due_at(500).set_out(at(100), at(520)), at(550));
        assert_eq!(due_at(500).set_out(at(100), at(560)), at(560));
        assert_eq!(due_at(500).set_out(at(510), at(515)), at(560));
    }

    proptest! {
        #[test]
        fn long_idle_time_is_gone_over_in_one_step(due in 0_u64..900, free in 0_u64..900, wanted in 0_u64..50_000) {
            let wanted = wanted.max(free);
            let mut quick = due_at(due);
            let out = quick.set_out(at(free), at(wanted));
            let (mut slow, mut due) = (at(wanted), at(due));
            while due <= slow {
                slow = slow.max(due.max(at(free)) + Duration::from_millis(50));
                due += Duration::from_secs(1);
            }
            prop_assert_eq!((out, quick.due), (slow, due));
        }
    }
}
