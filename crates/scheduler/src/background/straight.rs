//! Adjacent blocks to be written, for one command.

use super::Background;
use alloc::vec::Vec;
use model::TrackRef;
use units::Op;

impl Background {
    /// Returns the longest run of blocks to be written without a hole between them in a window: the window that holds them,
    /// as `(first sector, sectors)`, and the sectors that are written; with `to_end`, the run that ends where the window
    /// ends. If the foreground has overwritten a part of a block, the rest counts if it is in one piece. With `in_pieces`
    /// the first of several pieces counts (with `to_end` the last), and the window is the block's.
    pub fn longest_write(
        &self,
        track: &TrackRef<'_>,
        (first, count): (u32, u32),
        (to_end, in_pieces): (bool, bool),
    ) -> ((u32, u32), u32) {
        let mut found = Vec::new();
        self.items(track, (first, count), Op::Write, |at, slot, item, passing| {
            let Some(task) = self.shares[at].slot(slot) else { return };
            let (mut pieces, mut rest) = (0, (0, 0));
            task.missing(&item, |offset, sectors| {
                let from = passing + (offset - item.offset);
                if pieces == 0 || to_end {
                    rest = (from, from + sectors);
                }
                pieces += 1;
            });
            if pieces == 1 || in_pieces && pieces > 1 {
                found.push(Run { written: rest, window: (passing, passing + item.sectors) });
            }
        });
        found.sort_unstable_by_key(|run| (run.written, run.window));
        let (mut best, mut run) = (Run::default(), Run::default());
        for next in found {
            run = match next.written.0 <= run.written.1 && run.written.1 > 0 {
                true => Run {
                    written: (run.written.0, run.written.1.max(next.written.1)),
                    window: (run.window.0.min(next.window.0), run.window.1.max(next.window.1)),
                },
                false => next,
            };
            if run.len() > best.len() && (!to_end || run.written.1 == count) {
                best = run;
            }
        }
        let (from, to) = best.window;
        (((first + from) % track.track().sectors, to - from), best.len())
    }
}

/// A run of sectors in the order of passing: begin and end, the sectors that are written, and the blocks that contain them.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    written: (u32, u32),
    window: (u32, u32),
}

impl Run {
    fn len(&self) -> u32 {
        self.written.1 - self.written.0
    }
}
