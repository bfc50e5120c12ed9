//! The sizes of a part's requests.

use super::{MixtureError, Part, SIZE_DEFAULT, Size};
use crate::random::Stream;
use std::num::NonZeroU64;
use units::{Bytes, Sectors};

/// A sampler of sizes in sectors.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// The sizes, each with the sum of the weights up to and with it.
    sizes: Vec<(u64, Drawn)>,
    weights: NonZeroU64,
    /// The alignment in sectors.
    pub(super) align: NonZeroU64,
}

#[derive(Clone, Copy, Debug)]
enum Drawn {
    Constant(u64),
    /// The smallest size in units of the alignment, and the number of sizes from it on.
    Uniform(u64, NonZeroU64),
    /// The mean and the maximum in units of the alignment.
    Exponential(f64, u64),
}

impl Sizes {
    /// Converts the sizes of a part to sectors of `sector` bytes.
    ///
    /// # Errors
    /// A size or an alignment is not whole sectors, or a drawn size is no multiple of the alignment.
    pub(super) fn new(part: &Part, sector: Bytes) -> Result<Self, MixtureError> {
        let error = |problem: String, mend: &str| MixtureError::new(part.span.0.clone(), problem, mend);
        let whole = |bytes: Bytes, what: &str| {
            let sector = sector.get().max(1);
            let sectors =
                NonZeroU64::new(bytes.get() / sector).filter(|_| bytes.get().is_multiple_of(sector));
            let mend = format!("give a multiple of the drive's sector, {sector} bytes");
            sectors.ok_or_else(|| error(format!("the {what} is {bytes} bytes"), &mend))
        };
        let smallest = part.sizes.iter().map(|of| match of.size {
            Size::Constant(low) | Size::Uniform(low, _) => low,
            Size::Exponential { .. } => SIZE_DEFAULT,
        });
        let default = smallest.min().unwrap_or(SIZE_DEFAULT).min(SIZE_DEFAULT);
        let align = whole(part.align.unwrap_or(default), "alignment")?;
        let multiple = |bytes: Bytes| {
            let sectors = whole(bytes, "size")?.get();
            if sectors.is_multiple_of(align.get()) {
                return Ok(sectors / align.get());
            }
            let align = Sectors::new(align.get()).bytes(sector);
            let mend = format!("give a multiple of the alignment, {align} bytes, or another align=");
            Err(error(format!("a size of {bytes} bytes is drawn"), &mend))
        };
        let mut sum = 0;
        let mut sizes = Vec::with_capacity(part.sizes.len());
        for of in &part.sizes {
            let drawn = match of.size {
                Size::Constant(bytes) => Drawn::Constant(whole(bytes, "size")?.get()),
                Size::Uniform(low, high) => {
                    let (low, high) = (multiple(low)?, multiple(high)?);
                    Drawn::Uniform(low, NonZeroU64::MIN.saturating_add(high.saturating_sub(low)))
                }
                Size::Exponential { mean, max } => {
                    let unit = Sectors::new(align.get()).bytes(sector).get();
                    Drawn::Exponential(mean.get() as f64 / unit as f64, multiple(max)?)
                }
            };
            sum += u64::from(of.weight.max(1));
            sizes.push((sum, drawn));
        }
        Ok(Self { sizes, weights: NonZeroU64::new(sum).unwrap_or(NonZeroU64::MIN), align })
    }

    /// Returns the largest size.
    pub(super) fn largest(&self) -> u64 {
        let align = self.align.get();
        let largest = self.sizes.iter().map(|(_, drawn)| match drawn {
            Drawn::Constant(sectors) => *sectors,
            Drawn::Uniform(low, sizes) => (low + (sizes.get() - 1)) * align,
            Drawn::Exponential(_, max) => max * align,
        });
        largest.max().unwrap_or(1)
    }

    /// Returns the greatest common divisor of the alignment and all sizes.
    pub(super) fn grain(&self) -> u64 {
        self.sizes.iter().fold(self.align.get(), |grain, (_, drawn)| match drawn {
            Drawn::Constant(sectors) => divisor(grain, *sectors),
            Drawn::Uniform(..) | Drawn::Exponential(..) => grain,
        })
    }

    /// Draws a size.
    #[inline]
    pub(super) fn sample(&self, stream: &mut Stream) -> u64 {
        let chosen = match self.sizes.as_slice() {
            [one] => Some(one),
            sizes => {
                let draw = stream.below(self.weights);
                sizes.get(sizes.partition_point(|(sum, _)| *sum <= draw))
            }
        };
        match chosen {
            Some((_, Drawn::Constant(sectors))) => *sectors,
            Some((_, Drawn::Uniform(low, sizes))) => (low + stream.below(*sizes)) * self.align.get(),
            Some((_, Drawn::Exponential(mean, max))) => {
                let units = (mean * stream.exponential()).ceil() as u64;
                units.clamp(1, *max) * self.align.get()
            }
            None => self.align.get(),
        }
    }
}

/// Returns the greatest common divisor, by Euclid's algorithm.
pub(super) const fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
