//! Ids of things with a limited life. They are assigned in order, and never reused.

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
    /// A foreground request; the host chooses the number.
    RequestId, "request "
}
id! {
    /// A background session.
    SessionId, "session "
}
id! {
    /// A task of a session: one registered range of blocks.
    TaskId, "task "
}
