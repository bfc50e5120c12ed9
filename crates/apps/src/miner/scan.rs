//! The miner itself: scans a table over the session API, once or again and again.

use super::mined::{Answers, Mined};
use super::page::{Damage, PageError, PageNumber};
use super::query::{Ask, Queries};
use super::range::OutOfRange;
use super::table::Table;
use scheduler::{Parameter, Priority, Record, SessionError, Sessions};
use thiserror::Error;
use units::{LbnRange, SessionId, TaskId};

/// When a scan has seen enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// When every page has come.
    #[default]
    Whole,
    /// When this share of the pages has come, in thousandths, 1 to 1000; rounded up to whole pages. The last pages
    /// are the dear ones: OSDI'00 (section 6.3) counts 30% of the time of a scan for the last 5%.
    Permille(u16),
    /// When the interval of an estimate is narrow: its margin at most so many thousandths of its value.
    ///
    /// The interval is looked at when `least_pages` have come, and then each time there are a twentieth more. Looking
    /// again and again finds a lucky narrow one sooner or later: fewer intervals than promised hold the truth, the
    /// fewer the smaller `least_pages` is.
    Narrow {
        /// Which question, counted from 0; it must be an estimate.
        query: usize,
        /// The relative margin to reach, in thousandths.
        permille: u32,
        /// Pages to see first, 1 or more.
        least_pages: u64,
    },
}

/// How many scans, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// So many, 1 or more.
    Times(u64),
    /// Until [`Miner::finish`].
    Forever,
}

impl Default for Scans {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// What to do with a table.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to ask.
    pub queries: Queries,
    /// When a scan has seen enough.
    pub stop: Stop,
    /// How many scans.
    pub scans: Scans,
    /// The session's priority.
    pub priority: Priority,
}

impl Plan {
    /// One whole scan at the default priority.
    pub fn new(queries: Queries) -> Self {
        Self { queries, stop: Stop::default(), scans: Scans::default(), priority: Priority::default() }
    }
}

/// Why the miner did not do what it was asked. Nothing has changed then, except after
/// [`NotExactlyOnce`](Self::NotExactlyOnce) and [`Session`](Self::Session) from a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MinerError {
    /// A plan with a number outside its range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// A stop rule about a question that is no estimate.
    #[error("the stop rule looks at query {0}, which is no estimate; name the index of one")]
    NoEstimate(usize),
    /// The core refused.
    #[error("the scheduler refused the scan: {0}")]
    Session(#[from] SessionError),
    /// A record of someone else.
    #[error("a record of {record} came to the miner of {mine}; hand each record to the owner of its task")]
    NotMine {
        /// Whose it is.
        record: TaskId,
        /// The task of the scan that runs.
        mine: TaskId,
    },
    /// A record after the last scan.
    #[error("a record of {0} came after the last scan; drop what comes when the miner is done")]
    Done(TaskId),
    /// A record that is no page of the table.
    #[error("LBNs {0} are no page of the table; register the table through the miner only")]
    NoPage(LbnRange),
    /// The scheduler or the host lost a page and delivered another twice.
    #[error("as many pages came as the table has, but not each once; the answers are void, report this")]
    NotExactlyOnce,
}

/// What became of a page that was handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// What was wrong with it, if anything. The scan goes on.
    pub damage: Option<Damage>,
    /// The answers, when a scan ended with it.
    pub answers: Option<Box<Answers>>,
}

/// How far the miner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Scans that are done.
    pub scans: u64,
    /// Pages that came in the scan that runs, damaged ones included.
    pub pages: u64,
    /// Pages after which it stops at the latest.
    pub target: u64,
    /// Damaged pages among those that came.
    pub damaged: u64,
    /// Whether the last scan is done.
    pub done: bool,
}

/// A scan of a table in free bandwidth.
///
/// The host hands it every [`Record`] of its session with the bytes of the block, in the order in which they come;
/// it has no buffer and keeps no page. Its memory is that of its accumulators, all of them bounded.
#[derive(Clone, Debug)]
pub struct Miner {
    plan: Plan,
    session: SessionId,
    /// The scan that runs; `None` after the last.
    task: Option<TaskId>,
    mined: Mined,
    once: Once,
    scans: u64,
    next_look: u64,
}

impl Miner {
    /// Opens a session and registers the whole table, in blocks of a page.
    ///
    /// # Errors
    /// A plan out of range, or a table that leaves the drive; no session is open then.
    pub fn start(core: &mut dyn Sessions, table: Table, plan: Plan) -> Result<Self, MinerError> {
        check(&table, &plan)?;
        let session = core.open(plan.priority)?;
        let task = match core.read(session, table.range(), table.block(), Parameter::default()) {
            Ok(task) => task,
            Err(error) => {
                core.close(session)?;
                return Err(error.into());
            }
        };
        let mined = Mined::new(table, plan.queries.clone());
        let next_look = first_look(&plan);
        Ok(Self { plan, session, task: Some(task), mined, once: Once::default(), scans: 0, next_look })
    }

    /// The session: records of it are for this miner.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The task of the scan that runs; `None` after the last.
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// A page has come: counts its records. What is damaged is reported, and the scan goes on. When the scan has seen
    /// enough its task is aborted, and the next is registered if there is to be one.
    ///
    /// # Errors
    /// A record that is not of this scan; a refusal of the core to start the next scan; pages that came twice.
    pub fn deliver(
        &mut self,
        core: &mut dyn Sessions,
        record: &Record,
        bytes: &[u8],
    ) -> Result<Delivery, MinerError> {
        let (task, number) = self.admit(record)?;
        let damage = self.mined.take(number, bytes);
        self.advance(core, task, number, damage)
    }

    /// A page has come that the device could not read: reports it as damaged, and the scan goes on.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub fn unreadable(&mut self, core: &mut dyn Sessions, record: &Record) -> Result<Delivery, MinerError> {
        let (task, number) = self.admit(record)?;
        let damage = self.mined.damage(number, PageError::Unreadable);
        self.advance(core, task, number, Some(damage))
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let pages = self.mined.table().pages();
        Progress {
            scans: self.scans,
            pages: self.once.count,
            target: match self.plan.stop {
                Stop::Permille(share) => share_of(pages, share),
                Stop::Whole | Stop::Narrow { .. } => pages,
            },
            damaged: self.mined.damaged(),
            done: self.task.is_none(),
        }
    }

    /// The answers as they stand, of the pages that came since the scan began; after the last scan, its answers.
    pub fn answers(&self) -> Answers {
        self.mined.finish()
    }

    /// Ends it now: aborts the scan that runs, closes the session, and gives the answers as they stand.
    ///
    /// # Errors
    /// Someone else closed the session.
    pub fn finish(mut self, core: &mut dyn Sessions) -> Result<Answers, MinerError> {
        if self.task.take().is_some() {
            core.close(self.session)?;
        }
        Ok(self.mined.finish())
    }

    fn admit(&self, record: &Record) -> Result<(TaskId, PageNumber), MinerError> {
        let mine = self.task.ok_or(MinerError::Done(record.task))?;
        if record.task != mine {
            return Err(MinerError::NotMine { record: record.task, mine });
        }
        let number = self.mined.table().page_at(record.range).ok_or(MinerError::NoPage(record.range))?;
        Ok((mine, number))
    }

    fn advance(
        &mut self,
        core: &mut dyn Sessions,
        task: TaskId,
        number: PageNumber,
        damage: Option<Damage>,
    ) -> Result<Delivery, MinerError> {
        self.once.add(number);
        let pages = self.mined.table().pages();
        debug_assert!(self.once.count <= pages, "a page came twice");
        if self.once.count == pages {
            if !self.once.is_each_below(pages) {
                self.task = None;
                core.close(self.session)?;
                return Err(MinerError::NotExactlyOnce);
            }
        } else if self.is_enough() {
            core.abort(task)?;
        } else {
            return Ok(Delivery { damage, answers: None });
        }
        let answers = Some(Box::new(self.mined.finish()));
        self.next_scan(core)?;
        Ok(Delivery { damage, answers })
    }

    /// Whether the stop rule is met before the table's end.
    fn is_enough(&mut self) -> bool {
        match self.plan.stop {
            Stop::Whole => false,
            Stop::Permille(_) => self.once.count >= self.progress().target,
            Stop::Narrow { .. } if self.once.count < self.next_look => false,
            Stop::Narrow { query, permille, .. } => {
                self.next_look = self.once.count + (self.once.count / 20).max(1);
                let margin = self.mined.estimate(query).and_then(|estimate| estimate.relative_margin());
                margin.is_some_and(|margin| margin * 1_000.0 <= f64::from(permille))
            }
        }
    }

    fn next_scan(&mut self, core: &mut dyn Sessions) -> Result<(), MinerError> {
        self.task = None;
        self.scans += 1;
        if matches!(self.plan.scans, Scans::Times(times) if self.scans >= times) {
            core.close(self.session)?;
            return Ok(());
        }
        let table = *self.mined.table();
        self.task = Some(core.read(self.session, table.range(), table.block(), Parameter::default())?);
        self.mined = Mined::new(table, self.plan.queries.clone());
        self.once = Once::default();
        self.next_look = first_look(&self.plan);
        Ok(())
    }
}

fn check(table: &Table, plan: &Plan) -> Result<(), MinerError> {
    let bound =
        |field, value, least, most| OutOfRange::check(field, value, least, most).map_err(MinerError::from);
    if let Scans::Times(times) = plan.scans {
        bound("scans", times, 1, u64::MAX)?;
    }
    match plan.stop {
        Stop::Whole => Ok(()),
        Stop::Permille(share) => bound("the share to stop at, in thousandths", share.into(), 1, 1_000),
        Stop::Narrow { query, least_pages, .. } => {
            let asked = plan.queries.as_slice().get(query).map(|query| query.ask);
            if !matches!(asked, Some(Ask::Estimate { .. })) {
                return Err(MinerError::NoEstimate(query));
            }
            bound("the least pages of the stop rule", least_pages, 1, table.pages())
        }
    }
}

fn share_of(pages: u64, permille: u16) -> u64 {
    (u128::from(pages) * u128::from(permille)).div_ceil(1_000) as u64
}

fn first_look(plan: &Plan) -> u64 {
    match plan.stop {
        Stop::Narrow { least_pages, .. } => least_pages,
        Stop::Whole | Stop::Permille(_) => 0,
    }
}

/// Whether each page came once, without a bit for each: the count, the sum and the sum of squares of page numbers
/// must be those of 0, 1, ..., n - 1. One page twice and another not at all always shows in the sum.
#[derive(Clone, Copy, Debug, Default)]
struct Once {
    count: u64,
    sum: u128,
    squares: u128,
}

impl Once {
    fn add(&mut self, page: PageNumber) {
        let page = u128::from(page.get());
        self.count += 1;
        self.sum += page;
        self.squares += page * page;
    }

    fn is_each_below(&self, n: u64) -> bool {
        // A table has 2^41 pages at most, so nothing here reaches 2^128.
        let n = u128::from(n);
        let sum = n * n.saturating_sub(1) / 2;
        let squares = n.saturating_sub(1) * n * (2 * n).saturating_sub(1) / 6;
        (self.sum, self.squares) == (sum, squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_twice_for_another_shows() {
        for n in 1..40u64 {
            let all: Vec<u64> = (0..n).rev().collect();
            let once = |pages: &[u64]| {
                let mut once = Once::default();
                pages.iter().for_each(|&p| once.add(PageNumber::new(p)));
                once.is_each_below(n)
            };
            assert!(once(&all));
            for lost in 0..n {
                for twice in (0..n).filter(|&twice| twice != lost) {
                    let mut pages = all.clone();
                    pages.iter_mut().filter(|p| **p == lost).for_each(|p| *p = twice);
                    assert!(!once(&pages));
                }
            }
        }
    }

    #[test]
    fn a_share_is_rounded_up_to_pages() {
        assert_eq!(share_of(1_000, 950), 950);
        assert_eq!(share_of(3, 1), 1);
        assert_eq!(share_of(7, 1_000), 7);
        assert_eq!(share_of(crate::miner::MOST_PAGES, 1_000), crate::miner::MOST_PAGES);
    }
}
