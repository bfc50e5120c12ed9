//! Tests of the naive host on which the tests of applications rely.

use crate::support::{Naive, range};
use freeblock_apps::sessions::{Application, Parameter, Record, Sessions, Wanted};
use scheduler::Priority;
use std::collections::BTreeSet;
use units::{Instant, Lbn, Op, Sectors};

#[derive(Default)]
struct Collect {
    seen: Vec<Record>,
    refuse: u32,
}

impl Application for Collect {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, _: &[u8], _: Instant) {
        self.seen.push(*done);
    }

    fn buffer(&mut self, _: &Wanted, into: &mut [u8]) -> bool {
        into.fill(9);
        self.refuse = self.refuse.saturating_sub(1);
        self.refuse == 0
    }
}

#[test]
fn every_block_is_handed_over_once_and_the_last_is_flagged() {
    let mut host = Naive::new(100, 1);
    let mut app = Collect { refuse: 5, ..Collect::default() };
    let session = host.registry.open(Priority::default()).unwrap();
    host.registry.read(session, range(0, 50), Sectors::new(8), Parameter(3)).unwrap();
    host.registry.write(session, range(60, 16), Sectors::new(8), Parameter(4)).unwrap();
    host.bad.insert(20);
    while host.registry.pending() > 0 {
        host.step(&mut app);
    }
    let starts: BTreeSet<u64> = app.seen.iter().map(|d| d.range.start().get()).collect();
    assert_eq!(starts.len(), 9);
    assert_eq!(app.seen.iter().filter(|d| d.last).count(), 1);
    assert!(app.seen.last().unwrap().last);
    assert_eq!(app.seen.iter().find(|d| d.bad.is_some()).unwrap().bad, Some(Lbn::new(20)));
    assert!(app.seen.iter().all(|d| (d.op == Op::Write) == (d.parameter == Parameter(4))));
    assert_eq!(host.bytes(range(60, 16)), [9; 256]);
}
