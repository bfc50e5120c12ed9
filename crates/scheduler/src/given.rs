//! The bytes that clients give for background writes, until they are written or no longer needed.

use alloc::vec::Vec;
use units::{Bytes, LbnRange};

/// A store for the bytes of background writes: the host's [`Buffers`](crate::Buffers) put in the bytes that clients provide, and
/// the host copies out those that a command or an access writes.
///
/// If a sector was given several times, the last bytes count. The core may ask for a block and not write it, because another
/// part of the block was refused; the next session that is asked for those sectors then writes its own bytes there. The bytes of
/// a block are not removed alone: a block on both sides of a slipped sector is asked for in two parts, and the first may be
/// written although the second is refused.
///
/// ```
/// use freeblock_scheduler::Given;
/// use freeblock_scheduler::units::{Bytes, Lbn, LbnRange, Sectors};
/// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
/// let mut given = Given::new(Bytes::new(512));
/// given.push(range(8, 2), vec![1; 1024]);
/// given.push(range(9, 1), vec![2; 512]);
/// let mut bytes = vec![0; 1024];
/// assert!(given.fill(range(8, 2), &mut bytes));
/// assert_eq!((bytes[0], bytes[512]), (1, 2));
/// assert!(!given.fill(range(7, 2), &mut bytes));
/// ```
#[derive(Clone, Debug)]
pub struct Given {
    sector: Bytes,
    given: Vec<(LbnRange, Vec<u8>)>,
}

impl Given {
    /// Returns an empty store for a drive with this sector size.
    pub fn new(sector: Bytes) -> Self {
        Self { sector, given: Vec::new() }
    }

    /// Adds a client's bytes of a range.
    pub fn push(&mut self, range: LbnRange, bytes: Vec<u8>) {
        self.given.push((range, bytes));
    }

    /// Keeps the entries whose range `kept` selects.
    pub fn retain(&mut self, kept: impl Fn(LbnRange) -> bool) {
        self.given.retain(|(range, _)| kept(*range));
    }

    /// Discards all bytes, because they were written or their blocks were returned.
    pub fn clear(&mut self) {
        self.given.clear();
    }

    /// Copies the bytes of a range into a buffer of the range's size. Returns whether all sectors were given; otherwise only the
    /// sectors before the first missing one are copied.
    pub fn fill(&self, range: LbnRange, into: &mut [u8]) -> bool {
        let mut lbn = range.start();
        while lbn < range.end() {
            let Some(last) = self.given.iter().rposition(|(given, _)| given.contains(lbn)) else {
                return false;
            };
            let (given, bytes) = &self.given[last];
            // This entry counts up to the start of an entry that was given later.
            let later =
                self.given[last + 1..].iter().map(|(given, _)| given.start()).filter(|start| *start > lbn);
            let end = later.min().map_or(given.end(), |start| start.min(given.end())).min(range.end());
            let part = LbnRange::new(lbn, end.since(lbn));
            let (from, to) = (given.place_of(part, self.sector), range.place_of(part, self.sector));
            let Some((from, to)) = from.and_then(|at| bytes.get(at)).zip(to.and_then(|at| into.get_mut(at)))
            else {
                return false;
            };
            to.copy_from_slice(from);
            lbn = end;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::{Lbn, Sectors};

    proptest! {
        #[test]
        fn the_last_bytes_given_for_a_sector_count(
            pushes in prop::collection::vec((0..30u64, 1..12u64), 0..10), at in 0..30u64, len in 1..12u64,
        ) {
            let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
            let mut given = Given::new(Bytes::new(4));
            let mut naive = [None; 48];
            for (value, (start, len)) in (1u8..).zip(pushes) {
                given.push(range(start, len), vec![value; 4 * len as usize]);
                naive[start as usize..(start + len) as usize].fill(Some(value));
            }
            let mut bytes = vec![0; 4 * len as usize];
            let there = given.fill(range(at, len), &mut bytes);
            let wanted = &naive[at as usize..(at + len) as usize];
            prop_assert_eq!(there, wanted.iter().all(Option::is_some));
            if there {
                let found: Vec<_> = bytes.chunks(4).map(|sector| Some(sector[0])).collect();
                prop_assert_eq!(&found[..], wanted);
            }
        }
    }
}
