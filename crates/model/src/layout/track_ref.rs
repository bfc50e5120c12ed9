//! A track with its LBNs, and the iterators over runs of LBNs.

use super::sparing::Stretch;
use super::zone::PlacedZone;
use super::{Extent, Layout, Piece, Track};
use units::{Lbn, TrackIndex};

/// A track with access to its LBNs. One search finds the zone for both.
#[derive(Clone, Copy, Debug)]
pub struct TrackRef<'a> {
    pub(super) layout: &'a Layout,
    pub(super) zone: &'a PlacedZone,
    pub(super) index: TrackIndex,
    pub(super) track: Track,
    /// The position of the track's sector 0 among all sectors of the zone.
    pub(super) place: u64,
}

impl<'a> TrackRef<'a> {
    /// Returns the track's number.
    #[inline]
    pub const fn index(&self) -> TrackIndex {
        self.index
    }

    /// Returns the track's cylinder and head, and the angles of its sectors.
    #[inline]
    pub const fn track(&self) -> &Track {
        &self.track
    }

    /// Iterates over the track's LBNs, as runs in sector order.
    #[inline]
    pub fn extents(&self) -> Extents<'a> {
        let end = self.place + u64::from(self.track.sectors);
        let native = NativeExtents { zone: self.zone, first: self.place, place: self.place, end };
        if self.layout.remaps.is_empty() {
            Extents { native, remapped: None }
        } else {
            self.layout.extents_with_remaps(self.index, native)
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct NativeExtents<'a> {
    zone: &'a PlacedZone,
    first: u64,
    place: u64,
    end: u64,
}

impl Iterator for NativeExtents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let Stretch { place, index, len } = self.zone.spares.stretch_from(self.place, self.end)?;
        self.place = place + len;
        Some(Extent {
            sector: (place - self.first) as u32,
            lbn: Lbn::new(self.zone.first_lbn + index),
            len: len as u32,
        })
    }
}

/// The iterator of [`Layout::extents`].
#[derive(Clone, Debug)]
pub struct Extents<'a> {
    pub(super) native: NativeExtents<'a>,
    pub(super) remapped: Option<alloc::vec::IntoIter<Extent>>,
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        match &mut self.remapped {
            None => self.native.next(),
            Some(list) => list.next(),
        }
    }
}

/// The iterator of [`Layout::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    pub(super) layout: &'a Layout,
    pub(super) next: u64,
    pub(super) left: u64,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let piece = self.layout.run_at(self.next, self.left)?;
        self.next += u64::from(piece.len);
        self.left -= u64::from(piece.len);
        Some(piece)
    }
}
