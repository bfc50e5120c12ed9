//! The two quantities on which a predicted time depends: the distance, and the types of the two requests.

use scheduler::Last;
use std::fmt;
use units::{Lbn, Op};

/// The inter-request distance, in sectors: the first sector of a request less the last sector of the previous request
/// (ATC'03, section 3.1). A sequential request is at distance 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance(i64);

impl Distance {
    /// Creates a distance in sectors, backward if negative.
    #[inline]
    pub const fn new(sectors: i64) -> Self {
        Self(sectors)
    }

    /// Returns the distance from the last sector of one request to the first of the next.
    ///
    /// ```
    /// use mimic::Distance;
    /// use units::Lbn;
    /// assert_eq!(Distance::between(Lbn::new(107), Lbn::new(100)).sectors(), -7);
    /// ```
    #[inline]
    pub const fn between(last: Lbn, first: Lbn) -> Self {
        // No drive has 2^63 sectors: `model` and `workload` refuse addresses near there. A wrapped distance would
        // only give a wrong prediction.
        Self(first.get().wrapping_sub(last.get()) as i64)
    }

    /// Returns the distance in sectors.
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

/// The types of the previous and the current request. Both matter, because the components of a read's time differ
/// after a write and after a read (ATC'03, section 3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    previous: Op,
    current: Op,
}

impl Pair {
    /// All four pairs, ordered by [`index`](Self::index).
    pub const ALL: [Self; 4] = [
        Self::new(Op::Read, Op::Read),
        Self::new(Op::Read, Op::Write),
        Self::new(Op::Write, Op::Read),
        Self::new(Op::Write, Op::Write),
    ];

    /// Creates the pair of `current` after `previous`.
    #[inline]
    pub const fn new(previous: Op, current: Op) -> Self {
        Self { previous, current }
    }

    /// Returns the type of the previous request.
    #[inline]
    pub const fn previous(self) -> Op {
        self.previous
    }

    /// Returns the type of the current request.
    #[inline]
    pub const fn current(self) -> Op {
        self.current
    }

    /// Returns the pair's index in [`ALL`](Self::ALL).
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

/// Returns the pair and the distance of a request of type `op` that begins at `first` and follows the request `last`.
#[inline]
pub(crate) fn key(last: Last, op: Op, first: Lbn) -> (Pair, Distance) {
    (Pair::new(last.op, op), Distance::between(last.lbn, first))
}
