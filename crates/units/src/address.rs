//! Addresses and amounts on a drive.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name($int);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// Wraps the number.
            #[inline]
            pub const fn new(n: $int) -> Self {
                Self(n)
            }

            /// Returns the number.
            #[inline]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A logical block number: the address of one sector as a host sees it.
    Lbn(u64)
}
number! {
    /// A number of sectors.
    Sectors(u64)
}
number! {
    /// A number of bytes.
    Bytes(u64)
}
number! {
    /// A cylinder, counted from the outermost, 0.
    Cylinder(u32)
}
number! {
    /// A head, and with it the surface that it reads.
    Head(u16)
}
number! {
    /// A track with LBNs, numbered in LBN order.
    TrackIndex(u32)
}

impl Add<Sectors> for Lbn {
    type Output = Self;
    #[inline]
    fn add(self, n: Sectors) -> Self {
        Self(self.0 + n.0)
    }
}

impl AddAssign<Sectors> for Lbn {
    #[inline]
    fn add_assign(&mut self, n: Sectors) {
        self.0 += n.0;
    }
}

impl Lbn {
    /// Returns the number of sectors from `earlier` to this LBN.
    ///
    /// # Panics
    /// In debug builds, if `earlier` is larger.
    #[inline]
    pub const fn since(self, earlier: Self) -> Sectors {
        debug_assert!(self.0 >= earlier.0);
        Sectors(self.0.wrapping_sub(earlier.0))
    }
}

impl Add for Sectors {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Sectors {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Sectors {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Sectors {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Sectors {
    /// Returns the number of bytes in these sectors, of `sector` bytes each.
    #[inline]
    pub const fn bytes(self, sector: Bytes) -> Bytes {
        Bytes(self.0 * sector.0)
    }
}

impl Cylinder {
    /// Returns the seek distance from this cylinder to `other`, in cylinders.
    #[inline]
    pub const fn distance(self, other: Self) -> u32 {
        self.0.abs_diff(other.0)
    }
}

/// Consecutive LBNs: the first, and the number of sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LbnRange {
    start: Lbn,
    len: Sectors,
}

impl LbnRange {
    /// Returns the range of `len` sectors from `start` on.
    #[inline]
    pub const fn new(start: Lbn, len: Sectors) -> Self {
        Self { start, len }
    }

    /// Returns the first LBN.
    #[inline]
    pub const fn start(self) -> Lbn {
        self.start
    }

    /// Returns the number of sectors.
    #[inline]
    pub const fn len(self) -> Sectors {
        self.len
    }

    /// Returns whether the range is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len.0 == 0
    }

    /// Returns the LBN after the last, or `None` if that does not fit into 64 bits.
    #[inline]
    pub const fn checked_end(self) -> Option<Lbn> {
        match self.start.0.checked_add(self.len.0) {
            Some(end) => Some(Lbn(end)),
            None => None,
        }
    }

    /// Returns the LBN after the last.
    #[inline]
    pub const fn end(self) -> Lbn {
        Lbn(self.start.0 + self.len.0)
    }

    /// Returns whether `lbn` is in the range.
    #[inline]
    pub const fn contains(self, lbn: Lbn) -> bool {
        lbn.0 >= self.start.0 && lbn.0 - self.start.0 < self.len.0
    }

    /// Returns whether the two ranges have a sector in common; an empty range overlaps no range.
    ///
    /// ```
    /// use freeblock_units::{Lbn, LbnRange, Sectors};
    /// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
    /// assert!(range(8, 8).overlaps(range(15, 2)) && !range(8, 8).overlaps(range(16, 2)));
    /// assert!(!range(8, 8).overlaps(range(10, 0)));
    /// ```
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start.0 < other.end().0 && other.start.0 < self.end().0
    }

    /// Returns the sectors that the two ranges have in common; `None` if they have no sector in common. A range that would end
    /// past the largest LBN is taken to end there.
    ///
    /// ```
    /// use freeblock_units::{Lbn, LbnRange, Sectors};
    /// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
    /// assert_eq!(range(8, 8).intersection(range(12, 20)), Some(range(12, 4)));
    /// assert_eq!(range(8, 8).intersection(range(16, 2)), None);
    /// assert_eq!(range(8, u64::MAX).intersection(range(0, 10)), Some(range(8, 2)));
    /// ```
    pub fn intersection(self, other: Self) -> Option<Self> {
        let end = |range: Self| range.checked_end().unwrap_or(Lbn(u64::MAX));
        let (start, end) = (self.start.max(other.start), end(self).min(end(other)));
        (start < end).then(|| Self::new(start, end.since(start)))
    }

    /// Returns whether all of `other` lies inside this range.
    #[inline]
    pub const fn covers(self, other: Self) -> bool {
        self.start.0 <= other.start.0 && other.end().0 <= self.end().0
    }

    /// Returns the position of the bytes of `part` within the bytes of this range, with sectors of `sector` bytes; `None` if the
    /// range does not cover `part`, or if the positions do not fit into `usize`.
    ///
    /// ```
    /// use freeblock_units::{Bytes, Lbn, LbnRange, Sectors};
    /// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
    /// assert_eq!(range(8, 8).place_of(range(10, 2), Bytes::new(512)), Some(1_024..2_048));
    /// assert_eq!(range(8, 8).place_of(range(15, 2), Bytes::new(512)), None);
    /// ```
    pub fn place_of(self, part: Self, sector: Bytes) -> Option<core::ops::Range<usize>> {
        let offset = |lbn: Lbn| {
            let sectors = lbn.0.checked_sub(self.start.0)?;
            usize::try_from(sectors.checked_mul(sector.0)?).ok()
        };
        self.covers(part).then_some(())?;
        Some(offset(part.start())?..offset(part.end())?)
    }
}

impl fmt::Display for LbnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start, self.len)
    }
}

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Op {
    /// A transfer from the medium to the host.
    Read,
    /// A transfer from the host to the medium.
    Write,
}

impl Op {
    /// Returns whether this is a write.
    #[inline]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write)
    }
}

/// A host's orders for the write cache of a drive, which come with a request; by default none.
///
/// ```
/// use freeblock_units::CacheOps;
/// let forced = CacheOps { forced: true, ..CacheOps::default() };
/// assert!(forced.transfers() && !CacheOps { discard: true, ..CacheOps::default() }.transfers());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheOps {
    /// All completed writes go to the medium before the request is served. A request without sectors is only a flush.
    pub flush: bool,
    /// Forced unit access: a write is complete when it is on the medium.
    pub forced: bool,
    /// The host no longer needs the contents of the sectors; no data is transferred.
    pub discard: bool,
}

impl CacheOps {
    /// Returns whether a request with these orders transfers the data of its sectors: all requests do except a discard.
    #[inline]
    pub const fn transfers(self) -> bool {
        !self.discard
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_first_and_last_lbn_and_neither_neighbour() {
        let range = LbnRange::new(Lbn::new(8), Sectors::new(3));
        let contained: Vec<u64> = (0..20).filter(|lbn| range.contains(Lbn::new(*lbn))).collect();
        assert_eq!(contained, [8, 9, 10]);
        let empty = LbnRange::new(Lbn::new(8), Sectors::new(0));
        assert!((0..20).all(|lbn| !empty.contains(Lbn::new(lbn))));
        let last = LbnRange::new(Lbn::new(u64::MAX), Sectors::new(1));
        assert!(last.contains(Lbn::new(u64::MAX)) && !last.contains(Lbn::new(u64::MAX - 1)));
    }

    #[test]
    fn a_range_covers_itself_and_nothing_that_reaches_beyond_either_end() {
        let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
        assert!(range(8, 3).covers(range(8, 3)) && range(8, 3).covers(range(9, 1)));
        assert!(!range(8, 3).covers(range(7, 2)) && !range(8, 3).covers(range(10, 2)));
        assert!(!range(8, 3).covers(range(7, 5)));
    }
}
