//! Instants and durations in integer nanoseconds. The host program defines instant zero: the start of a simulation, for
//! example, or the boot of a machine.

#[cfg(not(feature = "std"))]
use crate::Float as _;
use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A point in time, in nanoseconds since the host's zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// Instant zero, which the host program defines.
    pub const ZERO: Self = Self(0);
    /// The largest instant, 584 years after zero; stands for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `ns` nanoseconds after zero.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since zero.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since zero, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `earlier` to this instant.
    ///
    /// # Panics
    /// In debug builds, if `earlier` is later than `self`, which is a bug of the caller.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        debug_assert!(self.0 >= earlier.0);
        Duration(self.0.wrapping_sub(earlier.0))
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time from `earlier` to this instant, or `None` if `earlier` is later.
    #[inline]
    pub const fn checked_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(ns) => Some(Duration(ns)),
            None => None,
        }
    }

    /// Returns this instant moved back by `d`, or `None` if that is before zero.
    #[inline]
    pub const fn checked_sub(self, d: Duration) -> Option<Self> {
        match self.0.checked_sub(d.0) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest duration, 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns `ns` nanoseconds.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// Returns `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Returns `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Returns the nearest whole nanosecond to `ms` milliseconds; `None` if `ms` is negative, not a number, or too
    /// large.
    ///
    /// ```
    /// use freeblock_units::Duration;
    /// assert_eq!(Duration::from_millis_f64(0.176), Some(Duration::from_nanos(176_000)));
    /// assert_eq!(Duration::from_millis_f64(-1.0), None);
    /// ```
    pub fn from_millis_f64(ms: f64) -> Option<Self> {
        let ns = (ms * 1e6).round();
        (ns >= 0.0 && ns < u64::MAX as f64).then_some(Self(ns as u64))
    }

    /// Returns the nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds, for reports only.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the seconds, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns `self - other`, or zero if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `self - other`, or `None` if that is negative.
    #[inline]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, d: Duration) -> Self {
        Self(self.0 + d.0)
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Duration {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    #[inline]
    fn mul(self, k: u64) -> Self {
        Self(self.0 * k)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    #[inline]
    fn div(self, k: u64) -> Self {
        Self(self.0 / k)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_millis_f64())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}
