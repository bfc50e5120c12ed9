//! Bad sectors that tasks meet, in the log: the first of a task one by one, and at its end how many there were.

use super::Desk;
use super::table::Figures;
use std::collections::BTreeSet;
use tracing::warn;

/// So many of a task are named in the log; status has more.
const NAMED: usize = 10;

/// What the log knows of a task's bad sectors.
#[derive(Debug, Default)]
pub(super) struct Named {
    seen: BTreeSet<u64>,
    lines: usize,
}

impl Named {
    /// Of a task that goes on: these were named when they were met.
    pub fn before(figures: &Figures) -> Self {
        Self { seen: figures.bad.iter().copied().collect(), lines: 0 }
    }

    /// Those that are to be named now.
    fn next(&mut self, bad: &[u64]) -> Vec<u64> {
        let new: Vec<u64> = bad.iter().copied().filter(|lbn| self.seen.insert(*lbn)).collect();
        let named: Vec<u64> = new.into_iter().take(NAMED - self.lines).collect();
        self.lines += named.len();
        named
    }
}

impl Desk {
    /// Names what a task has met since it was last asked.
    pub(super) fn warn_of_bad(&mut self, id: u64, figures: &Figures) {
        let Some(kind) = self.table.get(id).map(|entry| entry.spec.kind) else { return };
        let Some(live) = self.live.get_mut(&id) else { return };
        for lbn in live.named.next(&figures.bad) {
            let disk = &self.setup.disk.name;
            warn!(disk, task = id, %kind, lbn, "a sector cannot be read or written");
        }
    }

    /// A task is over: all that it has met.
    pub(super) fn count_bad(&self, id: u64) {
        let Some(entry) = self.table.get(id) else { return };
        let bad = entry.figures.bad.len() as u64 + entry.figures.bad_more;
        if bad > 0 {
            let (disk, kind) = (&self.setup.disk.name, entry.spec.kind);
            warn!(disk, task = id, %kind, bad, "so many sectors could not be read or written; its status names them");
        }
    }
}
