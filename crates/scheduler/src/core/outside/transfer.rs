//! A transfer: the part of a command on which its time depends.

use units::{LbnRange, Op};

/// LBNs that are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub op: Op,
    pub range: LbnRange,
}

impl Transfer {
    pub const fn new(op: Op, range: LbnRange) -> Self {
        Self { op, range }
    }
}
