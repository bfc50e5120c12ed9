//! Conversions from and to the standard library's lengths of time.

#![allow(clippy::disallowed_types, reason = "the only place that names the standard library's Duration")]

use crate::Duration;
use core::fmt;

/// The error for a [`core::time`] duration that is longer than the longest [`Duration`]: 2^64 - 1 ns, 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(core::time::Duration);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a duration of {} s is too long; use at most {} s",
            self.0.as_secs(),
            u64::MAX / 1_000_000_000
        )
    }
}

impl core::error::Error for TooLong {}

/// Converts from the standard library's duration, which the rest of a program uses.
///
/// ```
/// use freeblock_units::{Duration, TooLong};
/// assert_eq!(Duration::try_from(std::time::Duration::from_micros(7)), Ok(Duration::from_nanos(7_000)));
/// assert_eq!(Duration::try_from(std::time::Duration::from_nanos(u64::MAX)), Ok(Duration::MAX));
/// let error = Duration::try_from(std::time::Duration::MAX).unwrap_err();
/// assert!(error.to_string().ends_with("use at most 18446744073 s"));
/// ```
impl TryFrom<core::time::Duration> for Duration {
    type Error = TooLong;

    fn try_from(time: core::time::Duration) -> Result<Self, TooLong> {
        u64::try_from(time.as_nanos()).map(Self::from_nanos).map_err(|_| TooLong(time))
    }
}

/// Converts to the standard library's duration; every value fits.
///
/// ```
/// use freeblock_units::Duration;
/// assert_eq!(std::time::Duration::from(Duration::from_millis(3)), std::time::Duration::from_millis(3));
/// assert_eq!(std::time::Duration::from(Duration::MAX).as_nanos(), u128::from(u64::MAX));
/// ```
impl From<Duration> for core::time::Duration {
    #[inline]
    fn from(time: Duration) -> Self {
        Self::from_nanos(time.as_nanos())
    }
}
