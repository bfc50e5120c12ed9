//! What a time depends on: how far, and from what to what.

use scheduler::Last;
use std::fmt;
use units::{Lbn, Op};

/// The inter-request distance: the first sector of a request less the last sector of the one before (ATC'03, section
/// 3.1). A sequential successor is at distance 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance(i64);

impl Distance {
    /// So many sectors, backward if negative.
    #[inline]
    pub const fn new(sectors: i64) -> Self {
        Self(sectors)
    }

    /// From the last sector of one request to the first of the next.
    ///
    /// ```
    /// use mimic::Distance;
    /// use units::Lbn;
    /// assert_eq!(Distance::between(Lbn::new(107), Lbn::new(100)).sectors(), -7);
    /// ```
    #[inline]
    pub const fn between(last: Lbn, first: Lbn) -> Self {
        // No drive has 2^63 sectors: model and workload refuse addresses near there, and a wrapped distance is only a
        // wrong prediction.
        Self(first.get().wrapping_sub(last.get()) as i64)
    }

    /// In sectors.
    #[inline]
    pub const fn sectors(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+}", self.0)
    }
}

/// The types of the previous and the current request. Both matter: a read after a write waits for other things than a
/// read after a read (ATC'03, section 3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    previous: Op,
    current: Op,
}

impl Pair {
    /// All four, by [`index`](Self::index).
    pub const ALL: [Self; 4] = [
        Self::new(Op::Read, Op::Read),
        Self::new(Op::Read, Op::Write),
        Self::new(Op::Write, Op::Read),
        Self::new(Op::Write, Op::Write),
    ];

    /// `current` after `previous`.
    #[inline]
    pub const fn new(previous: Op, current: Op) -> Self {
        Self { previous, current }
    }

    /// The type of the request before.
    #[inline]
    pub const fn previous(self) -> Op {
        self.previous
    }

    /// The type of the request.
    #[inline]
    pub const fn current(self) -> Op {
        self.current
    }

    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    pub const fn index(self) -> usize {
        self.previous.is_write() as usize * 2 + self.current.is_write() as usize
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |op: Op| if op.is_write() { "write" } else { "read" };
        write!(f, "{} after {}", name(self.current), name(self.previous))
    }
}

/// What a request after `last` that begins at `first` depends on.
#[inline]
pub(crate) fn key(last: Last, op: Op, first: Lbn) -> (Pair, Distance) {
    (Pair::new(last.op, op), Distance::between(last.lbn, first))
}
