//! The results so far: an accumulator for each question.

use super::aggregate::{ColumnSummary, Groups, Histogram, Ranking};
use super::estimate::{Estimate, Estimator};
use super::page::{DamagedPage, Page, PageError, PageNumber, Sale};
use super::query::{Ask, End, Overflow, Queries, Query};
use super::table::Table;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;
use units::LbnRange;

/// The answer to one question, over the records of the pages read; an estimate is for the whole table.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The answer to [`Ask::Summary`].
    Summary(ColumnSummary),
    /// The answer to [`Ask::Groups`].
    Groups(Groups),
    /// The answer to [`Ask::Top`], the best record first.
    Top(Vec<Sale>),
    /// The answer to [`Ask::Histogram`].
    Histogram(Histogram),
    /// The answer to [`Ask::Estimate`].
    Estimate(Estimate),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Summary(summary) => write!(f, "  {summary}"),
            Self::Groups(groups) => groups.fmt(f),
            Self::Top(sales) => {
                for (i, sale) in sales.iter().enumerate() {
                    let newline = if i > 0 { "\n" } else { "" };
                    write!(f, "{newline}  {sale}")?;
                }
                Ok(())
            }
            Self::Histogram(histogram) => histogram.fmt(f),
            Self::Estimate(estimate) => write!(f, "  {estimate}"),
        }
    }
}

/// The reason for which one question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// There are more groups than the question allows.
    #[error("there are more than {most} groups; allow more, or keep those of the smallest keys")]
    TooManyGroups {
        /// The limit of the question.
        most: usize,
    },
    /// There are no data for the estimate.
    #[error("no page with such records has been mined; mine more pages")]
    NothingYet,
}

/// The result of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// Pages of the table.
    pub pages: u64,
    /// The number of pages whose records were counted.
    pub mined: u64,
    /// The number of damaged pages: the answers lack their records.
    pub damaged: u64,
    /// The damaged pages with the lowest LBNs, at most [`DAMAGED_PAGES_MAX`]; each was reported on delivery.
    pub damages: Vec<DamagedPage>,
    /// The questions and answers, in the order of the questions.
    pub answers: Vec<(Query, Result<Answer, AnswerError>)>,
}

/// The most damaged pages that [`Answers`] list; further ones are only counted.
pub const DAMAGED_PAGES_MAX: usize = 1024;

impl Answers {
    /// Returns the answer to the first question of this name.
    pub fn get(&self, name: &str) -> Option<&Result<Answer, AnswerError>> {
        self.answers.iter().find(|(query, _)| query.name == name).map(|(_, answer)| answer)
    }

    /// Returns whether every page of the table was counted: if so, all answers are exact.
    pub fn is_whole(&self) -> bool {
        self.mined == self.pages
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} pages mined, {} damaged", self.mined, self.pages, self.damaged)?;
        for damage in &self.damages {
            write!(f, "\n  {damage}")?;
        }
        for (query, answer) in &self.answers {
            write!(f, "\n{} ({}):", query.name, query.filter)?;
            match answer {
                Ok(answer) => write!(f, "\n{answer}")?,
                Err(error) => write!(f, "\n  no answer: {error}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Accumulator {
    Summary(ColumnSummary),
    Groups(Groups),
    Ranking(Ranking),
    Histogram(Histogram),
    Estimate(Estimator),
}

impl Accumulator {
    fn new(ask: &Ask, pages: u64) -> Self {
        match *ask {
            Ask::Summary(_) => Self::Summary(ColumnSummary::default()),
            Ask::Groups { most, .. } => Self::Groups(Groups::new(most)),
            Ask::Top { count, .. } => Self::Ranking(Ranking::new(count)),
            Ask::Histogram { start, width, buckets, .. } => {
                Self::Histogram(Histogram::new(start, width, buckets))
            }
            Ask::Estimate { statistic, level, strata } => {
                Self::Estimate(Estimator::new(statistic, level, strata, pages))
            }
        }
    }

    fn page(&mut self, query: &Query, number: PageNumber, sales: &[Sale]) {
        let passing = sales.iter().filter(|sale| query.filter.passes(sale));
        match (self, query.ask) {
            (Self::Summary(summary), Ask::Summary(column)) => {
                passing.for_each(|sale| summary.add(column.of(sale)));
            }
            (Self::Groups(groups), Ask::Groups { by, measure, .. }) => {
                passing.for_each(|sale| groups.add(by.of(sale), measure.of(sale)));
            }
            (Self::Ranking(ranking), Ask::Top { by, end, .. }) => passing.for_each(|sale| {
                let value = by.of(sale);
                ranking.add(if end == End::Largest { value } else { -value }, sale);
            }),
            (Self::Histogram(histogram), Ask::Histogram { of, .. }) => {
                passing.for_each(|sale| histogram.add(of.of(sale)));
            }
            (Self::Estimate(estimator), Ask::Estimate { .. }) => {
                estimator.page(number, &query.filter, sales);
            }
            _ => debug_assert!(false, "an accumulator of another question"),
        }
    }

    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Summary(a), Self::Summary(b)) => a.merge(b),
            (Self::Groups(a), Self::Groups(b)) => a.merge(b),
            (Self::Ranking(a), Self::Ranking(b)) => a.merge(b),
            (Self::Histogram(a), Self::Histogram(b)) => a.merge(b),
            (Self::Estimate(a), Self::Estimate(b)) => a.merge(b),
            _ => debug_assert!(false, "an accumulator of another question"),
        }
    }

    fn finish(&self, ask: &Ask) -> Result<Answer, AnswerError> {
        match (self, *ask) {
            (Self::Groups(groups), Ask::Groups { most, overflow: Overflow::Refuse, .. })
                if groups.rest().count() > 0 =>
            {
                Err(AnswerError::TooManyGroups { most })
            }
            (Self::Summary(summary), _) => Ok(Answer::Summary(*summary)),
            (Self::Groups(groups), _) => Ok(Answer::Groups(groups.clone())),
            (Self::Ranking(ranking), _) => Ok(Answer::Top(ranking.finish())),
            (Self::Histogram(histogram), _) => Ok(Answer::Histogram(histogram.clone())),
            (Self::Estimate(estimator), _) => {
                estimator.finish().map(Answer::Estimate).ok_or(AnswerError::NothingYet)
            }
        }
    }
}

/// The reason for which two parts were not merged: they belong to different scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the parts are of other questions or another table; merge parts of one scan only")]
pub struct MergeError;

/// The accumulators of a scan. Pages are added in any order, each once. Parts of a scan with disjoint pages merge
/// into exactly the accumulators of one scan with all these pages.
#[derive(Clone, Debug)]
pub struct Mined {
    table: Table,
    queries: Queries,
    accumulators: Vec<Accumulator>,
    pages: u64,
    damaged: u64,
    damages: BTreeMap<PageNumber, (LbnRange, PageError)>,
}

impl Mined {
    /// Creates empty accumulators.
    pub fn new(table: Table, queries: Queries) -> Self {
        let fresh = |query: &Query| Accumulator::new(&query.ask, table.pages());
        let accumulators = queries.as_slice().iter().map(fresh).collect();
        Self { table, queries, accumulators, pages: 0, damaged: 0, damages: BTreeMap::new() }
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the questions.
    pub fn queries(&self) -> &Queries {
        &self.queries
    }

    /// Returns the number of pages counted.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of damaged pages.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Takes the bytes of a page: counts its records or, if it is damaged, records and returns the damage.
    pub fn take(&mut self, number: PageNumber, bytes: &[u8]) -> Option<DamagedPage> {
        match Page::decode(self.table.id(), number, bytes) {
            Ok(page) => {
                self.page(number, &page);
                None
            }
            Err(error) => Some(self.damage(number, error)),
        }
    }

    fn page(&mut self, number: PageNumber, page: &Page) {
        self.pages += 1;
        for (accumulator, query) in self.accumulators.iter_mut().zip(self.queries.as_slice()) {
            accumulator.page(query, number, page.sales());
        }
    }

    /// Records a page that is damaged, or could not be read.
    pub fn damage(&mut self, number: PageNumber, error: PageError) -> DamagedPage {
        let range = self.table.range_of(number).unwrap_or_default();
        self.damaged += 1;
        self.damages.insert(number, (range, error));
        self.damages_bounded();
        DamagedPage { range, page: number, error }
    }

    fn damages_bounded(&mut self) {
        while self.damages.len() > DAMAGED_PAGES_MAX {
            self.damages.pop_last();
        }
    }

    /// Adds the results of another part of the same scan.
    ///
    /// # Errors
    /// The other part has different questions or another table; nothing has changed then.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.queries != other.queries || self.table != other.table {
            return Err(MergeError);
        }
        for (mine, theirs) in self.accumulators.iter_mut().zip(&other.accumulators) {
            mine.merge(theirs);
        }
        self.pages += other.pages;
        self.damaged += other.damaged;
        self.damages.extend(other.damages.iter().map(|(&number, &damage)| (number, damage)));
        self.damages_bounded();
        Ok(())
    }

    /// Returns the estimate of question `query` so far; `None` if it is not an estimate, or there are no data.
    pub(super) fn estimate(&self, query: usize) -> Option<Estimate> {
        match self.accumulators.get(query)? {
            Accumulator::Estimate(estimator) => estimator.finish(),
            _ => None,
        }
    }

    /// Returns the answers so far.
    pub fn finish(&self) -> Answers {
        let answer =
            |(query, accumulator): (&Query, &Accumulator)| (query.clone(), accumulator.finish(&query.ask));
        Answers {
            pages: self.table.pages(),
            mined: self.pages,
            damaged: self.damaged,
            damages: self
                .damages
                .iter()
                .map(|(&page, &(range, error))| DamagedPage { range, page, error })
                .collect(),
            answers: self.queries.as_slice().iter().zip(&self.accumulators).map(answer).collect(),
        }
    }
}
