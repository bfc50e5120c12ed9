//! Replays an iolog of fio (version 3, `write_iolog`) in real time over a file or a disk, with a scan of the whole file beside it.
//! Writes of the log are carried out with zeros, and overwrite the file.
//!
//! `cargo run --release --package freeblock --example replay -- IOLOG FILE [PROFILE.toml]`

// A host reads the clock; the core does not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

use freeblock::{
    Bytes, Command, Commands, Config, DriveModel, Duration, IdleTime, Instant, Lbn, LbnRange, Op, Outcome,
    Output, OutsideConfig, OutsideDrive, Overheads, Parameter, Priority, Profile, Request, RequestId,
    Sectors, Sessions,
};
use std::error::Error;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

const SECTOR: Bytes = Bytes::new(512);

/// The number of threads that read and write, and with it of commands that the kernel has at once.
const WORKERS: usize = 8;

/// The results of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// The requests that were carried out.
    pub requests: u64,
    /// The longest response time.
    pub longest: Duration,
    /// The sum of all response times.
    pub total: Duration,
    /// The sectors that the scan has read.
    pub scanned: u64,
}

/// The arrival, the direction and the place of a request.
type Arrival = (Instant, Op, LbnRange);

/// Returns the requests of an iolog by arrival. Its times are microseconds.
fn parse(log: &str) -> Result<Vec<Arrival>, Box<dyn Error>> {
    let mut lines = log.lines();
    if lines.next() != Some("fio version 3 iolog") {
        return Err("line 1: not `fio version 3 iolog`; write the log with fio 3.31 or later".into());
    }
    let mut requests = Vec::new();
    for (at, line) in (2..).zip(lines) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (time, op, offset, bytes) = match fields[..] {
            [time, _, "read", offset, bytes] => (time, Op::Read, offset, bytes),
            [time, _, "write", offset, bytes] => (time, Op::Write, offset, bytes),
            _ => continue,
        };
        let number =
            |field: &str| field.parse::<u64>().map_err(|error| format!("line {at}: {field}: {error}"));
        let (first, sectors) = (number(offset)? / SECTOR.get(), number(bytes)?.div_ceil(SECTOR.get()));
        let arrival =
            number(time)?.checked_mul(1_000).ok_or_else(|| format!("line {at}: {time} us is too late"))?;
        requests.push((
            Instant::from_nanos(arrival),
            op,
            LbnRange::new(Lbn::new(first), Sectors::new(sectors)),
        ));
    }
    Ok(requests)
}

/// Carries out a command.
fn transfer(file: &File, command: &Command) -> io::Result<()> {
    let size = command.range.len().bytes(SECTOR).get();
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let offset = command.range.start().get() * SECTOR.get();
    match command.op {
        Op::Read => file.read_exact_at(&mut bytes, offset),
        Op::Write => file.write_all_at(&bytes, offset),
    }
}

/// Replays a log over a file.
pub fn replay(log: &str, path: &Path, profile: Option<&Path>) -> Result<Report, Box<dyn Error>> {
    let requests = parse(log)?;
    let writes = requests.iter().any(|(_, op, _)| op.is_write());
    let mut file = File::options().read(true).write(writes).open(path)?;
    let all = LbnRange::new(Lbn::ZERO, Sectors::new(file.seek(SeekFrom::End(0))? / SECTOR.get()));
    // Without a profile of the drive only the size is known, and only idle time is used.
    let (drive, outside) = match profile.map(Profile::read).transpose()? {
        Some(profile) => {
            let drive = DriveModel::from_profile(&profile)?;
            let overheads = profile.firmware.as_ref().map(|firmware| Overheads::of(firmware, &drive, true));
            (drive, OutsideConfig::beyond(overheads.unwrap_or_default()))
        }
        None => (DriveModel::unknown(all.len(), SECTOR)?, OutsideConfig::blind()),
    };
    let config = Config::outside(outside.serving()).with_idle(Some(IdleTime::default()));
    let mut core = OutsideDrive::try_new(drive.into(), config)?;
    let scan = core.open(Priority::default())?;
    core.read(scan, all, Sectors::new(128), Parameter::default())?;

    let (to_workers, queue) = mpsc::channel::<Command>();
    let (to_host, completions) = mpsc::channel();
    let (queue, file) = (Arc::new(Mutex::new(queue)), Arc::new(file));
    for _ in 0..WORKERS {
        let (queue, file, to_host) = (queue.clone(), file.clone(), to_host.clone());
        // A worker ends when the host has dropped its end of a channel.
        std::thread::spawn(move || {
            let next = || queue.lock().ok()?.recv().ok();
            while let Some(command) = next() {
                let result = transfer(&file, &command);
                if to_host.send((command, result)).is_err() {
                    break;
                }
            }
        });
    }

    let start = std::time::Instant::now();
    let clock = || Duration::try_from(start.elapsed()).map(|since| Instant::ZERO + since);
    let (mut commands, mut report) = (Commands::default(), Report::default());
    let mut arrivals = requests.iter().enumerate().peekable();
    while report.requests < requests.len() as u64 || core.undelivered(scan) != Some(0) {
        let now = clock()?;
        while let Some((at, (_, op, range))) = arrivals.next_if(|(_, (arrival, ..))| *arrival <= now) {
            core.submit(now, Request { id: RequestId::new(at as u64), op: *op, range: *range })?;
        }
        while let Some(output) = core.poll(now) {
            match output {
                Output::Do(command) => commands.push(command),
                Output::Completed(id) => {
                    let response = now.saturating_since(requests[id.get() as usize].0);
                    report.requests += 1;
                    report.total += response;
                    report.longest = report.longest.max(response);
                }
                Output::Failed { id, bad } => return Err(format!("{id} failed at LBN {bad}").into()),
                Output::Deliver(record) => report.scanned += record.range.len().get(),
            }
        }
        while let Some(command) = commands.next() {
            to_workers.send(command)?;
        }
        let arrival = arrivals.peek().map(|(_, (arrival, ..))| *arrival);
        let until = [arrival, core.wake_at()].into_iter().flatten().min();
        let wait = until.map_or(Duration::from_secs(1), |at| at.saturating_since(now));
        let first = completions.recv_timeout(wait.into());
        for (command, result) in first.into_iter().chain(completions.try_iter()) {
            commands.done(command.id);
            let failed = Outcome::NoData(command.range.start());
            core.command_done(clock()?, command.id, if result.is_ok() { Outcome::Done } else { failed });
        }
    }
    Ok(report)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let [_, log, file, profile @ ..] = &arguments[..] else {
        return Err("usage: replay IOLOG FILE [PROFILE.toml]".into());
    };
    let log = std::fs::read_to_string(log)?;
    let report = replay(&log, file.as_ref(), profile.first().map(Path::new))?;
    println!("{report:?}");
    Ok(())
}
