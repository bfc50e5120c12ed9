//! How far a task has come, by the place on the disk.

use super::Desk;
use super::table::TaskState;
use units::{Lbn, LbnRange, Sectors};

/// The parts into which a disk is divided, by its sectors.
pub const RINGS: usize = 64;

/// The sectors of a task that have arrived since it was begun or taken up again, by part.
#[derive(Clone, Debug)]
pub(super) struct Rings([u64; RINGS]);

impl Default for Rings {
    fn default() -> Self {
        Self([0; RINGS])
    }
}

/// Returns a part of a disk of this many sectors.
fn part(ring: usize, capacity: Sectors) -> LbnRange {
    // Rounded up, so that the part of a sector is its place times the number of parts, rounded down.
    let at = |ring: usize| (u128::from(capacity.get()) * ring as u128).div_ceil(RINGS as u128) as u64;
    LbnRange::new(Lbn::new(at(ring)), Sectors::new(at(ring + 1) - at(ring)))
}

/// Returns the sectors that two ranges have in common.
fn common(a: LbnRange, b: LbnRange) -> u64 {
    let end = |range: LbnRange| range.start().get().saturating_add(range.len().get());
    end(a).min(end(b)).saturating_sub(a.start().get().max(b.start().get()))
}

impl Rings {
    /// Adds a block, to the part in which it begins.
    pub fn add(&mut self, block: LbnRange, capacity: Sectors) {
        let ring = u128::from(block.start().get()) * RINGS as u128 / u128::from(capacity.get().max(1));
        if let Some(sectors) = self.0.get_mut(ring as usize) {
            *sectors += block.len().get();
        }
    }
}

impl Desk {
    /// Returns for each of 64 parts of the disk, in order of the sectors, the share that a task has done. Of a scrub
    /// it is exact. Of other tasks it counts what has arrived since the daemon started; empty for those that were given up.
    pub fn rings(&self, id: u64) -> Vec<f64> {
        let capacity = self.setup.disk.capacity;
        let live = self.live.get(&id);
        let Some(entry) = self.table.get(id) else { return Vec::new() };
        let first = Lbn::new(entry.spec.first_lbn.unwrap_or(0));
        let asked = LbnRange::new(first, entry.spec.sectors.map_or(capacity, Sectors::new));
        let done = |ring: usize| {
            let part = part(ring, capacity);
            let sectors = match live {
                Some(live) => live.job.done_within(part).map_or(live.rings.0[ring], Sectors::get),
                None if entry.state == TaskState::Done => common(part, asked),
                None => return None,
            };
            // Three digits are more than a ring shows.
            Some((sectors as f64 / part.len().get().max(1) as f64 * 1e3).round().min(1e3) / 1e3)
        };
        (0..RINGS).map_while(done).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_all_of_the_disk_and_a_block_is_in_one() {
        for capacity in [1, 63, 64, 3_600, u64::MAX / 2] {
            let capacity = Sectors::new(capacity);
            let parts: Vec<LbnRange> = (0..RINGS).map(|ring| part(ring, capacity)).collect();
            assert_eq!(parts.iter().map(|part| part.len().get()).sum::<u64>(), capacity.get());
            for lbn in [0, capacity.get() / 3, capacity.get() / 2, capacity.get() - 1] {
                let sector = LbnRange::new(Lbn::new(lbn), Sectors::new(1));
                let mut rings = Rings::default();
                rings.add(sector, capacity);
                let common = parts.iter().map(|part| common(*part, sector)).collect::<Vec<_>>();
                assert_eq!(rings.0[..], common, "{lbn} of {capacity:?}");
            }
        }
    }

    #[test]
    fn ranges_have_in_common_what_is_in_both() {
        let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
        assert_eq!(common(range(0, 10), range(5, 10)), 5);
        assert_eq!(common(range(5, 10), range(0, 10)), 5);
        assert_eq!(common(range(0, 5), range(5, 10)), 0);
        assert_eq!(common(range(0, 100), range(5, 10)), 10);
    }
}
