//! Benchmarks of mining. They print times and assert none; run on an otherwise idle machine: `cargo test --release -p
//! freeblock-lab-apps --test lab_apps -- miner_speed --ignored --nocapture --test-threads 1`

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a stopwatch

use crate::miner_support::{MinerHost, bytes, generator};
use lab_apps::miner::*;
use model::{DriveModel, builtin};
use std::time::Instant as Clock;
use units::{Bytes, Lbn};

fn estimate(statistic: Statistic) -> Ask {
    Ask::Estimate { statistic, level: Level::Percent95, strata: 128 }
}

fn questions() -> Vec<Query> {
    let groups = |by| Ask::Groups { by, measure: Column::Revenue, most: 1_000, overflow: Overflow::Refuse };
    let histogram = Ask::Histogram { of: Column::Price, start: 0, width: 10_000, buckets: 13 };
    vec![
        Query::new("revenue", Ask::Summary(Column::Revenue)),
        Query::new("revenue by region", groups(Column::Region)),
        Query::new("revenue by store", groups(Column::Store)),
        Query::new("best sales", Ask::Top { by: Column::Revenue, count: 100, end: End::Largest }),
        Query::new("prices", histogram),
        Query::new("mean revenue", estimate(Statistic::Mean(Column::Revenue))),
        Query::new("returns", estimate(Statistic::Proportion)).only(Column::Quantity.below(0)),
    ]
}

#[test]
#[ignore = "a benchmark"]
fn a_page() {
    let pages = 4_096;
    let table = Table::new(TableId::new(1), Lbn::ZERO, pages, Bytes::new(512)).unwrap();
    let generator = generator(&table, 1, 1_000);
    let mut buffer = [0; PAGE_BYTES];
    let clock = Clock::now();
    for page in 0..pages {
        generator.page(PageNumber::new(page), &mut buffer);
    }
    let each = |clock: Clock, rounds: u64| clock.elapsed().as_nanos() as f64 / (rounds * pages) as f64;
    println!("{:22} {:7.0} ns a page", "made up", each(clock, 1));
    let stored: Vec<_> = (0..pages).map(|page| bytes(&generator, page)).collect();
    let mut sets: Vec<(String, Vec<Query>)> = vec![("checked and decoded".into(), Vec::new())];
    sets.extend(questions().into_iter().map(|query| (query.name.clone(), vec![query])));
    sets.push(("all seven".into(), questions()));
    for (name, queries) in sets {
        let mut mined = Mined::new(table, Queries::new(queries).unwrap());
        let clock = Clock::now();
        for _ in 0..20 {
            for (page, bytes) in stored.iter().enumerate() {
                assert_eq!(mined.take(PageNumber::new(page as u64), bytes), None);
            }
        }
        println!("{name:22} {:7.0} ns a page", each(clock, 20));
        assert_eq!(mined.pages(), 20 * pages);
    }
}

/// A whole scan of the paper's 9 GB drive: 2.2 million pages of real bytes, and the answers.
#[test]
#[ignore = "a benchmark"]
fn a_whole_drive() {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let mut host = MinerHost::new(DriveModel::from_profile(&profile).unwrap(), 1);
    let table = host.table();
    let generator = generator(&table, 1, 1_000);
    let plan = Plan::new(Queries::new(questions()).unwrap());
    let mut miner = Miner::start(&mut host.core, table, plan).unwrap();
    let clock = Clock::now();
    let (mut buffer, mut marks) = ([0; PAGE_BYTES], vec![10, 25, 50, 75, 90, 100].into_iter().peekable());
    while !miner.progress().done {
        host.request(|core, record| {
            generator.page(table.page_at(record.range).unwrap(), &mut buffer);
            miner.deliver(core, record, &buffer).unwrap();
        });
        let progress = miner.progress();
        let done = if progress.done { 100 } else { progress.pages * 100 / progress.target };
        if marks.next_if(|&mark| done >= mark).is_some() {
            for name in ["mean revenue", "returns"] {
                let answers = miner.answers();
                let Some(Ok(Answer::Estimate(estimate))) = answers.get(name) else { unreachable!() };
                println!("{done:3} %: {name} {estimate}");
            }
        }
    }
    let wall = clock.elapsed().as_secs_f64();
    println!(
        "{} pages in {wall:.1} s, {:.0} simulated seconds",
        table.pages(),
        host.now.as_nanos() as f64 / 1e9
    );
    println!("{}", miner.answers());
}
