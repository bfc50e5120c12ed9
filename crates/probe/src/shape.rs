//! The order of tracks: the cylinder and head of each, and the densities that fit them.

use crate::zone::{Cycle, Zone};

/// The most heads that a shape may have: more than any drive has.
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
    /// Runs of this many tracks on one surface; each band has the surfaces in the same order.
    ForwardBands(u64),
    /// Each zone on one surface, each of its tracks on another cylinder.
    ByZone,
}

impl Kind {
    /// Returns the number of tracks in a run on one surface; `None` if the order has no runs.
    pub(crate) fn band(self) -> Option<u64> {
        match self {
            Self::Bands(width) | Self::ForwardBands(width) => Some(width),
            Self::Cylinder | Self::Serpentine | Self::ByZone => None,
        }
    }
}

/// A possible order of tracks, with the number of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) heads: u64,
}

impl Shape {
    /// Returns the cylinder and head of a track; all three count from a zone's first.
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

    /// Returns whether all tracks of a head have one density, in every zone whose densities recur.
    pub(crate) fn fits(self, zones: &[Zone]) -> bool {
        zones.iter().all(|zone| self.begins(zone).is_some())
    }

    /// Returns the number of a zone's tracks before the first cylinder or band, if densities recur and each head has
    /// one density.
    pub(crate) fn begins(self, zone: &Zone) -> Option<u64> {
        let (slots, width) = zone.cycle.as_ref().map_or((1, 1), |c| (c.slots.len() as u64, c.width()));
        (0..slots).map(|slot| slot * width).find(|&first| self.densities_from(zone, first).is_some())
    }

    /// Returns the number of a zone's tracks before the first band whose heads have their densities in the same order
    /// as in `like`. If a zone's first runs were mapped as zones of their own, its cycle begins with another head than
    /// the drive's bands.
    pub(crate) fn begins_like(self, zone: &Zone, like: &Zone) -> Option<u64> {
        let first = self.begins(zone)?;
        let (Some(cycle), Some(width)) = (&zone.cycle, self.kind.band()) else { return Some(first) };
        let shares = |zone: &Zone, first: u64| -> Option<Vec<f64>> {
            let by_head = self.densities_from(zone, first)?;
            let all = by_head.iter().sum::<u64>() as f64;
            Some(by_head.iter().map(|&n| n as f64 / all).collect())
        };
        let wanted = shares(like, self.begins(like)?)?;
        let apart = |first: u64| -> Option<f64> {
            Some(shares(zone, first)?.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).sum())
        };
        let starts = (0..cycle.slots.len() as u64).map(|slot| slot * width);
        let all: Vec<(u64, f64)> = starts.filter_map(|start| Some((start, apart(start)?))).collect();
        // Densities are whole sectors, so a start that is worse than the best by up to a sector counts as equal.
        let least = all.iter().map(|start| start.1).fold(f64::MAX, f64::min) + 1.0 / zone.sectors as f64;
        all.iter().find(|start| start.1 <= least).map(|start| start.0)
    }

    /// Returns a track with the same place in the order of tracks as a cylinder's first, far enough from the zone's
    /// beginning.
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

    /// Returns the sectors per track of each head, if each head has one density all over the zone.
    pub(crate) fn densities(self, zone: &Zone) -> Option<Vec<u64>> {
        self.densities_from(zone, 0)
    }

    /// Returns the sectors per track of each head, if each head has one density and the zone's track `first` is the
    /// first of a cylinder or band.
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
        // A short zone does not reach this head.
        by_head.iter_mut().filter(|n| **n == 0).for_each(|n| *n = zone.sectors);
        Some(by_head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Slot;

    #[test]
    fn a_band_begins_with_the_head_with_which_those_of_other_zones_begin() {
        let zone = |sectors: [u64; 3]| {
            let slot = |sectors| Slot { before: 0, tracks: 4, sectors, angle: 0.0, skew: 0.0 };
            let mut zone = Zone::new(0, 80, 0.0);
            zone.cycle = Some(Cycle::new(sectors.map(slot).to_vec(), 0.0));
            zone.end = 10 * zone.cycle.as_ref().map_or(0, |cycle| cycle.sectors);
            zone
        };
        let shape = Shape { kind: Kind::ForwardBands(4), heads: 3 };
        let like = zone([100, 95, 90]);
        assert_eq!(shape.begins_like(&zone([80, 76, 72]), &like), Some(0));
        // The first run, of the first head, was mapped as a zone of its own.
        assert_eq!(shape.begins_like(&zone([76, 72, 80]), &like), Some(8));
    }
}
