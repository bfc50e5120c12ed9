//! The LBNs at which a part's requests begin.

use super::{Extent, MixtureError, Part, Place, Run};
use crate::random::{Scatter, Share, Stream, Zipf};
use std::num::NonZeroU64;
use units::{Bytes, Sectors};

/// The sectors in which a part's requests lie, and the aligned sectors in them at which requests may begin (starts).
#[derive(Clone, Copy, Debug)]
pub(super) struct StartRange {
    /// The sector after the last.
    high: u64,
    /// The first aligned sector.
    first: u64,
    align: NonZeroU64,
    /// The number of aligned sectors at which the largest size fits.
    starts: NonZeroU64,
}

/// A sampler of places.
#[derive(Clone, Debug)]
pub(super) enum Places {
    Random,
    Zipf {
        zipf: Zipf,
        scatter: Option<Scatter>,
        /// Starts in a block.
        block: NonZeroU64,
    },
    Hot {
        share: Share,
        /// The first start of the hot region, and the number of its starts.
        from: u64,
        hot: NonZeroU64,
        /// The number of the other starts; `None` if all requests go to the hot region.
        cold: Option<NonZeroU64>,
    },
    Sequential {
        /// The next sector of each stream, and the requests left in its run.
        streams: Vec<(u64, u32)>,
        number: NonZeroU64,
        run: Run,
    },
}

impl StartRange {
    /// Returns the start range of `part` on a drive of `capacity` sectors.
    ///
    /// # Errors
    /// The extent is past the end of the drive, or too small for the largest request.
    pub(super) fn new(
        part: &Part,
        capacity: Sectors,
        align: NonZeroU64,
        largest: u64,
    ) -> Result<Self, MixtureError> {
        let error = |problem: String, mend: &str| MixtureError::new(part.span.0.clone(), problem, mend);
        let capacity = capacity.get();
        let of = |ppm: u32| (u128::from(capacity) * u128::from(ppm) / 1_000_000) as u64;
        let (low, high) = match part.extent {
            Extent::Share { from_ppm, to_ppm } => (of(from_ppm), of(to_ppm)),
            Extent::Lbns { first, last } if last.get() < capacity => (first.get(), last.get() + 1),
            Extent::Lbns { last, .. } => {
                let problem =
                    format!("the range ends at LBN {}, the drive has {capacity} sectors", last.get());
                return Err(error(problem, "give LBNs below the drive's capacity"));
            }
        };
        let first = low.checked_next_multiple_of(align.get());
        let more = first
            .and_then(|first| high.checked_sub(first))
            .and_then(|room| room.checked_sub(largest))
            .map(|room| room / align.get());
        let (Some(first), Some(more)) = (first, more) else {
            let sectors = high.saturating_sub(low);
            let problem = format!("a request of {largest} sectors does not fit in the range of {sectors}");
            return Err(error(problem, "give smaller requests, a larger range or a smaller align="));
        };
        Ok(Self { high, first, align, starts: NonZeroU64::MIN.saturating_add(more) })
    }

    /// Returns the sector of a start.
    fn sector(&self, start: u64) -> u64 {
        self.first + start * self.align.get()
    }

    fn random(&self, stream: &mut Stream) -> u64 {
        self.sector(stream.below(self.starts))
    }
}

impl Places {
    /// Returns the places of `part` in `field`; values that are drawn once come from `stream`.
    ///
    /// # Errors
    /// A popularity block is no multiple of the alignment, or a hot region has no start.
    pub(super) fn new(
        part: &Part,
        field: &StartRange,
        sector: Bytes,
        stream: &mut Stream,
    ) -> Result<Self, MixtureError> {
        let error = |problem: String, mend: &str| MixtureError::new(part.span.0.clone(), problem, mend);
        let starts = field.starts.get();
        Ok(match part.place {
            Place::Random => Self::Random,
            Place::Zipf { theta_ppm, block, ascending } => {
                let unit = Sectors::new(field.align.get()).bytes(sector);
                let block = block.unwrap_or(unit);
                let whole = NonZeroU64::new(block.get() / unit.get().max(1))
                    .filter(|_| block.get().is_multiple_of(unit.get().max(1)));
                let Some(whole) = whole else {
                    let mend = format!("give a multiple of the alignment, {unit} bytes");
                    return Err(error(format!("block is {block} bytes"), &mend));
                };
                let blocks = NonZeroU64::MIN.saturating_add((starts - 1) / whole.get());
                let scatter = (!ascending).then(|| Scatter::new(blocks, stream));
                Self::Zipf { zipf: Zipf::new(blocks, theta_ppm), scatter, block: whole }
            }
            Place::Hot { share, from_ppm, to_ppm } => {
                let of = |ppm: u32| (u128::from(starts) * u128::from(ppm) / 1_000_000) as u64;
                let (from, to) = (of(from_ppm), of(to_ppm));
                let mend = "give a larger hot region or range";
                let hot = NonZeroU64::new(to - from).ok_or_else(|| {
                    error(format!("the hot region has no start of the range's {starts}"), mend)
                })?;
                Self::Hot { share, from, hot, cold: NonZeroU64::new(starts - hot.get()) }
            }
            Place::Sequential { streams: count, run } => {
                let number = NonZeroU64::new(count.into()).unwrap_or(NonZeroU64::MIN);
                let begin = |n: u64| match run {
                    Run::Endless => {
                        let start = u128::from(starts) * u128::from(n) / u128::from(number.get());
                        (field.sector(start as u64), u32::MAX)
                    }
                    Run::Constant(_) | Run::Geometric(_) => (0, 0),
                };
                Self::Sequential { streams: (0..number.get()).map(begin).collect(), number, run }
            }
        })
    }

    /// Draws the first sector of a request of `size` sectors.
    #[inline]
    pub(super) fn sample(&mut self, field: &StartRange, size: u64, stream: &mut Stream) -> u64 {
        match self {
            Self::Random => field.random(stream),
            Self::Zipf { zipf, scatter, block } => {
                let rank = zipf.sample(stream) - 1;
                let begin = scatter.map_or(rank, |scatter| scatter.place(rank)) * block.get();
                // The last block may be cut off by the end of the range.
                let here = field.starts.get().saturating_sub(begin).min(block.get());
                let within = NonZeroU64::new(here).map_or(0, |here| stream.below(here));
                field.sector(begin + within)
            }
            Self::Hot { share, from, hot, cold } => match cold {
                Some(cold) if !stream.chance(*share) => {
                    let start = stream.below(*cold);
                    field.sector(if start < *from { start } else { start + hot.get() })
                }
                _ => field.sector(*from + stream.below(*hot)),
            },
            Self::Sequential { streams, number, run } => {
                let chosen = stream.below(*number) as usize;
                let Some((next, left)) = streams.get_mut(chosen) else { return field.random(stream) };
                if *left == 0 {
                    *next = field.random(stream);
                    *left = match run {
                        Run::Endless | Run::Geometric(_) => u32::MAX,
                        Run::Constant(requests) => *requests,
                    };
                }
                // If the request would end past the range, the stream continues at the beginning of the range.
                if field.high.checked_sub(size).is_none_or(|last| *next > last) {
                    *next = field.first;
                }
                let place = *next;
                *next += size;
                match run {
                    Run::Endless => {}
                    Run::Constant(_) => *left -= 1,
                    Run::Geometric(mean) => {
                        let ends = NonZeroU64::new((*mean).into()).is_none_or(|mean| stream.below(mean) == 0);
                        if ends {
                            *left = 0;
                        }
                    }
                }
                place
            }
        }
    }
}
