//! The distribution of the time of one gap decision, by the wanted share of the drive and its placement.
//!
//! A sample is the time of one call of [`InDrive::poll`] that returns `Execute`: the policy's choice (FCFS among ten), the
//! search, the removal of blocks from the wanted set, and the layout of the accesses. The cost of reading the clock, shown above
//! the table, is included. The first row, a core without background work, shows the part that is not the planner's. The
//! foreground is the papers' OLTP load with ten requests outstanding. No mechanics run: the core's predictions count as the
//! outcome. A request that crosses tracks has several gaps, all in one sample.
//!
//! `cargo bench -p freeblock-scheduler --bench decision -- DRIVE` runs the rows of one drive.
//!
//! The checksum is over every access and every completion time: equal checksums mean equal decisions.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use freeblock_scheduler::{
    Access, Config, HeadWork, InDrive, Output, Parameter, Priority, Request, Sessions,
};
use model::{DriveModel, Position, builtin};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};
use workload::random::Stream;
use workload::{Oltp, OltpConfig, Share, Source};

/// The number of requests that wait or are under way.
const OUTSTANDING: u64 = 10;

/// The sectors of 512 bytes in a block of 4 KB.
const BLOCK: Sectors = Sectors::new(8);

/// The longest request that prepares a fragmented drive.
const REQUEST_SECTORS_MAX: u64 = 1 << 18;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    // Tests run this without `--bench`: then all sizes are tiny.
    let full = std::env::args().any(|a| a == "--bench");
    println!("reading the clock twice: median {} ns", clock_cost());
    println!(
        "{:17} {:36} {:>9} {:>8} {:>8} {:>8} {:>9}  checksum",
        "drive", "wanted", "decisions", "median", "p99", "max", "MB of set"
    );
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = |drive: &str| only.is_empty() || only.iter().any(|o| o == drive);
    if wanted("quantum-atlas-10k") {
        atlas(full)?;
    }
    for (drive, scale) in [("nearline-4tb", 8), ("nearline-20tb", 32)] {
        if full && wanted(drive) {
            nearline(drive, scale)?;
        }
    }
    Ok(())
}

fn atlas(full: bool) -> Result<()> {
    let name = "quantum-atlas-10k";
    let drive = open(name)?;
    let decisions = if full { 50_000 } else { 50 };
    let mut bench = Bench::new(&drive, 1)?;
    bench.decide(decisions);
    bench.row(name, "nothing");

    // The phases of whole scans measure the wanted sets that the planner itself leaves.
    const PHASES: [(f64, &str); 6] = [
        (0.80, "100-80% (phase of a scan)"),
        (0.50, "80-50% (phase of a scan)"),
        (0.20, "50-20% (phase of a scan)"),
        (0.05, "20-5% (phase of a scan)"),
        (0.01, "5-1% (phase of a scan)"),
        (0.0, "1-0% (phase of a scan)"),
    ];
    let mut phases: Vec<Samples> = PHASES.iter().map(|_| Samples::default()).collect();
    for seed in 1..=if full { 3 } else { 1 } {
        let mut bench = Bench::new(&drive, seed)?;
        bench.want(whole(&drive), BLOCK)?;
        let all = bench.wanted();
        for ((until, _), samples) in PHASES.iter().zip(&mut phases) {
            std::mem::swap(&mut bench.samples, samples);
            let floor = (all as f64 * until) as u64;
            while bench.wanted() > floor {
                bench.decide(1);
                if !full && bench.samples.nanos.len() >= decisions {
                    break;
                }
            }
            bench.samples.memory = bench.core.wanted_memory_bytes();
            std::mem::swap(&mut bench.samples, samples);
        }
    }
    for ((_, what), samples) in PHASES.iter().zip(&mut phases) {
        samples.row(name, what);
    }

    // Random blocks are wanted. Such a set changes soon, so each of several cores is measured for a short time.
    for (share, cores, what) in [
        (Share::new(1, 2)?, 2, "50%, random blocks of 4 KB"),
        (Share::new(1, 5)?, 4, "20%, random blocks of 4 KB"),
        (Share::new(3, 200)?, 40, "1%, random blocks of 4 KB"),
    ] {
        let (range, cores, decisions) = match full {
            true => (whole(&drive), cores, 20_000 / cores),
            false => (LbnRange::new(Lbn::ZERO, Sectors::new(8_000)), 1, 50),
        };
        scattered(&drive, range, BLOCK, share, (cores, decisions), name, what)?;
    }
    Ok(())
}

/// Adds the rows of a nearline drive. `scale` is the size of a scattered block, in blocks of 4 KB; smaller blocks would take
/// longer to prepare than all other work together.
fn nearline(name: &str, scale: u64) -> Result<()> {
    let drive = open(name)?;
    let capacity = drive.layout().capacity().get();
    let mut bench = Bench::new(&drive, 1)?;
    bench.decide(20_000);
    bench.row(name, "nothing");

    let mut bench = Bench::new(&drive, 1)?;
    bench.want(whole(&drive), BLOCK)?;
    bench.decide(20_000);
    bench.row(name, "100%, one range");
    bench.decide(180_000);
    bench.restart();
    bench.decide(20_000);
    bench.row(name, "the same after 200,000 gaps");

    let block = Sectors::new(scale * BLOCK.get());
    let kb = block.get() / 2;
    for (share, percent) in
        [(Share::new(1, 2)?, "50%"), (Share::new(1, 100)?, "1%"), (Share::new(1, 10_000)?, "0.01%")]
    {
        let what = format!("{percent}, random blocks of {kb} KB");
        scattered(&drive, whole(&drive), block, share, (1, 20_000), name, &what)?;
    }

    // Many tasks are spread evenly over the drive.
    for (tasks, sectors, what) in
        [(10_000, 131_072, "10,000 tasks of 64 MB"), (10_000, 8, "10,000 tasks of one block of 4 KB")]
    {
        let mut bench = Bench::new(&drive, 1)?;
        for i in 0..tasks {
            let start = (capacity - sectors) / tasks * i;
            bench.want(LbnRange::new(Lbn::new(start), Sectors::new(sectors)), BLOCK)?;
        }
        bench.decide(20_000);
        bench.row(name, what);
    }
    Ok(())
}

/// Measures a number of decisions on each of several cores that want a random `share` of the blocks of a range.
fn scattered(
    drive: &Arc<DriveModel>,
    range: LbnRange,
    block: Sectors,
    share: Share,
    (cores, decisions): (usize, usize),
    name: &str,
    what: &str,
) -> Result<()> {
    let mut samples = Samples::default();
    let (mut before, mut after) = (0, 0);
    for seed in 1..=cores {
        let mut bench = Bench::new(drive, seed as u64)?;
        bench.want(range, block)?;
        bench.pass_over(range, block, share)?;
        before += bench.wanted();
        bench.samples = samples;
        bench.decide(decisions);
        after += bench.wanted();
        samples = bench.samples;
        samples.memory = bench.core.wanted_memory_bytes();
    }
    samples.row(name, what);
    let percent = |left: u64| left as f64 * 100.0 / (range.len().get() / block.get() * cores as u64) as f64;
    println!("{:18}(from {:.4}% to {:.4}%)", "", percent(before), percent(after));
    Ok(())
}

fn open(name: &str) -> Result<Arc<DriveModel>> {
    Ok(Arc::new(DriveModel::from_profile(&builtin::find(name)?)?))
}

fn whole(drive: &DriveModel) -> LbnRange {
    LbnRange::new(Lbn::ZERO, drive.layout().capacity())
}

fn clock_cost() -> u64 {
    let mut nanos: Vec<u64> = (0..10_001).map(|_| elapsed(Clock::now())).collect();
    nanos.sort_unstable();
    nanos[nanos.len() / 2]
}

fn elapsed(began: Clock) -> u64 {
    began.elapsed().as_nanos() as u64
}

/// The measured times and counts.
#[derive(Default)]
struct Samples {
    nanos: Vec<u64>,
    checksum: u64,
    memory: usize,
}

impl Samples {
    fn add(&mut self, nanos: u64, accesses: &[Access], until: Instant) {
        self.nanos.push(nanos);
        self.mix(until.as_nanos());
        for a in accesses {
            self.mix(u64::from(a.track.get()) << 32 ^ u64::from(a.sector) << 16 ^ u64::from(a.sectors));
        }
    }

    fn mix(&mut self, value: u64) {
        self.checksum = (self.checksum ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    fn row(&mut self, drive: &str, what: &str) {
        self.nanos.sort_unstable();
        let n = self.nanos.len();
        // The smallest value, in us, that the given percentage of samples does not exceed.
        let rank = |percent: usize| match (n * percent).div_ceil(100) {
            0 => f64::NAN,
            rank => self.nanos[rank - 1] as f64 / 1e3,
        };
        println!(
            "{drive:17} {what:36} {n:9} {:8.2} {:8.2} {:8.2} {:9.2}  {:016x}",
            rank(50),
            rank(99),
            rank(100),
            self.memory as f64 / 1e6,
            self.checksum,
        );
    }
}

/// A core under the load.
struct Bench {
    core: InDrive,
    session: SessionId,
    load: Oltp,
    now: Instant,
    next_id: u64,
    outstanding: u64,
    samples: Samples,
}

impl Bench {
    fn new(drive: &Arc<DriveModel>, seed: u64) -> Result<Self> {
        let mut core = InDrive::new(Arc::clone(drive), Config::default());
        let session = core.open(Priority::default())?;
        let config = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
        let load = Oltp::new(config, seed)?;
        let (now, samples) = (Instant::ZERO, Samples::default());
        Ok(Self { core, session, load, now, next_id: 0, outstanding: 0, samples })
    }

    fn want(&mut self, range: LbnRange, block: Sectors) -> Result<()> {
        self.core.read(self.session, range, block, Parameter::default())?;
        Ok(())
    }

    fn wanted(&self) -> u64 {
        self.core.undelivered(self.session).unwrap_or(0)
    }

    fn submit(&mut self, op: Op, range: LbnRange) {
        self.next_id += 1;
        let id = RequestId::new(self.next_id);
        self.core.submit(self.now, Request { id, op, range }).expect("the load fits the drive");
        self.outstanding += 1;
    }

    /// Times a number of dispatches, or fewer if the wanted blocks run out.
    fn decide(&mut self, decisions: usize) {
        let goal = self.samples.nanos.len() + decisions;
        let background = self.wanted() > 0;
        loop {
            while self.outstanding < OUTSTANDING
                && let Some(next) = self.load.next_request()
            {
                self.submit(next.op, next.range);
            }
            let began = Clock::now();
            let output = self.core.poll(self.now);
            let took = elapsed(began);
            match output {
                Some(Output::Do(HeadWork::Execute)) => {
                    let until = self.core.busy_until().expect("an Execute has an end");
                    self.samples.add(took, self.core.accesses(), until);
                    self.now = until;
                    self.core.completed(until);
                }
                Some(Output::Completed(_)) => {
                    self.outstanding -= 1;
                    if self.samples.nanos.len() == goal || background && self.wanted() == 0 {
                        return;
                    }
                }
                Some(Output::Deliver(_) | Output::Do(HeadWork::Cut) | Output::Failed { .. }) | None => {}
            }
        }
    }

    /// Leaves a random share of a wanted range, by foreground reads of the other blocks, which are then no longer wanted. Each
    /// read starts just in time for its first sector, so that the planner has no gap in which it could take blocks of the share.
    fn pass_over(&mut self, range: LbnRange, block: Sectors, share: Share) -> Result<()> {
        let mut stream = Stream::new(1, "bench.decision");
        let blocks = range.len().get() / block.get();
        let mut position = Position::default();
        let mut from = 0;
        for i in 0..blocks {
            let kept = i + 1 == blocks || stream.chance(share);
            if !kept && (i + 1 - from) * block.get() < REQUEST_SECTORS_MAX {
                continue;
            }
            let to = if kept { i } else { i + 1 };
            if from < to {
                let start = Lbn::new(range.start().get() + from * block.get());
                let len = Sectors::new((to - from) * block.get());
                position = self.read_just_in_time(position, LbnRange::new(start, len));
            }
            from = i + 1;
        }
        Ok(())
    }

    /// Reads a range just in time for its first sector and returns the position of the head afterwards.
    fn read_just_in_time(&mut self, from: Position, range: LbnRange) -> Position {
        const READ_MARGIN: Duration = Duration::from_micros(2);
        let drive = self.core.drive();
        let layout = drive.layout();
        let mut after = from;
        let mut pieces = layout.pieces(range);
        if let Some(first) = pieces.next() {
            let track = layout.track(first.track);
            after = track.into();
            let arrive = self.now + drive.move_time(from, after, Op::Read);
            let wait = drive.rpm().earliest_angle(arrive).until(track.sector_angle(first.sector));
            self.now += drive.rpm().time_within(wait).saturating_sub(READ_MARGIN);
        }
        if let Some(last) = pieces.last() {
            after = layout.track(last.track).into();
        }
        self.submit(Op::Read, range);
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    self.now = self.core.busy_until().expect("an Execute has an end");
                    self.core.completed(self.now);
                }
                Output::Completed(_) => self.outstanding -= 1,
                Output::Deliver(_) | Output::Do(HeadWork::Cut) | Output::Failed { .. } => {}
            }
        }
        after
    }

    fn restart(&mut self) {
        self.samples = Samples::default();
    }

    fn row(&mut self, drive: &str, what: &str) {
        self.samples.memory = self.core.wanted_memory_bytes();
        self.samples.row(drive, what);
    }
}
