//! The files of a reorganisation in the state directory: its plan, and the reorganiser's memory, which says where each
//! block is.
//!
//! The memory is a log of the state directory ([`crate::state`]), whose records together are the bytes of the
//! reorganiser's state; a checkpoint rewrites the log. The plan is written once, with the number of its task and a
//! checksum. If the plan or the memory is damaged, the task stops and the LBNs of the plan stay closed to clients,
//! because some blocks are between two places. If the plan may belong to another task, the whole disk stays closed.

use crate::file_system::{Files, How, read_opened, read_whole, write_all};
use crate::state::{Log, LogKind, Scan};
use crate::task::file_request::FileResult;
use crate::task::spec::DiskFacts;
use apps::reorganizer::{Options, Prepared, RecoverError, RelocationPlan, ReorganizeStateError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Sectors;

/// The most blocks of a plan, which bounds the RAM in use: 16 GiB in blocks of 16 KiB, 1 TiB in blocks of 1 MiB.
const MOVED_BLOCKS_MAX: u64 = 1 << 20;

/// The most bytes of a user's plan: lines of 32 bytes for the most moves of a plan and as many free places.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The most bytes of a task's own copy of its plan: a header, and 20 bytes for each move.
pub(crate) const PLAN_BYTES_MAX: u64 = TEXT_BYTES_MAX;

/// The most bytes of a map, the list of where blocks were moved: lines of up to 128 bytes for the most moves of a
/// plan.
pub(crate) const MAP_BYTES_MAX: u64 = 2 * TEXT_BYTES_MAX;

/// The first bytes of a task's own copy of its plan. They are followed by the task's number, its random number, the
/// plan, and a checksum of all before it.
const OWN_PLAN: [u8; 8] = *b"fb-own\0\x01";

/// A task's own copy of its plan, as stored in the state directory.
pub(crate) struct OwnPlan {
    pub plan: RelocationPlan,
    /// The number and the random number of the task; `None` in a copy of an earlier version.
    task: Option<(u64, u64)>,
}

impl OwnPlan {
    fn encode(&self) -> Vec<u8> {
        let plan = self.plan.encode();
        let Some((id, number)) = self.task else { return plan };
        let mut bytes = OWN_PLAN.to_vec();
        bytes.extend([id, number].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(plan);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let plan = |bytes: &[u8]| RelocationPlan::decode(bytes).map_err(|error| error.to_string());
        let Some(own) = bytes.strip_prefix(&OWN_PLAN) else {
            return Ok(Self { plan: plan(bytes)?, task: None });
        };
        let parts = bytes.split_last_chunk::<4>().zip(own.split_first_chunk::<8>());
        let parts = parts.and_then(|((body, check), (id, rest))| {
            let (number, rest) = rest.split_first_chunk::<8>()?;
            let (plan, _) = rest.split_last_chunk::<4>()?;
            let sound = crc32fast::hash(body) == u32::from_le_bytes(*check);
            sound.then_some((u64::from_le_bytes(*id), u64::from_le_bytes(*number), plan))
        });
        let (id, number, bytes) = parts.ok_or("the file's checksum does not match")?;
        Ok(Self { plan: plan(bytes)?, task: Some((id, number)) })
    }

    /// Decodes the plan of task `id`; `number` is the task's random number, if that is known.
    pub fn of(bytes: &[u8], id: u64, number: Option<u64>) -> Result<Self, String> {
        let own = Self::decode(bytes)?;
        match own.task {
            Some((other, _)) if other != id => Err(format!("the file is the plan of task {other}")),
            Some((_, other)) if number.is_some_and(|number| number != other) => {
                Err(format!("the file is the plan of task {id} of another disk or state directory"))
            }
            _ => Ok(own),
        }
    }
}

/// The files of one reorganisation.
pub(crate) struct Moves {
    files: Arc<dyn Files>,
    /// The start of the files' paths in the state directory: `task-N.`.
    state: PathBuf,
    id: u64,
    /// The task's random number.
    number: u64,
    /// The log of the reorganiser's memory; `None` before it is first written, and after a failure.
    memory: Option<Log>,
}

impl Moves {
    pub fn new(files: Arc<dyn Files>, state: &Path, id: u64, number: u64) -> Self {
        Self { files, state: state.into(), id, number, memory: None }
    }

    fn path(&self, what: &str) -> PathBuf {
        self.state.join(format!("task-{}.{what}", self.id))
    }

    /// Opens the plan, from the task's own copy or a user's file, and the reorganiser's memory.
    ///
    /// `begun` is the number of records that the memory must have at least, if the journal knows of it.
    ///
    /// Slow work is done here, because this runs outside the disk's event loop.
    pub fn open(
        &self,
        plan: &Path,
        block: Sectors,
        disk: &DiskFacts,
        staging: u64,
        begun: Option<u64>,
        unnumbered: bool,
    ) -> Result<FileResult, FileResult> {
        let (begun, records) = (begun.is_some(), begun.unwrap_or(0));
        let own = self.path("plan");
        let trouble = |path: &Path, e: io::Error| FileResult::Trouble(format!("{}: {e}", path.display()));
        let damaged = |why: String, places: Option<Vec<Range<u64>>>| {
            let why = format!(
                "{why}; blocks are between two places, so nothing is moved and the places stay closed: put the file back, or \
                 restore the disk after `freeblock repair`"
            );
            FileResult::Damaged { why, places }
        };
        let copy = match read_whole(&*self.files, &own, PLAN_BYTES_MAX) {
            Err(error) if begun => return Err(damaged(format!("{}: {error}", own.display()), None)),
            read => read.map_err(|e| trouble(&own, e))?,
        };
        let task = Some((self.id, self.number));
        let OwnPlan { plan, task: known } = match copy {
            Some(copy) => match OwnPlan::of(&copy, self.id, Some(self.number)) {
                Err(error) if begun => return Err(damaged(format!("{}: {error}", own.display()), None)),
                Ok(found) if begun && found.task.is_none() && !unnumbered => {
                    let why = format!("{}: the plan has no number of a task", own.display());
                    return Err(damaged(why, None));
                }
                Ok(found) if !begun && found.task.is_none() => {
                    let found = OwnPlan { task, ..found };
                    self.replace(&own, &found.encode()).map_err(|e| trouble(&own, e))?;
                    found
                }
                decoded => decoded.map_err(|error| {
                    FileResult::Refused(format!(
                        "{}: {error}; nothing was moved, so begin the task anew",
                        own.display()
                    ))
                })?,
            },
            None if begun => return Err(damaged(format!("{}: the file is gone", own.display()), None)),
            None => {
                let refused = |why: String| FileResult::Refused(format!("{}: {why}", plan.display()));
                let text = self.text(plan).map_err(|e| refused(e.to_string()))?;
                let read = RelocationPlan::from_text(&text, block, disk.capacity, MOVED_BLOCKS_MAX);
                let read = OwnPlan { plan: read.map_err(|e| refused(e.to_string()))?, task };
                self.replace(&own, &read.encode()).map_err(|e| trouble(&own, e))?;
                read
            }
        };
        let memory = self.path("moves");
        // Until the journal records that the task has begun, clients may write to the plan's LBNs, so bytes that were
        // read before are outdated after a restart. No block was overwritten until then, so the task begins anew.
        let places = places(&plan);
        // A plan that does not name its task counts only together with a reorganiser's memory of the same plan.
        let closed = || known.map(|_| places.clone());
        let state = match begun {
            true => self.memory(&memory, records).map_err(|why| damaged(why, closed()))?,
            false => Vec::new(),
        };
        let mut options = Options { staging, ..Options::default() };
        let prepared = loop {
            let prepared = match state.is_empty() {
                true => Prepared::fresh(&plan, options, disk.sector_bytes).map_err(RecoverError::from),
                false => Prepared::recovered(&plan, &state, options, disk.sector_bytes),
            };
            match prepared {
                // The staging area was larger in an earlier run.
                Err(RecoverError::State(ReorganizeStateError::StagingShrunk { needed, .. }))
                    if needed > options.staging =>
                {
                    options.staging = needed;
                }
                Err(error) if begun => {
                    let why = format!("{}: {error}", memory.display());
                    return Err(damaged(why, closed()));
                }
                other => break other.map_err(|e| FileResult::Refused(e.to_string()))?,
            }
        };
        Ok(FileResult::Moves { plan: Box::new(prepared), places })
    }

    /// Returns the bytes of the reorganiser's memory; an error if it does not exist or has fewer than `records`
    /// records.
    fn memory(&self, path: &Path, records: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = Scan::read(&*self.files, path, LogKind::Moves, Some(self.id), |body| {
            bytes.extend(body);
            true
        });
        match read {
            Ok(Some(scan)) => match scan.older_than(records) {
                Some(damage) => Err(format!("{}: {damage}", path.display())),
                None => Ok(bytes),
            },
            Ok(None) => Err(format!("{}: the file is gone", path.display())),
            Err(broken) => Err(broken.to_string()),
        }
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        let mut file = self.files.open_named(path, How::Read)?;
        let len = file.len()?;
        if len > TEXT_BYTES_MAX {
            let why =
                format!("{len} bytes; give a plan of at most {TEXT_BYTES_MAX}, and the rest in another");
            return Err(io::Error::other(why));
        }
        let bytes = read_opened(&mut *file, TEXT_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("the file is no text; give a plan"))
    }

    /// Replaces the file durably, and as a whole.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = self.files.open(&new, How::Make)?;
        file.set_len(0)?;
        write_all(&mut *file, 0, bytes)?;
        file.sync()?;
        self.files.rename(&new, path)
    }

    pub fn remember(&mut self, mark: u64, bytes: &[u8], replace: bool) -> Option<FileResult> {
        let path = self.path("moves");
        let files = &*self.files;
        let done = match (replace, self.memory.take()) {
            (true, Some(mut log)) => log.replace(files, bytes, &[]).map(|()| log),
            (true, None) => self.begin(&path, bytes),
            (false, Some(mut log)) => log.append(bytes, &[]).map(|()| log),
            (false, None) => Err(io::Error::other("the record before could not be written")),
        };
        Some(match done {
            Ok(log) => {
                let records = log.records();
                self.memory = Some(log);
                FileResult::Synced { mark, saved: Vec::new(), records }
            }
            Err(error) => {
                FileResult::Trouble(format!("{}: {error}; make room, and the task goes on", path.display()))
            }
        })
    }

    /// Creates the log of the reorganiser's memory, or rewrites an existing one.
    fn begin(&self, path: &Path, bytes: &[u8]) -> io::Result<Log> {
        let files = &*self.files;
        // An unreadable log was not needed when the task was opened, so no block had been moved.
        if let Ok(Some(scan)) = Scan::read(files, path, LogKind::Moves, Some(self.id), |_| true) {
            let mut log = Log::resume(files, path, LogKind::Moves, scan)?;
            log.replace(files, bytes, &[])?;
            return Ok(log);
        }
        Log::create(files, path, LogKind::Moves, self.id, bytes, &[])
    }

    pub fn map(&self, map: &[u8]) -> Option<FileResult> {
        let path = self.path("map");
        let mut map = map.to_vec();
        let check = crc32fast::hash(&map);
        map.extend(format!("# crc32 of the lines above: {check:08x}\n").as_bytes());
        Some(match self.replace(&path, &map) {
            Ok(_) => FileResult::Synced { mark: u64::MAX, saved: Vec::new(), records: 0 },
            Err(error) => {
                FileResult::Trouble(format!("{}: {error}; make room, and the task goes on", path.display()))
            }
        })
    }

    pub fn forget(&mut self) {
        self.memory = None;
        // A file that stays does no harm, because a task's number is never used again.
        let _ = Log::remove(&*self.files, &self.path("moves"));
        let _ = self.files.remove(&self.path("plan"));
    }
}

/// Returns all ranges of LBNs that a plan reads or writes, merged and sorted.
fn places(plan: &RelocationPlan) -> Vec<Range<u64>> {
    let both = |m: apps::reorganizer::Move| {
        let sectors = m.from.len().get();
        [m.from.start().get(), m.to.get()].map(|first| first..first.saturating_add(sectors))
    };
    let mut all: Vec<Range<u64>> = plan.moves().flat_map(both).collect();
    all.sort_unstable_by_key(|place| (place.start, place.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for place in all {
        match merged.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}
