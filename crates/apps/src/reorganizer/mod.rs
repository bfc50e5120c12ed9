//! The layout reorganiser (FAST'04, section 4.3) moves blocks to new places in any order, through a staging area:
//! memory for blocks that have been read and not yet written.
//!
//! A [`RelocationPlan`] gives each block's destination. It gives no order, because the path of the head is unknown in
//! advance. One session reads blocks whose destination is vacated, and those that a staged block waits for; a second
//! session reads all others, and is suspended while too many blocks in the staging area cannot be written; the third
//! writes. So the staging area always has a block that can be written, or room for one that can, and the plan ends
//! with a staging area of two blocks as well as with one of two million.
//!
//! The volume stays in use: its reads and writes go through [`Reorganizer::begin_read`] and
//! [`Reorganizer::begin_write`], which map each block to its current place. After a crash [`Reorganizer::recover`]
//! resumes from the staging area's [`Nvram`]. See `docs/REORGANIZER.md`.

mod begin;
mod foreground;
mod generate;
mod journal;
mod links;
mod machine;
mod moves;
mod options;
mod plan;
mod prepared;
mod ranges;
mod registered;
mod staging;
mod text;

pub use foreground::{Access, AccessError, AccessPlace, Piece};
pub use generate::Below;
pub use journal::{Fault, FaultKind, Memory, Nvram, NvramLost, ReorganizeStateError, Volatile};
pub use machine::Reorganizer;
pub use options::{Options, Progress, RecoverError, ReorganizeStartError, Statistics, Trouble};
pub use plan::{Move, PLAN_BLOCKS_MAX, RelocationPlan, RelocationPlanError};
pub use prepared::Prepared;
pub use text::TextError;
