//! An application that checks the content of each block that it gets.

use super::spy::{SECTOR, SharedTruth, stamped, stamps};
use device::Failure;
use scheduler::{Application, Parameter, Priority, Record, Sessions, Wanted};
use server::DiskHooks;
use std::collections::BTreeMap;
use units::{Instant, LbnRange, Op, Sectors, SessionId, TaskId};
use workload::random::Stream;

/// A bit that marks contents written by the background; the other bits are the event of the
/// registration.
pub const BACKGROUND: u64 = 1 << 63;

pub struct Tester {
    truth: SharedTruth,
    chance: Stream,
    pub session: Option<SessionId>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub aborted: Vec<TaskId>,
    pub blocks: u64,
    pub bad: u64,
    pub flushed: u64,
    wants_flush: bool,
    /// The event up to which writes must be on the medium when the flush is reported.
    flush_since: u64,
}

pub struct Task {
    op: Op,
    range: LbnRange,
    block: Sectors,
    stamp: u64,
    /// How often each block was delivered.
    pub delivered: Vec<u8>,
}

impl Tester {
    pub fn new(truth: &SharedTruth, seed: u64) -> Self {
        Self {
            truth: truth.clone(),
            chance: Stream::new(seed, "tester"),
            session: None,
            tasks: BTreeMap::new(),
            aborted: Vec::new(),
            blocks: 0,
            bad: 0,
            flushed: 0,
            wants_flush: false,
            flush_since: 0,
        }
    }

    pub fn register(&mut self, sessions: &mut dyn Sessions, op: Op, range: LbnRange, block: Sectors) {
        let session = *self.session.get_or_insert_with(|| sessions.open(Priority::default()).unwrap());
        let parameter = Parameter(self.tasks.len() as u64);
        let task = match op {
            Op::Read => sessions.read(session, range, block, parameter),
            Op::Write => sessions.write(session, range, block, parameter),
        };
        let stamp = BACKGROUND | self.truth.get().tick();
        let delivered = vec![0; range.len().get().div_ceil(block.get()) as usize];
        self.tasks.insert(task.unwrap(), Task { op, range, block, stamp, delivered });
    }

    pub fn abort(&mut self, sessions: &mut dyn Sessions, which: usize) {
        let Some(&task) = self.tasks.keys().nth(which % self.tasks.len().max(1)) else { return };
        if sessions.abort(task).is_ok() {
            self.aborted.push(task);
        }
    }

    pub fn promote(&mut self, sessions: &mut dyn Sessions, range: LbnRange) {
        if let Some(session) = self.session {
            sessions.promote(session, range).unwrap();
        }
    }

    pub fn to_come(&self, sessions: &dyn Sessions) -> u64 {
        self.session.map_or(0, |session| sessions.to_come(session).unwrap())
    }

    fn happens(&mut self, one_in: u64) -> bool {
        self.chance.next_u64().is_multiple_of(one_in)
    }
}

impl Application for Tester {
    fn done(&mut self, _: &mut dyn Sessions, record: &Record, bytes: &[u8], _: Instant) {
        self.blocks += 1;
        self.bad += u64::from(record.bad.is_some());
        assert!(!self.aborted.contains(&record.task), "{record:?} of an aborted task");
        let task = self.tasks.get_mut(&record.task).unwrap();
        assert_eq!(task.op, record.op);
        let block = (record.range.start().get() - task.range.start().get()) / task.block.get();
        task.delivered[block as usize] += 1;
        assert_eq!(task.delivered[block as usize], 1, "{record:?} comes twice");
        let truth = self.truth.get();
        if let Some(bad) = record.bad {
            assert!(record.range.contains(bad), "{record:?}");
            assert!(bytes.is_empty());
        } else if record.op == Op::Read {
            let lbns = record.range.start().get()..record.range.end().get();
            for (lbn, found) in lbns.zip(stamps(bytes)) {
                let there = truth.sectors[lbn as usize];
                let discarded = truth.discarded.contains(&lbn);
                assert!(
                    found == there || discarded,
                    "{record:?}: LBN {lbn} holds {there:#x}, not {found:#x}"
                );
            }
        } else {
            assert!(bytes.is_empty());
        }
        drop(truth);
        self.wants_flush |= self.happens(8);
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        if self.happens(5) {
            return false;
        }
        let stamp = self.tasks[&wanted.task].stamp;
        into.chunks_mut(SECTOR).for_each(|sector| sector.copy_from_slice(&stamped(stamp)));
        true
    }
}

impl DiskHooks for Tester {
    fn wants_flush(&mut self) -> bool {
        let wants = std::mem::take(&mut self.wants_flush);
        if wants {
            self.flush_since = self.truth.get().event;
        }
        wants
    }

    fn flushed(&mut self, _: &mut dyn Sessions, result: Result<(), &Failure>) {
        result.unwrap();
        self.flushed += 1;
        let truth = self.truth.get();
        assert!(truth.volatile.values().all(|event| *event > self.flush_since));
    }
}
