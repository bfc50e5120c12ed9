//! Parts of background blocks that have come, until the block is delivered.
//!
//! A block that lies on two tracks comes in two commands, and other blocks may be had on the way of a foreground request.
//! What is written meanwhile goes over what is kept, so that a block is always one that was on the medium as a whole.

use scheduler::{Part, Record};
use std::collections::BTreeMap;
use units::{Bytes, Lbn, LbnRange, SessionId, TaskId};

#[derive(Debug)]
struct Block {
    session: SessionId,
    range: LbnRange,
    bytes: Vec<u8>,
    /// What of it has come.
    there: Vec<LbnRange>,
}

#[derive(Debug)]
pub(super) struct Blocks {
    blocks: BTreeMap<(TaskId, Lbn), Block>,
    sector: Bytes,
}

/// The bytes of `part` in those of `whole`.
pub(super) fn within(whole: LbnRange, part: LbnRange, sector: Bytes) -> Option<std::ops::Range<usize>> {
    let offset = |lbn: Lbn| {
        let sectors = lbn.get().checked_sub(whole.start().get())?;
        usize::try_from(sectors.checked_mul(sector.get())?).ok()
    };
    whole.covers(part).then_some(())?;
    Some(offset(part.start())?..offset(part.end())?)
}

/// Copies what two ranges share from one's bytes to the other's.
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

    /// A part of a block has come with a command.
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

    /// Whether somebody wants to know what is written there.
    pub fn touches(&self, range: LbnRange) -> bool {
        self.blocks.values().any(|block| block.range.overlaps(range))
    }

    /// Something was written.
    pub fn written(&mut self, range: LbnRange, bytes: &[u8]) {
        for block in self.blocks.values_mut() {
            copy((block.range, &mut block.bytes), (range, bytes), self.sector);
        }
    }

    /// The bytes of a block that is delivered; `None` if not all of it has come.
    pub fn take(&mut self, record: &Record) -> Option<Vec<u8>> {
        let mut block = self.blocks.remove(&(record.task, record.range.start()))?;
        block.there.sort_unstable_by_key(|part| part.start());
        let reach = |end: Lbn, part: &LbnRange| if part.start() <= end { end.max(part.end()) } else { end };
        let end = block.there.iter().fold(block.range.start(), reach);
        (end >= block.range.end() && block.range == record.range).then_some(block.bytes)
    }

    /// Forgets what nobody waits for any more.
    pub fn forget(&mut self, gone: impl Fn(TaskId, SessionId, LbnRange) -> bool) {
        self.blocks.retain(|(task, _), block| !gone(*task, block.session, block.range));
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }
}
