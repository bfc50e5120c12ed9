//! Sectors that the medium could not serve.

use alloc::vec::Vec;
use units::{Lbn, LbnRange, Op};

/// The sectors that the medium could not serve, in ascending lists for each operation: a sector that could not be written may
/// have been read, and the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad<'a> {
    /// The sectors that could not be read.
    pub read: &'a [Lbn],
    /// The sectors that could not be written.
    pub written: &'a [Lbn],
}

impl Bad<'_> {
    /// Returns the first failed sector of a range.
    pub(crate) fn first(&self, op: Op, range: LbnRange) -> Option<Lbn> {
        let list = match op {
            Op::Read => self.read,
            Op::Write => self.written,
        };
        let first = list.partition_point(|lbn| *lbn < range.start());
        list.get(first).copied().filter(|lbn| *lbn < range.end())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.read.is_empty() && self.written.is_empty()
    }
}

/// Counts the sectors as failed for both operations, for a host that does not know which one failed.
impl<'a> From<&'a [Lbn]> for Bad<'a> {
    fn from(bad: &'a [Lbn]) -> Self {
        Self { read: bad, written: bad }
    }
}

impl<'a, const N: usize> From<&'a [Lbn; N]> for Bad<'a> {
    fn from(bad: &'a [Lbn; N]) -> Self {
        Self::from(bad.as_slice())
    }
}

impl<'a> From<&'a Vec<Lbn>> for Bad<'a> {
    fn from(bad: &'a Vec<Lbn>) -> Self {
        Self::from(bad.as_slice())
    }
}
