//! The rings of the page: how far a task has come, by the place on the disk.

use units::{Lbn, LbnRange, Sectors};

/// The number of parts of equal size into which a disk's sectors are divided.
pub const RINGS: usize = 64;

/// The numbers of sectors that have been read or written, by part of the disk.
///
/// ```
/// use freeblock_page::Rings;
/// use units::{Lbn, LbnRange, Sectors};
/// let capacity = Sectors::new(6_400);
/// let mut rings = Rings::default();
/// rings.add(LbnRange::new(Lbn::new(100), Sectors::new(25)), capacity);
/// assert_eq!(rings.shares(capacity)[..3], [0.0, 0.25, 0.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Rings([u64; RINGS]);

impl Default for Rings {
    fn default() -> Self {
        Self([0; RINGS])
    }
}

impl Rings {
    /// Adds a block, to the part in which it begins.
    pub fn add(&mut self, block: LbnRange, capacity: Sectors) {
        let ring = u128::from(block.start().get()) * RINGS as u128 / u128::from(capacity.get().max(1));
        if let Some(sectors) = self.0.get_mut(ring as usize) {
            *sectors += block.len().get();
        }
    }

    /// Returns the number of a part's sectors that have been read or written; 0 past the last part.
    pub fn sectors(&self, ring: usize) -> u64 {
        self.0.get(ring).copied().unwrap_or(0)
    }

    /// Returns for each of the 64 parts of a disk, in order of LBN, the share that has been read or written.
    pub fn shares(&self, capacity: Sectors) -> Vec<f64> {
        (0..RINGS).map(|ring| Self::share(self.sectors(ring), Self::part(ring, capacity))).collect()
    }

    /// Returns these sectors as a share of a part, at most 1, rounded to the three digits that a ring shows.
    pub fn share(sectors: u64, part: LbnRange) -> f64 {
        (sectors as f64 / part.len().get().max(1) as f64 * 1e3).round().min(1e3) / 1e3
    }

    /// Returns the LBNs of a part of a disk of this many sectors.
    pub fn part(ring: usize, capacity: Sectors) -> LbnRange {
        // Rounded up, so that an LBN is in the part LBN * RINGS / capacity, rounded down, as in `add`.
        let at = |ring: usize| (u128::from(capacity.get()) * ring as u128).div_ceil(RINGS as u128) as u64;
        LbnRange::new(Lbn::new(at(ring)), Sectors::new(at(ring + 1) - at(ring)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_all_of_the_disk_and_a_block_is_in_one() {
        for capacity in [1, 63, 64, 3_600, u64::MAX / 2] {
            let capacity = Sectors::new(capacity);
            let parts: Vec<LbnRange> = (0..RINGS).map(|ring| Rings::part(ring, capacity)).collect();
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
