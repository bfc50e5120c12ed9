//! The schedulers that ATC'03 compares, by name.

use super::chooser::{Chooser, FromOutside, GreedyOptimal, InOrder};
use super::disk::Bare;
use super::host::{SmtfHost, SmtfTally};
use super::loads::Week;
use super::survey::Surveyed;
use crate::LabError;
use mimic::Metric;
use model::DriveModel;
use scheduler::policy::Base;
use std::fmt;
use std::sync::Arc;
use units::Sectors;

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    Fcfs,
    Sstf,
    CLook,
    GreedyOptimal,
    /// SMTF with a table of all distances.
    Smtf(Metric),
}

impl Scheduler {
    /// The schedulers that know only addresses.
    pub(crate) const TRADITIONAL: [Self; 3] = [Self::Fcfs, Self::Sstf, Self::CLook];
}

/// A disk without electronics, and its table.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) disk: Arc<DriveModel>,
    pub(crate) table: Surveyed,
}

impl Bench {
    /// Makes a bench with this number of samples of each distance; the seed draws the samples' LBNs.
    pub(crate) fn new(disk: &Arc<DriveModel>, samples: u32, seed: u64) -> Self {
        Self { disk: Arc::clone(disk), table: Surveyed::new(disk, samples, seed) }
    }

    /// Limits the table to the first `area` sectors.
    #[must_use]
    pub(crate) fn within(self, area: Sectors) -> Self {
        Self { table: self.table.within(area), ..self }
    }

    /// Returns a scheduler, ready to choose.
    pub(crate) fn chooser(&self, scheduler: Scheduler) -> Box<dyn Chooser> {
        match scheduler {
            Scheduler::Fcfs => Box::new(InOrder),
            Scheduler::Sstf => Box::new(FromOutside::base(Base::Sstf)),
            Scheduler::CLook => Box::new(FromOutside::base(Base::CLook)),
            Scheduler::GreedyOptimal => Box::new(GreedyOptimal(Arc::clone(&self.disk))),
            Scheduler::Smtf(metric) => Box::new(FromOutside::smtf(self.table.by(metric))),
        }
    }

    /// Runs any chooser, such as one with another table.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_with(
        &self,
        chooser: impl Chooser,
        week: &Week,
        factor: f64,
    ) -> Result<SmtfTally, LabError> {
        Ok(self.run_and_keep(chooser, week, factor)?.0)
    }

    /// Runs a chooser and returns it afterwards.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_and_keep<C: Chooser>(
        &self,
        chooser: C,
        week: &Week,
        factor: f64,
    ) -> Result<(SmtfTally, C), LabError> {
        let load = week.compressed(self.disk.layout().capacity(), factor)?;
        let mut host = SmtfHost::new(Bare::new(Arc::clone(&self.disk)), load, chooser);
        let tally = host.advance(u64::MAX)?;
        Ok((tally, host.chooser))
    }

    /// Runs a trace at `factor` times its speed.
    ///
    /// # Errors
    /// The factor is invalid, or a request is larger than the disk.
    pub(crate) fn run(&self, scheduler: Scheduler, week: &Week, factor: f64) -> Result<SmtfTally, LabError> {
        self.run_with(self.chooser(scheduler), week, factor)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fcfs => f.write_str("FCFS"),
            Self::Sstf => f.write_str("SSTF"),
            Self::CLook => f.write_str("C-LOOK"),
            Self::GreedyOptimal => f.write_str("greedy-optimal"),
            Self::Smtf(metric) => write!(f, "SMTF, {metric}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_up::drive;

    fn tallies(factor: f64) -> Vec<(Scheduler, SmtfTally)> {
        let bench = Bench::new(&drive("mimic-base").unwrap(), 10, 1);
        let week = Week::stand_in(bench.disk.layout().capacity(), 1, 2_000, 1);
        let all = [Scheduler::GreedyOptimal, Scheduler::Smtf(Metric::Mean)];
        let all = all.into_iter().chain(Scheduler::TRADITIONAL);
        all.map(|s| (s, bench.run(s, &week, factor).unwrap())).collect()
    }

    #[test]
    fn with_one_request_at_a_time_there_is_nothing_to_choose() {
        // A day of 2,000 requests is stretched to centuries, so that requests never meet.
        let tallies = tallies(1e-5);
        assert!(tallies.iter().all(|(_, t)| *t == tallies[0].1 && t.requests == 2_000 && t.queued_max == 1));
        assert_eq!(tallies[0].1.busy, tallies[0].1.response);
    }

    #[test]
    fn in_long_queues_schedulers_that_know_more_are_faster() {
        let tallies = tallies(10_000.0);
        assert!(tallies.iter().all(|(_, t)| t.requests == 2_000 && t.mean_queue() > 5.0));
        let (others, best) = (&tallies[2..], [tallies[0].1.busy, tallies[1].1.busy]);
        assert!(best[0] < best[1], "{tallies:?}");
        assert!(others.iter().all(|(_, t)| best[1] < t.busy), "{tallies:?}");
    }
}
