//! Pages of 4 KB and the records on them.
//!
//! ```text
//! byte  0  magic "FBT1"             byte 16  page number, u64
//!       4  CRC-32 of bytes 8..4096       24  records on the page, u16
//!       8  table id, u64                 26  bytes a record, u16 (64)
//!                                        28  zeros, up to byte 64; then 63 records of 64 bytes
//! ```
//! All numbers are little-endian. The checksum covers the table id and the page number, so a page of another table,
//! or one written to the wrong place, is recognised.

use std::fmt;
use thiserror::Error;
use units::LbnRange;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a page's header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// Records on a full page.
pub const RECORDS_PER_PAGE: usize = (PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;

const MAGIC: [u8; 4] = *b"FBT1";
const _: () = assert!(HEADER_BYTES + RECORDS_PER_PAGE * RECORD_BYTES == PAGE_BYTES);

/// The number of a table, stored on each of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId(u64);

/// A page of a table, counted from 0 at the table's first LBN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageNumber(u64);

macro_rules! number {
    ($name:ident) => {
        impl $name {
            /// Wraps the number.
            pub const fn new(n: u64) -> Self {
                Self(n)
            }

            /// The number itself.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
number!(TableId);
number!(PageNumber);

/// A record: one line of a sale. Records of equal rank are ordered by their fields, the first field first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sale {
    /// The number of the record, unique in a table.
    pub id: u64,
    /// Seconds since the table's first sale.
    pub time: u32,
    /// The customer.
    pub customer: u32,
    /// The product.
    pub product: u32,
    /// The price of one piece, in cents.
    pub price_cents: u32,
    /// The number of pieces; negative for a return.
    pub quantity: i16,
    /// The store.
    pub store: u16,
    /// The region of the store.
    pub region: u16,
}

impl Sale {
    /// Returns price times quantity, in cents.
    pub fn revenue_cents(&self) -> i64 {
        i64::from(self.price_cents) * i64::from(self.quantity)
    }

    fn write(&self, out: &mut [u8; RECORD_BYTES]) {
        *out = [0; RECORD_BYTES];
        out[0..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..12].copy_from_slice(&self.time.to_le_bytes());
        out[12..16].copy_from_slice(&self.customer.to_le_bytes());
        out[16..20].copy_from_slice(&self.product.to_le_bytes());
        out[20..24].copy_from_slice(&self.price_cents.to_le_bytes());
        out[24..26].copy_from_slice(&self.quantity.to_le_bytes());
        out[26..28].copy_from_slice(&self.store.to_le_bytes());
        out[28..30].copy_from_slice(&self.region.to_le_bytes());
    }

    #[inline]
    fn read(b: &[u8; RECORD_BYTES]) -> Self {
        Self {
            id: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            time: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            customer: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            product: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
            price_cents: u32::from_le_bytes([b[20], b[21], b[22], b[23]]),
            quantity: i16::from_le_bytes([b[24], b[25]]),
            store: u16::from_le_bytes([b[26], b[27]]),
            region: u16::from_le_bytes([b[28], b[29]]),
        }
    }
}

impl fmt::Display for Sale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, time, customer, product, price_cents, quantity, store, region } = self;
        write!(
            f,
            "sale {id}: {quantity} of product {product} at {price_cents} cents, customer {customer}, \
             store {store}, region {region}, second {time}"
        )
    }
}

/// The reason for which bytes are not the expected page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// The host could not read the page.
    #[error("the page could not be read; see the device's error")]
    Unreadable,
    /// The length is not that of a page.
    #[error("{0} bytes came, a page has {PAGE_BYTES}; hand over the whole block")]
    Length(usize),
    /// The block is not a page: it was never written, or was overwritten.
    #[error("the page does not begin with FBT1; nothing wrote a page of a table there")]
    Magic,
    /// The checksum does not match.
    #[error("the page's CRC-32 is {found:08x}, the header says {stated:08x}; restore it from a copy")]
    Checksum {
        /// The checksum of the bytes.
        found: u32,
        /// The checksum in the header.
        stated: u32,
    },
    /// The page belongs to another table.
    #[error("the page is of table {found}, not {expected}; check where the table begins")]
    Table {
        /// The table in the header.
        found: TableId,
        /// The table that is being mined.
        expected: TableId,
    },
    /// The bytes are another page of the table.
    #[error(
        "the page is number {found}, and page {expected} should be there; a write went astray, restore it"
    )]
    Misplaced {
        /// The page number in the header.
        found: PageNumber,
        /// The page number that belongs at these LBNs.
        expected: PageNumber,
    },
    /// The page has records of another size.
    #[error("the page's records have {0} bytes, not {RECORD_BYTES}; another version wrote the table")]
    RecordBytes(u16),
    /// The page claims more records than fit.
    #[error("{0} records on a page; at most {RECORDS_PER_PAGE} fit")]
    Records(usize),
}

/// A page that was delivered damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// The LBNs of the page.
    pub range: LbnRange,
    /// The page that should be there.
    pub page: PageNumber,
    /// The damage.
    pub error: PageError,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} at LBN {} is damaged: {}", self.page, self.range, self.error)
    }
}

/// The records of a sound page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    sales: [Sale; RECORDS_PER_PAGE],
    count: usize,
}

impl Page {
    /// Encodes records as page `number` of `table`.
    ///
    /// # Errors
    /// There are more records than [`RECORDS_PER_PAGE`]; `out` is unchanged then.
    pub fn encode(
        table: TableId,
        number: PageNumber,
        sales: &[Sale],
        out: &mut [u8; PAGE_BYTES],
    ) -> Result<(), PageError> {
        if sales.len() > RECORDS_PER_PAGE {
            return Err(PageError::Records(sales.len()));
        }
        let (header, records) = out.split_at_mut(HEADER_BYTES);
        header.fill(0);
        header[0..4].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&table.0.to_le_bytes());
        header[16..24].copy_from_slice(&number.0.to_le_bytes());
        header[24..26].copy_from_slice(&(sales.len() as u16).to_le_bytes());
        header[26..28].copy_from_slice(&(RECORD_BYTES as u16).to_le_bytes());
        let (slots, _) = records.as_chunks_mut::<RECORD_BYTES>();
        for (i, slot) in slots.iter_mut().enumerate() {
            match sales.get(i) {
                Some(sale) => sale.write(slot),
                None => *slot = [0; RECORD_BYTES],
            }
        }
        let checksum = crc32fast::hash(&out[8..]);
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        Ok(())
    }

    /// Checks bytes and decodes the records in them.
    ///
    /// # Errors
    /// The bytes are not page `number` of `table`, whole and unchanged.
    pub fn decode(table: TableId, number: PageNumber, bytes: &[u8]) -> Result<Self, PageError> {
        let Ok(bytes) = <&[u8; PAGE_BYTES]>::try_from(bytes) else {
            return Err(PageError::Length(bytes.len()));
        };
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[0..4] != MAGIC {
            return Err(PageError::Magic);
        }
        let (stated, found) = (u32_at(4), crc32fast::hash(&bytes[8..]));
        if stated != found {
            return Err(PageError::Checksum { found, stated });
        }
        if u64_at(8) != table.0 {
            return Err(PageError::Table { found: TableId(u64_at(8)), expected: table });
        }
        if u64_at(16) != number.0 {
            return Err(PageError::Misplaced { found: PageNumber(u64_at(16)), expected: number });
        }
        if usize::from(u16_at(26)) != RECORD_BYTES {
            return Err(PageError::RecordBytes(u16_at(26)));
        }
        let count = usize::from(u16_at(24));
        if count > RECORDS_PER_PAGE {
            return Err(PageError::Records(count));
        }
        let mut page = Self { sales: [Sale::default(); RECORDS_PER_PAGE], count };
        let (slots, _) = bytes[HEADER_BYTES..].as_chunks::<RECORD_BYTES>();
        for (sale, slot) in page.sales.iter_mut().zip(slots).take(count) {
            *sale = Sale::read(slot);
        }
        Ok(page)
    }

    /// Returns the records, in their order on the page.
    pub fn sales(&self) -> &[Sale] {
        self.sales.get(..self.count).unwrap_or(&self.sales)
    }
}
