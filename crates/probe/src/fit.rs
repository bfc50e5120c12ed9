//! Least squares for a zone's angles: the angle of its first track, and the rotations of its levels (the angle from one
//! track, cylinder or band to the next).

use crate::revolutions::wrap;
use crate::zone::Zone;

/// The most unknowns: an angle and the levels' rotations.
const UNKNOWNS_MAX: usize = 5;

/// The prior standard deviation of each unknown, revolutions: wide enough for any first estimate.
const PRIOR_DEVIATION_REVOLUTIONS: f64 = 0.02;

/// A rotation counts as whole sectors if its standard deviation and its distance from a whole number are below this, in
/// sectors.
const WHOLE_ERROR_SECTORS_MAX: f64 = 0.05;

/// The least standard deviation of a rotation, revolutions: that of whole sectors.
const EXACT_DEVIATION_REVOLUTIONS: f64 = 1e-9;

/// The measured angle of an LBN, as the mean of some readings.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MeasuredAngle {
    lbn: u64,
    angle: f64,
    readings: f64,
}

/// The normal equations of the measurements, in units of one reading's spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fit {
    matrix: [[f64; UNKNOWNS_MAX]; UNKNOWNS_MAX],
    /// The spread of one reading, revolutions.
    spread: f64,
    measured: Vec<MeasuredAngle>,
    /// The levels whose rotations are assumed to be whole sectors; none once that assumption has failed.
    pinned: [bool; UNKNOWNS_MAX],
    never_pin: bool,
}

/// Returns the coefficient of each unknown in an LBN's angle.
fn weights(zone: &Zone, lbn: u64) -> [f64; UNKNOWNS_MAX] {
    let mut x = [0.0; UNKNOWNS_MAX];
    x[0] = 1.0;
    let (mut left, _) = zone.locate(lbn);
    for (i, level) in zone.levels.iter().enumerate().rev().filter(|(i, _)| i + 1 < UNKNOWNS_MAX) {
        x[i + 1] = (left / level.unit) as f64;
        left %= level.unit;
    }
    x
}

impl Fit {
    pub(crate) fn new(spread: f64) -> Self {
        let mut fit = Self { spread: spread.max(1e-9), ..Self::default() };
        for (i, row) in fit.matrix.iter_mut().enumerate() {
            row[i] = (fit.spread / PRIOR_DEVIATION_REVOLUTIONS).powi(2);
        }
        fit
    }

    /// Returns the fit of a zone with the same rotations at another angle; the rotations are assumed to be known half
    /// as well.
    pub(crate) fn for_zone_like(&self, zone: &Zone) -> Self {
        let mut fit = Self::new(self.spread);
        for i in 1..=zone.levels.len().min(UNKNOWNS_MAX - 1) {
            // Equal rotations are an assumption, so their standard deviation is doubled.
            fit.matrix[i][i] +=
                (self.spread / (2.0 * self.deviation(i)).max(EXACT_DEVIATION_REVOLUTIONS)).powi(2);
            fit.pinned[i] = self.pinned[i];
        }
        fit.never_pin = self.never_pin;
        fit
    }

    /// Adds the mean of `readings` readings, which found `lbn` `error` revolutions after its prediction, and corrects
    /// the zone.
    pub(crate) fn take(&mut self, zone: &mut Zone, lbn: u64, error: f64, readings: f64) {
        self.measured.push(MeasuredAngle { lbn, angle: zone.predict(lbn) + error, readings });
        self.correct(zone, weights(zone, lbn), error, readings);
    }

    fn correct(&mut self, zone: &mut Zone, x: [f64; UNKNOWNS_MAX], error: f64, weight: f64) {
        let mut right = [0.0; UNKNOWNS_MAX];
        for i in 0..UNKNOWNS_MAX {
            for j in 0..UNKNOWNS_MAX {
                self.matrix[i][j] += weight * x[i] * x[j];
            }
            right[i] += weight * x[i] * error;
        }
        // The zone was corrected for all earlier readings, so only the new error enters.
        let by = solve(self.matrix, right);
        zone.angle += by[0];
        for (level, by) in zone.levels.iter_mut().zip(by.iter().skip(1)) {
            level.advance += by;
        }
    }

    /// Rounds rotations to whole sectors if measurements show them near such values: most drives have such rotations.
    pub(crate) fn pin(&mut self, zone: &mut Zone, allowed: bool) {
        if !allowed || self.never_pin {
            return;
        }
        for i in 1..=zone.levels.len().min(UNKNOWNS_MAX - 1) {
            let deviation = self.deviation(i);
            let n = zone.sectors as f64;
            let advance = zone.levels.get(i - 1).map_or(0.0, |l| l.advance);
            let off = (advance * n).round() / n - advance;
            if !self.pinned[i] && deviation * n < WHOLE_ERROR_SECTORS_MAX && off.abs() < 3.0 * deviation {
                self.pinned[i] = true;
                let mut x = [0.0; UNKNOWNS_MAX];
                x[i] = 1.0;
                self.correct(zone, x, off, (self.spread / EXACT_DEVIATION_REVOLUTIONS).powi(2));
            }
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.contains(&true)
    }

    /// Replaces rounded rotations by the measured ones; returns false if none was rounded.
    pub(crate) fn unpin(&mut self, zone: &mut Zone) -> bool {
        if !self.is_pinned() {
            return false;
        }
        let mut fit = Self { never_pin: true, ..Self::new(self.spread) };
        for m in &self.measured {
            let error = wrap(m.angle - zone.predict(m.lbn));
            fit.take(zone, m.lbn, error, m.readings);
        }
        *self = fit;
        true
    }

    /// Returns the standard deviation of an unknown, revolutions.
    fn deviation(&self, i: usize) -> f64 {
        let mut x = [0.0; UNKNOWNS_MAX];
        x[i] = 1.0;
        solve(self.matrix, x)[i].max(0.0).sqrt() * self.spread
    }

    /// Returns the standard deviation of a predicted angle, revolutions.
    pub(crate) fn uncertainty(&self, zone: &Zone, lbn: u64) -> f64 {
        let x = weights(zone, lbn);
        let y = solve(self.matrix, x);
        let variance: f64 = x.iter().zip(&y).map(|(a, b)| a * b).sum();
        variance.max(0.0).sqrt() * self.spread
    }
}

/// Solves the linear equations by Gauss's elimination; the matrix is symmetric and positive definite.
fn solve(mut a: [[f64; UNKNOWNS_MAX]; UNKNOWNS_MAX], mut b: [f64; UNKNOWNS_MAX]) -> [f64; UNKNOWNS_MAX] {
    // Unknowns may differ by many orders of magnitude, so the diagonal is scaled to 1.
    let mut scale = [1.0; UNKNOWNS_MAX];
    for (i, s) in scale.iter_mut().enumerate() {
        *s = 1.0 / a[i][i].max(f64::MIN_POSITIVE).sqrt();
    }
    for i in 0..UNKNOWNS_MAX {
        for j in 0..UNKNOWNS_MAX {
            a[i][j] *= scale[i] * scale[j];
        }
        b[i] *= scale[i];
    }
    for i in 0..UNKNOWNS_MAX {
        let row = a[i];
        let pivot = row[i].max(1e-14);
        for k in i + 1..UNKNOWNS_MAX {
            let factor = a[k][i] / pivot;
            for (cell, above) in a[k].iter_mut().zip(row).skip(i) {
                *cell -= factor * above;
            }
            b[k] -= factor * b[i];
        }
    }
    for i in (0..UNKNOWNS_MAX).rev() {
        let known: f64 = (i + 1..UNKNOWNS_MAX).map(|j| a[i][j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i][i].max(1e-14);
    }
    for i in 0..UNKNOWNS_MAX {
        b[i] *= scale[i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Level;

    #[test]
    fn errors_of_readings_average_out() {
        let mut truth = Zone::new(0, 100, 0.3);
        truth.end = 1_000_000;
        truth.levels = vec![Level { unit: 1, advance: 0.123 }, Level { unit: 4, advance: 0.7 }];
        let mut guess = truth.clone();
        guess.angle += 0.0007;
        guess.levels[0].advance -= 0.0005;
        guess.levels[1].advance += 0.0004;
        let mut fit = Fit::new(0.0005);
        for k in 0..2_000_u64 {
            let lbn = k * 53 % (100 + 40 * k);
            let noise = 0.0005 * (((k * 7_919) % 1_000) as f64 / 500.0 - 1.0);
            let error = wrap(truth.predict(lbn) + noise - guess.predict(lbn));
            fit.take(&mut guess, lbn, error, 1.0);
        }
        for lbn in [0, 399, 50_000, 80_000] {
            let off = wrap(truth.predict(lbn) - guess.predict(lbn)).abs();
            assert!(off < 1e-4 && off < 6.0 * fit.uncertainty(&guess, lbn) + 1e-5, "{lbn}: {off}");
        }
    }
}
