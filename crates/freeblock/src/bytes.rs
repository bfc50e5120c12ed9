//! The bytes of commands: assembled before a write, split after a read.

use crate::{Buffers, Bytes, Given, LbnRange, Sectors, Wanted};
use alloc::vec;
use alloc::vec::Vec;

/// Returns the size of a range in bytes; 0 if `usize` is too small for it.
pub(crate) fn size_of(range: LbnRange, sector: Bytes) -> usize {
    usize::try_from(range.len().bytes(sector).get()).unwrap_or(0)
}

/// Copies the sectors that two ranges share from the second range's bytes to the first's. Returns the number of sectors.
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

/// Returns the part of `bytes` that belongs to the range `part`; `bytes` begin at the start of `whole`. Empty if not all of
/// `part` is there.
pub fn cut_out(bytes: Vec<u8>, whole: LbnRange, part: LbnRange, sector: Bytes) -> Vec<u8> {
    if whole == part {
        return bytes;
    }
    whole.place_of(part, sector).and_then(|at| bytes.get(at)).map(<[u8]>::to_vec).unwrap_or_default()
}

/// The bytes of background writes, which applications give when the core chooses their blocks. [`content`](Self::content) joins
/// them with a foreground request's bytes to the bytes of a command.
#[derive(Clone, Debug)]
pub struct WriteBytes {
    given: Given,
    sector: Bytes,
}

impl WriteBytes {
    /// Returns an empty store for a device with this sector size.
    pub fn new(sector: Bytes) -> Self {
        Self { given: Given::new(sector), sector }
    }

    /// Returns the buffers for one poll of the core. `fill` copies the bytes of a block into a buffer of the block's size, and
    /// returns whether the bytes are available.
    pub fn buffers<F: FnMut(&Wanted, &mut [u8]) -> bool>(&mut self, fill: F) -> impl Buffers {
        GivenBuffers { bytes: self, fill, fresh: true }
    }

    /// Returns the bytes of a write command that the last poll has returned; `None` if some are missing. `own` is the range of
    /// the foreground request that the command serves, with the request's bytes. A command without background blocks takes
    /// those bytes instead of copying them, because it is sent only once.
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
        // The core asks for bytes only after it has sent all commands of its last choice: bytes still here belong to blocks
        // that it gave back.
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
