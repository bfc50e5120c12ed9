//! The demo's two runs, which proceed request by request.

use crate::asked::{Asked, Load};
use crate::{DemoError, block};
use model::DriveModel;
use page::Rings;
use scheduler::{AnyCore, Config, Record, Request};
use sim::{Background, Inside, Observer, Report};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig, Source};

/// The largest number of accesses in a snapshot; the page draws a dot for each.
const ACCESSES_MAX: usize = 24;
/// The number of requests after which a run's results are kept for the first time; then after ten times this number, and so on.
const FIRST_MILESTONE: u64 = 1_000;

/// One of the two runs.
pub(crate) struct Run {
    pub run: Inside<Box<dyn Source>>,
    /// The sum of the response times.
    pub sum: Duration,
}

impl Run {
    /// Sets up a run. `scan` is the block of the scan beside it; `None` for no scan.
    pub fn new(drive: &Arc<DriveModel>, asked: &Asked, scan: Option<Sectors>) -> Result<Self, DemoError> {
        let (capacity, sector) = (drive.layout().capacity(), drive.sector_bytes());
        let (source, arrival): (Box<dyn Source>, Arrival) = match asked.load {
            Load::Oltp => {
                let source = Oltp::new(OltpConfig::new(capacity, sector), asked.seed)?;
                (Box::new(source), Arrival::oltp(asked.tasks))
            }
            Load::Random => {
                let source = Random::new(RandomConfig::new(capacity, sector), asked.seed)?;
                (Box::new(source), Arrival::outstanding(asked.tasks))
            }
        };
        let foreground = Issuer::new(source, arrival, Instant::ZERO, asked.seed)?;
        let config = Config::default().with_policy(asked.policy);
        let background = scan.map_or(Background::None, |block| Background::Scan { block });
        let run = Inside::new(Arc::clone(drive), config, foreground, background)?;
        Ok(Self { run, sum: Duration::ZERO })
    }
}

/// A foreground request with its arrival and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completion {
    request: Request,
    arrived: Instant,
    completed: Instant,
}

/// The completions and blocks of one step of a run.
#[derive(Default)]
struct Seen {
    done: Vec<Completion>,
    blocks: Vec<Record>,
}

impl Observer for Seen {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.done.push(Completion { request, arrived, completed: at });
    }

    fn delivered(&mut self, _: &mut dyn AnyCore, record: Record, _: Instant) {
        self.blocks.push(record);
    }
}

/// Two runs of one foreground, with a scan and without it.
pub(crate) struct Both {
    pub with: Run,
    pub without: Run,
    pub capacity: Sectors,
    /// The number of scanned sectors in each part of the disk.
    pub rings: Rings,
    /// The last accesses with their purposes.
    pub accesses: VecDeque<(Lbn, &'static str)>,
    pub compared: u64,
    pub same: u64,
    /// The results of the run with the scan, when it last reached 1,000 requests, 10,000, and so on.
    pub milestone: Option<Report>,
    next_milestone: u64,
}

impl Both {
    pub fn new(drive: &Arc<DriveModel>, asked: &Asked) -> Result<Self, DemoError> {
        Ok(Self {
            with: Run::new(drive, asked, Some(block(drive.sector_bytes())?))?,
            without: Run::new(drive, asked, None)?,
            capacity: drive.layout().capacity(),
            rings: Rings::default(),
            accesses: VecDeque::new(),
            compared: 0,
            same: 0,
            milestone: None,
            next_milestone: FIRST_MILESTONE,
        })
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.with.run.now()
    }

    /// Continues both runs, request by request, until the virtual time is `end` or later, and compares their completions.
    pub fn advance_to(&mut self, end: Instant) -> Result<(), DemoError> {
        let mut seen = (Seen::default(), Seen::default());
        while self.now() < end {
            self.with.run.advance(1, &mut seen.0)?;
            self.without.run.advance(1, &mut seen.1)?;
            self.compared += seen.0.done.len().max(seen.1.done.len()) as u64;
            self.same += seen.0.done.iter().zip(&seen.1.done).filter(|(a, b)| a == b).count() as u64;
            for record in seen.0.blocks.drain(..) {
                self.rings.add(record.range, self.capacity);
                // The page shows only the first block of a gap.
                if self.accesses.back().is_none_or(|(_, last)| *last != "gap") {
                    self.accesses.push_back((record.range.start(), "gap"));
                }
            }
            for done in seen.0.done.drain(..) {
                self.accesses.push_back((done.request.range.start(), "request"));
                self.with.sum += done.completed.saturating_since(done.arrived);
            }
            for done in seen.1.done.drain(..) {
                self.without.sum += done.completed.saturating_since(done.arrived);
            }
            while self.accesses.len() > ACCESSES_MAX {
                self.accesses.pop_front();
            }
            if self.with.run.requests() >= self.next_milestone {
                self.milestone = Some(self.with.run.report());
                self.next_milestone *= 10;
            }
        }
        Ok(())
    }
}

pub(crate) fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
