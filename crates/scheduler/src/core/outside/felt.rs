//! What a client feels of detours: by how much longer its requests take from being asked for until they are heard of.
//!
//! A head that is late once is late for everybody who waits for it, and for who comes until it has caught up: until the
//! foreground asks for nothing. In a closed loop who has been made to wait comes back later by as much, and is late for
//! that no more; so a turn that is lost makes no more requests late than there are clients. How many those are nobody
//! tells the core: as many as have been seen waiting at once. Thus a bound on what is felt holds for open arrivals, where a
//! busy drive multiplies what is lost at the head, as for closed loops, with and without pauses.

use super::clock::nanos;
use super::forecast::Late;
use std::collections::VecDeque;

/// Requests after which the most that waited at once are forgotten, in two steps.
const MEMORY: u32 = 1_024;

/// The clients' side of the account.
#[derive(Clone, Debug, Default)]
pub(super) struct Felt {
    /// Requests done.
    done: u64,
    /// What the head lost, and the last request that is late for it.
    lost: VecDeque<(u64, i64)>,
    /// The sum of that.
    debt: i64,
    /// What of that those who wait now will feel.
    owed: i64,
    /// The most that waited at once, lately and before that.
    most: [usize; 2],
    seen: u32,
}

impl Felt {
    /// A request is done that was `late`, and with it `waiting` asked for something: by how many nanoseconds its client has
    /// waited longer; less than nothing where more was gained.
    pub fn done(&mut self, late: Late, waiting: usize) -> i64 {
        self.done += 1;
        self.seen += 1;
        if self.seen == MEMORY / 2 {
            (self.seen, self.most) = (0, [0, self.most[0]]);
        }
        self.most[0] = self.most[0].max(waiting);
        let clients = self.most[0].max(self.most[1]) as u64;
        if late.head != 0 {
            self.lost.push_back((self.done + clients.saturating_sub(1), late.head));
            self.debt += late.head;
        }
        let felt = self.debt + nanos(late.bus);
        let done = self.done;
        while let Some(&(_, head)) = self.lost.front().filter(|(last, _)| *last <= done) {
            self.debt -= head;
            self.lost.pop_front();
        }
        if waiting <= 1 {
            self.lost.clear();
            self.debt = 0;
        }
        let others = i64::try_from(waiting.saturating_sub(1)).unwrap_or(i64::MAX);
        self.owed = self.debt.saturating_mul(others);
        felt
    }

    /// What those who waited when the last request was done have yet to feel of what was lost by then, in nanoseconds.
    pub fn owed(&self) -> i64 {
        self.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    const LOST: i64 = 6_000_000;
    const LATE: Late = Late { head: LOST, bus: Duration::ZERO };

    #[test]
    fn a_lone_request_is_late_for_itself() {
        let mut felt = Felt::default();
        assert_eq!(felt.done(LATE, 1), LOST);
        assert_eq!(felt.done(Late::default(), 1), 0);
    }

    #[test]
    fn in_a_closed_loop_each_client_is_late_once() {
        let mut felt = Felt::default();
        (0..100).for_each(|_| assert_eq!(felt.done(Late::default(), 4), 0));
        let late = (0..100).map(|n| felt.done(if n == 50 { LATE } else { Late::default() }, 4));
        assert_eq!(late.sum::<i64>(), LOST * 4);
    }

    #[test]
    fn what_is_to_be_felt_yet_is_known_at_once() {
        let mut felt = Felt::default();
        felt.done(LATE, 4);
        assert_eq!(felt.owed(), LOST * 3);
        felt.done(Late::default(), 3);
        assert_eq!(felt.owed(), LOST * 2);
        felt.done(Late::default(), 1);
        assert_eq!(felt.owed(), 0);
    }

    #[test]
    fn until_nobody_waits_all_who_come_are_late() {
        let mut felt = Felt::default();
        felt.done(Late::default(), 20);
        assert_eq!(felt.done(LATE, 3), LOST);
        assert_eq!(felt.done(Late::default(), 3), LOST);
        assert_eq!(felt.done(LATE, 2), LOST * 2);
        assert_eq!(felt.done(Late::default(), 1), LOST * 2);
        assert_eq!(felt.done(Late::default(), 5), 0);
    }

    #[test]
    fn what_comes_late_over_the_bus_is_late_alone() {
        let mut felt = Felt::default();
        let late = Late { head: 0, bus: Duration::from_nanos(LOST.unsigned_abs()) };
        assert_eq!(felt.done(late, 9), LOST);
        assert_eq!(felt.done(Late::default(), 9), 0);
    }
}
