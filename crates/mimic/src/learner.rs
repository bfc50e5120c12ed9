//! On-line configuration: the learner learns times from the running workload.

mod bits;
mod cell;
mod change;
mod grid;
mod kept;
mod lines;

use crate::check_points::CheckPoints;
use crate::distance::{Distance, Pair, key};
use crate::search::DISTANCE_SECTORS_MAX;
use crate::table::{BATCH_REQUESTS, Table, lot};
use bits::Bits;
use cell::Cell;
use change::{Change, PredictionSource};
use grid::Grid;
pub use kept::{LearntError, SavedPart, Saving};
use lines::Lines;
use scheduler::{Last, Mimic, Observed, Request};
use std::num::NonZeroU64;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};
use workload::random::Stream;

/// The number of cells that are cleared together, when one of them is first used after the learner forgot everything.
const PAGE_CELLS: usize = 512;

/// The weight of a table's time in a cell's mean, in samples, when the first observation is added.
const PRIOR_SAMPLES: u8 = 4;

/// The configuration of a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerConfig {
    /// The number of sectors of the drive.
    pub capacity: Sectors,
    /// The grain of distances in sectors: the alignment of requests.
    pub unit: Sectors,
    /// The most memory to use, including the table from which the learner starts. [Reading](Learner::read) a file adds
    /// only some kilobytes.
    pub memory: Bytes,
    /// The number of samples after which a distance's time counts as known. With one sample, as in the paper, a
    /// distance that was slow by chance is avoided from then on (ATC'03, section 6.2, first open idea).
    pub minimum_samples: u8,
    /// The rule by which distances between known ones count as known; with [`CheckPoints::NONE`] they never do.
    pub check_points: CheckPoints,
    /// The longest pause of the drive before a request whose time counts: the platter rotates during a pause, so the
    /// distance no longer determines the angle (ATC'03, section 3.1.2).
    pub longest_pause: Duration,
    /// The number of samples in a mean, 255 at most; the weight of older samples decreases.
    pub window: u8,
    /// Whether to detect that the drive has been replaced by another one, and learn anew.
    pub notice_change: bool,
    /// Whether to probe unknown distances in idle time (ATC'03, section 6.2, second open idea).
    pub probe_idle: bool,
    /// The seed for the choice of distances to probe.
    pub seed: u64,
}

impl LearnerConfig {
    /// Returns the default configuration: 64 MB, one sample, the paper's Table 2, pauses of up to 200 us, means over
    /// 64 samples, detection of another drive, and no probes in idle time.
    pub fn new(capacity: Sectors, unit: Sectors) -> Self {
        Self {
            capacity,
            unit,
            memory: Bytes::new(64 << 20),
            minimum_samples: 1,
            check_points: CheckPoints::TABLE_2,
            longest_pause: Duration::from_micros(200),
            window: 64,
            notice_change: true,
            probe_idle: false,
            seed: 1,
        }
    }

    /// Checks all fields except the memory.
    fn check(&self) -> Result<(), LearnerError> {
        let Self { capacity, unit, window, minimum_samples: minimum, .. } = *self;
        if unit == Sectors::ZERO {
            return Err(LearnerError::Unit);
        }
        if capacity == Sectors::ZERO || capacity.get() > DISTANCE_SECTORS_MAX.unsigned_abs() {
            return Err(LearnerError::Capacity { capacity });
        }
        if minimum == 0 || minimum > window {
            return Err(LearnerError::Window { window, minimum });
        }
        Ok(())
    }
}

/// The reason why a learner cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LearnerError {
    /// The grain is 0.
    #[error("unit is 0 sectors; give what requests are aligned to, or 1")]
    Unit,
    /// The capacity is 0, or larger than that of any drive.
    #[error("capacity is {capacity} sectors; give 1 to 2^44")]
    Capacity {
        /// The capacity in sectors.
        capacity: Sectors,
    },
    /// There is not enough memory.
    #[error("{} bytes of memory are too few for the distances of {capacity} sectors; give at least 65536", bytes.get())]
    Memory {
        /// The memory in bytes.
        bytes: Bytes,
        /// The number of sectors of the drive.
        capacity: Sectors,
    },
    /// There is not enough memory beside the table.
    #[error(
        "{} bytes of memory are too few for a table of {} and the distances of {capacity} sectors; give at least {}, or a smaller table",
        bytes.get(),
        table.get(),
        table.get() + (1 << 16)
    )]
    BesideTable {
        /// The memory in bytes.
        bytes: Bytes,
        /// The memory of the table.
        table: Bytes,
        /// The number of sectors of the drive.
        capacity: Sectors,
    },
    /// The machine does not provide this memory.
    #[error("the machine does not give {} bytes of memory; set less", bytes.get())]
    NotThere {
        /// The memory in bytes.
        bytes: Bytes,
    },
    /// The window is impossible for a mean.
    #[error(
        "a window of {window} samples with at least {minimum} for a known time; give 1 <= minimum_samples <= window"
    )]
    Window {
        /// The number of samples of a mean.
        window: u8,
        /// The number of samples that a known time needs.
        minimum: u8,
    },
}

/// The state of learning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnerStats {
    /// The number of times observed.
    pub observed: u64,
    /// The number of times ignored because of a pause.
    pub after_pause: u64,
    /// The number of times that another drive was detected.
    pub changes: u32,
    /// The number of cells known by their own samples. Each is for one distance, or for several if memory does not
    /// suffice for a cell each.
    pub known: u64,
    /// The mean error of the latest predictions; zero if another drive is not to be detected.
    pub mean_error: Duration,
    /// The memory in use ([`Learner::memory`]).
    pub memory: Bytes,
}

/// Learns times on-line (ATC'03, section 6): stores the mean of the times at each distance, within a fixed memory.
///
/// Times are stored in cells. Distances near zero have a cell each, larger ones share one, but a cell is never wider
/// than a small part of its distance: a 20 TB drive fits into 64 MB. If all distances fit, each has a cell of its own.
/// The learner interpolates between known distances if the known ones in between meet the rule for check points. It
/// may start from a [`Table`], whose times count until enough has been observed. If predictions are wrong for long,
/// the drive must be another one: the learner forgets everything, including the table, and learns anew.
///
/// ```
/// use mimic::{Learner, LearnerConfig};
/// use scheduler::{Last, Mimic, Observed, Request};
/// use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// let mut learner = Learner::new(LearnerConfig::new(Sectors::new(1_000_000), Sectors::new(8)), None)?;
/// let last = Last { op: Op::Read, lbn: Lbn::new(7) };
/// let range = LbnRange::new(Lbn::new(808), Sectors::new(8));
/// let request = Request { id: RequestId::new(0), op: Op::Read, range };
/// assert_eq!(learner.time(last, Instant::ZERO, &request), None);
/// let time = Duration::from_micros(2_300);
/// learner.observe(&Observed { last, request, pause: Duration::ZERO, time });
/// assert_eq!(learner.time(last, Instant::ZERO, &request), Some(time));
/// # Ok::<(), mimic::LearnerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Learner {
    config: LearnerConfig,
    grid: Grid,
    pairs: [Side; 4],
    /// The number of times that the learner forgot everything.
    generation: u32,
    table: Option<Table>,
    change: Change,
    random: Stream,
    observed: u64,
    after_pause: u64,
    changes: u32,
}

/// The cells of one pair of request types.
#[derive(Clone, Debug)]
struct Side {
    cells: Vec<u64>,
    /// The generation in which each page of cells was last cleared.
    pages: Vec<u32>,
    lines: Lines,
}

impl Side {
    fn new(cells: usize) -> Self {
        Self { cells: vec![0; cells], pages: vec![0; cells.div_ceil(PAGE_CELLS)], lines: Lines::new(cells) }
    }

    fn cell(&self, i: usize) -> Cell {
        Cell::from_bits(self.cells[i])
    }

    /// Iterates over the cells of a page that have samples, in ascending order.
    fn held_in(&self, page: usize, generation: u32) -> impl Iterator<Item = (usize, Cell)> + '_ {
        let current = self.pages.get(page) == Some(&generation);
        let cells = if current { self.cells.chunks(PAGE_CELLS).nth(page) } else { None };
        let cells = cells.unwrap_or_default().iter().enumerate();
        cells
            .map(move |(i, bits)| (page * PAGE_CELLS + i, Cell::from_bits(*bits)))
            .filter(|(_, cell)| *cell != Cell::EMPTY)
    }

    /// Returns a cell to write to, after clearing its page if the page is of an earlier generation.
    fn touch(&mut self, i: usize, generation: u32) -> &mut u64 {
        let page = i / PAGE_CELLS;
        if self.pages[page] != generation {
            let end = ((page + 1) * PAGE_CELLS).min(self.cells.len());
            self.cells[page * PAGE_CELLS..end].fill(0);
            self.pages[page] = generation;
        }
        &mut self.cells[i]
    }

    /// Returns the memory that `cells` cells need, in bytes.
    fn memory(cells: usize) -> usize {
        cells * 8 + cells.div_ceil(PAGE_CELLS) * 4 + Lines::memory(cells)
    }

    /// Returns the memory of this pair's cells, in bytes.
    fn held_memory(&self) -> usize {
        self.cells.capacity() * 8 + self.pages.capacity() * 4 + self.lines.held_memory()
    }
}

impl Learner {
    /// Creates a learner that knows only the times of `table`, if there is one.
    ///
    /// # Errors
    /// The field of the configuration that is invalid, with the valid values.
    pub fn new(config: LearnerConfig, table: Option<Table>) -> Result<Self, LearnerError> {
        config.check()?;
        let LearnerConfig { capacity, unit, memory, .. } = config;
        let of_table = table.as_ref().map_or(Bytes::ZERO, Table::memory);
        let bytes = memory.get().saturating_sub(of_table.get());
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Memory that does not depend on the number of cells is subtracted first, as `memory` counts it.
        let four = bytes.saturating_sub(size_of::<Self>() + Change::MEMORY_BYTES);
        // Each cell takes eight bytes, two bits, and slightly more.
        let mut cells = four / 4 / 8;
        while cells > 0 && Side::memory(cells) > four / 4 {
            cells -= cells.div_ceil(1_024);
        }
        let blocks = capacity.get().div_ceil(unit.get());
        let few = if of_table == Bytes::ZERO {
            LearnerError::Memory { bytes: memory, capacity }
        } else {
            LearnerError::BesideTable { bytes: memory, table: of_table, capacity }
        };
        let grid = Grid::new(unit.get(), blocks, cells).filter(|_| bytes >= 1 << 16).ok_or(few)?;
        // The memory is tried before it is used: if the machine lacks it, the process would be killed later.
        Vec::<u8>::new()
            .try_reserve_exact(4 * Side::memory(grid.cells()))
            .map_err(|_| LearnerError::NotThere { bytes: memory })?;
        Ok(Self {
            grid,
            pairs: std::array::from_fn(|_| Side::new(grid.cells())),
            generation: 0,
            table,
            change: Change::default(),
            random: Stream::new(config.seed, "mimic-idle"),
            observed: 0,
            after_pause: 0,
            changes: 0,
            config,
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &LearnerConfig {
        &self.config
    }

    /// Returns the table from which the learner started; `None` once another drive was detected.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Returns the time at a distance, if it is known. `lot` is the random number for a table with the probabilistic
    /// metric.
    #[inline]
    pub fn time_at(&self, pair: Pair, distance: Distance, lot: u64) -> Option<Duration> {
        self.predict(pair, distance, lot).map(|(time, _)| time)
    }

    #[inline]
    fn predict(&self, pair: Pair, distance: Distance, lot: u64) -> Option<(Duration, PredictionSource)> {
        let side = &self.pairs[pair.index()];
        let i = self.grid.cell(distance.sectors());
        if side.lines.is_known(i) {
            let cell = side.cell(i);
            return Some((Duration::from_nanos(cell.mean()), PredictionSource::Own(cell.count())));
        }
        if let Some(table) = &self.table {
            return table.time(pair, distance, lot).map(|time| (time, PredictionSource::Table));
        }
        self.on_line(side, i, distance.sectors()).map(|time| (time, PredictionSource::Line))
    }

    /// Returns the times of at most [`BATCH_REQUESTS`] requests. Each step is done for all of them before the next, so
    /// that their memory accesses overlap.
    fn times_of(&self, asked: (Last, Instant), requests: &[Request], times: &mut [Option<Duration>]) {
        let mut cells = [(0, 0, 0); BATCH_REQUESTS];
        for (cell, request) in cells.iter_mut().zip(requests) {
            let (pair, distance) = key(asked.0, request.op, request.range.start());
            *cell = (pair.index(), self.grid.cell(distance.sectors()), distance.sectors());
        }
        let unknown = cells.map(|(pair, i, _)| !self.pairs[pair].lines.is_known(i));
        if let Some(table) = &self.table {
            table.fill(asked, requests, unknown, times);
        }
        for ((time, unknown), (pair, i, distance)) in times.iter_mut().zip(unknown).zip(cells) {
            let side = &self.pairs[pair];
            if !unknown {
                *time = Some(Duration::from_nanos(side.cell(i).mean()));
            } else if self.table.is_none() {
                *time = self.on_line(side, i, distance);
            }
        }
    }

    /// Returns the time at a distance in an unknown cell, interpolated between known cells.
    #[inline]
    fn on_line(&self, side: &Side, i: usize, distance: i64) -> Option<Duration> {
        let points = |i: usize| (self.grid.distance(i), side.cell(i).mean());
        side.lines.between(i, points, distance).map(Duration::from_nanos)
    }

    /// Records that a request at this distance took `time`, without a pause of the drive before it.
    pub fn learn(&mut self, pair: Pair, distance: Distance, time: Duration) {
        self.observed += 1;
        if self.config.notice_change
            && let Some((expected, source)) = self.predict(pair, distance, u64::MAX / 2)
            && self.change.seen(source, distance, expected.as_nanos(), time.as_nanos())
        {
            self.forget();
        }
        let i = self.grid.cell(distance.sectors());
        let prior = self.table.as_ref().and_then(|table| table.time(pair, distance, u64::MAX / 2));
        let side = &mut self.pairs[pair.index()];
        let slot = side.touch(i, self.generation);
        let mut cell = Cell::from_bits(*slot);
        if let (Cell::EMPTY, Some(prior)) = (cell, prior) {
            cell = Cell::new(prior.as_nanos(), PRIOR_SAMPLES.min(self.config.window));
        }
        cell = cell.with(time.as_nanos(), self.config.window);
        *slot = cell.bits();
        if cell.count() >= self.config.minimum_samples {
            let (grid, cells) = (&self.grid, &side.cells);
            let points = |i: usize| (grid.distance(i), Cell::from_bits(cells[i]).mean());
            side.lines.known(i, points, &self.config.check_points);
        }
    }

    /// Forgets everything, because the drive is another one. Cells are cleared when they are next used.
    fn forget(&mut self) {
        self.changes += 1;
        self.generation += 1;
        self.table = None;
        self.pairs.iter_mut().for_each(|side| side.lines.clear());
    }

    /// Returns the state of learning.
    pub fn stats(&self) -> LearnerStats {
        LearnerStats {
            observed: self.observed,
            after_pause: self.after_pause,
            changes: self.changes,
            known: self.pairs.iter().map(|side| side.lines.len() as u64).sum(),
            mean_error: Duration::from_nanos(self.change.mean()),
            memory: self.memory(),
        }
    }

    /// Iterates over the distances that are known by their own samples, in ascending order, with their times.
    pub fn known(&self, pair: Pair) -> impl Iterator<Item = (Distance, Duration)> + '_ {
        let side = &self.pairs[pair.index()];
        side.lines
            .iter()
            .map(|i| (Distance::new(self.grid.distance(i)), Duration::from_nanos(side.cell(i).mean())))
    }

    /// Returns the memory of the learner in bytes, including the table: constant, and at most the configured memory.
    pub fn memory(&self) -> Bytes {
        let sides: usize = self.pairs.iter().map(Side::held_memory).sum();
        let bytes = sides + Change::MEMORY_BYTES + size_of::<Self>();
        Bytes::new(bytes as u64 + self.table.as_ref().map_or(0, |table| table.memory().get()))
    }

    /// Returns whether each distance has a cell of its own, in steps of the unit.
    pub fn is_exact(&self) -> bool {
        self.grid.is_exact()
    }
}

impl Mimic for Learner {
    #[inline]
    fn time(&self, last: Last, at: Instant, request: &Request) -> Option<Duration> {
        let (pair, distance) = key(last, request.op, request.range.start());
        let seed = self.table.as_ref().map_or(0, Table::seed);
        self.time_at(pair, distance, lot(seed, at, request.id.get()))
    }

    fn times(&self, last: Last, at: Instant, requests: &[Request], times: &mut Vec<Option<Duration>>) {
        times.clear();
        times.resize(requests.len(), None);
        for (requests, times) in requests.chunks(BATCH_REQUESTS).zip(times.chunks_mut(BATCH_REQUESTS)) {
            self.times_of((last, at), requests, times);
        }
    }

    fn observe(&mut self, seen: &Observed) {
        if seen.pause > self.config.longest_pause {
            self.after_pause += 1;
            return;
        }
        let (pair, distance) = key(seen.last, seen.request.op, seen.request.range.start());
        self.learn(pair, distance, seen.time);
    }

    /// Returns a range at an unknown distance from `last` to probe in idle time: a read, because a read changes no
    /// data. Each doubling of the distance is equally likely. The first probe after a pause is not learnt from, but
    /// leaves the head where the next probe begins.
    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        if !self.config.probe_idle {
            return None;
        }
        let unit = self.config.unit.get();
        let blocks = self.config.capacity.get() / unit;
        let here = (last.lbn.get() + 1) / unit;
        let pair = Pair::new(last.op, Op::Read);
        let doublings = NonZeroU64::new(u64::from(u64::BITS - blocks.leading_zeros()))?;
        for _ in 0..8 {
            let most = 1u64 << self.random.below(doublings).min(60);
            let steps = most + self.random.below(NonZeroU64::new(most)?);
            let block = if self.random.next_u64() & 1 == 0 {
                here.checked_add(steps)
            } else {
                here.checked_sub(steps)
            };
            let Some(block) = block.filter(|b| *b < blocks) else { continue };
            let first = Lbn::new(block * unit);
            let distance = Distance::between(last.lbn, first);
            if !self.pairs[pair.index()].lines.is_known(self.grid.cell(distance.sectors())) {
                return Some(LbnRange::new(first, self.config.unit));
            }
        }
        None
    }

    fn uses_idle_time(&self) -> bool {
        self.config.probe_idle
    }

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}
