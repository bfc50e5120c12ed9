//! Runs of adjacent blocks, which one command can write.

use super::{Background, FoundItem};
use crate::task::BlockPiece;
use alloc::vec::Vec;
use model::{TrackRef, Window};
use units::Op;

impl Background {
    /// Returns the longest run of blocks to be written without a hole between them in a window; with `to_end`, the longest run
    /// that ends where the window ends. If a part of a block is already written, the rest counts if it is one piece. If the
    /// rest is several pieces, the block counts only with `in_pieces`, by its first piece (with `to_end` by its last one).
    pub fn longest_write(
        &self,
        track: &TrackRef<'_>,
        window: Window,
        to_end: bool,
        in_pieces: bool,
    ) -> WriteRun {
        let mut found = Vec::new();
        self.items(track, window, Op::Write, |FoundItem { share, slot, item, passing }| {
            let Some(task) = self.shares[share].slot(slot) else { return };
            let (mut pieces, mut rest) = (0, Span::default());
            task.missing(&item, |BlockPiece { offset, sectors }| {
                let from = passing + (offset - item.offset);
                if pieces == 0 || to_end {
                    rest = Span { begin: from, end: from + sectors };
                }
                pieces += 1;
            });
            if pieces == 1 || in_pieces && pieces > 1 {
                let blocks = Span { begin: passing, end: passing + item.sectors };
                found.push(Run { written: rest, blocks });
            }
        });
        found.sort_unstable_by_key(|run| (run.written, run.blocks));
        let (mut best, mut run) = (Run::default(), Run::default());
        for next in found {
            run = match next.written.begin <= run.written.end && run.written.end > 0 {
                true => Run {
                    written: Span { end: run.written.end.max(next.written.end), ..run.written },
                    blocks: run.blocks.and(next.blocks),
                },
                false => next,
            };
            if run.len() > best.len() && (!to_end || run.written.end == window.count) {
                best = run;
            }
        }
        let Span { begin, end } = best.blocks;
        let first = (window.first + begin) % track.track().sectors;
        WriteRun { window: Window { first, count: end - begin }, sectors: best.len() }
    }
}

/// A run of blocks to be written without a hole between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRun {
    /// The sectors of the run's blocks, parts included that are already written.
    pub window: Window,
    /// The number of sectors that are to be written.
    pub sectors: u32,
}

/// A range of sectors, counted in the order of passing from the beginning of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    begin: u32,
    end: u32,
}

impl Span {
    fn and(self, other: Self) -> Self {
        Self { begin: self.begin.min(other.begin), end: self.end.max(other.end) }
    }
}

/// The sectors of a run that are to be written, and the sectors of the blocks that contain them.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    written: Span,
    blocks: Span,
}

impl Run {
    fn len(&self) -> u32 {
        self.written.end - self.written.begin
    }
}
