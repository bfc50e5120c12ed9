//! The second part of the demo: a drive of today, scheduled from outside.

use super::BLOCK;
use crate::problem::Problem;
use crate::simulate::run::{Goal, Run};
use crate::tables::{capacity, grouped, table};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig};
use sim::{Background, Nothing, black_box};
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig};

const DRIVE: &str = "nearline-20tb";

/// The arrival rate of the requests, at which the drive is busy for some 60% of the time.
const REQUESTS_PER_SECOND: f64 = 50.0;

const REQUESTS: u64 = 20_000;

/// The scheduler of the requests: the drive's own queue, or the core in front of the drive.
#[derive(Clone, Copy)]
enum Server {
    Alone,
    Ours { scan: bool },
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "the drive alone",
            Self::Ours { scan: false } => "freeblock, no task",
            Self::Ours { scan: true } => "freeblock and a scan",
        }
    }
}

/// Returns the text of this part of the demo: the same requests, served by the drive's queue, and by the core without and with
/// a scan.
///
/// # Errors
/// The built-in drive does not load.
pub(super) fn text(seed: u64) -> Result<String, Problem> {
    let profile = builtin::find(DRIVE).map_err(Problem::failed)?;
    let model = Arc::new(DriveModel::from_profile(&profile).map_err(Problem::failed)?);
    let size = model.layout().capacity().bytes(model.sector_bytes()).get();
    let mut rows = Vec::new();
    for server in [Server::Alone, Server::Ours { scan: false }, Server::Ours { scan: true }] {
        let load = RandomConfig::new(model.layout().capacity(), model.sector_bytes());
        let load = Random::new(load, seed).map_err(Problem::usage)?;
        let arrival = Arrival::Poisson { rate: REQUESTS_PER_SECOND };
        let load = Issuer::new(load, arrival, Instant::ZERO, seed).map_err(Problem::usage)?;
        let (device, overheads) = black_box(&profile, Behaviour::modern(), seed).map_err(Problem::failed)?;
        let mut run = match server {
            Server::Alone => Run::device(device, load),
            Server::Ours { scan } => {
                let outside = OutsideConfig::beyond(overheads).serving();
                let idle = Some(IdleTime::default());
                let config = Config::outside(outside).with_idle(idle).with_policy(PolicyName::Sptf);
                let block = Sectors::new(BLOCK.get() / model.sector_bytes().get());
                let background = if scan { Background::Scan { block } } else { Background::None };
                Run::outside(device, Arc::clone(&model), config, load, background)?
            }
        };
        while run.stride(Goal::Requests(REQUESTS), &mut Nothing)? {}
        let report = run.report();
        let mb_per_s = report.background.mb_per_s;
        let days = size as f64 / 1e6 / mb_per_s / 86_400.0;
        let (rate, days) = if mb_per_s > 0.0 {
            (format!("{mb_per_s:.1}"), format!("{days:.1}"))
        } else {
            ("-".to_owned(), "-".to_owned())
        };
        let (mean, p99) = (report.foreground.mean_response_ms, report.foreground.p99_response_ms);
        rows.push(vec![server.name().to_owned(), format!("{mean:.3}"), format!("{p99:.2}"), rate, days]);
    }
    let head = ["", "mean response ms", "99th percentile ms", "scan MB/s", "days for the whole disk"];
    Ok(format!(
        "{}, simulated with a write cache and a queue of its own, and scheduled from outside:\n\
         {} random requests, {REQUESTS_PER_SECOND} a second. The scan must read its {} beside these requests.\n\n{}",
        profile.title,
        grouped(REQUESTS),
        capacity(size),
        table(&head, &[0], rows)
    ))
}
