//! Files as sources, sinks and destinations of `apps::backup`.

use crate::file_system::{File, write_all};
use apps::backup::{Destination, Sink, Source};
use std::io;
use units::Lbn;

pub(crate) struct FileSource(pub Box<dyn File>);

impl Source for FileSource {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        self.0.read_at(at, into).map_err(|e| e.to_string())
    }

    fn size(&mut self) -> Result<u64, String> {
        self.0.len().map_err(|e| e.to_string())
    }
}

/// A file that is appended to.
pub(crate) struct FileSink {
    file: Box<dyn File>,
    at: u64,
    /// The reason, in words, why the last write was refused.
    full: String,
}

impl FileSink {
    pub fn new(file: Box<dyn File>, at: u64) -> Self {
        Self { file, at, full: String::new() }
    }

    /// Returns why the last refused write was refused.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// Returns the byte at which the next append begins.
    pub fn place(&self) -> u64 {
        self.at
    }

    pub fn file(&mut self) -> &mut dyn File {
        &mut *self.file
    }

    pub fn sync_now(&mut self) -> Result<(), String> {
        self.file.sync().map_err(|e| e.to_string())
    }
}

/// Returns whether the error is a lack of space.
pub(crate) fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}

impl Sink for FileSink {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        // If another program has cut the file, bytes appended behind the hole would make it look complete.
        let len = self.file.len().map_err(|e| e.to_string())?;
        if len != self.at {
            let at = self.at;
            return Err(format!(
                "the file has {len} bytes, and {at} were written: another program has changed it"
            ));
        }
        match self.file.write_at(self.at, bytes) {
            Ok(n) => {
                self.at = self.at.saturating_add(n as u64);
                Ok(n)
            }
            Err(error) if no_room(&error) => {
                self.full = error.to_string();
                Ok(0)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        self.sync_now()
    }
}

/// A file or device with each block at its address on the disk.
pub(crate) struct FileDestination {
    pub file: Box<dyn File>,
    pub sector: u64,
    /// The size of the disk in bytes: the last block may be padded beyond it.
    pub end: u64,
    /// Whether the target has its size. A file gets it with the first block, or with the first sync.
    pub sized: bool,
    /// The reason, in words, why the last write was refused.
    pub full: String,
}

impl FileDestination {
    fn size(&mut self) -> io::Result<()> {
        if !self.sized {
            self.file.set_len(self.end)?;
            self.sized = true;
        }
        Ok(())
    }

    /// Checks that no other program has cut the file since it got its size, because zeros would take the place
    /// of the blocks that were cut off.
    ///
    /// # Errors
    /// The file is shorter, or its length is unknown.
    pub fn check_len(&mut self) -> Result<(), String> {
        let len = self.file.len().map_err(|e| e.to_string())?;
        match self.sized && len < self.end {
            true => Err(format!("the file has {len} bytes of {}: another program has changed it", self.end)),
            false => Ok(()),
        }
    }
}

impl Destination for FileDestination {
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String> {
        self.check_len()?;
        let from = at.get().checked_mul(self.sector).ok_or("an LBN beyond all files")?;
        let room = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        match self.size().and_then(|()| write_all(&mut *self.file, from, bytes)) {
            Ok(()) => Ok(true),
            Err(error) if no_room(&error) => {
                self.full = error.to_string();
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        self.check_len()?;
        self.size().or_else(|error| if no_room(&error) { Ok(()) } else { Err(error.to_string()) })?;
        self.file.sync().map_err(|e| e.to_string())
    }
}
