//! The least service of background requests while the foreground leaves no time for them.

use super::Background;
use scheduler::Sessions;
use std::fmt;
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant, Sectors, TaskId};

/// The interval at which blocks of a request are promoted again. One call promotes only as many as the core's pool has
/// room for.
const PROMOTE_EVERY: Duration = Duration::from_millis(1_000);

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

/// A request that is not promoted.
#[derive(Clone, Copy, Debug)]
enum Oldest {
    Read(u64),
    Write(TaskId),
    Held(u64),
}

impl Background {
    /// Records that nothing is owed, if no request waits.
    pub(super) fn begin_debt(&mut self, now: Instant) {
        if self.reads.is_empty() && self.writes.is_empty() && self.held.is_empty() {
            self.debt.begin(now);
        }
    }

    /// Counts sectors against a floor in bytes a second.
    pub(super) fn pay(&mut self, sectors: Sectors, now: Instant) {
        if let Some(Floor::BytesPerSecond(rate)) = self.floor {
            self.debt.paid(rate, sectors.bytes(self.sector), now);
        }
    }

    /// Returns when the floor next makes a request foreground work, or blocks of declarations are made.
    pub fn due(&self) -> Option<Instant> {
        if self.suspended {
            return self.memory.trim_due();
        }
        let reads = self.reads.values().filter_map(|read| read.promote_at);
        let again = reads.chain(self.writes.values().filter_map(|write| write.promote_at)).min();
        again.into_iter().chain(self.first_due().map(|(_, at)| at)).chain(self.memory.due()).min()
    }

    /// Does the work that is due. Returns whether held requests are to be tried again.
    pub fn do_due(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        if self.due().is_none_or(|at| at > now) {
            return false;
        }
        if self.suspended {
            self.memory.trim(sessions, now);
            return false;
        }
        self.memory.step(sessions, now);
        self.keep_floor(sessions, now)
    }

    /// Returns the oldest request that is not promoted, and when it is due.
    fn first_due(&self) -> Option<(Oldest, Instant)> {
        let floor = self.floor?;
        let read = self.reads.iter().find(|(_, read)| !read.served);
        let read = read.map(|(id, read)| (read.arrived, Oldest::Read(*id), read.left));
        let write = self.writes.iter().find(|(_, write)| !write.served);
        let write = write.map(|(task, write)| (write.arrived, Oldest::Write(*task), write.sectors_left()));
        let held = self.held.iter().find(|(_, held)| !held.served);
        let held = held.map(|(id, held)| (held.arrived, Oldest::Held(*id), held.sectors));
        let all = read.into_iter().chain(write).chain(held);
        let (arrived, oldest, left) = all.min_by_key(|(arrived, ..)| *arrived)?;
        let at = match floor {
            Floor::Within(most) => arrived + most,
            Floor::BytesPerSecond(rate) => self.debt.due(rate, left.bytes(self.sector)),
        };
        Some((oldest, at))
    }

    /// Makes the requests foreground work that are due by `now`. Returns whether there are some among them that are
    /// held.
    fn keep_floor(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        let mut copies = false;
        while let Some((oldest, _)) = self.first_due().filter(|(_, at)| *at <= now) {
            let left = match oldest {
                Oldest::Read(id) => self.reads.get_mut(&id).map(|read| {
                    (read.served, read.promote_at) = (true, Some(now));
                    read.left
                }),
                Oldest::Write(task) => self.writes.get_mut(&task).map(|write| {
                    write.promoted = write.left.clone();
                    (write.served, write.promote_at) = (true, Some(now));
                    write.sectors_left()
                }),
                Oldest::Held(id) => self.held.get_mut(&id).map(|held| {
                    (held.served, copies) = (true, true);
                    held.sectors
                }),
            };
            let Some(left) = left else { break };
            self.promoted.requests += 1;
            self.pay(left, now);
        }
        self.promote_again(sessions, now);
        copies
    }

    /// Promotes the blocks that promoted requests still wait for.
    pub(super) fn promote_again(&mut self, sessions: &mut dyn Sessions, now: Instant) {
        let both = [self.session, self.memory.session()];
        for read in self.reads.values_mut().filter(|read| read.promote_at.is_some_and(|at| at <= now)) {
            read.promote_at = Some(now + PROMOTE_EVERY);
            for session in both.into_iter().flatten() {
                // The range is on the disk, and the session is open.
                let _ = sessions.promote(session, read.range);
            }
        }
        for write in self.writes.values_mut().filter(|write| write.promote_at.is_some_and(|at| at <= now)) {
            write.promote_at = Some(now + PROMOTE_EVERY);
            for part in &write.promoted {
                let _ = self.writer.map(|writer| sessions.promote(writer, *part));
            }
        }
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
