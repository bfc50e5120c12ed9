//! The numbers of the design's feasibility study, from the real core: `cargo run --release -p freeblock-sim --example
//! feasibility`; with a number as its argument, only the scan with that search budget in tracks.

#![allow(clippy::print_stdout)]

use freeblock_sim::{Background, Inside, Nothing};
use model::{DriveModel, builtin};
use scheduler::{Config, SearchBudget};
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
    let (capacity, sector) = (drive.layout().capacity(), drive.sector_bytes());
    let budget = match std::env::args().nth(1) {
        Some(tracks) => SearchBudget::tracks(tracks.parse()?),
        None => {
            for policy in ["fcfs", "c-look", "sstf", "sptf", "sptf-sw:40"] {
                let load = Random::new(RandomConfig::new(capacity, sector), 1)?;
                let foreground = Issuer::new(load, Arrival::outstanding(20), Instant::ZERO, 1)?;
                let config = Config::default().with_policy(policy.parse()?);
                let mut run = Inside::new(Arc::clone(&drive), config, foreground, Background::None)?;
                run.advance(100_000, &mut Nothing)?;
                println!("{policy:10} latency share {:.3}", run.report().head_time.rotation);
            }
            SearchBudget::default()
        }
    };
    let load = Oltp::new(OltpConfig::new(capacity, sector), 1)?;
    let foreground = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 1)?;
    let scan = Background::Scan { block: Sectors::new(8) };
    let mut run = Inside::new(drive, Config::default().with_budget(budget), foreground, scan)?;
    while run.advance_scan(50_000, &mut Nothing)? {}
    println!("{:#?} {:?}", run.report(), run.planner_stats());
    Ok(())
}
