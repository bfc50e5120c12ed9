//! The reasons why a core outside the drive did not use gaps, with their durations.

use scheduler::{Caution, OutsideDrive, TrustWatch};
use units::{Duration, Instant};

/// The reasons why gaps were not used in a run, which the scheduler calls cautions. The present caution is sampled
/// after each completion and counts until the next.
#[derive(Clone, Copy, Debug)]
pub struct Trust {
    watch: TrustWatch,
    caution: Option<Caution>,
    since: Instant,
    /// The total duration of each caution, in the order of [`Caution::ALL`].
    lasted: [Duration; Caution::ALL.len()],
}

impl Trust {
    pub(crate) fn new(core: &OutsideDrive) -> Self {
        Self {
            watch: TrustWatch::default(),
            caution: core.caution(),
            since: Instant::ZERO,
            lasted: [Duration::ZERO; Caution::ALL.len()],
        }
    }

    /// Records a completion.
    pub(crate) fn note(&mut self, now: Instant, core: &OutsideDrive) {
        let before = self.caution;
        for (caution, lasted) in Caution::ALL.into_iter().zip(&mut self.lasted) {
            if before == Some(caution) {
                *lasted += now.saturating_since(self.since);
            }
        }
        (self.caution, self.since) = (core.caution(), now);
        self.watch.note(now, self.caution);
    }

    /// Returns the reason why gaps are not used now, if they are not.
    pub fn caution(&self) -> Option<Caution> {
        self.caution
    }

    /// Returns the total time until the last completion in which gaps were not used for this reason.
    pub fn lasted(&self, why: Caution) -> Duration {
        let lasted = Caution::ALL.into_iter().zip(self.lasted).find(|(caution, _)| *caution == why);
        lasted.map_or(Duration::ZERO, |(_, lasted)| lasted)
    }

    /// Returns whether the drive has contradicted its profile for half a minute, by the rule with which the daemon
    /// reports this.
    pub fn is_mistrusted(&self) -> bool {
        self.watch.is_mistrusted()
    }
}
