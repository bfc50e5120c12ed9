//! The files of tasks: the threads that may block on them, and a module for each kind of file.
//!
//! The state machines of tasks are in [`crate::jobs`]; they touch no file.

mod chain;
mod durable;
mod identified;
mod images;
mod kept;
mod members;
mod moves;
mod replica;
pub(crate) mod source;
pub(crate) mod sums;
mod target;
pub(crate) mod worker;
pub(crate) mod workers;

pub use crate::bounded::{FILES_END_WAIT, join_until};
pub use crate::file_system::{Places, open_regular, own_directory, private, private_directory, serial};
pub use crate::task::journal::{Journal, JournalError};
pub(crate) use moves::{MAP_BYTES_MAX, OwnPlan, PLAN_BYTES_MAX};
pub(crate) use sums::SUMS_END;
pub use workers::{FileWorkers, OpenError, ReplySink};

use crate::file_system::is_denied;
use crate::task::file_request::FileResult;
use crate::task::journal;
use std::io;

/// Returns the report for a user's file that cannot be opened. If tasks may not access it, the task
/// fails; otherwise it tries again.
fn not_opened(place: &str, error: &io::Error) -> FileResult {
    let why = format!("{place}: {error}");
    if is_denied(error) { FileResult::Refused(why) } else { FileResult::Trouble(why) }
}

/// Returns a journal with one record of these bytes, for `crates/hostile`.
#[doc(hidden)]
pub fn journal_of(record: &[u8]) -> Option<Journal> {
    let mut journal = Journal::default();
    journal::apply(&mut journal.table, record).then_some(journal)
}
