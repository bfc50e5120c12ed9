//! Files, in a form that tests can have fail, and the places where users may name them.

mod places;
pub mod serial;

pub use places::Places;
pub(crate) use places::{Identity, held, is_denied};

use places::{denied, identity};
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The mode of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// For reading.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// The same, created if missing.
    Make,
}

/// The access of other processes to a file while this one has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// None.
    Alone,
    /// They can read it.
    Shared,
}

/// The identity of a file or device over restarts.
pub(crate) struct LastingIdentity {
    /// A file's inode and the time of its creation, a device's serial number, or its size if it has none.
    pub text: String,
    /// Whether no other has the same: the time, or the number, is known.
    pub is_unique: bool,
}

/// A file.
pub(crate) trait File: Send {
    /// Reads at a place; fewer bytes only at the end.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at a place; returns the number of bytes.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Returns its length in bytes; of a device, too.
    fn len(&mut self) -> io::Result<u64>;
    /// Returns whether it is a device, whose size is fixed.
    fn is_device(&mut self) -> io::Result<bool>;
    /// Returns which file it is, under any of its names.
    fn identity(&mut self) -> io::Result<Identity>;
    /// Returns which file it is, in a form that holds after a restart, too.
    fn lasting_identity(&mut self) -> io::Result<LastingIdentity>;
    /// Keeps other users from what will be written to a regular file: closes it to them with `force`, and refuses
    /// without that a file that is open to them. Another user's file is refused.
    fn keep_from_others(&mut self, force: bool) -> io::Result<()>;
    /// Locks it until it is closed; the error is of the kind `ResourceBusy` if another lock is in the way.
    fn lock(&mut self, lock: Lock) -> io::Result<()>;
}

/// A file system.
pub(crate) trait Files: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>>;
    /// Opens a file that a user has named: it has to be where tasks may access files ([`Places`]).
    fn open_named(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.open(path, how)
    }
    /// Opens a file that a user has named and locks it: no other claim of it may be in the way.
    fn claim(&self, path: &Path, how: How, lock: Lock) -> io::Result<Box<dyn File>>;
    /// Returns which file has this name, which a user has given; `None` if there is none.
    fn identity_of(&self, path: &Path) -> io::Result<Option<Identity>>;
    /// Removes a file that a user has named.
    fn remove_named(&self, path: &Path) -> io::Result<()> {
        self.remove(path)
    }
    /// Returns whether both are one file.
    fn is_same(&self, a: &Path, b: &Path) -> bool;
    /// Returns whether it is a directory.
    fn is_dir(&self, path: &Path) -> bool;
    /// Removes a file, durably; succeeds if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file over another, durably.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Returns the names in a directory, in order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
}

/// Reads a whole file of at most `bytes_max` bytes; `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, is longer, or is not a regular file.
pub(crate) fn read_whole(files: &dyn Files, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match files.open(path, How::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => read_opened(&mut *opened?, bytes_max).map(Some),
    }
}

/// Reads the whole of an open file of at most `bytes_max` bytes.
///
/// # Errors
/// The file cannot be read, or is longer.
pub(crate) fn read_opened(file: &mut dyn File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > bytes_max {
        return Err(io::Error::other(format!("the file has {len} bytes, and at most {bytes_max} are read")));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    let n = file.read_at(0, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Writes all of the bytes.
pub(crate) fn write_all(file: &mut dyn File, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(at.saturating_add(done as u64), rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}

/// Returns whether a directory contains this name, for any kind of file.
pub(crate) fn is_listed(files: &dyn Files, path: &Path) -> bool {
    let (directory, name) = (path.parent().unwrap_or(Path::new(".")), path.file_name().unwrap_or_default());
    files.list(directory).is_ok_and(|names| names.iter().any(|there| there.as_str() == name))
}

/// Moves a damaged file aside, durably, for an operator to inspect: to `NAME.damaged`, or with a number appended.
/// Returns the new name; without a file does nothing.
pub(crate) fn put_aside(files: &dyn Files, path: &Path) -> io::Result<Option<PathBuf>> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let there = files.list(directory)?;
    if !there.contains(&name) {
        return Ok(None);
    }
    let names =
        (1u64..).map(|n| if n == 1 { format!("{name}.damaged") } else { format!("{name}.damaged-{n}") });
    let Some(free) = names.into_iter().find(|name| !there.contains(name)) else { return Ok(None) };
    let aside = directory.join(free);
    files.rename(path, &aside)?;
    Ok(Some(aside))
}

/// The files of this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    places: Places,
}

impl Machine {
    /// Limits the files that users name to these places.
    pub fn within(places: Places) -> Self {
        Self { places }
    }
}

struct Real {
    file: fs::File,
    /// Whether it was created as it was opened.
    created: bool,
}

impl File for Real {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        loop {
            match self.file.write_at(bytes, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&mut self) -> io::Result<u64> {
        // A device's metadata gives the length zero.
        io::Seek::seek(&mut self.file, io::SeekFrom::End(0))
    }

    fn is_device(&mut self) -> io::Result<bool> {
        use std::os::unix::fs::FileTypeExt;
        let kind = self.file.metadata()?.file_type();
        match kind.is_block_device() {
            true => Ok(true),
            false if kind.is_file() => Ok(false),
            false => Err(io::Error::other("the path is neither a file nor a block device")),
        }
    }

    fn identity(&mut self) -> io::Result<Identity> {
        Ok(identity(&fstat(&self.file)?))
    }

    fn lasting_identity(&mut self) -> io::Result<LastingIdentity> {
        let found = self.file.metadata()?;
        if self.is_device()? {
            let number = serial::of(found.rdev());
            let is_unique = number.is_some();
            let text = format!("device {}", number.map_or_else(|| self.len().map(|n| n.to_string()), Ok)?);
            return Ok(LastingIdentity { text, is_unique });
        }
        // Inodes have the same numbers on disks that are made alike.
        let created = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let text = format!("inode {}, created {}", found.ino(), created.unwrap_or_default().as_nanos());
        Ok(LastingIdentity { text, is_unique: created.is_some() })
    }

    fn keep_from_others(&mut self, force: bool) -> io::Result<()> {
        let found = self.file.metadata()?;
        // Some file systems show another owner and other rights of each file.
        if !found.is_file() || self.created {
            return Ok(());
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(denied("the file belongs to another user; name a new file"));
        }
        match found.permissions().mode() & 0o077 {
            0 => Ok(()),
            _ if force => {
                let closed = self.file.set_permissions(fs::Permissions::from_mode(0o600));
                closed.map_err(|error| {
                    denied(format!("the file's rights are not taken from other users: {error}"))
                })
            }
            _ => Err(denied(
                "the file is there, and other users have rights to it; name a new file, or say force",
            )),
        }
    }

    fn lock(&mut self, lock: Lock) -> io::Result<()> {
        // A device is opened exclusively, and udev locks devices while it looks at them.
        if self.is_device()? {
            return Ok(());
        }
        let operation = match lock {
            Lock::Alone => FlockOperation::NonBlockingLockExclusive,
            Lock::Shared => FlockOperation::NonBlockingLockShared,
        };
        match flock(&self.file, operation) {
            // Some network file systems say so of a lock of another.
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(held()),
            // Some network file systems have no locks.
            Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::BADF) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Files for Machine {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        let file = match how {
            How::Make => make_regular(path)?,
            How::Read | How::Write => open_regular(private().read(true).write(how == How::Write), path)?,
        };
        Ok(Box::new(Real { file, created: false }))
    }

    fn open_named(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.places.open(path, how)
    }

    fn claim(&self, path: &Path, how: How, lock: Lock) -> io::Result<Box<dyn File>> {
        self.places.claim(path, how, lock)
    }

    fn identity_of(&self, path: &Path) -> io::Result<Option<Identity>> {
        self.places.identity(path)
    }

    fn remove_named(&self, path: &Path) -> io::Result<()> {
        self.places.remove(path)
    }

    fn is_same(&self, a: &Path, b: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        let (Ok(a), Ok(b)) = (fs::metadata(a), fs::metadata(b)) else { return false };
        let devices =
            a.file_type().is_block_device() && b.file_type().is_block_device() && a.rdev() == b.rdev();
        devices || (a.dev(), a.ino()) == (b.dev(), b.ino())
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Ok(()) => sync_directory(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_directory(to)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Returns options for a file that holds a disk's bytes, or facts about them: a new file is for the daemon's user
/// alone.
pub fn private() -> fs::OpenOptions {
    let mut options = fs::File::options();
    options.mode(0o600);
    options
}

/// Opens a regular file, and never waits. Any other kind under its name is an error: its length does not limit the
/// bytes to read, and opening a pipe waits for the other end.
///
/// # Errors
/// The name is of another kind of file, or the file cannot be opened.
pub fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    let is_regular = |found: &fs::Metadata| match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("the file is not a regular file")),
    };
    // For other kinds opening alone can have effects.
    match fs::metadata(path) {
        Ok(found) => is_regular(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Another kind may have replaced it since.
    let never_waits = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(never_waits.bits().cast_signed()).open(path)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file for reading and writing, as [`open_regular`], or creates it durably. A file that root creates
/// belongs to the owner of its directory: the daemon of that user has to read it.
pub(crate) fn make_regular(path: &Path) -> io::Result<fs::File> {
    let mut options = private();
    options.read(true).write(true);
    match open_regular(options.clone().create_new(true), path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_regular(&mut options, path),
        made => {
            let made = made?;
            if rustix::process::geteuid().is_root() {
                let (owner, own) = (fs::metadata(directory_of(path))?, made.metadata()?);
                if (owner.uid(), owner.gid()) != (own.uid(), own.gid()) {
                    std::os::unix::fs::fchown(&made, Some(owner.uid()), Some(owner.gid()))?;
                }
            }
            sync_directory(path)?;
            Ok(made)
        }
    }
}

/// Creates a directory for such files, durably, with its missing parents.
///
/// # Errors
/// It cannot be created.
pub fn private_directory(path: &Path) -> io::Result<()> {
    make_directory(path, &mut sync_directory)
}

fn make_directory(path: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_directory(directory_of(path), sync)?;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync(path),
    }
}

/// Creates a disk's own directory: if an earlier version left it readable by others, closes it to them.
///
/// # Errors
/// It cannot be made, or is another user's.
pub fn own_directory(path: &Path) -> io::Result<()> {
    private_directory(path)?;
    // If a power cut followed its creation, its name may not be on the medium yet.
    sync_directory(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Syncs a directory: otherwise a power cut may undo creating, renaming or removing a file.
fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A power cut takes a directory whose name was not synced, with all files in it that were.
    #[test]
    fn each_directory_that_is_made_has_its_name_synced() {
        let top = std::env::temp_dir().join(format!("freeblock-directories-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir(&top).unwrap();
        let made = |path: &Path| {
            let mut synced = Vec::new();
            let sync = &mut |path: &Path| {
                synced.push(path.to_owned());
                sync_directory(path)
            };
            make_directory(path, sync).unwrap();
            synced
        };
        let (state, disk) = (top.join("state"), top.join("state/d0"));
        assert_eq!(made(&disk), [state.clone(), disk.clone()]);
        assert_eq!(made(&disk), [] as [PathBuf; 0]);
        for path in [&state, &disk] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::write(top.join("file"), "").unwrap();
        assert!(private_directory(&top.join("file")).is_err());
        assert!(private_directory(&top.join("file/d0")).is_err());
        fs::remove_dir_all(top).unwrap();
    }
}
