//! The session API, which the scheduler defines: an application knows no more of it than this.

pub use scheduler::{Application, Parameter, Priority, Record, SessionError, Sessions, Wanted};
