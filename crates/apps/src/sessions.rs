//! The session API, which the scheduler defines: all calls between an application and the core.

pub use scheduler::{Application, Parameter, Priority, Record, SessionCall, SessionError, Sessions, Wanted};
