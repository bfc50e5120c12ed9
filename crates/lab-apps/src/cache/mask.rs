//! A set of a block's sectors.

/// The most sectors a block may have: a bit for each.
pub const BLOCK_SECTORS_MAX: u64 = u128::BITS as u64;

/// A set of sectors of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(u128);

/// A run of neighbouring sectors of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: u32,
    pub len: u32,
}

impl Mask {
    pub const EMPTY: Self = Self(0);

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the sectors from `first` on.
    pub fn from(self, first: u32) -> Self {
        Self(self.0 >> first << first)
    }

    /// Returns the span from the first sector to the last.
    pub fn hull(self) -> Option<Span> {
        (self.0 != 0).then(|| {
            let first = self.0.trailing_zeros();
            Span { first, len: u128::BITS - self.0.leading_zeros() - first }
        })
    }

    /// Returns the first run of sectors without a gap.
    pub fn first_run(self) -> Option<Span> {
        (self.0 != 0).then(|| {
            let first = self.0.trailing_zeros();
            Span { first, len: (self.0 >> first).trailing_ones() }
        })
    }

    pub fn runs(self) -> impl Iterator<Item = Span> {
        let mut left = self;
        std::iter::from_fn(move || {
            let run = left.first_run()?;
            left = left.without(run.mask());
            Some(run)
        })
    }
}

impl Span {
    pub fn mask(self) -> Mask {
        let ones = if self.len >= u128::BITS { u128::MAX } else { (1 << self.len) - 1 };
        Mask(ones << self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u32, len: u32) -> Span {
        Span { first, len }
    }

    #[test]
    fn a_mask_holds_the_largest_block_and_finds_its_runs() {
        assert_eq!(span(0, 128).mask().hull(), Some(span(0, 128)));
        assert_eq!(span(0, 128).mask().first_run(), Some(span(0, 128)));
        assert_eq!(span(127, 1).mask().first_run(), Some(span(127, 1)));
        assert_eq!(Mask::EMPTY.hull(), None);
        let mask = span(3, 2).mask().with(span(9, 4).mask());
        assert_eq!(mask.hull(), Some(span(3, 10)));
        assert_eq!(mask.runs().collect::<Vec<_>>(), [span(3, 2), span(9, 4)]);
        assert!(mask.contains(span(10, 3).mask()) && !mask.contains(span(4, 2).mask()));
    }
}
