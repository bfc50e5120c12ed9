//! Data mining in free bandwidth (OSDI'00, section 6): a scan of a table that takes its pages in any order.
//!
//! A [`Table`] of fixed-size records lies on the drive in pages of 4 KB. A [`Miner`] registers all of it with the
//! scheduler, in blocks of a page, and runs [`Queries`] on each page once, whenever the head passes it. So all
//! questions have answers that do not depend on the order: aggregates, groups, ranks, histograms, and [`Estimate`]s
//! of the whole from the pages read so far, by which a scan can stop early. [`Answers`] are the same to the last bit
//! for every order of arrival and every split over [`Mined`] parts that are merged.
//!
//! [`TableGenerator`] generates tables, page by page from a seed.
//!
//! # Example
//! Mines a small drive beside a foreground of random reads until the mean revenue is known to 5%:
//!
//! ```
//! use lab_apps::miner::*;
//! use model::{DriveModel, random_profile::{Size, random_profile}};
//! use scheduler::{Output, Config, HeadWork, InDrive, Request};
//! use std::sync::Arc;
//! use units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
//!
//! let drive = DriveModel::from_profile(&random_profile(3, Size::Small))?;
//! let capacity = drive.layout().capacity();
//! let table = Table::whole_drive(TableId::new(1), capacity, Bytes::new(512))?;
//! let generator = TableGenerator::new(TableConfig::new(table.id(), table.pages(), 42))?;
//!
//! let mean = Ask::Estimate {
//!     statistic: Statistic::Mean(Column::Revenue),
//!     level: Level::Percent95,
//!     strata: 16,
//! };
//! let top = Ask::Top { by: Column::Revenue, count: 3, end: End::Largest };
//! let queries = vec![
//!     Query::new("mean revenue", mean),
//!     Query::new("best sales in region 2", top).only(Column::Region.equals(2)),
//! ];
//! let mut plan = Plan::new(Queries::new(queries)?);
//! plan.stop = Stop::Narrow { query: 0, permille: 50, least_pages: 200 };
//!
//! let mut core = InDrive::new(Arc::new(drive), Config::default());
//! let mut miner = Miner::start(&mut core, table, plan)?;
//! let (mut now, mut id, mut bytes) = (Instant::ZERO, 0u64, [0; PAGE_BYTES]);
//! while !miner.progress().done {
//!     id += 1;
//!     let start = Lbn::new(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (capacity.get() - 8));
//!     let range = LbnRange::new(start, Sectors::new(8));
//!     core.submit(now, Request { id: RequestId::new(id), op: Op::Read, range })?;
//!     while let Some(output) = core.poll(now) {
//!         match output {
//!             Output::Do(HeadWork::Execute) => {
//!                 now = core.busy_until().unwrap();
//!                 core.completed(now);
//!             }
//!             Output::Deliver(record) => {
//!                 // Here a host has the bytes that the head read; this one makes them.
//!                 generator.page(table.page_at(record.range).unwrap(), &mut bytes);
//!                 miner.deliver(&mut core, &record, &bytes)?;
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! let answers = miner.answers();
//! assert!(answers.mined < answers.pages);
//! let Some(Ok(Answer::Estimate(estimate))) = answers.get("mean revenue") else { unreachable!() };
//! assert!(estimate.relative_margin().unwrap() <= 0.05);
//! println!("{answers}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregate;
mod estimate;
mod generate;
mod mined;
mod page;
mod query;
mod range;
mod scan;
mod table;

pub use aggregate::{ColumnSummary, Groups, Histogram};
pub use estimate::Estimate;
pub use generate::{TableConfig, TableGenerator};
pub use mined::{Answer, AnswerError, Answers, DAMAGED_PAGES_MAX, MergeError, Mined};
pub use page::{
    DamagedPage, HEADER_BYTES, PAGE_BYTES, Page, PageError, PageNumber, RECORD_BYTES, RECORDS_PER_PAGE, Sale,
    TableId,
};
pub use query::{
    Ask, BUCKETS_MAX, Column, End, Filter, GROUPS_MAX, Level, Overflow, QUERIES_MAX, Queries, Query,
    QueryError, STRATA_MAX, Statistic, TOP_RECORDS_MAX,
};
pub use range::OutOfRange;
pub use scan::{Delivery, Miner, MinerError, Plan, Progress, Scans, Stop};
pub use table::{PAGES_MAX, Table, TableError};
