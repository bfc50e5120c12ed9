//! The start of a reorganisation. The slow part, which needs no sessions, is done in advance, on any thread
//! ([`Prepared`]); the rest goes in steps of bounded length, so that a plan of a million blocks does not delay other
//! work.

use super::journal::{self, JournalHeader, Nvram, Recovered};
use super::links::{Links, NONE};
use super::machine::Reorganizer;
use super::options::{Options, RecoverError, ReorganizeStartError};
use super::plan::RelocationPlan;
use super::ranges::{self, Span};
use super::staging::Staging;
use crate::sessions::{Parameter, Sessions};
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

/// The state of the registrations.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    waiting: [Waiting; 2],
    class: usize,
    entered: bool,
    span: usize,
    /// The calls made for the current span: its read, and then the withdrawals from it.
    calls: usize,
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

    /// Prepares a plan to be resumed from `state`, the contents of the memory at the crash.
    ///
    /// # Errors
    /// [`RecoverError`], except for sessions and memory.
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

impl<N: Nvram> Reorganizer<N> {
    /// Opens the sessions of a prepared plan. Nothing is read or written, and nothing else may be called, before
    /// [`begin_some`](Self::begin_some) has returned true.
    ///
    /// # Errors
    /// [`ReorganizeStartError::Session`]; then no session is left open.
    pub fn begin(
        prepared: Prepared,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, ReorganizeStartError> {
        Self::open(prepared, true, nvram, sessions)
    }

    /// Registers more, with at most `most` calls of the sessions; returns whether all is registered.
    ///
    /// # Errors
    /// [`ReorganizeStartError`]; then all its sessions are closed, and the reorganisation has ended.
    pub fn begin_some(
        &mut self,
        sessions: &mut dyn Sessions,
        most: usize,
    ) -> Result<bool, ReorganizeStartError> {
        let told = self.register_some(sessions, most);
        if told.is_err() {
            self.close(sessions);
        }
        told
    }

    /// Returns whether [`begin_some`](Self::begin_some) must be called again.
    pub fn is_beginning(&self) -> bool {
        self.beginning.is_some()
    }

    fn register_some(
        &mut self,
        sessions: &mut dyn Sessions,
        most: usize,
    ) -> Result<bool, ReorganizeStartError> {
        let Some(mut at) = self.beginning.take() else { return Ok(true) };
        // A call that fails ends the reorganisation.
        for _ in 0..most.max(1) {
            loop {
                let Some(spans) = at.waiting.get(at.class) else {
                    self.begun(sessions)?;
                    return Ok(true);
                };
                if !std::mem::replace(&mut at.entered, true) {
                    self.suspend_or_resume(sessions, at.class);
                    self.epoch += 1;
                }
                if at.span < spans.len() {
                    break;
                }
                (at.class, at.entered, at.span) = (at.class + 1, false, 0);
            }
            let Some(span) = at.waiting.get(at.class).and_then(|spans| spans.get(at.span)) else { continue };
            let session = self.readings[at.class];
            match at.calls.checked_sub(1).map(|nth| span.unwanted.get(nth)) {
                None => drop(sessions.read(session, span.range, self.block, Parameter(self.epoch))?),
                // A block whose withdrawal fails is read in vain.
                Some(Some(unwanted)) => drop(sessions.abort_range(session, *unwanted)),
                Some(None) => {}
            }
            at.calls += 1;
            if at.calls > span.unwanted.len() {
                (at.span, at.calls) = (at.span + 1, 0);
            }
        }
        self.beginning = Some(at);
        Ok(false)
    }

    fn begun(&mut self, sessions: &mut dyn Sessions) -> Result<(), ReorganizeStartError> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        self.still = false;
        // This comes last, so that a refused start leaves the memory as it was.
        self.compact()?;
        let staged: Vec<u32> = self.staging.iter().map(|(b, _)| b).collect();
        staged.into_iter().for_each(|b| self.offer(b));
        self.settle(sessions);
        Ok(())
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
