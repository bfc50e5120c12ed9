//! Blocks to be written that lie side by side: what one command can write.

use super::Background;
use model::TrackRef;
use units::Op;

impl Background {
    /// The longest run of blocks to be written without a hole between them in a window, as `(first sector, sectors)`;
    /// with `to_end`, the one that ends where the window does.
    pub fn longest_write(
        &self,
        track: &TrackRef<'_>,
        (first, count): (u32, u32),
        to_end: bool,
    ) -> (u32, u32) {
        let mut found = Vec::new();
        self.items(track, (first, count), Op::Write, |_, _, item, passing| {
            found.push((passing, passing + item.sectors));
        });
        found.sort_unstable();
        let (mut best, mut run) = ((0, 0), (0, 0));
        for (from, to) in found {
            run = if from <= run.1 && run.1 > 0 { (run.0, run.1.max(to)) } else { (from, to) };
            if run.1 - run.0 > best.1 - best.0 && (!to_end || run.1 == count) {
                best = run;
            }
        }
        ((first + best.0) % track.track().sectors, best.1 - best.0)
    }
}
