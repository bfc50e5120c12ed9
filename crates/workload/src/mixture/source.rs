//! The requests of a load.

use super::places::{Places, StartRange};
use super::sizes::{Sizes, divisor};
use super::{Mixture, MixtureError};
use crate::random::{Share, Stream};
use crate::request::{Request, Source};
use std::num::NonZeroU64;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};

/// The requests of a [`Mixture`] on a drive, without end.
///
/// A part draws from streams of its own, so a change of one part shifts no random number of another.
#[derive(Clone, Debug)]
pub struct Mixed {
    chooser: Stream,
    weights: NonZeroU64,
    parts: Vec<Component>,
}

/// A part with its state.
#[derive(Clone, Debug)]
struct Component {
    /// The sum of the weights up to and with this part.
    weights: u64,
    stream: Stream,
    sizes: Sizes,
    field: StartRange,
    places: Places,
    reads: Share,
}

impl Mixed {
    /// Creates the requests of `load` on a drive of `capacity` sectors of `sector` bytes. Numbers are drawn from the
    /// streams "workload.mixture" and "workload.mixture.part" of `seed`.
    ///
    /// # Errors
    /// A part does not fit the drive: its sizes are not whole sectors, or its range is past the end of the drive or
    /// too small for a request.
    pub fn new(load: &Mixture, capacity: Sectors, sector: Bytes, seed: u64) -> Result<Self, MixtureError> {
        let mut weights = 0;
        let mut parts = Vec::with_capacity(load.parts().len());
        for (n, part) in load.parts().iter().enumerate() {
            let mut stream = Stream::numbered(seed, "workload.mixture.part", n as u64);
            let sizes = Sizes::new(part, sector)?;
            let field = StartRange::new(part, capacity, sizes.align, sizes.largest())?;
            let places = Places::new(part, &field, sector, &mut stream)?;
            weights += u64::from(part.weight.max(1));
            parts.push(Component { weights, stream, sizes, field, places, reads: part.reads });
        }
        let weights = NonZeroU64::new(weights).unwrap_or(NonZeroU64::MIN);
        Ok(Self { chooser: Stream::new(seed, "workload.mixture"), weights, parts })
    }

    /// Returns the size of the largest request.
    pub fn largest(&self) -> Sectors {
        Sectors::new(self.parts.iter().map(|part| part.sizes.largest()).max().unwrap_or(0))
    }

    /// Returns a common divisor of all starts and sizes.
    pub fn grain(&self) -> Sectors {
        let grain = self.parts.iter().fold(0, |grain, part| divisor(grain, part.sizes.grain()));
        Sectors::new(grain.max(1))
    }

    /// Returns the next request with the index of its part.
    #[inline]
    pub fn next_of_part(&mut self) -> Option<(usize, Request)> {
        let chosen = match self.parts.len() {
            0 | 1 => 0,
            _ => {
                let draw = self.chooser.below(self.weights);
                self.parts.partition_point(|part| part.weights <= draw)
            }
        };
        let Component { stream, sizes, field, places, reads, .. } = self.parts.get_mut(chosen)?;
        let size = sizes.sample(stream);
        let start = places.sample(field, size, stream);
        let op = if stream.chance(*reads) { Op::Read } else { Op::Write };
        Some((chosen, Request { op, range: LbnRange::new(Lbn::new(start), Sectors::new(size)) }))
    }
}

impl Source for Mixed {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        self.next_of_part().map(|(_, request)| request)
    }
}
