//! Tasks as data: their specifications, the journal, the room that they share, and their file operations.
//!
//! A task at work is a job ([`crate::jobs`]).

pub mod budget;
pub mod file_request;
pub(crate) mod journal;
pub mod spec;
pub mod table;
