//! The position of a table on a drive.

use super::page::{PAGE_BYTES, PageNumber, TableId};
use thiserror::Error;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// The most pages in a table: 8 PB. The bound keeps the sums of page numbers and of their squares below 2^128.
pub const PAGES_MAX: u64 = 1 << 41;

/// The reason for which a table is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// A page is no whole number of sectors.
    #[error(
        "a page of {PAGE_BYTES} bytes is no whole number of sectors of {0} bytes; use 512, 1024, 2048 or 4096"
    )]
    Sector(Bytes),
    /// The table has no page.
    #[error("a table of no pages at LBN {0}; give it at least {PAGE_BYTES} bytes of the drive")]
    Empty(Lbn),
    /// There are too many pages, or LBNs past 2^64.
    #[error("a table of {pages} pages at LBN {start}; at most {PAGES_MAX} pages, below LBN 2^64")]
    TooLarge {
        /// The first LBN given.
        start: Lbn,
        /// The number of pages given.
        pages: u64,
    },
}

/// A table on a drive: contiguous whole pages of 4 KB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    id: TableId,
    range: LbnRange,
    sectors_per_page: u64,
    pages: u64,
}

impl Table {
    /// Creates a table of `pages` pages from LBN `start` on, on a drive with sectors of `sector` bytes.
    ///
    /// # Errors
    /// The sectors do not divide a page, there are no pages, or too many.
    pub fn new(id: TableId, start: Lbn, pages: u64, sector: Bytes) -> Result<Self, TableError> {
        let page = PAGE_BYTES as u64;
        if sector.get() == 0 || !page.is_multiple_of(sector.get()) {
            return Err(TableError::Sector(sector));
        }
        let sectors_per_page = page / sector.get();
        if pages == 0 {
            return Err(TableError::Empty(start));
        }
        let too_large = TableError::TooLarge { start, pages };
        if pages > PAGES_MAX {
            return Err(too_large);
        }
        let range = LbnRange::new(start, Sectors::new(pages * sectors_per_page));
        range.checked_end().ok_or(too_large)?;
        Ok(Self { id, range, sectors_per_page, pages })
    }

    /// Creates a table over a whole drive of `capacity` sectors. A rest that is no whole page is left out.
    ///
    /// # Errors
    /// As for [`Table::new`].
    pub fn whole_drive(id: TableId, capacity: Sectors, sector: Bytes) -> Result<Self, TableError> {
        let sectors_per_page = (PAGE_BYTES as u64).checked_div(sector.get()).unwrap_or(0);
        let pages = capacity.get().checked_div(sectors_per_page).ok_or(TableError::Sector(sector))?;
        Self::new(id, Lbn::ZERO, pages, sector)
    }

    /// Returns the table's id.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Returns the LBNs of the table.
    pub fn range(&self) -> LbnRange {
        self.range
    }

    /// Returns the number of pages, at least one.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the sectors of a page: the block size to register the table in.
    pub fn block(&self) -> Sectors {
        Sectors::new(self.sectors_per_page)
    }

    /// Returns the page that fills `range` exactly, if any.
    pub fn page_at(&self, range: LbnRange) -> Option<PageNumber> {
        let offset = range.start().get().checked_sub(self.range.start().get())?;
        let whole = range.len() == self.block() && offset.is_multiple_of(self.sectors_per_page);
        let number = offset / self.sectors_per_page;
        (whole && number < self.pages).then_some(PageNumber::new(number))
    }

    /// Returns the LBNs of a page, if the table has it.
    pub fn range_of(&self, page: PageNumber) -> Option<LbnRange> {
        (page.get() < self.pages).then(|| {
            let start = self.range.start() + Sectors::new(page.get() * self.sectors_per_page);
            LbnRange::new(start, self.block())
        })
    }
}
