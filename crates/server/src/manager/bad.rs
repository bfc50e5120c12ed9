//! Log lines about bad sectors that tasks find: the first [`NAMED_SECTORS_MAX`] of a task one by one, and their number
//! at the task's end.

use super::TaskManager;
use crate::task::table::Figures;
use std::collections::BTreeSet;
use tracing::warn;

/// The most bad sectors of a task that the log names; the status lists more.
const NAMED_SECTORS_MAX: usize = 10;

/// The bad sectors that a task has reported so far, and the number of log lines about them.
#[derive(Debug, Default)]
pub(super) struct LoggedBadSectors {
    seen: BTreeSet<u64>,
    lines: usize,
}

impl LoggedBadSectors {
    /// Returns the bad sectors of a task that continues after a restart: those in `figures`, which were logged when
    /// they were found.
    pub fn before(figures: &Figures) -> Self {
        Self { seen: figures.bad.iter().copied().collect(), lines: 0 }
    }

    /// Adds the sectors in `bad`, and returns the new ones that are to be logged.
    fn next(&mut self, bad: &[u64]) -> Vec<u64> {
        let new: Vec<u64> = bad.iter().copied().filter(|lbn| self.seen.insert(*lbn)).collect();
        let named: Vec<u64> = new.into_iter().take(NAMED_SECTORS_MAX - self.lines).collect();
        self.lines += named.len();
        named
    }
}

impl TaskManager {
    /// Logs the bad sectors that a task has found since the last call.
    pub(super) fn warn_of_bad(&mut self, id: u64, figures: &Figures) {
        let Some(kind) = self.table.get(id).map(|entry| entry.spec.kind) else { return };
        let Some(live) = self.live.get_mut(&id) else { return };
        for lbn in live.named.next(&figures.bad) {
            let disk = &self.config.disk.name;
            warn!(disk, task = id, %kind, lbn, "a sector cannot be read or written");
        }
    }

    /// Logs the number of bad sectors at the end of a task.
    pub(super) fn count_bad(&self, id: u64) {
        let Some(entry) = self.table.get(id) else { return };
        let bad = entry.figures.bad.len() as u64 + entry.figures.bad_more;
        if bad > 0 {
            let (disk, kind) = (&self.config.disk.name, entry.spec.kind);
            warn!(disk, task = id, %kind, bad, "sectors could not be read or written; see bad_lbns of the task's status");
        }
    }
}
