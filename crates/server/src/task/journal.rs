//! The journal: every change of the table of tasks, in a log of the state directory ([`crate::state`]).
//!
//! A record is one or more events, each preceded by its length (u32, little-endian): `0` and JSON, or `1`, the length
//! of the JSON (u32), JSON, and the task's own record of its progress. The first record of a file is a whole table. The
//! note in the log's end file repeats the highest task number used and the tasks that have blocks closed to clients, in
//! case the journal is lost.
//!
//! A damaged journal is not written to. The daemon then serves the disk without tasks, keeps closed what a task may
//! have closed, and puts the file `damaged`, the marker, beside the journal. The marker prevents the use of a journal
//! that becomes readable later, because clients have written in the meantime. `freeblock repair` removes the marker.

use crate::file_system::{Files, How, is_listed, read_whole, write_all};
use crate::state::{LogKind, Scan};
use crate::task::table::{Closed, DiskShape, Event, Table};
use apps::snapshot::VolumeId;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const PLAIN: u8 = 0;
const WITH_SAVED: u8 = 1;

/// The magic bytes of a journal of earlier versions.
const OLD: &[u8; 8] = b"fbtasks\0";

/// The reason why a disk with this journal is not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalError {
    /// The journal is of another version.
    #[error(
        "{place}: the journal of tasks is of {found}; let the program that wrote it end its tasks, then `freeblock repair \
         --begin-anew` puts it aside"
    )]
    Version {
        /// The path of the journal.
        place: String,
        /// The version found.
        found: String,
    },
    /// The disk has another serial number or path than before.
    #[error(
        "the tasks in {place} are of the disk {before}, and this is {now}; name the disk by /dev/disk/by-id/..., or give this \
         one another name; if that disk is gone for good, `freeblock repair --begin-anew` puts its tasks aside"
    )]
    OtherDisk {
        /// The name of the disk whose state directory has the tasks.
        place: String,
        /// The serial number or path in the journal.
        before: String,
        /// The serial number or path of the present disk.
        now: String,
    },
}

/// Returns the path of the journal in a state directory.
pub(crate) fn journal_path(state: &Path) -> PathBuf {
    state.join("tasks.journal")
}

/// Returns the path of the file that records that the journal was found damaged, and why.
pub(crate) fn marker_path(state: &Path) -> PathBuf {
    state.join("damaged")
}

/// The name of the file that locks a state directory. The file is empty until there is a journal. If the journal and
/// all files of tasks were removed, only this file shows that the directory is not new.
pub(crate) const LOCK: &str = "lock";

/// The most bytes of the marker that are read. The text is a reason and a path; a longer file counts as a marker, too.
const MARKER_BYTES_MAX: u64 = 64 << 10;

/// Returns the text of the marker: why the journal was found damaged. `None` if there is no marker. Any file of that
/// name counts as a marker, also if it is empty, unreadable or a directory: a damaged marker must not make the journal
/// count as sound.
pub(crate) fn marker(files: &dyn Files, state: &Path) -> Option<String> {
    let path = marker_path(state);
    let place = path.display();
    let unknown = |why: &str| Some(format!("{place}: the journal was found damaged before, and {why}"));
    match read_whole(files, &path, MARKER_BYTES_MAX) {
        Ok(Some(bytes)) => {
            let text = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n']).to_owned();
            if text.is_empty() { unknown("the file does not say why") } else { Some(text) }
        }
        // A dangling link cannot be opened, but exists.
        Ok(None) if !is_listed(files, &path) => None,
        Ok(None) => unknown("the file cannot be opened"),
        Err(error) => unknown(&format!("the file cannot be read: {error}")),
    }
}

/// A journal that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    pub(crate) table: Table,
    /// The journal's damage, if any. With damage no task runs.
    pub(crate) damage: Option<Damaged>,
}

/// A damaged journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub why: String,
    /// The accesses to the disk that a task had closed to clients, or may have closed.
    pub closed: Option<Closed>,
    /// Whether the highest task number used is known.
    pub numbered: bool,
}

/// The summary of the table in the journal's end file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// The highest task number used.
    pub used: u64,
    /// The number of the restore that has the disk closed to clients' writes; 0: none.
    pub writes: u64,
    /// The number of the reorganisation that has the LBNs of its plan closed to clients' reads and writes; 0: none.
    pub moves: u64,
    /// The value of [`Table::closed`].
    pub closed: Option<Closed>,
}

impl Note {
    /// Returns the note that summarises a table.
    pub fn of(table: &Table) -> Self {
        let live = |wanted: fn(crate::task::spec::TaskKind) -> bool| {
            let found = table.iter().find(|(_, entry)| !entry.state.is_over() && wanted(entry.spec.kind));
            found.map_or(0, |(id, _)| id)
        };
        use crate::task::spec::TaskKind::{Reorganize, Restore};
        Self {
            used: table.next_id() - 1,
            writes: live(|kind| kind == Restore),
            moves: live(|kind| kind == Reorganize),
            closed: table.closed(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let closed = match self.closed {
            None => 0,
            Some(Closed::Writes) => 1,
            Some(Closed::All) => 2,
        };
        [self.used, self.writes, self.moves, closed].iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.chunks(8).map(|b| b.try_into().ok().map(u64::from_le_bytes));
        let (used, writes, moves) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let closed = match numbers.next()?? {
            0 => None,
            1 => Some(Closed::Writes),
            2 => Some(Closed::All),
            _ => return None,
        };
        numbers.next().is_none().then_some(Self { used, writes, moves, closed })
    }

    /// Returns the accesses to the whole disk that have to be closed. A reorganisation closes only the LBNs in its
    /// plan, but the plan may be damaged, too, so all accesses are closed.
    pub fn closes(&self) -> Option<Closed> {
        let task = match (self.writes, self.moves) {
            (_, 1..) => Some(Closed::All),
            (1.., 0) => Some(Closed::Writes),
            (0, 0) => None,
        };
        task.max(self.closed)
    }
}

/// Encodes events as the body of a record.
pub(crate) fn encode<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        // Events consist of numbers and strings, which JSON can always represent.
        let json = serde_json::to_vec(event).unwrap_or_default();
        let mut body = Vec::with_capacity(json.len() + 1);
        match event {
            Event::Progress { saved, .. } => {
                body.push(WITH_SAVED);
                body.extend((json.len() as u32).to_le_bytes());
                body.extend(json);
                body.extend(saved);
            }
            _ => {
                body.push(PLAIN);
                body.extend(json);
            }
        }
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// Applies the events of a record to a table. Returns whether all of them fit.
pub(crate) fn apply(table: &mut Table, mut body: &[u8]) -> bool {
    while !body.is_empty() {
        let Some(len) = number(body, 0) else { return false };
        let Some(rest) = body.get(4..) else { return false };
        let Some((one, rest)) = rest.split_at_checked(len as usize) else { return false };
        if !event(one).is_some_and(|event| table.apply(event)) {
            return false;
        }
        body = rest;
    }
    true
}

fn event(body: &[u8]) -> Option<Event> {
    let (kind, rest) = body.split_first()?;
    match *kind {
        PLAIN => serde_json::from_slice(rest).ok(),
        WITH_SAVED => {
            let len = number(rest, 0)? as usize;
            let json = rest.get(4..len.checked_add(4)?)?;
            let mut event = serde_json::from_slice(json).ok()?;
            if let Event::Progress { saved, .. } = &mut event {
                *saved = rest.get(len + 4..)?.to_vec();
            }
            Some(event)
        }
        _ => None,
    }
}

/// Reads the journal of a state directory, and changes nothing there.
///
/// # Errors
/// The journal is of another version.
pub(crate) fn read(files: &dyn Files, state: &Path) -> Result<Journal, JournalError> {
    let path = journal_path(state);
    let mut table = Table::default();
    let read = Scan::read(files, &path, LogKind::Tasks, None, |body| apply(&mut table, body));
    let own = Note::of(&table);
    let there = matches!(read, Ok(Some(_)));
    let damage = match read {
        Ok(Some(_)) => None,
        Ok(None) => leftover(files, state).or_else(|| had_journal(files, state)).map(|name| Damaged {
            why: format!("{}: the journal is gone, and {name} is there", path.display()),
            closed: Some(Closed::All),
            numbered: false,
        }),
        Err(broken) => {
            if let Some(found) = other_version(files, &path, &broken) {
                return Err(JournalError::Version { place: path.display().to_string(), found });
            }
            let note = broken.note.as_deref().and_then(Note::decode);
            if let Some(note) = note {
                table.has_used(note.used);
            }
            let closed = match (&note, broken.whole) {
                (Some(note), _) => note.closes(),
                (None, true) => own.closes(),
                (None, false) => Some(Closed::All),
            };
            Some(Damaged { why: broken.to_string(), closed, numbered: note.is_some() || broken.whole })
        }
    };
    let damage = match (damage, marker(files, state)) {
        (None, Some(why)) => {
            let why = format!("{why}; since then the disk was served without its tasks");
            // A marker without a journal is left by a repair that was not completed.
            let closed = if there { own.closes() } else { Some(Closed::All) };
            Some(Damaged { why, closed, numbered: there })
        }
        (damage, _) => damage,
    };
    Ok(Journal { table, damage })
}

/// Returns a name for the lock file, for messages, if its content shows that there was a journal.
fn had_journal(files: &dyn Files, state: &Path) -> Option<String> {
    let len = files.open(&state.join(LOCK), How::Read).and_then(|mut file| file.len());
    len.is_ok_and(|len| len > 0).then(|| format!("a {LOCK} that says so"))
}

/// Returns the name of a task's file, if any: such a file cannot exist unless there was a journal.
fn leftover(files: &dyn Files, state: &Path) -> Option<String> {
    let names = files.list(state).unwrap_or_default();
    names.into_iter().find(|name| name.starts_with("task-") && !name.ends_with(".map"))
}

fn other_version(files: &dyn Files, path: &Path, broken: &crate::state::Broken) -> Option<String> {
    use crate::state::Damage;
    match broken.damage {
        Damage::Version(version) => Some(format!("version {version}")),
        Damage::Foreign => {
            let mut first = [0; OLD.len()];
            let read = files.open(path, How::Read).and_then(|mut file| file.read_at(0, &mut first));
            (read.is_ok() && first == *OLD).then(|| "an earlier version".to_owned())
        }
        _ => None,
    }
}

/// Reads the journal. If the journal is damaged, records that durably.
pub(crate) fn open(files: &dyn Files, state: &Path) -> Result<Journal, JournalError> {
    let mut journal = read(files, state)?;
    if let Some(damage) = &mut journal.damage {
        note(files, state, damage);
    }
    Ok(journal)
}

/// Returns the damage if live tasks began on a disk of another size: they stop then.
pub(crate) fn resized(table: &Table, now: DiskShape) -> Option<Damaged> {
    let before = table.shape().filter(|before| *before != now && table.live().next().is_some())?;
    let ids: Vec<u64> = table.live().map(|(id, _)| id).collect();
    let why = format!("tasks {ids:?} began on a disk of {before}, and it has {now} now");
    Some(Damaged { why, closed: Note::of(table).closes(), numbered: true })
}

/// Records durably that the tasks are stopped, because clients write from here on while no task sees it. If that fails,
/// closes the disk to writes, because the journal could count as sound later.
pub(crate) fn note(files: &dyn Files, state: &Path, damage: &mut Damaged) {
    if let Err(error) = mark(files, state, &damage.why) {
        damage.why = format!("{}, and that cannot be noted: {error}", damage.why);
        damage.closed = damage.closed.max(Some(Closed::Writes));
    }
}

/// Writes the marker with the reason, durably. An existing marker that cannot be opened for writing suffices.
pub(crate) fn mark(files: &dyn Files, state: &Path, why: &str) -> io::Result<()> {
    let path = marker_path(state);
    let mut file = match files.open(&path, How::Make) {
        Err(_) if is_listed(files, &path) => return Ok(()),
        opened => opened?,
    };
    if file.len()? == 0 {
        write_all(&mut *file, 0, format!("{why}\n").as_bytes())?;
    }
    file.sync()
}

/// Returns the event that records the disk, the first of a journal.
pub(crate) fn first(volume: VolumeId, device: Option<String>, shape: DiskShape) -> Event {
    Event::Disk { volume: format!("{:032x}", volume.0), device, shape: Some(shape) }
}
