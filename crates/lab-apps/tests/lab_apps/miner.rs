//! Mining gives the answers of an in-memory computation, whatever the order in which pages come.

use crate::miner_support::{Draw, MinerHost, bytes, generator};
use lab_apps::miner::*;
use proptest::prelude::*;
use scheduler::{AnyCore, Parameter, Record};
use std::collections::BTreeMap;
use units::{Bytes, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

fn table(pages: u64) -> Table {
    Table::new(TableId::new(9), Lbn::new(100), pages, Bytes::new(512)).unwrap()
}

fn column() -> impl Strategy<Value = Column> {
    use Column::*;
    prop::sample::select(vec![Time, Customer, Product, Store, Region, Quantity, Price, Revenue])
}

fn filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![
        2 => Just(Filter::All),
        1 => (0..10i64).prop_map(|region| Column::Region.equals(region)),
        1 => (0..70_000i64).prop_map(|price| Column::Price.at_least(price)),
        1 => (-20_000..100_000i64).prop_map(|revenue| Column::Revenue.below(revenue)),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(Filter::negated),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner).prop_map(|(a, b)| a.or(b)),
        ]
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let statistic = prop_oneof![
        Just(Statistic::Count),
        column().prop_map(Statistic::Sum),
        column().prop_map(Statistic::Mean),
        Just(Statistic::Proportion),
    ];
    prop_oneof![
        column().prop_map(Ask::Summary),
        (column(), column(), 1..30usize, any::<bool>()).prop_map(|(by, measure, most, refuse)| {
            let overflow = if refuse { Overflow::Refuse } else { Overflow::KeepSmallestKeys };
            Ask::Groups { by, measure, most, overflow }
        }),
        (column(), 1..40usize, any::<bool>()).prop_map(|(by, count, largest)| {
            Ask::Top { by, count, end: if largest { End::Largest } else { End::Smallest } }
        }),
        (column(), -500..500i64, 1..5_000u64, 1..20usize)
            .prop_map(|(of, start, width, buckets)| Ask::Histogram { of, start, width, buckets }),
        (statistic, 1..12u32).prop_map(|(statistic, strata)| Ask::Estimate {
            statistic,
            level: Level::Percent95,
            strata
        }),
    ]
}

fn queries() -> impl Strategy<Value = Queries> {
    let query = (filter(), ask()).prop_map(|(filter, ask)| Query::new("q", ask).only(filter));
    prop::collection::vec(query, 1..6).prop_map(|queries| Queries::new(queries).unwrap())
}

/// Checks an answer against a naive computation over records in memory.
fn check(query: &Query, answer: &Result<Answer, AnswerError>, all: &[Sale]) {
    let passing: Vec<&Sale> = all.iter().filter(|sale| query.filter.passes(sale)).collect();
    let values = |column: Column| passing.iter().map(move |sale| column.of(sale));
    match query.ask {
        Ask::Summary(column) => {
            let Ok(Answer::Summary(summary)) = answer else { panic!("{answer:?}") };
            check_summary(summary, &values(column).collect::<Vec<_>>());
        }
        Ask::Groups { by, measure, most, overflow } => {
            let mut groups: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            for sale in &passing {
                groups.entry(by.of(sale)).or_default().push(measure.of(sale));
            }
            if groups.len() > most && overflow == Overflow::Refuse {
                assert_eq!(*answer, Err(AnswerError::TooManyGroups { most }));
                return;
            }
            let Ok(Answer::Groups(found)) = answer else { panic!("{answer:?}") };
            assert_eq!(found.iter().count(), groups.len().min(most));
            for ((key, summary), (&expected, values)) in found.iter().zip(&groups) {
                assert_eq!(key, expected);
                check_summary(summary, values);
            }
            let rest: Vec<i64> = groups.values().skip(most).flatten().copied().collect();
            check_summary(found.rest(), &rest);
        }
        Ask::Top { by, count, end } => {
            let mut ranked = passing.clone();
            ranked.sort_by_key(|s| (if end == End::Largest { -by.of(s) } else { by.of(s) }, s.id));
            let expected: Vec<Sale> = ranked.into_iter().take(count).copied().collect();
            assert_eq!(*answer, Ok(Answer::Top(expected)));
        }
        Ask::Histogram { of, start, width, buckets } => {
            let Ok(Answer::Histogram(histogram)) = answer else { panic!("{answer:?}") };
            let end = start + width as i64 * buckets as i64;
            let within = |from, to| values(of).filter(|&v| v >= from && v < to).count() as u64;
            assert_eq!(histogram.below(), within(i64::MIN, start));
            assert_eq!(histogram.above(), within(end, i64::MAX));
            for (i, &count) in histogram.buckets().iter().enumerate() {
                let from = start + width as i64 * i as i64;
                assert_eq!(count, within(from, from + width as i64));
            }
        }
        Ask::Estimate { statistic, .. } => {
            let count = passing.len() as f64;
            let sum = |column| values(column).map(i128::from).sum::<i128>() as f64;
            let truth = match statistic {
                Statistic::Count => count,
                Statistic::Sum(column) => sum(column),
                Statistic::Mean(column) => sum(column) / count,
                Statistic::Proportion => count / all.len() as f64,
            };
            if truth.is_nan() {
                assert_eq!(*answer, Err(AnswerError::NothingYet));
                return;
            }
            let Ok(Answer::Estimate(estimate)) = answer else { panic!("{answer:?}") };
            assert_eq!((estimate.value, estimate.margin), (truth, Some(0.0)));
        }
    }
}

fn check_summary(summary: &ColumnSummary, values: &[i64]) {
    let sum: i128 = values.iter().map(|&v| i128::from(v)).sum();
    assert_eq!((summary.count(), summary.sum()), (values.len() as u64, sum));
    assert_eq!((summary.min(), summary.max()), (values.iter().copied().min(), values.iter().copied().max()));
    assert_eq!(summary.mean(), (!values.is_empty()).then(|| sum as f64 / values.len() as f64));
    let Some(variance) = summary.variance() else { return assert!(values.len() < 2) };
    // The variance by another formula, in floats, centred on the mean: nearly as exact.
    let mean = summary.mean().unwrap();
    let about = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    assert!((variance - about).abs() <= 1e-9 * (about + 1e-6 * mean.abs()).max(1e-9), "{variance} {about}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn answers_are_those_of_memory_in_any_order_and_any_split(
        seed in any::<u64>(), pages in 1..60u64, drift in 0..=1_000u32, parts in 1..5usize, queries in queries(),
    ) {
        let table = table(pages);
        let generator = generator(&table, seed, drift);
        let mut draw = Draw(seed);
        let mut split = vec![Mined::new(table, queries.clone()); parts];
        for page in draw.order(pages) {
            let part = draw.below(parts as u64) as usize;
            prop_assert_eq!(split[part].take(PageNumber::new(page), &bytes(&generator, page)), None);
        }
        let mut merged = split.swap_remove(draw.below(parts as u64) as usize);
        for part in &split {
            merged.merge(part).unwrap();
        }
        let answers = merged.finish();
        prop_assert!(answers.is_whole());
        let all: Vec<Sale> = (0..pages).flat_map(|p| generator.sales(PageNumber::new(p))).collect();
        for (query, answer) in &answers.answers {
            check(query, answer, &all);
        }
    }

    #[test]
    fn a_part_of_the_table_gives_the_same_bits_in_any_order_and_any_split(
        seed in any::<u64>(), pages in 2..60u64, queries in queries(),
    ) {
        let table = table(pages);
        let generator = generator(&table, seed, 500);
        let mut draw = Draw(seed);
        let sample: Vec<u64> = draw.order(pages).into_iter().take(pages.div_ceil(2) as usize).collect();
        let mine = |order: &[u64], parts: usize| {
            let mut split = vec![Mined::new(table, queries.clone()); parts];
            for (i, &page) in order.iter().enumerate() {
                split[i % parts].take(PageNumber::new(page), &bytes(&generator, page));
            }
            let mut merged = split.pop().unwrap();
            split.iter().for_each(|part| merged.merge(part).unwrap());
            merged.finish()
        };
        let once = mine(&sample, 1);
        let mut other = sample.clone();
        other.reverse();
        prop_assert_eq!(&once, &mine(&other, 1));
        prop_assert_eq!(&once, &mine(&sample, 3));
    }

    /// Guards against an undetected change of a bit, and a page in the place of another.
    #[test]
    fn damage_is_seen_and_costs_its_own_page_only(
        seed in any::<u64>(), byte in 0..PAGE_BYTES, bit in 0..8u32, page in 0..20u64, place in 0..20u64,
    ) {
        let table = table(20);
        let generator = generator(&table, seed, 0);
        let queries = Queries::new([Query::new("revenue", Ask::Summary(Column::Revenue))]).unwrap();
        let mut mined = Mined::new(table, queries);
        for number in 0..20 {
            let mut bytes = bytes(&generator, if number == place { page } else { number });
            if number == place && page == place {
                bytes[byte] ^= 1 << bit;
            }
            let damage = mined.take(PageNumber::new(number), &bytes);
            prop_assert_eq!(damage.is_some(), number == place);
            if let Some(damage) = damage {
                prop_assert_eq!(Some(damage.range), table.range_of(PageNumber::new(place)));
            }
        }
        let answers = mined.finish();
        prop_assert_eq!((answers.mined, answers.damaged, answers.damages.len()), (19, 1, 1));
        let others = (0..20).filter(|&n| n != place).flat_map(|n| generator.sales(PageNumber::new(n)));
        let sum: i128 = others.map(|sale| i128::from(sale.revenue_cents())).sum();
        let Some(Ok(Answer::Summary(summary))) = answers.get("revenue") else { panic!() };
        prop_assert_eq!(summary.sum(), sum);
    }

    #[test]
    fn no_bytes_panic_the_page_reader(bytes in prop::collection::vec(any::<u8>(), 0..5_000), pad in any::<bool>()) {
        let mut bytes = bytes;
        if pad {
            bytes.resize(PAGE_BYTES, 0xa5);
            bytes[0..4].copy_from_slice(b"FBT1");
            let checksum = crc32fast::hash(&bytes[8..]);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        }
        let _ = Page::decode(TableId::new(1), PageNumber::new(0), &bytes);
    }

    #[test]
    fn a_page_reads_back_what_was_written(
        ids in prop::collection::vec(any::<(u64, u32, u32, u32, u32, i16, u16, u16)>(), 0..=RECORDS_PER_PAGE),
        table in any::<u64>(), number in any::<u64>(),
    ) {
        let sales: Vec<Sale> = ids
            .into_iter()
            .map(|(id, time, customer, product, price_cents, quantity, store, region)| Sale {
                id, time, customer, product, price_cents, quantity, store, region,
            })
            .collect();
        let (table, number) = (TableId::new(table), PageNumber::new(number));
        let mut bytes = [0xff; PAGE_BYTES];
        Page::encode(table, number, &sales, &mut bytes).unwrap();
        let page = Page::decode(table, number, &bytes).unwrap();
        prop_assert_eq!(page.sales(), &sales[..]);
    }
}

fn some_queries() -> Queries {
    let estimate = |statistic| Ask::Estimate { statistic, level: Level::Percent95, strata: 8 };
    let by_region =
        Ask::Groups { by: Column::Region, measure: Column::Revenue, most: 100, overflow: Overflow::Refuse };
    Queries::new([
        Query::new("mean", estimate(Statistic::Mean(Column::Revenue))),
        Query::new("revenue", Ask::Summary(Column::Revenue)),
        Query::new("regions", by_region),
        Query::new("best", Ask::Top { by: Column::Revenue, count: 10, end: End::Largest }),
        Query::new("returns", estimate(Statistic::Proportion)).only(Column::Quantity.below(0)),
    ])
    .unwrap()
}

/// Mines to the end, with real bytes; returns the answers of every scan, and the pages in order of
/// delivery.
fn mine(
    host: &mut MinerHost,
    table: Table,
    plan: Plan,
    generator: &TableGenerator,
) -> (Vec<Answers>, Vec<u64>) {
    let mut miner = Miner::start(&mut host.core, table, plan).unwrap();
    let (mut scans, mut order) = (Vec::new(), Vec::new());
    while !miner.progress().done {
        host.request(|core, record| {
            let number = table.page_at(record.range).unwrap().get();
            order.push(number);
            let delivery = miner.deliver(core, record, &bytes(generator, number)).unwrap();
            assert_eq!(delivery.damage, None);
            scans.extend(delivery.answers.map(|answers| *answers));
        });
    }
    assert_eq!(host.core.undelivered(miner.session()), None, "the session is closed");
    (scans, order)
}

#[test]
fn through_the_scheduler_the_answers_are_those_of_memory() {
    for seed in testing::some(1, [3, 8, 11]) {
        let mut host = MinerHost::small(seed, seed);
        let table = host.table();
        let generator = generator(&table, seed, 1_000);
        let (scans, mut order) = mine(&mut host, table, Plan::new(some_queries()), &generator);
        assert!(!order.is_sorted(), "free bandwidth has an order of its own");
        order.sort_unstable();
        assert!(order.into_iter().eq(0..table.pages()), "each page once");
        let all: Vec<Sale> =
            (0..table.pages()).flat_map(|page| generator.sales(PageNumber::new(page))).collect();
        assert_eq!(scans.len(), 1);
        assert!(scans[0].is_whole());
        for (query, answer) in &scans[0].answers {
            check(query, answer, &all);
        }
    }
}

#[test]
fn one_scan_follows_another() {
    let mut host = MinerHost::small(3, 1);
    let table = Table::new(TableId::new(9), Lbn::new(64), 500, Bytes::new(512)).unwrap();
    let generator = generator(&table, 1, 1_000);
    let plan = Plan { scans: Scans::Times(3), ..Plan::new(some_queries()) };
    let (scans, order) = mine(&mut host, table, plan, &generator);
    assert_eq!(order.len(), 1_500);
    assert_eq!(scans.len(), 3);
    assert!(scans.iter().all(|answers| answers.is_whole() && *answers == scans[0]));
    for scan in order.chunks(500) {
        let mut scan = scan.to_vec();
        scan.sort_unstable();
        assert!(scan.into_iter().eq(0..500), "each page once a scan");
    }
}

#[test]
fn a_scan_stops_at_its_share_of_the_pages() {
    for permille in [1, 600, 950, 1_000] {
        let mut host = MinerHost::small(3, 2);
        let table = host.table();
        let generator = generator(&table, 1, 1_000);
        let stop = Stop::Permille(permille);
        let plan = Plan { stop, scans: Scans::Times(2), ..Plan::new(some_queries()) };
        let (scans, order) = mine(&mut host, table, plan, &generator);
        let target = (table.pages() * u64::from(permille)).div_ceil(1_000);
        assert_eq!(scans.iter().map(|answers| answers.mined).collect::<Vec<_>>(), [target, target]);
        assert_eq!(order.len() as u64, 2 * target);
    }
}

#[test]
fn a_scan_stops_when_the_estimate_is_narrow_enough() {
    let mut host = MinerHost::small(3, 2);
    let table = host.table();
    let generator = generator(&table, 1, 1_000);
    let stop = Stop::Narrow { query: 0, permille: 30, least_pages: 100 };
    let (scans, order) = mine(&mut host, table, Plan { stop, ..Plan::new(some_queries()) }, &generator);
    let Some(Ok(Answer::Estimate(estimate))) = scans[0].get("mean") else { panic!() };
    assert!(estimate.relative_margin().unwrap() <= 0.03, "{estimate}");
    assert!((order.len() as u64) < table.pages() / 2, "{} of {}", order.len(), table.pages());
}

#[test]
fn finish_ends_the_scan_and_withdraws_its_blocks() {
    let mut host = MinerHost::small(3, 2);
    let table = host.table();
    let generator = generator(&table, 1, 1_000);
    let plan = Plan { scans: Scans::Forever, ..Plan::new(some_queries()) };
    let mut miner = Miner::start(&mut host.core, table, plan).unwrap();
    let session = miner.session();
    for _ in 0..20 {
        host.request(|core, record| {
            let number = table.page_at(record.range).unwrap().get();
            miner.deliver(core, record, &bytes(&generator, number)).unwrap();
        });
    }
    let progress = miner.progress();
    assert!(progress.pages > 0 && !progress.done);
    assert_eq!(miner.finish(&mut host.core).unwrap().mined, progress.pages);
    assert_eq!(host.core.undelivered(session), None);
    for _ in 0..20 {
        host.request(|_, record| panic!("{record:?} after the end"));
    }
}

#[test]
fn damaged_and_unreadable_pages_are_reported_and_the_scan_goes_on() {
    let mut host = MinerHost::small(3, 2);
    let table = host.table();
    let generator = generator(&table, 1, 1_000);
    let mut miner = Miner::start(&mut host.core, table, Plan::new(some_queries())).unwrap();
    let (mut reported, mut end) = (Vec::new(), None);
    while !miner.progress().done {
        host.request(|core, record| {
            let number = table.page_at(record.range).unwrap().get();
            let mut bytes = bytes(&generator, number);
            bytes[77] ^= u8::from(number.is_multiple_of(101));
            let delivery = match number % 103 {
                0 => miner.unreadable(core, record),
                _ => miner.deliver(core, record, &bytes),
            };
            let delivery = delivery.unwrap();
            reported.extend(delivery.damage);
            end = delivery.answers.or(end.take());
        });
    }
    let answers = end.unwrap();
    let bad = (0..table.pages()).filter(|n| n.is_multiple_of(101) || n.is_multiple_of(103)).count() as u64;
    assert_eq!((answers.damaged, answers.mined), (bad, table.pages() - bad));
    assert!(!answers.is_whole());
    reported.sort_by_key(|damage| damage.page);
    reported.truncate(DAMAGED_PAGES_MAX);
    assert_eq!(answers.damages, reported);
    assert!(reported[1].to_string().starts_with("page 101 at LBN 808+8 is damaged: "), "{}", reported[1]);
    // Pages that were not delivered are unknown, so the interval does not close.
    let Some(Ok(Answer::Estimate(estimate))) = answers.get("mean") else { panic!() };
    assert!(estimate.margin.unwrap() > 0.0 && estimate.sampled == answers.mined);
}

#[test]
fn a_record_of_another_is_refused_and_changes_nothing() {
    let mut host = MinerHost::small(3, 2);
    let table = host.table();
    let mut miner = Miner::start(&mut host.core, table, Plan::new(some_queries())).unwrap();
    let before = (miner.progress(), miner.answers());
    let mine = miner.task().unwrap();
    let page = |task, start, len| Record {
        session: SessionId::new(1),
        task,
        range: LbnRange::new(Lbn::new(start), Sectors::new(len)),
        op: Op::Read,
        parameter: Parameter::default(),
        bad: None,
        last: false,
    };
    let foreign = TaskId::new(99);
    for (record, error) in [
        (page(foreign, 0, 8), MinerError::NotMine { record: foreign, mine }),
        (page(mine, 4, 8), MinerError::NoPage(LbnRange::new(Lbn::new(4), Sectors::new(8)))),
        (page(mine, 0, 7), MinerError::NoPage(LbnRange::new(Lbn::ZERO, Sectors::new(7)))),
    ] {
        assert_eq!(miner.deliver(&mut host.core, &record, &[]), Err(error));
    }
    assert_eq!((miner.progress(), miner.answers()), before);
}

#[test]
fn plans_and_tables_that_cannot_be_are_refused_and_nothing_is_opened() {
    let mut host = MinerHost::small(3, 2);
    let table = host.table();
    let plan = Plan::new(some_queries());
    let refuse = |core: &mut dyn AnyCore, table, plan, says: &str| {
        let error = Miner::start(core, table, plan).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    let stop = Stop::Permille(1_001);
    refuse(&mut host.core, table, Plan { stop, ..plan.clone() }, "1001; give 1 to 1000");
    let stop = Stop::Narrow { query: 1, permille: 10, least_pages: 1 };
    refuse(&mut host.core, table, Plan { stop, ..plan.clone() }, "query 1, which is no estimate");
    let scans = Scans::Times(0);
    refuse(&mut host.core, table, Plan { scans, ..plan.clone() }, "scans = 0; give 1");
    let past = Table::new(TableId::new(1), Lbn::new(8), table.pages() + 1, Bytes::new(512)).unwrap();
    refuse(&mut host.core, past, plan, "end past the drive");
    host.request(|_, record| panic!("{record:?}"));

    let new = |start, pages, sector| Table::new(TableId::new(1), Lbn::new(start), pages, Bytes::new(sector));
    assert!(matches!(new(0, 1, 520), Err(TableError::Sector(_))));
    assert!(matches!(new(0, 1, 0), Err(TableError::Sector(_))));
    assert!(matches!(new(0, 0, 512), Err(TableError::Empty(_))));
    assert!(matches!(new(0, PAGES_MAX + 1, 512), Err(TableError::TooLarge { .. })));
    assert!(matches!(new(u64::MAX, 1, 512), Err(TableError::TooLarge { .. })));
    let whole =
        |capacity, sector| Table::whole_drive(TableId::new(1), Sectors::new(capacity), Bytes::new(sector));
    assert!(matches!(whole(7, 512), Err(TableError::Empty(_))));
    assert!(matches!(whole(7, 0), Err(TableError::Sector(_))));
    assert!(matches!(whole(7, 1 << 13), Err(TableError::Sector(_))));
    assert_eq!(whole(17_938_986, 512).unwrap().pages(), 2_242_373);
    assert_eq!(whole(5, 4_096).unwrap().pages(), 5);

    let ask = Ask::Top { by: Column::Price, count: 0, end: End::Smallest };
    let error = Queries::new([Query::new("best", ask)]).unwrap_err().to_string();
    assert_eq!(error, "query `best`: count = 0; give 1 to 65536");
}

/// The table of a seed must never change, because users may have stored bytes of it.
#[test]
fn generated_pages_are_pinned() {
    let table = table(1_000);
    let generator = generator(&table, 42, 1_000);
    let crc = |page| crc32fast::hash(&bytes(&generator, page));
    assert_eq!([crc(0), crc(1), crc(999)], [1_927_070_215, 701_446_553, 982_575_796]);
}

#[test]
fn generated_tables_are_skewed_and_drift() {
    let table = table(1_000);
    let generator = generator(&table, 42, 1_000);
    let sales = |pages: std::ops::Range<u64>| -> Vec<Sale> {
        pages.flat_map(|page| generator.sales(PageNumber::new(page))).collect()
    };
    let all = sales(0..1_000);
    let count = |f: &dyn Fn(&Sale) -> bool| all.iter().filter(|s| f(s)).count() as f64 / all.len() as f64;
    assert!((0.05..0.09).contains(&count(&|s| s.product == 0)), "one octave in 15 is product 0");
    assert!((0.025..0.04).contains(&count(&|s| s.quantity < 0)));
    assert!(all.windows(2).all(|w| w[0].id < w[1].id));
    assert!(all.iter().all(|s| s.region == s.store % 10 && s.store < 200 && s.customer < 100_000));
    let mean =
        |sales: &[Sale]| sales.iter().map(|s| f64::from(s.price_cents)).sum::<f64>() / sales.len() as f64;
    let rise = mean(&sales(900..1_000)) / mean(&sales(0..100));
    assert!((1.6..2.1).contains(&rise), "{rise}");
    let local =
        sales(300..400).iter().filter(|s| s.region == 3).count() as f64 / sales(300..400).len() as f64;
    assert!(local > 0.5, "{local}");
}
