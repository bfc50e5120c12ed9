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

/// A target for a stream of bytes, such as a file or a tape.
pub trait Sink {
    /// Appends the first bytes of `bytes` and returns their number. Fewer than all means that there is no more room
    /// for now.
    ///
    /// # Errors
    /// The target failed; the text says why.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String>;

    /// Makes the appended bytes durable.
    ///
    /// # Errors
    /// The target failed; the text says why.
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

/// A source of the bytes of an image.
pub trait Source {
    /// Fills `into` with the bytes from `at` on; returns their number, which is smaller only at the end.
    ///
    /// # Errors
    /// The source failed; the text says why.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String>;

    /// Returns the number of bytes in the source.
    ///
    /// # Errors
    /// The source failed; the text says why.
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

/// A drive that takes blocks at their own addresses: the drive restored to, or that of a replica.
pub trait Destination {
    /// Writes whole sectors from `at` on; returns `false` if the destination cannot take them for now.
    ///
    /// # Errors
    /// The destination failed; the text says why.
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String>;

    /// Makes the written sectors durable.
    ///
    /// # Errors
    /// The destination failed; the text says why.
    fn sync(&mut self) -> Result<(), String>;
}
