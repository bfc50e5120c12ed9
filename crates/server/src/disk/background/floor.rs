//! The least service of background requests while the foreground leaves no time for them.

use std::fmt;
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant};

/// A floor under the service of background requests. A request that would get less becomes foreground work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// While requests wait, at least this number of bytes arrive in a second on average.
    BytesPerSecond(NonZeroU64),
    /// No request stays background work for longer than this.
    Within(Duration),
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BytesPerSecond(bytes) => write!(f, "{} MB/s", bytes.get() as f64 / 1e6),
            Self::Within(time) => write!(f, "{} s", time.as_nanos() as f64 / 1e9),
        }
    }
}

/// The service that is owed under a floor in bytes a second: the bytes of the time since `paid_until`. Service beyond the
/// floor is no credit for later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Debt {
    paid_until: Instant,
}

fn time_of(rate: NonZeroU64, bytes: Bytes) -> Duration {
    let ns = u128::from(bytes.get()) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl Debt {
    /// Records that nothing is owed, because no request has waited until `now`.
    pub fn begin(&mut self, now: Instant) {
        self.paid_until = now;
    }

    /// Records that these bytes have arrived, or are being fetched.
    pub fn paid(&mut self, rate: NonZeroU64, bytes: Bytes, now: Instant) {
        let until = self.paid_until.as_nanos().saturating_add(time_of(rate, bytes).as_nanos());
        self.paid_until = Instant::from_nanos(until).min(now);
    }

    /// Returns when a request of these bytes is owed.
    pub fn due(&self, rate: NonZeroU64, bytes: Bytes) -> Instant {
        Instant::from_nanos(self.paid_until.as_nanos().saturating_add(time_of(rate, bytes).as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_beyond_the_floor_is_no_credit_and_missing_service_is_owed() {
        let rate = NonZeroU64::new(1_000_000).unwrap();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut debt = Debt::default();
        debt.begin(at(0));
        assert_eq!(debt.due(rate, Bytes::new(100_000)), at(100));
        debt.paid(rate, Bytes::new(50_000_000), at(40));
        assert_eq!(debt.due(rate, Bytes::new(100_000)), at(140));
        debt.paid(rate, Bytes::new(100_000), at(1_000));
        assert_eq!(debt.due(rate, Bytes::new(100_000)), at(240), "three quarters of a second are owed");
    }

    #[test]
    fn floors_are_shown_as_they_are_configured() {
        assert_eq!(Floor::BytesPerSecond(NonZeroU64::new(2_500_000).unwrap()).to_string(), "2.5 MB/s");
        assert_eq!(Floor::Within(Duration::from_secs(30)).to_string(), "30 s");
    }
}
