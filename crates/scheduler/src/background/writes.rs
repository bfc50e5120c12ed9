//! Writes that the head is on its way to, and what is done with them: reads of the place, and other writes.
//!
//! Pending writes have no order among each other; what has been written is newer than all that pend. A write is complete
//! when it, or a concurrent write to the same place, is on the medium (FAST'04, section 3.3): so a write that is
//! under way completes all others of what it covers, whosever they are and whether they may be chosen now or not.
//! Otherwise one of them would in the end bring back what was there before. A session may have it otherwise for its own
//! writes ([`Sessions::serve_writes_by_writes`](crate::Sessions::serve_writes_by_writes)): then only the foreground
//! completes them.

use super::picks::Pick;
use super::search::Focus;
use super::{Background, Buffers};
use crate::sessions::Wanted;
use crate::task::Item;
use model::{DriveModel, Layout};
use units::{LbnRange, Op, Sectors, SessionId, TaskId, TrackIndex};

impl Background {
    /// Takes what all sessions want to write among the sectors of a window, as far as its buffers are at hand, and what
    /// reads and other writes are done with that. Calls `each` with the runs to be written, in the order of passing:
    /// `(passing, sectors)`.
    pub fn take_writes(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: (u32, u32),
        buffers: &mut dyn Buffers,
        mut each: impl FnMut(u32, u32),
    ) {
        self.look(Focus::All);
        let track = drive.layout().track_ref(track);
        let on_track = track.track().sectors;
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        self.items(&track, window, Op::Write, |at, slot, item, passing| {
            found.push((at, slot, item, passing))
        });
        // Of those that begin together the longest first: what lies inside it is written with it.
        found.sort_unstable_by_key(|&(at, slot, item, passing)| (passing, u32::MAX - item.sectors, at, slot));
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        for (at, slot, item, passing) in found.drain(..) {
            let share = &self.shares[at];
            let place = || share.slot(slot).map(|task| task.item_range(&item));
            if !share.writes_serve_writes
                && place().is_some_and(|p| taken.iter().any(|t: &LbnRange| t.overlaps(p)))
            {
                // It is not done with the other, and the place passes once.
                continue;
            }
            let pieces = self.ask(at, slot, &item, buffers);
            if pieces.is_empty() && !self.refused.contains(&at) {
                self.refused.push(at);
            }
            for (piece, range) in pieces {
                self.pick(at, slot, piece, (Op::Write, false));
                self.superseded(range, Some(piece.sector), false);
                taken.push(range);
                written.push((passing + (piece.offset - item.offset), piece.sectors));
            }
        }
        self.scratch = found;
        // The rest of a block that was written in part lies on either side of that part.
        written.sort_unstable();
        for (passing, sectors) in written {
            each(passing, sectors);
            self.serve_reads(&track, ((window.0 + passing) % on_track, sectors), false);
        }
        self.forget_bounds(&track);
    }

    /// The places of those who had no buffer for a block since this was last asked.
    pub fn take_refused(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.refused)
    }

    /// Takes writes that a session has promoted, blocks that make up `range`, as far as their buffers are at hand, and what
    /// other writes are done with that; calls `each` with what is to be written.
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
        // Of those that begin together the longest first, as in `take_writes`.
        blocks.sort_unstable_by_key(|&(whole, slot, block)| {
            (whole.start(), u64::MAX - whole.len().get(), slot, block)
        });
        let mut written: Vec<LbnRange> = Vec::new();
        for (whole, slot, block) in blocks {
            if !self.shares[at].writes_serve_writes && written.iter().any(|range| range.overlaps(whole)) {
                // It is not done with the other, and the place passes once.
                continue;
            }
            let item = Item { block, offset: 0, sectors: whole.len().get() as u32, sector: 0, whole: true };
            for (piece, range) in self.ask(at, slot, &item, buffers) {
                self.pick(at, slot, piece, (Op::Write, true));
                self.superseded(range, None, false);
                written.push(range);
            }
        }
        written.sort_unstable_by_key(|range| range.start());
        written.into_iter().for_each(each);
    }

    /// What of an item is still to be written, each piece with its LBNs, if all of that is at hand. Of a block that was
    /// overwritten in part that is not all of it: then each of the rest counts for itself when the head turns back.
    fn ask(&self, at: usize, slot: u32, item: &Item, buffers: &mut dyn Buffers) -> Vec<(Item, LbnRange)> {
        let share = &self.shares[at];
        let mut pieces = Vec::new();
        // Another write of the place may have completed it by now.
        let Some(task) = share.slot(slot).filter(|task| task.is_wanted(item.block)) else { return pieces };
        let block = task.block_range(item.block).start();
        let mut all = true;
        task.missing(item, |offset, sectors| {
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

    /// A write to `range` is on its way for the foreground, or for a session that has promoted it: pending writes of what it
    /// covers are done with it, those of sessions that want each carried out with the foreground's own only.
    pub fn overwritten(&mut self, layout: &Layout, range: LbnRange, promoted: bool) {
        let any = self.shares.iter().any(|share| share.has(Op::Write) || share.has(Op::Read));
        self.superseded(range, None, !promoted);
        self.look(Focus::All);
        if !any {
            return;
        }
        for piece in layout.pieces(range) {
            let track = layout.track_ref(piece.track);
            self.serve_reads(&track, (piece.sector, piece.len), true);
            self.forget_bounds(&track);
        }
    }

    /// A write to `range` is on its way, of which the foreground has asked for `own`. These blocks, which were to be written
    /// before it, are wanted again: the part of them that the write covers is done with it. For a session that wants each
    /// write carried out, the foreground's own part does that only.
    pub fn overtaken(
        &mut self,
        command: u64,
        (range, own): (LbnRange, Option<LbnRange>),
        blocks: &[(TaskId, u64)],
    ) {
        for &(task, block) in blocks {
            let Some(session) = self.owners.get(&task).copied() else { continue };
            let Ok(share) = self.share(session) else { continue };
            let Some(range) = (if share.writes_serve_writes { Some(range) } else { own }) else { continue };
            let pick = share.overtaken(task, block, range);
            self.picks.extend(pick.map(|pick| Pick { command, ..pick }));
        }
        self.look(Focus::All);
    }

    /// `range` is about to be written: other pending writes are done as far as they lie in it. `sector` is where it begins
    /// on its track if it is written in a detour, which may be cut short. Those of sessions that want each carried out are
    /// done with what the foreground writes only.
    fn superseded(&mut self, range: LbnRange, sector: Option<u32>, foreground: bool) {
        let Self { shares, picks, command, .. } = self;
        for share in shares.iter_mut().filter(|share| foreground || share.writes_serve_writes) {
            share.overwritten(range, sector, |pick| picks.push(Pick { command: *command, ..pick }));
        }
    }
}
