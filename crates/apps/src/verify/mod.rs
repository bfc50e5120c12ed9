//! Compares the members of a mirror, of RAID 5 or of RAID 6, and names the LBNs that do not agree.
//!
//! Each member is read in whatever order suits it. The bytes of a block that have come are kept as a sum that adds up to zero when
//! the members agree, so that a gibibyte of memory has room for a hundred million blocks, and the members may be far apart. Blocks
//! whose sums differ are read again, byte by byte.

mod comparison;
mod parity;
mod plan;
mod progress;
mod reading;

pub use comparison::{Comparison, ComparisonFigures, Wish};
pub use plan::{Array, ComparisonPlan, ComparisonPlanError, MEMBERS_MAX, MEMORY_MIN};
pub use progress::ComparisonProgressError;
pub use reading::UnreadableSector;
