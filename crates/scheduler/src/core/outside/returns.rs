//! Clients with a constant think time: requests that arrive a constant time after the client's last completion.
//!
//! A delayed client of this kind arrives with the same delay, and clients that were delayed together arrive together. The delay lasts for all following rounds, and only the delay of the client's last request shows how much later it arrives
//! ([`felt`](super::felt)). A constant pause shows in the completions: one of them precedes each arrival by that pause, to a
//! tenth of a millisecond. Candidates are the distances of one arrival from all remembered completions; a candidate is
//! accepted if a quarter of the next arrivals have a completion at that distance too. An independent arrival has one there
//! by chance, once in thirty times at most.

use super::clock::nanos;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::{Duration, Instant};

/// The number of remembered completions: five seconds of 100 a second, which limits the pauses that can be found.
pub(super) const REMEMBERED: usize = 512;

/// The tolerance of a pause: the accuracy with which hosts wake a client.
const SAME: Duration = Duration::from_micros(100);

/// The tolerance is at most this part of the mean time between completions; otherwise some completion always matches.
const CHANCE: u64 = 64;

/// The number of arrivals in a trial; a quarter of them must follow the pause.
const TRIAL: u32 = 64;

/// The number of arrivals after which candidates without a second match are dropped.
const SIFTED: u32 = 16;

/// If this share of the arrivals follows one pause, all do.
const ALL_RETURN: f64 = 0.95;

/// The maximal delay of a host, whatever the pause.
const LATE: Duration = Duration::from_millis(5);

/// The number of arrivals until the next trial after one without a result.
const REST: u32 = 256;

/// The maximum of pauses.
const PAUSES: usize = 4;

/// The number of arrivals in the mean share.
const SHARE_OF: f64 = 64.0;

/// A finished request.
#[derive(Clone, Copy, Debug)]
struct Done {
    at: Instant,
    nth: u64,
    answered: bool,
}

/// The candidates of a trial.
#[derive(Clone, Debug, Default)]
struct Trial {
    /// Pauses, and the number of matches of each.
    pauses: Vec<(Duration, u32)>,
    /// Arrivals since the trial began.
    came: u32,
}

/// A known pause.
#[derive(Clone, Copy, Debug)]
struct Pause {
    takes: Duration,
    /// The share of arrivals that follow it: of all, and of those that follow no other.
    share: f64,
    alone: f64,
}

/// Constant pauses, and the completions that await their clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Returns {
    done: VecDeque<Done>,
    pauses: Vec<Pause>,
    trial: Trial,
    rest: u32,
}

impl Returns {
    /// Records that the `nth` request was reported to its client at `at`.
    pub fn done(&mut self, at: Instant, nth: u64) {
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(Done { at, nth, answered: false });
    }

    /// Returns the tolerance of a pause.
    fn same(&self) -> Duration {
        let ends = self.done.front().zip(self.done.back());
        let mean = ends.map_or(Duration::ZERO, |(first, last)| {
            last.at.saturating_since(first.at) / self.done.len() as u64
        });
        SAME.min(mean / CHANCE)
    }

    /// Returns the completion nearest to this instant that no arrival has matched.
    fn near(&self, at: Instant, same: Duration) -> Option<usize> {
        let from = self.done.partition_point(|done| done.at + same < at);
        let near = self.done.range(from..).take_while(|done| done.at <= at + same).enumerate();
        near.filter(|(_, done)| !done.answered)
            .min_by_key(|(_, done)| nanos(done.at.saturating_since(at)) + nanos(at.saturating_since(done.at)))
            .map(|(place, _)| from + place)
    }

    /// Returns the completion that an arrival at `at` follows by a known pause.
    pub fn come(&mut self, at: Instant) -> Option<u64> {
        if self.done.len() < REMEMBERED / 4 {
            return None;
        }
        let same = self.same();
        // Among several, the best match.
        let off = |of: &(usize, usize)| {
            let due = self.done[of.1].at + self.pauses[of.0].takes;
            at.saturating_since(due).max(due.saturating_since(at))
        };
        let found = self.pauses.iter().enumerate().filter_map(|(which, pause)| {
            let done = at.checked_sub(pause.takes)?;
            self.near(done, same).map(|place| (which, place))
        });
        let found = found.min_by_key(off);
        for (which, pause) in self.pauses.iter_mut().enumerate() {
            let seen = found.is_some_and(|found| found.0 == which);
            let seen_by = f64::from(u8::from(seen));
            pause.share += (seen_by - pause.share) / SHARE_OF;
            if seen || found.is_none() {
                pause.alone += (seen_by - pause.alone) / SHARE_OF;
            }
        }
        // By chance one in thirty of the arrivals that follow no other pause would match; if those are few, hardly any of
        // all arrivals.
        self.pauses.retain(|pause| pause.alone > 0.1 && pause.share > 0.02);
        if let Some((_, place)) = found {
            self.done[place].answered = true;
            return Some(self.done[place].nth);
        }
        self.look(at, same);
        None
    }

    /// Looks for another pause in an arrival that matches no known one.
    fn look(&mut self, at: Instant, same: Duration) {
        if self.pauses.len() == PAUSES || self.rest > 0 {
            self.rest = self.rest.saturating_sub(1);
            return;
        }
        let mut trial = core::mem::take(&mut self.trial);
        if trial.pauses.is_empty() {
            let open = self.done.iter().filter(|done| !done.answered);
            let pauses = open.map(|done| (at.saturating_since(done.at), 0)).collect();
            self.trial = Trial { pauses, came: 0 };
            return;
        }
        for (pause, seen) in &mut trial.pauses {
            *seen += u32::from(at.checked_sub(*pause).is_some_and(|at| self.near(at, same).is_some()));
        }
        trial.came += 1;
        if trial.came == SIFTED {
            trial.pauses.retain(|(_, seen)| *seen > 1);
        }
        if trial.came < TRIAL && !trial.pauses.is_empty() {
            self.trial = trial;
            return;
        }
        match trial.pauses.iter().max_by_key(|(pause, seen)| (*seen, core::cmp::Reverse(*pause))) {
            Some(&(pause, seen)) if seen >= TRIAL / 4 => {
                // The share of arrivals that follow no other pause; the share of all is known later.
                let share = f64::from(seen) / f64::from(TRIAL);
                self.pauses.push(Pause { takes: pause, share, alone: share });
            }
            _ => self.rest = REST,
        }
    }

    /// Returns whether a client that has paused for so long may still arrive after a known pause, because the host was late
    /// or another arrival was matched instead: at most twice that pause.
    pub fn may_be_late(&self, paused: Duration) -> bool {
        self.pauses.iter().any(|pause| paused >= pause.takes && paused <= pause.takes * 2 + LATE)
    }

    /// Returns whether arrivals follow different pauses: most a known one, and some others, known or not.
    pub fn in_different_ways(&self) -> bool {
        self.most_return() && self.pauses.iter().all(|pause| pause.share < ALL_RETURN)
    }

    /// Returns whether most arrivals follow a completion by a known pause.
    pub fn most_return(&self) -> bool {
        self.known() > 0.5
    }

    /// Returns the share of arrivals that follow a known pause.
    pub fn known(&self) -> f64 {
        self.pauses.iter().map(|pause| pause.share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque as Queue;
    use units::{Bytes, Sectors};
    use workload::{Arrival, Closed, ClosedTask, Issuer, Random, RandomConfig, Think};

    /// Simulates a server that takes 4 to 12 ms for each request, in order of arrival. Returns the share of the last
    /// thousand arrivals that match, and the pauses.
    fn seen(arrival: Arrival, seed: u64) -> (f64, Vec<Duration>) {
        let places = Random::new(RandomConfig::new(Sectors::new(1 << 20), Bytes::new(512)), seed).unwrap();
        let mut issuer = Issuer::new(places, arrival, Instant::ZERO, seed).unwrap();
        let mut queue: Queue<(Instant, ClosedTask)> = Queue::new();
        let (mut free, mut returns, mut answers) = (Instant::ZERO, Returns::default(), 0);
        for n in 0..10_000_u64 {
            if queue.is_empty() {
                free = free.max(issuer.due().unwrap());
            }
            let service = Duration::from_micros(4_000 + (n * 7_919 + seed) % 8_000);
            let done = free.max(queue.front().map_or(Instant::ZERO, |first| first.0)) + service;
            while issuer.due().is_some_and(|due| due <= done) {
                let issued = issuer.issue(issuer.due().unwrap()).unwrap();
                answers += u32::from(returns.come(issued.at).is_some() && n >= 9_000);
                queue.push_back((issued.at, issued.task));
            }
            let (_, task) = queue.pop_front().unwrap();
            issuer.complete(task, done);
            returns.done(done, n);
            free = done;
        }
        (f64::from(answers) / 1_000.0, returns.pauses.iter().map(|pause| pause.takes).collect())
    }

    #[test]
    fn constant_pauses_are_found_and_others_are_not() {
        let ms = Duration::from_millis;
        for seed in 0..8 {
            for (tasks, pause) in [(1, 20), (10, 0), (10, 100), (40, 400), (100, 1_000), (40, 4_000)] {
                let think = Think::Constant(ms(pause));
                let (share, pauses) = seen(Arrival::Closed(Closed { tasks, think }), seed);
                assert!(share > 0.9 && pauses == [ms(pause)], "{tasks} of {pause} ms: {share}, {pauses:?}");
            }
            for rate in [10.0, 60.0, 100.0] {
                let (share, pauses) = seen(Arrival::Poisson { rate }, seed);
                assert!(share < 0.1 && pauses.is_empty(), "{rate} a second: {share}, {pauses:?}");
            }
            for (tasks, pause) in [(4, 30), (20, 200)] {
                let think = Think::Exponential(ms(pause));
                let (share, pauses) = seen(Arrival::Closed(Closed { tasks, think }), seed);
                assert!(share < 0.1 && pauses.is_empty(), "{tasks} of {pause} ms: {share}, {pauses:?}");
            }
        }
    }
}
