//! Several applications at once, over the same blocks: each application gets the results that it
//! gets alone.

use super::miner::{Mining, queries, table};
use super::world::{range, run, worlds};
use apps::records::{Got, Limits, Records, Timeout};
use proptest::prelude::*;
use scheduler::{Application, Parameter, Priority, Record, Sessions, Wanted};
use sim::Platters;
use std::collections::{BTreeMap, BTreeSet};
use units::{Instant, Lbn, Sectors};

/// Reads every block of a range as records, once; and writes to a place behind the range.
#[derive(Default)]
struct Reader {
    records: Option<Records>,
    seen: BTreeMap<Lbn, Vec<u8>>,
    written: u64,
}

impl Application for Reader {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(records) = &mut self.records {
            records.done(sessions, done, bytes, now);
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.records.as_mut().is_some_and(|records| records.buffer(wanted, into))
    }
}

impl Reader {
    fn fetch(&mut self, sessions: &mut dyn Sessions, now: Instant) {
        let Some(records) = &mut self.records else { return };
        while let Got::Record(fetched) = records.get(sessions, Timeout::Poll, now).unwrap() {
            if fetched.done.op.is_write() {
                self.written += 1;
            } else {
                let again = self.seen.insert(fetched.done.range.start(), fetched.bytes);
                assert!(again.is_none(), "{:?} came twice", fetched.done);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_gets_what_it_would_get_alone(
        world in worlds(),
        priorities in (1..=100u8, 1..=100u8),
        block in 1..24u64,
    ) {
        let drive = world.drive();
        // Some drives have no room for a page.
        prop_assume!(drive.layout().capacity().get() >= 64);
        let mut platters = Platters::blank(&drive);
        let (table, truth) = table(&mut platters, 0, world.seed, &BTreeSet::new());
        let pages = table.range();
        let capacity = drive.layout().capacity().get();
        let own = range(pages.end().get(), (capacity - pages.end().get()).min(50));
        let before = platters.clone();
        let mut volume = world.start(platters, Instant::ZERO, 0);
        world.load(&mut volume, false);
        let mining = volume.host(Mining::default());
        volume.call(mining, |app, sessions| app.start(sessions, table, queries())).unwrap();
        let sector = drive.sector_bytes();
        let readers: Vec<_> = [priorities.0, priorities.1].into_iter().map(|priority| {
            let reader = volume.host(Reader::default());
            volume.call(reader, |app, sessions| {
                let limits = Limits { records: 4 + block as usize, ..Limits::default() };
                let priority = Priority::new(priority).unwrap();
                let mut records = Records::open(sessions, priority, sector, limits).unwrap();
                records.read(sessions, pages, Sectors::new(block), Parameter::default()).unwrap();
                if !own.is_empty() {
                    let bytes = vec![7; own.len().bytes(sector).get() as usize];
                    records.write(sessions, own, Sectors::new(block), bytes, Parameter::default()).unwrap();
                }
                app.records = Some(records);
            }).unwrap();
            reader
        }).collect();
        let mut rounds = 0;
        while readers.iter().any(|r| volume.app(*r).unwrap().records.as_ref().unwrap().to_come() > 0) {
            rounds += 1;
            prop_assert!(rounds < 40_000, "it does not come to an end");
            volume.run_for(units::Duration::from_millis(100)).unwrap();
            let now = volume.now();
            for reader in &readers {
                volume.call(*reader, |app, sessions| app.fetch(sessions, now)).unwrap();
            }
        }
        run(&mut volume, |volume| volume.app(mining).unwrap().answers.is_some())?;
        prop_assert_eq!(volume.app(mining).unwrap().answers.as_ref(), Some(&truth));
        for reader in &readers {
            let reader = volume.app(*reader).unwrap();
            let all: Vec<u8> = reader.seen.values().flatten().copied().collect();
            let mut want = vec![0; pages.len().bytes(sector).get() as usize];
            before.medium().read(pages, &mut want).unwrap();
            prop_assert!(all == want, "the reader saw something else");
            prop_assert_eq!(reader.written, own.len().get().div_ceil(block));
        }
        let mut written = vec![0; own.len().bytes(sector).get() as usize];
        volume.platters().medium().read(own, &mut written).unwrap();
        prop_assert!(written.iter().all(|byte| *byte == 7));
    }
}
