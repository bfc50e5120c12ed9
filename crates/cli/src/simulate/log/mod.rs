//! `--log`: a row for each request, written to a file while the simulation runs.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;

use crate::problem::Problem;
use drive::Served;
use sim::Finished;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use units::RequestId;

/// The columns, in the order of a row: times in nanoseconds of the simulation, addresses and lengths in sectors of the
/// drive, the number of the drive, from 0, and the number of the request, which the commands that an array makes of it share.
const COLUMNS: [&str; 13] = [
    "arrival_ns",
    "start_ns",
    "completion_ns",
    "op",
    "lbn",
    "sectors",
    "device",
    "cache_hit",
    "served",
    "seek_ns",
    "rotation_ns",
    "transfer_ns",
    "id",
];

/// The format of a log, by the ending of its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Csv,
    Parquet,
}

/// The file of `--log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) format: LogFormat,
}

/// Reads a file's name, whose ending says the format.
pub(crate) fn log_file(text: &str) -> Result<LogFile, String> {
    let path = PathBuf::from(text);
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let format = match ending.as_deref() {
        Some("csv") => LogFormat::Csv,
        Some("parquet") if cfg!(feature = "parquet") => LogFormat::Parquet,
        Some("parquet") => {
            return Err("freeblock was built without Parquet; give FILE.csv, or build it with \
                        `cargo build --release -p freeblock-cli --features parquet`"
                .to_owned());
        }
        _ => return Err("give a file whose name ends in .csv or .parquet".to_owned()),
    };
    Ok(LogFile { path, format })
}

/// A request as a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    arrival_ns: u64,
    start_ns: u64,
    completion_ns: u64,
    op: &'static str,
    lbn: u64,
    sectors: u64,
    device: u32,
    cache_hit: bool,
    served: &'static str,
    seek_ns: u64,
    rotation_ns: u64,
    transfer_ns: u64,
    id: u64,
}

impl Row {
    fn of(drive: u32, request: RequestId, done: &Finished) -> Self {
        let served =
            done.served.unwrap_or(if done.request.op.is_write() { Served::Medium } else { Served::Miss });
        Self {
            arrival_ns: done.arrived.as_nanos(),
            start_ns: done.started.as_nanos(),
            completion_ns: done.at.as_nanos(),
            op: match served {
                Served::Flushed => "flush",
                Served::Discarded => "discard",
                _ if done.request.op.is_write() => "write",
                _ => "read",
            },
            lbn: done.request.range.start().get(),
            sectors: done.request.range.len().get(),
            device: drive,
            cache_hit: matches!(served, Served::Hit | Served::Buffered),
            served: match served {
                Served::Hit => "hit",
                Served::PartialHit => "partial-hit",
                Served::Miss => "miss",
                Served::Buffered => "buffered",
                Served::Medium => "medium",
                Served::Flushed => "flushed",
                Served::Discarded => "discarded",
            },
            seek_ns: done.seek.as_nanos(),
            rotation_ns: done.rotation.as_nanos(),
            transfer_ns: done.transfer.as_nanos(),
            id: request.get(),
        }
    }
}

/// The error of a file's writer.
type WriteError = Box<dyn std::error::Error>;

/// Writes rows in one format, in bounded memory.
trait Writer {
    /// Writes a row.
    fn write(&mut self, row: &Row) -> Result<(), WriteError>;

    /// Writes the rows that are still in memory, and ends the file.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// A log that is being written. After a failure further rows are dropped, and [`check`](Self::check) returns the failure.
pub(crate) struct Log {
    path: PathBuf,
    writer: Box<dyn Writer>,
    failed: Option<WriteError>,
}

impl Log {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn create(LogFile { path, format }: &LogFile) -> Result<Self, Problem> {
        let opened = File::create(path).map_err(WriteError::from);
        let writer = opened.and_then(|file| -> Result<Box<dyn Writer>, WriteError> {
            match format {
                LogFormat::Csv => Ok(Box::new(csv::Csv::begin(file)?)),
                #[cfg(feature = "parquet")]
                LogFormat::Parquet => Ok(Box::new(parquet::Parquet::begin(file)?)),
                #[cfg(not(feature = "parquet"))]
                LogFormat::Parquet => Err("freeblock was built without Parquet".into()),
            }
        });
        let writer = writer.map_err(|error| unwritten(path, &error))?;
        Ok(Self { path: path.clone(), writer, failed: None })
    }

    /// Adds a request, or a command that an array sent to one of its drives for a request.
    pub(crate) fn add(&mut self, drive: u32, request: RequestId, done: &Finished) {
        if self.failed.is_none() {
            self.failed = self.writer.write(&Row::of(drive, request, done)).err();
        }
    }

    /// Checks that no write has failed.
    ///
    /// # Errors
    /// The first failure of a write.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(unwritten(&self.path, error)))
    }

    /// Writes the rows that are still in memory, and ends the file.
    ///
    /// # Errors
    /// The first failure of a write.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        self.check()?;
        self.writer.finish().map_err(|error| unwritten(&self.path, &error))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("path", &self.path).finish_non_exhaustive()
    }
}

fn unwritten(path: &Path, error: &WriteError) -> Problem {
    Problem::failed(format!("cannot write {}: {error}", path.display()))
        .help("name a file in a directory that can be written to and has room")
}
