//! `freeblock serve`: disks served to whoever speaks NBD, with background work in their gaps.

pub(crate) mod args;
mod config;
mod open;

use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use args::ServeArgs;
use config::{Config, DiskConfig};
use open::AnyDevice;
use serde::Serialize;
use server::{Address, Disk, DiskStatus, Listener, Offer, Running, Tally};
use std::fmt::Write;

/// A disk that is served.
type Served = Running<Disk<AnyDevice>>;

pub(crate) fn execute(args: &ServeArgs, console: &Console) -> Result<String, Problem> {
    let config = Config::new(args)?;
    crate::emulate::log();
    if let Some(state) = &config.state {
        std::fs::create_dir_all(state).map_err(|e| {
            Problem::failed(format!("{}: {e}", state.display())).help("give a directory that can be made")
        })?;
    }
    let mut running: Vec<Served> = Vec::new();
    for disk in &config.disks {
        match start(disk, &config, console) {
            Ok(served) => running.push(served),
            Err(problem) => {
                // Those that run have acknowledged nothing that they would lose, but may have begun to.
                end(running);
                return Err(problem);
            }
        }
    }
    let stoppers: Vec<_> = running.iter().map(Running::stopper).collect();
    interrupt::watch_and(
        move || {
            for stop in &stoppers {
                // It may have ended by itself.
                let _ = stop.stop();
            }
        },
        || {},
    );
    said(end(running), args.json)
}

fn start(disk: &DiskConfig, config: &Config, console: &Console) -> Result<Served, Problem> {
    let bind =
        |address: &Address| Listener::bind(address.clone(), disk.allow_remote).map_err(Problem::failed);
    let (opened, ..) = open::open(disk, config.partial_blocks)?;
    let listeners: Vec<Listener> = disk.listen.iter().map(bind).collect::<Result<_, _>>()?;
    let places: Vec<String> = listeners.iter().map(|at| at.address().to_string()).collect();
    let offer =
        Offer { name: disk.export.clone(), read_only: disk.read_only, tls: None, limits: config.limits };
    let served = Running::start(&disk.name, opened, offer, listeners)
        .map_err(|e| Problem::failed(format!("{}: {e}", disk.name)))?;
    for place in places {
        console.note(&format!("{} at {place}", disk.name));
    }
    Ok(served)
}

/// What a disk has done, or how it failed.
type Ended = (String, Result<(Tally, DiskStatus), Problem>);

/// Waits for the end of all, after the first that ends by itself has ended the others.
fn end(running: Vec<Served>) -> Vec<Ended> {
    let stoppers: Vec<_> = running.iter().map(Running::stopper).collect();
    let mut ended = Vec::new();
    for served in running {
        let name = served.name().to_owned();
        let result = served
            .join()
            .map(|(tally, disk)| (tally, disk.status()))
            .map_err(|e| Problem::failed(format!("{name}: {e}")));
        for stop in &stoppers {
            let _ = stop.stop();
        }
        ended.push((name, result));
    }
    ended
}

#[derive(Serialize)]
struct Json {
    name: String,
    clients: u64,
    requests: u64,
    failed: u64,
    status: DiskStatus,
}

fn said(ended: Vec<Ended>, json: bool) -> Result<String, Problem> {
    let mut disks = Vec::new();
    for (name, result) in ended {
        let (Tally { clients, requests, failed }, status) = result?;
        disks.push(Json { name, clients, requests, failed, status });
    }
    if json {
        return crate::drive::json(&disks);
    }
    let mut text = String::new();
    for disk in &disks {
        let status = &disk.status;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        // A string takes whatever is written to it.
        let _ = writeln!(text, "{}", disk.name);
        let _ = writeln!(text, "  clients     {}", disk.clients);
        let _ = writeln!(text, "  requests    {}, and {} that failed", disk.requests, disk.failed);
        for (what, latency) in [("reads", &status.reads), ("writes", &status.writes)] {
            let (ms, count) = (|us: f64| us / 1e3, latency.count);
            let (p50, p99) = (ms(latency.p50_us), ms(latency.p99_us));
            let _ = writeln!(text, "  {what:<10}  {count}, {p50:.2} ms median, {p99:.2} ms 99th percentile");
        }
        let background = &status.background;
        let (gaps, idle) = (mb(background.gap_bytes), mb(background.idle_bytes));
        let _ = writeln!(text, "  background  {gaps:.1} MB in gaps, {idle:.1} MB in idle time");
        let (p50, p99) = (status.lateness.p50_us, status.lateness.p99_us);
        let _ = writeln!(text, "  lateness    {p50:.0} us median, {p99:.0} us 99th percentile");
    }
    Ok(text)
}
