//! What a client feels of detours: by how much longer its requests take from being asked for until they are heard of.
//!
//! A head that is late once is late for everybody who waits for it, and for who comes until it has caught up: until the
//! foreground asks for nothing. In a closed loop who has been made to wait comes back later by as much, and is late for
//! that no more; and who comes when the head would have been waiting for work is late by less. So a turn that is lost
//! makes no more requests late than there are clients: who waits, and as many more as have lately been seen waiting at
//! once, or as there must be if the [`arrivals`](super::arrivals) answer what is done; without an end if they do not. A
//! burst of requests that come together, as a cache's write-backs, is one client who may come back, else each would stand
//! for one for long after the burst is over. Where most who come do so a constant time after they were served, those who
//! were late together come together again, and feel what was lost for many turns: how much that is in the mean, a
//! [rehearsal](super::rehearsal) says, and all of it is told at once. Thus a bound on what is felt holds for open arrivals, also of
//! those who keep a pace of their own, as for closed loops, with and without pauses, in whatever order, and with bursts between.

use super::arrivals::Arrivals;
use super::busy::Frees;
use super::clock::nanos;
use super::forecast::Late;
use super::rehearsal::Rehearsal;
use super::script::Came;
use crate::foreground::Pending;
use units::{Duration, Instant};

/// Requests after which the most that waited at once are forgotten, in two steps. Clients who think are seldom all there: over
/// half as many, ten of them who think 30 ms were seen too few for `all_that_clients_feel_is_in_the_account`; over twice as
/// many, what was told of open arrivals went further beyond what they felt.
const MEMORY: u32 = 2_048;

/// So many losses are told apart.
const MOST_LOST: usize = 256;

/// Requests that wait.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// All of them.
    all: usize,
    /// Bursts, and requests that came by themselves.
    bursts: usize,
    /// When the first of them came.
    pub since: Instant,
    /// When a request was heard to be done last.
    heard: Instant,
    /// Those who came since.
    came: Vec<Came>,
    /// Whether the head has still to write what was reported: who comes meanwhile waits for that as for one who waits.
    pub to_write: bool,
    /// The place in the order of arrival of the one that is done.
    pub done: u64,
    /// When the head is free behind that.
    pub frees: Frees,
}

impl Waiting {
    /// Those that wait when a request is done, after one before that was `heard` of then. A burst whose first request is
    /// done counts no more, only its requests do.
    pub fn of<'a>(requests: impl Iterator<Item = &'a Pending>, heard: Instant) -> Self {
        let none = Self {
            all: 0,
            bursts: 0,
            since: Instant::MAX,
            heard,
            came: Vec::new(),
            to_write: false,
            done: 0,
            frees: Frees::At(Instant::ZERO),
        };
        requests.fold(none, |mut waiting, request| {
            waiting.all += 1;
            waiting.since = waiting.since.min(request.arrived);
            waiting.bursts += usize::from(!request.follows);
            if request.arrived >= heard {
                let Pending { sequence, arrived, follows, .. } = *request;
                waiting.came.push(Came { sequence, arrived, follows });
            }
            waiting
        })
    }
}

/// The clients' side of the account.
#[derive(Clone, Debug, Default)]
pub(super) struct Felt {
    /// Requests done.
    done: u64,
    /// What the head lost to detours and to idle time, and the request from which on as many are late for it as there are
    /// clients.
    lost: Vec<(u64, [i64; 2])>,
    /// What it has lost to idle time since a request was done.
    after_idle: i64,
    /// By how much longer than that the next request's client waits for idle time, and nobody else.
    heard_after_idle: i64,
    /// What of detours those who wait now will feel, and who is thought to come before nobody waits.
    owed: i64,
    /// How many clients there are, if those who come answer what is done.
    clients: Option<u64>,
    /// How many would feel what the next request loses.
    next: i64,
    /// The most bursts that waited at once, lately and before that.
    most: [usize; 2],
    seen: u32,
    arrivals: Arrivals,
    /// Where clients come again after a constant time.
    rehearsal: Rehearsal,
}

impl Felt {
    /// The next request begins so many nanoseconds late for what was done in idle time.
    pub fn after_idle(&mut self, late: i64) {
        self.after_idle += late;
    }

    /// The client of the next request, and nobody else, waits so many nanoseconds longer for idle time than the head is late for it.
    pub fn heard_after_idle(&mut self, late: i64) {
        self.heard_after_idle += late;
    }

    /// At `now` a request is heard of that was `late` for detours, and with it so many were `waiting`, of whom the first had
    /// waited so long when the head began with it: by how many nanoseconds its client has waited longer for detours, and for
    /// idle time; less than nothing where more was gained. What idle time costs may be `unforeseen`.
    pub fn done(
        &mut self,
        now: Instant,
        late: Late,
        waiting: Waiting,
        (waited, turn): (Duration, Duration),
        unforeseen: bool,
    ) -> [i64; 2] {
        let Waiting { all: waiting, bursts, since, heard, mut came, to_write, done: sequence, frees } =
            waiting;
        let behind = waiting + usize::from(to_write);
        self.catch_up(nanos(waited));
        self.arrivals.done(
            heard,
            now,
            waiting - came.len(),
            bursts,
            came.iter().filter(|of| !of.follows).map(|of| of.arrived).collect(),
        );
        let from = waiting - came.len();
        self.rehearsal.forget_before(since);
        self.rehearsal.came(&mut came);
        self.done += 1;
        self.seen += 1;
        if self.seen == MEMORY / 2 {
            (self.seen, self.most) = (0, [0, self.most[0]]);
        }
        self.most[0] = self.most[0].max(bursts);
        let head = [late.head, std::mem::take(&mut self.after_idle)];
        self.rehearsal.served(now, sequence, (heard, from, frees), (turn, head[1], unforeseen));
        if head != [0, 0] {
            self.remember((self.done + (waiting - bursts) as u64, head));
        }
        let felt = [0, 1].map(|why| self.lost.iter().map(|(_, head)| head[why]).sum::<i64>());
        // Of those who are seen now and then, some do not wait at this moment, and come before the head has caught up.
        let clients = self.arrivals.clients(self.most[0].max(self.most[1])).map(|clients| clients as u64);
        self.clients = clients;
        let last = |from: u64| clients.map_or(u64::MAX, |clients| (from + clients).saturating_sub(1));
        self.lost.retain(|(from, _)| last(*from) > self.done && behind > 1);
        let others = self.arrivals.until_nobody_waits(behind.saturating_sub(1));
        let left = |from: u64| i64::try_from((last(from) - self.done).min(others)).unwrap_or(i64::MAX);
        self.owed = self
            .lost
            .iter()
            .fold(0, |owed: i64, &(from, [head, _])| owed.saturating_add(head.saturating_mul(left(from))));
        self.next = left(self.done + 1 + (waiting - bursts) as u64).saturating_add(1);
        let client = [nanos(late.bus), std::mem::take(&mut self.heard_after_idle)];
        let Some([detours, idle]) = self.rehearsal.who_feel() else {
            return [0, 1].map(|why| felt[why] + client[why]);
        };
        // That idle time has lost nothing yet does not say that one would feel it alone.
        let who_feel = [detours, if unforeseen { idle.max(detours) } else { idle }];
        // All of it is told at once. Where nothing is foreseen there are no detours.
        (self.next, self.owed) = (self.next.max(who_feel[usize::from(unforeseen)].ceil() as i64), 0);
        [0, 1].map(|why| (head[why] as f64 * who_feel[why]) as i64 + client[why])
    }

    /// Of very many losses, two that were not long apart are taken for one at the time of the later.
    fn remember(&mut self, lost: (u64, [i64; 2])) {
        if self.lost.len() == MOST_LOST {
            let (_, [detours, idle]) = self.lost.remove(0);
            if let Some((_, next)) = self.lost.first_mut() {
                *next = [next[0] + detours, next[1] + idle];
            }
        }
        self.lost.push(lost);
    }

    /// Whether most clients pause for a constant time, and wait for each other: one alone is late by what the head has lost, and no more.
    pub fn most_return(&self) -> bool {
        self.most[0].max(self.most[1]) > 1 && self.rehearsal.most_return()
    }

    /// Whether it is not known yet how much longer those wait who come again after a constant time and find each other late.
    pub fn is_to_be_rehearsed(&self) -> bool {
        self.most_return() && self.rehearsal.who_feel().is_none()
    }

    /// Whether clients ask several times before they pause for a constant time.
    pub fn in_sessions(&self) -> bool {
        self.rehearsal.in_sessions()
    }

    /// The head has done all that was asked for before the next request came.
    pub fn nobody_waits(&mut self) {
        self.lost.clear();
    }

    /// A head that was ahead by more than anybody has waited would have had nothing to do by then: it is late by no more.
    pub fn catch_up(&mut self, waited: i64) {
        let heads = || self.lost.iter().flat_map(|(_, heads)| heads);
        let mut less = heads().sum::<i64>().saturating_sub(waited);
        for head in self.lost.iter_mut().flat_map(|(_, heads)| heads).filter(|head| **head > 0) {
            let taken = less.clamp(0, *head);
            *head -= taken;
            less -= taken;
        }
    }

    /// What is yet to be felt of what detours had lost when the last request was done, in nanoseconds, and what would be if
    /// the head lost so much now: by those who waited, and by as many more as are thought to come before nobody waits.
    pub fn at_risk(&self, nanos: i64) -> i64 {
        self.owed.saturating_add(self.next.saturating_mul(nanos))
    }

    /// What those would feel, beyond that, who come while the head loses so much, in nanoseconds: half of it in the mean, and
    /// there are no more of them than there are clients.
    pub fn at_risk_meanwhile(&self, nanos: i64) -> i64 {
        let clients = self.clients.filter(|_| self.arrivals.are_counted());
        let others = clients.map_or(f64::MAX, |clients| (clients as f64 - self.next as f64).max(0.0));
        let meanwhile = (self.arrivals.come_in(nanos as f64 / 1e9) / 2.0).min(others);
        (meanwhile * nanos as f64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: i64 = 6_000_000;
    const TURN: Duration = Duration::from_millis(6);
    const LONG: Duration = Duration::from_secs(1);
    const NOW: Instant = Instant::ZERO;
    const LATE: Late = Late { head: LOST, bus: Duration::ZERO };

    impl Felt {
        fn of_detours(&mut self, late: Late, waiting: Waiting, waited: Duration) -> i64 {
            let [detours, idle] = self.done(NOW, late, waiting, (waited, TURN), false);
            assert_eq!(idle, 0);
            detours
        }
    }

    fn alone(all: usize) -> Waiting {
        Waiting {
            all,
            bursts: all,
            since: Instant::ZERO,
            heard: NOW,
            came: Vec::new(),
            to_write: false,
            done: 0,
            frees: Frees::At(Instant::ZERO),
        }
    }

    /// A burst, and two who came by themselves.
    fn burst(all: usize) -> Waiting {
        Waiting { bursts: 3, ..alone(all) }
    }

    #[test]
    fn a_lone_request_is_late_for_itself() {
        let mut felt = Felt::default();
        assert_eq!(felt.of_detours(LATE, alone(1), LONG), LOST);
        assert_eq!(felt.of_detours(Late::default(), alone(1), LONG), 0);
    }

    #[test]
    fn in_a_closed_loop_each_client_is_late_once() {
        let mut felt = Felt::default();
        (0..100).for_each(|_| assert_eq!(felt.of_detours(Late::default(), alone(4), LONG), 0));
        let late =
            (0..100).map(|n| felt.of_detours(if n == 50 { LATE } else { Late::default() }, alone(4), LONG));
        assert_eq!(late.sum::<i64>(), LOST * 4);
    }

    #[test]
    fn what_is_to_be_felt_yet_is_known_at_once() {
        let mut felt = Felt::default();
        felt.of_detours(LATE, alone(4), LONG);
        assert_eq!(felt.at_risk(0), LOST * 3);
        felt.of_detours(Late::default(), alone(3), LONG);
        assert_eq!(felt.at_risk(0), LOST * 2);
        felt.of_detours(Late::default(), alone(1), LONG);
        assert_eq!(felt.at_risk(0), 0);
    }

    #[test]
    fn until_nobody_waits_all_who_come_are_late() {
        let mut felt = Felt::default();
        felt.of_detours(Late::default(), alone(20), LONG);
        assert_eq!(felt.of_detours(LATE, alone(3), LONG), LOST);
        assert_eq!(felt.of_detours(Late::default(), alone(3), LONG), LOST);
        assert_eq!(felt.of_detours(LATE, alone(2), LONG), LOST * 2);
        assert_eq!(felt.of_detours(Late::default(), alone(1), LONG), LOST * 2);
        assert_eq!(felt.of_detours(Late::default(), alone(5), LONG), 0);
    }

    #[test]
    fn a_burst_is_late_while_it_waits_and_stands_for_nobody_after_it() {
        let mut felt = Felt::default();
        // Two clients and a burst of twenty.
        (3..23).rev().for_each(|all| assert_eq!(felt.of_detours(Late::default(), burst(all), LONG), 0));
        let late = |felt: &mut Felt, waiting: Waiting| {
            let whole = (0..100)
                .map(|n| felt.of_detours(if n == 0 { LATE } else { Late::default() }, waiting.clone(), LONG));
            whole.sum::<i64>()
        };
        assert_eq!(late(&mut felt, alone(2)), LOST * 3);
        assert_eq!(late(&mut felt, burst(22)), LOST * 22);
    }

    #[test]
    fn who_comes_when_the_head_would_have_been_free_is_late_by_less() {
        let mut felt = Felt::default();
        let ms = Duration::from_millis;
        felt.of_detours(Late::default(), alone(9), LONG);
        assert_eq!(felt.of_detours(LATE, alone(2), LONG), LOST);
        // It came 4 ms before the head was free: 2 of the 6 that were lost, nobody would have wanted.
        assert_eq!(felt.of_detours(Late::default(), alone(2), ms(4)), 4_000_000);
        assert_eq!(felt.of_detours(Late::default(), alone(2), LONG), 4_000_000);
        assert_eq!(felt.of_detours(LATE, alone(2), ms(1)), LOST + 1_000_000);
        assert_eq!(felt.of_detours(Late::default(), alone(2), LONG), LOST + 1_000_000);
    }

    #[test]
    fn what_comes_late_over_the_bus_is_late_alone() {
        let mut felt = Felt::default();
        let late = Late { head: 0, bus: Duration::from_nanos(LOST.unsigned_abs()) };
        assert_eq!(felt.of_detours(late, alone(9), LONG), LOST);
        assert_eq!(felt.of_detours(Late::default(), alone(9), LONG), 0);
    }

    #[test]
    fn what_idle_time_has_cost_is_felt_likewise() {
        let mut felt = Felt::default();
        felt.after_idle(LOST);
        assert_eq!(felt.done(NOW, LATE, alone(3), (LONG, TURN), false), [LOST; 2]);
        assert_eq!(felt.at_risk(0), LOST * 2);
        assert_eq!(felt.done(NOW, Late::default(), alone(3), (LONG, TURN), false), [LOST; 2]);
        assert_eq!(felt.done(NOW, LATE, alone(1), (LONG, TURN), false), [LOST * 2, LOST]);
        assert_eq!(felt.done(NOW, Late::default(), alone(1), (LONG, TURN), false), [0; 2]);
    }
}
