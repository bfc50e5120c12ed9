//! Replays an iolog of fio (version 3, `write_iolog`) in real time over a file or a disk, with a scan of the whole file beside it.
//! Writes of the log are carried out with zeros, and overwrite the file.
//!
//! `cargo run --release --package freeblock --example replay -- IOLOG FILE [PROFILE.toml]`

// A host reads the clock; the core does not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

use freeblock::{
    Bytes, DiskOutput, Duration, Instant, Lbn, LbnRange, Op, Parameter, Priority, Profile, Request,
    RequestId, ScheduledDisk, Sectors, Sessions, Transfer,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

const SECTOR: Bytes = Bytes::new(512);

/// The results of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of requests that were carried out.
    pub requests: u64,
    /// The longest response time.
    pub longest: Duration,
    /// The sum of all response times.
    pub total: Duration,
    /// The number of sectors that the scan has read.
    pub scanned: u64,
}

/// A request of the log.
struct Arrival {
    at: Instant,
    request: Request,
}

/// Returns the requests of an iolog by line number, which is also the order of arrival. The log's times are microseconds.
fn parse(log: &str) -> Result<BTreeMap<RequestId, Arrival>, Box<dyn Error>> {
    let mut lines = log.lines();
    if lines.next() != Some("fio version 3 iolog") {
        return Err("line 1: not `fio version 3 iolog`; write the log with fio 3.31 or later".into());
    }
    let mut requests = BTreeMap::new();
    for (at, line) in (2..).zip(lines) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [time, _, op @ ("read" | "write"), offset, bytes] = fields[..] else { continue };
        let number =
            |field: &str| field.parse::<u64>().map_err(|error| format!("line {at}: {field}: {error}"));
        let nanoseconds = number(time)?.checked_mul(1_000);
        let arrival = nanoseconds.ok_or_else(|| format!("line {at}: {time} us is too late"))?;
        let (first, sectors) = (number(offset)? / SECTOR.get(), number(bytes)?.div_ceil(SECTOR.get()));
        let (id, op) = (RequestId::new(at), if op == "write" { Op::Write } else { Op::Read });
        let range = LbnRange::new(Lbn::new(first), Sectors::new(sectors));
        requests.insert(id, Arrival { at: Instant::from_nanos(arrival), request: Request { id, op, range } });
    }
    Ok(requests)
}

/// Carries out a transfer.
fn carry_out(file: &File, transfer: &mut Transfer) -> io::Result<()> {
    match transfer.op {
        Op::Read => file.read_exact_at(&mut transfer.bytes, transfer.offset.get()),
        Op::Write => file.write_all_at(&transfer.bytes, transfer.offset.get()),
    }
}

/// Replays a log over a file.
pub fn replay(log: &str, path: &Path, profile: Option<&Path>) -> Result<Report, Box<dyn Error>> {
    let requests = parse(log)?;
    let writes = requests.values().any(|arrival| arrival.request.op.is_write());
    let mut file = File::options().read(true).write(writes).open(path)?;
    let all = LbnRange::new(Lbn::ZERO, Sectors::new(file.seek(SeekFrom::End(0))? / SECTOR.get()));
    let mut disk =
        ScheduledDisk::serving(all.len(), SECTOR, profile.map(Profile::read).transpose()?.as_ref())?;
    let scan = disk.open(Priority::default())?;
    disk.read(scan, all, Sectors::new(128), Parameter::default())?;

    let (file, (to_host, completions)) = (Arc::new(file), mpsc::channel());
    let start = std::time::Instant::now();
    let clock = || Duration::try_from(start.elapsed()).map(|since| Instant::ZERO + since);
    let mut report = Report::default();
    let mut arrivals = requests.values().peekable();
    while report.requests < requests.len() as u64 || disk.undelivered(scan) != Some(0) {
        let now = clock()?;
        while let Some(Arrival { request, .. }) = arrivals.next_if(|arrival| arrival.at <= now) {
            let size = if request.op.is_write() { request.range.len().bytes(SECTOR).get() } else { 0 };
            disk.submit(now, *request, vec![0; size.try_into()?])?;
        }
        while let Some(output) = disk.poll(now) {
            match output {
                // The core has at most `OutsideConfig::pass_through` commands at the drive, so that the threads are few.
                DiskOutput::Transfer(mut transfer) => {
                    let (file, to_host) = (file.clone(), to_host.clone());
                    std::thread::spawn(move || {
                        let result = carry_out(&file, &mut transfer);
                        to_host.send((transfer, result))
                    });
                }
                DiskOutput::Answer { id, result } => {
                    result?;
                    let response = now.saturating_since(requests[&id].at);
                    report.requests += 1;
                    report.total += response;
                    report.longest = report.longest.max(response);
                }
                DiskOutput::Block(block) => report.scanned += block.record.range.len().get(),
            }
        }
        let arrival = arrivals.peek().map_or(Instant::MAX, |arrival| arrival.at);
        let wait = arrival.saturating_since(now).min(disk.longest_wait(now));
        let first = completions.recv_timeout(wait.into());
        for (transfer, result) in first.into_iter().chain(completions.try_iter()) {
            disk.done(clock()?, transfer, result.map_err(|_| None));
        }
    }
    Ok(report)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let mut argument = || arguments.next().ok_or("usage: replay IOLOG FILE [PROFILE.toml]");
    let (log, file, profile) = (std::fs::read_to_string(argument()?)?, argument()?, argument().ok());
    println!("{:?}", replay(&log, &file, profile.as_deref())?);
    Ok(())
}
