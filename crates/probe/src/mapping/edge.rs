//! Where a zone's predictions begin to fail.

use super::Mapper;
use crate::error::ProbeError;
use crate::zone::Zone;

impl Mapper<'_, '_> {
    /// The first LBN that is off, between one that is right and one that is off by `by`.
    pub(super) fn first_off(&mut self, zone: &Zone, good: u64, bad: u64, by: f64) -> Result<u64, ProbeError> {
        let tolerance = self.tolerance(zone.sectors);
        // Where a sector cannot be told, what is further off than half belongs to the one that is off.
        let threshold = if self.tells_sectors(zone.sectors) {
            tolerance
        } else {
            (by.abs() / 2.0).clamp(0.7 * tolerance, 2.0 * tolerance)
        };
        let off = self.halve(zone, good, bad, threshold, false)?;
        // One reading for each half may go wrong once; what came of them is looked at twice.
        if (off == good + 1 || self.look_within(zone, off - 1, threshold)?.met)
            && !self.look_within(zone, off, threshold)?.met
        {
            return Ok(off);
        }
        self.halve(zone, good, bad, threshold, true)
    }

    fn halve(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        threshold: f64,
        twice: bool,
    ) -> Result<u64, ProbeError> {
        let n = zone.sectors;
        let (mut good, mut bad) = (good, bad);
        // From track to track first, then inside.
        while bad - good > 1 {
            let mut middle = good + (bad - good) / 2;
            if bad - good > 3 * n {
                let (_, sector) = zone.locate(middle);
                middle = (middle + n / 2).saturating_sub(sector);
            }
            let right = if twice {
                self.look_within(zone, middle, threshold)?.met
            } else {
                self.glance(zone, middle, threshold)?
            };
            if right { good = middle } else { bad = middle }
        }
        Ok(bad)
    }

    /// The middle of the first track that is further off than `half`: near enough where a sector cannot be told.
    pub(super) fn track_from(&mut self, zone: &Zone, good: u64, bad: u64, half: f64) -> Result<u64, ProbeError> {
        let n = zone.sectors;
        let (mut good, mut bad) = (good, bad);
        while bad - good > 2 * n {
            let middle = good + (bad - good) / 2;
            let (_, sector) = zone.locate(middle);
            let middle = (middle + n / 2).saturating_sub(sector);
            if self.look_within(zone, middle, half)?.met { good = middle } else { bad = middle }
        }
        Ok(good + (bad - good).div_ceil(2))
    }
}
