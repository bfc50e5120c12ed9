//! The rotation of a platter, exact in integers.
//!
//! A revolution is divided into 60e9 parts. A minute has 60e9 ns, so a platter at a whole number of revolutions per minute
//! rotates by exactly `rpm` parts in a nanosecond: `(t * rpm) mod 60e9` is its angle at nanosecond `t`, without rounding
//! for any `t`. At 10,000 rpm one part passes in a ten-thousandth of a nanosecond.

#[cfg(not(feature = "std"))]
use crate::Float as _;
use crate::{Duration, Instant};
use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// The number of parts in one revolution.
pub const FULL_REVOLUTION: u64 = 60_000_000_000;

/// A position on the circle, in parts of a revolution, always below [`FULL_REVOLUTION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Angle(u64);

/// An amount of rotation, in parts of a revolution; may exceed one revolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arc(u64);

impl Angle {
    /// The angle zero, at which every drive's platter stands at instant zero.
    pub const ZERO: Self = Self(0);

    /// Returns the angle `parts` after zero, modulo a revolution.
    #[inline]
    pub const fn from_parts(parts: u64) -> Self {
        Self(parts % FULL_REVOLUTION)
    }

    /// Returns the angle of a number of revolutions, modulo one revolution and rounded to a part; `None` if the number is
    /// not finite.
    ///
    /// ```
    /// use freeblock_units::{Angle, FULL_REVOLUTION};
    /// assert_eq!(Angle::from_revolutions(0.25).unwrap().parts(), FULL_REVOLUTION / 4);
    /// assert_eq!(Angle::from_revolutions(-0.25).unwrap().parts(), FULL_REVOLUTION / 4 * 3);
    /// ```
    pub fn from_revolutions(revolutions: f64) -> Option<Self> {
        revolutions
            .is_finite()
            .then(|| Self::from_parts((revolutions.rem_euclid(1.0) * FULL_REVOLUTION as f64).round() as u64))
    }

    /// Returns the angle as parts after zero.
    #[inline]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// Returns the angle as a fraction of a revolution, for reports only.
    pub fn as_revolutions(self) -> f64 {
        self.0 as f64 / FULL_REVOLUTION as f64
    }

    /// Returns the rotation from this angle to `target`: less than a revolution, zero if the two are equal.
    #[inline]
    pub const fn until(self, target: Self) -> Arc {
        if target.0 >= self.0 { Arc(target.0 - self.0) } else { Arc(FULL_REVOLUTION - self.0 + target.0) }
    }
}

impl Arc {
    /// No rotation.
    pub const ZERO: Self = Self(0);
    /// One revolution.
    pub const REVOLUTION: Self = Self(FULL_REVOLUTION);

    /// Returns the rotation by `parts`.
    #[inline]
    pub const fn from_parts(parts: u64) -> Self {
        Self(parts)
    }

    /// Returns the rotation in parts of a revolution.
    #[inline]
    pub const fn parts(self) -> u64 {
        self.0
    }
}

impl Add<Arc> for Angle {
    type Output = Self;
    #[inline]
    fn add(self, arc: Arc) -> Self {
        let sum = self.0 + arc.0;
        if sum < FULL_REVOLUTION {
            Self(sum)
        } else if sum < 2 * FULL_REVOLUTION {
            Self(sum - FULL_REVOLUTION)
        } else {
            Self(sum % FULL_REVOLUTION)
        }
    }
}

impl Add for Arc {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Arc {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Arc {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// A spindle speed in whole revolutions per minute, from 1 to 100,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rpm(u32);

impl Rpm {
    /// Returns the speed; `None` outside 1 to 100,000.
    pub const fn new(rpm: u32) -> Option<Self> {
        if rpm >= 1 && rpm <= 100_000 { Some(Self(rpm)) } else { None }
    }

    /// Returns the speed in revolutions per minute.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the angle at `t` of a platter whose angle was zero at instant zero.
    ///
    /// ```
    /// use freeblock_units::{Angle, Duration, Instant, Rpm};
    /// let rpm = Rpm::new(10_000).unwrap();
    /// // At 10,000 rpm a revolution takes 6 ms; after 7.5 ms the platter has made one and a quarter.
    /// let t = Instant::ZERO + Duration::from_micros(7_500);
    /// assert_eq!(rpm.angle_at(t), Angle::from_revolutions(0.25).unwrap());
    /// ```
    #[inline]
    pub const fn angle_at(self, t: Instant) -> Angle {
        // The time is reduced modulo 60e9 first, so that the product stays below 6e15 and cannot overflow.
        Angle((t.as_nanos() % FULL_REVOLUTION) * self.0 as u64 % FULL_REVOLUTION)
    }

    /// Returns the first angle of the nanosecond that ends at `t`.
    ///
    /// An event on the platter happens between two whole nanoseconds and is reported at the later one, so a head that is
    /// ready "at `t`" may have been ready for up to a nanosecond. Such a head must not miss a sector that begins where the
    /// sector it has just read ended. The point `arc` after the returned angle passes at exactly `t + time_within(arc)`.
    #[inline]
    pub const fn earliest_angle(self, t: Instant) -> Angle {
        let (now, back) = (self.angle_at(t).0, self.0 as u64 - 1);
        Angle(if now >= back { now - back } else { now + FULL_REVOLUTION - back })
    }

    /// Returns the rotation of the platter in `d`.
    ///
    /// # Panics
    /// In debug builds, if the rotation exceeds 2^64 parts: after two days at 100,000 rpm. An arc measures a wait, not the
    /// time of day.
    #[inline]
    pub const fn arc_in(self, d: Duration) -> Arc {
        Arc(d.as_nanos() * self.0 as u64)
    }

    /// Returns the first whole nanosecond at which the platter has rotated by `arc`.
    #[inline]
    pub const fn time_to_pass(self, arc: Arc) -> Duration {
        Duration::from_nanos(arc.0.div_ceil(self.0 as u64))
    }

    /// Returns the last whole nanosecond at which the platter has rotated by at most `arc`.
    #[inline]
    pub const fn time_within(self, arc: Arc) -> Duration {
        Duration::from_nanos(arc.0 / self.0 as u64)
    }

    /// Returns the time of one revolution, rounded up to a whole nanosecond.
    #[inline]
    pub const fn revolution(self) -> Duration {
        self.time_to_pass(Arc::REVOLUTION)
    }
}

impl fmt::Display for Rpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rpm", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angle_is_exact_after_a_year() {
        let rpm = Rpm::new(10_025).unwrap();
        let year = Instant::from_nanos(365 * 86_400 * 1_000_000_000 + 12_345);
        let exact = (u128::from(year.as_nanos()) * 10_025 % u128::from(FULL_REVOLUTION)) as u64;
        assert_eq!(rpm.angle_at(year).parts(), exact);
    }

    #[test]
    fn a_sector_that_ends_leaves_the_head_in_time_for_the_next() {
        for rpm in [1, 3_600, 7_200, 10_025, 100_000] {
            let rpm = Rpm::new(rpm).unwrap();
            for arc in [1, 1_000, 123_456_789, FULL_REVOLUTION / 3, FULL_REVOLUTION - 1] {
                let start = Instant::from_nanos(987_654_321);
                let target = rpm.earliest_angle(start) + Arc::from_parts(arc);
                let there = start + rpm.time_within(Arc::from_parts(arc));
                let wait = rpm.earliest_angle(there).until(target);
                assert_eq!(rpm.time_within(wait), Duration::ZERO, "{rpm} {arc}");
            }
        }
    }

    #[test]
    fn until_wraps() {
        let (a, b) = (Angle::from_parts(FULL_REVOLUTION - 1), Angle::from_parts(2));
        assert_eq!(a.until(b).parts(), 3);
        assert_eq!(b.until(a).parts(), FULL_REVOLUTION - 3);
        assert_eq!(a.until(a), Arc::ZERO);
        assert_eq!(a + a.until(b), b);
    }
}
