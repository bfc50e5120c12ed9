//! The output of a backup task, as its file worker uses it: an image or a replica.

use crate::file_system::File;

/// An image or replica that is written.
pub(super) trait Durable: Send {
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]);
    fn flush(&mut self) -> Result<bool, String>;
    fn finish(&mut self);
    /// Makes the flushed bytes durable; returns the progress to save elsewhere.
    fn sync(&mut self) -> Result<Vec<u8>, String>;
    /// Returns why the output takes no more.
    fn full(&mut self) -> String;
    fn file(&mut self) -> &mut dyn File;
    /// Returns the length that the output's file must have at the end, if that is known.
    fn written(&mut self) -> Option<u64> {
        None
    }
}
