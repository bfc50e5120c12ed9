//! Where a zone's predictions begin to fail.

use super::Mapper;
use super::look::Look;
use crate::error::ProbeError;
use crate::zone::{Shift, Zone};

/// Where readings vary, a slip of no more than this is put to the right track, not to the right sector, ns.
const SLIP_ENOUGH: f64 = 32_000.0;

/// What came of looking for a slip's track.
pub(super) enum Slipped {
    /// It is there; and the first place after it that was looked at.
    By(Shift, u64),
    /// Something else is between these.
    Between(u64, u64),
}

impl Mapper<'_, '_> {
    /// The first LBN that is off, between one that is right and one that is off by `by`; and what a look at it said,
    /// if that is known.
    pub(super) fn first_off(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        by: f64,
    ) -> Result<(u64, Option<Look>), ProbeError> {
        let tolerance = self.tolerance(zone.sectors);
        // Where a sector cannot be told, what is further off than half belongs to the one that is off.
        let threshold = if self.tells_sectors(zone.sectors) {
            tolerance
        } else {
            (by.abs() / 2.0).clamp(0.7 * tolerance, 2.0 * tolerance)
        };
        let (mut good, mut bad) = (good, bad);
        if self.meter.is_noisy()
            && let Some(begins) = track_between(zone, good, bad)
        {
            // Most of what is off begins with a track.
            let look = self.look_within(zone, begins, threshold)?;
            if look.met {
                good = begins;
            } else if self.look_within(zone, begins - 1, threshold)?.met {
                return Ok((begins, Some(look)));
            } else {
                bad = begins - 1;
            }
        }
        let off = self.halve(zone, good, bad, threshold, false)?;
        // One reading for each half may go wrong once; what came of them is looked at twice.
        if off == good + 1 || self.look_within(zone, off - 1, threshold)?.met {
            let look = self.look_within(zone, off, threshold)?;
            if !look.met {
                return Ok((off, Some(look)));
            }
        }
        Ok((self.halve(zone, good, bad, threshold, true)?, None))
    }

    /// A slip so small that its track is near enough, between a place that is right and one that is not; else tracks
    /// next to each other of which the first is right and the other is not.
    pub(super) fn slip_on_track(&mut self, zone: &Zone, good: u64, bad: u64) -> Result<Slipped, ProbeError> {
        let n = zone.sectors;
        let begun = good;
        let (mut good, mut bad) = (good, bad);
        loop {
            (good, bad) = self.track_off(zone, good, bad)?;
            if self.is_no_chance(zone, begun, good, 0.0)? {
                break;
            }
            (good, bad) = (begun, good);
        }

        let look = self.look(zone, bad, 0.0)?;
        let sectors = (look.error * n as f64).round();
        let part = (look.error * n as f64 - sectors).abs();
        let near = sectors * self.meter.revolution() / n as f64;
        if look.met || sectors < 1.0 || near > SLIP_ENOUGH || part > 0.35 {
            return Ok(Slipped::Between(good, bad));
        }
        let shift = Shift { lbn: good + (bad - good).div_ceil(2), sectors: sectors as u64 };
        let mut trial = zone.clone();
        trial.shifts.push(shift);
        let points = [bad + n, bad + 2 * n, bad + 3 * n];
        let sure = points.iter().all(|&p| p < zone.end) && self.all_meet(&trial, &points)?;
        Ok(if sure { Slipped::By(shift, bad) } else { Slipped::Between(good, bad) })
    }

    /// Halves a stretch until its ends are next to each other's tracks: the last that is right, the first that is not.
    fn track_off(&mut self, zone: &Zone, good: u64, bad: u64) -> Result<(u64, u64), ProbeError> {
        let n = zone.sectors;
        let tolerance = self.tolerance(n);
        let (mut good, mut bad) = (good, bad);
        while bad - good > n + n / 2 {
            let (_, sector) = zone.locate(good + (bad - good) / 2);
            let middle = (good + (bad - good) / 2 + n / 2).saturating_sub(sector);
            if middle <= good || middle >= bad {
                break;
            }
            if self.glance(zone, middle, tolerance)? { good = middle } else { bad = middle }
        }
        Ok((good, bad))
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
    pub(super) fn track_from(
        &mut self,
        zone: &Zone,
        good: u64,
        bad: u64,
        half: f64,
    ) -> Result<u64, ProbeError> {
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

/// The first LBN of the only track that begins between two LBNs.
fn track_between(zone: &Zone, good: u64, bad: u64) -> Option<u64> {
    let (before, after) = (zone.locate(good).0, zone.locate(bad).0);
    let begins = zone.lbn_near(after, 0);
    (after == before + 1 && begins > good + 1 && begins < bad).then_some(begins)
}
