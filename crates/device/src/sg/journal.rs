//! The record of a disk's switches that a measurement has changed, in a file that survives a kill and a power
//! cut.

use super::states::Switches;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The states of a disk's switches before they were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The disk's identity, which is the kernel's `wwid`.
    pub disk: String,
    /// The states before the change.
    pub before: Switches,
}

/// The first line of a record.
const MAGIC: &str = "freeblock switches 1";

/// The most bytes of a record.
const RECORD_BYTES_MAX: u64 = 4_096;

impl Record {
    fn to_text(&self) -> String {
        let state = |state| match state {
            Some(true) => "on",
            Some(false) => "off",
            None => "none",
        };
        let Switches { look_ahead, read_cache } = self.before;
        let body = format!(
            "{MAGIC}\ndisk {}\nlook-ahead {}\nread-cache {}\n",
            self.disk,
            state(look_ahead),
            state(read_cache)
        );
        let sum = crc32fast::hash(body.as_bytes());
        format!("{body}checksum {sum:08x}\n")
    }

    fn from_text(text: &str) -> Option<Self> {
        let (body, sum) = text.split_at_checked(text.rfind("checksum ")?)?;
        let sum = sum.strip_prefix("checksum ")?.strip_suffix('\n')?;
        if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key).map(str::to_owned);
        let state = |word: &str| match word {
            "on" => Some(Some(true)),
            "off" => Some(Some(false)),
            "none" => Some(None),
            _ => None,
        };
        value(MAGIC).filter(String::is_empty)?;
        let disk = value("disk ")?;
        let look_ahead = state(&value("look-ahead ")?)?;
        let read_cache = state(&value("read-cache ")?)?;
        Some(Self { disk, before: Switches { look_ahead, read_cache } })
    }
}

/// A store whose records survive the end of the process.
pub trait Journal {
    /// Stores a record, which is on the medium when this returns.
    ///
    /// # Errors
    /// The record is not stored.
    fn save(&mut self, record: &Record) -> Result<(), SwitchJournalError>;

    /// Removes the record.
    ///
    /// # Errors
    /// The record may still exist.
    fn remove(&mut self, record: &Record) -> Result<(), SwitchJournalError>;
}

/// The reason why a record was not stored or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SwitchJournalError {
    /// The file system refused.
    #[error("the record of switches {}: {source}; run as root, or make the directory", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process has switched off switches of this disk, or has ended and left a record.
    #[error("{}: a probe has switches of this disk off; wait for its end, or, if it has ended, start again", path.display())]
    InUse {
        /// The record.
        path: PathBuf,
    },
    /// A record cannot be read.
    #[error(
        "{}: damaged; switch the disk's look-ahead and read cache on by hand (hdparm -A1, sdparm --clear=RCD,DRA), and delete the file",
        path.display()
    )]
    Damaged {
        /// The record.
        path: PathBuf,
    },
}

/// A directory of records, one for each disk. A record is locked while the process that made it runs.
#[derive(Debug)]
pub struct SwitchJournal {
    directory: PathBuf,
    /// The record of this process, open and locked.
    own: Option<File>,
}

/// A record of a process that has ended without switching the switches back on. It is locked, so that no other
/// process handles it.
#[derive(Debug)]
pub struct Held {
    /// The record.
    pub record: Record,
    path: PathBuf,
    _lock: File,
}

impl SwitchJournal {
    /// Returns the journal in a directory, which is created with the first record.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), own: None }
    }

    fn failed(path: &Path) -> impl FnOnce(io::Error) -> SwitchJournalError {
        move |source| SwitchJournalError::System { path: path.to_owned(), source }
    }

    fn path(&self, disk: &str) -> PathBuf {
        let letter = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
        let name: String = disk.chars().map(letter).take(100).collect();
        // The checksum distinguishes identities that differ only in replaced characters.
        self.directory.join(format!("{name}-{:08x}.switches", crc32fast::hash(disk.as_bytes())))
    }

    /// Returns the records that ended processes have left, and an error for each that cannot be read. A
    /// directory that does not exist has no records.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn left(&self) -> Result<Vec<Result<Held, SwitchJournalError>>, SwitchJournalError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Self::failed(&self.directory))?,
        };
        let _one_at_a_time = self.lock()?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "switches"));
        paths.sort();
        Ok(paths.into_iter().filter_map(|path| Self::held(path).transpose()).collect())
    }

    /// Locks and reads a record. Returns `None` if the process that made it runs, or has just removed it.
    fn held(path: PathBuf) -> Result<Option<Held>, SwitchJournalError> {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Self::failed(&path))?,
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !path.exists() {
            return Ok(None);
        }
        let mut text = String::new();
        // A record that is not text is damaged.
        let read = (&file).take(RECORD_BYTES_MAX).read_to_string(&mut text);
        let record = read.ok().and_then(|_| Record::from_text(&text));
        match record {
            Some(record) => Ok(Some(Held { record, path, _lock: file })),
            None => Err(SwitchJournalError::Damaged { path }),
        }
    }

    /// Removes a record whose switches are on again.
    ///
    /// # Errors
    /// The record may still exist.
    pub fn settle(&self, held: Held) -> Result<(), SwitchJournalError> {
        fs::remove_file(&held.path).map_err(Self::failed(&held.path))?;
        self.sync()
    }

    /// Prevents other processes from making or taking over a record while the returned file is open.
    fn lock(&self) -> Result<File, SwitchJournalError> {
        let directory = File::open(&self.directory).map_err(Self::failed(&self.directory))?;
        flock(&directory, FlockOperation::LockExclusive)
            .map_err(|error| Self::failed(&self.directory)(error.into()))?;
        Ok(directory)
    }

    fn sync(&self) -> Result<(), SwitchJournalError> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(Self::failed(&self.directory))
    }
}

impl Journal for SwitchJournal {
    fn save(&mut self, record: &Record) -> Result<(), SwitchJournalError> {
        let failed = Self::failed(&self.directory);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(failed)?;
        let _one_at_a_time = self.lock()?;
        let path = self.path(&record.disk);
        // A record means that a process that changed this disk's switches still runs, or was killed.
        if path.exists() {
            return Err(SwitchJournalError::InUse { path });
        }
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new).map_err(Self::failed(&new))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| Self::failed(&new)(error.into()))?;
        let written = file.write_all(record.to_text().as_bytes()).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&new, &path)).map_err(Self::failed(&new))?;
        self.own = Some(file);
        self.sync()
    }

    fn remove(&mut self, record: &Record) -> Result<(), SwitchJournalError> {
        let path = self.path(&record.disk);
        fs::remove_file(&path).map_err(Self::failed(&path))?;
        self.own = None;
        self.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            disk: "t10.ATA     ST2000DM006-2DM1                        Z4Z0".into(),
            before: Switches { look_ahead: Some(true), read_cache: None },
        }
    }

    #[test]
    fn a_record_is_read_back_and_any_changed_byte_is_noticed() {
        let text = record().to_text();
        assert_eq!(Record::from_text(&text), Some(record()));
        for i in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[i] ^= 1;
            assert_eq!(Record::from_text(&String::from_utf8(bad).unwrap()), None, "byte {i}");
            assert_eq!(Record::from_text(&text[..i]), None, "{i} bytes");
        }
    }

    #[test]
    fn a_record_outlives_its_process_and_no_other_takes_it_while_that_runs() {
        let directory = std::env::temp_dir().join(format!("freeblock-switches-{}", std::process::id()));
        let journal = || SwitchJournal::new(&directory);
        assert!(journal().left().unwrap().is_empty());
        let mut running = journal();
        running.save(&record()).unwrap();
        // The first process still runs.
        assert!(matches!(journal().save(&record()), Err(SwitchJournalError::InUse { .. })));
        assert!(journal().left().unwrap().is_empty());
        // The first process was killed.
        drop(running);
        let held = journal().left().unwrap().pop().unwrap().unwrap();
        assert_eq!(held.record, record());
        // While one process handles the record that the killed one has left, no other process gets it.
        assert!(journal().left().unwrap().is_empty());
        journal().settle(held).unwrap();
        assert!(journal().left().unwrap().is_empty());

        fs::write(journal().path("x"), "freeblock switches 1\nnonsense\n").unwrap();
        let left = journal().left().unwrap();
        let Some(Err(error)) = left.first() else { panic!("{left:?}") };
        assert!(error.to_string().contains("hdparm -A1"), "{error}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
