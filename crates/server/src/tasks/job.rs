//! What every kind of task has in common.

use crate::desk::order::{Lane, News, Order, Work};
use crate::desk::spec::DiskFacts;
use crate::desk::sums::Sums;
use crate::desk::table::Figures;
use crate::disk::Fence;
use scheduler::{Priority, Record, Sessions, Wanted};
use std::collections::VecDeque;
use units::{Instant, LbnRange, Sectors};

/// What a job is given with every call.
pub(crate) struct Context<'a> {
    /// The task's number.
    pub id: u64,
    pub sessions: &'a mut dyn Sessions,
    pub orders: &'a mut VecDeque<Order>,
    pub disk: &'a DiskFacts,
    pub sums: &'a mut Sums,
    pub priority: Priority,
    pub now: Instant,
}

impl Context<'_> {
    /// Has something done with the task's target.
    pub fn target(&mut self, work: Work) {
        self.orders.push_back(Order { lane: Lane::Target(self.id), work });
    }

    /// Has something done with what the task keeps.
    pub fn kept(&mut self, work: Work) {
        self.orders.push_back(Order { lane: Lane::Kept(self.id), work });
    }
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its files are being opened.
    Opening,
    /// It works, or would if it were not suspended.
    Running,
    /// It cannot go on for now; [`Job::retry`].
    Waiting(String),
    /// All is done and durable.
    Done,
    /// It will not be done.
    Failed(String),
}

/// A task at work. Sans-IO: what it wants done goes into [`Context::orders`].
pub(crate) trait Job: Send {
    /// A block of one of its sessions is done with.
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]);

    /// A block of one of its sessions is about to be written.
    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let _ = (wanted, into);
        false
    }

    /// An order has been carried out.
    fn told(&mut self, cx: &mut Context<'_>, kept: bool, news: News) {
        let _ = (cx, kept, news);
    }

    /// Whether it has still to read what is in `range`, before that is overwritten.
    fn needs(&self, range: LbnRange) -> bool {
        let _ = range;
        false
    }

    /// The same; if so, it sees to it that it has it soon.
    fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange) -> bool {
        let _ = (cx, range);
        false
    }

    /// Whether others may get at a place.
    fn fences(&self, range: LbnRange) -> Fence {
        let _ = range;
        Fence::Open
    }

    /// Where others may not write while it is not over: first and end of each place, in order; none: anywhere.
    fn places(&self) -> Option<Vec<(u64, u64)>> {
        None
    }

    /// Whether it waits until nobody is at its places any more; then [`clear`](Self::clear) is called.
    fn wants_clear(&self) -> bool {
        false
    }

    /// What others had begun at its places is done.
    fn clear(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Whether it can be given up without losing anything, or why not.
    fn may_cancel(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether the disk should make durable what was written to it. For each true [`flushed`](Self::flushed) is called.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// All that was written before it wanted that is durable, or why not.
    fn flushed(&mut self, cx: &mut Context<'_>, told: Result<(), String>) {
        let _ = (cx, told);
    }

    /// Stands still, or goes on.
    fn pause(&mut self, cx: &mut Context<'_>, paused: bool);

    /// Tries again what did not work.
    fn retry(&mut self, cx: &mut Context<'_>);

    /// About once a second.
    fn tick(&mut self, cx: &mut Context<'_>);

    /// Closes its sessions. Nothing else is called afterwards.
    fn close(&mut self, cx: &mut Context<'_>);

    /// How it stands.
    fn stage(&self) -> Stage;

    /// What is durable by now and was not the last time, to be put into the journal: the figures, and what the job needs
    /// to go on from there.
    fn save(&mut self) -> Option<(Figures, Vec<u8>)>;

    /// What [`save`](Self::save) gave is in the journal.
    fn saved(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

/// The blocks of `block` sectors, counted from the disk's first, that `range` touches: the first, and the one after the
/// last.
pub(crate) fn blocks_of(range: LbnRange, block: Sectors, blocks: u64) -> (u64, u64) {
    let size = block.get().max(1);
    let end = range.start().get().saturating_add(range.len().get());
    ((range.start().get() / size).min(blocks), end.div_ceil(size).min(blocks))
}
