//! The miner: scans a table over the session API, once or repeatedly.

use super::mined::{Answers, Mined};
use super::page::{DamagedPage, PageError, PageNumber};
use super::query::{Ask, Queries};
use super::range::OutOfRange;
use super::table::Table;
use scheduler::{Parameter, Priority, Record, SessionError, Sessions};
use thiserror::Error;
use units::{LbnRange, SessionId, TaskId};

/// The rule by which a scan ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// After every page of the table.
    #[default]
    Whole,
    /// After this share of the pages, in thousandths, 1 to 1000; rounded up to whole pages. The last pages are the
    /// expensive ones: in OSDI'00 (section 6.3) the last 5% take 30% of the time of a scan.
    Permille(u16),
    /// Once the interval of an estimate is narrow: its margin is at most this share of its value.
    ///
    /// The interval is checked after `least_pages` pages, and then whenever 5% more pages were read. Repeated checks
    /// find a narrow interval by chance sooner or later: the fewer `least_pages`, the more intervals miss the truth
    /// beyond the promised share.
    Narrow {
        /// The index of the question, from 0; it must be an estimate.
        query: usize,
        /// The relative margin to reach, in thousandths.
        permille: u32,
        /// The number of pages to read first, 1 or more.
        least_pages: u64,
    },
}

/// The number of scans, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// This number, 1 or more.
    Times(u64),
    /// Until [`Miner::finish`].
    Forever,
}

impl Default for Scans {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// The plan of a miner.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The questions.
    pub queries: Queries,
    /// The rule by which a scan ends.
    pub stop: Stop,
    /// The number of scans.
    pub scans: Scans,
    /// The session's priority.
    pub priority: Priority,
}

impl Plan {
    /// Returns one whole scan at the default priority.
    pub fn new(queries: Queries) -> Self {
        Self { queries, stop: Stop::default(), scans: Scans::default(), priority: Priority::default() }
    }
}

/// The reason for which the miner refused a call. Nothing has changed then, except after
/// [`NotExactlyOnce`](Self::NotExactlyOnce) and [`Session`](Self::Session) from a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MinerError {
    /// A number of the plan is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The stop rule names a question that is no estimate.
    #[error("the stop rule looks at query {0}, which is no estimate; name the index of one")]
    NoEstimate(usize),
    /// The scheduler refused the scan.
    #[error("the scheduler refused the scan: {0}")]
    Session(#[from] SessionError),
    /// The record belongs to another task.
    #[error("a record of {record} came to the miner of {mine}; hand each record to the owner of its task")]
    NotMine {
        /// The task of the record.
        record: TaskId,
        /// The task of the current scan.
        mine: TaskId,
    },
    /// The record came after the last scan.
    #[error("a record of {0} came after the last scan; drop what comes when the miner is done")]
    Done(TaskId),
    /// The record's range is no page of the table.
    #[error("LBNs {0} are no page of the table; register the table through the miner only")]
    NoPage(LbnRange),
    /// The scheduler or the host lost a page and delivered another twice.
    #[error("as many pages came as the table has, but not each once; the answers are void, report this")]
    NotExactlyOnce,
}

/// The result of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The damage of the page, if any. The scan goes on.
    pub damage: Option<DamagedPage>,
    /// The answers, if this page ended a scan.
    pub answers: Option<Box<Answers>>,
}

/// The progress of the miner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Scans that have ended.
    pub scans: u64,
    /// Pages delivered in the current scan, damaged ones included.
    pub pages: u64,
    /// The number of pages after which the scan ends at latest.
    pub target: u64,
    /// Damaged pages among those delivered.
    pub damaged: u64,
    /// Whether the last scan has ended.
    pub done: bool,
}

/// A scan of a table in free bandwidth.
///
/// The host passes every [`Record`] of the miner's session to it with the bytes of the block, in the order of
/// delivery. The miner keeps no pages: its memory is that of its accumulators, all of them bounded.
#[derive(Clone, Debug)]
pub struct Miner {
    plan: Plan,
    session: SessionId,
    /// The task of the current scan; `None` after the last.
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
    /// The plan is out of range, or the table leaves the drive; no session is open then.
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

    /// Returns the session; the host passes every [`Record`] of it to this miner.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the task of the current scan; `None` after the last.
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Takes a page: counts its records, or reports its damage and goes on. At the end of the scan its task is
    /// aborted, and the next scan, if any, is registered.
    ///
    /// # Errors
    /// The record is not of this scan; the scheduler refuses the next scan; a page was delivered twice.
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

    /// Takes a page that the device could not read: reports it as damaged and goes on.
    ///
    /// # Errors
    /// As for [`deliver`](Self::deliver).
    pub fn unreadable(&mut self, core: &mut dyn Sessions, record: &Record) -> Result<Delivery, MinerError> {
        let (task, number) = self.admit(record)?;
        let damage = self.mined.damage(number, PageError::Unreadable);
        self.advance(core, task, number, Some(damage))
    }

    /// Returns the progress.
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

    /// Returns the answers from the pages delivered since the scan began; after the last scan, its answers.
    pub fn answers(&self) -> Answers {
        self.mined.finish()
    }

    /// Ends the miner now: aborts the current scan, closes the session, and returns the answers so far.
    ///
    /// # Errors
    /// The session was closed by another caller.
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
        damage: Option<DamagedPage>,
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

    /// Returns whether the stop rule is met before the table's end.
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

/// Checks that each page was delivered once, without a bit for each: the count, the sum and the sum of squares of
/// page numbers must be those of 0, 1, ..., n - 1. If one page came twice in place of another, the sum shows it.
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
        // A table has 2^41 pages at most, so no product reaches 2^128.
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
        assert_eq!(share_of(crate::miner::PAGES_MAX, 1_000), crate::miner::PAGES_MAX);
    }
}
