//! The rings of the page: how far a task has come, by the place on the disk.

use super::Desk;
use super::table::TaskState;
use units::{Lbn, LbnRange, Sectors};

/// The parts into which a disk is divided, by its sectors.
const RINGS: usize = 64;

/// Sectors that have arrived, by part of the disk.
#[derive(Clone, Debug)]
pub struct Rings([u64; RINGS]);

impl Default for Rings {
    fn default() -> Self {
        Self([0; RINGS])
    }
}

/// Returns the share of a part, to the three digits that a ring shows at most.
fn share(sectors: u64, part: LbnRange) -> f64 {
    (sectors as f64 / part.len().get().max(1) as f64 * 1e3).round().min(1e3) / 1e3
}

/// Returns a part of a disk of this many sectors.
fn part(ring: usize, capacity: Sectors) -> LbnRange {
    // Rounded up, so that the part of a sector is its place times the number of parts, rounded down.
    let at = |ring: usize| (u128::from(capacity.get()) * ring as u128).div_ceil(RINGS as u128) as u64;
    LbnRange::new(Lbn::new(at(ring)), Sectors::new(at(ring + 1) - at(ring)))
}

impl Rings {
    /// Adds a block, to the part in which it begins.
    pub fn add(&mut self, block: LbnRange, capacity: Sectors) {
        let ring = u128::from(block.start().get()) * RINGS as u128 / u128::from(capacity.get().max(1));
        if let Some(sectors) = self.0.get_mut(ring as usize) {
            *sectors += block.len().get();
        }
    }

    /// Returns the share of each of 64 parts of a disk that has arrived, in order of the sectors.
    pub fn shares(&self, capacity: Sectors) -> Vec<f64> {
        self.0.iter().enumerate().map(|(ring, sectors)| share(*sectors, part(ring, capacity))).collect()
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
                None if entry.state == TaskState::Done => {
                    part.intersection(asked).map_or(0, |both| both.len().get())
                }
                None => return None,
            };
            Some(share(sectors, part))
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
                let common = parts
                    .iter()
                    .map(|part| part.intersection(sector).map_or(0, |both| both.len().get()))
                    .collect::<Vec<_>>();
                assert_eq!(rings.0[..], common, "{lbn} of {capacity:?}");
            }
        }
    }
}
