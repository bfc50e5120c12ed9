//! Snapshot backup (FAST'04, section 4.1): blocks go into an image, or onto a replica, in the order in which they are
//! read.
//!
//! [`Backup`] reads a snapshot's blocks through a session; [`image`] is the format; [`mod@restore`] writes the blocks
//! back to a drive.

mod app;
pub mod image;
mod replica;
pub mod restore;
mod save;

pub use app::{Backup, BackupStartError, BackupState, Counts, Output};
pub use image::ImageWriter;
pub use replica::{Replica, ReplicaError};
pub use restore::{Point, restore, restore_range, salvage, verify};
pub use save::{load_set, save_set};

use units::Lbn;

/// Takes a stream of bytes: a file, a tape.
pub trait Sink {
    /// Appends the first bytes of `bytes` and returns their number. Fewer than all means that there is no more room
    /// for now.
    ///
    /// # Errors
    /// The target fails, in words.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String>;

    /// Makes the appended bytes durable.
    ///
    /// # Errors
    /// The target fails, in words.
    fn sync(&mut self) -> Result<(), String>;
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Reads the bytes of an image.
pub trait Source {
    /// Fills `into` with the bytes from `at` on; returns their number, which is smaller only at the end.
    ///
    /// # Errors
    /// The source fails, in words.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String>;

    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The source fails, in words.
    fn size(&mut self) -> Result<u64, String>;
}

impl Source for &[u8] {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&mut self) -> Result<u64, String> {
        Ok(self.len() as u64)
    }
}

/// Takes blocks at their addresses: the drive that is restored to, or a replica.
pub trait Destination {
    /// Writes whole sectors from `at` on; returns `false` if the destination cannot take them for now.
    ///
    /// # Errors
    /// The destination fails, in words.
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String>;

    /// Makes the written sectors durable.
    ///
    /// # Errors
    /// The destination fails, in words.
    fn sync(&mut self) -> Result<(), String>;
}
