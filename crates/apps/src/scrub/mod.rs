//! The scrubber: reads every block once, verifies checksums, reports bad sectors, survives a restart (docs/SCRUB.md).

mod checksums;
mod plan;
mod progress;
mod scrubber;
mod store;

pub use checksums::{Checksums, Judgement, Known};
pub use plan::{Finding, ScrubPlan};
pub use progress::ScrubProgressError;
pub use scrubber::{ScrubFigures, Scrubber};
pub use store::{DamagedPage, PAGE_BYTES, StoreError, StoreLimits, StoredChecksums, SumFile};
