//! `freeblock repair`: the readable content of a disk's state directory, and an operator's decisions about it.
//!
//! The daemon repairs nothing by itself. While no daemon uses the directory, [`inspect`] reads all of it and changes
//! nothing, and [`mend`] applies an operator's choice: it writes a new journal from the readable content. Damaged files
//! stay beside the new ones.

use crate::file_system::{Files, How, Machine, put_aside, read_whole};
use crate::files::sums;
use crate::files::workers::{OpenError, lock};
use crate::files::{MAP_BYTES_MAX, OwnPlan, PLAN_BYTES_MAX, SUMS_END};
use crate::jobs::needed_files;
use crate::runtime::random_seed;
use crate::state::{End, Log, LogKind, Scan, end_path};
use crate::task::journal::{self, Damaged, Journal, JournalError, Note, journal_path, marker_path};
use crate::task::spec::{DiskFacts, TaskKind};
use crate::task::table::{Closed, Event, Table, TaskState};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why a state directory was not inspected, or not mended. The directory is unchanged, unless the error says
/// otherwise.
#[derive(Debug, Error)]
pub enum RepairError {
    /// No such directory exists.
    #[error("{}: no state directory of a disk is there; give the daemon's, and the disk's name", .0.display())]
    None(PathBuf),
    /// A daemon uses the directory.
    #[error("{}: {error}", .place.display())]
    Open {
        /// The directory.
        place: PathBuf,
        /// The reason.
        error: OpenError,
    },
    /// The journal cannot be read by this program.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operator's choice does not fit the state of the directory.
    #[error("{0}")]
    Choice(String),
    /// A file could not be written or moved. The directory may be half mended, and still counts as damaged.
    #[error("{}: {error}; make room, or the directory writable, and repair again", .place.display())]
    Write {
        /// The directory.
        place: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// An operator's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Begin with an empty journal, and put the old journal aside.
    pub begin_anew: bool,
    /// Give up the damaged parts: a new journal holds the readable content, and unfinished tasks are failed.
    pub give_up: bool,
    /// Tasks to fail.
    pub fail: Vec<u64>,
    /// Open the areas of the disk that are closed to clients.
    pub open: bool,
}

impl Choice {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A file of the state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The file's name.
    pub name: String,
    /// Whether the content is sound; `None` if this program cannot tell.
    pub sound: Option<bool>,
    /// The state of the file, in words.
    pub standing: String,
}

/// A task, as far as the directory shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// The task's number.
    pub id: u64,
    /// The task's kind.
    pub kind: String,
    /// The task's state.
    pub state: TaskState,
    /// The reason for the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of blocks done.
    pub done: u64,
    /// The number of blocks in all.
    pub blocks: u64,
}

/// The readable content of a state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The directory.
    pub place: PathBuf,
    /// Why all tasks are stopped, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// The directory's files.
    pub files: Vec<FileReport>,
    /// The known tasks.
    pub tasks: Vec<TaskReport>,
    /// The highest task number known to be used.
    pub used: u64,
    /// Whether numbers above `used` may have been used, too.
    pub more_used: bool,
    /// The accesses to the disk that are closed to clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The actions of [`mend`], in words.
    pub done: Vec<String>,
}

impl Report {
    /// Returns whether an operator has to decide before tasks continue.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some() || self.files.iter().any(|file| file.sound == Some(false))
    }
}

/// Returns the state directories of a daemon's disks.
///
/// # Errors
/// The daemon's directory cannot be read.
pub fn disks(state: &Path) -> Result<Vec<PathBuf>, RepairError> {
    let none = |_| RepairError::None(state.into());
    let names = Machine::default().list(state).map_err(none)?;
    let of_a_disk = |path: &PathBuf| {
        let has = |name: &str| path.join(name).symlink_metadata().is_ok();
        path.is_dir()
            && ["lock", "tasks.journal", "tasks.journal.end", "damaged", "learnt"].into_iter().any(has)
    };
    Ok(names.into_iter().map(|name| state.join(name)).filter(of_a_disk).collect())
}

/// Returns the state directories that belong to no disk in `names` although tasks or clients depend on them, each with
/// the reason.
pub fn unused(state: &Path, names: &BTreeSet<&str>) -> Vec<(PathBuf, String)> {
    let mut unused = Vec::new();
    for place in disks(state).unwrap_or_default() {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if names.contains(&*name) {
            continue;
        }
        let why = match journal::read(&Machine::default(), &place) {
            Ok(Journal { damage: Some(damage), .. }) => damage.why,
            Ok(Journal { table, .. }) => {
                let live = table.iter().filter(|(_, entry)| !entry.state.is_over()).map(|(id, _)| id);
                match (live.collect::<Vec<_>>().as_slice(), table.closed()) {
                    ([], None) if table.sums().is_none() => continue,
                    ([], None) => {
                        "the disk has checksums, and writes under another name are not noted in them"
                            .to_owned()
                    }
                    ([], Some(_)) => "the disk is closed to clients".to_owned(),
                    (ids, _) => format!("tasks {ids:?} are not over"),
                }
            }
            Err(error) => error.to_string(),
        };
        unused.push((place, format!("{why}; give the disk its name {name} again, or remove the directory")));
    }
    unused
}

/// Stops the tasks, and invalidates the checksums, that belong to the same disk under its former names: from here on
/// clients write to the disk without updating these. Returns the state directory of each such name, with the reason
/// that was noted in it.
pub fn leave_other_names(state: &Path, disk: &DiskFacts) -> Vec<(PathBuf, String)> {
    let others = disks(state).unwrap_or_default().into_iter().filter(|place| !place.ends_with(&disk.name));
    let left = others.filter_map(|place| {
        // A locked directory belongs to a disk that is being served.
        let _lock = lock(&place).ok()?;
        let why = leave_name(&Machine::default(), &place, disk)?;
        Some((place, why))
    });
    left.collect()
}

/// Returns whether `before`, as a journal records a disk, means this disk, perhaps under another path.
fn is_this(files: &dyn Files, before: &str, disk: &DiskFacts) -> bool {
    let Some(now) = disk.device.as_deref() else { return false };
    // A disk without a serial number is recorded as a path and the inode of the file there.
    let parts = |place| str::rsplit_once(place, " (inode ").unwrap_or((place, ""));
    let ((path, inode), (_, inode_now)) = (parts(before), parts(now));
    let is_there = || disk.own.iter().any(|own| files.is_same(Path::new(path), own));
    before == now || (path.starts_with('/') && inode == inode_now && is_there())
}

/// Stops the tasks and invalidates the checksums of the former name whose state directory is `place`; returns the
/// reason, or `None` if nothing has changed.
pub(crate) fn leave_name(files: &dyn Files, place: &Path, disk: &DiskFacts) -> Option<String> {
    let Journal { table, damage: None } = journal::read(files, place).ok()? else { return None };
    if disk.read_only || !table.device().is_some_and(|before| is_this(files, before, disk)) {
        return None;
    }
    let live: Vec<u64> = table.live().map(|(id, _)| id).collect();
    let now = &disk.name;
    let (why, noted) = match table.sums() {
        _ if !live.is_empty() => {
            let why = format!("the disk of tasks {live:?} was served under the name {now}");
            let noted = journal::mark(files, place, &why);
            (format!("{why}: the tasks are stopped"), noted.map(|()| true))
        }
        Some(store) => {
            let why =
                format!("the disk is served under the name {now}: the checksums of this name are given up");
            (why, sums::leave(files, place, store.id))
        }
        None => return None,
    };
    match noted {
        Ok(true) => Some(why),
        // The reason was noted before.
        Ok(false) => None,
        Err(error) => Some(format!("{why}, but that cannot be noted: {error}; remove the directory")),
    }
}

/// Reads all of a disk's state directory, and changes nothing.
///
/// # Errors
/// `state` is no directory, a daemon uses it, or the journal is of another version.
pub fn inspect(state: &Path) -> Result<Report, RepairError> {
    let _lock = begin(state)?;
    report(&Machine::default(), state, &journal::read(&Machine::default(), state)?)
}

/// Applies an operator's choice.
///
/// # Errors
/// The errors of [`inspect`]; the choice does not fit the state; or a file cannot be written.
pub fn mend(state: &Path, choice: &Choice, unix_s: u64) -> Result<Report, RepairError> {
    let _lock = begin(state)?;
    let seed = random_seed().map_err(|error| RepairError::Write { place: state.into(), error })?;
    mend_with(&Machine::default(), state, choice, unix_s, seed as u64)
}

fn begin(state: &Path) -> Result<std::fs::File, RepairError> {
    if !state.is_dir() {
        return Err(RepairError::None(state.into()));
    }
    lock(state).map_err(|error| RepairError::Open { place: state.into(), error })
}

pub(crate) fn report(files: &dyn Files, state: &Path, journal: &Journal) -> Result<Report, RepairError> {
    let names = files.list(state).map_err(|_| RepairError::None(state.into()))?;
    let Journal { table, damage } = journal;
    let mut reports: Vec<FileReport> =
        names.iter().filter_map(|name| file(files, state, name, &names, table)).collect();
    if damage.is_none() {
        let gone = missing(table).filter(|(name, _)| !reports.iter().any(|report| report.name == *name));
        let gone = gone.map(|(name, standing)| FileReport { name, sound: Some(false), standing });
        let gone: Vec<FileReport> = gone.collect();
        reports.extend(gone);
    }
    let tasks = table.iter().map(|(id, entry)| TaskReport {
        id,
        kind: entry.spec.kind.to_string(),
        state: entry.state,
        reason: entry.reason.clone(),
        done: entry.figures.done,
        blocks: entry.figures.blocks,
    });
    Ok(Report {
        place: state.into(),
        damage: damage.as_ref().map(|damage| damage.why.clone()),
        files: reports,
        tasks: tasks.collect(),
        used: table.next_id() - 1,
        more_used: damage.as_ref().is_some_and(|damage| !damage.numbered),
        closed: damage.as_ref().map_or_else(|| Note::of(table).closes(), |damage| damage.closed),
        done: Vec::new(),
    })
}

/// Returns the files that must exist according to the journal, each with the text to show if it does not.
fn missing(table: &Table) -> impl Iterator<Item = (String, String)> {
    let of_tasks = table.iter().filter(|(_, entry)| !entry.state.is_over()).flat_map(|(id, entry)| {
        let kind = entry.spec.kind;
        needed_files(kind, &entry.saved, &entry.figures).iter().map(move |end| {
            let why = match kind {
                TaskKind::Reorganize => {
                    "blocks are between two places, which stay closed: put the file back, or restore the disk"
                }
                _ => "bytes that clients have overwritten since are lost, and the task fails",
            };
            (format!("task-{id}.{end}"), format!("the file is gone, and {kind} {id} needs it; {why}"))
        })
    });
    let of_map = table.iter().filter_map(|(id, entry)| {
        let name = format!("task-{id}.map");
        let is_named = entry.reason.as_ref().is_some_and(|reason| reason.contains(&name));
        is_named.then(|| {
            (
                name,
                format!(
                    "the file is gone, and nothing else says where the blocks of {} {id} are",
                    entry.spec.kind
                ),
            )
        })
    });
    let of_sums = table.sums().map(|_| {
        let why = "the file is gone; the sums of this disk are not believed, and a scrub with checksums is refused until --force \
                   records all anew";
        (SUMS_END.to_owned(), why.to_owned())
    });
    of_tasks.chain(of_map).chain(of_sums)
}

/// Returns the state of a file. The end file of a log is reported with the log.
fn file(files: &dyn Files, state: &Path, name: &str, names: &[String], table: &Table) -> Option<FileReport> {
    let path = state.join(name);
    let task = |suffix: &str| {
        let number = name.strip_prefix("task-")?.strip_suffix(suffix)?.parse::<u64>();
        number.ok()
    };
    let aside = name.contains(".damaged");
    // The checksum store is outside the state directory, so its end file is reported alone.
    let end_of = name.strip_suffix(".end").filter(|_| name != SUMS_END);
    let is_there = |log: &str| names.iter().any(|name| name == log);
    // `lock` has no content. A `lock` that is no regular file was refused before.
    if end_of.is_some_and(is_there) || name == "lock" {
        return None;
    }
    let listed = path.clone();
    let opened = |text: &str| match files.open(&listed, How::Read) {
        Ok(_) => (None, text.to_owned()),
        Err(error) => (Some(false), format!("the file cannot be read: {error}")),
    };
    if name.ends_with(".new") {
        // A `.new` file is the unfinished replacement of another file; the next replacement overwrites it.
        let (sound, standing) = opened("");
        return sound.map(|_| FileReport { name: name.into(), sound, standing });
    }
    // If only the end file of a log exists, it is reported under the log's name.
    let name = end_of.filter(|_| !aside).unwrap_or(name);
    let path = if names.iter().any(|there| there == name) { path } else { state.join(name) };
    let log = |kind, journaled| match Scan::read(files, &path, kind, None, |_| true) {
        Ok(Some(scan)) => match (scan.older_than(journaled), scan.torn) {
            (Some(damage), _) => (Some(false), format!("{}: {damage}", path.display())),
            (None, 0) => (Some(true), format!("sound; {} records were acknowledged", scan.acknowledged())),
            (None, torn) => (
                Some(true),
                format!("sound; its last {torn} bytes were torn by a power cut and never acknowledged"),
            ),
        },
        Ok(None) => (Some(true), "nothing was ever acknowledged in it".into()),
        Err(broken) => (Some(false), broken.to_string()),
    };
    let id = |suffix| task(suffix).or_else(|| task(&format!("{suffix}.end")));
    let entry = task_of(name).and_then(|id| table.get(id)).filter(|entry| !entry.state.is_over());
    let journaled = entry.map_or(0, |entry| entry.figures.records);
    let (sound, standing) = if aside {
        (None, "a damaged file that was put aside; remove it when it is of no use any more".into())
    } else if name == "tasks.journal" {
        log(LogKind::Tasks, 0)
    } else if name == "damaged" {
        (Some(false), journal::marker(files, state).unwrap_or_default())
    } else if name == SUMS_END {
        match End::check(files, &path, LogKind::Sums) {
            Ok(()) => (Some(true), "sound; it is the end of a checksum store".into()),
            Err(damage) => (
                Some(false),
                format!(
                    "{damage}; the sums of this disk are not believed, and a scrub with checksums is refused until --force \
                     records all anew"
                ),
            ),
        }
    } else if id(".kept").is_some() || name.ends_with(".kept") {
        log(LogKind::Kept, journaled)
    } else if name.ends_with(".moves") {
        log(LogKind::Moves, journaled)
    } else if name.ends_with(".plan") {
        checked(files, &path, PLAN_BYTES_MAX, |bytes| {
            let id = task(".plan").ok_or("the file is not named after a task")?;
            OwnPlan::of(bytes, id, table.get(id).map(|entry| entry.image)).map(drop)
        })
    } else if name.ends_with(".map") {
        checked(files, &path, MAP_BYTES_MAX, |bytes| match map_is_sound(bytes) {
            true => Ok(()),
            false => Err("the file's last line is not the checksum of those before".into()),
        })
    } else if name.starts_with("learnt") {
        opened("predictions only; the daemon checks it when it starts")
    } else if name.starts_with("probe") {
        opened("measurements of a probe; the daemon checks them when it starts")
    } else if name == "profile.toml" {
        opened("the profile that a probe has found; the daemon checks it when it starts")
    } else {
        (None, "no file of this version".into())
    };
    Some(FileReport { name: name.into(), sound, standing })
}

/// Returns the number of the task that a file is named after.
fn task_of(name: &str) -> Option<u64> {
    name.strip_prefix("task-")?.split('.').next()?.parse().ok()
}

/// Reads a whole file and checks its content.
fn checked(
    files: &dyn Files,
    path: &Path,
    bytes_max: u64,
    check: impl FnOnce(&[u8]) -> Result<(), String>,
) -> (Option<bool>, String) {
    let read =
        read_whole(files, path, bytes_max).map_err(|error| format!("the file cannot be read: {error}"));
    match read.and_then(|bytes| check(&bytes.ok_or("the file is gone")?)) {
        Ok(()) => (Some(true), "sound".into()),
        Err(why) => (Some(false), why),
    }
}

/// Returns whether the last line of a map is the checksum of the lines before it. Every line must end with a newline.
pub(crate) fn map_is_sound(map: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(map) else { return false };
    let Some((lines, last)) = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n')) else {
        return false;
    };
    let check = crc32fast::hash(format!("{lines}\n").as_bytes());
    last == format!("# crc32 of the lines above: {check:08x}")
}

pub(crate) fn mend_with(
    files: &dyn Files,
    state: &Path,
    choice: &Choice,
    unix_s: u64,
    seed: u64,
) -> Result<Report, RepairError> {
    let written = |error| RepairError::Write { place: state.into(), error };
    let journal = match journal::read(files, state) {
        Err(JournalError::Version { place, found }) if choice.begin_anew => {
            let why = format!("{place}: the journal is of {found}");
            let damage = Damaged { why, closed: Some(Closed::All), numbered: false };
            Journal { damage: Some(damage), ..Journal::default() }
        }
        read => read?,
    };
    check(choice, &journal)?;
    let mut done = Vec::new();
    let Journal { table, damage } = &journal;
    let mut next = if choice.begin_anew { Default::default() } else { table.clone() };
    let closed = damage.as_ref().map_or_else(|| Note::of(table).closes(), |damage| damage.closed);
    let mut stays = if damage.is_some() || choice.begin_anew { closed } else { table.closed() };
    next.has_used(table.next_id() - 1);
    if damage.as_ref().is_some_and(|damage| !damage.numbered) {
        // Tasks are numbered from the clock, and never more than one a second was started.
        next.has_used(unix_s);
        // The clock may be wrong, so the numbers in the names of files count, too.
        files
            .list(state)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| task_of(name))
            .for_each(|id| next.has_used(id));
        done.push(format!(
            "new tasks are numbered from {}, because it is not known which were used",
            next.next_id()
        ));
    }
    let lives =
        next.iter().filter(|(_, entry)| !entry.state.is_over()).map(|(id, entry)| (id, entry.spec.kind));
    for (id, kind) in lives.collect::<Vec<_>>() {
        if !choice.give_up && !choice.fail.contains(&id) {
            continue;
        }
        let one = Note { writes: 0, moves: 0, closed: None, used: 0 };
        let one = match kind {
            crate::task::spec::TaskKind::Restore => Note { writes: id, ..one },
            crate::task::spec::TaskKind::Reorganize => Note { moves: id, ..one },
            _ => one,
        };
        stays = stays.max(one.closes());
        let why = damage.as_ref().map_or("an operator gave it up", |damage| damage.why.as_str());
        let reason = Some(format!("{why} (`freeblock repair`)"));
        next.apply(Event::State { id, state: TaskState::Failed, reason, at: unix_s.saturating_mul(1_000) });
        done.push(format!("{kind} {id} is failed"));
    }
    if damage.is_some() && next.sums().is_some() {
        next.apply(Event::Sums { store: None });
        done.push(
            "the checksums of the disk are given up: clients have written without their being forgotten"
                .into(),
        );
    }
    if choice.open && stays.take().is_some() {
        done.push("the disk is open to clients".into());
    }
    next.apply(Event::Closed { closed: stays });
    let path = journal_path(state);
    if damage.is_some() || choice.begin_anew {
        // From here until the end of the repair the directory counts as damaged, even after a crash.
        let why = damage.as_ref().map_or("a repair was not completed", |damage| damage.why.as_str());
        journal::mark(files, state, why).map_err(written)?;
        for old in [path.clone(), end_path(&path)] {
            if let Some(aside) = put_aside(files, &old).map_err(written)? {
                done.push(format!("{} is now {}", old.display(), aside.display()));
            }
        }
    }
    let (body, note) = (journal::encode(&next.events()), Note::of(&next).encode());
    let log = match Scan::read(files, &path, LogKind::Tasks, None, |_| true) {
        Ok(Some(scan)) => Log::resume(files, &path, LogKind::Tasks, scan)
            .and_then(|mut log| log.replace(files, &body, &note)),
        Ok(None) => Log::create(files, &path, LogKind::Tasks, seed, &body, &note).map(drop),
        Err(broken) => Err(io::Error::other(broken)),
    };
    log.map_err(written)?;
    let marker = marker_path(state);
    if let Some(aside) = put_aside(files, &marker).map_err(written)?
        && let Err(error) = files.remove(&aside)
    {
        // The marker may be a directory, for example. Under its new name it marks nothing.
        done.push(format!(
            "{} is now {}, because it cannot be removed: {error}",
            marker.display(),
            aside.display()
        ));
    }
    let mut report = report(files, state, &journal::read(files, state)?)?;
    report.done = done;
    Ok(report)
}

/// Checks that a choice fits the state.
fn check(choice: &Choice, journal: &Journal) -> Result<(), RepairError> {
    let refuse = |why: String| Err(RepairError::Choice(why));
    if choice.is_none() {
        return refuse("say what is to be done".into());
    }
    if journal.damage.is_some() && !choice.give_up && !choice.begin_anew {
        return refuse("the journal is damaged: --give-up writes a new one with the known tasks".into());
    }
    if journal.damage.is_none() && choice.give_up {
        return refuse("the journal is sound: its tasks go on; --fail N gives one of them up".into());
    }
    for id in &choice.fail {
        match journal.table.get(*id) {
            None => return refuse(format!("there is no task {id}; without an option all are shown")),
            Some(entry) if entry.state.is_over() => {
                return refuse(format!("task {id} is {}, and stays so", entry.state));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
