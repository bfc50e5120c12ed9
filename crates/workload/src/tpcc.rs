//! A load like TPC-C's: transactions that read, change and write pages of a database, through a pool in memory.
//!
//! This is a stand-in for the benchmark: it has no SQL, no locks, no log, and no rows with contents.
//! `docs/WORKLOADS.md` compares it with TPC-C (standard specification, revision 5.11).

mod run;
mod tables;
mod transaction;

pub use run::{Tpcc, TpccStatistics};
pub use tables::Table;
pub use transaction::{Nurand, TransactionKind};

use crate::error::ConfigError;
use units::{Bytes, Duration, Lbn, LbnRange, Sectors};

/// The configuration of [`Tpcc`]. FAST'04, section 6.1: "8KB pages, a 32MB page buffer pool, 50 warehouses (covering
/// approximately 70% of the Seagate disk's capacity) and 10 clients per warehouse".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpccConfig {
    /// The drive's sectors.
    pub capacity: Sectors,
    /// The bytes of a sector.
    pub sector: Bytes,
    /// The LBNs of the database, with room for all tables.
    pub database: LbnRange,
    /// The size of a page, in whole sectors.
    pub page: Bytes,
    /// Warehouses; all tables except the items' grow with them.
    pub warehouses: u32,
    /// Terminals at each warehouse.
    pub terminals: u32,
    /// Transactions at a time; the others wait in order. The paper does not give the number of threads of its server;
    /// 10 is assumed, the multiprogramming level of OSDI'00's OLTP load.
    pub active: u32,
    /// The pool of pages in memory: at least four pages for each transaction at a time.
    pub pool: Bytes,
    /// The interval at which all changed pages are written, one after another; with `None` only pages that leave the
    /// pool are written. 30 s is assumed, as the syncer of the file system with the paper's database.
    pub checkpoint: Option<Duration>,
    /// Keying and think times in percent of the specification's; 0 is none.
    pub pace_percent: u32,
}

/// The bytes of a warehouse: 50 of them take 70% of the paper's disk, a Cheetah 36ES of 18.4 GB.
const WAREHOUSE_BYTES: u64 = 18_400_000_000 / 10 * 7 / 50;
/// The most warehouses: 2.6 TB at the paper's bytes for each.
const WAREHOUSES_MAX: u32 = 10_000;
/// The specification's terminals at a warehouse; each belongs to a district.
const TERMINALS_MAX: u32 = 10;
/// The most transactions at a time: more than a server has threads for.
const ACTIVE_TRANSACTIONS_MAX: u32 = 65_536;
/// The most frames of a pool; 2 GB of 8 KB pages.
const FRAMES_MAX: u64 = 1 << 18;
/// The longest pauses, in percent: a hundred times the specification's.
const PACE_PERCENT_MAX: u32 = 10_000;

impl TpccConfig {
    /// Returns the paper's load on a drive of `capacity` sectors of `sector` bytes: the database takes the first 70%
    /// of the drive, with the number of warehouses that the paper's disk would have had at that size, at least 1 and
    /// at most 10,000.
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        let page: u64 = 8 << 10;
        let page_sectors = (page / sector.get().max(1)).max(1);
        let area = capacity.get() / 10 * 7 / page_sectors * page_sectors;
        let bytes = u128::from(area) * u128::from(sector.get());
        let warehouses = ((bytes + u128::from(WAREHOUSE_BYTES) / 2) / u128::from(WAREHOUSE_BYTES))
            .clamp(1, u128::from(WAREHOUSES_MAX));
        Self {
            capacity,
            sector,
            database: LbnRange::new(Lbn::ZERO, Sectors::new(area)),
            page: Bytes::new(page),
            warehouses: warehouses as u32,
            terminals: 10,
            active: 10,
            pool: Bytes::new(32 << 20),
            checkpoint: Some(Duration::from_secs(30)),
            pace_percent: 100,
        }
    }

    /// Returns the sectors of a page.
    fn page_sectors(&self) -> Result<u64, ConfigError> {
        let (page, sector) = (self.page.get(), self.sector.get());
        let fits = sector > 0 && page >= sector && page.is_multiple_of(sector) && page <= 1 << 20;
        if fits {
            Ok(page / sector)
        } else {
            Err(ConfigError::field("page", page, "give whole sectors, to 1 MB"))
        }
    }

    /// Returns the frames of the pool.
    fn frames(&self) -> u64 {
        self.pool.get() / self.page.get().max(1)
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.page_sectors()?;
        let ranged = |field, value: u32, low: u32, high: u32, mend| {
            if (low..=high).contains(&value) { Ok(()) } else { Err(ConfigError::field(field, value, mend)) }
        };
        ranged("warehouses", self.warehouses, 1, WAREHOUSES_MAX, "give 1 to 10000 warehouses")?;
        ranged("terminals", self.terminals, 1, TERMINALS_MAX, "give 1 to 10 terminals a warehouse")?;
        ranged("active", self.active, 1, ACTIVE_TRANSACTIONS_MAX, "give 1 to 65536 transactions at a time")?;
        ranged("pace_percent", self.pace_percent, 0, PACE_PERCENT_MAX, "give 0 to 10000 percent")?;
        // A transfer holds its page in the pool: one for each transaction, one for the checkpoint.
        let frames = self.frames();
        if frames < 4 * u64::from(self.active) || frames > FRAMES_MAX {
            let mend = "give four pages for each transaction at a time, and at most 262144";
            return Err(ConfigError::field("pool", format!("{frames} pages"), mend));
        }
        if self.checkpoint.is_some_and(|every| every < Duration::from_millis(1)) {
            return Err(ConfigError::field("checkpoint", "below 1 ms", "give a longer time, or none"));
        }
        let end = self.database.checked_end().unwrap_or(Lbn::new(u64::MAX));
        if end.get() > self.capacity.get() {
            return Err(ConfigError::CapacityTooSmall {
                capacity: self.capacity,
                needed: Sectors::new(end.get()),
            });
        }
        Ok(())
    }
}
