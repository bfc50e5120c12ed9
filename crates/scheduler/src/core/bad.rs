//! What the medium could not serve.

use units::{Lbn, LbnRange, Op};

/// Sectors that the medium could not serve, each list ascending: a sector that failed to be written may have been read
/// well, and one that could not be read written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad<'a> {
    /// What could not be read.
    pub read: &'a [Lbn],
    /// What could not be written.
    pub written: &'a [Lbn],
}

impl Bad<'_> {
    /// The first of a range that failed.
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

/// For a host that does not know whether reading or writing failed.
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
