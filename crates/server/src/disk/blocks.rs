//! Received parts of background blocks, until the block is delivered.
//!
//! A block on two tracks arrives with two commands, and parts of other blocks may be read together with a foreground
//! request. Later writes are applied to the parts kept here, so that a block always equals the medium at one instant.

use scheduler::{Part, Record};
use std::collections::BTreeMap;
use units::{Bytes, Lbn, LbnRange, SessionId, TaskId};

#[derive(Debug)]
struct Block {
    session: SessionId,
    range: LbnRange,
    bytes: Vec<u8>,
    /// The sectors that have been received.
    there: Vec<LbnRange>,
}

#[derive(Debug)]
pub(super) struct Blocks {
    blocks: BTreeMap<(TaskId, Lbn), Block>,
    sector: Bytes,
}

/// Returns the position of the bytes of `part` in those of `whole`.
pub(super) fn within(whole: LbnRange, part: LbnRange, sector: Bytes) -> Option<std::ops::Range<usize>> {
    let offset = |lbn: Lbn| {
        let sectors = lbn.get().checked_sub(whole.start().get())?;
        usize::try_from(sectors.checked_mul(sector.get())?).ok()
    };
    whole.covers(part).then_some(())?;
    Some(offset(part.start())?..offset(part.end())?)
}

/// Copies the common part of two ranges from one's bytes to the other's.
fn copy((to, into): (LbnRange, &mut [u8]), (from, bytes): (LbnRange, &[u8]), sector: Bytes) {
    let (start, end) = (to.start().max(from.start()), to.end().min(from.end()));
    if start >= end {
        return;
    }
    let shared = LbnRange::new(start, end.since(start));
    let places = within(to, shared, sector).zip(within(from, shared, sector));
    if let Some((into, bytes)) = places.and_then(|(to, from)| into.get_mut(to).zip(bytes.get(from))) {
        into.copy_from_slice(bytes);
    }
}

impl Blocks {
    pub fn new(sector: Bytes) -> Self {
        Self { blocks: BTreeMap::new(), sector }
    }

    /// Keeps a part of a block that was read by a command.
    pub fn keep(&mut self, part: &Part, range: LbnRange, bytes: &[u8]) {
        let size = usize::try_from(part.block.len().bytes(self.sector).get()).unwrap_or(0);
        let new =
            || Block { session: part.session, range: part.block, bytes: vec![0; size], there: Vec::new() };
        let block = self.blocks.entry((part.task, part.block.start())).or_insert_with(new);
        if let Some(from) = within(range, part.part, self.sector).and_then(|at| bytes.get(at)) {
            copy((block.range, &mut block.bytes), (part.part, from), self.sector);
            block.there.push(part.part);
        }
    }

    /// Returns whether kept parts overlap this range, so that its writes have to be applied.
    pub fn touches(&self, range: LbnRange) -> bool {
        self.blocks.values().any(|block| block.range.overlaps(range))
    }

    /// Applies a write to the kept parts.
    pub fn written(&mut self, range: LbnRange, bytes: &[u8]) {
        for block in self.blocks.values_mut() {
            copy((block.range, &mut block.bytes), (range, bytes), self.sector);
        }
    }

    /// Returns the bytes of a block that is delivered; `None` if parts are missing.
    pub fn take(&mut self, record: &Record) -> Option<Vec<u8>> {
        let mut block = self.blocks.remove(&(record.task, record.range.start()))?;
        block.there.sort_unstable_by_key(|part| part.start());
        let reach = |end: Lbn, part: &LbnRange| if part.start() <= end { end.max(part.end()) } else { end };
        let end = block.there.iter().fold(block.range.start(), reach);
        (end >= block.range.end() && block.range == record.range).then_some(block.bytes)
    }

    /// Drops blocks that are no longer wanted.
    pub fn forget(&mut self, gone: impl Fn(TaskId, SessionId, LbnRange) -> bool) {
        self.blocks.retain(|(task, _), block| !gone(*task, block.session, block.range));
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }
}
