//! A miner as one of the clients. The real application runs, and its answers are compared with those computed from the pages
//! that it got.
//!
//! The content of a sector follows from its version: each version number is the seed of a table. A page whose sectors all have
//! one version is a page of that table; any other page is damaged.

use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use crate::scrub::Scrubbing;
use lab_apps::miner::{
    Answer, Answers, Ask, Column, End, Miner, Overflow, PAGE_BYTES, PageNumber, Plan, Queries, Query, Sale,
    Scans, Stop, Table, TableConfig, TableGenerator, TableId,
};
use scheduler::{Priority, Record};
use std::collections::BTreeMap;
use units::LbnRange;

/// The number of the miner's session in the model of the clients; no step uses this number.
const MINER_SESSION: u32 = u32::MAX - 8;

/// The most pages of a table, because each costs memory and time in the model.
const TABLE_PAGES_MAX: u64 = 48;

/// The most scans of a table, because each reads it again.
const SCANS_MAX: u64 = 4;

/// The number of records that the query for the dearest sales returns.
const TOP_RECORDS: usize = 7;

/// The parameters of a miner, from which it starts again after a power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    priority: Priority,
    table: Table,
    scans: u64,
    permille: u16,
}

/// A miner at work.
pub(crate) struct Mine {
    app: Miner,
    order: Order,
    /// The number of finished scans.
    over: u64,
    /// The delivered pages of the current scan, with their sale records; `None` for a damaged page.
    came: BTreeMap<PageNumber, Option<Vec<Sale>>>,
}

fn wrong(error: impl std::fmt::Display) -> Broken {
    (Check::Mined, format!("a miner is refused: {error}"))
}

impl Order {
    fn plan(&self) -> Result<Plan, Broken> {
        let queries = Queries::new(vec![
            Query::new("revenue", Ask::Summary(Column::Revenue)),
            Query::new(
                "pieces by region",
                Ask::Groups {
                    by: Column::Region,
                    measure: Column::Quantity,
                    most: 32,
                    overflow: Overflow::Refuse,
                },
            ),
            Query::new("dearest", Ask::Top { by: Column::Price, count: TOP_RECORDS, end: End::Largest }),
        ]);
        Ok(Plan {
            stop: if self.permille < 1_000 { Stop::Permille(self.permille) } else { Stop::Whole },
            scans: Scans::Times(self.scans),
            priority: self.priority,
            ..Plan::new(queries.map_err(wrong)?)
        })
    }

    /// Returns the number of pages after which a scan ends.
    fn enough(&self) -> usize {
        (self.table.pages() * u64::from(self.permille)).div_ceil(1_000) as usize
    }

    /// Returns the bytes of a page whose sectors have these versions, and its sale records unless it is damaged.
    fn page(&self, page: PageNumber, versions: &[u64]) -> Result<(Vec<u8>, Option<Vec<Sale>>), Broken> {
        let of = |version: u64| {
            let config = TableConfig::new(self.table.id(), self.table.pages(), version);
            TableGenerator::new(config).map_err(wrong)
        };
        let sector = PAGE_BYTES / versions.len().max(1);
        let mut whole = [0; PAGE_BYTES];
        let first = of(versions.first().copied().unwrap_or(0))?;
        first.page(page, &mut whole);
        let mut bytes = whole.to_vec();
        for (at, version) in versions.iter().enumerate().skip(1).filter(|(_, v)| **v != versions[0]) {
            let mut other = [0; PAGE_BYTES];
            of(*version)?.page(page, &mut other);
            bytes[at * sector..(at + 1) * sector].copy_from_slice(&other[at * sector..(at + 1) * sector]);
        }
        let good = bytes == whole;
        Ok((bytes, good.then(|| first.sales(page))))
    }
}

/// A host that has a miner among its clients.
pub(crate) trait Mining: Scrubbing {
    /// Returns the miner at work, if there is one.
    fn mine(&mut self) -> &mut Option<Mine>;

    /// Starts a miner on a table, unless one is at work.
    fn start_mining(
        &mut self,
        priority: u8,
        (start, pages): (u64, u64),
        (scans, permille): (u64, u16),
    ) -> Result<(), Broken> {
        let Some(priority) = Priority::new(priority).filter(|_| self.mine().is_none()) else {
            return Ok(());
        };
        let range = self.clip(start, u64::MAX);
        let sector = self.both().0.drive().sector_bytes();
        let room = range.len().get() * sector.get() / PAGE_BYTES as u64;
        let pages = pages.min(room).min(TABLE_PAGES_MAX);
        if pages == 0 {
            return Ok(());
        }
        let table = Table::new(TableId::new(9), range.start(), pages, sector).map_err(wrong)?;
        self.mine_on(Order { priority, table, scans: scans.min(SCANS_MAX), permille })
    }

    fn mine_on(&mut self, order: Order) -> Result<(), Broken> {
        let plan = order.plan()?;
        let started = self.door(MINER_SESSION, |door| Miner::start(door, order.table, plan))?;
        // The core refuses a session above the maximum, as for any client.
        let Ok(app) = started else { return Ok(()) };
        *self.mine() = Some(Mine { app, order, over: 0, came: BTreeMap::new() });
        Ok(())
    }

    fn versions(&self, of: LbnRange) -> Vec<u64> {
        lbns(of).map(|lbn| self.medium().version(lbn)).collect()
    }

    /// Passes the core's record of a block to the miner, and checks the result.
    fn mined(&mut self, record: &Record) -> Result<(), Broken> {
        if self.mine().as_ref().is_none_or(|mine| mine.app.session() != record.session) {
            return Ok(());
        }
        let Some(mut mine) = self.mine().take() else { return Ok(()) };
        let Some(page) = mine.order.table.page_at(record.range) else {
            return Err((Check::Mined, format!("{record:?} is no page")));
        };
        let (bytes, sales) = mine.order.page(page, &self.versions(record.range))?;
        let good = record.bad.is_none();
        let delivery = self.door(MINER_SESSION, |door| match good {
            true => mine.app.deliver(door, record, &bytes),
            false => mine.app.unreadable(door, record),
        })?;
        let delivery = delivery.map_err(wrong)?;
        let sales = sales.filter(|_| good);
        hold(delivery.damage.is_none() == sales.is_some(), Check::Mined, || {
            format!("the miner reports damage {:?} in {record:?}", delivery.damage)
        })?;
        let before = mine.came.insert(page, sales);
        hold(before.is_none(), Check::Once, || format!("a page is mined twice: {record:?}"))?;
        let enough = mine.came.len() >= mine.order.enough();
        hold(delivery.answers.is_some() == enough, Check::Mined, || {
            format!("{} pages have come, and the scan's end is {}", mine.came.len(), !enough)
        })?;
        if let Some(answers) = delivery.answers {
            self.counts_mut().mined += 1;
            mine.over += 1;
            judge(&mine, &answers)?;
            mine.came.clear();
        } else {
            let reported = mine.app.progress();
            let damaged = mine.came.values().filter(|sales| sales.is_none()).count();
            let right = (reported.pages, reported.damaged) == (mine.came.len() as u64, damaged as u64);
            hold(right, Check::Mined, || format!("{} pages came, and {reported:?}", mine.came.len()))?;
        }
        let over = mine.over == mine.order.scans;
        hold(mine.app.task().is_none() == over, Check::Mined, || {
            format!("after {} scans of {} the miner has {:?}", mine.over, mine.order.scans, mine.app.task())
        })?;
        if over {
            let open = self.clients().sessions.contains_key(&mine.app.session());
            return hold(!open, Check::Mined, || "a miner is done, and its session is open".into());
        }
        *self.mine() = Some(mine);
        Ok(())
    }

    /// Stops the miner before a restart, and returns its parameters. A miner has no persistent state.
    fn mining_stops(&mut self) -> Option<Order> {
        let mine = self.mine().take()?;
        self.both().1.closed(mine.app.session());
        Some(mine.order)
    }

    /// Starts the miner again after a restart.
    fn mining_begins_again(&mut self, order: Option<Order>) -> Result<(), Broken> {
        order.map_or(Ok(()), |order| self.mine_on(order))
    }

    /// Checks that the miner has ended.
    fn check_mining_over(&mut self) -> Result<(), Broken> {
        hold(self.mine().is_none(), Check::Mined, || {
            "all sessions have all blocks, and a miner is not over".into()
        })
    }
}

/// Checks a finished scan: its answers must follow from the delivered pages, each counted once.
fn judge(mine: &Mine, answers: &Answers) -> Result<(), Broken> {
    let good: Vec<&Sale> = mine.came.values().flatten().flatten().collect();
    let damaged: Vec<PageNumber> =
        mine.came.iter().filter(|(_, sales)| sales.is_none()).map(|(page, _)| *page).collect();
    let pages = mine.came.len() - damaged.len();
    hold((answers.mined, answers.damaged) == (pages as u64, damaged.len() as u64), Check::Mined, || {
        format!("{pages} pages are good and {} damaged, and the answers are {answers:?}", damaged.len())
    })?;
    let reported: Vec<PageNumber> = answers.damages.iter().map(|damage| damage.page).collect();
    hold(reported == damaged, Check::Mined, || {
        format!("{damaged:?} are damaged, and the miner says {reported:?}")
    })?;
    let revenue: i128 = good.iter().map(|sale| i128::from(sale.revenue_cents())).sum();
    let mut regions: BTreeMap<i64, (u64, i128)> = BTreeMap::new();
    for sale in &good {
        let region = regions.entry(sale.region.into()).or_default();
        *region = (region.0 + 1, region.1 + i128::from(sale.quantity));
    }
    let mut dearest = good.clone();
    dearest.sort_by_key(|sale| (std::cmp::Reverse(sale.price_cents), **sale));
    let dearest: Vec<Sale> = dearest.into_iter().take(TOP_RECORDS).copied().collect();
    for (query, answer) in &answers.answers {
        let right = match answer {
            Ok(Answer::Summary(found)) => (found.count(), found.sum()) == (good.len() as u64, revenue),
            Ok(Answer::Groups(found)) => {
                let found = found.iter().map(|(region, group)| (region, (group.count(), group.sum())));
                found.eq(regions.iter().map(|(region, group)| (*region, *group)))
            }
            Ok(Answer::Top(found)) => *found == dearest,
            _ => false,
        };
        hold(right, Check::Mined, || {
            format!("the answer to {:?} over {} records is {answer:?}", query.name, good.len())
        })?;
    }
    Ok(())
}
