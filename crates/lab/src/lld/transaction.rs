//! The parts of a transaction's time.

use super::run::PostmarkRun;
use units::Duration;

/// The mean transaction of some runs: counts, and milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transaction {
    /// Reads of blocks of files that were not in the cache.
    pub reads: f64,
    /// Blocks that the file layer writes.
    pub fresh: f64,
    /// Blocks that cleaners move.
    pub copies: f64,
    /// Reads of the foreground cleaner.
    pub cleaning_reads: f64,
    pub computing: f64,
    pub reading: f64,
    pub writing_fresh: f64,
    pub writing_copies: f64,
    pub cleaning: f64,
}

/// The names of [`Transaction::parts`].
pub(crate) const PARTS: [&str; 5] =
    ["computing", "reading files", "writing new blocks", "writing moved blocks", "cleaning reads"];

impl Transaction {
    pub fn of<'r>(runs: impl IntoIterator<Item = &'r PostmarkRun> + Clone) -> Self {
        let sum = |of: &dyn Fn(&PostmarkRun) -> f64| runs.clone().into_iter().map(of).sum::<f64>();
        let all = sum(&|r| r.transactions as f64).max(1.0);
        let count = |of: fn(&PostmarkRun) -> u64| sum(&|r| of(r) as f64) / all;
        let ms = |of: fn(&PostmarkRun) -> Duration| sum(&|r| of(r).as_millis_f64()) / all;
        let (reading, writing) = (ms(|r| r.spent.reading), ms(|r| r.spent.writing));
        let (writing_copies, cleaning) = (ms(|r| r.spent.writing_copies), ms(|r| r.spent.cleaning));
        Self {
            reads: count(|r| r.spent.reads),
            fresh: count(|r| r.spent.fresh),
            copies: count(|r| r.spent.copies),
            cleaning_reads: count(|r| r.spent.cleaning_reads),
            computing: ms(|r| r.elapsed) - reading - writing - cleaning,
            reading,
            writing_fresh: writing - writing_copies,
            writing_copies,
            cleaning,
        }
    }

    /// Returns the transaction without cleaning costs: OSDI'00's IDEAL, computed from a run of ORIGINAL.
    pub fn ideal(self) -> Self {
        Self { copies: 0.0, cleaning_reads: 0.0, writing_copies: 0.0, cleaning: 0.0, ..self }
    }

    /// Returns the milliseconds of each of the [`PARTS`].
    pub fn parts(&self) -> [f64; PARTS.len()] {
        [self.computing, self.reading, self.writing_fresh, self.writing_copies, self.cleaning]
    }

    /// Returns the milliseconds of the whole transaction.
    pub fn whole(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// Returns the milliseconds of cleaning: of its reads, and of writing moved blocks.
    pub fn cleaned(&self) -> f64 {
        self.cleaning + self.writing_copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lld::Spent;

    fn run(elapsed_ms: u64) -> PostmarkRun {
        let ms = Duration::from_millis;
        let spent = Spent {
            reads: 4,
            reading: ms(20),
            writing: ms(10),
            writing_copies: ms(4),
            fresh: 6,
            copies: 4,
            cleaning_reads: 4,
            cleaning: ms(8),
            ..Spent::default()
        };
        PostmarkRun { utilisation: 0.6, transactions: 2, elapsed: ms(elapsed_ms), spent, verified: 0 }
    }

    #[test]
    fn the_parts_make_up_the_whole() {
        let mean = Transaction::of(&[run(40), run(60)]);
        assert_eq!(mean.whole(), 25.0);
        assert_eq!(mean.parts(), [6.0, 10.0, 3.0, 2.0, 4.0]);
        assert_eq!((mean.reads, mean.fresh, mean.copies, mean.cleaning_reads), (2.0, 3.0, 2.0, 2.0));
    }

    #[test]
    fn ideal_matches_the_throughput_of_ideal() {
        let run = run(50);
        let ideal = Transaction::of(&[run]).ideal();
        assert!((1e3 / ideal.whole() - run.ideal_per_second()).abs() < 1e-9);
        assert_eq!(ideal.cleaned(), 0.0);
    }
}
