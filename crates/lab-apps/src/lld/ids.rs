//! Names of things in a log.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            /// Wraps the number.
            pub const fn new(n: $int) -> Self {
                Self(n)
            }

            /// The number itself.
            pub const fn get(self) -> $int {
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

number! {
    /// A block as the log's client numbers it, from 0 on.
    LogicalBlock(u32), "logical block "
}
number! {
    /// A segment's place on the medium, from 0 on.
    SegmentIndex(u32), "segment "
}
number! {
    /// The number of a segment in the order of all writes of segments: data in a later one supersede data in
    /// an earlier one.
    Sequence(u64), "sequence "
}

impl LogicalBlock {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SegmentIndex {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Sequence {
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
