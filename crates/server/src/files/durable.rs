//! Outputs of a backup that can be made durable.

use crate::file_system::File;

/// An output that can be made durable.
pub(super) trait Durable: Send {
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]);
    fn flush(&mut self) -> Result<bool, String>;
    fn finish(&mut self);
    /// Makes the flushed bytes durable; returns the progress to save elsewhere.
    fn sync(&mut self) -> Result<Vec<u8>, String>;
    /// Returns why it takes no more.
    fn full(&mut self) -> String;
    /// Returns its file.
    fn file(&mut self) -> &mut dyn File;
    /// Returns the length that its file has to have at the end, if that is known.
    fn written(&mut self) -> Option<u64> {
        None
    }
}
