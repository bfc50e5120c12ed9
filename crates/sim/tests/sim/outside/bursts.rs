//! Two clients, and bursts of write-backs beside them: a burst counts as one client, not as many.

use drive::Behaviour;
use freeblock_sim::{Background, ForegroundReport, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, OutsideConfig};
use std::sync::Arc;
use units::{CacheOps, Duration, Instant, Sectors};
use workload::{Arrival, ClosedTask, Issued, Issuer, Random, RandomConfig, Request, Script, Source};

const REQUESTS: u64 = 8_000;
/// The seeds: two runs whose requests are chosen from many differ by some tenths of a percent.
const SEEDS: [u64; 4] = [42, 43, 44, 45];
const CLIENTS: u32 = 2;
const PERIOD: Duration = Duration::from_secs(1);

/// A load of clients without think times, and of bursts once a second.
struct Bursts {
    places: Random,
    ready: Vec<ClosedTask>,
    size: u32,
    left: u32,
    /// Each request of the burst is a task of its own.
    tasks: u32,
    next: Instant,
    now: Instant,
}

impl Source for Bursts {
    fn next_request(&mut self) -> Option<Request> {
        self.places.next_request()
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}

impl Script for Bursts {
    fn start(&mut self, at: Instant) {
        self.ready = (0..CLIENTS).map(ClosedTask::new).collect();
        (self.now, self.next) = (at, at + PERIOD);
    }

    fn due(&self) -> Option<Instant> {
        Some(if self.ready.is_empty() && self.left == 0 { self.next } else { self.now })
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        if now >= self.next {
            self.left += self.size;
            self.next += PERIOD;
        }
        self.now = now;
        let task = self.ready.pop().or_else(|| {
            self.left = self.left.checked_sub(1)?;
            self.tasks += 1;
            Some(ClosedTask::new(CLIENTS + self.tasks))
        })?;
        Some(Issued { at: now, task, request: self.places.next_request()?, cache: CacheOps::default() })
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        self.now = now;
        if task.get() < CLIENTS {
            self.ready.push(task);
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

fn run(size: u32, seed: u64, background: Background) -> Outside<Bursts> {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let (device, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
    let outside = OutsideConfig::beyond(overheads);
    let config = Config::default().with_policy(PolicyName::Sptf).with_seed(seed).with_outside(outside);
    let load = RandomConfig::new(known.layout().capacity(), known.sector_bytes());
    let places = Random::new(load, seed).unwrap();
    let bursts = Bursts {
        places,
        ready: Vec::new(),
        size,
        left: 0,
        tasks: 0,
        next: Instant::ZERO,
        now: Instant::ZERO,
    };
    let issuer = Issuer::new(bursts, Arrival::Scripted, Instant::ZERO, seed).unwrap();
    let mut run = Outside::new(device, known, config, issuer, background).unwrap();
    run.advance(REQUESTS, &mut Nothing).unwrap();
    run
}

/// Returns the blocks per second.
fn rate(run: &Outside<Bursts>) -> f64 {
    run.report().background.blocks as f64 / run.now().as_secs_f64()
}

#[test]
fn bursts_between_clients_leave_the_gaps_and_do_not_harm_the_clients() {
    let scan = || Background::Scan { block: Sectors::new(8) };
    let mean = |of: [f64; 4]| of.iter().sum::<f64>() / of.len() as f64;
    let calm = mean(SEEDS.map(|seed| rate(&run(0, seed, scan()))));
    for size in testing::some(1, [20, 60]) {
        let pairs = SEEDS.map(|seed| [run(size, seed, Background::None), run(size, seed, scan())]);
        let reports = pairs.each_ref().map(|pair| pair.each_ref().map(|run| run.report().foreground));
        // Bursts arrive at fixed times, so the lost throughput is the clients'.
        let fewer = mean(reports.each_ref().map(|[before, after]| 1.0 - after.iops / before.iops)) * 100.0;
        let response =
            |[before, after]: &[ForegroundReport; 2]| after.mean_response_ms / before.mean_response_ms - 1.0;
        let longer = mean(reports.each_ref().map(response)) * 100.0;
        let with = mean(pairs.each_ref().map(|[_, with]| rate(with)));
        let seen = format!("{size}: {with:.0} of {calm:.0} blocks, {fewer:.2}% fewer, {longer:.2}% longer");
        assert!(fewer < 1.0 && longer < 1.0, "{seen}");
        assert!(with > calm / 2.0, "{seen}");
    }
}
