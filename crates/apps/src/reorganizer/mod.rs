//! The layout reorganiser (FAST'04, section 4.3): blocks change their places in whatever order is free.
//!
//! A [`Plan`] says which block goes where; no order is planned, because nobody knows what the head will pass by. Blocks
//! whose destination is vacated, and those that a staged block waits for, are read in one session; all others in a second
//! one, which is suspended while too many blocks in the staging area cannot be written; writes are the third. That way
//! the staging area always holds a block that can be written, or has room for one that can, so that the plan comes to
//! its end with a staging area of two blocks as with one of two million.
//!
//! Meanwhile the volume goes on: its reads and writes pass through [`Reorganizer::begin_read`] and
//! [`Reorganizer::begin_write`], which know where each block is now. After a crash [`Reorganizer::recover`] goes on from
//! what the staging area's [`Nvram`] holds. Pages: `docs/REORGANIZER.md`.

mod begin;
mod foreground;
mod generate;
mod journal;
mod links;
mod machine;
mod moves;
mod plan;
mod ranges;
mod registered;
mod staging;
mod text;
mod told;

pub use begin::Prepared;
pub use foreground::{Access, AccessError, Piece, Place};
pub use generate::Below;
pub use journal::{Fault, FaultKind, Memory, Nvram, NvramLost, StateError, Volatile};
pub use machine::Reorganizer;
pub use plan::{MOST_BLOCKS, Move, Plan, PlanError};
pub use text::TextError;
pub use told::{Options, Progress, RecoverError, StartError, Statistics, Trouble};
