//! The floor: the least service of background requests while the foreground leaves no time for them. A request that
//! would get less is promoted, which makes it foreground work.

use super::Background;
use scheduler::Sessions;
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant, Sectors, TaskId};

/// The interval at which the remaining blocks of a request are promoted again: one call promotes only as many blocks as
/// the core's pool has room for.
const PROMOTE_EVERY: Duration = Duration::from_millis(1_000);

/// The most missing service that is still made up for after a time without requests.
const OLD_DEBT_MAX: Duration = Duration::from_secs(1);

/// The most requests that are foreground work at a time because of the floor: enough for the core to choose a short
/// path of the head, and few for a foreground request to wait behind.
const PROMOTED_REQUESTS_MAX: usize = 32;

/// The number of sectors at which a round of promotions takes no more requests. A round is the requests that a floor in
/// seconds promotes together. A floor in bytes a second has no rounds.
const PROMOTED_SECTORS_MAX: u64 = 2_048;

/// The least service of background requests. A request that would get less becomes foreground work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// While requests wait, at least this number of bytes arrive in a second on average.
    BytesPerSecond(NonZeroU64),
    /// A request that has waited for longer than this becomes foreground work, in the order of arrival.
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

/// The service missing under a floor in bytes a second: the floor's bytes for the time since `paid_until`. Service
/// beyond the floor is no credit for later, and a time without requests adds no debt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Debt {
    paid_until: Instant,
    /// When a request last ended.
    ended: Instant,
}

fn time_of(rate: NonZeroU64, bytes: Bytes) -> Duration {
    let ns = u128::from(bytes.get()) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl Debt {
    /// Records the first request after a time without requests, which adds no debt. The older debt stays: a reader that
    /// asks for one range after the other is still owed the time in which its promoted request was served.
    pub fn begin(&mut self, now: Instant) {
        let until = self.paid_until + now.saturating_since(self.ended);
        let least = Instant::from_nanos(now.as_nanos().saturating_sub(OLD_DEBT_MAX.as_nanos()));
        self.paid_until = until.max(least).min(now);
    }

    pub fn end(&mut self, now: Instant) {
        self.ended = now;
    }

    /// Subtracts bytes that have arrived, or are being read, from the debt.
    pub fn paid(&mut self, rate: NonZeroU64, bytes: Bytes, now: Instant) {
        let until = self.paid_until.as_nanos().saturating_add(time_of(rate, bytes).as_nanos());
        self.paid_until = Instant::from_nanos(until).min(now);
    }

    /// Returns when the debt reaches this number of bytes, so that a request of this size has to be promoted.
    pub fn due(&self, rate: NonZeroU64, bytes: Bytes) -> Instant {
        Instant::from_nanos(self.paid_until.as_nanos().saturating_add(time_of(rate, bytes).as_nanos()))
    }
}

/// The id of a background request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackgroundId {
    Read(u64),
    Write(TaskId),
    Held(u64),
}

/// The orders in which requests become foreground work and are promoted again, so that an event does not look at all
/// requests.
#[derive(Debug, Default)]
pub(super) struct PromoteOrder {
    /// The requests that the floor has not made foreground work, the oldest first.
    waiting: BTreeSet<(Instant, BackgroundId)>,
    /// The times at which requests are promoted again. An entry whose request is over, or has another time now, is
    /// dropped at its time.
    again: BTreeSet<(Instant, BackgroundId)>,
    /// Under a floor in seconds, the disk's total time for promoted requests when the present round began. After a
    /// round the foreground has the disk alone for as long as the round took. Without this pause an endless series of
    /// neighbouring blocks would win every choice of the shortest path.
    round_begun: Option<Duration>,
    /// The earliest start of the next round.
    next_round: Instant,
    /// The number of entries that were looked at.
    #[cfg(test)]
    looks: u64,
}

impl PromoteOrder {
    /// Adds a request that the floor has not made foreground work.
    pub fn add(&mut self, arrived: Instant, request: BackgroundId) {
        self.waiting.insert((arrived, request));
    }

    /// Removes a request that is over or is foreground work now, if the request is in the order.
    pub fn remove(&mut self, arrived: Instant, request: BackgroundId) {
        self.waiting.remove(&(arrived, request));
    }

    /// Schedules the next promotion of a request.
    pub fn promote_at(&mut self, at: Instant, request: BackgroundId) {
        self.again.insert((at, request));
    }

    /// Removes and returns the next entry of a request to promote again that is due by `now`.
    fn next_again(&mut self, now: Instant) -> Option<(Instant, BackgroundId)> {
        self.again.first().filter(|(at, _)| *at <= now)?;
        #[cfg(test)]
        {
            self.looks += 1;
        }
        self.again.pop_first()
    }
}

impl Background {
    /// If no request waits, excludes the time since the last request from the debt.
    pub(super) fn begin_debt(&mut self, now: Instant) {
        if self.reads.is_empty() && self.writes.is_empty() && self.held.is_empty() {
            self.debt.begin(now);
        }
    }

    /// Subtracts sectors from the debt under a floor in bytes a second.
    pub(super) fn pay(&mut self, sectors: Sectors, now: Instant) {
        if let Some(Floor::BytesPerSecond(rate)) = self.floor {
            self.debt.paid(rate, sectors.bytes(self.sector), now);
        }
    }

    /// Returns when there is next work to [do](Self::do_due): a promotion, or blocks to read ahead or drop.
    pub fn due(&self) -> Option<Instant> {
        if self.suspended {
            return self.memory.trim_due();
        }
        let again = self.order.again.first().map(|(at, _)| *at);
        again.into_iter().chain(self.floor_due()).chain(self.memory.due()).min()
    }

    /// Returns when the floor next makes a request foreground work.
    pub(super) fn floor_due(&self) -> Option<Instant> {
        self.first_due().filter(|_| !self.suspended).map(|(_, at)| at)
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

    /// Returns the number of requests that the floor has made foreground work and that are not over.
    fn promoted_left(&self) -> usize {
        let requests = self.reads.len() + self.writes.len() + self.held.len();
        requests.saturating_sub(self.order.waiting.len())
    }

    /// Records the end of a request.
    pub(super) fn request_ended(&mut self, now: Instant) {
        self.debt.end(now);
        if self.promoted_left() == 0
            && let Some(begun) = self.order.round_begun.take()
        {
            self.order.next_round = now + self.promoted_time.saturating_sub(begun);
        }
    }

    /// Returns the oldest request that is not promoted, and when it is to be promoted. `None` during a round, and while
    /// `PROMOTED_REQUESTS_MAX` requests are promoted.
    fn first_due(&self) -> Option<(BackgroundId, Instant)> {
        let most = if self.has_rounds() { 1 } else { PROMOTED_REQUESTS_MAX };
        self.oldest_due().filter(|_| self.promoted_left() < most)
    }

    /// Returns whether requests are promoted in rounds, with time for the foreground between rounds. A floor in bytes a
    /// second needs no rounds, because its rate bounds the promoted work.
    fn has_rounds(&self) -> bool {
        matches!(self.floor, Some(Floor::Within(_)))
    }

    fn oldest_due(&self) -> Option<(BackgroundId, Instant)> {
        let floor = self.floor?;
        let &(arrived, oldest) = self.order.waiting.first()?;
        let at = match floor {
            Floor::Within(most) => (arrived + most).max(self.order.next_round),
            Floor::BytesPerSecond(rate) => {
                let left = match oldest {
                    BackgroundId::Read(id) => self.reads.get(&id)?.left,
                    BackgroundId::Write(task) => self.writes.get(&task)?.sectors_left(),
                    BackgroundId::Held(id) => self.held.get(&id)?.sectors,
                };
                self.debt.due(rate, left.bytes(self.sector))
            }
        };
        Some((oldest, at))
    }

    /// Makes the requests foreground work that are due by `now`. Returns whether held requests are among them, whose
    /// blocks now have to be copied as foreground work.
    fn keep_floor(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        let (mut copies, mut sectors) = (false, 0);
        let is_due = |(_, at): &(BackgroundId, Instant)| *at <= now;
        let mut next = self.first_due().filter(is_due);
        if next.is_some() && self.has_rounds() {
            self.order.round_begun = Some(self.promoted_time);
        }
        while let Some((oldest, _)) = next {
            self.order.waiting.pop_first();
            self.order.promote_at(now, oldest);
            let left = match oldest {
                BackgroundId::Read(id) => self.reads.get_mut(&id).map(|read| {
                    (read.served, read.promote_at) = (true, Some(now));
                    read.left
                }),
                BackgroundId::Write(task) => self.writes.get_mut(&task).map(|write| {
                    write.promoted = write.left.clone();
                    (write.served, write.promote_at) = (true, Some(now));
                    write.sectors_left()
                }),
                BackgroundId::Held(id) => self.held.get_mut(&id).map(|held| {
                    (held.served, copies) = (true, true);
                    held.sectors
                }),
            };
            let Some(left) = left else { break };
            self.promoted.requests += 1;
            self.pay(left, now);
            sectors += left.get();
            let is_full = self.promoted_left() >= PROMOTED_REQUESTS_MAX
                || self.has_rounds() && sectors >= PROMOTED_SECTORS_MAX;
            next = self.oldest_due().filter(|oldest| !is_full && is_due(oldest));
        }
        self.promote_again(sessions, now);
        copies
    }

    /// Promotes the blocks that are left of promoted requests whose time has come.
    pub(super) fn promote_again(&mut self, sessions: &mut dyn Sessions, now: Instant) {
        let both = [self.session, self.memory.session()];
        while let Some((at, request)) = self.order.next_again(now) {
            match request {
                BackgroundId::Read(id) => {
                    let read = self.reads.get_mut(&id).filter(|read| read.promote_at == Some(at));
                    let Some(read) = read else { continue };
                    read.promote_at = Some(now + PROMOTE_EVERY);
                    for session in both.into_iter().flatten() {
                        // The range is on the disk, and the session is open.
                        let _ = sessions.promote(session, read.range);
                    }
                }
                BackgroundId::Write(task) => {
                    let write = self.writes.get_mut(&task).filter(|write| write.promote_at == Some(at));
                    let Some(write) = write else { continue };
                    write.promote_at = Some(now + PROMOTE_EVERY);
                    for part in &write.promoted {
                        let _ = self.writer.map(|writer| sessions.promote(writer, *part));
                    }
                }
                BackgroundId::Held(_) => continue,
            }
            self.order.promote_at(now + PROMOTE_EVERY, request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::Counting;
    use super::super::{Asked, BackgroundTerms};
    use super::*;
    use scheduler::Priority;
    use units::{Lbn, LbnRange};

    /// Returns the reads of sixteen clients that arrived at these times, under a floor in seconds. The ranges follow no
    /// stream, so that nothing is read ahead.
    fn waiting(sessions: &mut Counting, floor_s: u64, arrivals: &[Instant], sectors: Sectors) -> Background {
        let floor = Some(Floor::Within(Duration::from_secs(floor_s)));
        let terms = BackgroundTerms { floor, ..BackgroundTerms::default() };
        let mut background =
            Background::new(terms, Priority::default(), Bytes::new(512), Sectors::new(1 << 20));
        let requests = arrivals.len() as u64;
        for (id, &arrived) in (0..).zip(arrivals) {
            let range = LbnRange::new(Lbn::new(id * 611 % requests * 1_000), sectors);
            background.read(sessions, id, Asked { client: id % 16, range, arrived }, arrived);
        }
        background
    }

    /// Sixteen clients have 64 requests each waiting, and each event asks which are due.
    #[test]
    fn an_event_looks_at_few_of_the_requests_that_wait_however_many_these_are() {
        const REQUESTS: u64 = 16 * 64;
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut sessions = Counting::default();
        let arrivals: Vec<Instant> = (0..REQUESTS).map(at).collect();
        let mut background = waiting(&mut sessions, 2, &arrivals, Sectors::new(8));
        assert_eq!((background.due(), background.order.looks), (Some(at(2_000)), 0));
        let (seconds, mut done) = (12, 0);
        for ms in REQUESTS..1_000 * seconds {
            background.do_due(&mut sessions, at(ms));
            assert!(background.due().is_none_or(|due| due > at(ms)));
            let promoted = background.promoted.requests - done;
            assert!(promoted <= PROMOTED_REQUESTS_MAX as u64, "{promoted} are foreground work at a time");
            // A client of the disk leaves time for a request each four milliseconds.
            if promoted > 0 && ms % 4 == 0 {
                let range = background.reads[&done].range;
                background.give(done, range, &[0; 8 * 512], at(ms));
                done += 1;
            }
        }
        assert_eq!(background.promoted.requests, REQUESTS, "all of them are foreground work");
        let looks = background.order.looks;
        assert!((REQUESTS..=REQUESTS * seconds).contains(&looks), "{looks} looks");
    }

    /// Requests so large that the core and the drive would do one after the other before all other requests.
    #[test]
    fn under_a_floor_in_seconds_the_clients_of_the_disk_have_as_much_time_as_the_requests_that_were_due() {
        const REQUESTS: usize = 64;
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut sessions = Counting::default();
        let mut background = waiting(&mut sessions, 3, &[at(0); REQUESTS], Sectors::new(512));
        // The disk takes 10 ms for each promoted request.
        let (mut done, mut busy) = (0, 0);
        for ms in (0..20_000).step_by(10) {
            background.do_due(&mut sessions, at(ms));
            let promoted = background.promoted.requests - done;
            assert!(promoted <= PROMOTED_SECTORS_MAX / 512, "{promoted} are foreground work at a time");
            if promoted > 0 {
                let range = background.reads[&done].range;
                let session = background.session.unwrap();
                background.promoted(session, range, Duration::from_millis(10));
                background.give(done, range, &[0; 512 * 512], at(ms + 9));
                (done, busy) = (done + 1, busy + 10);
            }
            assert!(ms < 3_000 || 2 * busy <= ms - 3_000 + 100, "{busy} ms of {ms}");
        }
        assert_eq!(done, REQUESTS as u64);
    }

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
    fn a_time_without_requests_is_not_owed_and_forgives_what_is_owed_for_more_than_a_second() {
        let rate = NonZeroU64::new(1_000_000).unwrap();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let debt = Debt { paid_until: at(500), ended: at(800) };
        let due = |mut debt: Debt, ms| {
            debt.begin(at(ms));
            debt.due(rate, Bytes::new(100_000))
        };
        assert_eq!([due(debt, 800), due(debt, 5_000)], [at(600), at(4_800)]);
        assert_eq!(due(Debt { ended: at(90_000), ..debt }, 100_000), at(99_100));
        assert_eq!(due(Debt::default(), 700), at(800));
    }

    #[test]
    fn floors_are_shown_as_they_are_configured() {
        assert_eq!(Floor::BytesPerSecond(NonZeroU64::new(2_500_000).unwrap()).to_string(), "2.5 MB/s");
        assert_eq!(Floor::Within(Duration::from_secs(30)).to_string(), "30 s");
    }
}
