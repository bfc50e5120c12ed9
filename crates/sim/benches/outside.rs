//! The distribution of the processor time of a foreground request outside the drive, by the wanted share of the drive.
//!
//! The papers' OLTP load with ten tasks, an Atlas 10K as a black box with the default noise, and a whole scan (FAST'02,
//! section 5). A sample is the work from one foreground completion to the next: the policy's choice, the search for a
//! detour, the evaluation of completions, and the work of the emulated drive and the load. The scheduler's own share is
//! therefore less; the rows without a scan show the rest. Time is this thread's processor time: other processes affect it
//! only through the caches.
//!
//! `cargo bench -p freeblock-sim --bench outside -- POLICY` runs the rows of one policy.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use hdrhistogram::Histogram;
use model::{DriveModel, builtin};
use rustix::time::{ClockId, clock_gettime};
use scheduler::{Config, OutsideConfig};
use std::error::Error;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const POLICIES: [&str; 4] = ["fcfs", "sptf", "sptf-sw:60", "sstf"];

/// A row ends when this percentage of the drive is still wanted.
const PHASES: [(u64, &str); 6] =
    [(80, "100-80% wanted"), (50, "80-50%"), (20, "50-20%"), (5, "20-5%"), (1, "5-1%"), (0, "1-0%")];

/// The number of requests in a row without a scan, and the maximum in a row with a scan.
const REQUESTS_WITHOUT_SCAN: u64 = 50_000;
const REQUESTS_MAX: u64 = 400_000;

fn main() -> Result<()> {
    // Tests run this program without `--bench`, and then everything is tiny.
    let full = std::env::args().any(|a| a == "--bench");
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:10} {:16} {:>9} {:>8} {:>8} {:>8}", "policy", "scan", "requests", "mean", "median", "p99");
    for policy in POLICIES.into_iter().filter(|policy| only.is_empty() || only.iter().any(|o| o == policy)) {
        let mut alone = Run::new(policy, Background::None)?;
        alone.row("none", if full { REQUESTS_WITHOUT_SCAN } else { 50 }, |_| false)?;
        let mut scan = Run::new(policy, Background::Scan { block: Sectors::new(8) })?;
        for (until, what) in PHASES {
            let over = |run: &Outside<Oltp>| {
                run.scan_progress()
                    .is_some_and(|scan| (scan.blocks - scan.delivered) * 100 <= scan.blocks * until)
            };
            scan.row(what, if full { REQUESTS_MAX } else { 50 }, over)?;
        }
    }
    Ok(())
}

/// Returns the processor time of this thread.
fn processor_nanos() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

struct Run {
    policy: &'static str,
    run: Outside<Oltp>,
}

impl Run {
    fn new(policy: &'static str, background: Background) -> Result<Self> {
        let profile = builtin::find("quantum-atlas-10k")?;
        let known = Arc::new(DriveModel::from_profile(&profile)?);
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), 1)?;
        let load = Oltp::new(OltpConfig::new(known.layout().capacity(), known.sector_bytes()), 1)?;
        let load = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 1)?;
        let outside = OutsideConfig::beyond(overheads);
        let config = Config::outside(outside).with_seed(1).with_policy(policy.parse()?);
        Ok(Self { policy, run: Outside::new(drive, known, config, load, background)? })
    }

    /// Runs until `over` holds or `most` requests are done, and prints the requests' times in microseconds.
    fn row(&mut self, scan: &str, most: u64, over: impl Fn(&Outside<Oltp>) -> bool) -> Result<()> {
        let mut nanos = Histogram::<u64>::new(3)?;
        while nanos.len() < most && !over(&self.run) {
            let began = processor_nanos();
            self.run.advance(1, &mut Nothing)?;
            nanos.record(u64::try_from(processor_nanos() - began)?)?;
        }
        let us = |nanos: u64| nanos as f64 / 1e3;
        println!(
            "{:10} {scan:16} {:9} {:8.2} {:8.2} {:8.2}",
            self.policy,
            nanos.len(),
            nanos.mean() / 1e3,
            us(nanos.value_at_quantile(0.5)),
            us(nanos.value_at_quantile(0.99)),
        );
        Ok(())
    }
}
