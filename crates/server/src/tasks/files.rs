//! Files as tasks use them, so that tests can have them fail.

use super::places::{Places, is_denied};
use crate::desk::order::News;
use std::fs;
use std::io;
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// To be read.
    Read,
    /// To be read and written; it must be there.
    Write,
    /// The same, made if it is not there.
    Make,
}

/// A file.
pub(crate) trait File: Send {
    /// Reads at a place; fewer bytes only at the end.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at a place; how many bytes.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes durable what was written.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts it, or makes it longer.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Bytes of it; of a device too.
    fn len(&mut self) -> io::Result<u64>;
    /// Whether it is a device, whose size is given.
    fn is_device(&mut self) -> io::Result<bool>;
}

/// Where files are.
pub(crate) trait Files: Send + Sync {
    /// Opens one.
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>>;
    /// Opens one that a user has named: it has to be where tasks may touch files ([`Places`]).
    fn open_named(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.open(path, how)
    }
    /// Removes one that a user has named.
    fn remove_named(&self, path: &Path) -> io::Result<()> {
        self.remove(path)
    }
    /// Whether both are one file.
    fn is_same(&self, a: &Path, b: &Path) -> bool;
    /// Whether it is a directory.
    fn is_dir(&self, path: &Path) -> bool;
    /// Removes one, durably; none is there: well.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Puts one in the place of another, durably.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
}

/// What is told when a file that a user has named cannot be opened: a place that may not be touched is not tried again.
pub(crate) fn not_opened(place: &str, error: &io::Error) -> News {
    let why = format!("{place}: {error}");
    if is_denied(error) { News::Refused(why) } else { News::Trouble(why) }
}

/// Those of this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    places: Places,
}

impl Machine {
    /// Files that users name are within these places.
    pub fn within(places: Places) -> Self {
        Self { places }
    }
}

pub(super) struct Real(pub fs::File);

impl File for Real {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, at.saturating_add(done as u64)) {
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
            match self.0.write_at(bytes, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                told => return told,
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&mut self) -> io::Result<u64> {
        // A device's metadata says zero.
        io::Seek::seek(&mut self.0, io::SeekFrom::End(0))
    }

    fn is_device(&mut self) -> io::Result<bool> {
        use std::os::unix::fs::FileTypeExt;
        let kind = self.0.metadata()?.file_type();
        match kind.is_block_device() {
            true => Ok(true),
            false if kind.is_file() => Ok(false),
            false => Err(io::Error::other("it is neither a file nor a block device")),
        }
    }
}

impl Files for Machine {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        let mut options = fs::File::options();
        options.read(true).write(how != How::Read).create(how == How::Make);
        let made = how == How::Make && !path.exists();
        let file = options.open(path)?;
        if made {
            sync_directory(path)?;
        }
        Ok(Box::new(Real(file)))
    }

    fn open_named(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.places.open(path, how)
    }

    fn remove_named(&self, path: &Path) -> io::Result<()> {
        self.places.remove(path)
    }

    fn is_same(&self, a: &Path, b: &Path) -> bool {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
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
}

/// Without this a power cut may take a file back that was made, renamed or removed.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(directory)?.sync_all()
}
