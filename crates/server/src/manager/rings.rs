//! The rings of the page for the tasks of a disk.

use super::TaskManager;
use crate::task::table::TaskState;
use page::{RINGS, Rings};
use units::{Lbn, LbnRange, Sectors};

impl TaskManager {
    /// Returns for each of 64 parts of the disk, in order of the sectors, the share that a task has done;
    /// nothing for a task that has not ended as done and is not at work. For a scrub the shares are exact.
    /// For other tasks they count the blocks that have arrived since the daemon started.
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
