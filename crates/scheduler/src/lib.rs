//! The freeblock core, sans-IO: it chooses the next foreground request, and fills its rotational latency with
//! background reads that cost the foreground nothing.
//!
//! Start at [`Core`]; then `planner.rs` for what goes into a gap, `policy/` for what goes next, `background.rs` and
//! `task.rs` for what sessions still want, and [`BlockSet`] for how that is kept.

mod background;
mod block_set;
mod bounds;
mod core;

mod foreground;
mod planner;
pub mod policy;
mod predictor;
mod task;
mod task_index;

pub use crate::core::{Access, Action, Config, Core, PlannerStats, Purpose, SubmitError};
pub use background::{MOST_BLOCK_SECTORS, MOST_TASKS, Priority, Record, SessionError};
pub use block_set::BlockSet;
pub use foreground::{Pending, Request};
pub use planner::{Detour, Gap, SearchBudget, Stop};
pub use predictor::{Positioning, Predictor};
