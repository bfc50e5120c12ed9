//! The owners of the task manager's sessions.

/// The owner of a session of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The task of this number.
    Task(u64),
    /// The client session of this number.
    Client(u64),
}
