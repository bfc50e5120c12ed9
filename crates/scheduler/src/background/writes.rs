//! Writes that are under way, and the reads and other writes that they complete.
//!
//! Pending writes have no order among each other, and data that reach the medium count as newer than all pending writes. A write
//! is complete when it, or a concurrent write to the same place, is on the medium (FAST'04, section 3.3). Therefore a write under
//! way completes all other pending writes of the range that it covers, of any session, suspended or not. Otherwise one of them
//! would later restore older data. A session can opt out for its own writes
//! ([`Sessions::serve_writes_by_writes`](crate::Sessions::serve_writes_by_writes)): then only foreground writes complete them.

use super::part::{Pick, TaskBlock};
use super::search::Focus;
use super::{Background, Buffers, FoundItem};
use crate::sessions::Wanted;
use crate::task::{BlockPiece, Item};
use alloc::vec::Vec;
use model::{DriveModel, Layout, Window};
use units::{LbnRange, Op, Sectors, SessionId, TrackIndex};

impl Background {
    /// Takes the wanted writes among the sectors of a window, if their buffers are available, and the reads and other writes
    /// that they complete. Calls `each` with the runs to be written, in the order of passing: the number of sectors from the
    /// beginning of the window, and the length.
    pub fn take_writes(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: Window,
        buffers: &mut dyn Buffers,
        mut each: impl FnMut(u32, u32),
    ) {
        self.focus_on(Focus::All);
        let track = drive.layout().track_ref(track);
        let on_track = track.track().sectors;
        let mut found = core::mem::take(&mut self.scratch);
        found.clear();
        self.items(&track, window, Op::Write, |one| found.push(one));
        // Of writes that begin at one sector the longest comes first, because it completes the others inside it.
        found.sort_unstable_by_key(|found| {
            (found.passing, u32::MAX - found.item.sectors, found.share, found.slot)
        });
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        for FoundItem { share: at, slot, item, passing } in found.drain(..) {
            let share = &self.shares[at];
            let place = || share.slot(slot).map(|task| task.item_range(&item));
            if !share.writes_serve_writes
                && place().is_some_and(|p| taken.iter().any(|t: &LbnRange| t.overlaps(p)))
            {
                // A write that was taken before overlaps this one but does not complete it, and the sectors pass only once.
                continue;
            }
            let pieces = self.ask(at, slot, &item, buffers);
            if pieces.is_empty() && !self.refused.contains(&at) {
                self.refused.push(at);
            }
            for (piece, range) in pieces {
                self.pick(at, slot, piece, Op::Write, false);
                self.superseded(range, Some(piece.sector), false);
                taken.push(range);
                written.push((passing + (piece.offset - item.offset), piece.sectors));
            }
        }
        self.scratch = found;
        // If the middle of a block is already written, its pieces may lie on both sides of another block's.
        written.sort_unstable();
        for (passing, sectors) in written {
            each(passing, sectors);
            let first = (window.first + passing) % on_track;
            self.serve_reads(&track, Window { first, count: sectors }, false);
        }
        self.forget_bounds(&track);
    }

    /// Returns the indices of the shares whose buffers were refused since the last call.
    pub fn take_refused(&mut self) -> Vec<usize> {
        core::mem::take(&mut self.refused)
    }

    /// Takes the writes to `range` that a session has promoted, if their buffers are available, and the other writes that
    /// they complete. Calls `each` with the LBNs to be written.
    pub fn take_promoted(
        &mut self,
        session: SessionId,
        range: LbnRange,
        buffers: &mut dyn Buffers,
        each: impl FnMut(LbnRange),
    ) {
        let Ok(at) = self.place(session) else { return };
        let mut blocks = Vec::new();
        self.shares[at].writes_in(range, |slot, block, whole| blocks.push((whole, slot, block)));
        // Of writes that begin at one LBN the longest comes first, as in `take_writes`.
        blocks.sort_unstable_by_key(|&(whole, slot, block)| {
            (whole.start(), u64::MAX - whole.len().get(), slot, block)
        });
        let mut written: Vec<LbnRange> = Vec::new();
        for (whole, slot, block) in blocks {
            if !self.shares[at].writes_serve_writes && written.iter().any(|range| range.overlaps(whole)) {
                // A write that was taken before overlaps this one but does not complete it, and the sectors pass only once.
                continue;
            }
            let item = Item { block, offset: 0, sectors: whole.len().get() as u32, sector: 0, whole: true };
            for (piece, range) in self.ask(at, slot, &item, buffers) {
                self.pick(at, slot, piece, Op::Write, true);
                self.superseded(range, None, false);
                written.push(range);
            }
        }
        written.sort_unstable_by_key(|range| range.start());
        written.into_iter().for_each(each);
    }

    /// Returns the pieces of an item that are still to be written, with their LBNs, if the buffers of all are available.
    /// If a part of the block was overwritten there may be several pieces, and a cut can undo each of them alone.
    fn ask(&self, at: usize, slot: u32, item: &Item, buffers: &mut dyn Buffers) -> Vec<(Item, LbnRange)> {
        let share = &self.shares[at];
        let mut pieces = Vec::new();
        // A write that was taken before this one may have completed the block.
        let Some(task) = share.slot(slot).filter(|task| task.is_wanted(item.block)) else { return pieces };
        let block = task.block_range(item.block).start();
        let mut all = true;
        task.missing(item, |BlockPiece { offset, sectors }| {
            let range = LbnRange::new(block + Sectors::new(offset.into()), Sectors::new(sectors.into()));
            let wanted = Wanted { session: share.id, task: task.id, range, parameter: task.parameter };
            all = all && buffers.ready(&wanted);
            let sector = item.sector + (offset - item.offset);
            let whole = item.whole && sectors == item.sectors;
            pieces.push((Item { offset, sectors, sector, whole, ..*item }, range));
        });
        if !all {
            pieces.clear();
        }
        pieces
    }

    /// Records a foreground write to `range`, or with `promoted` a promoted one: it completes the pending writes and reads of
    /// that range. Only a write that was not promoted completes the writes of sessions that opted out.
    pub fn overwritten(&mut self, layout: &Layout, range: LbnRange, promoted: bool) {
        let any = self.shares.iter().any(|share| share.has(Op::Write) || share.has(Op::Read));
        self.superseded(range, None, !promoted);
        self.focus_on(Focus::All);
        if !any {
            return;
        }
        for piece in layout.pieces(range) {
            let track = layout.track_ref(piece.track);
            self.serve_reads(&track, piece.window(), true);
            self.forget_bounds(&track);
        }
    }

    /// Records a write to `range`, of which a foreground request has asked for `own`. The given blocks were to be written
    /// before it and are wanted again, except the part that the write covers. For a session that opted out only `own` counts.
    pub fn overtaken(&mut self, command: u64, range: LbnRange, own: Option<LbnRange>, blocks: &[TaskBlock]) {
        for &TaskBlock { task, block } in blocks {
            let Some(session) = self.owners.get(&task).copied() else { continue };
            let Ok(share) = self.share(session) else { continue };
            let Some(range) = (if share.writes_serve_writes { Some(range) } else { own }) else { continue };
            let pick = share.overtaken(task, block, range);
            self.picks.extend(pick.map(|pick| Pick { command, ..pick }));
        }
        self.focus_on(Focus::All);
    }

    /// Completes other pending writes in `range`, which is about to be written. `sector` is the range's first sector on the
    /// track, for background work that may be cut. Only `foreground` writes complete the writes of sessions that opted out.
    fn superseded(&mut self, range: LbnRange, sector: Option<u32>, foreground: bool) {
        let Self { shares, picks, command, .. } = self;
        for share in shares.iter_mut().filter(|share| foreground || share.writes_serve_writes) {
            share.overwritten(range, sector, |pick| picks.push(Pick { command: *command, ..pick }));
        }
    }
}
