//! The model of consecutive tracks with one density, or with recurring densities: the angle of each of their LBNs.

use crate::revolutions::wrap;

/// A rotation that recurs: from the first of `unit` tracks to the first of the next `unit` tracks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// The number of tracks; 1 at the lowest level, and a multiple of the next lower level's at all others.
    pub(crate) unit: u64,
    /// The angle from a track to the one `unit` tracks further, in revolutions.
    pub(crate) advance: f64,
}

/// A slip: all LBNs from `lbn` on are `sectors` sectors further along the tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) lbn: u64,
    pub(crate) sectors: u64,
}

/// Equal parts of a zone, each with reserved spare sectors at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The LBNs in each part.
    pub(crate) lbns: u64,
    /// The spare sectors at the end of each part.
    pub(crate) spares: u64,
}

/// The tracks after which densities recur, if densities differ by head: those of one cylinder or band, or of two if
/// heads go back and forth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cycle {
    /// The slots of the cycle, which all have the same number of tracks.
    pub(crate) slots: Vec<Slot>,
    /// The sectors in the cycle.
    pub(crate) sectors: u64,
    /// The rotation from the first track of one cycle to that of the next, in revolutions.
    pub(crate) advance: f64,
}

/// Consecutive tracks of a cycle on one surface: one, or those of a band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    /// The number of sectors of the cycle before this slot.
    pub(crate) before: u64,
    pub(crate) tracks: u64,
    /// The sectors on each track of the slot.
    pub(crate) sectors: u64,
    /// The rotation from the cycle's first track to the slot's, in revolutions.
    pub(crate) angle: f64,
    /// The rotation from each track of the slot to the next, in revolutions.
    pub(crate) skew: f64,
}

impl Cycle {
    /// Returns a cycle of these slots; counts the sectors before each.
    pub(crate) fn new(mut slots: Vec<Slot>, advance: f64) -> Self {
        let mut sectors = 0;
        for slot in &mut slots {
            slot.before = sectors;
            sectors += slot.tracks * slot.sectors;
        }
        Self { slots, sectors, advance }
    }

    /// Returns the number of tracks of each slot.
    pub(crate) fn width(&self) -> u64 {
        self.slots.first().map_or(1, |slot| slot.tracks)
    }

    /// Returns the number of tracks of the cycle.
    pub(crate) fn tracks(&self) -> u64 {
        self.width() * self.slots.len() as u64
    }
}

/// Consecutive tracks of one density, or of recurring densities. An angle is that at which a read of one sector ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zone {
    pub(crate) first: u64,
    /// The LBN past the zone's last.
    pub(crate) end: u64,
    /// The sectors on a track; on the shortest track if densities differ.
    pub(crate) sectors: u64,
    /// The recurring whole tracks of different densities; such a zone has no spares.
    pub(crate) cycle: Option<Cycle>,
    /// The angle of the first LBN, which is the first sector of a track.
    pub(crate) angle: f64,
    /// The levels from the lowest up; empty while only one track is known.
    pub(crate) levels: Vec<Level>,
    pub(crate) shifts: Vec<Shift>,
    pub(crate) region: Option<Region>,
    /// Single LBNs that are not at the zone's angles, ascending.
    pub(crate) odd: Vec<u64>,
}

impl Zone {
    pub(crate) fn new(first: u64, sectors: u64, angle: f64) -> Self {
        Self {
            first,
            end: u64::MAX,
            sectors,
            cycle: None,
            angle,
            levels: Vec::new(),
            shifts: Vec::new(),
            region: None,
            odd: Vec::new(),
        }
    }

    /// Returns the zone without the tracks before `first`, if its densities recur; otherwise the whole zone.
    pub(crate) fn beginning_at(&self, first: u64) -> Self {
        let mut zone = self.clone();
        let Some(cycle) = zone.cycle.as_mut().filter(|_| first > 0) else { return zone };
        let begin = self.track_angle(first);
        let tracks = (first..).step_by(cycle.width() as usize).take(cycle.slots.len());
        let slot = |track| {
            let (_, slot, _) = self.slot(track)?;
            Some(Slot { angle: wrap(self.track_angle(track) - begin), ..*slot })
        };
        *cycle = Cycle::new(tracks.filter_map(slot).collect(), cycle.advance);
        zone.first = self.lbn_near(first, 0);
        zone.shifts.retain(|s| s.lbn > zone.first);
        zone.angle = begin;
        zone
    }

    /// Returns the zone with runs of `width` tracks (a run is the tracks of a slot), and the tracks before the first
    /// run as a zone of their own; `None` if such a run would have two densities, or a jump of more than `loose`
    /// revolutions.
    pub(crate) fn with_runs_of(&self, width: u64, loose: f64) -> Option<Vec<Self>> {
        let own = self.cycle.as_ref().filter(|cycle| cycle.width() > 1 && width > 1)?;
        let cycle = least_multiple(own.tracks(), width);
        let advance = (cycle / own.tracks()) as f64 * own.advance;
        let skew = |track| self.slot(track).map(|(_, slot, _)| slot.skew);
        // The run of the tracks from `first` on, as a slot of a cycle that begins at track `begin`.
        let run = |begin: u64, first: u64| {
            let jump = |track| {
                let even = (track - first) as f64 * skew(first)?;
                Some(wrap(self.track_angle(track) - self.track_angle(first) - even))
            };
            let sectors = self.sectors_on(first);
            let last = first + width - 1;
            let is_one = (first..=last).all(|track| {
                self.sectors_on(track) == sectors && jump(track).is_some_and(|jump| jump.abs() < loose)
            });
            let angle = wrap(self.track_angle(first) - self.track_angle(begin));
            let skew = skew(first)? + jump(last)? / (width - 1) as f64;
            is_one.then_some(Slot { before: 0, tracks: width, sectors, angle, skew })
        };
        let begin = (0..=own.width()).find_map(|begin| {
            let slots: Option<Vec<Slot>> =
                (0..cycle / width).map(|slot| run(begin, begin + slot * width)).collect();
            Some((begin, Cycle::new(slots?, advance)))
        });
        let (begin, cycle) = begin?;
        let mut zone = self.clone();
        zone.cycle = Some(cycle);
        zone.angle = self.track_angle(begin);
        zone.first = self.lbn_near(begin, 0);
        zone.shifts.retain(|s| s.lbn > zone.first);
        if begin == 0 {
            return Some(vec![zone]);
        }
        let mut before = Self::new(self.first, self.sectors_on(0), self.angle);
        before.end = zone.first;
        before.levels.push(Level { unit: 1, advance: skew(0)? });
        before.shifts.extend(self.shifts.iter().filter(|s| s.lbn < zone.first));
        Some(vec![before, zone])
    }

    /// Renumbers the zone so that its first LBN is 0.
    pub(crate) fn shift_to_zero(&mut self) {
        let first = self.first;
        self.shifts.iter_mut().for_each(|s| s.lbn -= first);
        self.odd.iter_mut().for_each(|lbn| *lbn -= first);
        (self.first, self.end) = (0, self.end - first);
    }

    pub(crate) fn lbns(&self) -> u64 {
        self.end - self.first
    }

    /// Returns the number of sectors between the zone's first sector and that of an LBN.
    pub(crate) fn place(&self, lbn: u64) -> u64 {
        let offset = lbn.saturating_sub(self.first);
        let spares = self.region.map_or(0, |r| offset / r.lbns * r.spares);
        let after = self.shifts.partition_point(|s| s.lbn <= lbn);
        let before: u64 = self.shifts.iter().take(after).map(|s| s.sectors).sum();
        offset + spares + before
    }

    /// Returns the track of an LBN, and its sector on that track.
    pub(crate) fn locate(&self, lbn: u64) -> (u64, u64) {
        let place = self.place(lbn);
        let Some(cycle) = &self.cycle else { return (place / self.sectors, place % self.sectors) };
        let (whole, rest) = (place / cycle.sectors, place % cycle.sectors);
        let index = cycle.slots.partition_point(|s| s.before <= rest).saturating_sub(1);
        let Some(slot) = cycle.slots.get(index) else { return (0, place) };
        let (along, sector) = ((rest - slot.before) / slot.sectors, (rest - slot.before) % slot.sectors);
        ((whole * cycle.slots.len() as u64 + index as u64) * cycle.width() + along, sector)
    }

    /// Returns the number of sectors between the zone's first sector and a track.
    pub(crate) fn track_place(&self, track: u64) -> u64 {
        match self.slot(track) {
            Some((cycle, slot, along)) => {
                track / cycle.tracks() * cycle.sectors + slot.before + along * slot.sectors
            }
            None => track * self.sectors,
        }
    }

    /// Returns the angle of a track's first sector, in revolutions.
    pub(crate) fn track_angle(&self, track: u64) -> f64 {
        if let Some((cycle, slot, along)) = self.slot(track) {
            let whole = (track / cycle.tracks()) as f64 * cycle.advance;
            return self.angle + whole + slot.angle + along as f64 * slot.skew;
        }
        let mut left = track;
        let mut angle = self.angle;
        for level in self.levels.iter().rev() {
            angle += (left / level.unit) as f64 * level.advance;
            left %= level.unit;
        }
        angle
    }

    /// Returns the predicted angle of an LBN, in revolutions.
    pub(crate) fn predict(&self, lbn: u64) -> f64 {
        let (track, sector) = self.locate(lbn);
        self.track_angle(track) + sector as f64 / self.sectors_on(track) as f64
    }

    /// Returns the number of sectors on a track of the zone.
    pub(crate) fn sectors_on(&self, track: u64) -> u64 {
        self.slot(track).map_or(self.sectors, |(_, slot, _)| slot.sectors)
    }

    /// Returns the cycle, the slot of a track, and the number of the slot's tracks before it.
    fn slot(&self, track: u64) -> Option<(&Cycle, &Slot, u64)> {
        let cycle = self.cycle.as_ref()?;
        let (at, width) = (track % cycle.tracks().max(1), cycle.width());
        Some((cycle, cycle.slots.get((at / width) as usize)?, at % width))
    }

    /// Returns the LBN nearest to a sector of a track, inside the zone.
    pub(crate) fn lbn_near(&self, track: u64, sector: u64) -> u64 {
        let mut place = self.track_place(track) + sector;
        if self.cycle.is_some() {
            place = place.min(self.track_place(track + 1) - 1);
            if self.shifts.is_empty() {
                return (self.first + place).min(self.end - 1);
            }
        }
        let (mut low, mut high) = (self.first, self.end);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.place(middle) <= place { low = middle } else { high = middle }
        }
        low
    }

    /// Returns the number of tracks that hold the zone's LBNs.
    pub(crate) fn tracks(&self) -> u64 {
        match self.end.checked_sub(1) {
            Some(last) if last >= self.first => self.locate(last).0 + 1,
            _ => 0,
        }
    }

    /// Returns whether two zones of one density have the same rotations, at the levels that both zones have.
    pub(crate) fn alike(&self, other: &Self, within: f64) -> bool {
        self.sectors == other.sectors
            && self.cycle.is_none()
            && other.cycle.is_none()
            && self
                .levels
                .iter()
                .zip(&other.levels)
                .all(|(a, b)| a.unit == b.unit && wrap(a.advance - b.advance).abs() < within)
    }
}

/// Returns the least common multiple.
pub(crate) fn least_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a zone of two heads with 10 and 12 sectors, whose cylinders are rotated by a quarter.
    fn by_head() -> Zone {
        let mut zone = Zone::new(100, 10, 0.5);
        zone.end = 100 + 22 * 5 + 3;
        let slot = |sectors, angle| Slot { before: 0, tracks: 1, sectors, angle, skew: 0.0 };
        zone.cycle = Some(Cycle::new(vec![slot(10, 0.0), slot(12, 0.125)], 0.25));
        zone
    }

    /// Returns a zone of bands of three tracks on two heads, with a slip of 14 sectors: a track of 12 sectors, and
    /// two more.
    fn by_run() -> Zone {
        let mut zone = Zone::new(100, 10, 0.5);
        zone.end = 100 + 66 * 3;
        let slot = |sectors, angle| Slot { before: 0, tracks: 3, sectors, angle, skew: 0.1 };
        zone.cycle = Some(Cycle::new(vec![slot(10, 0.0), slot(12, 0.3)], 0.6));
        zone.shifts.push(Shift { lbn: 100 + 66 + 30 + 4, sectors: 14 });
        zone
    }

    #[test]
    fn tracks_of_recurring_runs_are_found_by_lbn_and_the_other_way() {
        let zone = by_run();
        for lbn in zone.first..zone.end {
            let (track, sector) = zone.locate(lbn);
            assert_eq!(zone.lbn_near(track, sector), lbn);
            assert_eq!(zone.track_place(track) + sector, zone.place(lbn));
        }
        // The LBN is behind the slip, on the second track of the second run of the third cycle.
        let (lbn, track) = (100 + 2 * 66 + 30 + 12 + 5 - 14, 2 * 6 + 3 + 1);
        assert_eq!((zone.locate(lbn), zone.sectors_on(track)), ((track, 5), 12));
        assert!((zone.predict(lbn) - (0.5 + 2.0 * 0.6 + 0.3 + 0.1 + 5.0 / 12.0)).abs() < 1e-12);
        for first in [3, 6, 9, 12] {
            let later = zone.beginning_at(first);
            for lbn in later.first..zone.end {
                assert!(wrap(later.predict(lbn) - zone.predict(lbn)).abs() < 1e-12, "{first} {lbn}");
            }
        }
    }

    #[test]
    fn runs_seen_in_pairs_or_in_halves_have_the_width_of_others() {
        let slot = |tracks, sectors, angle| Slot { before: 0, tracks, sectors, angle, skew: 0.1 };
        // Two runs of four tracks: once as halves, from the middle of the first run on; once as pairs of runs.
        let halves = [(2, 10), (2, 12), (2, 12), (2, 10)];
        let pairs = [(8, 10), (8, 12)];
        for (runs, begin) in [(halves.as_slice(), 2), (pairs.as_slice(), 0)] {
            let (mut slots, mut before) = (Vec::new(), 0);
            for &(tracks, sectors) in runs {
                slots.push(slot(tracks, sectors, wrap(before as f64 * 0.1)));
                before += tracks;
            }
            let mut zone = Zone::new(100, 10, 0.5);
            zone.cycle = Some(Cycle::new(slots, wrap(before as f64 * 0.1)));
            zone.end = 100 + 3 * zone.cycle.as_ref().map_or(0, |cycle| cycle.sectors);
            zone.shifts.push(Shift { lbn: 190, sectors: 3 });
            let parts = zone.with_runs_of(4, 1e-6).unwrap();
            assert_eq!(parts.iter().map(Zone::tracks).sum::<u64>(), zone.tracks());
            assert_eq!(parts.last().unwrap().first, zone.lbn_near(begin, 0));
            assert_eq!(parts.last().unwrap().cycle.as_ref().unwrap().width(), 4);
            for lbn in zone.first..zone.end {
                let part = parts.iter().find(|part| lbn < part.end).unwrap();
                assert!(wrap(part.predict(lbn) - zone.predict(lbn)).abs() < 1e-9, "{lbn}");
            }
            // No three consecutive tracks from any start give runs of one density each.
            assert_eq!(zone.with_runs_of(3, 1e-6), None);
        }
    }

    #[test]
    fn a_zone_of_recurring_densities_keeps_its_angles_from_another_track_on() {
        let zone = by_head();
        for first in 0..5 {
            let later = zone.beginning_at(first);
            assert_eq!(later.tracks() + first, zone.tracks());
            for lbn in later.first..zone.end {
                assert!(wrap(later.predict(lbn) - zone.predict(lbn)).abs() < 1e-12, "{first} {lbn}");
            }
        }
    }

    #[test]
    fn tracks_whose_densities_recur_are_found_by_lbn_and_the_other_way() {
        let zone = by_head();
        assert_eq!(zone.tracks(), 11);
        for lbn in zone.first..zone.end {
            let (track, sector) = zone.locate(lbn);
            assert!(sector < zone.sectors_on(track));
            assert_eq!(zone.lbn_near(track, sector), lbn);
        }
        assert_eq!(zone.locate(100 + 22 + 10 + 3), (3, 3));
        assert!((zone.predict(100 + 22 + 10 + 3) - (0.5 + 0.25 + 0.125 + 0.25)).abs() < 1e-12);
        assert!(!zone.alike(&zone, 1.0));
    }
}
