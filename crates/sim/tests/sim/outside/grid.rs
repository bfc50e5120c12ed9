//! Every surprise under every load: the foreground is slower than without background work by less than the bound, and
//! predictions for a trusted drive are right.

use super::surprises::{ALL, Surprise};
use freeblock_sim::{Background, Nothing, Observer, Outside};
use model::DriveModel;
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{AnyCore, Caution, Config, IdleTime, Parameter, Priority, Record, Sessions};
use std::fmt;
use std::sync::Arc;
use testing::interval::{self, upper_end};
use units::{Duration, Instant, Lbn, LbnRange, Sectors, SessionId};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig, Request, Share, Source};

const BLOCK: Sectors = Sectors::new(16);

pub const ARRIVALS: [(&str, Arrival); 5] = [
    ("MPL 1", Arrival::outstanding(1)),
    ("MPL 2", Arrival::outstanding(2)),
    ("MPL 10", Arrival::outstanding(10)),
    ("20 a second", Arrival::Poisson { rate: 20.0 }),
    ("70 a second", Arrival::Poisson { rate: 70.0 }),
];

const POLICIES: [PolicyName; 3] =
    [PolicyName::Sptf, PolicyName::SptfSw(SeekWeight::percent(60)), PolicyName::Fcfs];

/// The requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Random reads of 4 KB.
    Reads,
    /// Requests of transactions' sizes, a third of them writes.
    Mixed,
    /// Requests of 8 KB, seven of eight directly after the preceding one, a third of them writes.
    Runs,
    /// Reads of 4 KB, half of them directly after the preceding one.
    Half,
    /// Reads of 32 KB, each directly after the preceding one.
    Sequence,
}

const KINDS: [Kind; 3] = [Kind::Reads, Kind::Mixed, Kind::Runs];

/// A load of one kind.
enum GridLoad {
    Random(Random),
    Oltp(Oltp),
    Runs { load: Random, last: Option<LbnRange>, capacity: Sectors, begins: u64 },
}

impl GridLoad {
    fn new(kind: Kind, capacity: Sectors, known: &DriveModel, seed: u64) -> Self {
        let sector = known.sector_bytes();
        let config = RandomConfig::new(capacity, sector);
        match kind {
            Kind::Reads => {
                Self::Random(Random::new(RandomConfig { reads: Share::ALL, ..config }, seed).unwrap())
            }
            Kind::Mixed => Self::Oltp(Oltp::new(OltpConfig::new(capacity, sector), seed).unwrap()),
            Kind::Runs => {
                let size = Sectors::new(config.size.get() * 2);
                let load = Random::new(RandomConfig { size, ..config }, seed).unwrap();
                Self::Runs { load, last: None, capacity, begins: 8 }
            }
            Kind::Half | Kind::Sequence => {
                let (times, begins) = if kind == Kind::Half { (1, 2) } else { (8, u64::MAX) };
                let size = Sectors::new(config.size.get() * times);
                let load = RandomConfig { size, reads: Share::ALL, ..config };
                Self::Runs { load: Random::new(load, seed).unwrap(), last: None, capacity, begins }
            }
        }
    }
}

impl Source for GridLoad {
    fn next_request(&mut self) -> Option<Request> {
        match self {
            Self::Random(load) => load.next_request(),
            Self::Oltp(load) => load.next_request(),
            Self::Runs { load, last, capacity, begins } => {
                let mut next = load.next_request()?;
                // The random draw decides whether a run begins.
                let begins = next.range.start().get() / next.range.len().get() % *begins == 0;
                if let Some(last) =
                    last.filter(|last| !begins && last.end().get() + last.len().get() <= capacity.get())
                {
                    next = Request { op: next.op, range: LbnRange::new(last.end(), last.len()) };
                }
                *last = Some(next.range);
                Some(next)
            }
        }
    }
}

/// A scan without an end, of the LBNs that both the drive and its profile have.
struct GridScan {
    session: SessionId,
    blocks: u64,
}

impl GridScan {
    fn of(run: &mut Outside<GridLoad>, capacity: Sectors) -> Self {
        let session = run.core_mut().open(Priority::default()).unwrap();
        let all = LbnRange::new(Lbn::ZERO, capacity);
        run.core_mut().read(session, all, BLOCK, Parameter::default()).unwrap();
        Self { session, blocks: 0 }
    }
}

impl Observer for GridScan {
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, _: Instant) {
        self.blocks += 1;
        core.read(self.session, record.range, BLOCK, Parameter::default()).unwrap();
    }
}

/// One cell of the grid: a surprise under one load, served in one way.
#[derive(Clone, Copy, PartialEq)]
pub struct Cell {
    pub surprise: Surprise,
    pub arrival: usize,
    pub kind: Kind,
    pub idle: bool,
    pub policy: usize,
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { surprise, arrival, kind, idle, policy } = *self;
        let idle = if idle { "idle time" } else { "gaps only" };
        write!(f, "{surprise:?}, {}, {kind:?}, {idle}, {}", ARRIVALS[arrival].0, POLICIES[policy])
    }
}

/// The number of requests in a part of a run, after which the core's state is sampled, and the number after which the
/// core should be right about the drive.
const PART_REQUESTS: u64 = 50;
const LEARNING_REQUESTS_MAX: u64 = 1_000;

/// The largest error of a completion that suits a plan with the paper's conservatism.
const COMPLETION_ERROR_MAX: Duration = Duration::from_micros(300);

/// The results of a cell with one seed.
#[derive(Clone, Copy, Debug)]
pub struct CellResult {
    /// The increase of the mean response time by the scan, in percent.
    pub slower: f64,
    /// The core's estimate of that increase, in percent.
    pub reported: f64,
    /// The share of the time with trusted predictions, and the share of right predictions among the commands of that
    /// time.
    pub trusted: f64,
    pub right: f64,
    pub detours: u64,
    pub blocks: u64,
}

impl Cell {
    fn begin(&self, known: &Arc<DriveModel>, seed: u64) -> (Outside<GridLoad>, Sectors) {
        let Self { surprise, arrival, kind, idle, policy } = *self;
        let device = surprise.device(seed);
        let capacity = known.layout().capacity().min(device.capacity());
        let load = GridLoad::new(kind, capacity, known, seed);
        let load = Issuer::new(load, ARRIVALS[arrival].1, Instant::ZERO, seed).unwrap();
        let config = Config::default()
            .with_outside(surprise.outside())
            .with_policy(POLICIES[policy])
            .with_idle(idle.then(IdleTime::default))
            .with_seed(seed);
        (Outside::over(device, Arc::clone(known), config, load, Background::None).unwrap(), capacity)
    }

    pub fn run(&self, requests: u64, seed: u64) -> CellResult {
        let known = self.surprise.known();
        let (mut plain, capacity) = self.begin(&known, seed);
        plain.advance(requests, &mut Nothing).unwrap();
        let (mut scan, _) = self.begin(&known, seed);
        let mut blocks = GridScan::of(&mut scan, capacity);
        scan.advance(LEARNING_REQUESTS_MAX, &mut blocks).unwrap();
        let trusts = |run: &Outside<GridLoad>| {
            !matches!(run.core().caution(), Some(Caution::Mistrust | Caution::Unsynchronised))
        };
        // The number of commands, and of those that were predicted right.
        let counts = |run: &Outside<GridLoad>| {
            let record = run.prediction_errors();
            [record.count() as f64, record.count() as f64 * record.within(COMPLETION_ERROR_MAX)]
        };
        let (mut trusted, mut commands, mut right) = (0, 0.0, 0.0);
        let parts = (requests - LEARNING_REQUESTS_MAX) / PART_REQUESTS;
        for _ in 0..parts {
            let (before, [all, well]) = (trusts(&scan), counts(&scan));
            scan.advance(PART_REQUESTS, &mut blocks).unwrap();
            if before && trusts(&scan) {
                let [now, well_now] = counts(&scan);
                trusted += 1;
                commands += now - all;
                right += well_now - well;
            }
        }
        let response = |run: &Outside<GridLoad>| run.report().foreground.mean_response_ms;
        let reported = scan.core().detour_harm().share() + scan.harm().share().max(0.0);
        CellResult {
            slower: (response(&scan) / response(&plain) - 1.0) * 100.0,
            reported: reported * 100.0,
            trusted: trusted as f64 / parts as f64,
            right: if commands > 0.0 { right / commands } else { 1.0 },
            detours: scan.planner_stats().detours,
            blocks: blocks.blocks,
        }
    }
}

/// The maximal increase in percent: the bound; with idle time half as much again, because two runs with requests to
/// an idle drive differ by some tenths by chance, and the cost of idle time is known in the mean only.
const INCREASE_PERCENT_MAX: [f64; 2] = [1.0, 1.5];

/// Returns the first seed, or the one in `FREEBLOCK_SEED`.
fn first_seed() -> u64 {
    std::env::var("FREEBLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42)
}

/// Returns the failure of a cell by several seeds, if there is one.
pub fn wrong(cell: &Cell, requests: u64, seeds: u64) -> Option<String> {
    let first = first_seed();
    let all: Vec<CellResult> = (first..first + seeds).map(|seed| cell.run(requests, seed)).collect();
    let each = |of: fn(&CellResult) -> f64| all.iter().map(of).collect::<Vec<_>>();
    let mean = |of: fn(&CellResult) -> f64| interval::mean(&each(of));
    let slower = each(|seen| seen.slower);
    let (trusted, right) = (mean(|seen| seen.trusted), mean(|seen| seen.right));
    let harmed = upper_end(&slower) > INCREASE_PERCENT_MAX[usize::from(cell.idle)];
    let fooled = trusted > 0.1 && right < 0.75;
    let reported = mean(|seen| seen.reported);
    let seen = format!(
        "{cell:?}: {:.2}% slower, at most {:.2}%; {reported:.2}% estimated; trusted {trusted:.2} of the time, {right:.2} right; {:.0} \
         detours, {:.0} blocks",
        interval::mean(&slower),
        upper_end(&slower),
        mean(|seen| seen.detours as f64),
        mean(|seen| seen.blocks as f64),
    );
    let why = match (harmed, fooled) {
        (false, false) => return None,
        (true, false) => "harmed",
        (false, true) => "fooled",
        (true, true) => "harmed, fooled",
    };
    Some(format!("{why}: {seen}"))
}

fn cells() -> impl Iterator<Item = Cell> {
    let each = |surprise| {
        (0..ARRIVALS.len() * KINDS.len() * 2 * POLICIES.len()).map(move |n| Cell {
            surprise,
            arrival: n % ARRIVALS.len(),
            kind: KINDS[n / ARRIVALS.len() % KINDS.len()],
            idle: n / (ARRIVALS.len() * KINDS.len()) % 2 == 1,
            policy: n / (ARRIVALS.len() * KINDS.len() * 2),
        })
    };
    ALL.into_iter().flat_map(each)
}

/// Returns the selected cells: `FREEBLOCK_GRID=2/7` is the third of seven parts.
fn part() -> (usize, usize) {
    let said = std::env::var("FREEBLOCK_GRID").unwrap_or_default();
    let two = said.split_once('/').and_then(|(of, all)| Some((of.parse().ok()?, all.parse().ok()?)));
    two.filter(|(_, all)| *all > 0).unwrap_or((0, 1))
}

#[test]
#[allow(clippy::print_stderr)] // a long run prints its results as it goes
fn on_any_drive_the_harm_is_bounded_and_trusted_predictions_are_right() {
    let long = testing::is_long();
    // A short run checks every 2,017th cell: this number has no common factor with the dimensions of the grid.
    let (of, all) = if long { part() } else { (0, 2_017) };
    let requests = if long { 8_000 } else { 3_000 };
    let mut bad = Vec::new();
    for (n, cell) in cells().enumerate().filter(|(n, _)| n % all == of) {
        if let Some(wrong) = wrong(&cell, requests, 8) {
            eprintln!("{n}: {wrong}");
            bad.push(wrong);
        }
    }
    assert!(bad.is_empty(), "{} cells:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn cells_that_were_once_over_the_bound_are_within_it() {
    // These cells exceeded the bound because of overtaken commands, forgotten control gaps, and costs not yet
    // observed.
    let cells = [
        (Surprise::Arms(100), 2, 2, false),
        (Surprise::Arms(-100), 2, 2, false),
        (Surprise::Arms(-100), 1, 0, false),
        (Surprise::Reorders, 4, 2, false),
        // The estimate of harm by idle time must include delays beyond the prediction.
        (Surprise::SlowBus, 3, 2, true),
        (Surprise::SlowBus, 4, 2, true),
        (Surprise::Rpm(970), 0, 0, false),
    ];
    let cells = cells.map(|(surprise, arrival, policy, idle)| Cell {
        surprise,
        arrival,
        kind: Kind::Reads,
        idle,
        policy,
    });
    let cells = testing::some(2, cells);
    let bad: Vec<String> =
        cells.iter().filter_map(|cell| wrong(cell, 8_000, testing::sized(4, 16))).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn arms_much_faster_than_the_profile_cost_ten_clients_no_more_than_the_bound() {
    let cell = Cell { surprise: Surprise::Arms(-400), arrival: 2, kind: Kind::Reads, idle: false, policy: 2 };
    let harmed = wrong(&cell, 8_000, 32);
    assert!(harmed.is_none(), "{harmed:?}");
}

#[test]
fn arms_faster_than_the_profile_cost_one_client_no_more_than_the_bound() {
    for kind in [Kind::Reads, Kind::Mixed] {
        let cell = Cell { surprise: Surprise::Arms(-100), arrival: 0, kind, idle: false, policy: 0 };
        let seen: Vec<CellResult> = (42..58).map(|seed| cell.run(8_000, seed)).collect();
        let upper = upper_end(&seen.iter().map(|seen| seen.slower).collect::<Vec<_>>());
        assert!(upper <= 1.0, "{kind:?}: at most {upper:.2}%: {seen:?}");
    }
}

#[test]
fn a_spindle_of_another_speed_is_noticed_under_any_load() {
    use Surprise::{Rpm, SlowRpm};
    for surprise in [Rpm(850), Rpm(894), Rpm(1_119), Rpm(1_250), SlowRpm(894), SlowRpm(1_119)] {
        for n in testing::some(2, 0..ARRIVALS.len() * 4) {
            let (arrival, kind) = (n % ARRIVALS.len(), KINDS[n / ARRIVALS.len() % 2]);
            let cell = Cell { surprise, arrival, kind, idle: n >= ARRIVALS.len() * 2, policy: 0 };
            let seen = cell.run(3_000, 42);
            assert!(seen.trusted < 0.1, "{cell:?}: {seen:?}");
        }
    }
}

#[test]
fn a_drive_that_matches_its_profile_is_trusted_at_any_rate() {
    for n in testing::some(2, 0..ARRIVALS.len() * 4) {
        let (arrival, kind) = (n % ARRIVALS.len(), KINDS[n / ARRIVALS.len() % 2]);
        for surprise in [Surprise::None, Surprise::Drifts, Surprise::Remapped(20_000)] {
            let cell = Cell { surprise, arrival, kind, idle: n >= ARRIVALS.len() * 2, policy: 0 };
            let seen = cell.run(4_000, 42);
            // Remapped sectors are not in the profile.
            let least = if surprise == Surprise::Remapped(20_000) { 0.8 } else { 0.9 };
            assert!(seen.trusted > least && seen.right > 0.85, "{cell:?}: {seen:?}");
        }
    }
}

#[test]
fn under_mistrust_waits_behind_a_delayed_request_are_in_the_estimate() {
    // The drive's arms are faster than those of the profile, so that the core mistrusts the drive.
    let surprise = Surprise::Other { reported: "mimic-base", there: "mimic-fast-seek" };
    let cell = Cell { surprise, arrival: 4, kind: Kind::Reads, idle: true, policy: 2 };
    let seen = [42, 43].map(|seed| cell.run(40_000, seed));
    let mean = |of: fn(&CellResult) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
    let (slower, reported) = (mean(|seen| seen.slower), mean(|seen| seen.reported));
    assert!(slower < reported + 0.15, "{slower:.2}% slower, {reported:.2}% estimated");
}
