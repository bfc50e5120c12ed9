//! Why a core outside the drive left gaps alone, and for how long.

use scheduler::{Caution, Core, TrustWatch};
use units::{Duration, Instant};

/// Over a run. Looked at after each completion: what it was then it is taken to have been until the next one.
#[derive(Clone, Copy, Debug)]
pub struct Trust {
    watch: TrustWatch,
    caution: Option<Caution>,
    since: Instant,
    /// In the order of [`Caution::ALL`].
    lasted: [Duration; Caution::ALL.len()],
}

impl Trust {
    pub(crate) fn new(core: &Core) -> Self {
        Self {
            watch: TrustWatch::default(),
            caution: core.caution(),
            since: Instant::ZERO,
            lasted: [Duration::ZERO; Caution::ALL.len()],
        }
    }

    /// A command is done.
    pub(crate) fn note(&mut self, now: Instant, core: &Core) {
        let before = self.caution;
        for (caution, lasted) in Caution::ALL.into_iter().zip(&mut self.lasted) {
            if before == Some(caution) {
                *lasted += now.saturating_since(self.since);
            }
        }
        (self.caution, self.since) = (core.caution(), now);
        self.watch.note(now, self.caution);
    }

    /// Why gaps are left alone now, if they are.
    pub fn caution(&self) -> Option<Caution> {
        self.caution
    }

    /// For how long they were left alone for this, until the last completion.
    pub fn lasted(&self, why: Caution) -> Duration {
        let lasted = Caution::ALL.into_iter().zip(self.lasted).find(|(caution, _)| *caution == why);
        lasted.map_or(Duration::ZERO, |(_, lasted)| lasted)
    }

    /// Whether the drive has for half a minute not done what its profile says, as a daemon tells it.
    pub fn is_mistrusted(&self) -> bool {
        self.watch.is_mistrusted()
    }
}
