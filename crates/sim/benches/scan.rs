//! The time to simulate a whole-disk scan of the Atlas 10K (OLTP, ten tasks, FCFS, blocks of 4 KB), by the planner's
//! budget of tracks in a gap: the median of three runs, and the scan's result, which is also the checksum.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use freeblock_sim::{Background, Inside, Nothing};
use model::{DriveModel, builtin};
use scheduler::{Config, SearchBudget};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

fn main() -> Result<(), Box<dyn Error>> {
    // Tests run this program without `--bench`, and then there are a hundred requests.
    let full = std::env::args().any(|a| a == "--bench");
    let (runs, requests) = if full { (3, u64::MAX) } else { (1, 100) };
    let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
    println!("tracks    seconds       gaps  tracks/gap     most  scans a day  free MB/s  virtual time");
    for tracks in [50, 75, 100, 200, 500, 2_000] {
        let mut seconds = Vec::new();
        let mut result = None;
        for _ in 0..runs {
            let config = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
            let load = Oltp::new(config, 1)?;
            let foreground = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 1)?;
            let config = Config::default().with_budget(SearchBudget::tracks(tracks));
            let scan = Background::Scan { block: Sectors::new(8) };
            let mut run = Inside::new(Arc::clone(&drive), config, foreground, scan)?;
            let began = Clock::now();
            run.advance_scan(requests, &mut Nothing)?;
            seconds.push(began.elapsed().as_secs_f64());
            let (report, stats) = (run.report(), run.planner_stats());
            assert!(result.is_none_or(|before| before == stats), "the same run again, and another result");
            result = Some(stats);
            if seconds.len() == runs {
                seconds.sort_unstable_by(f64::total_cmp);
                println!(
                    "{tracks:6} {:10.2} {:10} {:11.1} {:8} {:12.2} {:10.3}  {} ns",
                    seconds[runs / 2],
                    stats.gaps,
                    stats.tracks as f64 / stats.gaps.max(1) as f64,
                    stats.tracks_max,
                    report.background.scans_per_day,
                    report.background.mb_per_s,
                    run.now().as_nanos(),
                );
            }
        }
    }
    Ok(())
}
