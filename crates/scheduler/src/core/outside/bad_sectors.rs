//! Reads around known bad sectors: a drive may transfer nothing of a command with a bad sector in it, so that its blocks would be
//! wanted again, and read again, for ever.

use super::Outside;
use super::detour::WantedRange;
use crate::background::Part;
use crate::core::Core;
use crate::core::under_way::Job;
use crate::foreground::{Pending, Request};
use alloc::vec::Vec;
use units::{Lbn, LbnRange, Sectors, TaskId};

impl Core {
    /// Narrows a read over known bad sectors that are not themselves wanted to a part between those sectors: to the part that
    /// transfers most wanted sectors, or for merged blocks to the last part. Returns `None` if no wanted sector is left.
    pub(super) fn avoid_bad(
        &mut self,
        outside: &Outside,
        asked: WantedRange,
        tag: u64,
        merged: bool,
    ) -> Option<WantedRange> {
        let range = asked.range;
        if !outside.has_known_bad(range) {
            return Some(asked);
        }
        let wanted: Vec<Part> = self.background.parts_of(tag).collect();
        let mut between = between_bad(outside, range, &wanted);
        if between.len() == 1 {
            return Some(asked);
        }
        let kept = if merged {
            between.pop()?
        } else {
            between.into_iter().max_by_key(|kept| transferred(*kept, range, &wanted))?
        };
        let WantedRange { range, useful } = self.narrow(range, kept, tag)?;
        let end = if merged { kept.end() } else { range.end() };
        Some(WantedRange { range: LbnRange::new(range.start(), end.since(range.start())), useful })
    }

    /// Narrows a read of `range` to the wanted sectors in its part `kept`. The other blocks are wanted again.
    pub(super) fn narrow(&mut self, range: LbnRange, kept: LbnRange, tag: u64) -> Option<WantedRange> {
        let others = |item: LbnRange| item.overlaps(range) && !kept.covers(item);
        self.background.give_back(self.drive.layout(), tag, false, others);
        self.wanted_within(kept, tag)
    }

    /// Narrows a promoted read over a known bad sector that is not itself wanted. A block has such a sector if the sector went
    /// bad after that part of the block was read.
    pub(super) fn narrow_promoted(&mut self, outside: &Outside, job: &mut Job, tag: u64) {
        let Request { op, range, .. } = job.pending.request;
        if op.is_write() || job.pending.promoted.is_none() || !outside.has_known_bad(range) {
            return;
        }
        let wanted: Vec<Part> = self.background.parts_of(tag).collect();
        let between = between_bad(outside, range, &wanted);
        // Only the first part stays, because parts of a block are returned in the reverse order. The rest is
        // promoted again.
        let is_wanted = |kept: &&LbnRange| wanted.iter().any(|part| kept.covers(part.part));
        let Some(&first) = between.iter().find(is_wanted).filter(|_| between.len() > 1) else {
            return;
        };
        let behind = |item: LbnRange| item.overlaps(range) && !first.covers(item);
        self.background.give_back(self.drive.layout(), tag, true, behind);
        let Some(WantedRange { range, .. }) = self.wanted_within(first, tag) else { return };
        let request = Request { range, ..job.pending.request };
        let Pending { arrived, sequence, promoted, follows, .. } = job.pending;
        if let Some(pending) = Pending::new(&self.drive, request, arrived, sequence) {
            job.pending = Pending { promoted, follows, ..pending };
        }
    }

    /// Returns the LBNs from the first to the last that the commands of a tag transfer within a range; `None` if there are
    /// none.
    pub(super) fn wanted_within(&self, range: LbnRange, tag: u64) -> Option<WantedRange> {
        let mut wanted: Option<(Lbn, Lbn)> = None;
        let mut sectors = 0;
        for item in self.background.fetched_by(tag).into_iter().filter(|item| range.covers(*item)) {
            let (from, to) = wanted.unwrap_or((item.start(), item.end()));
            wanted = Some((from.min(item.start()), to.max(item.end())));
            sectors += item.len().get();
        }
        let (from, to) = wanted?;
        let len = to.since(from);
        Some(WantedRange { range: LbnRange::new(from, len), useful: sectors.min(len.get()) as u32 })
    }
}

/// Returns the parts of a range between those known bad sectors that are in no wanted part of a block.
fn between_bad(outside: &Outside, range: LbnRange, wanted: &[Part]) -> Vec<LbnRange> {
    let between = |from: Lbn, to: Lbn| LbnRange::new(from, to.since(from));
    let known = outside.known_bad.range(range.start()..range.end());
    let (mut parts, mut from) = (Vec::new(), range.start());
    for &hole in known.filter(|lbn| !wanted.iter().any(|part| part.part.contains(**lbn))) {
        parts.push(between(from, hole));
        from = hole + Sectors::new(1);
    }
    parts.push(between(from, range.end()));
    parts
}

/// Returns the number of wanted sectors that a command for `range` still transfers if it is narrowed to `kept`. If a part of a
/// block is returned, the later parts of the block are returned with it.
fn transferred(kept: LbnRange, range: LbnRange, wanted: &[Part]) -> u64 {
    let mut given_back: Vec<(TaskId, LbnRange)> = Vec::new();
    let mut sectors = 0;
    for part in wanted.iter().filter(|part| part.part.overlaps(range)) {
        let block = (part.task, part.block);
        if !kept.covers(part.part) {
            given_back.push(block);
        } else if !given_back.contains(&block) {
            sectors += part.part.len().get();
        }
    }
    sectors
}
