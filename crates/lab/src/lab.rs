//! The conditions of a run of experiments: size, seeds, and number of threads.

use crate::{LabError, Spread};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a run: how much the experiments simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// All experiments together take about five minutes on two cores.
    Quick,
    /// Each experiment takes some minutes.
    Full,
}

/// A receiver of a run's progress.
pub trait Progress: Sync {
    /// Reports that `done` of `all` parts of the current step are done.
    fn part(&self, done: usize, all: usize);
}

struct Silent;

impl Progress for Silent {
    fn part(&self, _: usize, _: usize) {}
}

/// The conditions of a run, and the threads that share its work. The same size and seed give the same outcome with
/// any number of threads.
pub struct Lab<'p> {
    size: Size,
    seed: u64,
    jobs: usize,
    claims_only: bool,
    progress: &'p dyn Progress,
}

impl Lab<'static> {
    /// Makes a lab without progress reports, with a thread for each core of the processor.
    pub fn new(size: Size, seed: u64) -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { size, seed, jobs, claims_only: false, progress: &Silent }
    }
}

impl<'p> Lab<'p> {
    /// Sets the number of parallel jobs, at least one.
    #[must_use]
    pub fn with_jobs(self, jobs: usize) -> Self {
        Self { jobs: jobs.max(1), ..self }
    }

    /// Sets the receiver of progress reports.
    pub fn with_progress<'q>(self, progress: &'q dyn Progress) -> Lab<'q> {
        Lab { size: self.size, seed: self.seed, jobs: self.jobs, claims_only: self.claims_only, progress }
    }

    /// Leaves out runs that only figures and notes need. The outcome has every claim.
    #[must_use]
    pub fn for_claims_only(self) -> Self {
        Self { claims_only: true, ..self }
    }

    /// Returns whether only claims are wanted.
    pub fn is_for_claims_only(&self) -> bool {
        self.claims_only
    }

    /// Returns the size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns `quick` or `full`, by the lab's size.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        match self.size {
            Size::Quick => quick,
            Size::Full => full,
        }
    }

    /// Returns the first seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns `count` consecutive seeds, beginning with the first.
    pub fn seeds(&self, count: u64) -> impl Iterator<Item = u64> + Clone + use<> {
        let first = self.seed;
        (0..count).map(move |i| first.wrapping_add(i))
    }

    /// Calls `work` with every item, several items at a time, and returns the results in the items' order.
    ///
    /// # Errors
    /// The error of the first item that failed.
    pub fn map<T, R>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> Result<R, LabError> + Sync,
    ) -> Result<Vec<R>, LabError>
    where
        T: Send,
        R: Send,
    {
        let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
        let results: Vec<_> = items.iter().map(|_| Mutex::new(None)).collect();
        self.in_parallel(items.len(), &|at| {
            let item = items.get(at).and_then(|item| lock(item).take());
            if let Some((item, result)) = item.zip(results.get(at)) {
                *lock(result) = Some(work(item));
            }
        });
        let result = |of: Mutex<_>| of.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        results.into_iter().filter_map(result).collect()
    }

    /// Calls `work` with each number below `all`, several at a time. This function is not generic, so that the code
    /// of the threads is compiled once and not for each of dozens of result types.
    fn in_parallel(&self, all: usize, work: &(dyn Fn(usize) + Sync)) {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(all) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= all {
                            break;
                        }
                        work(at);
                        self.progress.part(done.fetch_add(1, Ordering::Relaxed) + 1, all);
                    }
                });
            }
        });
    }

    /// Calls `work` with every pair of an item and a seed, as [`map`](Self::map) does; returns for each item the
    /// results by seed.
    ///
    /// # Errors
    /// The error of the first pair that failed.
    pub fn map_seeds<T, R>(
        &self,
        items: impl IntoIterator<Item = T>,
        seeds: u64,
        work: impl Fn(&T, u64) -> Result<R, LabError> + Sync,
    ) -> Result<Vec<Vec<R>>, LabError>
    where
        T: Send + Sync,
        R: Send,
    {
        let items: Vec<T> = items.into_iter().collect();
        let pairs: Vec<(&T, u64)> =
            items.iter().flat_map(|i| self.seeds(seeds).map(move |s| (i, s))).collect();
        let mut results = self.map(pairs, |(item, seed)| work(item, seed))?.into_iter();
        Ok(items.iter().map(|_| results.by_ref().take(seeds as usize).collect()).collect())
    }
}

/// Returns the mean, the least and the greatest value of `of` over the results.
pub fn spread<R>(results: &[R], of: impl Fn(&R) -> f64) -> Spread {
    Spread::of(&results.iter().map(of).collect::<Vec<_>>())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned mutex needs no handling here: the thread scope passes the panic of a worker on.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_with_any_number_of_threads() {
        for jobs in [1, 2, 7] {
            let lab = Lab::new(Size::Quick, 1).with_jobs(jobs);
            let squares = lab.map(0..50u64, |n| Ok(n * n)).unwrap();
            assert_eq!(squares, (0..50).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn seeds_stay_with_their_item() {
        let lab = Lab::new(Size::Quick, 5).with_jobs(2);
        let runs = lab.map_seeds([10, 20], 3, |item, seed| Ok(item + seed)).unwrap();
        assert_eq!(runs, [[15, 16, 17], [25, 26, 27]]);
    }

    #[test]
    fn the_first_failure_is_reported() {
        let lab = Lab::new(Size::Quick, 1).with_jobs(3);
        let failed =
            lab.map(
                0..9,
                |n| if n % 4 == 3 { Err(LabError::new(format!("item {n}"), "broken")) } else { Ok(n) },
            );
        assert_eq!(failed.unwrap_err().to_string(), "item 3: broken");
    }
}
