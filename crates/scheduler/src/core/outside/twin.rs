//! What clients would have seen of the same requests without detours and idle time, where they come again a constant time
//! after they were served ([`returns`](super::returns)).
//!
//! The twin serves the same requests in the same order, and each takes as long. Where a head is late by `s` when it is done
//! with a request, the twin is done with it `s` sooner; and a client that heard `c` late of its last request asks the twin
//! for its next `c` sooner. So the twin begins when both it and the first of those who wait are there, which says what this
//! head is late by when it begins; what it loses then is added; and a client feels what its request is late by, less what
//! the client was late by when it asked for it. So what a head has lost once is felt by all whom it makes
//! wait, in whatever later turn.
//!
//! Who answers nobody comes when it comes: it is taken to be as late as who came first since somebody waited, and so
//! feels what the head has lost since then. So does who would have been before the one that was served before it: how the
//! twin would have gone on from there nobody knows.

use super::clock::{difference, nanos};
use super::returns::{Returns, Shift};
use std::collections::BTreeMap;
use units::Instant;

/// What was lost and felt is summed over the last so many requests: of late, and for how many feel a loss in the end.
const MEMORY: [f64; 2] = [4_096.0, 32_768.0];

/// No more feel what is lost, as far as it is told beforehand.
const MOST: f64 = 256.0;

/// A request that comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Its place in the order of arrival.
    pub sequence: u64,
    pub arrived: Instant,
    /// Whether it came on the heels of another.
    pub follows: bool,
}

/// A request that is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// Its place in the order of arrival.
    pub sequence: u64,
    /// When the head began with it.
    pub began: Instant,
    /// What the head has lost to detours and to idle time, in nanoseconds, since it was done with the one before.
    pub head: Shift,
    /// What its client waits longer for than the head.
    pub client: Shift,
    /// Whether others wait.
    pub others: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Twin {
    returns: Returns,
    /// By how much the head is late, and was when it began to be asked for something.
    head: Shift,
    first: Shift,
    /// By how much who came last and answered another was.
    last: Shift,
    /// Whether nobody waits.
    idle: bool,
    /// When the head was done last, and when the twin began with that request, from then in nanoseconds.
    done: Instant,
    began: i64,
    /// How much later than the twin's the client has heard of that, in nanoseconds: the head was free by then.
    heard: i64,
    /// By how much those are late who wait, by their place in the order of arrival.
    waiting: BTreeMap<u64, (Instant, Shift)>,
    /// What the head has lost, lost or gained, and what clients felt, in nanoseconds, over each memory.
    sums: [[f64; 3]; 2],
}

fn sum(shift: Shift) -> i64 {
    shift[0].saturating_add(shift[1])
}

fn plus(a: Shift, b: Shift) -> Shift {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}

/// No more than `most` in sum.
fn at_most(shift: Shift, most: i64) -> Shift {
    let over = sum(shift).saturating_sub(most).max(0);
    // Of detours as much as there is of them.
    let detours = over.min(shift[0].max(0));
    [shift[0] - detours, shift[1] - (over - detours)]
}

impl Twin {
    /// The head has done all that was asked for before the next request came.
    pub fn nobody_waits(&mut self) {
        self.idle = true;
    }

    /// Those came since the last request was done.
    pub fn came(&mut self, came: &mut [Came]) {
        came.sort_unstable_by_key(|came| (came.arrived, came.sequence));
        for of in came {
            let first = if self.idle && self.waiting.is_empty() { self.head } else { self.first };
            let same = if sum(self.last) > sum(first) { self.last } else { first };
            let answers = self.returns.come(of.arrived);
            self.last = answers.unwrap_or(self.last);
            let mut late = answers.unwrap_or(same);
            if self.idle && self.waiting.is_empty() {
                let sooner = difference(self.done, of.arrived).saturating_add(sum(late));
                if sooner > self.began {
                    late = same;
                }
                self.first = late;
            }
            self.waiting.insert(of.sequence, (of.arrived, late));
        }
    }

    /// A request is done; what its client feels.
    pub fn served(&mut self, now: Instant, served: &Served) -> Shift {
        let Served { sequence, began, head, client, others } = *served;
        // Since when the twin has had somebody to serve.
        let asked = self
            .waiting
            .values()
            .map(|(arrived, late)| difference(began, *arrived).saturating_add(sum(*late)));
        let asked = asked.max().unwrap_or(i64::MAX);
        let (arrived, own) = self.waiting.remove(&sequence).unwrap_or((began, self.head));
        let begins = if self.idle {
            let free = difference(arrived, self.done).max(0).saturating_add(self.heard);
            at_most(own, free)
        } else {
            at_most(self.head, asked)
        };
        if self.idle {
            self.first = begins;
        }
        let late = plus(begins, head);
        self.began = nanos(now.saturating_since(began)).saturating_add(sum(begins));
        (self.head, self.done, self.idle) = (late, now, !others);
        let late = plus(late, client);
        self.heard = sum(late);
        self.returns.done(now, late);
        let felt = [late[0].saturating_sub(own[0]), late[1].saturating_sub(own[1])];
        let head = sum(head) as f64;
        for (sums, memory) in self.sums.iter_mut().zip(MEMORY) {
            for (sum, by) in sums.iter_mut().zip([head, head.abs(), sum(felt) as f64]) {
                *sum += by - *sum / memory;
            }
        }
        felt
    }

    /// Whether this says what clients feel.
    pub fn is_known(&self) -> bool {
        self.returns.most_return()
    }

    /// How many feel what the head loses, in the end and in the mean, if this says what clients feel. Where it gains as well,
    /// the little that is left says nothing of that.
    pub fn who_feel(&self) -> Option<f64> {
        let [_, [lost, moved, felt]] = self.sums;
        (self.is_known() && lost > moved / 2.0).then(|| (felt / lost).clamp(0.0, MOST))
    }

    /// What is yet to be felt of what the head has lost of late, in nanoseconds, if it will be felt by as many as usual.
    pub fn owed(&self) -> Option<f64> {
        let [[lost, _, felt], _] = self.sums;
        self.who_feel().map(|who| (lost * who - felt).max(0.0))
    }

    /// Nobody waits any more who came before that.
    pub fn forget_before(&mut self, first: Instant) {
        self.waiting.retain(|_, (arrived, _)| *arrived >= first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Duration;

    /// Clients that think for so long, and what each of their requests takes, in microseconds; in order of arrival.
    fn responses(clients: usize, think: u64, serves: &[(u64, u64)], mut heard: impl FnMut(&Loop)) -> u64 {
        let mut next: Vec<u64> = (0..clients as u64).map(|n| n * think / clients as u64).collect();
        let (mut free, mut sum) = (0, 0);
        for &(service, lost) in serves {
            let who = (0..clients).min_by_key(|&who| (next[who], who)).unwrap();
            let began = free.max(next[who]);
            let done = began + service + lost;
            let others = (0..clients).any(|other| other != who && next[other] <= done);
            heard(&Loop { arrived: next[who], who, began, done, lost, others, all: &next });
            sum += done - next[who];
            (free, next[who]) = (done, done + think);
        }
        sum
    }

    struct Loop<'a> {
        arrived: u64,
        who: usize,
        began: u64,
        done: u64,
        lost: u64,
        others: bool,
        all: &'a [u64],
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// By how many microseconds responses were longer in sum, as the twin tells, and as they were.
    fn told_and_true(clients: usize, think: u64, serves: &[(u64, u64)]) -> (i64, i64) {
        let mut twin = Twin::default();
        let (mut told, mut sequence, mut heard) = (0, 0, 0);
        let mut known: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let with = responses(clients, think, serves, |of| {
            let mut new: Vec<(u64, usize)> = (0..clients)
                .map(|who| (of.all[who], who))
                .filter(|&(arrived, who)| {
                    arrived <= of.done && known.get(&who).is_none_or(|had| had.0 != arrived)
                })
                .collect();
            new.sort_unstable();
            let mut came: Vec<Came> = Vec::new();
            for (arrived, who) in new {
                known.insert(who, (arrived, sequence));
                came.push(Came { sequence, arrived: at(arrived), follows: false });
                sequence += 1;
            }
            twin.came(&mut came);
            let head = [i64::try_from(of.lost).unwrap() * 1_000, 0];
            let served = Served {
                sequence: known[&of.who].1,
                began: at(of.began),
                head,
                client: [0; 2],
                others: of.others,
            };
            assert_eq!(known[&of.who].0, of.arrived);
            let felt = twin.served(at(of.done), &served);
            heard += 1;
            told += if twin.is_known() { sum(felt) / 1_000 } else { i64::try_from(of.lost).unwrap() };
        });
        let plain: Vec<_> = serves.iter().map(|(service, _)| (*service, 0)).collect();
        let without = responses(clients, think, &plain, |_| {});
        (told, i64::try_from(with).unwrap() - i64::try_from(without).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Requests of clients that think, of which one in fifty takes half a turn longer: what they felt of that.
        #[test]
        fn what_is_lost_is_felt_for_many_turns(
            clients in 2..60usize,
            busy in 30..85u64,
            services in prop::collection::vec((4_000..12_000u64, 0..50u32), 20_000),
        ) {
            let think = clients as u64 * 8_000 * 100 / busy;
            let serves: Vec<_> =
                services.iter().map(|&(service, chance)| (service, if chance == 0 { 3_000 } else { 0 })).collect();
            let (told, real) = told_and_true(clients, think, &serves);
            let lost: u64 = serves.iter().map(|(_, lost)| lost).sum();
            let off = (told - real) as f64 / lost as f64;
            prop_assert!((-0.5..1.0).contains(&off), "{told} us told of {real} us felt, {lost} us lost");
        }
    }
}
