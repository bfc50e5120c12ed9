//! The papers' "random" load: requests of one size, all over the drive or near the preceding request.

use crate::error::ConfigError;
use crate::random::{Share, StandardNormal, Stream};
use crate::request::{Request, Source};
use std::num::NonZeroU64;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};

/// The configuration of [`Random`]. OSDI'00, section 3: "request size of 4KB, uniform distribution of starting
/// locations across the disk capacity, and 2:1 ratio of reads to writes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomConfig {
    /// The drive's sectors.
    pub capacity: Sectors,
    /// The size of every request.
    pub size: Sectors,
    /// Every request starts at a multiple of this number, which need not divide the size.
    pub align: Sectors,
    /// The share of reads.
    pub reads: Share,
    /// The share of requests near the preceding one (OSDI'00, figure 4).
    pub local: Share,
    /// The standard deviation of a local request's start around the last request's start.
    pub local_deviation: Sectors,
}

impl RandomConfig {
    /// Returns the paper's load on a drive of `capacity` sectors of `sector` bytes: 4 KB at multiples of 4 KB, two
    /// reads to a write, no local requests. If a share of requests is made local, the standard deviation is 4 MB.
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        let block = sectors_in(4 << 10, sector);
        Self {
            capacity,
            size: block,
            align: block,
            reads: Share::TWO_THIRDS,
            local: Share::NONE,
            local_deviation: sectors_in(4 << 20, sector),
        }
    }
}

/// Returns the sectors for `bytes`, at least one.
pub(crate) fn sectors_in(bytes: u64, sector: Bytes) -> Sectors {
    Sectors::new(bytes.div_ceil(sector.get().max(1)).max(1))
}

/// Requests of a fixed size at random places.
///
/// A uniform request starts at any aligned sector from which it fits, each as likely as any other. A local request
/// starts at a normal deviate from the last request's start, rounded to the alignment; a start off either end of the
/// drive becomes the first or last aligned start (so the ends are slightly more popular than the middle).
///
/// ```
/// use freeblock_workload::{Random, RandomConfig, Source};
/// use units::{Bytes, Sectors};
/// let config = RandomConfig::new(Sectors::new(17_938_986), Bytes::new(512));
/// let mut load = Random::new(config, 1)?;
/// let request = load.next_request().unwrap();
/// assert_eq!(request.range.len(), Sectors::new(8));
/// assert!(request.range.end().get() <= 17_938_986);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    config: RandomConfig,
    stream: Stream,
    normal: StandardNormal,
    /// The number of aligned starts.
    starts: NonZeroU64,
    /// The standard deviation of a local start, in units of the alignment.
    deviation: f64,
    /// The last request's start, in units of the alignment.
    last: u64,
}

impl Random {
    /// Creates a load that draws from the stream "workload.random" of `seed`. If the first request is local, it is near
    /// the middle of the drive.
    ///
    /// # Errors
    /// The size, alignment or deviation is zero; the drive does not hold a request.
    pub fn new(config: RandomConfig, seed: u64) -> Result<Self, ConfigError> {
        let at_least_one = "give at least 1 sector";
        if config.size == Sectors::ZERO {
            return Err(ConfigError::field("size", 0, at_least_one));
        }
        if config.align == Sectors::ZERO {
            return Err(ConfigError::field("align", 0, at_least_one));
        }
        if config.local_deviation == Sectors::ZERO && !config.local.is_none() {
            return Err(ConfigError::field("local_deviation", 0, at_least_one));
        }
        let starts = starts(config.capacity, config.size, config.align)?;
        Ok(Self {
            stream: Stream::new(seed, "workload.random"),
            normal: StandardNormal::default(),
            starts,
            deviation: config.local_deviation.get() as f64 / config.align.get() as f64,
            last: starts.get() / 2,
            config,
        })
    }

    #[inline]
    fn local_start(&mut self) -> u64 {
        let offset = (self.normal.sample(&mut self.stream) * self.deviation).round() as i64;
        self.last.saturating_add_signed(offset).min(self.starts.get() - 1)
    }
}

/// Returns the number of multiples of `align` at which a request of `size` may start.
pub(crate) fn starts(capacity: Sectors, size: Sectors, align: Sectors) -> Result<NonZeroU64, ConfigError> {
    capacity
        .get()
        .checked_sub(size.get())
        .and_then(|room| NonZeroU64::new((room / align.get()).saturating_add(1)))
        .ok_or(ConfigError::CapacityTooSmall { capacity, needed: size })
}

impl Source for Random {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        // Without local requests, no random number is drawn for locality.
        let local = !self.config.local.is_none() && self.stream.chance(self.config.local);
        self.last = if local { self.local_start() } else { self.stream.below(self.starts) };
        let op = if self.stream.chance(self.config.reads) { Op::Read } else { Op::Write };
        let start = Lbn::new(self.last * self.config.align.get());
        Some(Request { op, range: LbnRange::new(start, self.config.size) })
    }
}
