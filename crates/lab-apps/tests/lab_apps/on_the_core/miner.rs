//! The miner's answers are those of a computation in memory, without the pages that cannot be read.

use super::world::{range, run, worlds};
use lab_apps::miner::{
    Answers, Ask, Column, End, Mined, Miner, Overflow, PAGE_BYTES, PageError, PageNumber, Plan, Queries,
    Query, Table, TableConfig, TableGenerator, TableId,
};
use proptest::prelude::*;
use scheduler::{Application, Record, Sessions};
use sim::{Cure, Platters};
use std::collections::BTreeSet;
use units::{Instant, Lbn};

#[derive(Default)]
pub struct Mining {
    miner: Option<Miner>,
    pub answers: Option<Answers>,
}

impl Mining {
    pub fn start(&mut self, sessions: &mut dyn Sessions, table: Table, queries: Queries) {
        self.miner = Some(Miner::start(sessions, table, Plan::new(queries)).unwrap());
    }
}

impl Application for Mining {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        let Some(miner) = &mut self.miner else { return };
        let delivery = match done.bad {
            None => miner.deliver(sessions, done, bytes),
            Some(_) => miner.unreadable(sessions, done),
        };
        self.answers = delivery.unwrap().answers.map(|answers| *answers);
    }
}

pub fn queries() -> Queries {
    let groups =
        Ask::Groups { by: Column::Region, measure: Column::Revenue, most: 64, overflow: Overflow::Refuse };
    let top = Ask::Top { by: Column::Revenue, count: 20, end: End::Largest };
    let queries = [("all", Ask::Summary(Column::Price)), ("groups", groups), ("top", top)];
    Queries::new(queries.map(|(name, ask)| Query::new(name, ask)).to_vec()).unwrap()
}

/// Writes a table to a medium; returns the table and its answers without the bad pages.
pub fn table(platters: &mut Platters, start: u64, seed: u64, bad: &BTreeSet<u64>) -> (Table, Answers) {
    let sectors = platters.medium().capacity().get();
    let per_page = PAGE_BYTES as u64 / 512;
    let pages = ((sectors - start) / per_page).min(40);
    let sector = units::Bytes::new(512);
    let table = Table::new(TableId::new(9), Lbn::new(start), pages, sector).unwrap();
    let generator = TableGenerator::new(TableConfig::new(table.id(), pages, seed)).unwrap();
    let mut truth = Mined::new(table, queries());
    for page in 0..pages {
        let mut bytes = [0; PAGE_BYTES];
        generator.page(PageNumber::new(page), &mut bytes);
        let place = range(start + page * per_page, per_page);
        platters.medium_mut().write(place, &bytes).unwrap();
        if bad.range(place.start().get()..place.end().get()).next().is_some() {
            truth.damage(PageNumber::new(page), PageError::Unreadable);
        } else {
            truth.take(PageNumber::new(page), &bytes);
        }
    }
    (table, truth.finish())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn mining_gives_the_answers_of_a_computation_in_memory(
        world in worlds(),
        start in 0..40u64,
        bad in prop::collection::btree_set(0..600u64, 0..4),
    ) {
        let drive = world.drive();
        // Some drives have no room for a page.
        prop_assume!(drive.layout().capacity().get() >= 64);
        let mut platters = Platters::blank(&drive);
        let (table, truth) = table(&mut platters, start, world.seed, &bad);
        for &lbn in &bad {
            // Writes of the foreground must not repair these sectors.
            platters.spoil(Lbn::new(lbn), Cure::None);
        }
        let mut volume = world.start(platters, Instant::ZERO, 0);
        world.load(&mut volume, true);
        let app = volume.host(Mining::default());
        volume.call(app, |app, sessions| app.start(sessions, table, queries())).unwrap();
        run(&mut volume, |volume| volume.app(app).unwrap().answers.is_some())?;
        prop_assert_eq!(volume.app(app).unwrap().answers.as_ref(), Some(&truth));
    }
}
