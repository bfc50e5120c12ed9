//! Seek times by distance, as a table with one number for every distance.

use crate::error::ProfileError;
use crate::profile::Seek;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use units::Duration;
#[cfg(not(feature = "std"))]
use units::Float as _;

/// The longest seek accepted, ms: more than ten times that of any drive.
const SEEK_MS_MAX: f64 = 1_000.0;

/// The seek times of a drive for every distance from 0 to its last cylinder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekProfile {
    /// The seek time in nanoseconds for each distance in cylinders.
    by_distance: Vec<u32>,
    /// For each distance, the shortest time of a seek over it or any longer distance. Measured curves are not monotone.
    at_least: Vec<u32>,
}

impl SeekProfile {
    /// Computes the table for a drive of `cylinders` cylinders.
    ///
    /// # Errors
    /// The points are not in ascending distance, or a time is negative, not a number, or longer than a second.
    pub fn new(curve: &Seek, cylinders: u32) -> Result<Self, ProfileError> {
        check(curve)?;
        let by_distance = (0..cylinders)
            .map(|d| {
                let ms = if d == 0 { 0.0 } else { milliseconds(curve, d).clamp(0.0, SEEK_MS_MAX) };
                (ms * 1e6).round() as u32
            })
            .collect::<Vec<_>>();
        Ok(Self::of_times(by_distance))
    }

    fn of_times(by_distance: Vec<u32>) -> Self {
        let mut at_least = by_distance.clone();
        for d in (1..at_least.len()).rev() {
            at_least[d - 1] = at_least[d - 1].min(at_least[d]);
        }
        Self { by_distance, at_least }
    }

    /// Returns the table with every seek longer (or shorter, down to zero) by `ns` nanoseconds.
    #[must_use]
    pub fn longer_by(&self, ns: i32) -> Self {
        let longer = |(d, &time): (usize, &u32)| if d == 0 { time } else { time.saturating_add_signed(ns) };
        Self::of_times(self.by_distance.iter().enumerate().map(longer).collect())
    }

    /// Returns the time of a seek over `distance` cylinders. Distances past the drive's last cylinder take the time of
    /// the longest seek.
    #[inline]
    pub fn time(&self, distance: u32) -> Duration {
        Duration::from_nanos(u64::from(lookup(&self.by_distance, distance)))
    }

    /// Returns the shortest time of any seek over `distance` cylinders or more. Unlike measured times, this bound never
    /// falls as the distance grows.
    #[inline]
    pub fn lower_bound(&self, distance: u32) -> Duration {
        Duration::from_nanos(u64::from(lookup(&self.at_least, distance)))
    }

    /// Returns the mean seek time over all pairs of cylinders, each equally likely: the "average seek" of a data sheet.
    pub fn mean(&self) -> Duration {
        let n = self.by_distance.len() as u128;
        // A distance d > 0 occurs between 2 (n - d) ordered pairs.
        let sum: u128 =
            self.by_distance.iter().enumerate().map(|(d, &ns)| 2 * (n - d as u128) * u128::from(ns)).sum();
        Duration::from_nanos((sum / (n * n).max(1)) as u64)
    }
}

#[inline]
fn lookup(table: &[u32], distance: u32) -> u32 {
    match table.get(distance as usize) {
        Some(&ns) => ns,
        None => table.last().copied().unwrap_or(0),
    }
}

/// Returns the value of the curve at `d` cylinders, `d > 0`. The value may be negative or too long.
fn milliseconds(curve: &Seek, d: u32) -> f64 {
    let x = f64::from(d);
    match curve {
        Seek::Table { points } => {
            let after = points.partition_point(|&(distance, _)| distance < d);
            let line = |(x0, y0): (u32, f64), (x1, y1): (u32, f64)| {
                let (x0, x1) = (f64::from(x0), f64::from(x1));
                y0 + (y1 - y0) * (x - x0) / (x1 - x0)
            };
            match (after.checked_sub(1).and_then(|i| points.get(i)).copied(), points.get(after).copied()) {
                (before, Some(next)) => line(before.unwrap_or((0, 0.0)), next),
                (Some(last), None) => {
                    let previous =
                        after.checked_sub(2).and_then(|i| points.get(i)).copied().unwrap_or((0, 0.0));
                    line(previous, last)
                }
                (None, None) => 0.0,
            }
        }
        Seek::TwoPiece { one_ms, crossover, far } => {
            let (cross, cross_ms) = (f64::from(crossover.0), crossover.1);
            if d < crossover.0 {
                let slope = (cross_ms - one_ms) / (cross.sqrt() - 1.0);
                one_ms + slope * (x.sqrt() - 1.0)
            } else {
                cross_ms + (far.1 - cross_ms) / (f64::from(far.0) - cross) * (x - cross)
            }
        }
        Seek::SqrtLinear { crossover, sqrt, linear, first_ms, least_ms } => {
            let ms = match first_ms.get(d as usize - 1) {
                Some(&ms) => ms,
                None if d < *crossover => sqrt.0 + sqrt.1 * x.sqrt(),
                None => linear.0 + linear.1 * x,
            };
            ms.max(*least_ms)
        }
    }
}

fn check(curve: &Seek) -> Result<(), ProfileError> {
    let time = |place: String, ms: f64| {
        if (0.0..=SEEK_MS_MAX).contains(&ms) {
            Ok(())
        } else {
            Err(ProfileError::new(
                place,
                format!("a seek of {ms} ms"),
                format!("give milliseconds from 0 to {SEEK_MS_MAX}"),
            ))
        }
    };
    let finite = |place: &str, values: &[f64]| {
        if values.iter().all(|v| v.is_finite()) {
            Ok(())
        } else {
            Err(ProfileError::new(place, "not a finite number", "give plain numbers"))
        }
    };
    match curve {
        Seek::Table { points } => {
            if points.is_empty() {
                return Err(ProfileError::new(
                    "seek.points",
                    "no points",
                    "give at least one [cylinders, ms]",
                ));
            }
            let mut last = 0;
            for (i, &(distance, ms)) in points.iter().enumerate() {
                let place = format!("seek.points[{i}]");
                if distance <= last {
                    return Err(ProfileError::new(
                        place,
                        format!("distance {distance} does not come after {last}"),
                        "list distances from 1 upward, each once",
                    ));
                }
                time(place, ms)?;
                last = distance;
            }
        }
        Seek::TwoPiece { one_ms, crossover, far } => {
            time("seek.one_ms".into(), *one_ms)?;
            time("seek.crossover".into(), crossover.1)?;
            time("seek.far".into(), far.1)?;
            if crossover.0 < 2 || far.0 <= crossover.0 {
                return Err(ProfileError::new(
                    "seek.crossover",
                    format!("distances 1, {}, {} do not ascend", crossover.0, far.0),
                    "the crossover lies beyond one cylinder, the far point beyond the crossover",
                ));
            }
        }
        Seek::SqrtLinear { sqrt, linear, first_ms, least_ms, .. } => {
            finite("seek.sqrt", &[sqrt.0, sqrt.1])?;
            finite("seek.linear", &[linear.0, linear.1])?;
            time("seek.least_ms".into(), *least_ms)?;
            for (i, &ms) in first_ms.iter().enumerate() {
                time(format!("seek.first_ms[{i}]"), ms)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(profile: &SeekProfile, d: u32) -> f64 {
        profile.time(d).as_millis_f64()
    }

    #[test]
    fn the_table_interpolates_and_extrapolates() {
        let curve = Seek::Table { points: vec![(2, 1.0), (4, 2.0), (8, 3.0)] };
        let seek = SeekProfile::new(&curve, 20).unwrap();
        let got = [0, 1, 2, 3, 4, 6, 8, 12].map(|d| ms(&seek, d));
        assert_eq!(got, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]);
    }

    #[test]
    fn two_pieces_meet_at_the_crossover() {
        // The base disk of Table 1 of the ATC 2003 paper.
        let curve = Seek::TwoPiece { one_ms: 0.8, crossover: (400, 6.0), far: (3000, 8.0) };
        let seek = SeekProfile::new(&curve, 6_536).unwrap();
        assert_eq!([1, 400, 3000].map(|d| ms(&seek, d)), [0.8, 6.0, 8.0]);
        assert!(ms(&seek, 399) < 6.0 && ms(&seek, 399) > 5.98);
    }

    #[test]
    fn listed_times_are_those_of_the_first_distances_and_the_functions_follow_them() {
        let curve = Seek::SqrtLinear {
            crossover: 9,
            sqrt: (1.0, 1.0),
            linear: (5.0, 0.5),
            first_ms: vec![0.8, 1.5, 1.25],
            least_ms: 1.0,
        };
        let seek = SeekProfile::new(&curve, 20).unwrap();
        let got = [0, 1, 2, 3, 4, 8, 9, 10].map(|d| ms(&seek, d));
        assert_eq!(got, [0.0, 1.0, 1.5, 1.25, 3.0, 3.828427, 9.5, 10.0]);
    }

    #[test]
    fn lower_bound_is_monotone_over_a_dip() {
        let curve = Seek::Table { points: vec![(1, 1.5), (2, 1.0), (10, 4.0)] };
        let seek = SeekProfile::new(&curve, 11).unwrap();
        assert_eq!(seek.lower_bound(1), seek.time(2));
        assert!((1..11).all(|d| seek.lower_bound(d - 1) <= seek.lower_bound(d)));
    }

    #[test]
    fn bad_points_are_refused_by_place() {
        let curve = Seek::Table { points: vec![(1, 1.0), (1, 2.0)] };
        assert_eq!(SeekProfile::new(&curve, 4).unwrap_err().place, "seek.points[1]");
        let curve = Seek::Table { points: vec![(1, -1.0)] };
        assert!(SeekProfile::new(&curve, 4).is_err());
        let curve = Seek::Table { points: vec![(1, f64::NAN)] };
        assert!(SeekProfile::new(&curve, 4).is_err());
    }
}
