//! A task's progress as the status page draws it: 64 rings, each a part of the disk.

use super::TaskManager;
use crate::task::table::TaskState;
use page::{RINGS, Rings};
use units::{Lbn, LbnRange, Sectors};

impl TaskManager {
    /// Returns the share that a task has done of each of 64 parts of the disk, in order of the sectors. The result is
    /// empty for a task that has failed or was cancelled. The shares of a scrub are exact; those of other tasks count
    /// the blocks read or written since the daemon started.
    pub fn rings(&self, id: u64) -> Vec<f64> {
        let capacity = self.config.disk.capacity;
        let live = self.live.get(&id);
        let Some(entry) = self.table.get(id) else { return Vec::new() };
        let first = Lbn::new(entry.spec.first_lbn.unwrap_or(0));
        let asked = LbnRange::new(first, entry.spec.sectors.map_or(capacity, Sectors::new));
        let done = |ring: usize| {
            let part = Rings::part(ring, capacity);
            let sectors = match live {
                Some(live) => live.job.done_within(part).map_or(live.rings.sectors(ring), Sectors::get),
                None if entry.state == TaskState::Done => {
                    part.intersection(asked).map_or(0, |both| both.len().get())
                }
                None => return None,
            };
            Some(Rings::share(sectors, part))
        };
        (0..RINGS).map_while(done).collect()
    }
}
