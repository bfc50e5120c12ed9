//! Zones that turn out to be parts of one.

use super::Mapper;
use crate::error::ProbeError;
use crate::turns::wrap;
use crate::zone::{Level, Region, Zone};

/// Fewer spares than this may be slips, where one sector more or less cannot be told.
const FEW_SECTORS: u64 = 4;

impl Mapper<'_, '_> {
    /// A zone whose first repetition was taken for a zone of its own: a slip stood where the second was looked for.
    fn prefixed(&self, before: &Zone, zone: &Zone) -> Option<Zone> {
        let tracks = before.tracks();
        let level = zone.levels.iter().find(|l| l.unit == tracks)?;
        let whole = before.place(before.end - 1) + 1 == tracks * before.sectors;
        let turned = wrap(zone.angle - before.angle - level.advance).abs() < self.tolerance(before.sectors);
        if !(whole
            && turned
            && before.region == zone.region
            && before.alike(zone, self.tolerance(before.sectors)))
        {
            return None;
        }
        let mut joined = before.clone();
        joined.levels.clone_from(&zone.levels);
        joined.shifts.extend(&zone.shifts);
        joined.odd.extend(&zone.odd);
        joined.end = zone.end;
        Some(joined)
    }

    /// A zone that repeats the one before is the next region of the same.
    pub(super) fn join(&mut self, zone: &Zone) -> Result<Option<Zone>, ProbeError> {
        let Some(before) = self.map.zones.last() else { return Ok(None) };
        let lbns = before.lbns();
        if let Some(whole) = self.prefixed(before, zone) {
            return Ok(Some(whole));
        }
        let plain = |z: &Zone| z.shifts.is_empty() && z.region.is_none();
        if before.end != zone.first
            || zone.lbns() != lbns
            || !plain(before)
            || !plain(zone)
            || !before.alike(zone, self.tolerance(before.sectors))
        {
            return Ok(None);
        }
        let tracks = before.tracks();
        let mut joined = before.clone();
        joined.end = self.capacity;
        let spares = tracks * zone.sectors - lbns;
        joined.region = Some(Region { lbns, spares });
        joined.levels.retain(|l| l.unit < tracks);
        joined.levels.push(Level { unit: tracks, advance: wrap(zone.angle - before.angle) });
        if !self.tells_sectors(zone.sectors) && spares < FEW_SECTORS {
            // A slip in each of two cylinders looks the same.
            return Ok(None);
        }
        let third = zone.end;
        let points = [third, third + lbns / 2, third + lbns - 1];
        if third + lbns < self.capacity && self.all_meet(&joined, &points)? {
            return Ok(Some(joined));
        }
        Ok(None)
    }
}
