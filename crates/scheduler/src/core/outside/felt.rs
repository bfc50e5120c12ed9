//! What a client feels of detours: by how much longer its requests take from being asked for until they are heard of.
//!
//! A head that is late once is late for everybody who waits for it, and for who comes until it has caught up: until the
//! foreground asks for nothing. In a closed loop who has been made to wait comes back later by as much, and is late for
//! that no more; and who comes when the head would have been waiting for work is late by less. So a turn that is lost makes no more requests late than there are clients. How many those are nobody
//! tells the core: who waits, and as many more as have lately been seen waiting at once. A burst of requests that come
//! together, as a cache's write-backs, is one client who may come back, else each would stand for one for long after the
//! burst is over. Thus a bound on what is felt holds for open arrivals as for closed loops, with and without pauses,
//! and with bursts between; but not where open arrivals queue in order of arrival before a drive that is nearly busy: what
//! is lost is felt there by more than have ever waited at once (docs/FAST04.md, "Outside the drive").

use super::clock::nanos;
use super::forecast::Late;
use crate::foreground::Pending;
use units::{Duration, Instant};

/// Requests after which the most that waited at once are forgotten, in two steps. Clients who think are seldom all there: over
/// half as many, ten of them who think 30 ms were seen too few for `all_that_clients_feel_is_in_the_account`; over twice as
/// many, what was told of open arrivals went further beyond what they felt.
const MEMORY: u32 = 2_048;

/// Requests that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// All of them.
    all: usize,
    /// Bursts, and requests that came by themselves.
    bursts: usize,
    /// When the first of them came.
    pub since: Instant,
}

impl Waiting {
    /// A burst whose first request is done counts no more, only its requests do.
    pub fn of<'a>(requests: impl Iterator<Item = &'a Pending>) -> Self {
        let none = Self { all: 0, bursts: 0, since: Instant::MAX };
        requests.fold(none, |Self { all, bursts, since }, request| Self {
            all: all + 1,
            bursts: bursts + usize::from(!request.follows),
            since: since.min(request.arrived),
        })
    }
}

/// The clients' side of the account.
#[derive(Clone, Debug, Default)]
pub(super) struct Felt {
    /// Requests done.
    done: u64,
    /// What the head lost, and the last request that is late for it.
    lost: Vec<(u64, i64)>,
    /// What of that those who wait now will feel.
    owed: i64,
    /// The most bursts that waited at once, lately and before that.
    most: [usize; 2],
    seen: u32,
}

impl Felt {
    /// A request is done that was `late`, and with it so many were `waiting`, of whom the first had waited so long when the
    /// head began with it: by how many nanoseconds its client has waited longer; less than nothing where more was gained.
    pub fn done(&mut self, late: Late, waiting: Waiting, waited: Duration) -> i64 {
        let Waiting { all: waiting, bursts, .. } = waiting;
        self.catch_up(nanos(waited));
        self.done += 1;
        self.seen += 1;
        if self.seen == MEMORY / 2 {
            (self.seen, self.most) = (0, [0, self.most[0]]);
        }
        self.most[0] = self.most[0].max(bursts);
        // Of those who are seen now and then, some do not wait at this moment, and come before the head has caught up.
        let clients = (waiting + self.most[0].max(self.most[1]) - bursts) as u64;
        if late.head != 0 {
            self.lost.push((self.done + clients.saturating_sub(1), late.head));
        }
        let felt = self.debt() + nanos(late.bus);
        self.lost.retain(|(last, _)| *last > self.done && waiting > 1);
        let others = i64::try_from(waiting.saturating_sub(1)).unwrap_or(i64::MAX);
        self.owed = self.debt().saturating_mul(others);
        felt
    }

    /// By how much the head is late.
    fn debt(&self) -> i64 {
        self.lost.iter().map(|(_, head)| head).sum()
    }

    /// A head that was ahead by more than anybody has waited would have had nothing to do by then: it is late by no more.
    fn catch_up(&mut self, waited: i64) {
        let mut less = self.debt().saturating_sub(waited);
        for (_, head) in self.lost.iter_mut().filter(|(_, head)| *head > 0) {
            let taken = less.clamp(0, *head);
            *head -= taken;
            less -= taken;
        }
    }

    /// What those who waited when the last request was done have yet to feel of what was lost by then, in nanoseconds.
    pub fn owed(&self) -> i64 {
        self.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: i64 = 6_000_000;
    const LONG: Duration = Duration::from_secs(1);
    const LATE: Late = Late { head: LOST, bus: Duration::ZERO };

    fn alone(all: usize) -> Waiting {
        Waiting { all, bursts: all, since: Instant::ZERO }
    }

    /// A burst, and two who came by themselves.
    fn burst(all: usize) -> Waiting {
        Waiting { bursts: 3, ..alone(all) }
    }

    #[test]
    fn a_lone_request_is_late_for_itself() {
        let mut felt = Felt::default();
        assert_eq!(felt.done(LATE, alone(1), LONG), LOST);
        assert_eq!(felt.done(Late::default(), alone(1), LONG), 0);
    }

    #[test]
    fn in_a_closed_loop_each_client_is_late_once() {
        let mut felt = Felt::default();
        (0..100).for_each(|_| assert_eq!(felt.done(Late::default(), alone(4), LONG), 0));
        let late = (0..100).map(|n| felt.done(if n == 50 { LATE } else { Late::default() }, alone(4), LONG));
        assert_eq!(late.sum::<i64>(), LOST * 4);
    }

    #[test]
    fn what_is_to_be_felt_yet_is_known_at_once() {
        let mut felt = Felt::default();
        felt.done(LATE, alone(4), LONG);
        assert_eq!(felt.owed(), LOST * 3);
        felt.done(Late::default(), alone(3), LONG);
        assert_eq!(felt.owed(), LOST * 2);
        felt.done(Late::default(), alone(1), LONG);
        assert_eq!(felt.owed(), 0);
    }

    #[test]
    fn until_nobody_waits_all_who_come_are_late() {
        let mut felt = Felt::default();
        felt.done(Late::default(), alone(20), LONG);
        assert_eq!(felt.done(LATE, alone(3), LONG), LOST);
        assert_eq!(felt.done(Late::default(), alone(3), LONG), LOST);
        assert_eq!(felt.done(LATE, alone(2), LONG), LOST * 2);
        assert_eq!(felt.done(Late::default(), alone(1), LONG), LOST * 2);
        assert_eq!(felt.done(Late::default(), alone(5), LONG), 0);
    }

    #[test]
    fn a_burst_is_late_while_it_waits_and_stands_for_nobody_after_it() {
        let mut felt = Felt::default();
        // Two clients and a burst of twenty.
        (3..23).rev().for_each(|all| assert_eq!(felt.done(Late::default(), burst(all), LONG), 0));
        let late = |felt: &mut Felt, waiting| {
            let whole =
                (0..100).map(|n| felt.done(if n == 0 { LATE } else { Late::default() }, waiting, LONG));
            whole.sum::<i64>()
        };
        assert_eq!(late(&mut felt, alone(2)), LOST * 3);
        assert_eq!(late(&mut felt, burst(22)), LOST * 22);
    }

    #[test]
    fn who_comes_when_the_head_would_have_been_free_is_late_by_less() {
        let mut felt = Felt::default();
        let ms = Duration::from_millis;
        felt.done(Late::default(), alone(9), LONG);
        assert_eq!(felt.done(LATE, alone(2), LONG), LOST);
        // It came 4 ms before the head was free: 2 of the 6 that were lost, nobody would have wanted.
        assert_eq!(felt.done(Late::default(), alone(2), ms(4)), 4_000_000);
        assert_eq!(felt.done(Late::default(), alone(2), LONG), 4_000_000);
        assert_eq!(felt.done(LATE, alone(2), ms(1)), LOST + 1_000_000);
        assert_eq!(felt.done(Late::default(), alone(2), LONG), LOST + 1_000_000);
    }

    #[test]
    fn what_comes_late_over_the_bus_is_late_alone() {
        let mut felt = Felt::default();
        let late = Late { head: 0, bus: Duration::from_nanos(LOST.unsigned_abs()) };
        assert_eq!(felt.done(late, alone(9), LONG), LOST);
        assert_eq!(felt.done(Late::default(), alone(9), LONG), 0);
    }
}
