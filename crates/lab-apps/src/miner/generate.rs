//! Generated tables: any page at any time from a seed, so that a table of 9 GB takes no storage.

use super::page::{PAGE_BYTES, Page, PageNumber, RECORDS_PER_PAGE, Sale, TableId};
use super::range::OutOfRange;
use super::table::PAGES_MAX;

/// The configuration of a generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// The id of the table.
    pub table: TableId,
    /// The number of pages; the position of a page is relative to it.
    pub pages: u64,
    /// The seed; tables of different seeds differ.
    pub seed: u64,
    /// Customers, 1 or more.
    pub customers: u32,
    /// Products, 1 or more.
    pub products: u32,
    /// Regions, 1 or more.
    pub regions: u16,
    /// Stores, at least as many as regions; store s is in region s modulo regions.
    pub stores: u16,
    /// The dependence on position in thousandths, 0 to 1000. Prices rise by this share from the first page to the
    /// last, and half of this share of the sales are in the region that their part of the table belongs to (the first
    /// region comes first). With 0 all pages have the same distribution.
    pub drift_permille: u32,
}

impl TableConfig {
    /// Returns 100,000 customers, 20,000 products, 200 stores in 10 regions, and prices that double over the table.
    pub fn new(table: TableId, pages: u64, seed: u64) -> Self {
        Self {
            table,
            pages,
            seed,
            customers: 100_000,
            products: 20_000,
            regions: 10,
            stores: 200,
            drift_permille: 1_000,
        }
    }
}

/// Generates the pages of a table: a pure function of the configuration and the page number.
///
/// Products, customers and stores are Zipf-like (an octave of ranks is drawn, then a rank within it, so rank r has a
/// probability within a factor of two of c / r); prices are long-tailed (log-uniform by octaves, 64 cents to 655
/// dollars before drift); one sale in 32 is a return; one page in eight is not full, and may be empty.
///
/// The numbers are SplitMix64's (Steele, Lea and Flood, OOPSLA 2014) at a counter: draw j of record i is `mix(key +
/// (4 i + j + 1) golden)`, so that no record depends on another.
#[derive(Clone, Debug)]
pub struct TableGenerator {
    config: TableConfig,
    records: u64,
    pages: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[inline]
fn draw(key: u64, counter: u64) -> u64 {
    mix(key.wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// Returns a number in `0..n` from 32 random bits, by multiplication; its probability is off by a share of at most
/// 2^-32 n.
#[inline]
fn below(bits: u32, n: u32) -> u32 {
    ((u64::from(bits) * u64::from(n)) >> 32) as u32
}

/// Returns a Zipf-like rank in `0..n`: draws an octave, then a rank in it. Ranks past `n` wrap to 0.
#[inline]
fn zipf_like(bits: u64, n: u32) -> u32 {
    let octave = below(bits as u32, n.ilog2() + 1);
    let rank = (1u32 << octave) + below((bits >> 32) as u32, 1 << octave) - 1;
    if rank < n { rank } else { rank - n }
}

impl TableGenerator {
    /// Checks the configuration.
    ///
    /// # Errors
    /// A number outside the range that [`TableConfig`] states.
    pub fn new(config: TableConfig) -> Result<Self, OutOfRange> {
        let most = u64::from(u32::MAX);
        for (field, value, least, most) in [
            ("pages", config.pages, 1, PAGES_MAX),
            ("customers", config.customers.into(), 1, most),
            ("products", config.products.into(), 1, most),
            ("regions", config.regions.into(), 1, u16::MAX.into()),
            ("stores", config.stores.into(), config.regions.into(), u16::MAX.into()),
            ("drift_permille", config.drift_permille.into(), 0, 1_000),
        ] {
            OutOfRange::check(field, value, least, most)?;
        }
        let key = mix(config.seed ^ mix(config.table.get().wrapping_add(GOLDEN)));
        Ok(Self { config, records: draw(key, 0), pages: draw(key, 1) })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Writes the bytes of page `number`. Pages past the table's end have the position of the last.
    pub fn page(&self, number: PageNumber, out: &mut [u8; PAGE_BYTES]) {
        let mut sales = [Sale::default(); RECORDS_PER_PAGE];
        let count = self.fill(number, &mut sales);
        let fits = Page::encode(self.config.table, number, sales.get(..count).unwrap_or(&sales), out);
        debug_assert!(fits.is_ok());
    }

    /// Returns the records of page `number`.
    pub fn sales(&self, number: PageNumber) -> Vec<Sale> {
        let mut sales = [Sale::default(); RECORDS_PER_PAGE];
        let count = self.fill(number, &mut sales);
        sales.into_iter().take(count).collect()
    }

    fn fill(&self, number: PageNumber, sales: &mut [Sale; RECORDS_PER_PAGE]) -> usize {
        const TEN_YEARS_S: u128 = 315_360_000;
        let TableConfig { pages, drift_permille, regions, .. } = self.config;
        let n = number.get();
        let place = n.min(pages - 1);
        let part = |whole: u128| (u128::from(place) * whole / u128::from(pages)) as u32;
        let spot = Spot {
            time: part(TEN_YEARS_S),
            price_permille: 1_000 + part(u128::from(drift_permille)),
            region: part(u128::from(regions)) as u16,
        };
        let bits = draw(self.pages, n);
        let count = match bits.is_multiple_of(8) {
            true => below((bits >> 32) as u32, RECORDS_PER_PAGE as u32) as usize,
            false => RECORDS_PER_PAGE,
        };
        let first = n.wrapping_mul(RECORDS_PER_PAGE as u64);
        for (i, sale) in sales.iter_mut().enumerate().take(count) {
            *sale = self.sale(first.wrapping_add(i as u64), &spot);
        }
        count
    }

    #[inline]
    fn sale(&self, id: u64, spot: &Spot) -> Sale {
        let TableConfig { customers, products, regions, stores, drift_permille, .. } = self.config;
        let at = id.wrapping_mul(4);
        let [who, what, whence, rest] = [0, 1, 2, 3].map(|j| draw(self.records, at.wrapping_add(j)));
        let product = zipf_like(what, products);
        // A product has the same price everywhere, apart from the drift.
        let price = mix(self.pages ^ u64::from(product));
        let octave = 6 + below(price as u32, 10);
        let base = (1u32 << octave) + below((price >> 32) as u32, 1 << octave);
        let mut store = zipf_like(whence, stores.into()) as u16;
        if below(rest as u32, 2_000) < drift_permille {
            let per_region = (stores - spot.region).div_ceil(regions);
            store = spot.region + regions * below((rest >> 32) as u32, per_region.into()) as u16;
        }
        let pieces = 1 + (who.rotate_left(16) | 1 << 9).trailing_zeros() as i16;
        Sale {
            id,
            time: spot.time + (whence.rotate_left(20) % 600) as u32,
            customer: zipf_like(who, customers),
            product,
            price_cents: (u64::from(base) * u64::from(spot.price_permille) / 1_000) as u32,
            quantity: if rest.rotate_left(27).is_multiple_of(32) { -pieces } else { pieces },
            store,
            region: store % regions,
        }
    }
}

/// The values that depend on a page's place in the table.
struct Spot {
    time: u32,
    price_permille: u32,
    region: u16,
}
