//! The angles of anchors from all their readings together.
//!
//! While anchors are read for the first time, the speed is uncertain and may change: the angle of an anchor
//! is then wrong by the unknown motion of the platter since the first anchor. So the angles are unknowns
//! beside the phase and speed of the platter, in one Kalman filter (1960). The speed that a later round shows
//! corrects all earlier angles.

use crate::platter::{INITIAL_SPEED_DEVIATION_RATIO, OUTLIER_DEVIATIONS_MIN, WANDER_PER_S};
use crate::revolutions::{frac, median, wrap};
use units::Instant;

/// A reading of an anchor: its index, and the instant of its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) anchor: usize,
    pub(super) at: Instant,
}

/// The median of the absolute value of a normal error, in standard deviations.
const NORMAL_MEDIAN_DEVIATIONS: f64 = 0.6745;

/// Returns the standard deviation of one reading, in revolutions. It compares the time between two visits of
/// an anchor with that of the next anchor, so that speed and angles cancel; each difference contains the
/// errors of four readings. Returns `None` if no two consecutive anchors were each read twice.
pub(super) fn spread(visits: &[Visit], revolution: f64) -> Option<f64> {
    let mut last: Vec<Option<Instant>> = Vec::new();
    let mut turned: Vec<Option<f64>> = Vec::new();
    for visit in visits {
        if last.len() <= visit.anchor {
            last.resize(visit.anchor + 1, None);
        }
        let before = last.get_mut(visit.anchor).and_then(|l| l.replace(visit.at));
        turned.push(before.map(|before| visit.at.saturating_since(before).as_nanos() as f64 / revolution));
    }
    let pairs = turned.windows(2).filter_map(|two| match two {
        [Some(a), Some(b)] => Some(wrap(b - a).abs()),
        _ => None,
    });
    let mut apart: Vec<f64> = pairs.collect();
    (!apart.is_empty()).then(|| median(&mut apart) / NORMAL_MEDIAN_DEVIATIONS / 2.0)
}

/// Returns the angles of the anchors, relative to the platter's angle at `from`; `None` for an anchor without
/// a visit.
pub(super) fn angles(
    visits: &[Visit],
    anchors: usize,
    from: Instant,
    revolution: f64,
    spread: f64,
) -> Vec<Option<f64>> {
    let mut joint = Joint::new(revolution, spread);
    let mut place = vec![None; anchors];
    for visit in visits {
        let revolutions = visit.at.saturating_since(from).as_nanos() as f64 / revolution;
        joint.rotate_to(revolutions);
        match place.get_mut(visit.anchor) {
            Some(place @ None) => *place = Some(joint.begin()),
            Some(Some(place)) => joint.again(*place),
            None => {}
        }
    }
    place.into_iter().map(|place| place.and_then(|i: usize| joint.state.get(i)).map(|&a| frac(a))).collect()
}

/// The indices of two unknowns: the phase, which is the platter's lead over one with the assumed revolution
/// time, in revolutions; and the relative speed.
const PHASE_INDEX: usize = 0;
const SPEED_INDEX: usize = 1;

/// All unknowns: phase, speed, and the angle of each anchor that was read.
struct Joint {
    state: Vec<f64>,
    /// The covariances of the unknowns, a row for each.
    covariance: Vec<Vec<f64>>,
    /// The revolutions since the start, at the instant for which phase and speed are estimated.
    revolutions: f64,
    /// The variance that the relative speed gains in one revolution.
    wander: f64,
    /// The variance of one reading.
    noise: f64,
    /// The number of outliers in a row.
    lost: u32,
}

impl Joint {
    fn new(revolution: f64, spread: f64) -> Self {
        Self {
            // All angles are relative to the platter's angle at the start.
            state: vec![0.0, 0.0],
            covariance: vec![
                vec![0.0, 0.0],
                vec![0.0, INITIAL_SPEED_DEVIATION_RATIO * INITIAL_SPEED_DEVIATION_RATIO],
            ],
            revolutions: 0.0,
            wander: WANDER_PER_S * revolution / 1e9,
            noise: spread * spread,
            lost: 0,
        }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.covariance.get(row).and_then(|row| row.get(column)).copied().unwrap_or_default()
    }

    /// Predicts phase and speed for a later instant.
    fn rotate_to(&mut self, revolutions: f64) {
        let by = revolutions - self.revolutions;
        self.revolutions = revolutions;
        if let [phase, speed, ..] = self.state.as_mut_slice() {
            *phase += by * *speed;
        }
        let speed = self.covariance.get(SPEED_INDEX).cloned().unwrap_or_default();
        if let Some(phase) = self.covariance.get_mut(PHASE_INDEX) {
            for (cell, of_speed) in phase.iter_mut().zip(speed) {
                *cell += by * of_speed;
            }
        }
        for row in &mut self.covariance {
            if let [phase, speed, ..] = row.as_mut_slice() {
                *phase += by * *speed;
            }
        }
        for (row, column, wander) in [
            (PHASE_INDEX, PHASE_INDEX, by * by * by / 3.0),
            (PHASE_INDEX, SPEED_INDEX, by * by / 2.0),
            (SPEED_INDEX, PHASE_INDEX, by * by / 2.0),
            (SPEED_INDEX, SPEED_INDEX, by),
        ] {
            if let Some(cell) = self.covariance.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell += self.wander * wander;
            }
        }
    }

    /// Adds the angle of an anchor that is read for the first time as an unknown, equal to the estimated
    /// angle of the platter; returns its index.
    fn begin(&mut self) -> usize {
        let (phase, variance) =
            (self.state.first().copied().unwrap_or_default(), self.at(PHASE_INDEX, PHASE_INDEX));
        let mut row = self.covariance.first().cloned().unwrap_or_default();
        for (line, &common) in self.covariance.iter_mut().zip(&row) {
            line.push(common);
        }
        row.push(variance + self.noise);
        self.covariance.push(row);
        self.state.push(self.revolutions + phase);
        self.state.len() - 1
    }

    /// Corrects all unknowns by another reading of the anchor at `place`.
    fn again(&mut self, place: usize) {
        let (Some(&phase), Some(&angle)) = (self.state.first(), self.state.get(place)) else { return };
        let error = wrap(self.revolutions + phase - angle);
        // The covariances of each unknown with the difference of angle and phase.
        let (Some(of_angle), Some(of_phase)) = (self.covariance.get(place), self.covariance.first()) else {
            return;
        };
        let common: Vec<f64> = of_angle.iter().zip(of_phase).map(|(a, p)| a - p).collect();
        let of = |i: usize| common.get(i).copied().unwrap_or_default();
        let all = of(place) - of(PHASE_INDEX) + self.noise;
        if error * error > OUTLIER_DEVIATIONS_MIN * OUTLIER_DEVIATIONS_MIN * all {
            self.lost += 1;
            if self.lost >= crate::platter::OUTLIERS_MAX
                && let Some(variance) = self.covariance.first_mut().and_then(|row| row.first_mut())
            {
                // Several outliers in a row: the platter may be at any angle.
                *variance += 1.0 / 12.0;
                self.lost = 0;
            }
            return;
        }
        self.lost = 0;
        for (unknown, common) in self.state.iter_mut().zip(&common) {
            *unknown += common / all * error;
        }
        for (row, by) in self.covariance.iter_mut().zip(&common) {
            let by = by / all;
            for (cell, other) in row.iter_mut().zip(&common) {
                *cell -= by * other;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVOLUTION_NS: f64 = 8_333_333.0;

    /// Returns eight rounds of readings of a ring of 68 anchors, and the anchors' true angles. Readings are
    /// wrong by up to 5 us. The platter is faster than assumed by 250 millionths, and from the third second
    /// on by 389.
    fn rounds() -> (Vec<Visit>, Vec<f64>) {
        let (mut draw, mut visits, mut at, mut turned) = (crate::draw::Draw::new(5), Vec::new(), 0.0, 0.0);
        let angles: Vec<f64> = (0..68).map(|_| draw.unit()).collect();
        for _ in 0..8 {
            for (anchor, &angle) in angles.iter().enumerate() {
                let speed = if at < 3e9 { 1.000_25 } else { 1.000_389 };
                // The anchor is read when it first passes after a seek of 0.3 revolutions.
                let least: f64 = turned + 0.3;
                let passes = least + frac(angle - least);
                at += (passes - turned) * REVOLUTION_NS / speed;
                turned = passes;
                let late = 10_000.0 * (draw.unit() - 0.5);
                visits.push(Visit { anchor, at: Instant::from_nanos((1e9 + at + late) as u64) });
            }
        }
        (visits, angles)
    }

    #[test]
    fn the_spread_of_a_reading_is_found_whatever_the_speed() {
        // A uniform error over 10 us has a standard deviation of 2.9 us; a visit one revolution later adds
        // the speed's error, 2 us.
        let us = spread(&rounds().0, REVOLUTION_NS).unwrap() * REVOLUTION_NS / 1e3;
        assert!((2.5..4.0).contains(&us), "{us} us");
        assert_eq!(spread(&rounds().0[..68], REVOLUTION_NS), None);
    }

    /// After the first round alone, angles are wrong by up to 130 us, because of the error of the speed.
    #[test]
    fn later_rounds_correct_what_the_first_one_took_for_the_speed() {
        let (visits, truth) = rounds();
        let from = Instant::from_nanos(1_000_000_000);
        let found = angles(&visits, truth.len(), from, REVOLUTION_NS, 3_000.0 / REVOLUTION_NS);
        let found: Vec<f64> = found.into_iter().map(Option::unwrap).collect();
        // An error that all angles share does not matter.
        let off: Vec<f64> =
            found.iter().zip(&truth).map(|(f, t)| wrap(f - t - found[0] + truth[0])).collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        let worst = off.iter().map(|o| (o - mean).abs()).fold(0.0, f64::max) * REVOLUTION_NS / 1e3;
        // The mean of eight readings of 2.9 us has an error of 1 us, and the worst of 68 has three times
        // that.
        assert!(worst < 4.0, "{worst} us");
    }

    #[test]
    fn an_anchor_that_was_never_read_has_no_angle_and_one_that_waited_does_not_count() {
        let (mut visits, truth) = rounds();
        visits.retain(|visit| visit.anchor != 7);
        let from = Instant::from_nanos(1_000_000_000);
        let known =
            |visits: &[Visit]| angles(visits, truth.len(), from, REVOLUTION_NS, 3_000.0 / REVOLUTION_NS);
        let before = known(&visits);
        assert!(before[7].is_none() && before.iter().flatten().count() == 67);
        visits[400].at += units::Duration::from_micros(900);
        let after = known(&visits);
        let moved = before.iter().flatten().zip(after.iter().flatten()).map(|(a, b)| wrap(a - b).abs());
        assert!(moved.fold(0.0, f64::max) * REVOLUTION_NS < 2_000.0);
    }
}
