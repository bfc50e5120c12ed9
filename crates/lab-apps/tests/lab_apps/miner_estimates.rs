//! Estimates: intervals contain the truth at their confidence level, and strata correct a bias by position.

use crate::miner_support::{Draw, MinerHost, bytes, generator};
use lab_apps::miner::*;
use units::{Bytes, Lbn};

const SAMPLES: u64 = 1_000;

fn table(pages: u64) -> Table {
    Table::new(TableId::new(9), Lbn::ZERO, pages, Bytes::new(512)).unwrap()
}

fn asks(level: Level, strata: u32) -> Queries {
    let ask = |statistic| Ask::Estimate { statistic, level, strata };
    Queries::new([
        Query::new("records", ask(Statistic::Count)),
        Query::new("big sales", ask(Statistic::Count)).only(Column::Revenue.at_least(20_000)),
        Query::new("revenue", ask(Statistic::Sum(Column::Revenue))),
        Query::new("mean revenue", ask(Statistic::Mean(Column::Revenue))),
        Query::new("mean price in region 1", ask(Statistic::Mean(Column::Price)))
            .only(Column::Region.equals(1)),
        Query::new("share of region 0", ask(Statistic::Proportion)).only(Column::Region.equals(0)),
    ])
    .unwrap()
}

fn estimates(answers: &Answers) -> Vec<(String, Option<Estimate>)> {
    let each = |(query, answer): &(Query, Result<Answer, AnswerError>)| match answer {
        Ok(Answer::Estimate(estimate)) => (query.name.clone(), Some(*estimate)),
        _ => (query.name.clone(), None),
    };
    answers.answers.iter().map(each).collect()
}

/// The true values for the whole table, and the number of intervals that contain them.
struct Trial {
    table: Table,
    pages: Vec<[u8; PAGE_BYTES]>,
    queries: Queries,
    truth: Vec<f64>,
}

impl Trial {
    fn new(table: Table, generator: &TableGenerator, queries: Queries) -> Self {
        let pages: Vec<_> = (0..table.pages()).map(|page| bytes(generator, page)).collect();
        let mut trial = Self { table, pages, queries, truth: Vec::new() };
        let whole = trial.sample(0..trial.table.pages());
        trial.truth = whole.iter().map(|(_, estimate)| estimate.unwrap().value).collect();
        trial
    }

    fn sample(&self, pages: impl IntoIterator<Item = u64>) -> Vec<(String, Option<Estimate>)> {
        let mut mined = Mined::new(self.table, self.queries.clone());
        for page in pages {
            assert_eq!(mined.take(PageNumber::new(page), &self.pages[page as usize]), None);
        }
        estimates(&mined.finish())
    }

    /// Returns for each question its name, the share of samples whose interval contains the truth, and the mean error
    /// as a share of the truth.
    fn run(&self, samples: impl IntoIterator<Item = Vec<u64>>) -> Vec<(String, f64, f64)> {
        let mut tally = vec![(String::new(), 0.0, 0.0); self.truth.len()];
        let mut n = 0.0;
        for sample in samples {
            n += 1.0;
            for (i, (name, estimate)) in self.sample(sample).into_iter().enumerate() {
                tally[i].0 = name;
                let Some(estimate) = estimate else { continue };
                tally[i].1 += f64::from(u8::from(estimate.covers(self.truth[i]) == Some(true)));
                tally[i].2 += (estimate.value - self.truth[i]) / self.truth[i];
            }
        }
        tally.into_iter().map(|(name, covered, error)| (name, covered / n, error / n)).collect()
    }
}

fn random_samples(pages: u64, size: usize) -> impl Iterator<Item = Vec<u64>> {
    (0..SAMPLES).map(move |seed| Draw(seed << 20).order(pages).into_iter().take(size).collect())
}

/// Of 1000 intervals at the 95% level, 950 contain the truth, with a standard deviation of 6.9; the bounds are three
/// of these away. The intervals suppose that means over pages are nearly normal. With 100 pages, one in eight of
/// which is not full, the means are not quite normal, so that row has wider bounds. The seeds are fixed, so the
/// result is reproducible.
#[test]
fn intervals_of_random_samples_hold_the_truth_as_often_as_they_say() {
    let pages = 2_000;
    let table = table(pages);
    let generator = generator(&table, 5, 1_000);
    let cases = [
        (Level::Percent95, 1, 100, 0.900, 0.971),
        (Level::Percent95, 1, 400, 0.929, 0.971),
        (Level::Percent95, 1, 1_200, 0.929, 0.971),
        (Level::Percent95, 8, 400, 0.929, 0.971),
        (Level::Percent90, 1, 400, 0.871, 0.929),
        (Level::Percent99, 1, 400, 0.980, 1.000),
    ];
    for (level, strata, size, least, most) in testing::some(1, cases) {
        let trial = Trial::new(table, &generator, asks(level, strata));
        for (name, covered, error) in trial.run(random_samples(pages, size)) {
            println!("{level:?} {strata} strata {size} pages, {name}: {covered:.3}, mean error {error:+.5}");
            assert!((least..=most).contains(&covered), "{level:?} {strata} {size} {name}: {covered}");
            assert!(error.abs() < 0.01, "{name}: {error}");
        }
    }
}

#[test]
fn strata_that_explain_the_variation_narrow_the_interval() {
    let table = table(1_000);
    let generator = generator(&table, 5, 1_000);
    let width = |strata| {
        let trial = Trial::new(table, &generator, asks(Level::Percent95, strata));
        let widths = random_samples(1_000, 300).take(50).map(|sample| {
            let (_, estimate) = &trial.sample(sample)[5];
            estimate.unwrap().margin.unwrap()
        });
        widths.sum::<f64>() / 50.0
    };
    let (plain, stratified) = (width(1), width(20));
    assert!(stratified < 0.75 * plain, "{stratified} {plain}");
}

/// Guards against a bias: the first pages come three times as often as the last, as if the foreground worked at the
/// table's front.
#[test]
fn a_bias_by_position_shows_and_strata_take_it_away() {
    let pages = 1_000;
    let table = table(pages);
    let generator = generator(&table, 5, 1_000);
    let samples = |seed: u64| -> Vec<u64> {
        let mut draw = Draw(seed << 20);
        let order = draw.order(pages);
        order.into_iter().filter(|page| draw.below(4 * pages) < 3 * pages - 2 * page).take(300).collect()
    };
    let run = |strata| {
        let trial = Trial::new(table, &generator, asks(Level::Percent95, strata));
        trial.run((0..SAMPLES).map(samples))
    };
    for ((name, covered_1, error_1), (_, covered_20, error_20)) in run(1).into_iter().zip(run(20)) {
        println!("{name}: 1 stratum {covered_1:.3} {error_1:+.4}, 20 strata {covered_20:.3} {error_20:+.4}");
        if name == "records" {
            continue; // equal everywhere: the bias has no effect
        }
        assert!(error_1.abs() > 0.02 && covered_1 < 0.8, "{name}: {covered_1} {error_1}");
        assert!(error_20.abs() < error_1.abs() / 5.0, "{name}: {error_20} {error_1}");
        assert!(covered_20 > 0.90, "{name}: {covered_20}");
    }
}

#[test]
fn too_small_a_sample_gives_no_interval() {
    let table = table(100);
    let generator = generator(&table, 5, 1_000);
    let trial = Trial::new(table, &generator, asks(Level::Percent95, 4));
    assert!(trial.sample([]).iter().all(|(_, estimate)| estimate.is_none()));
    for (name, estimate) in trial.sample([50]) {
        assert!(estimate.is_none_or(|e| e.margin.is_none()), "{name}");
    }
    // If no sampled page has a sale of the kind, the sample says nothing about the other pages.
    let ask = Ask::Estimate { statistic: Statistic::Count, level: Level::Percent95, strata: 1 };
    let none = Queries::new([Query::new("none", ask).only(Column::Price.at_least(i64::MAX))]).unwrap();
    let mut mined = Mined::new(table, none);
    (0..50).for_each(|page| assert_eq!(mined.take(PageNumber::new(page), &trial.pages[page as usize]), None));
    let (_, estimate) = &estimates(&mined.finish())[0];
    assert_eq!((estimate.unwrap().value, estimate.unwrap().margin), (0.0, None));
}

/// Uses the samples that free bandwidth delivers, which are not random subsets: scans of a whole drive under the
/// papers' foreground, stopped at a share. Prints how often the intervals contained the truth, which depends on drive
/// and load; asserts that strata bring the estimates nearer to the truth.
#[test]
fn samples_that_the_scheduler_brings() {
    const STRATA: [u32; 3] = [1, 32, 128];
    let runs = 60;
    for permille in testing::some(1, [100, 300, 600]) {
        let mut tallies = vec![(String::new(), 0.0, 0.0); 6 * STRATA.len()];
        let queries: Vec<Query> =
            STRATA.iter().flat_map(|&strata| asks(Level::Percent95, strata).as_slice().to_vec()).collect();
        let queries = Queries::new(queries).unwrap();
        let table = MinerHost::small(3, 0).table();
        let generator = generator(&table, 7, 1_000);
        let truth = Trial::new(table, &generator, queries.clone()).truth;
        for seed in 0..runs {
            let mut host = MinerHost::small(3, seed);
            let plan = Plan { stop: Stop::Permille(permille), ..Plan::new(queries.clone()) };
            let mut miner = Miner::start(&mut host.core, table, plan).unwrap();
            while !miner.progress().done {
                host.request(|core, record| {
                    let number = table.page_at(record.range).unwrap().get();
                    miner.deliver(core, record, &bytes(&generator, number)).unwrap();
                });
            }
            for (i, (name, estimate)) in estimates(&miner.answers()).into_iter().enumerate() {
                let estimate = estimate.unwrap();
                tallies[i].0 = name;
                tallies[i].1 += f64::from(u8::from(estimate.covers(truth[i]) == Some(true))) / runs as f64;
                tallies[i].2 += ((estimate.value - truth[i]) / truth[i]).abs() / runs as f64;
            }
        }
        for (tallies, strata) in tallies.chunks(6).zip(STRATA) {
            for (name, covered, error) in tallies {
                let pages = table.pages();
                println!(
                    "{permille:3} permille of {pages} pages, {strata:3} strata, {name:22}: \
                     {covered:.3} of {runs} intervals, mean |error| {error:.5}"
                );
            }
        }
        let error = |n: usize| tallies[6 * n..6 * (n + 1)].iter().map(|(_, _, error)| error).sum::<f64>();
        let covered =
            |n: usize| tallies[6 * n..6 * (n + 1)].iter().map(|(_, covered, _)| covered).sum::<f64>();
        assert!(error(1) < error(0) / 2.0 && covered(1) > covered(0), "{tallies:?}");
    }
}
