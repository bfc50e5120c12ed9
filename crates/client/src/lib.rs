//! Talks to a freeblock daemon over its control socket: [`Control`] starts and controls tasks, [`Session`] is a session
//! of the calling program, whose records arrive on a file descriptor.
//!
//! Blocking, without a runtime; the protocols are in docs/CONTROL.md, and [`wire`] is that of sessions.

#![cfg(unix)]

mod control;
mod http;
mod session;
pub mod wire;

pub use control::{Control, ControlError};
pub use session::{Got, Record, Session, SessionError, Wanted};

/// Reads a daemon's answer: its code, its body, and the error if it is a refusal. For tests with hostile bytes.
///
/// # Errors
/// The answer is not that of a daemon, or it cannot be read.
#[doc(hidden)]
pub fn read_answer(from: &mut impl std::io::Read) -> std::io::Result<(u16, Vec<u8>, Option<ControlError>)> {
    let (code, body) = http::answer(from)?;
    let refusal = control::refusal(code, &body);
    Ok((code, body, refusal))
}

/// The default path of a daemon's control socket.
pub const USUAL_PATH: &str = "/run/freeblock/control.sock";
