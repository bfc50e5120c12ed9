//! Talks to a freeblock daemon over its control socket: [`Control`] starts and steers tasks, [`Session`] is a session
//! of a program of one's own, whose records arrive on a file descriptor.
//!
//! Blocking, without a runtime; the protocols are in docs/CONTROL.md, and [`wire`] is that of sessions.

#![cfg(unix)]

mod control;
mod http;
mod session;
pub mod wire;

pub use control::{Control, ControlError};
pub use session::{Got, Record, Session, SessionError, Wanted};

/// What a daemon's answer comes to: its code, its body, and what it says if it is a refusal. For tests with hostile bytes.
///
/// # Errors
/// It is no answer of a daemon, or it cannot be read.
#[doc(hidden)]
pub fn read_answer(from: &mut impl std::io::Read) -> std::io::Result<(u16, Vec<u8>, Option<ControlError>)> {
    let (code, body) = http::answer(from)?;
    let refusal = control::refusal(code, &body);
    Ok((code, body, refusal))
}

/// Where a daemon's control socket is if nobody says otherwise.
pub const USUAL_PATH: &str = "/run/freeblock/control.sock";
