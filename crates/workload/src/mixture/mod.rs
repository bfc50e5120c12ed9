//! A small language for loads: the requests of a load, mixed by weight, and their arrivals.
//!
//! `docs/WORKLOADS.md` has the grammar with an example of each word.

mod parse;
mod places;
mod print;
mod sizes;
mod source;

pub use source::Mixed;

use crate::issue::Arrival;
use crate::random::Share;
use std::ops::Range;
use std::str::FromStr;
use units::{Bytes, Lbn};

/// The most bytes of a load's text.
pub const TEXT_BYTES_MAX: usize = 4_096;
/// The most parts of a load, and the most sizes of a part.
pub const PARTS_MAX: usize = 64;
/// The largest weight of a part or of a size.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// The most sequential streams of a part: each has a position of its own in memory.
pub const STREAMS_MAX: u32 = 65_536;
/// The largest request, 1 GiB.
pub const SIZE_MAX: Bytes = Bytes::new(1 << 30);
/// The default size, alignment and popularity unit: 4 KB, as in the papers' loads.
pub const SIZE_DEFAULT: Bytes = Bytes::new(4 << 10);

/// A load: parts that are mixed by weight, and perhaps their arrivals.
///
/// The text of a load and this type can be converted to each other without loss; [`Mixed`] draws the requests.
///
/// ```
/// use freeblock_workload::{Mixed, Mixture, Source};
/// use units::{Bytes, Sectors};
/// let text = "3*zipf:0.9,size=4k/64k,reads=70%,range=0%-50% + sequential:4,run=256,size=64k; poisson:150";
/// let load: Mixture = text.parse()?;
/// assert_eq!(load.parts().len(), 2);
/// assert_eq!(load.to_string().parse(), Ok(load.clone()));
/// let mut requests = Mixed::new(&load, Sectors::new(17_938_986), Bytes::new(512), 42)?;
/// assert!(requests.next_request().is_some());
///
/// let error = "zipf:0.9,size=4x".parse::<Mixture>().unwrap_err();
/// assert_eq!(error.span(), 14..16);
/// # Ok::<(), freeblock_workload::MixtureError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    parts: Vec<Part>,
    arrival: Option<Arrival>,
}

impl Mixture {
    /// Returns the parts, at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the arrivals, if the text has any.
    pub const fn arrival(&self) -> Option<Arrival> {
        self.arrival
    }
}

impl FromStr for Mixture {
    type Err = MixtureError;

    fn from_str(text: &str) -> Result<Self, MixtureError> {
        parse::load(text)
    }
}

/// One part of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part's share of all requests is its weight over the sum of all weights; from 1.
    pub weight: u32,
    /// The rule for the LBNs at which the part's requests begin.
    pub place: Place,
    /// The sizes of the part's requests, at least one.
    pub sizes: Vec<WeightedSize>,
    /// The share of reads.
    pub reads: Share,
    /// The part of the drive in which the requests lie.
    pub extent: Extent,
    /// The divisor of all starts, and the step of sizes that are drawn from a distribution; `None` means 4 KB, or the
    /// smallest size if that is smaller.
    pub align: Option<Bytes>,
    /// The place of the part in the text.
    span: Span,
}

/// The rule for the LBNs at which requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every aligned start is equally likely.
    Random,
    /// Blocks have a popularity: the k-th most popular has a probability proportional to 1 / k^theta.
    Zipf {
        /// Theta in millionths.
        theta_ppm: u32,
        /// The size of a block; `None` for the alignment.
        block: Option<Bytes>,
        /// Whether the k-th most popular block lies at the k-th place of the extent. Otherwise a seeded permutation scatters the
        /// blocks.
        ascending: bool,
    },
    /// A share of the requests goes to a hot region, the others go elsewhere in the extent; both are uniform.
    Hot {
        /// The share of requests in the hot region.
        share: Share,
        /// The first millionth of the extent that is in the hot region.
        from_ppm: u32,
        /// The millionth of the extent after the hot region's last.
        to_ppm: u32,
    },
    /// Sequential streams: each request of a stream begins at the sector after the stream's last request.
    Sequential {
        /// The number of streams. Each request belongs to a random stream.
        streams: u32,
        /// The number of requests after which a stream begins elsewhere.
        run: Run,
    },
}

/// The number of requests of a sequential run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The stream never ends: after the end of the extent it continues at the beginning. The streams begin evenly spaced.
    Endless,
    /// A run has this number of requests. The streams begin at random places.
    Constant(u32),
    /// The number is distributed geometrically with this mean: each request is the last with the probability 1 / mean.
    Geometric(u32),
}

/// A size with its weight against the part's other sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedSize {
    /// The weight, from 1.
    pub weight: u32,
    /// The size.
    pub size: Size,
}

/// A distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One size.
    Constant(Bytes),
    /// All multiples of the alignment from the first size to the second, equally likely.
    Uniform(Bytes, Bytes),
    /// Exponentially distributed, rounded up to a multiple of the alignment.
    Exponential {
        /// The mean before the rounding.
        mean: Bytes,
        /// The largest size; larger sizes are reduced to it.
        max: Bytes,
    },
}

/// A part of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// From one millionth of the drive to before another.
    Share {
        /// The first millionth of the extent.
        from_ppm: u32,
        /// The millionth after the last one.
        to_ppm: u32,
    },
    /// From one LBN to another, both included.
    Lbns {
        /// The first LBN.
        first: Lbn,
        /// The last LBN.
        last: Lbn,
    },
}

impl Extent {
    /// The whole drive.
    pub const WHOLE: Self = Self::Share { from_ppm: 0, to_ppm: 1_000_000 };
}

/// The bytes of the load's text that a part takes. All spans are equal, because the place in the text is no property of
/// a load.
#[derive(Clone, Debug, Default)]
struct Span(Range<usize>);

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Span {}

/// A mistake in the text of a load, or a load that does not fit the drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {}: {problem}; {mend}", .span.start + 1)]
pub struct MixtureError {
    problem: String,
    mend: String,
    span: Range<usize>,
}

impl MixtureError {
    fn new(span: Range<usize>, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { span, problem: problem.into(), mend: mend.into() }
    }

    /// Returns the bytes of the text that are wrong; an empty range if something is missing there.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the description of the mistake.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns the remedy.
    pub fn mend(&self) -> &str {
        &self.mend
    }
}
