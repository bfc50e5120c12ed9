//! The bytes of commands, put together and taken apart.

use crate::{Buffers, Bytes, Given, LbnRange, Sectors, Wanted};
use alloc::vec;
use alloc::vec::Vec;

/// Returns the size of a range in memory; 0 if memory cannot have it.
pub(crate) fn size_of(range: LbnRange, sector: Bytes) -> usize {
    usize::try_from(range.len().bytes(sector).get()).unwrap_or(0)
}

/// Copies the common part of two ranges from one's bytes to the other's. Returns its size.
///
/// ```
/// use freeblock::{Bytes, Lbn, LbnRange, Sectors, copy_shared};
/// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
/// let mut bytes = [0; 4];
/// assert_eq!(copy_shared((range(8, 4), &mut bytes), (range(10, 9), &[7; 9]), Bytes::new(1)), Sectors::new(2));
/// assert_eq!(bytes, [0, 0, 7, 7]);
/// ```
pub fn copy_shared(
    (to, into): (LbnRange, &mut [u8]),
    (from, bytes): (LbnRange, &[u8]),
    sector: Bytes,
) -> Sectors {
    let Some(shared) = to.intersection(from) else { return Sectors::ZERO };
    let places = to.place_of(shared, sector).zip(from.place_of(shared, sector));
    let parts = places.and_then(|(to, from)| into.get_mut(to).zip(bytes.get(from)));
    parts.map_or(Sectors::ZERO, |(into, bytes)| {
        into.copy_from_slice(bytes);
        shared.len()
    })
}

/// Returns the bytes of `part` out of those of `whole`; none if they are not all there.
pub fn cut_out(bytes: Vec<u8>, whole: LbnRange, part: LbnRange, sector: Bytes) -> Vec<u8> {
    if whole == part {
        return bytes;
    }
    whole.place_of(part, sector).and_then(|at| bytes.get(at)).map(<[u8]>::to_vec).unwrap_or_default()
}

/// The bytes that commands write: those of foreground requests, and those that applications give when the core chooses their
/// blocks.
#[derive(Clone, Debug)]
pub struct WriteBytes {
    given: Given,
    sector: Bytes,
}

impl WriteBytes {
    /// Returns a store without bytes for a device with this sector size.
    pub fn new(sector: Bytes) -> Self {
        Self { given: Given::new(sector), sector }
    }

    /// Returns the buffers for one poll of the core. `fill` copies the bytes of a block into a buffer of its size, and returns
    /// whether it has them.
    pub fn buffers<F: FnMut(&Wanted, &mut [u8]) -> bool>(&mut self, fill: F) -> impl Buffers {
        GivenBuffers { bytes: self, fill, fresh: true }
    }

    /// Returns the bytes of a command that the last poll has returned; `None` if some are missing. `own` are the foreground
    /// request that it serves and its bytes, which are taken if the command is not merged with background blocks: it is sent
    /// only once then.
    pub fn content(&self, range: LbnRange, own: Option<(LbnRange, &mut Vec<u8>)>) -> Option<Vec<u8>> {
        let mut all = vec![0; size_of(range, self.sector)];
        let mut rest = [Some(range), None];
        if let Some((place, bytes)) = own {
            if place == range {
                return Some(core::mem::take(bytes));
            }
            copy_shared((range, &mut all), (place, bytes), self.sector);
            let before = LbnRange::new(range.start(), place.start().max(range.start()).since(range.start()));
            let behind = LbnRange::new(place.end(), range.end().max(place.end()).since(place.end()));
            rest = [range.intersection(before), range.intersection(behind)];
        }
        let mut fill = |part| {
            let into = range.place_of(part, self.sector).and_then(|at| all.get_mut(at));
            into.is_some_and(|into| self.given.fill(part, into))
        };
        rest.into_iter().flatten().all(&mut fill).then_some(all)
    }
}

/// The buffers of one poll.
struct GivenBuffers<'a, F> {
    bytes: &'a mut WriteBytes,
    fill: F,
    fresh: bool,
}

impl<F: FnMut(&Wanted, &mut [u8]) -> bool> Buffers for GivenBuffers<'_, F> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        // The core decides only when all earlier decisions were sent: buffers still here were given back.
        if core::mem::take(&mut self.fresh) {
            self.bytes.given.clear();
        }
        let mut bytes = vec![0; size_of(wanted.range, self.bytes.sector)];
        let has = (self.fill)(wanted, &mut bytes);
        if has {
            self.bytes.given.push(wanted.range, bytes);
        }
        has
    }
}
