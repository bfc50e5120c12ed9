//! Runs many histories, one after another or several at a time.

use crate::counts::Counts;
use crate::dice::{Dice, mix};
use crate::failure::Failure;
use crate::generate::generate_on;
use crate::history::run;
use crate::scenario::Scenario;
use crate::setup::Host;
use crate::stage::Outcome;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

/// The most histories per thread that may run before an earlier one is done. A history takes from a millisecond to some ten
/// seconds, so fewer would make threads wait for a long history.
const HISTORIES_AHEAD_MAX: u64 = 64;

/// The sequence of histories of a seed. Each history has a drive and a seed of its own.
#[derive(Clone, Debug)]
pub struct Torture {
    dice: Dice,
    host: Option<Host>,
    histories: u64,
    counts: Counts,
}

/// A history that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seed of the history, for [`generate_on`](crate::generate_on).
    pub seed: u64,
    /// The number of the history in the sequence, from 1.
    pub history: u64,
    /// The history, with all its steps.
    pub scenario: Scenario,
    /// The broken promise.
    pub failure: Failure,
}

/// The result of one history: counts of its events, or the broken promise.
type Ended = Result<Counts, Box<Found>>;

impl Torture {
    /// Returns the sequence of histories of a seed, before the first.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(mix(seed)), host: None, histories: 0, counts: Counts::default() }
    }

    /// Runs all histories on one host.
    #[must_use]
    pub fn on(self, host: Host) -> Self {
        Self { host: Some(host), ..self }
    }

    /// Returns the number of histories so far.
    pub fn histories(&self) -> u64 {
        self.histories
    }

    /// Returns the sums of the counts of all histories so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Skips a number of histories, for example those of an earlier run.
    pub fn skip(&mut self, histories: u64) {
        // The seed of a history depends only on its number.
        self.dice.skip(histories);
        self.histories = self.histories.saturating_add(histories);
    }

    /// Returns the next history without running it.
    pub fn upcoming(&self) -> Scenario {
        generate_on(self.dice.clone().next(), self.host)
    }

    /// Runs the next history.
    ///
    /// # Errors
    /// The history breaks a promise.
    pub fn next_history(&mut self) -> Result<(), Box<Found>> {
        let ended = self.carry_out(0);
        self.count(ended)
    }

    /// Runs histories in `jobs` threads while `goes_on` returns true. `goes_on` is called before each history is counted.
    /// Histories are counted in the order of their numbers, so that the counts and the failure that is found do not depend
    /// on the number of threads or their speed.
    ///
    /// # Errors
    /// A history breaks a promise. If several do, the error is that of the history with the lowest number.
    pub fn go_on(&mut self, jobs: usize, mut goes_on: impl FnMut(&Self) -> bool) -> Result<(), Box<Found>> {
        if jobs <= 1 {
            while goes_on(self) {
                self.next_history()?;
            }
            return Ok(());
        }
        let from = self.clone();
        let over = AtomicBool::new(false);
        let (numbers, next) = mpsc::channel::<u64>();
        let (ended, results) = mpsc::channel();
        let next = Mutex::new(next);
        let work = |ended: mpsc::Sender<_>| {
            loop {
                let number = next.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Some(number) = number.ok().filter(|_| !over.load(Ordering::Relaxed)) else { return };
                // A panic of this program (one of the history is caught in `run`) must end the caller, not only this thread.
                let carried_out = catch_unwind(AssertUnwindSafe(|| from.carry_out(number)));
                if ended.send((number, carried_out)).is_err() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            // The sender is dropped before the scope waits for the threads, even if this thread panics; the drop ends the
            // threads.
            let numbers = numbers;
            for _ in 0..jobs {
                let ended = ended.clone();
                scope.spawn(move || work(ended));
            }
            let mut waiting = BTreeMap::new();
            let (mut given, mut counted) = (0, 0);
            let found = loop {
                if !goes_on(self) {
                    break Ok(());
                }
                while given < counted + HISTORIES_AHEAD_MAX * jobs as u64 && numbers.send(given).is_ok() {
                    given += 1;
                }
                let carried_out = loop {
                    if let Some(carried_out) = waiting.remove(&counted) {
                        break carried_out;
                    }
                    // Receiving does not fail, because this thread holds a sender as well.
                    if let Ok((number, carried_out)) = results.recv() {
                        waiting.insert(number, carried_out);
                    }
                };
                counted += 1;
                let carried_out = carried_out.unwrap_or_else(|panic| {
                    over.store(true, Ordering::Relaxed);
                    resume_unwind(panic)
                });
                if let Err(found) = self.count(carried_out) {
                    break Err(found);
                }
            };
            over.store(true, Ordering::Relaxed);
            found
        })
    }

    /// Runs the history that is `after` places behind the next one.
    fn carry_out(&self, after: u64) -> Ended {
        let mut dice = self.dice.clone();
        dice.skip(after);
        let seed = dice.next();
        let scenario = generate_on(seed, self.host);
        match run(&scenario) {
            Ok(Outcome { counts, .. }) => Ok(counts),
            Err(failure) => {
                let history = self.histories.saturating_add(after).saturating_add(1);
                Err(Box::new(Found { seed, history, scenario, failure }))
            }
        }
    }

    /// Adds the counts of the history that has ended, or returns its failure; advances to the next history.
    fn count(&mut self, ended: Ended) -> Result<(), Box<Found>> {
        self.skip(1);
        self.counts.add(&ended?);
        Ok(())
    }
}
