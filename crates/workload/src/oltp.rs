//! The papers' OLTP load: variable sizes at uniform places.

use crate::error::ConfigError;
use crate::random::{Share, Stream, exp_neg};
use crate::request::{Request, Source};
use crate::uniform::{sectors_in, starts};
use std::num::NonZeroU64;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};

/// The configuration of [`Oltp`]. OSDI'00, section 6.2: "uniformly-distributed across the disk's capacity with a read
/// to write ratio of 2:1 and a request size that is a multiple of 4 kilobytes chosen from an exponential distribution
/// with a mean of 8 kilobytes"; 30 ms of think time between a task's requests
/// ([`Arrival::oltp`](crate::Arrival::oltp)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OltpConfig {
    /// The drive's sectors.
    pub capacity: Sectors,
    /// Sizes and starts are multiples of this.
    pub unit: Sectors,
    /// The mean of the exponential distribution BEFORE sizes are rounded up to a multiple of `unit`.
    pub mean: Sectors,
    /// The largest size, a multiple of `unit`; larger sizes are reduced to it.
    pub max: Sectors,
    /// The share of reads.
    pub reads: Share,
}

impl OltpConfig {
    /// Returns the paper's load on a drive of `capacity` sectors of `sector` bytes: units of 4 KB, a mean of 8 KB
    /// before rounding, at most 256 KB (which one size in e^31.5, 5e13, would exceed).
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        let unit = sectors_in(4 << 10, sector);
        Self {
            capacity,
            unit,
            mean: Sectors::new(unit.get() * 2),
            max: Sectors::new(unit.get() * 64),
            reads: Share::TWO_THIRDS,
        }
    }

    /// Returns the mean size after rounding and capping, in sectors.
    ///
    /// Rounded up to whole units, an exponential size is k units with probability (1 - q) q^(k-1), where
    /// q = e^(-unit/mean): a geometric distribution with mean 1 / (1 - q) units. The paper's numbers give
    /// 1 / (1 - e^-0.5) = 2.541 units, 10.17 KB.
    pub fn rounded_mean(&self) -> f64 {
        let unit = self.unit.get().max(1);
        let q = exp_neg(unit as f64 / self.mean.get().max(1) as f64);
        let units = self.max.get() / unit;
        // The sum of P(size > k units) over k below the cap.
        let mut tail = 1.0;
        let mut sum = 0.0;
        for _ in 0..units {
            sum += tail;
            tail *= q;
        }
        sum * unit as f64
    }
}

/// Requests of one to many units all over the drive.
///
/// The size is drawn first: an exponential sample rounded UP to the next multiple of the unit, at most the cap. The
/// start is then uniform over the multiples of the unit from which that size fits. To get a mean of r units AFTER
/// rounding, set the mean before rounding to -1 / ln(1 - 1/r) units: 1.443 units, 5.77 KB, for a rounded mean of 8
/// KB.
///
/// ```
/// use freeblock_workload::{Oltp, OltpConfig, Source};
/// use units::{Bytes, Sectors};
/// let config = OltpConfig::new(Sectors::new(17_938_986), Bytes::new(512));
/// assert!((config.rounded_mean() * 0.5 - 10.17).abs() < 0.01); // KB
/// let mut load = Oltp::new(config, 1)?;
/// assert_eq!(load.next_request().unwrap().range.len().get() % 8, 0);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Oltp {
    reads: Share,
    unit: Sectors,
    stream: Stream,
    /// `longer[k]` is the probability, in 2^-64, that a request is longer than k + 1 units; falling.
    longer: Vec<u64>,
    /// Units on the drive, at least as many as the largest request has.
    units: NonZeroU64,
}

/// The most units of a request, 1 GB in units of 4 KB: a table with a threshold for each is still small.
const UNITS_MAX: u64 = 1 << 18;

impl Oltp {
    /// Creates a load that draws from the stream "workload.oltp" of `seed`.
    ///
    /// # Errors
    /// The unit or mean is zero; the maximum is not a multiple of the unit, has more than 262,144 units, or is more
    /// than the drive holds.
    pub fn new(config: OltpConfig, seed: u64) -> Result<Self, ConfigError> {
        let OltpConfig { capacity, unit, mean, max, reads } = config;
        if unit == Sectors::ZERO {
            return Err(ConfigError::field("unit", 0, "give at least 1 sector"));
        }
        if mean == Sectors::ZERO {
            return Err(ConfigError::field("mean", 0, "give at least 1 sector"));
        }
        let max_units = max.get() / unit.get();
        if max_units == 0 || max_units > UNITS_MAX || !max.get().is_multiple_of(unit.get()) {
            let mend = "give a multiple of the unit, from 1 to 262144 times it";
            return Err(ConfigError::field("max", max, mend));
        }
        starts(capacity, max, unit)?;
        let units = NonZeroU64::new(capacity.get() / unit.get())
            .ok_or(ConfigError::CapacityTooSmall { capacity, needed: max })?;
        Ok(Self {
            reads,
            unit,
            stream: Stream::new(seed, "workload.oltp"),
            longer: thresholds(exp_neg(unit.get() as f64 / mean.get() as f64), max_units),
            units,
        })
    }

    #[inline]
    fn size_in_units(&mut self) -> u64 {
        let drawn = self.stream.next_u64();
        // Nearly all sizes are short: compare them first, in order.
        let (near, far) = self.longer.split_at(self.longer.len().min(4));
        let short = near.iter().take_while(|&&t| drawn < t).count();
        let long = if short == near.len() { far.partition_point(|&t| drawn < t) } else { 0 };
        1 + (short + long) as u64
    }
}

/// Returns the probabilities q, q^2, ... of a size above 1, 2, ... units, in 2^-64, for all sizes below the largest.
fn thresholds(q: f64, max_units: u64) -> Vec<u64> {
    const WHOLE_PARTS: f64 = 18_446_744_073_709_551_616.0;
    let mut chance = 1.0;
    (1..max_units)
        .map(|_| {
            chance *= q;
            (chance * WHOLE_PARTS) as u64
        })
        .take_while(|&t| t > 0)
        .collect()
}

impl Source for Oltp {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        let size = self.size_in_units();
        // The constructor proved that the largest size fits, so at least one start is left.
        let starts = NonZeroU64::new(self.units.get() - size + 1).unwrap_or(NonZeroU64::MIN);
        let start = self.stream.below(starts);
        let op = if self.stream.chance(self.reads) { Op::Read } else { Op::Write };
        let (start, size) = (Lbn::new(start * self.unit.get()), Sectors::new(size * self.unit.get()));
        Some(Request { op, range: LbnRange::new(start, size) })
    }
}
