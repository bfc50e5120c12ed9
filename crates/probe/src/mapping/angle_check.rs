//! Readings of LBNs: their measured angles, compared with those of the map.

use super::Mapper;
use crate::error::ProbeError;
use crate::revolutions::{frac, median, wrap};
use crate::zone::Zone;

/// The most readings of one prediction: after them the check ends, even if its result is uncertain.
const READINGS_MAX: usize = 6;

/// A check ends when the mean of its readings is this many standard deviations from the threshold.
const CERTAINTY_DEVIATIONS: f64 = 1.2;

/// The largest standard deviation of a prediction, in spreads of a reading, with which an error is attributed to the
/// spindle rather than to the zone.
const UNCERTAINTY_SPREADS_MAX: f64 = 0.3;

/// The number of sectors between neighbouring readings.
const READING_STEP_SECTORS: u64 = 2;

/// The result of the readings for one prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct AngleCheck {
    /// The angle of the LBN less the predicted one, in revolutions.
    pub(super) error: f64,
    /// The number of readings of which the error is the mean.
    pub(super) readings: f64,
    /// Whether the error is within the tolerance.
    pub(super) met: bool,
}

impl Mapper<'_, '_> {
    pub(super) fn angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        self.meter.angle(lbn.min(self.capacity - 1))
    }

    /// Returns the angle of an LBN on a track of `sectors` sectors, from readings that agree. The function is for LBNs
    /// on which many others depend.
    pub(super) fn sure_angle(&mut self, lbn: u64, sectors: u64) -> Result<f64, ProbeError> {
        // A read directly after that of the preceding sector may be late, because the drive is still busy. So the
        // following sector is read first: the order is descending, because the buffer holds the sectors after a read.
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
            // The reading of the LBN itself agrees with another reading.
            if apart.len() > 1 {
                return Ok(frac(last + apart.iter().sum::<f64>() / apart.len() as f64));
            }
            self.meter.step_aside(lbn)?;
            angles.push(self.angle(lbn)?);
        }
        self.angle(lbn)
    }

    /// Returns the angle of an LBN on a track of unknown density, from readings that agree.
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

    /// Returns whether `lbn` is at the angle that the zone predicts.
    pub(super) fn meets(&mut self, zone: &Zone, lbn: u64) -> Result<bool, ProbeError> {
        Ok(self.check_angle(zone, lbn, 0.0)?.met)
    }

    pub(super) fn all_meet(&mut self, zone: &Zone, lbns: &[u64]) -> Result<bool, ProbeError> {
        self.all_meet_within(zone, lbns, 0.0)
    }

    /// Returns whether all LBNs are at the angles that the zone predicts, with an additional tolerance in revolutions.
    pub(super) fn all_meet_within(
        &mut self,
        zone: &Zone,
        lbns: &[u64],
        more: f64,
    ) -> Result<bool, ProbeError> {
        let mut lbns: Vec<u64> = lbns.iter().copied().filter(|&l| l < self.capacity).collect();
        // The LBNs are read in descending order, because the drive reads ahead in ascending order.
        lbns.sort_unstable_by(|a, b| b.cmp(a));
        lbns.dedup();
        for lbn in lbns {
            if !self.check_angle(zone, lbn, more)?.met {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares the angle of `lbn` with the zone's prediction, within the zone's tolerance and `more`, in revolutions.
    pub(super) fn check_angle(&mut self, zone: &Zone, lbn: u64, more: f64) -> Result<AngleCheck, ProbeError> {
        let threshold = self.tolerance(zone.sectors) + more;
        self.check_angle_within(zone, lbn, threshold)
    }

    /// Compares the angle of `lbn` with the zone's prediction, within `threshold` revolutions, by readings until the
    /// result is clear.
    pub(super) fn check_angle_within(
        &mut self,
        zone: &Zone,
        lbn: u64,
        threshold: f64,
    ) -> Result<AngleCheck, ProbeError> {
        if lbn >= self.capacity {
            return Ok(AngleCheck { error: 0.5, readings: 0.0, met: false });
        }
        if zone.odd.binary_search(&lbn).is_ok() {
            return Ok(AngleCheck { error: 0.0, readings: 0.0, met: true });
        }
        let (expected, first) = self.deviation(zone, lbn)?;
        if self.meter.is_noisy() {
            self.trust(expected, first);
            return self.check_angle_further(zone, lbn, threshold, first);
        }
        if first.abs() < threshold {
            return Ok(AngleCheck { error: first, readings: 1.0, met: true });
        }
        // A single completion may be late for a reason other than the angle, so a neighbouring sector is read, too.
        if let Some(other) = self.beside(zone, lbn, 1)
            && self.deviation(zone, other)?.1.abs() >= threshold
        {
            return Ok(AngleCheck { error: first, readings: 2.0, met: false });
        }
        self.meter.leave(lbn)?;
        let (_, error) = self.deviation(zone, lbn)?;
        Ok(AngleCheck { error, readings: 1.0, met: error.abs() < threshold })
    }

    /// Returns whether one reading is within `threshold` of the predicted angle; takes more readings if they vary and
    /// one is not conclusive.
    pub(super) fn glance(&mut self, zone: &Zone, lbn: u64, threshold: f64) -> Result<bool, ProbeError> {
        if zone.odd.binary_search(&lbn).is_ok() {
            return Ok(true);
        }
        let (expected, error) = self.deviation(zone, lbn)?;
        if self.meter.is_noisy() && (error.abs() - threshold).abs() < CERTAINTY_DEVIATIONS * self.spread {
            self.trust(expected, error);
            return Ok(self.check_angle_further(zone, lbn, threshold, error)?.met);
        }
        self.trust(expected, error);
        Ok(error.abs() < threshold)
    }

    /// Returns the predicted angle of an LBN, and the error of a reading. For an unreadable LBN the function measures a
    /// readable one near it instead, because beyond the end of a track a neighbour's reading does not give this LBN's
    /// angle.
    fn deviation(&mut self, zone: &Zone, lbn: u64) -> Result<(f64, f64), ProbeError> {
        match self.meter.readable_near(lbn, zone.first)? {
            Some(other) => {
                let expected = zone.predict(other.lbn);
                Ok((expected, wrap(other.angle - expected)))
            }
            None => {
                let expected = zone.predict(lbn);
                Ok((expected, self.meter.deviation(lbn, expected)?))
            }
        }
    }

    /// Repeats readings until their mean is clearly on one side of the threshold.
    ///
    /// Readings of neighbouring LBNs count only while they agree with those of the LBN itself, because another zone may
    /// begin between the two.
    fn check_angle_further(
        &mut self,
        zone: &Zone,
        lbn: u64,
        threshold: f64,
        first: f64,
    ) -> Result<AngleCheck, ProbeError> {
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
            let clear = (error.abs() - threshold).abs() > CERTAINTY_DEVIATIONS * self.spread / count.sqrt();
            let met = error.abs() < threshold;
            let readings = own.len() + others.len();
            if clear && (met || count > 1.0) || readings >= READINGS_MAX {
                return Ok(AngleCheck { error, readings: count, met });
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

    /// Uses a reading to correct the platter's phase if the prediction was precise and the reading is within three
    /// standard deviations of it.
    pub(super) fn trust(&mut self, expected: f64, error: f64) {
        if self.known < UNCERTAINTY_SPREADS_MAX * self.spread && error.abs() < 3.0 * self.spread {
            self.meter.follow(expected, self.known, self.known);
        }
    }

    /// Returns the `k`th neighbour before an LBN on its track. The neighbour is not in the buffer, and shares the LBN's
    /// error unless an irregularity begins between the two.
    fn beside(&self, zone: &Zone, lbn: u64, k: u64) -> Option<u64> {
        let (_, sector) = zone.locate(lbn);
        let back = READING_STEP_SECTORS * k;
        let other = lbn.checked_sub(back)?;
        (!self.meter.keeps_before && sector >= back && other >= zone.first).then_some(other)
    }
}

/// Returns the mean of the errors near their median, and the number of these errors. Readings from delayed reads are
/// far from the median.
fn middle(errors: &[f64], spread: f64) -> (f64, f64) {
    let mut sorted = errors.to_vec();
    let middle = median(&mut sorted);
    let near: Vec<f64> = errors.iter().map(|e| wrap(e - middle)).filter(|d| d.abs() < 5.0 * spread).collect();
    let count = near.len().max(1) as f64;
    (wrap(middle + near.iter().sum::<f64>() / count), count)
}
