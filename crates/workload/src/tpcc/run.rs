//! Terminals, transactions under way, and the pool that decides which of their accesses reach the drive.

use super::TpccConfig;
use super::tables::Tables;
use super::transaction::{Database, Home, Touch, TransactionKind};
use crate::error::ConfigError;
use crate::pages::{Evict, PageCounts, PagePool, Victim};
use crate::random::Stream;
use crate::request::Script;
use crate::request::later;
use crate::request::{Request, Source};
use crate::script::served_at_once;
use crate::{ClosedTask, Issued};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use units::{CacheOps, Duration, Instant, Op};

/// The processor time of a transaction (assumed), spent before its first page. So virtual time advances even if no
/// terminal thinks and every page is in the pool.
const PROCESSING: Duration = Duration::from_millis(1);

/// Counts of the load so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TpccStatistics {
    /// Transactions completed, by [`TransactionKind::ALL`]. The first of these per minute is TPC-C's tpmC.
    pub transactions: [u64; 5],
    /// Accesses to pages.
    pub touches: u64,
    /// Accesses to pages in memory.
    pub hits: u64,
    /// Accesses to new pages, which need no read.
    pub fresh: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written because they left the pool.
    pub evictions: u64,
    /// Pages written by checkpoints.
    pub swept: u64,
}

/// TPC-C's load as a [`Script`]: use it with [`Arrival::Scripted`](crate::Arrival::Scripted).
///
/// A terminal keys in a transaction. The transaction accesses its pages one after another; then it writes the changed
/// pages that had to leave the pool for them, one after another; then the terminal thinks. If another transaction is
/// reading a page, the transaction waits for that read; a page that waits to be written returns to the pool without a
/// read. A page that is being read or written does not leave the pool, so no two requests for one page overlap.
///
/// ```
/// use freeblock_workload::{Arrival, Issuer};
/// use freeblock_workload::tpcc::{Tpcc, TpccConfig};
/// use units::{Bytes, Duration, Instant, Sectors};
/// let load = Tpcc::new(TpccConfig::new(Sectors::new(17_938_986), Bytes::new(512)), 42)?;
/// let mut foreground = Issuer::new(load, Arrival::Scripted, Instant::ZERO, 42)?;
/// let mut now = Instant::ZERO;
/// for _ in 0..10_000 {
///     now = now.max(foreground.due().unwrap());
///     if let Some(issued) = foreground.issue(now) {
///         now += Duration::from_millis(5);
///         foreground.complete(issued.task, now);
///     }
/// }
/// assert!(foreground.source().statistics().transactions[0] > 100);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tpcc {
    config: TpccConfig,
    database: Database,
    pool: PagePool,
    terminals: Vec<Terminal>,
    /// The ends of keying, and the next checkpoint: the time, the order in which times became known, and the terminal.
    /// The checkpoint has the number after the last terminal's.
    wakes: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    known: u64,
    /// The number of transactions under way, and the terminals that wait for one of them to end.
    active: u32,
    queue: VecDeque<u32>,
    /// Terminals that can continue at once.
    runnable: VecDeque<u32>,
    /// Pages being read, and the further terminals that wait for each.
    arriving: BTreeMap<u64, Vec<u32>>,
    /// The changed pages that were evicted from the pool before they were written, and whether the write of each has begun.
    owed: BTreeMap<u64, bool>,
    /// The checkpoint's remaining pages, and the page that it is writing.
    sweep: VecDeque<u64>,
    sweeping: Option<u64>,
    /// Requests that are ready to be issued.
    ready: VecDeque<Issued>,
    statistics: TpccStatistics,
}

#[derive(Clone, Debug)]
struct Terminal {
    home: Home,
    stream: Stream,
    /// The transaction that the terminal keys in, or has under way.
    kind: TransactionKind,
    running: Option<Running>,
}

#[derive(Clone, Debug, Default)]
struct Running {
    touches: VecDeque<Touch>,
    /// Changed pages that have left the pool to make room for this transaction's pages.
    writes: VecDeque<u64>,
    transfer: Option<Transfer>,
}

#[derive(Clone, Copy, Debug)]
enum Transfer {
    Read { page: u64, change: bool },
    Write { page: u64 },
}

impl Tpcc {
    /// Creates a load that draws from the streams "workload.tpcc.terminal" (one a terminal), "workload.tpcc.orders"
    /// (one a district) and "workload.tpcc.constants" of `seed`. The pool is empty at first.
    ///
    /// # Errors
    /// A number is out of its range, by field; the database is too small for its tables, or not on the drive; the
    /// pool is as large as the rows of the database.
    pub fn new(config: TpccConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let tables = Tables::new(&config)?;
        let frames = config.frames();
        if frames >= tables.least() {
            let found = format!("{frames} pages for a database of {}", tables.least());
            return Err(ConfigError::field("pool", found, "give a pool smaller than the database's rows"));
        }
        let terminals = (0..config.warehouses * config.terminals)
            .map(|n| {
                let mut stream = Stream::numbered(seed, "workload.tpcc.terminal", n.into());
                let kind = TransactionKind::draw(&mut stream);
                let home = Home { warehouse: n / config.terminals, district: n % config.terminals };
                Terminal { home, stream, kind, running: None }
            })
            .collect();
        Ok(Self {
            database: Database::new(tables, config.warehouses, seed),
            pool: PagePool::new(frames as usize),
            terminals,
            wakes: BinaryHeap::new(),
            known: 0,
            active: 0,
            queue: VecDeque::new(),
            runnable: VecDeque::new(),
            arriving: BTreeMap::new(),
            owed: BTreeMap::new(),
            sweep: VecDeque::new(),
            sweeping: None,
            ready: VecDeque::new(),
            statistics: TpccStatistics::default(),
            config,
        })
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &TpccConfig {
        &self.config
    }

    /// Returns the counts so far.
    pub const fn statistics(&self) -> TpccStatistics {
        self.statistics
    }

    /// Returns the counts of pages in the pool.
    pub fn pool(&self) -> PageCounts {
        self.pool.counts()
    }

    fn checkpoint(&self) -> u32 {
        self.terminals.len() as u32
    }

    fn wake_at(&mut self, at: Instant, who: u32) {
        self.wakes.push(Reverse((at, self.known, who)));
        self.known += 1;
    }

    /// Lets the terminal think about its last transaction, if there was one, and key the next.
    fn pause(&mut self, terminal: u32, at: Instant) {
        let pace = u64::from(self.config.pace_percent);
        let Some(own) = self.terminals.get_mut(terminal as usize) else { return };
        let mean = own.kind.think();
        let think = own.stream.exponential_time(mean).as_nanos().min(10 * mean.as_nanos());
        own.kind = TransactionKind::draw(&mut own.stream);
        let pause = (think + own.kind.keying().as_nanos()) / 100 * pace;
        self.wake_at(later(later(at, Duration::from_nanos(pause)), PROCESSING), terminal);
    }

    fn woken(&mut self, who: u32, at: Instant) {
        if who == self.checkpoint() {
            if self.sweep.is_empty() && self.sweeping.is_none() {
                self.sweep = self.pool.dirty().iter().copied().collect();
                self.sweep_on(at);
            }
            if let Some(every) = self.config.checkpoint {
                self.wake_at(later(at, every), who);
            }
        } else if self.active < self.config.active {
            self.begin(who);
            self.run(at);
        } else {
            self.queue.push_back(who);
        }
    }

    fn begin(&mut self, terminal: u32) {
        let Some(own) = self.terminals.get_mut(terminal as usize) else { return };
        let touches = self.database.transaction(own.kind, own.home, &mut own.stream);
        own.running = Some(Running { touches: touches.into(), ..Running::default() });
        self.active += 1;
        self.runnable.push_back(terminal);
    }

    fn run(&mut self, at: Instant) {
        while let Some(terminal) = self.runnable.pop_front() {
            let running = self.terminals.get_mut(terminal as usize).and_then(|own| own.running.take());
            let Some(mut running) = running else { continue };
            if self.advance(terminal, &mut running, at) {
                self.finish(terminal, at);
            } else if let Some(own) = self.terminals.get_mut(terminal as usize) {
                own.running = Some(running);
            }
        }
    }

    /// Runs the transaction until it waits for the drive or for another transaction; returns whether it has ended.
    fn advance(&mut self, terminal: u32, running: &mut Running, at: Instant) -> bool {
        while let Some(&touch) = running.touches.front() {
            if let Some(waiting) = self.arriving.get_mut(&touch.page) {
                waiting.push(terminal);
                return false;
            }
            running.touches.pop_front();
            self.statistics.touches += 1;
            if self.in_memory(touch, running) {
                self.statistics.hits += 1;
            } else if touch.fresh {
                self.statistics.fresh += 1;
                self.bring_in(touch.page, true, running);
            } else {
                self.bring_in(touch.page, false, running);
                self.pool.pin(touch.page);
                self.arriving.insert(touch.page, Vec::new());
                self.statistics.reads += 1;
                running.transfer = Some(Transfer::Read { page: touch.page, change: touch.change });
                self.ask(terminal, Op::Read, touch.page, at);
                return false;
            }
        }
        while let Some(page) = running.writes.pop_front() {
            // Otherwise the page is back in the pool, or another transaction is writing it.
            let Some(begun @ false) = self.owed.get_mut(&page) else { continue };
            *begun = true;
            self.statistics.evictions += 1;
            running.transfer = Some(Transfer::Write { page });
            self.ask(terminal, Op::Write, page, at);
            return false;
        }
        true
    }

    /// Brings a page into the pool if that needs no read, and returns whether it did: the page is in the pool, or was evicted
    /// from it and its write has not ended.
    fn in_memory(&mut self, touch: Touch, running: &mut Running) -> bool {
        if self.pool.touch(touch.page, touch.change) {
            return true;
        }
        match self.owed.get(&touch.page) {
            None => false,
            Some(false) => {
                self.owed.remove(&touch.page);
                self.bring_in(touch.page, true, running);
                true
            }
            Some(true) => {
                // The write under way has the page's present contents; until it has ended, the page must not leave
                // the pool again.
                self.bring_in(touch.page, touch.change, running);
                self.pool.pin(touch.page);
                true
            }
        }
    }

    fn bring_in(&mut self, page: u64, dirty: bool, running: &mut Running) {
        if let Some(Victim { page: victim, dirty: true }) = self.pool.insert(page, dirty, Evict::Any) {
            self.owed.insert(victim, false);
            running.writes.push_back(victim);
        }
    }

    fn finish(&mut self, terminal: u32, at: Instant) {
        if let Some(own) = self.terminals.get(terminal as usize) {
            self.statistics.transactions[own.kind as usize] += 1;
        }
        self.active = self.active.saturating_sub(1);
        self.pause(terminal, at);
        if let Some(next) = self.queue.pop_front() {
            self.begin(next);
        }
    }

    /// Writes the checkpoint's next page that is still changed, in the pool, and not being written already.
    fn sweep_on(&mut self, at: Instant) {
        while let Some(page) = self.sweep.pop_front() {
            if self.pool.is_dirty(page) && !self.owed.contains_key(&page) {
                self.pool.set_clean(page);
                self.pool.pin(page);
                self.sweeping = Some(page);
                self.statistics.swept += 1;
                self.ask(self.checkpoint(), Op::Write, page, at);
                return;
            }
        }
    }

    fn ask(&mut self, who: u32, op: Op, page: u64, at: Instant) {
        let request = Request { op, range: self.database.tables().range(page) };
        self.ready.push_back(Issued { at, task: ClosedTask::new(who), request, cache: CacheOps::default() });
    }
}

impl Script for Tpcc {
    fn start(&mut self, at: Instant) {
        for terminal in 0..self.terminals.len() as u32 {
            self.pause(terminal, at);
        }
        if let Some(every) = self.config.checkpoint {
            self.wake_at(later(at, every), self.checkpoint());
        }
    }

    fn due(&self) -> Option<Instant> {
        let ready = self.ready.front().map(|issued| issued.at);
        ready.or_else(|| self.wakes.peek().map(|Reverse((at, ..))| *at))
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        while self.ready.is_empty() {
            let &Reverse((at, _, who)) = self.wakes.peek().filter(|wake| wake.0.0 <= now)?;
            self.wakes.pop();
            self.woken(who, at);
        }
        self.ready.pop_front()
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        let who = task.get();
        if who == self.checkpoint() {
            if let Some(page) = self.sweeping.take() {
                self.pool.unpin(page);
            }
            self.sweep_on(now);
            return;
        }
        let running = self.terminals.get_mut(who as usize).and_then(|own| own.running.as_mut());
        match running.and_then(|running| running.transfer.take()) {
            Some(Transfer::Read { page, change }) => {
                self.pool.unpin(page);
                self.pool.touch(page, change);
                self.runnable.push_back(who);
                self.runnable.extend(self.arriving.remove(&page).unwrap_or_default());
            }
            Some(Transfer::Write { page }) => {
                self.owed.remove(&page);
                self.pool.unpin(page);
                self.runnable.push_back(who);
            }
            None => debug_assert!(false, "a completion without a request"),
        }
        self.run(now);
    }

    fn is_done(&self) -> bool {
        false
    }
}

impl Source for Tpcc {
    fn next_request(&mut self) -> Option<Request> {
        if self.known == 0 {
            self.start(Instant::ZERO);
        }
        served_at_once(self)
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}
