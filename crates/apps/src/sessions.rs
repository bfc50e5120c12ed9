//! The session API, which the scheduler defines: applications use nothing else of it.

pub use scheduler::{Application, Parameter, Priority, Record, SessionCall, SessionError, Sessions, Wanted};
