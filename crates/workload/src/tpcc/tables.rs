//! The page of each row of the tables.

use super::TpccConfig;
use crate::error::ConfigError;
use units::{Lbn, LbnRange, Sectors};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u32 = 10;
/// Customers of a district.
pub(crate) const CUSTOMERS: u32 = 3_000;
/// Items, and stock rows of a warehouse.
pub(crate) const ITEMS: u32 = 100_000;
/// Orders of a district at the start.
pub(crate) const ORDERS: u32 = 3_000;
/// Orders of a district at the start that are not delivered.
pub(crate) const UNDELIVERED: u32 = 900;
/// Room for a district's orders: twice their number at the start. When the room is full, a new order takes the
/// place of the oldest.
pub(crate) const ORDERS_ROOM: u32 = 2 * ORDERS;
/// Lines of an order, on average: the lines of order o begin at line 10 o.
pub(crate) const LINES: u32 = 10;

/// The tables of TPC-C, in the order in which they lie on the drive, and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One row a warehouse.
    Warehouse,
    /// Ten rows a warehouse.
    District,
    /// 100,000 rows in all.
    Item,
    /// 3,000 rows a district.
    Customer,
    /// The customers of a district by their last names: the one index whose leaves are read.
    CustomerName,
    /// 100,000 rows a warehouse.
    Stock,
    /// 3,000 rows a district at the start.
    Order,
    /// Orders that are not delivered.
    NewOrder,
    /// Ten rows an order, on average.
    OrderLine,
    /// Payments, in order of time.
    History,
}

/// All tables.
pub(crate) const TABLES: [Table; 10] = [
    Table::Warehouse,
    Table::District,
    Table::Item,
    Table::Customer,
    Table::CustomerName,
    Table::Stock,
    Table::Order,
    Table::NewOrder,
    Table::OrderLine,
    Table::History,
];

impl Table {
    /// Returns the bytes of a row: clause 1.2.1's typical lengths. An entry of the index by name has two names and three
    /// numbers.
    const fn row_bytes(self) -> u64 {
        match self {
            Self::Warehouse => 89,
            Self::District => 95,
            Self::Item => 82,
            Self::Customer => 655,
            Self::CustomerName => 44,
            Self::Stock => 306,
            Self::Order => 24,
            Self::NewOrder => 8,
            Self::OrderLine => 54,
            Self::History => 46,
        }
    }

    /// Returns the number of rows for which there is room.
    pub(crate) fn rows(self, warehouses: u32) -> u64 {
        let (warehouses, districts) = (u64::from(warehouses), u64::from(warehouses) * u64::from(DISTRICTS));
        match self {
            Self::Warehouse => warehouses,
            Self::District => districts,
            Self::Item => u64::from(ITEMS),
            Self::Customer | Self::CustomerName => districts * u64::from(CUSTOMERS),
            Self::Stock => warehouses * u64::from(ITEMS),
            Self::Order | Self::NewOrder | Self::History => districts * u64::from(ORDERS_ROOM),
            Self::OrderLine => districts * u64::from(ORDERS_ROOM) * u64::from(LINES),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct TableExtent {
    first: u64,
    pages: u64,
    rows: u64,
}

/// The database's pages, counted from its first. Every table has a part in proportion to its rows' bytes, and its
/// rows are spread evenly over this part, by their keys: space beyond the rows becomes room on every page.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    extents: [TableExtent; TABLES.len()],
    start: Lbn,
    page_sectors: u64,
    need: u64,
}

impl Tables {
    pub(crate) fn new(config: &TpccConfig) -> Result<Self, ConfigError> {
        let page_sectors = config.page_sectors()?;
        let page_bytes = config.page.get();
        let needs =
            TABLES.map(|table| (table.rows(config.warehouses) * table.row_bytes()).div_ceil(page_bytes));
        let need: u64 = needs.iter().sum();
        let pages = config.database.len().get() / page_sectors;
        if pages < need {
            let found = format!("{pages} pages for {} warehouses, which need {need}", config.warehouses);
            let mend = "give fewer warehouses, or a larger part of a larger drive";
            return Err(ConfigError::field("database", found, mend));
        }
        let mut first = 0;
        let mut extents = [TableExtent { first: 0, pages: 1, rows: 1 }; TABLES.len()];
        for ((extent, table), own) in extents.iter_mut().zip(TABLES).zip(needs) {
            // The database has at least the needed pages, so each part is at least what its table needs, and all
            // parts fit.
            let part = (u128::from(pages) * u128::from(own) / u128::from(need)) as u64;
            *extent = TableExtent { first, pages: part, rows: table.rows(config.warehouses) };
            first += part;
        }
        Ok(Self { extents, start: config.database.start(), page_sectors, need })
    }

    /// Returns the pages that the rows would take without room between them.
    pub(crate) const fn least(&self) -> u64 {
        self.need
    }

    /// Returns the page of a row; rows past the table's end wrap to its beginning.
    pub(crate) fn page(&self, table: Table, row: u64) -> u64 {
        let TableExtent { first, pages, rows } = self.extents[table as usize];
        first + (u128::from(row % rows) * u128::from(pages) / u128::from(rows)) as u64
    }

    /// Returns whether a row is the first on its page.
    pub(crate) fn begins_page(&self, table: Table, row: u64) -> bool {
        row == 0 || self.page(table, row) != self.page(table, row - 1)
    }

    /// Returns the LBNs of a page.
    pub(crate) fn range(&self, page: u64) -> LbnRange {
        LbnRange::new(self.start + Sectors::new(page * self.page_sectors), Sectors::new(self.page_sectors))
    }

    /// Returns the table of a page.
    #[cfg(test)]
    pub(crate) fn table(&self, page: u64) -> Option<Table> {
        TABLES.into_iter().find(|&t| {
            let extent = self.extents[t as usize];
            (extent.first..extent.first + extent.pages).contains(&page)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Bytes;

    #[test]
    fn the_papers_database_is_three_times_its_rows() {
        let config = TpccConfig::new(Sectors::new(18_400_000_000 / 512), Bytes::new(512));
        assert_eq!(config.warehouses, 50);
        let need: u64 = TABLES.map(|t| t.rows(50) * t.row_bytes()).iter().sum();
        assert!((4.2e9..4.6e9).contains(&(need as f64)), "{need}");
    }

    #[test]
    fn a_database_without_room_is_refused() {
        let config = TpccConfig { warehouses: 5, ..TpccConfig::new(Sectors::new(600_000), Bytes::new(512)) };
        let refused = Tables::new(&config).unwrap_err().to_string();
        assert!(refused.ends_with("give fewer warehouses, or a larger part of a larger drive"), "{refused}");
    }

    proptest! {
        #[test]
        fn every_row_lies_in_its_table_and_on_the_drive(
            warehouses in 1u32..200, slack in 0u64..1_000_000, row: u64, which in 0usize..10, page_kb in 1u64..64,
        ) {
            let table = TABLES[which];
            let page = Bytes::new(page_kb << 10);
            let need: u64 = TABLES.map(|t| (t.rows(warehouses) * t.row_bytes()).div_ceil(page.get())).iter().sum();
            let sectors = Sectors::new((need + slack) * page_kb * 2);
            let config = TpccConfig {
                warehouses, page, database: LbnRange::new(Lbn::new(7), sectors),
                ..TpccConfig::new(Sectors::new(sectors.get() + 7), Bytes::new(512))
            };
            config.check().unwrap();
            let tables = Tables::new(&config).unwrap();
            let page = tables.page(table, row);
            prop_assert_eq!(tables.table(page), Some(table));
            prop_assert!(tables.range(page).end().get() <= config.capacity.get());
            prop_assert!(tables.page(table, row % table.rows(warehouses)) == page);
        }
    }
}
