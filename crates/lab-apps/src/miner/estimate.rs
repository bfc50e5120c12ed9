//! Estimates for the whole table from the pages that were read.
//!
//! A page is a cluster: its records are read together, and records close to each other are similar, so the sample
//! consists of pages, never of records (Cochran, Sampling Techniques, 3rd ed. 1977, chapters 5A and 9A). With n of N
//! pages, a total is N times the mean over pages, its variance N^2 (1 - n/N) s^2 / n, where the factor 1 - n/N, the
//! finite population correction, makes the interval shrink to nothing as the scan becomes whole. Means and
//! proportions are ratios of two totals; their variance is that of the residuals (section 6).
//!
//! These formulas assume that the pages read are as good as drawn at random. That is not quite so: free bandwidth
//! reads blocks on the head's path, so blocks near the foreground's work, and on the way there, are read first, and
//! in runs of neighbours. OSDI'00 names the assumption (section 6.3: "sufficiently random data selection or that the
//! sampling algorithm is adaptive to sampling biases"). Stratification by position adapts to this bias: the table is
//! cut into parts of equal length, each part is estimated from its own pages and weighted by its size, not by the
//! number of its pages in the sample (post-stratification, Cochran section 5A.9). Within a part the assumption
//! remains.

use super::page::{PageNumber, Sale};
use super::query::{Filter, Level, Statistic};
use std::fmt;

impl Level {
    /// Returns the two-sided quantile of Student's t with `freedom` degrees of freedom, 1 or more.
    ///
    /// Up to ten degrees, the quantile is from a table; above, it is from the series in 1 / freedom (Abramowitz and
    /// Stegun 26.7.5), which is accurate to 1.5e-3 at eleven degrees and soon far better. The series needs no
    /// logarithm, so the result is the same on every machine.
    fn quantile(self, freedom: u64) -> f64 {
        const T_QUANTILES_90: [f64; 10] =
            [6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125];
        const T_QUANTILES_95: [f64; 10] =
            [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];
        const T_QUANTILES_99: [f64; 10] =
            [63.6567, 9.9248, 5.8409, 4.6041, 4.0321, 3.7074, 3.4995, 3.3554, 3.2498, 3.1693];
        let (table, z) = match self {
            Self::Percent90 => (T_QUANTILES_90, 1.644_853_626_951_472_2),
            Self::Percent95 => (T_QUANTILES_95, 1.959_963_984_540_054),
            Self::Percent99 => (T_QUANTILES_99, 2.575_829_303_548_900_4),
        };
        if let Some(t) = usize::try_from(freedom).ok().and_then(|v| table.get(v.saturating_sub(1))) {
            return *t;
        }
        let (v, z2) = (freedom as f64, z * z);
        let g1 = z * (z2 + 1.0) / 4.0;
        let g2 = z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
        let g3 = z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
        z + g1 / v + g2 / (v * v) + g3 / (v * v * v)
    }
}

/// An estimate for the whole table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimated value; exact if every page was read.
    pub value: f64,
    /// Half the interval: the truth is within this of the value, at the confidence level. `None` if the sample has no
    /// information about it: too few pages, or all of them equal.
    pub margin: Option<f64>,
    /// The confidence level.
    pub level: Level,
    /// The number of pages in the sample.
    pub sampled: u64,
    /// Pages of the table.
    pub pages: u64,
    /// The strata used, after those with too few pages were joined to their neighbours.
    pub strata: u32,
}

impl Estimate {
    /// Returns the margin as a share of the value; `None` without a margin, or if the value is 0.
    pub fn relative_margin(&self) -> Option<f64> {
        let share = self.margin? / self.value.abs();
        share.is_finite().then_some(share)
    }

    /// Returns whether the interval contains a value; `None` without an interval.
    pub fn covers(&self, truth: f64) -> Option<bool> {
        Some((truth - self.value).abs() <= self.margin?)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, level, sampled, pages, strata, .. } = self;
        match self.margin {
            Some(margin) => write!(f, "{value:.4} +- {margin:.4} ({} %", level.percent())?,
            None => write!(f, "{value:.4} (no interval")?,
        }
        write!(f, ", {sampled} of {pages} pages, {strata} strata)")
    }
}

/// Sums over the pages of a stratum, of the estimated quantity (u) and its divisor (v).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moments {
    pages: u64,
    u: i128,
    v: i128,
    /// The sum of squares. A page adds 2^106 at most, so the sum stays below 2^127, which [`Self::variance`] needs,
    /// for two million pages of the greatest revenue.
    uu: u128,
    uv: i128,
    vv: u128,
}

impl Moments {
    fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.u += other.u;
        self.v += other.v;
        self.uu = self.uu.saturating_add(other.uu);
        self.uv += other.uv;
        self.vv = self.vv.saturating_add(other.vv);
    }

    /// Returns the sample variance of u - ratio v over pages; `None` for fewer than two pages or after saturation.
    fn variance(&self, ratio: f64) -> Option<f64> {
        let uu = i128::try_from(self.uu).ok()?;
        let vv = i128::try_from(self.vv).ok()?;
        let n = self.pages;
        let (u, v) = (self.u, self.v);
        let scatter = |ab, a, b| scatter(n, ab, a, b);
        let sum =
            scatter(uu, u, u) - 2.0 * ratio * scatter(self.uv, u, v) + ratio * ratio * scatter(vv, v, v);
        (n >= 2).then(|| sum.max(0.0) / (n - 1) as f64)
    }
}

/// Returns the sum of (a - mean a)(b - mean b) over n pages, from their sums; in integers if they do not overflow.
fn scatter(n: u64, ab: i128, a: i128, b: i128) -> f64 {
    let exact = ab.checked_mul(i128::from(n)).zip(a.checked_mul(b)).and_then(|(x, y)| x.checked_sub(y));
    match exact {
        Some(scaled) => scaled as f64 / n as f64,
        None => ab as f64 - a as f64 * (b as f64 / n as f64),
    }
}

/// A part of the table, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stratum {
    /// The number of pages of the part.
    pages: u64,
    /// The sums over the pages of the part that were sampled.
    moments: Moments,
}

/// The fewest sampled pages of a stratum: a stratum with fewer is joined to its neighbour, because the variance of
/// few pages says too little.
const STRATUM_PAGES_MIN: u64 = 5;

/// The accumulator of one estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estimator {
    statistic: Statistic,
    level: Level,
    table_pages: u64,
    strata: Vec<Moments>,
}

impl Estimator {
    pub fn new(statistic: Statistic, level: Level, strata: u32, table_pages: u64) -> Self {
        let strata = u64::from(strata).clamp(1, table_pages.max(1)) as usize;
        Self { statistic, level, table_pages, strata: vec![Moments::default(); strata] }
    }

    pub fn page(&mut self, number: PageNumber, filter: &Filter, sales: &[Sale]) {
        let (mut count, mut sum) = (0i64, 0i64);
        let column = match self.statistic {
            Statistic::Sum(column) | Statistic::Mean(column) => Some(column),
            Statistic::Count | Statistic::Proportion => None,
        };
        for sale in sales.iter().filter(|sale| filter.passes(sale)) {
            count += 1;
            sum += column.map_or(0, |column| column.of(sale));
        }
        let (u, v) = match self.statistic {
            Statistic::Count => (count, 0),
            Statistic::Sum(_) => (sum, 0),
            Statistic::Mean(_) => (sum, count),
            Statistic::Proportion => (count, sales.len() as i64),
        };
        let square = |x: i64| u128::from(x.unsigned_abs()) * u128::from(x.unsigned_abs());
        let one = Moments {
            pages: 1,
            u: u.into(),
            v: v.into(),
            uu: square(u),
            uv: i128::from(u) * i128::from(v),
            vv: square(v),
        };
        let stratum = u128::from(number.get()) * self.strata.len() as u128 / u128::from(self.table_pages);
        if let Some(moments) = usize::try_from(stratum).ok().and_then(|s| self.strata.get_mut(s)) {
            moments.merge(&one);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.strata.iter_mut().zip(&other.strata) {
            mine.merge(theirs);
        }
    }

    /// Returns the estimate; `None` without data: no pages or, for a mean, no records.
    pub fn finish(&self) -> Option<Estimate> {
        let strata = self.joined();
        let total = |of: fn(&Moments) -> i128| -> f64 {
            let weigh = |Stratum { pages, moments }: &Stratum| {
                of(moments) as f64 * (*pages as f64 / moments.pages as f64)
            };
            strata.iter().map(weigh).sum()
        };
        let sampled: u64 = strata.iter().map(|s| s.moments.pages).sum();
        if sampled == 0 {
            return None;
        }
        let (top, bottom) = (total(|m| m.u), total(|m| m.v));
        let (value, ratio, scale) = match self.statistic {
            Statistic::Count | Statistic::Sum(_) => (top, 0.0, 1.0),
            Statistic::Mean(_) | Statistic::Proportion if bottom > 0.0 => {
                (top / bottom, top / bottom, 1.0 / bottom)
            }
            _ => return None,
        };
        Some(Estimate {
            value,
            margin: self.margin(&strata, ratio).map(|margin| margin * scale),
            level: self.level,
            sampled,
            pages: self.table_pages,
            strata: strata.len() as u32,
        })
    }

    /// Returns half the interval of the total of u - ratio v.
    fn margin(&self, strata: &[Stratum], ratio: f64) -> Option<f64> {
        let (mut variance, mut freedom) = (0.0, 0);
        let mut whole = true;
        for Stratum { pages, moments } in strata.iter().filter(|s| s.moments.pages < s.pages) {
            whole = false;
            let (all, n) = (*pages as f64, moments.pages as f64);
            variance += all * (all - n) / n * moments.variance(ratio)?;
            freedom += moments.pages - 1;
        }
        match whole {
            true => Some(0.0),
            // If the pages read are all equal, they tell nothing about those that were not read.
            false => (variance > 0.0).then(|| self.level.quantile(freedom) * variance.sqrt()),
        }
    }

    /// Returns the strata. A stratum of too few sampled pages is joined to the next one, the last stratum to the one
    /// before. The result depends on the set of pages read, not on their order.
    fn joined(&self) -> Vec<Stratum> {
        let count = self.strata.len() as u128;
        // Returns the first page p with p * count / table_pages >= s.
        let first = |s: usize| (s as u128 * u128::from(self.table_pages)).div_ceil(count) as u64;
        let enough = |s: &Stratum| s.moments.pages >= STRATUM_PAGES_MIN || s.moments.pages == s.pages;
        let mut done: Vec<Stratum> = Vec::new();
        let mut open: Option<Stratum> = None;
        for (s, moments) in self.strata.iter().enumerate() {
            let joined = open.get_or_insert_default();
            joined.pages += first(s + 1) - first(s);
            joined.moments.merge(moments);
            if let Some(full) = open.take_if(|open| enough(open)) {
                done.push(full);
            }
        }
        match (done.last_mut(), open) {
            (Some(joined), Some(more)) => {
                joined.pages += more.pages;
                joined.moments.merge(&more.moments);
            }
            (None, Some(only)) => done.push(only),
            (_, None) => {}
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of R 4's qt(), to six places.
    #[test]
    fn quantiles_join_the_table_smoothly() {
        for (level, v, t) in [
            (Level::Percent95, 11, 2.200_985),
            (Level::Percent95, 30, 2.042_272),
            (Level::Percent95, 120, 1.979_930),
            (Level::Percent90, 11, 1.795_885),
            (Level::Percent99, 11, 3.105_807),
            (Level::Percent99, 30, 2.749_996),
        ] {
            assert!((level.quantile(v) - t).abs() < 1.5e-3, "{level:?} {v}: {}", level.quantile(v));
        }
        assert!((Level::Percent95.quantile(u64::MAX) - 1.959_964).abs() < 1e-6);
        for level in [Level::Percent90, Level::Percent95, Level::Percent99] {
            assert!((1..200).all(|v| level.quantile(v) > level.quantile(v + 1)));
        }
    }

    #[test]
    fn strata_cover_the_table_however_they_are_joined() {
        for (pages, strata) in [(1, 1), (7, 3), (100, 7), (1_000, 64), (5, 4_096)] {
            let mut estimator = Estimator::new(Statistic::Count, Level::default(), strata, pages);
            for number in 0..pages {
                let whole: u64 = estimator.joined().iter().map(|s| s.pages).sum();
                assert_eq!(whole, pages);
                // The pages come in strides of 3, which has no common divisor with any of the page counts.
                estimator.page(PageNumber::new(number * 3 % pages), &Filter::All, &[Sale::default()]);
            }
            assert!(estimator.joined().iter().map(|s| s.moments.pages).sum::<u64>() == pages);
        }
    }

    /// The interval of a textbook-sized sample, computed by hand: 4 of 10 pages with 1, 3, 5, 7 records:
    /// total 10 * 4 = 40, s^2 = 20/3, variance 10 * 6 / 4 * 20/3 = 100, margin t(3) * 10 = 31.824.
    #[test]
    fn a_small_sample_is_as_by_hand() {
        let mut estimator = Estimator::new(Statistic::Count, Level::Percent95, 1, 10);
        for (page, records) in [(0, 1), (4, 3), (5, 5), (9, 7)] {
            estimator.page(PageNumber::new(page), &Filter::All, &vec![Sale::default(); records]);
        }
        let estimate = estimator.finish().unwrap();
        assert_eq!(estimate.value, 40.0);
        assert!((estimate.margin.unwrap() - 31.824).abs() < 1e-9);
    }
}
