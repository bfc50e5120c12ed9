//! Queries: columns, filters, questions.

use super::page::Sale;
use super::range::OutOfRange;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A column: a number of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Seconds since the table's first sale.
    Time,
    /// The customer.
    Customer,
    /// The product.
    Product,
    /// The store.
    Store,
    /// The region of the store.
    Region,
    /// The number of pieces.
    Quantity,
    /// The price of one piece, in cents.
    Price,
    /// Price times quantity, in cents.
    Revenue,
}

impl Column {
    /// Returns the value in a record; its absolute value is below 2^48.
    #[inline]
    pub fn of(self, sale: &Sale) -> i64 {
        match self {
            Self::Time => sale.time.into(),
            Self::Customer => sale.customer.into(),
            Self::Product => sale.product.into(),
            Self::Store => sale.store.into(),
            Self::Region => sale.region.into(),
            Self::Quantity => sale.quantity.into(),
            Self::Price => sale.price_cents.into(),
            Self::Revenue => sale.revenue_cents(),
        }
    }

    /// Returns a filter for records with this value.
    pub fn equals(self, value: i64) -> Filter {
        Filter::Equals(self, value)
    }

    /// Returns a filter for records with smaller values.
    pub fn below(self, value: i64) -> Filter {
        Filter::Below(self, value)
    }

    /// Returns a filter for records with this value or larger ones.
    pub fn at_least(self, value: i64) -> Filter {
        self.below(value).negated()
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::Customer => "customer",
            Self::Product => "product",
            Self::Store => "store",
            Self::Region => "region",
            Self::Quantity => "quantity",
            Self::Price => "price",
            Self::Revenue => "revenue",
        })
    }
}

/// A predicate on records.
///
/// ```
/// use lab_apps::miner::{Column, Sale};
/// let filter = Column::Region.equals(3).and(Column::Price.at_least(10_000));
/// assert!(filter.passes(&Sale { region: 3, price_cents: 10_000, ..Sale::default() }));
/// assert!(!filter.passes(&Sale { region: 3, price_cents: 9_999, ..Sale::default() }));
/// assert_eq!(filter.to_string(), "(region = 3 and not price < 10000)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Every record.
    #[default]
    All,
    /// The column has this value.
    Equals(Column, i64),
    /// The column has a value below this one.
    Below(Column, i64),
    /// The inner filter does not pass.
    Not(Box<Filter>),
    /// Both filters pass.
    And(Box<Filter>, Box<Filter>),
    /// At least one of the filters passes.
    Or(Box<Filter>, Box<Filter>),
}

impl Filter {
    /// Returns whether a record passes.
    #[inline]
    pub fn passes(&self, sale: &Sale) -> bool {
        match self {
            Self::All => true,
            Self::Equals(column, value) => column.of(sale) == *value,
            Self::Below(column, value) => column.of(sale) < *value,
            Self::Not(other) => !other.passes(sale),
            Self::And(a, b) => a.passes(sale) && b.passes(sale),
            Self::Or(a, b) => a.passes(sale) || b.passes(sale),
        }
    }

    /// Returns a filter for records that pass both filters.
    pub fn and(self, other: Self) -> Self {
        Self::And(Box::new(self), Box::new(other))
    }

    /// Returns a filter for records that pass at least one of the filters.
    pub fn or(self, other: Self) -> Self {
        Self::Or(Box::new(self), Box::new(other))
    }

    /// Returns a filter for records that do not pass this one.
    pub fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Equals(column, value) => write!(f, "{column} = {value}"),
            Self::Below(column, value) => write!(f, "{column} < {value}"),
            Self::Not(other) => write!(f, "not {other}"),
            Self::And(a, b) => write!(f, "({a} and {b})"),
            Self::Or(a, b) => write!(f, "({a} or {b})"),
        }
    }
}

/// The treatment of groups beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The question is not answered: [`AnswerError::TooManyGroups`](super::AnswerError::TooManyGroups).
    Refuse,
    /// The groups of the smallest keys are kept; all others together are "the rest". The choice of these keys does
    /// not depend on the order of arrival.
    KeepSmallestKeys,
}

/// The end of the order that [`Ask::Top`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The largest values.
    Largest,
    /// The smallest values.
    Smallest,
}

/// The statistic that is estimated, over the records that pass a query's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The number of records.
    Count,
    /// The sum of a column.
    Sum(Column),
    /// The mean of a column.
    Mean(Column),
    /// The share, among all records, of those that pass the filter.
    Proportion,
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("count"),
            Self::Sum(column) => write!(f, "sum of {column}"),
            Self::Mean(column) => write!(f, "mean {column}"),
            Self::Proportion => f.write_str("proportion"),
        }
    }
}

/// The number of samples in a hundred in which the interval is to contain the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// 90.
    Percent90,
    /// 95.
    #[default]
    Percent95,
    /// 99.
    Percent99,
}

impl Level {
    /// Returns the confidence level, in percent.
    pub fn percent(self) -> u32 {
        match self {
            Self::Percent90 => 90,
            Self::Percent95 => 95,
            Self::Percent99 => 99,
        }
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Count, sum, least, greatest, mean and variance.
    Summary(Column),
    /// A summary for each value of another column.
    Groups {
        /// The column whose values make the groups.
        by: Column,
        /// The column that is summed up.
        measure: Column,
        /// The most groups, 1 to [`GROUPS_MAX`].
        most: usize,
        /// The treatment of further groups.
        overflow: Overflow,
    },
    /// The records with the largest or smallest values; ties go to the smaller id.
    Top {
        /// The column.
        by: Column,
        /// The number of records, 1 to [`TOP_RECORDS_MAX`].
        count: usize,
        /// The end of the order.
        end: End,
    },
    /// The number of records with values in each step of `width` from `start` on; and the numbers of records below
    /// and above these steps.
    Histogram {
        /// The column.
        of: Column,
        /// The least value of the first bucket.
        start: i64,
        /// The width of a bucket, 1 or more.
        width: u64,
        /// The number of buckets, 1 to [`BUCKETS_MAX`].
        buckets: usize,
    },
    /// An estimate for the whole table from the pages read, with an interval.
    Estimate {
        /// The statistic.
        statistic: Statistic,
        /// The confidence level of the interval.
        level: Level,
        /// The number of parts of equal length into which the table is cut by position, 1 to [`STRATA_MAX`]; 1 means
        /// no stratification.
        strata: u32,
    },
}

/// The most groups that a question may keep, all of them in memory.
pub const GROUPS_MAX: usize = 1 << 20;
/// The most records that a question may rank, all of them in memory.
pub const TOP_RECORDS_MAX: usize = 1 << 16;
/// The most buckets of a histogram, all of them in memory.
pub const BUCKETS_MAX: usize = 1 << 16;
/// The most strata of an estimate, each with its sums in memory.
pub const STRATA_MAX: u32 = 1 << 12;
/// The most questions of one scan: each of them looks at every record.
pub const QUERIES_MAX: usize = 256;

/// A question with a name, about some of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The name in answers and errors.
    pub name: String,
    /// The filter of the records that the question is about.
    pub filter: Filter,
    /// The question.
    pub ask: Ask,
}

impl Query {
    /// Returns a question about all records.
    pub fn new(name: impl Into<String>, ask: Ask) -> Self {
        Self { name: name.into(), filter: Filter::All, ask }
    }

    /// Returns the same question about the records that pass `filter`.
    pub fn only(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

/// The reason for which questions were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// There are too many questions.
    #[error("{0} queries; ask at most {QUERIES_MAX} in one scan")]
    TooMany(usize),
    /// A number is out of range.
    #[error("query `{query}`: {number}")]
    OutOfRange {
        /// The name of the question.
        query: String,
        /// The number.
        number: OutOfRange,
    },
}

/// The valid questions of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries(Arc<[Query]>);

impl Queries {
    /// Checks the questions.
    ///
    /// # Errors
    /// There are too many, or a bound is out of range.
    pub fn new(queries: impl Into<Vec<Query>>) -> Result<Self, QueryError> {
        let queries: Vec<Query> = queries.into();
        if queries.len() > QUERIES_MAX {
            return Err(QueryError::TooMany(queries.len()));
        }
        for query in &queries {
            let check = |field, value, most| {
                OutOfRange::check(field, value, 1, most)
                    .map_err(|number| QueryError::OutOfRange { query: query.name.clone(), number })
            };
            match query.ask {
                Ask::Summary(_) => {}
                Ask::Groups { most, .. } => check("most", most as u64, GROUPS_MAX as u64)?,
                Ask::Top { count, .. } => check("count", count as u64, TOP_RECORDS_MAX as u64)?,
                Ask::Histogram { width, buckets, .. } => {
                    check("width", width, u64::MAX)?;
                    check("buckets", buckets as u64, BUCKETS_MAX as u64)?;
                }
                Ask::Estimate { strata, .. } => check("strata", strata.into(), STRATA_MAX.into())?,
            }
        }
        Ok(Self(queries.into()))
    }

    /// Returns the questions, in the order given.
    pub fn as_slice(&self) -> &[Query] {
        &self.0
    }
}
