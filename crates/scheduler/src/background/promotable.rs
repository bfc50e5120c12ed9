//! Promotable blocks: a session's wanted blocks in a range, as foreground requests.

use super::share::Share;
use super::{Background, check_range};
use crate::sessions::SessionError;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use model::Layout;
use units::{Lbn, LbnRange, Op, SessionId};

/// A foreground request for background blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Urgent {
    pub op: Op,
    pub range: LbnRange,
    /// The number of blocks in the range, of all tasks.
    pub blocks: u64,
}

/// A position in the list of a task's wanted blocks: the next run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    writes: bool,
    start: Lbn,
    slot: u32,
    block: u64,
    /// One more than the last block of the run.
    end: u64,
}

impl Cursor {
    /// Returns the next run of a task from `block` on.
    fn new(share: &Share, slot: u32, block: u64, range: LbnRange) -> Option<Self> {
        let task = share.slot(slot)?;
        let Range { start: block, end } = task.run(block, range)?;
        let start = task.block_range(block).start();
        Some(Self { writes: task.op.is_write(), start, slot, block, end })
    }
}

impl Background {
    /// Returns the wanted blocks of a session that touch `range`, as at most `room` requests in order of LBNs, reads before
    /// writes. Reads that touch or overlap become one request of at most `most` sectors, or of a single block that is longer;
    /// each block to be written is a request. The cost grows with the number of tasks in the range and of requests, not with
    /// the number of blocks.
    pub fn promotable(
        &self,
        layout: &Layout,
        session: SessionId,
        range: LbnRange,
        most: u64,
        room: usize,
    ) -> Result<Vec<Urgent>, SessionError> {
        let at = self.place(session)?;
        check_range(layout, range)?;
        let share = &self.shares[at];
        let begin = share.over(range).into_iter().filter_map(|slot| Cursor::new(share, slot, 0, range));
        let mut heads: BinaryHeap<Reverse<Cursor>> = begin.map(Reverse).collect();
        let mut requests: Vec<Urgent> = Vec::new();
        while let Some(Reverse(head)) = heads.pop() {
            let Some(task) = share.slot(head.slot) else { continue };
            let joins = requests.last().is_some_and(|last| {
                let block = task.block_range(head.block);
                let fits = block.end().get().max(last.range.end().get()) - last.range.start().get() <= most;
                !head.writes && last.op == Op::Read && block.start() <= last.range.end() && fits
            });
            if !joins {
                if requests.len() == room {
                    break;
                }
                let range = span(head.start, head.start);
                requests.push(Urgent { op: task.op, range, blocks: 0 });
            }
            let Some(last) = requests.last_mut() else { break };
            let from = last.range.start();
            let blocks = if head.writes { 1 } else { task.blocks_before(head.block, head.end, from, most) };
            let end = task.block_range(head.block + blocks - 1).end();
            last.range = span(from, end.max(last.range.end()));
            last.blocks += blocks;
            let next = head.block + blocks;
            heads.extend(Cursor::new(share, head.slot, next, range).map(Reverse));
        }
        Ok(requests)
    }
}

fn span(from: Lbn, to: Lbn) -> LbnRange {
    LbnRange::new(from, units::Sectors::new(to.get() - from.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Priority;
    use crate::task::NewTask;
    use model::{DriveModel, Profile, builtin};
    use proptest::prelude::*;
    use units::Sectors;

    fn range(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    /// The naive model lists block by block, sorts the blocks by LBN, and joins them while they touch and fit.
    fn naive(tasks: &[(Op, LbnRange, u64)], within: LbnRange, most: u64, room: usize) -> Vec<Urgent> {
        let mut blocks = Vec::new();
        for &(op, all, block) in tasks {
            let (mut at, end) = (all.start().get(), all.end().get());
            while at < end {
                let one = range(at, block.min(end - at));
                if one.overlaps(within) {
                    blocks.push((op.is_write(), one));
                }
                at += block;
            }
        }
        blocks.sort_by_key(|(write, one)| (*write, one.start()));
        let mut requests: Vec<Urgent> = Vec::new();
        for (write, one) in blocks {
            let joins = requests.last().is_some_and(|last| {
                let end = one.end().max(last.range.end());
                !write
                    && last.op == Op::Read
                    && one.start() <= last.range.end()
                    && end.get() - last.range.start().get() <= most
            });
            if !joins && requests.len() == room {
                break;
            }
            match requests.last_mut().filter(|_| joins) {
                Some(last) => {
                    last.range = span(last.range.start(), one.end().max(last.range.end()));
                    last.blocks += 1;
                }
                None => requests.push(Urgent {
                    op: if write { Op::Write } else { Op::Read },
                    range: one,
                    blocks: 1,
                }),
            }
        }
        requests
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Tasks do not overlap here: with overlap, the order decides which request a block joins.
        #[test]
        fn requests_are_those_of_a_block_by_block_listing(
            tasks in prop::collection::vec((any::<bool>(), 0..30u64, 1..90u64, 1..12u64), 1..8),
            (start, len) in (0..400u64, 1..400u64),
            most in 1..60u64,
            room in 0..30usize,
        ) {
            let toml = include_str!("../../../model/tests/data/tiny.toml");
            let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
            let mut background = Background::new(drive.layout(), 8);
            let session = background.open(drive.layout(), Priority::default(), [true; 2]).unwrap();
            let mut at = 0;
            let mut listed = Vec::new();
            for (write, skip, len, block) in tasks {
                let (op, all) = (if write { Op::Write } else { Op::Read }, range(at + skip, len));
                at += skip + len;
                background.register(drive.layout(), session, NewTask::of(op, all, block)).unwrap();
                listed.push((op, all, block));
            }
            let within = range(start, len);
            let ours = background.promotable(drive.layout(), session, within, most, room).unwrap();
            prop_assert_eq!(ours, naive(&listed, within, most, room));
        }
    }

    #[test]
    fn several_tasks_over_one_place_are_one_request() {
        let toml = include_str!("../../../model/tests/data/tiny.toml");
        let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
        let mut background = Background::new(drive.layout(), 8);
        let session = background.open(drive.layout(), Priority::default(), [true; 2]).unwrap();
        for (start, len, block) in [(100, 64, 8), (104, 64, 8), (100, 80, 5)] {
            let new = NewTask::of(Op::Read, range(start, len), block);
            background.register(drive.layout(), session, new).unwrap();
        }
        let requests = background.promotable(drive.layout(), session, range(0, 4_000), 1_024, 10).unwrap();
        assert_eq!(requests, [Urgent { op: Op::Read, range: range(100, 80), blocks: 8 + 8 + 16 }]);
    }

    /// A list of all five thousand million blocks of the task would not fit into memory.
    #[test]
    fn all_of_20_tb_is_promoted_and_withdrawn_by_runs() {
        let drive = DriveModel::from_profile(&builtin::find("nearline-20tb").unwrap()).unwrap();
        let layout = drive.layout();
        let whole = LbnRange::new(Lbn::ZERO, layout.capacity());
        let mut background = Background::new(drive.layout(), 8);
        let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
        background.register(layout, session, NewTask::of(Op::Read, whole, 1)).unwrap();
        let empty = background.memory_bytes();
        let requests = background.promotable(layout, session, whole, 1_024, 1_000).unwrap();
        assert_eq!(requests.len(), 1_000);
        assert!(requests.iter().all(|r| r.blocks == 1_024), "{requests:?}");
        let all = background.promotable(layout, session, whole, u64::MAX, 1_000).unwrap();
        assert_eq!(all, [Urgent { op: Op::Read, range: whole, blocks: whole.len().get() }]);
        assert!(background.wants(session, Op::Read, whole));

        let middle = range(1_000, whole.len().get() - 2_000);
        assert_eq!(background.abort_range(layout, session, middle), Ok(middle.len().get()));
        assert!(background.memory_bytes() < empty + (1 << 18), "{} bytes", background.memory_bytes());
        assert_eq!(background.undelivered(session), Some(2_000));
        let ends = background.promotable(layout, session, whole, 1 << 20, 1_000).unwrap();
        assert_eq!(
            ends.iter().map(|r| (r.range, r.blocks)).collect::<Vec<_>>(),
            [(range(0, 1_000), 1_000), (range(whole.len().get() - 1_000, 1_000), 1_000)]
        );
        assert!(!background.wants(session, Op::Read, middle));
        assert_eq!(background.abort_range(layout, session, whole), Ok(2_000));
        assert_eq!((background.undelivered(session), background.owners.len()), (Some(0), 0));
    }
}
