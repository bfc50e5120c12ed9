//! File access behind traits, so that tests can make it fail, and the places where users may name files.

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
    /// For reading and writing; the file must exist.
    Write,
    /// For reading and writing; the file is created if missing.
    Make,
}

/// The access to a file that other tasks and programs have while it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Other tasks and programs have no access.
    Alone,
    /// Other tasks and programs can lock the file for reading, too.
    Shared,
}

/// The identity of a file or device that stays the same over restarts.
pub(crate) struct LastingIdentity {
    /// A file's inode and creation time; a device's serial number, or its size if it has no serial number.
    pub text: String,
    /// Whether no other file has the same text: the creation time, or the serial number, is known.
    pub is_unique: bool,
}

pub(crate) trait File: Send {
    /// Reads at byte `at`; returns fewer bytes than asked only at the end of the file.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at byte `at`; returns the number of bytes written.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts or extends the file to this length.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Returns the length of the file, or of the device, in bytes.
    fn len(&mut self) -> io::Result<u64>;
    /// Returns whether this is a block device, whose size is fixed.
    fn is_device(&mut self) -> io::Result<bool>;
    /// Returns the file's identity, which is the same under each of its names.
    fn identity(&mut self) -> io::Result<Identity>;
    /// Returns the file's identity in a form that stays the same over restarts.
    fn lasting_identity(&mut self) -> io::Result<LastingIdentity>;
    /// Makes sure that other users cannot read what will be written to a regular file. A file that others can access
    /// is closed to them with `force`, and refused without. A file of another user is refused.
    fn keep_from_others(&mut self, force: bool) -> io::Result<()>;
    /// Locks the file until it is closed; the error is of the kind `ResourceBusy` if another lock is in the way.
    fn lock(&mut self, lock: Lock) -> io::Result<()>;
}

pub(crate) trait Files: Send + Sync {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>>;
    /// Opens a file that a user has named; it must lie where tasks may access files ([`Places`]).
    fn open_named(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.open(path, how)
    }
    /// Opens a file that a user has named and locks it, unless another lock on it is in the way.
    fn claim(&self, path: &Path, how: How, lock: Lock) -> io::Result<Box<dyn File>>;
    /// Returns the identity of the file that a user has named; `None` if it does not exist.
    fn identity_of(&self, path: &Path) -> io::Result<Option<Identity>>;
    /// Removes a file that a user has named.
    fn remove_named(&self, path: &Path) -> io::Result<()> {
        self.remove(path)
    }
    /// Returns whether both paths lead to one file.
    fn is_same(&self, a: &Path, b: &Path) -> bool;
    /// Returns whether the path is a directory.
    fn is_dir(&self, path: &Path) -> bool;
    /// Removes a file, durably; succeeds if the file does not exist.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file over another, durably.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Returns the names in a directory, sorted.
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

/// Returns whether the path exists, as a file of any kind.
pub(crate) fn is_listed(files: &dyn Files, path: &Path) -> bool {
    let (directory, name) = (path.parent().unwrap_or(Path::new(".")), path.file_name().unwrap_or_default());
    files.list(directory).is_ok_and(|names| names.iter().any(|there| there.as_str() == name))
}

/// Renames a damaged file, durably, so that an operator can inspect it: to `NAME.damaged`, or `NAME.damaged-N` if
/// that exists. Returns the new name, or `None` if the file does not exist.
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
    /// Whether opening has created the file.
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
        // The metadata of a block device gives the length zero.
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
        // On disks that were made alike, files have the same inode numbers, so the creation time is added.
        let created = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let text = format!("inode {}, created {}", found.ino(), created.unwrap_or_default().as_nanos());
        Ok(LastingIdentity { text, is_unique: created.is_some() })
    }

    fn keep_from_others(&mut self, force: bool) -> io::Result<()> {
        let found = self.file.metadata()?;
        // A new file is not checked, because some file systems show another owner and other rights for each file.
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
        // A device is opened exclusively instead, because udev locks devices while it looks at them.
        if self.is_device()? {
            return Ok(());
        }
        let operation = match lock {
            Lock::Alone => FlockOperation::NonBlockingLockExclusive,
            Lock::Shared => FlockOperation::NonBlockingLockShared,
        };
        match flock(&self.file, operation) {
            // Some network file systems report the lock of another program as ACCESS.
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(held()),
            // Some network file systems have no locks, which counts as success.
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

/// Opens a regular file, without ever blocking. Another kind of file is an error: its length does not limit the
/// bytes to read, and opening a pipe waits for the other end.
///
/// # Errors
/// The name is of another kind of file, or the file cannot be opened.
pub fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    let is_regular = |found: &fs::Metadata| match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("the file is not a regular file")),
    };
    // The kind of file is checked before opening it, because opening a device or a pipe can have effects.
    match fs::metadata(path) {
        Ok(found) => is_regular(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // A file of another kind may have replaced this one since, so the kind is checked again.
    let never_waits = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(never_waits.bits().cast_signed()).open(path)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file for reading and writing, like [`open_regular`], or creates it durably. A file that root
/// creates is given to the owner of its directory, whose daemon has to read it.
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

/// Creates a directory for a disk's files, durably, with its missing parents, for the daemon's user alone.
///
/// # Errors
/// The directory cannot be created.
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

/// Creates a disk's own directory. An existing directory that other users can read, as an earlier version made it,
/// is closed to them.
///
/// # Errors
/// The directory cannot be made, or belongs to another user.
pub fn own_directory(path: &Path) -> io::Result<()> {
    private_directory(path)?;
    // The name of an existing directory may not be on the medium yet, if a power cut followed its creation.
    sync_directory(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes the names in the directory of `path` durable: otherwise a power cut may undo that a file was created,
/// renamed or removed.
fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A power cut takes a directory whose name was not synced, together with all synced files in it.
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
