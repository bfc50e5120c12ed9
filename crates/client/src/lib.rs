//! Talks to a freeblock daemon over its control socket: [`Control`] starts and controls tasks, and [`Session`] is a
//! session of the calling program, whose records arrive on a file descriptor.
//!
//! All calls block, and need no async runtime. The protocols are in docs/CONTROL.md; [`wire`] is the protocol of
//! sessions.

#![cfg(unix)]

mod control;
mod http;
mod session;
pub mod wire;

pub use control::{Control, ControlError};
pub use session::{Got, Record, Session, SessionError, Wanted};

/// Reads a daemon's answer: status code, body, and the error if the answer is a refusal. For tests with hostile bytes.
///
/// # Errors
/// The answer is not a daemon's, or cannot be read.
#[doc(hidden)]
pub fn read_answer(from: &mut impl std::io::Read) -> std::io::Result<(u16, Vec<u8>, Option<ControlError>)> {
    let (code, body) = http::answer(from)?;
    let refusal = control::refusal(code, &body);
    Ok((code, body, refusal))
}

/// The default path of a daemon's control socket.
pub const USUAL_PATH: &str = "/run/freeblock/control.sock";
