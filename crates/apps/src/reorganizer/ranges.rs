//! Registers many blocks as few tasks.

use super::links::Links;
use units::{Lbn, LbnRange, Sectors};

/// Up to this number of runs of blocks, each run becomes a task; if there are more, tasks bridge the narrowest gaps
/// between runs. A scheduler holds 2^20 tasks and searches fewer faster; a random fifth of the 8 KiB blocks of a 9 GB
/// drive is about 180,000 runs.
const RANGES_MAX: usize = 1024;

/// A range to register, and the parts of it to withdraw afterwards because no block of the plan lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub range: LbnRange,
    pub unwanted: Vec<LbnRange>,
    /// The indices of the range's blocks in the slice from which the spans were made.
    pub blocks: std::ops::Range<usize>,
}

/// Returns the sources of `blocks` (ascending) as ranges without other sectors.
pub fn adjacent(links: &Links, blocks: &[u32], block: Sectors) -> Vec<Span> {
    spans(links, blocks, block, 0)
}

/// Returns the sources of `blocks` as about [`RANGES_MAX`] ranges, or fewer; more only if some blocks do not lie a
/// whole number of blocks apart.
pub fn bridged(links: &Links, blocks: &[u32], block: Sectors) -> Vec<Span> {
    let mut gaps: Vec<u64> = blocks.windows(2).map(|p| gap(links, p[0], p[1])).filter(|&g| g > 0).collect();
    if gaps.len() < RANGES_MAX {
        return adjacent(links, blocks, block);
    }
    let at = gaps.len() - RANGES_MAX;
    let (_, &mut widest, _) = gaps.select_nth_unstable(at);
    spans(links, blocks, block, widest)
}

fn gap(links: &Links, before: u32, after: u32) -> u64 {
    links.block(after).from - links.block(before).source().end().get()
}

fn spans(links: &Links, blocks: &[u32], block: Sectors, bridge: u64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (i, &b) in blocks.iter().enumerate() {
        let source = links.block(b).source();
        if let Some(span) = spans.last_mut() {
            let start = span.range.start();
            let end = span.range.end();
            let gap = source.start().since(end);
            // A shorter block must be a task's last: the blocks of a task begin at multiples of the block size.
            let whole = (span.range.len().get() % block.get()) == 0;
            if whole && gap.get() <= bridge && gap.get().is_multiple_of(block.get()) {
                if gap.get() > 0 {
                    span.unwanted.push(LbnRange::new(end, gap));
                }
                span.range = LbnRange::new(start, source.end().since(start));
                span.blocks.end = i + 1;
                continue;
            }
        }
        spans.push(Span { range: source, unwanted: Vec::new(), blocks: i..i + 1 });
    }
    spans
}

/// Returns the range from the first source to the end of the drive.
pub fn everything(links: &Links, capacity: Sectors) -> Option<LbnRange> {
    (links.len() > 0).then(|| {
        let start = links.block(0).from;
        LbnRange::new(Lbn::new(start), Sectors::new(capacity.get() - start))
    })
}
