//! Looking at LBNs: where they stand, and whether that is where the map has them.

use super::Mapper;
use crate::error::ProbeError;
use crate::turns::{frac, median, wrap};
use crate::zone::Zone;

/// Readings of one prediction, at most.
const MOST_READINGS: usize = 6;

/// How sure a look is before it stops, standard deviations.
const SURE: f64 = 1.2;

/// A prediction surer than so much of a reading's spread tells of the spindle rather than of the zone.
const KNOWN: f64 = 0.3;

/// Sectors between readings beside one another.
const BESIDE: u64 = 2;

/// What readings say of a prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// How much later the LBN stands, turns.
    pub(super) error: f64,
    /// Readings that say so.
    pub(super) readings: f64,
    /// Whether that is near enough.
    pub(super) met: bool,
}

impl Mapper<'_, '_> {
    pub(super) fn angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        self.meter.angle(lbn.min(self.capacity - 1))
    }

    /// The angle of an LBN on which much depends, on a track of so many sectors: readings that agree.
    pub(super) fn sure_angle(&mut self, lbn: u64, sectors: u64) -> Result<f64, ProbeError> {
        // A read right after that of the sector before it may come late, for the drive is still busy with itself.
        // So the next ones are read first, from above: the buffer has what comes after.
        let sector = 1.0 / sectors as f64;
        let ahead = 1;
        let near = if self.meter.is_noisy() { 5.0 * self.spread } else { self.tolerance(sectors) };
        self.meter.step_aside(lbn)?;
        let mut angles = Vec::new();
        for k in (0..=ahead.min(self.capacity - 1 - lbn.min(self.capacity - 1))).rev() {
            angles.push(frac(self.angle(lbn + k)? - k as f64 * sector));
        }
        for _ in 0..4 {
            let Some(&last) = angles.last() else { break };
            let apart: Vec<f64> = angles.iter().map(|a| wrap(a - last)).filter(|d| d.abs() < near).collect();
            // The LBN's own reading and another.
            if apart.len() > 1 {
                return Ok(frac(last + apart.iter().sum::<f64>() / apart.len() as f64));
            }
            self.meter.step_aside(lbn)?;
            angles.push(self.angle(lbn)?);
        }
        self.angle(lbn)
    }

    /// The same where the density is not known.
    pub(super) fn sure_angle_alone(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        let near = if self.meter.is_noisy() { 5.0 * self.spread } else { self.tolerance(1) };
        let mut angles = Vec::new();
        for _ in 0..5 {
            self.meter.step_aside(lbn)?;
            let angle = self.meter.angle(lbn)?;
            if let Some(&same) = angles.iter().find(|&&a| wrap(angle - a).abs() < near) {
                return Ok(frac(same + wrap(angle - same) / 2.0));
            }
            angles.push(angle);
        }
        self.meter.angle(lbn)
    }

    /// Whether `lbn` stands where the zone has it.
    pub(super) fn meets(&mut self, zone: &Zone, lbn: u64) -> Result<bool, ProbeError> {
        Ok(self.look(zone, lbn, 0.0)?.met)
    }

    pub(super) fn all_meet(&mut self, zone: &Zone, lbns: &[u64]) -> Result<bool, ProbeError> {
        self.all_meet_within(zone, lbns, 0.0)
    }

    /// The same with more tolerance, turns.
    pub(super) fn all_meet_within(
        &mut self,
        zone: &Zone,
        lbns: &[u64],
        more: f64,
    ) -> Result<bool, ProbeError> {
        let mut lbns: Vec<u64> = lbns.iter().copied().filter(|&l| l < self.capacity).collect();
        // Downward: read-ahead goes up.
        lbns.sort_unstable_by(|a, b| b.cmp(a));
        lbns.dedup();
        for lbn in lbns {
            if !self.look(zone, lbn, more)?.met {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether `lbn` stands where the zone has it, within its tolerance and `more`.
    pub(super) fn look(&mut self, zone: &Zone, lbn: u64, more: f64) -> Result<Look, ProbeError> {
        let threshold = self.tolerance(zone.sectors) + more;
        self.look_within(zone, lbn, threshold)
    }

    /// The same within `threshold`: as many readings as that takes.
    pub(super) fn look_within(&mut self, zone: &Zone, lbn: u64, threshold: f64) -> Result<Look, ProbeError> {
        if lbn >= self.capacity {
            return Ok(Look { error: 0.5, readings: 0.0, met: false });
        }
        if zone.odd.binary_search(&lbn).is_ok() {
            return Ok(Look { error: 0.0, readings: 0.0, met: true });
        }
        let (expected, first) = self.deviation(zone, lbn)?;
        if self.meter.is_noisy() {
            self.trust(expected, first);
            return self.look_on(zone, lbn, threshold, first);
        }
        if first.abs() < threshold {
            return Ok(Look { error: first, readings: 1.0, met: true });
        }
        // A completion may have waited for something once: one beside it.
        if let Some(other) = self.beside(zone, lbn, 1)
            && self.deviation(zone, other)?.1.abs() >= threshold
        {
            return Ok(Look { error: first, readings: 2.0, met: false });
        }
        self.meter.leave(lbn)?;
        let (_, error) = self.deviation(zone, lbn)?;
        Ok(Look { error, readings: 1.0, met: error.abs() < threshold })
    }

    /// Whether one reading is within `threshold` of what the zone has; more of them where readings vary and one does
    /// not tell.
    pub(super) fn glance(&mut self, zone: &Zone, lbn: u64, threshold: f64) -> Result<bool, ProbeError> {
        if zone.odd.binary_search(&lbn).is_ok() {
            return Ok(true);
        }
        let (expected, error) = self.deviation(zone, lbn)?;
        if self.meter.is_noisy() && (error.abs() - threshold).abs() < SURE * self.spread {
            self.trust(expected, error);
            return Ok(self.look_on(zone, lbn, threshold, error)?.met);
        }
        self.trust(expected, error);
        Ok(error.abs() < threshold)
    }

    /// Where the zone has an LBN, and how much later it stands; of one that cannot be read, both of one near to it: the zone tells
    /// where that should be, whereas a reading near it does not tell where this one is, past the end of a track.
    fn deviation(&mut self, zone: &Zone, lbn: u64) -> Result<(f64, f64), ProbeError> {
        match self.meter.readable_near(lbn, zone.first)? {
            Some((other, angle)) => {
                let expected = zone.predict(other);
                Ok((expected, wrap(angle - expected)))
            }
            None => {
                let expected = zone.predict(lbn);
                Ok((expected, self.meter.deviation(lbn, expected)?))
            }
        }
    }

    /// Reads on until the mean of all readings is clearly on one side of the threshold.
    ///
    /// Those of LBNs beside it count as long as they agree with its own: something may begin between them.
    fn look_on(&mut self, zone: &Zone, lbn: u64, threshold: f64, first: f64) -> Result<Look, ProbeError> {
        let (mut own, mut others) = (vec![first], Vec::new());
        loop {
            let mut all: Vec<f64> = own.iter().chain(&others).copied().collect();
            let agree = others.is_empty() || {
                let allowed = 3.0 * self.spread * (1.0 / own.len() as f64 + 1.0 / others.len() as f64).sqrt();
                (middle(&own, self.spread).0 - middle(&others, self.spread).0).abs() < allowed
            };
            if !agree {
                all.clone_from(&own);
            }
            let (error, count) = middle(&all, self.spread);
            let clear = (error.abs() - threshold).abs() > SURE * self.spread / count.sqrt();
            let met = error.abs() < threshold;
            let readings = own.len() + others.len();
            if clear && (met || count > 1.0) || readings >= MOST_READINGS {
                return Ok(Look { error, readings: count, met });
            }
            match self.beside(zone, lbn, 1 + others.len() as u64).filter(|_| agree) {
                Some(other) => {
                    let (expected, error) = self.deviation(zone, other)?;
                    self.trust(expected, error);
                    others.push(error);
                }
                None => {
                    self.meter.leave(lbn)?;
                    let (expected, error) = self.deviation(zone, lbn)?;
                    self.trust(expected, error);
                    own.push(error);
                }
            }
        }
    }

    /// Takes a reading as one of the platter's phase if the prediction was precise and the reading is within three standard
    /// deviations of it.
    pub(super) fn trust(&mut self, expected: f64, error: f64) {
        if self.known < KNOWN * self.spread && error.abs() < 3.0 * self.spread {
            self.meter.follow(expected, self.known, self.known);
        }
    }

    /// The `k`th LBN before one on its track: not in the buffer, and off if that one is, unless what is off begins
    /// between the two.
    fn beside(&self, zone: &Zone, lbn: u64, k: u64) -> Option<u64> {
        let (_, sector) = zone.locate(lbn);
        let back = BESIDE * k;
        let other = lbn.checked_sub(back)?;
        (!self.meter.keeps_before && sector >= back && other >= zone.first).then_some(other)
    }
}

/// The mean of the errors that are near their median, and how many those are; what waited for something else does not
/// count.
fn middle(errors: &[f64], spread: f64) -> (f64, f64) {
    let mut sorted = errors.to_vec();
    let middle = median(&mut sorted);
    let near: Vec<f64> = errors.iter().map(|e| wrap(e - middle)).filter(|d| d.abs() < 5.0 * spread).collect();
    let count = near.len().max(1) as f64;
    (wrap(middle + near.iter().sum::<f64>() / count), count)
}
