//! The scrubber: reads every block once, verifies checksums, names bad sectors, survives a restart (docs/SCRUB.md).

mod checksums;
mod progress;
mod scrubber;

pub use checksums::{Checksums, Known, MemoryChecksums};
pub use progress::ProgressError;
pub use scrubber::{Figures, Finding, Plan, Scrubber};
