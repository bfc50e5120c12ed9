//! Ids of requests, sessions and tasks. A core assigns the ids of sessions and tasks in ascending order, and never reuses one.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(u64);

        impl $name {
            /// Wraps the number.
            #[inline]
            pub const fn new(n: u64) -> Self {
                Self(n)
            }

            /// Returns the number.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// The id of a foreground request, which the host chooses.
    RequestId, "request "
}
id! {
    /// The id of a background session: of a client of background work.
    SessionId, "session "
}
id! {
    /// The id of a task: a range of blocks that a session has registered.
    TaskId, "task "
}
