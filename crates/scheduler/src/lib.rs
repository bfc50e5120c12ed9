//! The freeblock core, sans-IO: it chooses the next foreground request, fills its rotational latency with background
//! work that costs the foreground nothing, and uses idle time.
//!
//! Start at [`InDrive`], [`OutsideDrive`] and [`Sessions`]; then `planner.rs` for the use of a gap (the rotational latency of the
//! next request), `idle.rs` for work in idle time, `policy/` for the choice of the next request, `background.rs` and `task.rs`
//! for the blocks that sessions still want, and [`BlockSet`] for the representation of these blocks.
//!
//! # Without the standard library
//! The crate needs an allocator and pointers that can be counted atomically (`alloc::sync::Arc`). With
//! `default-features = false, features = ["libm"]` it needs no `std`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod background;
mod block_set;
mod bounds;
mod core;
mod foreground;
mod given;
mod idle;
mod lottery;
mod planner;
pub mod policy;
mod predictor;
mod session_owners;
mod sessions;
mod task;
mod task_index;
mod time_window;
mod trust;
mod watched;

pub use crate::core::{
    Access, AdoptError, Adoption, AnyCore, AuditArm, AuditConfig, AuditReport, AuditWindow, BackgroundWait,
    Caution, Command, CommandEnd, CommandId, Config, Conservatism, Core, ErrorRecord, HeadEnd, HeadWork,
    HostCall, InDrive, Input, Interval, Neighbours, Outcome, Output, OutsideConfig, OutsideDrive, Overheads,
    PlannerStats, Promise, Purpose, ReadingRefused, Refused, Sharing, SubmitError, Whose,
};
pub use background::{Bad, Buffers, Part, Ready};
pub use block_set::BlockSet;
pub use foreground::{Pending, Request};
pub use given::Given;
pub use idle::{Harm, IdleTime, IdleTimeError};
/// The drive models of this crate's interface, so that a user needs no dependency on `freeblock-model` of the same version.
pub use model;
pub use planner::{Detour, Gap, Neighbour, SearchBudget, Stop};
pub use predictor::{Last, Mimic, Observed, Positioning, Predictor};
pub use session_owners::{OwnerCalls, SessionOwners};
pub use sessions::{
    Application, BLOCK_SECTORS_MAX, Parameter, Priority, PriorityError, Record, SESSIONS_MAX, SessionCall,
    SessionError, Sessions, TASKS_MAX, Wanted,
};
pub use trust::TrustWatch;
/// The addresses and times of this crate's interface, so that a user needs no dependency on `freeblock-units` of the same version.
pub use units;
pub use watched::Watched;
