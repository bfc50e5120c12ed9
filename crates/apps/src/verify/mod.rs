//! Compares the members of a mirror, of RAID 5 or of RAID 6, and names the LBNs that do not agree.
//!
//! Members are read independently of each other, in any order. Of a block that not all members have read, only a sum
//! is kept, which shows at the last member whether they agree. So a gibibyte of memory has room for a hundred million
//! blocks, and one member may be far ahead of another. Blocks whose sums differ are read again and compared byte by
//! byte.

mod comparison;
mod parity;
mod plan;
mod progress;
mod reading;

pub use comparison::{Comparison, ComparisonFigures, Wish};
pub use plan::{Array, ComparisonPlan, ComparisonPlanError, MEMBERS_MAX, MEMORY_MIN};
pub use progress::ComparisonProgressError;
pub use reading::UnreadableSector;
