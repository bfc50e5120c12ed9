//! Tasks as data: specifications, the table and its journal, shared budgets of bytes, and requests for file operations.
//!
//! The state machine that executes a task is a job ([`crate::jobs`]).

pub mod budget;
pub mod file_request;
pub(crate) mod journal;
pub mod spec;
pub mod table;
