//! An index from cylinders to the sections of zones that may have tracks on them.

use super::zone::PlacedZone;
use crate::error::ProfileError;
use alloc::vec;
use alloc::vec::Vec;

/// The number of neighbouring cylinders that share one list of sections, to keep the index small.
const SPAN_GROUP_CYLINDERS: u32 = 64;

/// The most entries of the lists of [`Spans`]. Drives of today need thousands, and more if their zones interleave on
/// different surfaces; only a file that describes no real drive needs millions.
const SPANS_MAX: u64 = 1 << 24;

/// The cylinders on which a section may have tracks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub first: u32,
    pub last: u32,
    pub zone: u16,
    pub section: u16,
}

/// A list of sections for every group of [`SPAN_GROUP_CYLINDERS`] cylinders: those that may have tracks in it, in LBN order.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    /// The index in `list` at which each group's part begins, followed by the length of `list`.
    starts: Vec<u32>,
    list: Vec<Span>,
}

impl Spans {
    pub fn new(zones: &[PlacedZone], cylinders: u32) -> Result<Self, ProfileError> {
        let spans = || {
            zones.iter().enumerate().flat_map(|(z, zone)| {
                zone.sections.iter().enumerate().map(move |(s, section)| {
                    let (first, last) = section.span();
                    Span { first, last, zone: z as u16, section: s as u16 }
                })
            })
        };
        let groups = |span: &Span| {
            (span.first / SPAN_GROUP_CYLINDERS) as usize..(span.last / SPAN_GROUP_CYLINDERS) as usize + 1
        };
        // `starts` first counts the entries of each group. Sums then turn it into the ends of the groups' lists. The lists
        // are filled from the back, which leaves their starts.
        let mut starts = vec![0_u32; cylinders.div_ceil(SPAN_GROUP_CYLINDERS) as usize + 1];
        let mut all = 0;
        for span in spans() {
            all += groups(&span).len() as u64;
            if all > SPANS_MAX {
                return Err(ProfileError::new(
                    "layout.zone",
                    "too many zones on the same cylinders",
                    "join zones that are alike, or give each its own cylinders",
                ));
            }
            starts[groups(&span)].iter_mut().for_each(|n| *n += 1);
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let nothing = Span { first: 0, last: 0, zone: 0, section: 0 };
        let mut list = vec![nothing; all as usize];
        let in_order: Vec<Span> = spans().collect();
        for span in in_order.iter().rev() {
            for start in &mut starts[groups(span)] {
                *start -= 1;
                list[*start as usize] = *span;
            }
        }
        Ok(Self { starts, list })
    }

    #[inline]
    pub fn near(&self, cylinder: u32) -> &[Span] {
        let group = (cylinder / SPAN_GROUP_CYLINDERS) as usize;
        match self.starts.get(group..) {
            Some(&[from, to, ..]) => self.list.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
