//! A write is held until a snapshot has the block that it would overwrite.

use super::{disk, range, spy};
use device::{Ask, Device};
use scheduler::{Application, Parameter, Priority, Record, Sessions};
use server::DiskHooks;
use spy::{stamped, stamps};
use std::collections::BTreeMap;
use units::{Instant, LbnRange, Sectors, SessionId};

#[derive(Default)]
struct Snapshot {
    session: Option<SessionId>,
    blocks: BTreeMap<u64, Vec<u64>>,
    done: bool,
}

impl Snapshot {
    fn start(&mut self, sessions: &mut dyn Sessions, all: LbnRange) {
        let session = sessions.open(Priority::default()).unwrap();
        sessions.read(session, all, Sectors::new(16), Parameter::default()).unwrap();
        self.session = Some(session);
    }
}

impl Application for Snapshot {
    fn done(&mut self, _: &mut dyn Sessions, record: &Record, bytes: &[u8], _: Instant) {
        self.blocks.insert(record.range.start().get() / 16, stamps(bytes));
        self.done |= record.last;
    }
}

impl DiskHooks for Snapshot {
    fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        let Some(session) = self.session else { return false };
        let blocks = range.start().get() / 16..range.end().get().div_ceil(16);
        let missing = blocks.into_iter().any(|block| block < 100 && !self.blocks.contains_key(&block));
        if missing {
            sessions.promote(session, range).unwrap();
        }
        missing
    }
}

#[test]
fn a_snapshot_is_of_one_moment_whatever_is_written_meanwhile() {
    let (mut disk, truth) = disk("sptf", 3);
    disk.host(Snapshot::default());
    let (mut now, mut id, mut answers) = (Instant::ZERO, 0, 0);
    let mut write = |disk: &mut server::Disk<spy::Spy, Snapshot>, now: &mut Instant, at: u64, len: u64| {
        id += 1;
        let bytes = stamped(id).repeat(len as usize);
        disk.ask(*now, id, range(at, len), Ask::Write { bytes, through: false });
        // At most three writes are in flight at a time.
        while disk.outstanding() > 2 {
            *now = (*now).max(disk.next_event().unwrap());
            disk.advance(*now);
            answers += std::iter::from_fn(|| disk.poll(*now)).count();
        }
    };
    for i in 0..40 {
        write(&mut disk, &mut now, i * 40, 30);
    }
    while disk.outstanding() > 0 {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        while disk.poll(now).is_some() {}
    }
    let before = truth.get().sectors[..1_600].to_vec();
    disk.call(now, |app, sessions| app.start(sessions, range(0, 1_600))).unwrap();
    for i in 0..400u64 {
        write(&mut disk, &mut now, i * 677 % 1_580, 1 + i % 20);
    }
    while !disk.app().unwrap().done {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        while disk.poll(now).is_some() {}
    }
    let snapshot: Vec<u64> = disk.app().unwrap().blocks.values().flatten().copied().collect();
    assert!(snapshot == before);
    assert!(truth.get().sectors[..1_600] != before, "it was written to");
}
