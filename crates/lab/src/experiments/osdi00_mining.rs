//! OSDI'00, section 6: an application of the free scan. Real mining over real bytes on a busy drive, compared with the
//! same queries on the whole table in memory.

use crate::scan::ScanSetUp;
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper};
use drive::{Blank, Medium};
use lab_apps::miner::{
    Answer, Answers, Ask, Column, End, Estimate, Level, Mined, Miner, MinerError, Overflow, PAGE_BYTES,
    PageNumber, Plan, Queries, Query, Statistic, Table, TableConfig, TableGenerator, TableId,
};
use model::DriveModel;
use scheduler::{AnyCore, Record};
use sim::Observer;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Instant, Lbn};

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-mining",
    paper: Paper::Osdi00,
    reproduces: "section 6",
    title: "Questions of a table on a busy disk, answered in free bandwidth",
    set_up: "Atlas 10K, OLTP of 10 tasks, first come first served. A generated table of 64-byte sales records fills the \
             disk (with --quick, its first gigabyte); the miner registers all its pages of 4 KB and asks seven \
             questions of each as it passes. The same questions are asked of the table in memory, page by page.",
    claims: &["osdi00-mining"],
    timed: false,
    run,
};

const MPL: u32 = 10;

/// The percentages of the pages at which estimates are recorded.
const MARK_PERCENTS: [u64; 5] = [10, 20, 50, 80, 100];

/// Two estimates of the same mean: with the pages received taken as a random sample, and stratified by position.
const MEANS: [(&str, u32); 2] = [("mean revenue, one stratum", 1), ("mean revenue, 64 strata", 64)];

fn failed(doing: &str) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> LabError {
    move |e| LabError::new(doing.to_owned(), e)
}

fn questions() -> Vec<Query> {
    let groups = |by| Ask::Groups { by, measure: Column::Revenue, most: 1_000, overflow: Overflow::Refuse };
    let histogram = Ask::Histogram { of: Column::Price, start: 0, width: 10_000, buckets: 13 };
    let mut all = vec![
        Query::new("revenue", Ask::Summary(Column::Revenue)),
        Query::new("revenue by region", groups(Column::Region)),
        Query::new("revenue by store", groups(Column::Store)),
        Query::new("best sales", Ask::Top { by: Column::Revenue, count: 100, end: End::Largest }),
        Query::new("prices", histogram),
    ];
    all.extend(MEANS.map(|(name, strata)| {
        let statistic = Statistic::Mean(Column::Revenue);
        Query::new(name, Ask::Estimate { statistic, level: Level::Percent95, strata })
    }));
    all
}

/// The table as a new drive's content. A page is generated once for its eight sectors.
struct Content {
    table: Table,
    generator: TableGenerator,
    last: Mutex<(Option<PageNumber>, [u8; PAGE_BYTES])>,
}

impl Blank for Content {
    fn fill(&self, lbn: Lbn, sector: &mut [u8]) {
        let sectors = self.table.block().get();
        let offset = lbn.get().wrapping_sub(self.table.range().start().get());
        let number = PageNumber::new(offset / sectors);
        if number.get() >= self.table.pages() {
            sector.fill(0);
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != Some(number) {
            self.generator.page(number, &mut last.1);
            last.0 = Some(number);
        }
        let from = (offset % sectors) as usize * sector.len();
        sector.copy_from_slice(&last.1[from..from + sector.len()]);
    }
}

/// The result of mining a drive.
struct Scanned {
    /// The estimates at each of [`MARK_PERCENTS`], in the order of [`MEANS`].
    estimates: Vec<(u64, [Option<Estimate>; 2])>,
    answers: Answers,
    seconds: f64,
}

/// The miner on the drive's content.
struct Mining {
    miner: Miner,
    medium: Medium,
    buffer: [u8; PAGE_BYTES],
    error: Option<MinerError>,
    estimates: Vec<(u64, [Option<Estimate>; 2])>,
}

impl Observer for Mining {
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, _: Instant) {
        if let Err(error) = self.medium.read(record.range, &mut self.buffer) {
            // The table lies on the drive, so its pages exist.
            debug_assert!(false, "{error}");
            return;
        }
        if let Err(error) = self.miner.deliver(core, &record, &self.buffer) {
            self.error.get_or_insert(error);
        }
        let progress = self.miner.progress();
        let next = MARK_PERCENTS.get(self.estimates.len()).copied();
        let done = |mark| progress.done || progress.pages * 100 >= mark * progress.target;
        if let Some(mark) = next.filter(|&mark| done(mark)) {
            let answers = self.miner.answers();
            self.estimates.push((mark, MEANS.map(|(name, _)| estimate(&answers, name))));
        }
    }
}

fn estimate(answers: &Answers, name: &str) -> Option<Estimate> {
    match answers.get(name) {
        Some(Ok(Answer::Estimate(estimate))) => Some(*estimate),
        _ => None,
    }
}

fn table(drive: &DriveModel, lab: &Lab) -> Result<(Table, TableGenerator), LabError> {
    let id = TableId::new(1);
    let sector = drive.sector_bytes();
    let made = match lab.pick(Some(250_000), None) {
        Some(pages) => Table::new(id, Lbn::ZERO, pages, sector),
        None => Table::whole_drive(id, drive.layout().capacity(), sector),
    };
    let table = made.map_err(|e| failed("a table")(e.into()))?;
    let generator = TableGenerator::new(TableConfig::new(id, table.pages(), lab.seed()))
        .map_err(|e| failed("a table's records")(e.into()))?;
    Ok((table, generator))
}

fn mine(
    drive: &Arc<DriveModel>,
    table: Table,
    generator: TableGenerator,
    seed: u64,
) -> Result<Scanned, LabError> {
    let failed = failed("mining");
    let content = Content { table, generator, last: Mutex::new((None, [0; PAGE_BYTES])) };
    let medium = Medium::with_blank(drive.layout().capacity(), drive.sector_bytes(), Arc::new(content));
    let mut run = ScanSetUp::new(drive, MPL, seed).foreground()?;
    let queries = Queries::new(questions()).map_err(|e| failed(e.into()))?;
    let miner = Miner::start(run.core_mut(), table, Plan::new(queries)).map_err(|e| failed(e.into()))?;
    let mut mining = Mining { miner, medium, buffer: [0; PAGE_BYTES], error: None, estimates: Vec::new() };
    while !mining.miner.progress().done {
        run.advance(100, &mut mining).map_err(|e| failed(e.into()))?;
        if let Some(error) = mining.error {
            return Err(failed(error.into()));
        }
    }
    let answers = mining.miner.answers();
    Ok(Scanned {
        estimates: mining.estimates,
        answers,
        seconds: run.now().since(Instant::ZERO).as_secs_f64(),
    })
}

/// Returns the answers of the whole table, read in order in memory: parts mined in parallel, then merged.
fn in_memory(lab: &Lab, table: Table, generator: &TableGenerator) -> Result<Answers, LabError> {
    const PARTS: u64 = 16;
    let failed = failed("mining in memory");
    let parts = lab.map(0..PARTS, |part| {
        let queries = Queries::new(questions()).map_err(|e| failed(e.into()))?;
        let mut mined = Mined::new(table, queries);
        let mut bytes = [0; PAGE_BYTES];
        for page in table.pages() * part / PARTS..table.pages() * (part + 1) / PARTS {
            generator.page(PageNumber::new(page), &mut bytes);
            mined.take(PageNumber::new(page), &bytes);
        }
        Ok(mined)
    })?;
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else { return Err(failed("no parts".into())) };
    for part in parts {
        whole.merge(&part).map_err(|e| failed(e.into()))?;
    }
    Ok(whole.finish())
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let (table, generator) = table(&drive, lab)?;
    let truth = in_memory(lab, table, &generator)?;
    let scans = lab.map(lab.seeds(lab.pick(2, 4)), |seed| mine(&drive, table, generator.clone(), seed))?;
    let differ: usize = scans
        .iter()
        .map(|scan| {
            scan.answers.answers.iter().zip(&truth.answers).filter(|(ours, theirs)| ours != theirs).count()
        })
        .sum();
    let mined: u64 = scans.iter().map(|scan| scan.answers.mined).sum();
    let claim = Claim::new("osdi00-mining", "any order of arrival will do")
        .measure("answers that differ from those in memory", differ as f64, "", Band::AtMost(0.0))
        .measure("pages mined of each page's one", mined as f64 / (table.pages() * scans.len() as u64) as f64, "", Band::Within(1.0, 1.0))
        .note(format!(
            "{} questions, {} scans of {} pages with foregrounds of different seeds. Not a row of the paper, whose \
             scans were counted and not mined.",
            truth.answers.len(),
            scans.len(),
            table.pages(),
        ));
    let notes = vec![
        format!(
            "The first scan took {:.1} minutes of the busy disk. The foreground's writes put back what was there: \
             the table does not change under the scan.",
            scans.first().map_or(0.0, |scan| scan.seconds / 60.0)
        ),
        "The paper assumes that what comes first is random enough to stand for the rest. It is not where records \
         differ by their place on the disk, as this table's do: taken as a random sample the interval misses the \
         truth; estimated by place (strata) it is as wide as it must be."
            .into(),
    ];
    Ok(Outcome { figures: vec![estimates(&scans, &truth)], claims: vec![claim], notes })
}

/// Shows the estimated mean during the scans, with its interval, and the true mean.
fn estimates(scans: &[Scanned], truth: &Answers) -> Figure {
    let exact = estimate(truth, MEANS[0].0).map_or(f64::NAN, |e| e.value);
    let columns = ["foreground", "pages", "taken as", "mean revenue", "95% interval", "truth", "holds it"];
    let mut rows = Vec::new();
    for (scan, seed) in scans.iter().zip(1..) {
        for (mark, found) in &scan.estimates {
            for (estimate, (_, strata)) in found.iter().zip(MEANS) {
                let Some(estimate) = estimate else { continue };
                let margin = estimate.margin.map_or("none".into(), |m| format!("+- {m:.2}"));
                let holds = match estimate.covers(exact) {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "-",
                };
                rows.push(vec![
                    format!("{seed}"),
                    format!("{mark}%"),
                    if strata == 1 { "a random sample".into() } else { format!("{strata} strata") },
                    format!("{:.2}", estimate.value),
                    margin,
                    format!("{exact:.2}"),
                    holds.into(),
                ]);
            }
        }
    }
    Figure {
        id: "osdi00-mining-estimates".into(),
        title: "Estimates of a mean while the scan goes on".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    }
}
