//! Who comes again a constant time after its last request was done, as clients do that think for a while.
//!
//! Such a client was made to wait: then it comes later by as much, and those who waited together come together again. What
//! that costs is felt in the turns that follow, and without an end: only what the client's last request was late by says how
//! much later it comes ([`felt`](super::felt)). A constant pause shows in the completions: one of them lies that time before each
//! arrival, to a tenth of a millisecond. A pause is looked for among the distances of one arrival from all completions that are
//! remembered, and found if a quarter of the next arrivals have a completion there too. A request that does not answer
//! another has one there by chance, once in thirty times at most.

use super::clock::nanos;
use std::collections::VecDeque;
use units::{Duration, Instant};

/// So many completions are remembered: of 100 a second for five seconds, and the pauses that can be found are no longer.
pub(super) const REMEMBERED: usize = 512;

/// A pause is the same if it differs by no more: hosts wake nobody more exactly.
const SAME: Duration = Duration::from_micros(100);

/// Nor by more than this part of the mean time between completions, else there is always one.
const CHANCE: u64 = 64;

/// Arrivals in which a pause is looked for; a quarter of them must have come after it.
const TRIAL: u32 = 64;

/// After so many the pauses which have not been seen a second time are no longer followed.
const SIFTED: u32 = 16;

/// Where that part of those who come return after one pause all do.
const ALL_RETURN: f64 = 0.95;

/// By so much a host may be late, whatever the pause.
const LATE: Duration = Duration::from_millis(5);

/// Arrivals until the next trial, where one has found nothing.
const REST: u32 = 256;

/// So many pauses are told apart.
const PAUSES: usize = 4;

/// The share of arrivals that answer another is of so many.
const SHARE_OF: f64 = 64.0;

/// A request that is done.
#[derive(Clone, Copy, Debug)]
struct Done {
    at: Instant,
    nth: u64,
    answered: bool,
}

/// What is looked for.
#[derive(Clone, Debug, Default)]
struct Trial {
    /// Pauses, and how often each was seen.
    pauses: Vec<(Duration, u32)>,
    /// Arrivals since.
    came: u32,
}

/// A pause that is known.
#[derive(Clone, Copy, Debug)]
struct Pause {
    takes: Duration,
    /// The share of arrivals that come after it, of all and of those that come after no other.
    share: f64,
    alone: f64,
}

/// Constant pauses, and whose are over.
#[derive(Clone, Debug, Default)]
pub(super) struct Returns {
    done: VecDeque<Done>,
    pauses: Vec<Pause>,
    trial: Trial,
    rest: u32,
}

impl Returns {
    /// A client hears at `at` that its request is done, as the `nth`.
    pub fn done(&mut self, at: Instant, nth: u64) {
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(Done { at, nth, answered: false });
    }

    /// How exact a pause must be.
    fn same(&self) -> Duration {
        let ends = self.done.front().zip(self.done.back());
        let mean = ends.map_or(Duration::ZERO, |(first, last)| {
            last.at.saturating_since(first.at) / self.done.len() as u64
        });
        SAME.min(mean / CHANCE)
    }

    /// The completion nearest to this instant which nobody has answered.
    fn near(&self, at: Instant, same: Duration) -> Option<usize> {
        let from = self.done.partition_point(|done| done.at + same < at);
        let near = self.done.range(from..).take_while(|done| done.at <= at + same).enumerate();
        near.filter(|(_, done)| !done.answered)
            .min_by_key(|(_, done)| nanos(done.at.saturating_since(at)) + nanos(at.saturating_since(done.at)))
            .map(|(place, _)| from + place)
    }

    /// Which request that is done the one answers that comes at `at`, if it comes after a pause that is known.
    pub fn come(&mut self, at: Instant) -> Option<u64> {
        if self.done.len() < REMEMBERED / 4 {
            return None;
        }
        let same = self.same();
        // Of several that which fits best.
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
        // By chance it would be one in thirty of those that come after no other; and where those are few, of all hardly any.
        self.pauses.retain(|pause| pause.alone > 0.1 && pause.share > 0.02);
        if let Some((_, place)) = found {
            self.done[place].answered = true;
            return Some(self.done[place].nth);
        }
        self.look(at, same);
        None
    }

    /// Looks for another pause in an arrival that answers nothing after those that are known.
    fn look(&mut self, at: Instant, same: Duration) {
        if self.pauses.len() == PAUSES || self.rest > 0 {
            self.rest = self.rest.saturating_sub(1);
            return;
        }
        let mut trial = std::mem::take(&mut self.trial);
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
        match trial.pauses.iter().max_by_key(|(pause, seen)| (*seen, std::cmp::Reverse(*pause))) {
            Some(&(pause, seen)) if seen >= TRIAL / 4 => {
                // Of those that come after no other: until so many have come, of all.
                let share = f64::from(seen) / f64::from(TRIAL);
                self.pauses.push(Pause { takes: pause, share, alone: share });
            }
            _ => self.rest = REST,
        }
    }

    /// Whether who has paused for so long may come again after a known pause, of a host that was late or since another was taken
    /// for it: no later than after twice that pause.
    pub fn may_be_late(&self, paused: Duration) -> bool {
        self.pauses.iter().any(|pause| paused >= pause.takes && paused <= pause.takes * 2 + LATE)
    }

    /// Whether not all who come do so after the same pause: most after one that is known, and some after others, known or not.
    pub fn in_different_ways(&self) -> bool {
        self.most_return() && self.pauses.iter().all(|pause| pause.share < ALL_RETURN)
    }

    /// Whether most who come answer what is done after a pause that is known.
    pub fn most_return(&self) -> bool {
        self.known() > 0.5
    }

    /// The part of those who come that does so after a pause that is known.
    pub fn known(&self) -> f64 {
        self.pauses.iter().map(|pause| pause.share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque as Queue;
    use units::{Bytes, Sectors};
    use workload::{Arrival, Closed, ClosedTask, Issuer, Random, RandomConfig, Think};

    /// A server that takes 4 to 12 ms for each of so many requests, in order of arrival; what share of the last thousand
    /// answer, and the pauses.
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
