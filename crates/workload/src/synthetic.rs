//! FAST'04's synthetic benchmark: small requests everywhere.

use crate::error::ConfigError;
use crate::random::{Share, Stream};
use crate::request::{Request, Source};
use crate::uniform::{sectors_in, starts};
use std::num::NonZeroU64;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};

/// The configuration of [`Synthetic`]. FAST'04, section 6.1: "small (4KB-8KB) read and write I/Os to disk, with a
/// read-write ratio of 2:1"; section 6.3 adds that they are uniformly distributed around the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticConfig {
    /// The drive's sectors.
    pub capacity: Sectors,
    /// Sizes and starts are multiples of this. The paper does not name the unit; assumed 4 KB, as in the OLTP load.
    pub unit: Sectors,
    /// The smallest size, a multiple of `unit`.
    pub size_min: Sectors,
    /// The largest size, a multiple of `unit`. All multiples from the smallest to the largest are equally likely
    /// (assumed).
    pub size_max: Sectors,
    /// The share of reads. Figures 7, 8 and 11 vary it.
    pub reads: Share,
}

impl SyntheticConfig {
    /// Returns the paper's load on a drive of `capacity` sectors of `sector` bytes: 4 or 8 KB, two reads to a write.
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        let unit = sectors_in(4 << 10, sector);
        Self {
            capacity,
            unit,
            size_min: unit,
            size_max: Sectors::new(unit.get() * 2),
            reads: Share::TWO_THIRDS,
        }
    }
}

/// Requests of a few sizes anywhere on the drive: a start is any multiple of the unit from which the size fits.
///
/// The [`Arrival`](crate::Arrival) decides the times: [`Arrival::outstanding(2)`](crate::Arrival::outstanding) gives
/// the paper's busy benchmark, and [`Utilisation`](crate::Utilisation) the arrivals of the paper's figure 5.
///
/// ```
/// use freeblock_workload::{Source, Synthetic, SyntheticConfig};
/// use units::{Bytes, Sectors};
/// let mut load = Synthetic::new(SyntheticConfig::new(Sectors::new(17_938_986), Bytes::new(512)), 1)?;
/// assert!(matches!(load.next_request().unwrap().range.len().get(), 8 | 16));
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Synthetic {
    unit: Sectors,
    /// The smallest size, in units.
    size_min: u64,
    /// The number of sizes.
    sizes: NonZeroU64,
    /// Units on the drive, at least as many as the largest request has.
    units: u64,
    reads: Share,
    stream: Stream,
}

impl Synthetic {
    /// Creates a load that draws from the stream "workload.synthetic" of `seed`.
    ///
    /// # Errors
    /// The unit is zero; sizes are zero, out of order or no multiples of the unit; the drive does not hold the
    /// largest size.
    pub fn new(config: SyntheticConfig, seed: u64) -> Result<Self, ConfigError> {
        let SyntheticConfig { capacity, unit, size_min, size_max, reads } = config;
        if unit == Sectors::ZERO {
            return Err(ConfigError::field("unit", 0, "give at least 1 sector"));
        }
        for (field, size) in [("size_min", size_min), ("size_max", size_max)] {
            if size == Sectors::ZERO || !size.get().is_multiple_of(unit.get()) {
                return Err(ConfigError::field(field, size, "give a multiple of the unit, at least once it"));
            }
        }
        let (low, high) = (size_min.get() / unit.get(), size_max.get() / unit.get());
        let mend = "give at least the smallest size";
        let more = high.checked_sub(low).ok_or_else(|| ConfigError::field("size_max", size_max, mend))?;
        starts(capacity, size_max, unit)?;
        Ok(Self {
            unit,
            size_min: low,
            sizes: NonZeroU64::MIN.saturating_add(more),
            units: capacity.get() / unit.get(),
            reads,
            stream: Stream::new(seed, "workload.synthetic"),
        })
    }
}

impl Source for Synthetic {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        let size = self.size_min + self.stream.below(self.sizes);
        // The constructor proved that the largest size fits, so at least one start is left.
        let starts = NonZeroU64::MIN.saturating_add(self.units.saturating_sub(size));
        let start = Lbn::new(self.stream.below(starts) * self.unit.get());
        let op = if self.stream.chance(self.reads) { Op::Read } else { Op::Write };
        Some(Request { op, range: LbnRange::new(start, Sectors::new(size * self.unit.get())) })
    }
}
