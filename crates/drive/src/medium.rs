//! The contents of the sectors of a simulated drive.

use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// The content of sectors that were never written.
pub trait Blank: Send + Sync {
    /// Fills `sector` with the content of the sector at `lbn`.
    fn fill(&self, lbn: Lbn, sector: &mut [u8]);
}

/// Unwritten sectors of zeroes, as on a new drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zeroes;

impl Blank for Zeroes {
    fn fill(&self, _: Lbn, sector: &mut [u8]) {
        sector.fill(0);
    }
}

/// The reason for which the medium refuses an access. A refused access has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MediumError {
    /// The range goes past the end of the medium.
    #[error("LBNs {range} leave the medium; it ends at LBN {capacity}")]
    PastEnd {
        /// The range of the access.
        range: LbnRange,
        /// The number of sectors of the medium.
        capacity: Sectors,
    },
    /// The size of the buffer differs from that of the range.
    #[error("LBNs {range} are {expected} bytes, and the buffer has {found}")]
    Buffer {
        /// The range of the access.
        range: LbnRange,
        /// The number of bytes in the range.
        expected: u64,
        /// The number of bytes in the buffer.
        found: usize,
    },
}

/// The content of a drive. Memory is allocated in pages of 64 sectors, for written sectors only; unwritten sectors have the
/// content that [`Blank`] generates, so that a large drive takes little memory.
///
/// ```
/// use freeblock_drive::Medium;
/// use units::{Bytes, Lbn, LbnRange, Sectors};
///
/// let mut medium = Medium::new(Sectors::new(1_000), Bytes::new(512));
/// let range = LbnRange::new(Lbn::new(63), Sectors::new(2));
/// medium.write(range, &[7; 1_024])?;
/// let mut read = [0; 1_536];
/// medium.read(LbnRange::new(Lbn::new(62), Sectors::new(3)), &mut read)?;
/// assert_eq!((read[511], read[512], read[1_535]), (0, 7, 7));
/// # Ok::<(), freeblock_drive::MediumError>(())
/// ```
#[derive(Clone)]
pub struct Medium {
    capacity: Sectors,
    sector: usize,
    blank: Arc<dyn Blank>,
    pages: Vec<Option<Page>>,
}

/// The number of sectors in a page: each has one bit of [`Page::written`].
const PAGE_SECTORS: u64 = 64;

#[derive(Clone)]
struct Page {
    written: u64,
    bytes: Box<[u8]>,
}

impl Medium {
    /// Creates a medium of zeroes.
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        Self::with_blank(capacity, sector, Arc::new(Zeroes))
    }

    /// Creates a medium whose initial content is that of `blank`.
    pub fn with_blank(capacity: Sectors, sector: Bytes, blank: Arc<dyn Blank>) -> Self {
        let pages = usize::try_from(capacity.get().div_ceil(PAGE_SECTORS)).unwrap_or(usize::MAX);
        let sector = usize::try_from(sector.get()).unwrap_or(usize::MAX);
        Self { capacity, sector, blank, pages: vec![None; pages] }
    }

    /// Returns the number of sectors.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Reads the bytes of `range` into `into`.
    ///
    /// # Errors
    /// The range goes past the end, or `into` does not have the size of the range.
    pub fn read(&self, range: LbnRange, into: &mut [u8]) -> Result<(), MediumError> {
        self.check(range, into.len())?;
        for (sector, lbn) in into.chunks_exact_mut(self.sector).zip(range.start().get()..) {
            let (page, at) = ((lbn / PAGE_SECTORS) as usize, lbn % PAGE_SECTORS);
            match &self.pages[page] {
                Some(page) if page.written >> at & 1 == 1 => {
                    let from = at as usize * self.sector;
                    sector.copy_from_slice(&page.bytes[from..from + self.sector]);
                }
                _ => self.blank.fill(Lbn::new(lbn), sector),
            }
        }
        Ok(())
    }

    /// Writes the bytes `from` to `range`.
    ///
    /// # Errors
    /// The range goes past the end, or `from` does not have the size of the range.
    pub fn write(&mut self, range: LbnRange, from: &[u8]) -> Result<(), MediumError> {
        self.check(range, from.len())?;
        for (sector, lbn) in from.chunks_exact(self.sector).zip(range.start().get()..) {
            let (page, at) = ((lbn / PAGE_SECTORS) as usize, lbn % PAGE_SECTORS);
            let size = PAGE_SECTORS as usize * self.sector;
            let page = self.pages[page]
                .get_or_insert_with(|| Page { written: 0, bytes: vec![0; size].into_boxed_slice() });
            page.written |= 1 << at;
            let to = at as usize * self.sector;
            page.bytes[to..to + self.sector].copy_from_slice(sector);
        }
        Ok(())
    }

    fn check(&self, range: LbnRange, found: usize) -> Result<(), MediumError> {
        if range.checked_end().is_none_or(|end| end.get() > self.capacity.get()) {
            return Err(MediumError::PastEnd { range, capacity: self.capacity });
        }
        let expected = range.len().bytes(Bytes::new(self.sector as u64)).get();
        if expected != found as u64 {
            return Err(MediumError::Buffer { range, expected, found });
        }
        Ok(())
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = self.pages.iter().flatten().count();
        f.debug_struct("Medium")
            .field("capacity", &self.capacity)
            .field("pages", &pages)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_what_was_written_last(
            writes in proptest::collection::vec((0u64..200, 1u64..80, any::<u8>()), 0..40),
        ) {
            struct Low;
            impl Blank for Low {
                fn fill(&self, lbn: Lbn, sector: &mut [u8]) {
                    sector.fill(lbn.get() as u8);
                }
            }
            let mut medium = Medium::with_blank(Sectors::new(250), Bytes::new(4), Arc::new(Low));
            let mut naive: Vec<u8> = (0..250u64).flat_map(|lbn| [lbn as u8; 4]).collect();
            for (start, len, byte) in writes {
                let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                let bytes = vec![byte; len as usize * 4];
                let fits = start + len <= 250;
                prop_assert_eq!(medium.write(range, &bytes).is_ok(), fits);
                if fits {
                    naive[start as usize * 4..(start + len) as usize * 4].copy_from_slice(&bytes);
                }
            }
            let mut all = vec![0; 1_000];
            medium.read(LbnRange::new(Lbn::ZERO, Sectors::new(250)), &mut all).unwrap();
            prop_assert_eq!(all, naive);
        }
    }

    #[test]
    fn a_buffer_of_another_size_is_refused() {
        let mut medium = Medium::new(Sectors::new(8), Bytes::new(512));
        let range = LbnRange::new(Lbn::ZERO, Sectors::new(2));
        let error = medium.write(range, &[0; 512]).unwrap_err();
        assert_eq!(error, MediumError::Buffer { range, expected: 1_024, found: 512 });
    }
}
