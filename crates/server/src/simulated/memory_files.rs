//! Files in memory, for tests: they can be full, unreachable, or lose unsynced writes at a power cut.

use crate::file_system::{File, Files, How, Identity, LastingIdentity, Lock, held};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of a file. A copied file system shares them until one of the two is written.
#[derive(Clone, Debug, Default)]
struct Blob {
    durable: Arc<Vec<u8>>,
    now: Arc<Vec<u8>>,
    /// The writes since the last sync: offset and bytes.
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// Sets the length of a file, filling with zeroes. Copies a zeroed allocation, because `resize`
/// without optimisation, as in tests, writes byte by byte.
fn set_length(bytes: &mut Vec<u8>, len: usize) {
    let more = len.saturating_sub(bytes.len());
    bytes.truncate(len);
    bytes.extend_from_slice(&vec![0; more]);
}

/// Writes bytes at an offset of a file, filling with zeroes up to it.
fn write(to: &mut Arc<Vec<u8>>, at: usize, bytes: &[u8]) {
    let (to, end) = (Arc::make_mut(to), at + bytes.len());
    if to.len() < end {
        set_length(to, end);
    }
    to[at..end].copy_from_slice(bytes);
}

#[derive(Debug, Default)]
struct MemoryState {
    /// The number of the file with each name. A file keeps its number when it is renamed.
    names: BTreeMap<PathBuf, u64>,
    blobs: BTreeMap<u64, Blob>,
    next: u64,
    /// The most bytes that all files of a directory may have together.
    limits: BTreeMap<PathBuf, u64>,
    /// Directories that cannot be reached.
    gone: Vec<PathBuf>,
    /// Paths that name a directory instead of a file.
    directories: BTreeSet<PathBuf>,
    /// Paths that name a device without a serial number.
    devices: BTreeSet<PathBuf>,
    /// Paths that cannot be opened, with the error.
    faults: BTreeMap<PathBuf, io::ErrorKind>,
    /// The number of changing calls that still succeed. After them each call fails, as if the process
    /// had been killed.
    left: Option<u64>,
    /// Whether a lock prevents other handles from reading and writing, as on some network file
    /// systems.
    mandatory: bool,
    /// The locks by their numbers: the number of the locked file, and the kind.
    locks: BTreeMap<u64, (u64, Lock)>,
}

impl MemoryState {
    fn make(&mut self, path: &Path) -> u64 {
        self.next += 1;
        let (next, id) = (self.next, *self.names.entry(path.into()).or_insert(self.next));
        if id == next {
            self.blobs.insert(id, Blob::default());
        }
        id
    }
}

/// A file system in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<MemoryState>>);

impl MemoryFiles {
    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the bytes that all files of a directory may have together; `None` for no limit.
    pub fn limit(&self, directory: &str, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => drop(self.state().limits.insert(directory.into(), bytes)),
            None => drop(self.state().limits.remove(Path::new(directory))),
        }
    }

    /// Makes a directory unreachable, or reachable again.
    pub fn set_gone(&self, directory: &str, gone: bool) {
        let mut state = self.state();
        state.gone.retain(|d| d != Path::new(directory));
        if gone {
            state.gone.push(directory.into());
        }
    }

    /// Creates or replaces a file with these bytes, durably.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let bytes = Arc::new(bytes.to_vec());
        let blob = Blob { durable: Arc::clone(&bytes), now: bytes, unsynced: Vec::new() };
        let mut state = self.state();
        state.directories.remove(Path::new(path));
        let id = state.make(Path::new(path));
        state.blobs.insert(id, blob);
    }

    /// Replaces a file by a directory.
    pub fn put_directory(&self, path: &str) {
        let mut state = self.state();
        state.names.remove(Path::new(path));
        state.directories.insert(path.into());
    }

    /// Makes a path a device without a serial number, with these bytes.
    pub fn put_device(&self, path: &str, bytes: &[u8]) {
        self.delete(path);
        self.put(path, bytes);
        self.state().devices.insert(path.into());
    }

    /// Gives a file a second name.
    pub fn link(&self, path: &str, other: &str) {
        let mut state = self.state();
        if let Some(id) = state.names.get(Path::new(path)).copied() {
            state.names.insert(other.into(), id);
        }
    }

    /// Deletes a file.
    pub fn delete(&self, path: &str) {
        let mut state = self.state();
        state.names.remove(Path::new(path));
        state.directories.remove(Path::new(path));
    }

    /// Makes opening this path fail with an error; with `None`, succeed again.
    pub fn set_fault(&self, path: &str, fault: Option<io::ErrorKind>) {
        match fault {
            Some(fault) => drop(self.state().faults.insert(path.into(), fault)),
            None => drop(self.state().faults.remove(Path::new(path))),
        }
    }

    /// Makes a lock prevent other handles from reading and writing.
    pub fn set_mandatory_locks(&self) {
        self.state().mandatory = true;
    }

    /// Lets this number of changing calls succeed from now on, and makes all later calls fail.
    pub fn stop_after(&self, calls: Option<u64>) {
        self.state().left = calls;
    }

    /// Returns a separate file system with the same files.
    pub fn copy(&self) -> Self {
        let MemoryState { names, blobs, next, directories, devices, .. } = &*self.state();
        let (names, blobs, directories) = (names.clone(), blobs.clone(), directories.clone());
        let (next, devices) = (*next, devices.clone());
        let state = MemoryState { names, blobs, next, directories, devices, ..MemoryState::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn spend(&self) -> io::Result<()> {
        match &mut self.state().left {
            Some(0) => Err(io::Error::other("killed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the bytes of a file, with those not synced.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(Path::new(path)).and_then(|id| state.blobs.get(id)).map(|b| b.now.to_vec())
    }

    /// Returns the length of a file in bytes, with those not synced.
    pub fn length(&self, path: &str) -> Option<u64> {
        let state = self.state();
        state.names.get(Path::new(path)).and_then(|id| state.blobs.get(id)).map(|b| b.now.len() as u64)
    }

    /// Keeps, drops or tears each unsynced write at random; `below` draws a number below its
    /// argument.
    pub fn power_cut(&self, mut below: impl FnMut(u64) -> u64) {
        for blob in self.state().blobs.values_mut() {
            for (at, bytes) in std::mem::take(&mut blob.unsynced) {
                if below(2) == 0 {
                    let len =
                        if below(3) == 0 { below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
                    write(&mut blob.durable, at, &bytes[..len]);
                }
            }
            blob.now = Arc::clone(&blob.durable);
        }
    }
}

struct MemoryFile {
    memory: MemoryFiles,
    path: PathBuf,
    id: u64,
    lock: Option<u64>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if let Some(lock) = self.lock {
            self.memory.state().locks.remove(&lock);
        }
    }
}

impl MemoryFile {
    fn with<R>(&self, call: impl FnOnce(&mut Blob, Option<u64>) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.memory.state();
        if state.gone.iter().any(|d| self.path.starts_with(d)) {
            return Err(io::Error::other("the device is gone"));
        }
        let of_another = |(number, (id, lock)): (&u64, &(u64, Lock))| {
            *id == self.id && *lock == Lock::Alone && Some(*number) != self.lock
        };
        if state.mandatory && state.locks.iter().any(of_another) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let limit = state.limits.iter().find(|(d, _)| self.path.starts_with(d)).map(|(d, l)| (d.clone(), *l));
        let room = limit.map(|(d, limit)| {
            let inside = state.names.iter().filter(|(p, _)| p.starts_with(&d));
            let used: u64 =
                inside.filter_map(|(_, id)| state.blobs.get(id)).map(|b| b.now.len() as u64).sum();
            limit.saturating_sub(used)
        });
        call(state.blobs.entry(self.id).or_default(), room)
    }
}

impl File for MemoryFile {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.with(|blob, _| {
            let from = (at as usize).min(blob.now.len());
            let n = into.len().min(blob.now.len() - from);
            into[..n].copy_from_slice(&blob.now[from..from + n]);
            Ok(n)
        })
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize> {
        self.memory.spend()?;
        self.with(|blob, room| {
            let at = at as usize;
            let grows = (at + bytes.len()).saturating_sub(blob.now.len()) as u64;
            let lacks = grows.saturating_sub(room.unwrap_or(u64::MAX)) as usize;
            let n = bytes.len().saturating_sub(lacks);
            if n == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            write(&mut blob.now, at, &bytes[..n]);
            blob.unsynced.push((at, bytes[..n].to_vec()));
            Ok(n)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.memory.spend()?;
        self.with(|blob, _| {
            for (at, bytes) in std::mem::take(&mut blob.unsynced) {
                write(&mut blob.durable, at, &bytes);
            }
            assert_eq!(blob.durable.len(), blob.now.len(), "a sync makes all durable");
            Ok(())
        })
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        // Changes of the length are durable at once: the tests of power cuts lose only writes.
        self.with(|blob, _| {
            let len = len as usize;
            set_length(Arc::make_mut(&mut blob.now), len);
            set_length(Arc::make_mut(&mut blob.durable), len);
            blob.unsynced.retain(|(at, _)| *at < len);
            blob.unsynced.iter_mut().for_each(|(at, bytes)| bytes.truncate(len - *at));
            Ok(())
        })
    }

    fn len(&mut self) -> io::Result<u64> {
        self.with(|blob, _| Ok(blob.now.len() as u64))
    }

    fn is_device(&mut self) -> io::Result<bool> {
        Ok(self.memory.state().devices.contains(&self.path))
    }

    fn identity(&mut self) -> io::Result<Identity> {
        Ok(Identity::File { device: 0, inode: self.id })
    }

    fn lasting_identity(&mut self) -> io::Result<LastingIdentity> {
        let is_unique = !self.is_device()?;
        let text = if is_unique { format!("inode {}", self.id) } else { format!("device {}", self.len()?) };
        Ok(LastingIdentity { text, is_unique })
    }

    fn keep_from_others(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn lock(&mut self, lock: Lock) -> io::Result<()> {
        let mut state = self.memory.state();
        let mut others = state.locks.values().filter(|(id, _)| *id == self.id);
        if others.any(|(_, other)| lock == Lock::Alone || *other == Lock::Alone) {
            return Err(held());
        }
        state.next += 1;
        let number = state.next;
        state.locks.insert(number, (self.id, lock));
        self.lock = Some(number);
        Ok(())
    }
}

impl Files for MemoryFiles {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        if how == How::Make {
            self.spend()?;
        }
        let mut state = self.state();
        if let Some(fault) = state.faults.get(path) {
            return Err((*fault).into());
        }
        if state.directories.contains(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if state.gone.iter().any(|d| path.starts_with(d))
            || (how != How::Make && !state.names.contains_key(path))
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        let id = state.make(path);
        Ok(Box::new(MemoryFile { memory: self.clone(), path: path.into(), id, lock: None }))
    }

    fn claim(&self, path: &Path, how: How, lock: Lock) -> io::Result<Box<dyn File>> {
        let mut file = self.open(path, how)?;
        file.lock(lock)?;
        Ok(file)
    }

    fn identity_of(&self, path: &Path) -> io::Result<Option<Identity>> {
        Ok(self.state().names.get(path).map(|id| Identity::File { device: 0, inode: *id }))
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.state().directories.contains(path)
    }

    fn is_same(&self, a: &Path, b: &Path) -> bool {
        a == b
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.directories.contains(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.names.remove(path);
        state.faults.remove(path);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let all = state.names.keys().chain(state.faults.keys()).chain(&state.directories);
        let inside = all.filter(|p| p.parent() == Some(directory));
        let mut names: Vec<String> =
            inside.filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned())).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.spend()?;
        let mut state = self.state();
        // The fault of a file that cannot be opened goes with it to the new name.
        if let Some(fault) = state.faults.remove(from) {
            state.faults.insert(to.into(), fault);
        }
        if state.directories.remove(from) {
            state.directories.insert(to.into());
            return Ok(());
        }
        let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), id);
        Ok(())
    }
}
