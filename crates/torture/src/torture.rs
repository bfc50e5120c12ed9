//! Histories one after another.

use crate::dice::{Dice, mix};
use crate::failure::Failure;
use crate::generate::generate;
use crate::history::{Outcome, run};
use crate::scenario::Scenario;
use crate::world::Counts;

/// Histories of a seed, each with its own drive and its own seed.
#[derive(Clone, Debug)]
pub struct Torture {
    dice: Dice,
    histories: u64,
    counts: Counts,
}

/// A history that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its seed, for [`generate`].
    pub seed: u64,
    /// Its number, from 1.
    pub history: u64,
    /// All of it.
    pub scenario: Scenario,
    /// What it breaks.
    pub failure: Failure,
}

impl Torture {
    /// All histories of a seed.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(mix(seed)), histories: 0, counts: Counts::default() }
    }

    /// Histories so far.
    pub fn histories(&self) -> u64 {
        self.histories
    }

    /// What has happened in all of them.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Leaves out so many histories, which have been carried out before.
    pub fn skip(&mut self, histories: u64) {
        // What is drawn for a history depends on nothing but its number.
        self.dice.skip(histories);
        self.histories = self.histories.saturating_add(histories);
    }

    /// The history that comes next.
    pub fn upcoming(&self) -> Scenario {
        generate(self.dice.clone().next())
    }

    /// One more history.
    ///
    /// # Errors
    /// It breaks a promise.
    pub fn next_history(&mut self) -> Result<(), Box<Found>> {
        let seed = self.dice.next();
        self.histories = self.histories.saturating_add(1);
        let scenario = generate(seed);
        match run(&scenario) {
            Ok(Outcome { counts, .. }) => {
                self.counts.add(&counts);
                Ok(())
            }
            Err(failure) => Err(Box::new(Found { seed, history: self.histories, scenario, failure })),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.requests += other.requests;
        self.scrubs += other.scrubs;
        self.mined += other.mined;
        self.fetched += other.fetched;
        self.logged += other.logged;
        self.cleaned += other.cleaned;
        self.copied += other.copied;
        self.full += other.full;
        self.commands += other.commands;
        self.detours += other.detours;
        self.blocks += other.blocks;
        self.written += other.written;
        self.bad += other.bad;
        self.idle += other.idle;
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.promoted += other.promoted;
        self.calls += other.calls;
        self.flushes += other.flushes;
        self.snapshots += other.snapshots;
        self.restores += other.restores;
        self.reorganisations += other.reorganisations;
        self.power_cuts += other.power_cuts;
        self.compared += other.compared;
    }
}
