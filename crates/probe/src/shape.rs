//! The order of tracks: the cylinder and head of each, and the densities that fit them.

use crate::zone::{Cycle, Zone};

/// The most heads that are looked for: more than any drive has.
pub(crate) const HEADS_MAX: u64 = 32;

/// The order in which LBNs run over the tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// All tracks of a cylinder, heads ascending in each.
    Cylinder,
    /// All tracks of a cylinder, heads alternately ascending and descending.
    Serpentine,
    /// Runs of this many tracks on one surface, back and forth.
    Bands(u64),
    /// The same, with the surfaces of each band in the same order.
    ForwardBands(u64),
    /// Each zone on one surface, and its tracks on as many cylinders.
    ByZone,
}

impl Kind {
    /// Returns the number of tracks in a run on one surface, if they are more than one.
    pub(crate) fn band(self) -> Option<u64> {
        match self {
            Self::Bands(width) | Self::ForwardBands(width) => Some(width),
            Self::Cylinder | Self::Serpentine | Self::ByZone => None,
        }
    }
}

/// The order, and the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) heads: u64,
}

impl Shape {
    /// Returns the cylinder and head of a track, counted from a zone's first.
    pub(crate) fn position(self, track: u64) -> (u64, u64) {
        let heads = self.heads.max(1);
        match self.kind {
            Kind::Cylinder => (track / heads, track % heads),
            Kind::ByZone => (track, 0),
            Kind::Serpentine => {
                let (cylinder, slot) = (track / heads, track % heads);
                (cylinder, if cylinder % 2 == 0 { slot } else { heads - 1 - slot })
            }
            Kind::Bands(width) | Kind::ForwardBands(width) => {
                let (run, along) = (track / width, track % width);
                let (band, slot) = (run / heads, run % heads);
                let cylinder = if slot % 2 == 0 { along } else { width - 1 - along };
                let reversed = band % 2 == 1 && matches!(self.kind, Kind::Bands(_));
                (band * width + cylinder, if reversed { heads - 1 - slot } else { slot })
            }
        }
    }

    /// Returns whether all tracks of a head have one density, as far as the densities of each zone recur.
    pub(crate) fn fits(self, zones: &[Zone]) -> bool {
        zones.iter().all(|zone| self.begins(zone).is_some())
    }

    /// Returns the number of a zone's tracks before the first of a cylinder, or of a band, if densities recur and each head
    /// has one.
    pub(crate) fn begins(self, zone: &Zone) -> Option<u64> {
        let (slots, width) = zone.cycle.as_ref().map_or((1, 1), |c| (c.slots.len() as u64, c.width()));
        (0..slots).map(|slot| slot * width).find(|&first| self.densities_from(zone, first).is_some())
    }

    /// Returns a track with the same place in the order of tracks as a zone's first, far enough from the beginning.
    pub(crate) fn origin(self, zone: &Zone) -> u64 {
        let Some(length) = zone.cycle.as_ref().map(Cycle::tracks) else { return 0 };
        length * self.unit() - self.begins(zone).unwrap_or(0)
    }

    /// Returns the number of tracks after which the order repeats.
    pub(crate) fn unit(self) -> u64 {
        let heads = self.heads.max(1);
        match self.kind {
            Kind::Cylinder => heads,
            Kind::ByZone => 1,
            Kind::Serpentine => 2 * heads,
            Kind::Bands(width) => 2 * heads * width,
            Kind::ForwardBands(width) => heads * width,
        }
    }

    /// Returns the sectors per track of each head of a zone whose densities recur, if they are the same all over it.
    pub(crate) fn densities(self, zone: &Zone) -> Option<Vec<u64>> {
        self.densities_from(zone, 0)
    }

    /// Returns the sectors per track of each head of a zone whose densities recur, if one of its tracks is the first of a cylinder
    /// or band.
    fn densities_from(self, zone: &Zone, first: u64) -> Option<Vec<u64>> {
        let mut by_head = vec![0; self.heads.max(1) as usize];
        let Some((slots, width)) = zone.cycle.as_ref().map(|c| (c.slots.len() as u64, c.width())) else {
            return Some(vec![zone.sectors; by_head.len()]);
        };
        if width > 1 && self.kind.band() != Some(width) {
            return None;
        }
        let tracks = first..(first + slots * self.unit()).min(zone.tracks());
        for track in tracks.step_by(width as usize) {
            let sectors = zone.sectors_on(track);
            let of = by_head.get_mut(self.position(track - first).1 as usize)?;
            if *of != 0 && *of != sectors {
                return None;
            }
            *of = sectors;
        }
        // A head that a short zone does not reach.
        by_head.iter_mut().filter(|n| **n == 0).for_each(|n| *n = zone.sectors);
        Some(by_head)
    }
}
