//! Sets of blocks: their runs, and their encoding as bytes.

use crate::codec::{Cursor, put_varint};
use scheduler::BlockSet;

/// Returns the length of the run of blocks in the set that begins at `from`, counted up to `limit` at most.
pub(crate) fn run(set: &BlockSet, from: u64, limit: u64) -> u64 {
    let mut end = from;
    let mut step = 1;
    while end < limit {
        let to = end.saturating_add(step).min(limit);
        if set.count(end, to) == to - end {
            end = to;
            step = (step * 2).min(1 << 24);
        } else if step == 1 {
            break;
        } else {
            step /= 2;
        }
    }
    end - from
}

/// Blocks in a page: each page is saved as runs or as bits, whichever is shorter.
const PAGE_BLOCKS: u64 = 1 << 15;

/// Appends a set. Each page is written as runs (the number of their bytes + 1, then a gap and a length for each run;
/// varints), or as a 0 and a bit for each block: a block takes slightly more than 1 bit at most.
pub(crate) fn put_set(out: &mut Vec<u8>, set: &BlockSet) {
    for (page, end) in pages(set.blocks()) {
        let mut runs = Vec::new();
        let mut at = page;
        while let Some(first) = set.next(at).filter(|b| *b < end) {
            let len = run(set, first, end);
            put_varint(&mut runs, first - at);
            put_varint(&mut runs, len);
            at = first + len;
        }
        let bits = (end - page).div_ceil(8) as usize;
        if runs.len() < bits {
            put_varint(out, runs.len() as u64 + 1);
            out.extend_from_slice(&runs);
        } else {
            out.push(0);
            let mut map = vec![0u8; bits];
            set.for_each(page, end, |b| map[((b - page) / 8) as usize] |= 1 << ((b - page) % 8));
            out.extend_from_slice(&map);
        }
    }
}

/// Reads a set of `blocks` blocks; `None` if the bytes are invalid.
pub(crate) fn take_set(cursor: &mut Cursor<'_>, blocks: u64) -> Option<BlockSet> {
    // Each page has at least one byte, so a wrong number of blocks is refused before it takes memory.
    (blocks.div_ceil(PAGE_BLOCKS) <= cursor.left() as u64).then_some(())?;
    let mut set = BlockSet::full(blocks);
    for (page, end) in pages(blocks) {
        match cursor.varint()? {
            0 => {
                let map = cursor.take((end - page).div_ceil(8) as usize)?;
                for b in page..end {
                    if map[((b - page) / 8) as usize] >> ((b - page) % 8) & 1 == 0 {
                        set.remove(b);
                    }
                }
            }
            bytes => {
                let mut runs = Cursor::new(cursor.take(usize::try_from(bytes - 1).ok()?)?);
                let mut at = page;
                while !runs.is_empty() {
                    let first = at.checked_add(runs.varint()?)?;
                    let stop = first.checked_add(runs.varint()?).filter(|stop| *stop <= end)?;
                    set.remove_range(at, first);
                    at = stop;
                }
                set.remove_range(at, end);
            }
        }
    }
    Some(set)
}

fn pages(blocks: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..blocks.div_ceil(PAGE_BLOCKS)).map(move |i| (i * PAGE_BLOCKS, ((i + 1) * PAGE_BLOCKS).min(blocks)))
}
