//! The effect of detours on clients: the increase of their response times.
//!
//! One delay of the head delays all requests that wait, and those that arrive until the head has caught up, that is until
//! the queue is empty. In a closed loop a delayed client returns with the same delay, so its next request is not delayed;
//! and a request that arrives shortly before the queue would have been empty is delayed by less. Therefore, in a loop, a lost
//! revolution delays at most as many requests as there are clients. The number of clients is the largest number that recently
//! waited at once, or the number that the [`arrivals`](super::arrivals) show. Without a loop there is no such limit. A burst of
//! simultaneous requests, such as a cache's write-backs, counts as one client; otherwise each of its requests would count as a
//! client long after the burst. The bound on harm therefore holds for open and paced arrivals, for closed loops, and for bursts.

use super::arrivals::Arrivals;
use super::clock::nanos;
use super::forecast::Late;
use crate::foreground::Pending;
use alloc::vec::Vec;
use units::{Duration, Instant};

/// The maximum of requests over which the largest number that waited at once is remembered, in two periods of half that number.
/// Clients with think times are seldom all present: with half of this number, the count of ten clients with think times of 30 ms
/// is too low (`all_harm_to_clients_is_in_the_estimate`); with twice the number, the estimate for open arrivals is further above
/// the true delay.
const REQUESTS_COUNTED_MAX: u32 = 2_048;

/// The maximum of separately counted losses of head time; with more, the two oldest are joined.
const LOSSES_MAX: usize = 256;

/// Requests that wait.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The number of waiting requests.
    all: usize,
    /// The number of bursts and single requests among them.
    bursts: usize,
    /// The arrival of the first of them.
    pub since: Instant,
    /// The previous completion at the host.
    heard: Instant,
    /// The arrivals since that completion, of single requests and of the first request of each burst.
    came: Vec<Instant>,
    /// The number of all arrivals since that completion.
    new: usize,
    /// Whether the drive still has to write cached writes: a request that arrives meanwhile waits for them.
    pub to_write: bool,
}

impl Waiting {
    /// Returns the counts of the requests that wait at a completion; `heard` is the instant of the previous
    /// one. A burst counts as long as its first request waits.
    pub fn of<'a>(requests: impl Iterator<Item = &'a Pending>, heard: Instant) -> Self {
        let none =
            Self { all: 0, bursts: 0, since: Instant::MAX, heard, came: Vec::new(), new: 0, to_write: false };
        requests.fold(none, |mut waiting, request| {
            waiting.all += 1;
            waiting.since = waiting.since.min(request.arrived);
            waiting.bursts += usize::from(!request.follows);
            if request.arrived >= heard {
                waiting.new += 1;
                waiting.came.extend((!request.follows).then_some(request.arrived));
            }
            waiting
        })
    }
}

/// The clients' part of the harm estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientHarm {
    /// Finished requests.
    done: u64,
    /// The head's losses, each with the number of the request from which on it delays as many requests as there are
    /// clients, and with its parts in ns by detours and by idle time.
    lost: Vec<(u64, [i64; 2])>,
    /// The loss to idle time since the last completion, in ns.
    after_idle: i64,
    /// The delay by detours that is still to come, in ns, of waiting requests and of the expected arrivals until the queue
    /// is empty.
    owed: i64,
    /// The number of clients, if arrivals depend on completions.
    clients: Option<u64>,
    /// The number of requests that would be delayed by the next loss.
    next: i64,
    /// The maximum of bursts that waited at once, in the current and the previous period.
    most: [usize; 2],
    seen: u32,
    arrivals: Arrivals,
}

impl ClientHarm {
    /// Records that the head starts the next request `late` ns late because of idle time.
    pub fn after_idle(&mut self, late: i64) {
        self.after_idle += late;
    }

    /// Records a completion at `now` that was `late` because of detours. `waiting` are the requests present, and `waited` is
    /// the time for which the first of them had waited when the head began with the finished one. Returns the delay of the
    /// finished request in ns by detours and by idle time; negative means a gain.
    pub fn done(&mut self, now: Instant, late: Late, waiting: Waiting, waited: Duration) -> [i64; 2] {
        let Waiting { all: waiting, bursts, heard, came, new, to_write, .. } = waiting;
        let behind = waiting + usize::from(to_write);
        self.catch_up(nanos(waited));
        self.arrivals.done(heard, now, waiting - new, bursts, came);
        self.done += 1;
        self.seen += 1;
        if self.seen == REQUESTS_COUNTED_MAX / 2 {
            (self.seen, self.most) = (0, [0, self.most[0]]);
        }
        self.most[0] = self.most[0].max(bursts);
        let head = [late.head, core::mem::take(&mut self.after_idle)];
        if head != [0, 0] {
            self.remember((self.done + (waiting - bursts) as u64, head));
        }
        let client_harm = [0, 1].map(|why| self.lost.iter().map(|(_, head)| head[why]).sum::<i64>());
        // Some clients do not wait at this moment and arrive before the head has caught up.
        let clients = self.arrivals.clients(self.most[0].max(self.most[1])).map(|clients| clients as u64);
        self.clients = clients;
        let last = |from: u64| clients.map_or(u64::MAX, |clients| (from + clients).saturating_sub(1));
        self.lost.retain(|(from, _)| last(*from) > self.done && behind > 1);
        let others = self.arrivals.completions_until_empty(behind.saturating_sub(1));
        let left = |from: u64| i64::try_from((last(from) - self.done).min(others)).unwrap_or(i64::MAX);
        self.owed = self
            .lost
            .iter()
            .fold(0, |owed: i64, &(from, [head, _])| owed.saturating_add(head.saturating_mul(left(from))));
        self.next = left(self.done + 1 + (waiting - bursts) as u64).saturating_add(1);
        let [detours, idle] = client_harm;
        [detours + nanos(late.bus), idle]
    }

    /// Adds a loss. If there are too many, the oldest is added to the one after it.
    fn remember(&mut self, lost: (u64, [i64; 2])) {
        if self.lost.len() == LOSSES_MAX {
            let (_, [detours, idle]) = self.lost.remove(0);
            if let Some((_, next)) = self.lost.first_mut() {
                *next = [next[0] + detours, next[1] + idle];
            }
        }
        self.lost.push(lost);
    }

    /// Records that the queue was empty, so that earlier losses delay no further request.
    pub fn queue_was_empty(&mut self) {
        self.lost.clear();
    }

    /// Limits the losses to the time that requests have waited: without its losses the head would have been idle before the
    /// first of them arrived.
    pub fn catch_up(&mut self, waited: i64) {
        let heads = || self.lost.iter().flat_map(|(_, heads)| heads);
        let mut less = heads().sum::<i64>().saturating_sub(waited);
        for head in self.lost.iter_mut().flat_map(|(_, heads)| heads).filter(|head| **head > 0) {
            let taken = less.clamp(0, *head);
            *head -= taken;
            less -= taken;
        }
    }

    /// Returns the delay in ns that losses to detours will still cause if the head loses `nanos` more now while `waiting`
    /// requests wait: the delay of these, and of the expected arrivals until the queue is empty.
    pub fn at_risk(&self, nanos: i64, waiting: usize) -> i64 {
        // Many requests may have arrived since the last completion.
        let delayed = self.next.max(waiting as i64);
        self.owed.saturating_add(delayed.saturating_mul(nanos))
    }

    /// Returns the further delay in ns of requests that arrive during a loss: half of it in the mean, for at most as many
    /// requests as there are clients.
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

    const LOST_NS: i64 = 6_000_000;
    const LONG_TIME: Duration = Duration::from_secs(1);
    const NOW: Instant = Instant::ZERO;
    const LATE: Late = Late { head: LOST_NS, bus: Duration::ZERO };

    impl ClientHarm {
        fn of_detours(&mut self, late: Late, waiting: Waiting, waited: Duration) -> i64 {
            let [detours, idle] = self.done(NOW, late, waiting, waited);
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
            new: 0,
            to_write: false,
        }
    }

    /// Returns `all` waiting requests: two single ones, and a burst of the others.
    fn burst(all: usize) -> Waiting {
        Waiting { bursts: 3, ..alone(all) }
    }

    #[test]
    fn a_lone_request_is_late_for_itself() {
        let mut client_harm = ClientHarm::default();
        assert_eq!(client_harm.of_detours(LATE, alone(1), LONG_TIME), LOST_NS);
        assert_eq!(client_harm.of_detours(Late::default(), alone(1), LONG_TIME), 0);
    }

    #[test]
    fn requests_that_arrived_since_the_last_completion_are_at_risk() {
        let mut client_harm = ClientHarm::default();
        client_harm.of_detours(Late::default(), alone(1), LONG_TIME);
        assert_eq!(client_harm.at_risk(LOST_NS, 1), LOST_NS);
        assert_eq!(client_harm.at_risk(LOST_NS, 9), LOST_NS * 9);
    }

    #[test]
    fn in_a_closed_loop_each_client_is_late_once() {
        let mut client_harm = ClientHarm::default();
        (0..100).for_each(|_| assert_eq!(client_harm.of_detours(Late::default(), alone(4), LONG_TIME), 0));
        let late = (0..100).map(|n| {
            client_harm.of_detours(if n == 50 { LATE } else { Late::default() }, alone(4), LONG_TIME)
        });
        assert_eq!(late.sum::<i64>(), LOST_NS * 4);
    }

    #[test]
    fn expected_delays_are_known_at_once() {
        let mut client_harm = ClientHarm::default();
        client_harm.of_detours(LATE, alone(4), LONG_TIME);
        assert_eq!(client_harm.at_risk(0, 0), LOST_NS * 3);
        client_harm.of_detours(Late::default(), alone(3), LONG_TIME);
        assert_eq!(client_harm.at_risk(0, 0), LOST_NS * 2);
        client_harm.of_detours(Late::default(), alone(1), LONG_TIME);
        assert_eq!(client_harm.at_risk(0, 0), 0);
    }

    #[test]
    fn until_the_queue_is_empty_all_arrivals_are_late() {
        let mut client_harm = ClientHarm::default();
        client_harm.of_detours(Late::default(), alone(20), LONG_TIME);
        assert_eq!(client_harm.of_detours(LATE, alone(3), LONG_TIME), LOST_NS);
        assert_eq!(client_harm.of_detours(Late::default(), alone(3), LONG_TIME), LOST_NS);
        assert_eq!(client_harm.of_detours(LATE, alone(2), LONG_TIME), LOST_NS * 2);
        assert_eq!(client_harm.of_detours(Late::default(), alone(1), LONG_TIME), LOST_NS * 2);
        assert_eq!(client_harm.of_detours(Late::default(), alone(5), LONG_TIME), 0);
    }

    #[test]
    fn a_burst_is_late_while_it_waits_and_counts_as_no_clients_afterwards() {
        let mut client_harm = ClientHarm::default();
        // Two clients and a burst of twenty.
        (3..23)
            .rev()
            .for_each(|all| assert_eq!(client_harm.of_detours(Late::default(), burst(all), LONG_TIME), 0));
        let late = |client_harm: &mut ClientHarm, waiting: Waiting| {
            let whole = (0..100).map(|n| {
                client_harm.of_detours(
                    if n == 0 { LATE } else { Late::default() },
                    waiting.clone(),
                    LONG_TIME,
                )
            });
            whole.sum::<i64>()
        };
        assert_eq!(late(&mut client_harm, alone(2)), LOST_NS * 3);
        assert_eq!(late(&mut client_harm, burst(22)), LOST_NS * 22);
    }

    #[test]
    fn an_arrival_at_a_head_that_would_have_been_free_is_late_by_less() {
        let mut client_harm = ClientHarm::default();
        let ms = Duration::from_millis;
        client_harm.of_detours(Late::default(), alone(9), LONG_TIME);
        assert_eq!(client_harm.of_detours(LATE, alone(2), LONG_TIME), LOST_NS);
        // The request arrived 4 ms before the head was free: 2 of the 6 ms that were lost would have been idle.
        assert_eq!(client_harm.of_detours(Late::default(), alone(2), ms(4)), 4_000_000);
        assert_eq!(client_harm.of_detours(Late::default(), alone(2), LONG_TIME), 4_000_000);
        assert_eq!(client_harm.of_detours(LATE, alone(2), ms(1)), LOST_NS + 1_000_000);
        assert_eq!(client_harm.of_detours(Late::default(), alone(2), LONG_TIME), LOST_NS + 1_000_000);
    }

    #[test]
    fn data_that_are_late_on_the_bus_delay_only_their_request() {
        let mut client_harm = ClientHarm::default();
        let late = Late { head: 0, bus: Duration::from_nanos(LOST_NS.unsigned_abs()) };
        assert_eq!(client_harm.of_detours(late, alone(9), LONG_TIME), LOST_NS);
        assert_eq!(client_harm.of_detours(Late::default(), alone(9), LONG_TIME), 0);
    }

    #[test]
    fn losses_to_idle_time_delay_clients_like_those_to_detours() {
        let mut client_harm = ClientHarm::default();
        client_harm.after_idle(LOST_NS);
        assert_eq!(client_harm.done(NOW, LATE, alone(3), LONG_TIME), [LOST_NS; 2]);
        assert_eq!(client_harm.at_risk(0, 0), LOST_NS * 2);
        assert_eq!(client_harm.done(NOW, Late::default(), alone(3), LONG_TIME), [LOST_NS; 2]);
        assert_eq!(client_harm.done(NOW, LATE, alone(1), LONG_TIME), [LOST_NS * 2, LOST_NS]);
        assert_eq!(client_harm.done(NOW, Late::default(), alone(1), LONG_TIME), [0; 2]);
    }
}
