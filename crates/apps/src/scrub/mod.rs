//! The scrubber: reads every block once, verifies checksums, reports bad sectors, survives a restart (docs/SCRUB.md).

mod checksums;
mod progress;
mod scrubber;
mod store;

pub use checksums::{Checksums, Judgement, Known};
pub use progress::ProgressError;
pub use scrubber::{Figures, Finding, Plan, Scrubber};
pub use store::{DamagedPage, Limits, PAGE_BYTES, StoreError, StoredChecksums, SumFile};
