//! Received parts of background blocks, until the block is delivered.

use crate::{
    Bytes, Command, CommandId, Lbn, LbnRange, Op, Part, Record, SessionCall, SessionId, TaskId, copy_shared,
};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// The parts of background blocks that have arrived, until the core delivers the block.
///
/// A block on two tracks arrives with two commands, and parts of other blocks may be read together with a foreground request.
/// Later writes are applied to the parts kept here, so that a block always equals the medium at one instant.
///
/// A host passes in each command that goes to the device ([`await_parts`](Self::await_parts)), each call of a session that the
/// core has accepted ([`forget_unwanted`](Self::forget_unwanted)), and the bytes of each command that was done, with its parts
/// that are still wanted ([`arrived`](Self::arrived), [`done`](Self::done)). Commands must be reported done in an order in
/// which the device may have carried them out ([`OverlapQueue`](crate::OverlapQueue)). The host takes each delivered block from
/// here ([`deliver`](Self::deliver)).
#[derive(Clone, Debug)]
pub struct HalfReadBlocks {
    /// The blocks by task and first LBN. Blocks of one task do not overlap each other, so the ones that overlap a range are the
    /// task's last ones that begin before the range's end.
    blocks: BTreeMap<TaskId, BTreeMap<Lbn, HalfReadBlock>>,
    /// The parts of commands that have not ended, except parts of blocks that were withdrawn or delivered since.
    awaited: BTreeMap<CommandId, Vec<Part>>,
    sector: Bytes,
}

#[derive(Clone, Debug)]
struct HalfReadBlock {
    session: SessionId,
    range: LbnRange,
    bytes: Vec<u8>,
    /// The parts that have been received, in order of arrival.
    there: Vec<LbnRange>,
    /// The block's first received sector that a failed write may have changed since.
    outdated: Option<Lbn>,
}

/// A finished background block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The core's report on the block. If its `bad` is set, `bytes` is empty.
    pub record: Record,
    /// The bytes of a block that was read; empty for one that was written.
    pub bytes: Vec<u8>,
}

impl HalfReadBlocks {
    /// Returns an empty store for a device with this sector size.
    pub fn new(sector: Bytes) -> Self {
        Self { blocks: BTreeMap::new(), awaited: BTreeMap::new(), sector }
    }

    /// Records the parts of a command that goes to the device.
    pub fn await_parts(&mut self, command: &Command) {
        if !command.parts.is_empty() {
            self.awaited.insert(command.id, command.parts.to_vec());
        }
    }

    /// Removes the parts of a command that has ended, and returns those whose blocks are still wanted.
    pub fn arrived(&mut self, command: CommandId) -> Vec<Part> {
        self.awaited.remove(&command).unwrap_or_default()
    }

    /// Takes the bytes that a command has read or written. `parts` are the parts of blocks in it that are still wanted.
    pub fn done(&mut self, op: Op, range: LbnRange, parts: &[Part], bytes: &[u8]) {
        if op.is_write() {
            self.written(range, bytes);
        }
        for part in parts.iter().filter(|part| part.op == Op::Read) {
            self.keep(part, range, bytes);
        }
    }

    /// Returns whether [`done`](Self::done) needs the bytes of a write.
    pub fn needs(&self, range: LbnRange, parts: &[Part]) -> bool {
        self.touches(range) || parts.iter().any(|part| part.op == Op::Read)
    }

    /// Applies a write to the kept parts.
    pub fn written(&mut self, range: LbnRange, bytes: &[u8]) {
        let sector = self.sector;
        for block in self.overlapping(range) {
            copy_shared((block.range, &mut block.bytes), (range, bytes), sector);
        }
    }

    /// Records that a write has failed and may have changed some of its sectors. A block is bad if a part of it in this range
    /// was read before.
    pub fn write_failed(&mut self, range: LbnRange) {
        for block in self.overlapping(range) {
            let there =
                block.there.iter().filter_map(|part| part.intersection(range)).map(|part| part.start());
            block.outdated = there.chain(block.outdated).min();
        }
    }

    /// Returns a block that the core delivers, with its bytes. If parts of the block are outdated, or missing because of a
    /// defect of the host, the block is bad: an error is better than wrong bytes.
    pub fn deliver(&mut self, mut record: Record) -> Delivered {
        let kept = if record.op == Op::Read { self.take(&record) } else { Some(Ok(Vec::new())) };
        if record.bad.is_some() {
            return Delivered { record, bytes: Vec::new() };
        }
        debug_assert!(kept.is_some(), "{record:?} is delivered, and not all of it has come");
        let kept = kept.unwrap_or(Err(record.range.start()));
        record.bad = kept.as_ref().err().copied();
        Delivered { record, bytes: kept.unwrap_or_default() }
    }

    /// Drops the blocks that an accepted call makes unwanted.
    pub fn forget_unwanted(&mut self, call: SessionCall) {
        match call {
            SessionCall::Abort { task } => self.forget(|of, _, _| of == task),
            SessionCall::AbortRange { session, range } => {
                self.forget(|_, owner, block| owner == session && block.overlaps(range));
            }
            SessionCall::Close { session } => self.forget(|_, owner, _| owner == session),
            _ => {}
        }
    }

    /// Returns the number of kept blocks.
    pub fn len(&self) -> usize {
        self.blocks.values().map(BTreeMap::len).sum()
    }

    /// Returns whether no block is kept.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Keeps a part of a block, out of the bytes of the command that read or wrote `range`.
    fn keep(&mut self, part: &Part, range: LbnRange, bytes: &[u8]) {
        let size = usize::try_from(part.block.len().bytes(self.sector).get()).unwrap_or(0);
        let new = || HalfReadBlock {
            session: part.session,
            range: part.block,
            bytes: vec![0; size],
            there: Vec::new(),
            outdated: None,
        };
        let block = self.blocks.entry(part.task).or_default().entry(part.block.start()).or_insert_with(new);
        if let Some(from) = range.place_of(part.part, self.sector).and_then(|at| bytes.get(at)) {
            copy_shared((block.range, &mut block.bytes), (part.part, from), self.sector);
            block.there.push(part.part);
        }
    }

    /// Returns whether a kept block overlaps this range, so that a write to the range has to be applied.
    fn touches(&self, range: LbnRange) -> bool {
        self.blocks.values().any(|of| {
            of.range(..range.end()).next_back().is_some_and(|(_, block)| block.range.overlaps(range))
        })
    }

    fn overlapping(&mut self, range: LbnRange) -> impl Iterator<Item = &mut HalfReadBlock> {
        self.blocks.values_mut().flat_map(move |of| {
            let before_its_end = of.range_mut(..range.end()).rev().map(|(_, block)| block);
            before_its_end.take_while(move |block| block.range.overlaps(range))
        })
    }

    /// Returns the bytes of a block that is delivered, or its first outdated sector; `None` if parts are missing.
    fn take(&mut self, record: &Record) -> Option<Result<Vec<u8>, Lbn>> {
        self.await_no_more(|part| (part.task, part.block) == (record.task, record.range));
        let of = self.blocks.get_mut(&record.task)?;
        let mut block = of.remove(&record.range.start())?;
        if of.is_empty() {
            self.blocks.remove(&record.task);
        }
        block.there.sort_unstable_by_key(|part| part.start());
        let reach = |end: Lbn, part: &LbnRange| if part.start() <= end { end.max(part.end()) } else { end };
        let end = block.there.iter().fold(block.range.start(), reach);
        let is_whole = end >= block.range.end() && block.range == record.range;
        is_whole.then_some(block.outdated.map_or(Ok(block.bytes), Err))
    }

    fn await_no_more(&mut self, gone: impl Fn(&Part) -> bool) {
        self.awaited.values_mut().for_each(|parts| parts.retain(|part| !gone(part)));
    }

    fn forget(&mut self, gone: impl Fn(TaskId, SessionId, LbnRange) -> bool) {
        self.await_no_more(|part| gone(part.task, part.session, part.block));
        self.blocks.retain(|task, of| {
            of.retain(|_, block| !gone(*task, block.session, block.range));
            !of.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Config, DriveModel, Instant, Output, OutsideConfig, OutsideDrive, Parameter, Request, RequestId,
        Sectors,
    };
    use proptest::prelude::*;

    const SECTOR: u64 = 4;

    fn range(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    fn bytes(range: LbnRange, value: u8) -> Vec<u8> {
        vec![value; (range.len().get() * SECTOR) as usize]
    }

    proptest! {
        /// Tasks with blocks of different lengths, which are read in any order between writes.
        #[test]
        fn a_block_has_the_newest_bytes_whatever_other_blocks_are_kept(
            steps in prop::collection::vec((0_u64..4, 0_u64..60, 1_u64..20, 1_u8..255, any::<bool>()), 1..60)
        ) {
            let mut blocks = HalfReadBlocks::new(Bytes::new(SECTOR));
            // The contents of the medium, and the expected contents of each kept block.
            let mut medium = [0_u8; 128];
            let mut there: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
            for (task, start, len, value, write) in steps {
                // Blocks of 3, 5, 7 and 9 sectors.
                let sectors = 3 + 2 * task;
                let written = range(start, len);
                if write {
                    let touched = there.keys().any(|&(task, first)| range(first, 3 + 2 * task).overlaps(written));
                    prop_assert_eq!(blocks.touches(written), touched);
                    blocks.written(written, &bytes(written, value));
                    medium[start as usize..(start + len) as usize].fill(value);
                    for (&(task, first), kept) in &mut there {
                        for at in 0..3 + 2 * task {
                            if written.contains(Lbn::new(first + at)) {
                                kept[at as usize] = value;
                            }
                        }
                    }
                } else {
                    let first = start - start % sectors;
                    let block = range(first, sectors);
                    let (session, task_id) = (SessionId::new(1), TaskId::new(task));
                    let read: Vec<u8> = (first..first + sectors)
                        .flat_map(|lbn| [medium[lbn as usize]; SECTOR as usize])
                        .collect();
                    let part = Part { session, task: task_id, op: Op::Read, block, part: block };
                    blocks.keep(&part, block, &read);
                    there.insert((task, first), medium[first as usize..(first + sectors) as usize].to_vec());
                }
                prop_assert_eq!(blocks.len(), there.len());
            }
            for ((task, first), kept) in there {
                let (session, task) = (SessionId::new(1), TaskId::new(task));
                let range = range(first, kept.len() as u64);
                let record =
                    Record { session, task, range, op: Op::Read, parameter: Parameter(0), bad: None, last: false };
                let taken = blocks.take(&record).and_then(Result::ok).map(|bytes| bytes.chunks(SECTOR as usize).map(|b| b[0]).collect::<Vec<_>>());
                prop_assert_eq!(taken, Some(kept));
            }
            prop_assert_eq!(blocks.len(), 0);
        }
    }

    #[test]
    fn a_block_is_bad_if_a_write_fails_over_a_part_that_was_read_before() {
        let mut blocks = HalfReadBlocks::new(Bytes::new(SECTOR));
        let (session, task) = (SessionId::new(1), TaskId::new(1));
        let part =
            |start, len| Part { session, task, op: Op::Read, block: range(0, 4), part: range(start, len) };
        let record = |bad| Record {
            session,
            task,
            range: range(0, 4),
            op: Op::Read,
            parameter: Parameter(0),
            bad,
            last: true,
        };
        for (failed, bad) in [(range(1, 9), Some(Lbn::new(1))), (range(2, 9), None)] {
            blocks.keep(&part(0, 2), range(0, 2), &bytes(range(0, 2), 1));
            blocks.write_failed(failed);
            blocks.keep(&part(2, 2), range(2, 2), &bytes(range(2, 2), 2));
            let taken = blocks.deliver(record(None));
            assert_eq!(taken.record, record(bad));
            assert_eq!(taken.bytes.is_empty(), bad.is_some());
        }
    }

    #[test]
    fn parts_of_withdrawn_and_of_delivered_blocks_are_not_awaited() {
        let session = SessionId::new(1);
        let of = |task, start| {
            let (task, op, block) = (TaskId::new(task), Op::Read, range(start, 2));
            Part { session, task, op, block, part: block }
        };
        let (withdrawn, delivered, wanted) = (of(1, 0), of(2, 2), of(2, 4));
        let drive = DriveModel::unknown(Sectors::new(100), Bytes::new(512)).unwrap();
        let mut core = OutsideDrive::new(drive.into(), Config::outside(OutsideConfig::blind().serving()));
        let request = Request { id: RequestId::new(1), op: Op::Read, range: range(0, 6) };
        core.submit(Instant::ZERO, request).unwrap();
        let Some(Output::Do(command)) = core.poll(Instant::ZERO) else { panic!("the drive is idle") };
        let command = Command { parts: [withdrawn, delivered, wanted].into(), ..command };
        let mut blocks = HalfReadBlocks::new(Bytes::new(SECTOR));
        blocks.await_parts(&command);
        blocks.forget_unwanted(SessionCall::Abort { task: withdrawn.task });
        let (task, op, parameter) = (delivered.task, Op::Read, Parameter(0));
        let bad = Some(Lbn::new(2));
        blocks.deliver(Record { session, task, range: delivered.block, op, parameter, bad, last: false });
        assert_eq!(blocks.arrived(command.id), [wanted]);
        assert_eq!(blocks.arrived(command.id), [], "it is done");
    }
}
