//! The file of a disk's checksum store.
//!
//! The store counts how often it has forgotten sums, and the file `sums.end` in the state directory ([`crate::state`])
//! records that count before a write to the disk goes on. An older copy of the store, with sums of blocks written
//! since, has a smaller count and is not used.

use crate::file_system::{File, Files, How, Identity, Lock, write_all};
use crate::state::{End, LogKind};
use crate::task::file_request::{Compared, FileResult, OpenSums};
use apps::scrub::{Checksums, PAGE_BYTES, ScrubPlan, StoreError, StoreLimits, StoredChecksums, SumFile};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The end file of the disk's checksum store, in the state directory.
pub(crate) const SUMS_END: &str = "sums.end";

/// The count in the end file of a store that is given up, because it no longer learns of the disk's writes. No store
/// reaches this count.
const ABANDONED_NUMBER: u64 = u64::MAX;

/// Records in the end file that the checksum store is given up, if the end file belongs to store `id`. Needs no space
/// on the file system.
pub(crate) fn leave(files: &dyn Files, state: &Path, id: u64) -> io::Result<bool> {
    End::last(files, &state.join(SUMS_END), id, ABANDONED_NUMBER)
}

/// The open and locked file of a store. It is opened once and shared, because on some network file systems its lock
/// excludes the same process's other handles.
type StoreFile = Arc<Mutex<Box<dyn File>>>;

/// The file of a store, read and written in pages.
struct Pages(StoreFile);

fn locked(file: &StoreFile) -> MutexGuard<'_, Box<dyn File>> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(page: u64) -> u64 {
    page.saturating_mul(PAGE_BYTES as u64)
}

impl SumFile for Pages {
    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<bool, String> {
        let n = locked(&self.0).read_at(place(page), into).map_err(|e| e.to_string())?;
        Ok(n == into.len())
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), String> {
        write_all(&mut **locked(&self.0), place(page), bytes).map_err(|e| e.to_string())
    }

    fn sync(&mut self) -> Result<(), String> {
        locked(&self.0).sync().map_err(|e| e.to_string())
    }
}

pub(crate) struct OpenStore {
    store: StoredChecksums<Pages>,
    end: End,
    /// The count in the end file.
    acknowledged: u64,
    place: String,
    /// The number of damaged pages that have been reported.
    reported: usize,
    identity: Option<Identity>,
    file: StoreFile,
}

impl OpenStore {
    /// Opens or creates a store.
    pub fn open(
        files: &dyn Files,
        state: &Path,
        asked: OpenSums,
        held: Option<&Self>,
    ) -> (Option<Self>, FileResult) {
        let task = asked.task;
        let path = match files.is_dir(&asked.path) {
            true => asked.path.join(format!("{}.sums", asked.disk.name)),
            false => asked.path.clone(),
        };
        let place = path.display().to_string();
        let opened = Self::at(files, &asked, path.clone(), held).and_then(|(store, empty, file)| {
            let (end, acknowledged) = Self::end(files, &state.join(SUMS_END), &store, empty)?;
            let identity = files.identity_of(&path).map_err(|e| e.to_string())?;
            Ok((Self { store, end, acknowledged, place: place.clone(), reported: 0, identity, file }, empty))
        });
        match opened {
            Ok((sums, empty)) => {
                let id = sums.store.id();
                (Some(sums), FileResult::SumsOpened { task, path, id, empty })
            }
            Err(why) => (None, FileResult::SumsRefused { task, why: format!("{place}: {why}") }),
        }
    }

    /// Opens the end file of a store, and returns it with its count.
    fn end(
        files: &dyn Files,
        path: &Path,
        store: &StoredChecksums<Pages>,
        empty: bool,
    ) -> Result<(End, u64), String> {
        let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        if empty {
            return Ok((End::create(files, path, LogKind::Sums, store.id()).map_err(|e| named(&e))?, 0));
        }
        let (end, acknowledged) =
            End::go_on(files, path, LogKind::Sums, store.id()).map_err(|e| named(&e))?;
        if acknowledged == ABANDONED_NUMBER {
            return Err(
                "the store was given up, and clients may have written since; say force and all is recorded anew"
                    .into(),
            );
        }
        if store.sequence() < acknowledged {
            return Err(format!(
                "the store has forgotten sums {} times, and {acknowledged} were acknowledged: the store is an older copy, or damaged; say \
                 force and all is recorded anew",
                store.sequence()
            ));
        }
        Ok((end, acknowledged))
    }

    fn at(
        files: &dyn Files,
        asked: &OpenSums,
        path: PathBuf,
        held: Option<&Self>,
    ) -> Result<(StoredChecksums<Pages>, bool, StoreFile), String> {
        if asked.disk.own.iter().any(|own| files.is_same(own, &path)) {
            return Err("the path is the disk itself; name another file".into());
        }
        if let Some((known, _)) = asked.known.as_ref().filter(|(known, _)| *known != path) {
            return Err(format!(
                "the checksums of this disk are in {}; name that file, or say force and all is recorded anew",
                known.display()
            ));
        }
        let plan = ScrubPlan {
            range: asked.disk.whole(),
            block: asked.block,
            sector_bytes: usize::try_from(asked.disk.sector_bytes.get()).unwrap_or(0),
        };
        // Never recreates the disk's own checksum store if its file is missing.
        let how = if asked.task.is_some() { How::Make } else { How::Write };
        let file = Self::lock(files, &path, how, held).map_err(|e| e.to_string())?;
        let len = locked(&file).len().map_err(|e| e.to_string())?;
        if locked(&file).is_device().map_err(|e| e.to_string())? {
            return Err("the path is a device; name a file".into());
        }
        let known = asked.known.as_ref().map(|(_, id)| *id);
        let text = |error: StoreError| error.to_string();
        let old = match len {
            0 => Err(StoreError::Stale),
            _ => StoredChecksums::open(plan, StoreLimits::default(), Pages(StoreFile::clone(&file))),
        };
        match old {
            Ok(store) if Some(store.id()) == known => return Ok((store, false, file)),
            // This task created the store, but the journal did not record that; no sum was stored in it yet.
            Ok(store) if store.id() == asked.id && asked.task.is_some() => {}
            // A crash has interrupted the creation of the store.
            Ok(_) | Err(StoreError::Stale) if asked.task.is_some() && len <= PAGE_BYTES as u64 => {}
            Ok(_) | Err(StoreError::OtherPlan { .. } | StoreError::Damaged)
                if asked.anew && known.is_none() => {}
            Ok(_) => return Err(format!("{}; say force for that", StoreError::Stale)),
            Err(error) => return Err(text(error)),
        }
        locked(&file).set_len(0).map_err(|e| e.to_string())?;
        let pages = Pages(StoreFile::clone(&file));
        let store =
            StoredChecksums::create_as(asked.id, plan, StoreLimits::default(), pages).map_err(text)?;
        Ok((store, true, file))
    }

    /// Opens and locks the store's file, so that no other disk writes to it. If `held`, the disk's open store, has
    /// that file, its handle is shared.
    fn lock(files: &dyn Files, path: &Path, how: How, held: Option<&Self>) -> io::Result<StoreFile> {
        let identity = files.identity_of(path)?;
        match held.filter(|held| identity.is_some() && held.identity == identity) {
            Some(held) => Ok(StoreFile::clone(&held.file)),
            None => Ok(Arc::new(Mutex::new(files.claim(path, how, Lock::Alone)?))),
        }
    }

    fn trouble(&self, error: &str) -> FileResult {
        FileResult::Trouble(format!("{}: {error}", self.place))
    }

    /// Forgets the sums of blocks, durably.
    pub fn forget(&mut self, ranges: &[Range<u64>]) -> FileResult {
        if let Err(error) = self.store.forget(ranges) {
            return self.trouble(&error.to_string());
        }
        let sequence = self.store.sequence();
        if sequence > self.acknowledged {
            if let Err(error) = self.end.commit(sequence, 0, &[]) {
                return self
                    .trouble(&format!("the store's end in the state directory cannot be written: {error}"));
            }
            self.acknowledged = sequence;
        }
        FileResult::Forgotten
    }

    /// Compares the sums of blocks that were read with the stored sums.
    pub fn compare(&mut self, sums: Vec<(u64, u32)>) -> FileResult {
        let compared = sums.into_iter().map(|(block, sum)| match self.store.known(block).sum {
            None => (block, Compared::Unknown(sum)),
            Some(stored) if stored == sum => (block, Compared::Same),
            Some(stored) => (block, Compared::Wrong { stored, read: sum }),
        });
        let compared = compared.collect();
        if let Some(why) = self.store.failure() {
            return self.trouble(why);
        }
        let all: Vec<String> = self.store.damaged().map(|page| format!("{}: {page}", self.place)).collect();
        let damaged = all.get(self.reported..).unwrap_or_default().to_vec();
        self.reported = all.len();
        FileResult::Compared { compared, damaged }
    }

    /// Stores the sums of blocks, durably.
    pub fn record(&mut self, sums: &[(u64, u32)]) -> FileResult {
        match self.store.record(sums) {
            Ok(()) => FileResult::Recorded,
            Err(error) => self.trouble(&error.to_string()),
        }
    }
}
