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

/// Where a daemon's control socket is if nobody says otherwise.
pub const USUAL_PATH: &str = "/run/freeblock/control.sock";
