//! A plan with its state before any session is open: the slow part of a start, which can be done on any thread.

use super::journal::{self, JournalHeader, Recovered};
use super::links::Links;
use super::options::{Options, RecoverError, ReorganizeStartError};
use super::plan::{NONE, RelocationPlan};
use super::ranges::{self, Span};
use super::staging::Staging;
use units::{Bytes, Sectors};

/// A plan and its state, ready to begin or to be resumed.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(super) from: Recovered,
    pub(super) header: JournalHeader,
    pub(super) free: Vec<(u64, u64)>,
    pub(super) block: Sectors,
    pub(super) capacity: Sectors,
    pub(super) sector: Bytes,
    pub(super) options: Options,
    pub(super) waiting: [Waiting; 2],
}

/// The ranges that a session is to read.
pub(super) type Waiting = Vec<Span>;

/// The progress of a start in steps: the next call of a session to be made.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    pub(super) waiting: [Waiting; 2],
    pub(super) class: usize,
    pub(super) entered: bool,
    pub(super) span: usize,
    /// The calls made for the current span: its read, and then the withdrawals from it.
    pub(super) calls: usize,
}

impl Prepared {
    /// Prepares a new plan, on a drive with sectors of `sector` bytes.
    ///
    /// # Errors
    /// [`ReorganizeStartError::Staging`], [`ReorganizeStartError::Threshold`].
    pub fn fresh(
        plan: &RelocationPlan,
        options: Options,
        sector: Bytes,
    ) -> Result<Self, ReorganizeStartError> {
        let fresh = Recovered { links: Links::new(plan), staging: Staging::default(), faults: Vec::new() };
        Self::of(plan, fresh, options, sector)
    }

    /// Prepares a plan to be resumed from `state`, the contents of the non-volatile memory at the crash.
    ///
    /// # Errors
    /// [`RecoverError`], except errors of sessions and of the non-volatile memory.
    pub fn recovered(
        plan: &RelocationPlan,
        state: &[u8],
        options: Options,
        sector: Bytes,
    ) -> Result<Self, RecoverError> {
        let recovered = journal::recover(plan, &JournalHeader::new(plan, sector, options.staging), state)?;
        Ok(Self::of(plan, recovered, options, sector)?)
    }

    fn of(
        plan: &RelocationPlan,
        from: Recovered,
        options: Options,
        sector: Bytes,
    ) -> Result<Self, ReorganizeStartError> {
        if options.staging < 2 {
            return Err(ReorganizeStartError::Staging(options.staging));
        }
        if !(1..=100).contains(&options.threshold_percent) {
            return Err(ReorganizeStartError::Threshold(options.threshold_percent));
        }
        let waiting = [0, 1].map(|class| {
            let links = &from.links;
            let of_class = |b: &u32| links.waits(*b) && links.class(*b) == class;
            let blocks: Vec<u32> = (0..links.len() as u32).filter(of_class).collect();
            ranges::bridged(links, &blocks, plan.block())
        });
        let header = JournalHeader::new(plan, sector, options.staging);
        let (free, block, capacity) = (free_places(plan), plan.block(), plan.capacity());
        Ok(Self { from, header, free, block, capacity, sector, options, waiting })
    }

    /// Returns the sectors of a block.
    pub fn block(&self) -> Sectors {
        self.block
    }

    /// Returns the options.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }
}

impl Beginning {
    pub fn of(waiting: [Waiting; 2]) -> Self {
        Self { waiting, class: 0, entered: false, span: 0, calls: 0 }
    }
}

/// Returns the destinations that are no block's source, in order, with adjacent ones merged.
fn free_places(plan: &RelocationPlan) -> Vec<(u64, u64)> {
    let mut free: Vec<(u64, u64)> = plan
        .blocks()
        .iter()
        .zip(plan.ahead())
        .filter(|(_, ahead)| **ahead == NONE)
        .map(|(b, _)| (b.to, b.to + u64::from(b.sectors)))
        .collect();
    free.sort_unstable();
    free.dedup_by(|next, last| {
        let touches = next.0 == last.1;
        if touches {
            last.1 = next.1;
        }
        touches
    });
    free
}
