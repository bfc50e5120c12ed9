//! Which sectors of a zone have LBNs: the effect of reserved sectors, spares and slips, from LBNs to sectors and back.
//!
//! A *place* numbers all sectors of the zone in LBN order, including bad and spare ones. An *offset* numbers only the
//! sectors for data, including reserved ones. The LBN of an offset is the zone's first LBN plus the offset less the
//! number of reserved sectors.

use crate::error::ProfileError;
use crate::profile::{Sparing, SparingRegion, Zone};
use alloc::format;
use alloc::vec::Vec;

/// A run of bad sectors, and the number of bad sectors before the run.
#[derive(Clone, Copy, Debug)]
struct Slip {
    start: u64,
    len: u64,
    before: u64,
}

/// The map between the LBNs of one zone and the positions of its sectors (places).
#[derive(Clone, Debug)]
pub(super) struct Spares {
    /// The number of sectors in the zone, with and without LBNs.
    places: u64,
    /// The number of sectors in a region, with and without LBNs; the last region may be smaller.
    region: u64,
    /// The number of data sectors (offsets) in a full region. If slips move all later LBNs (`slip_to_end`), the slips are
    /// not subtracted.
    capacity: u64,
    spares: u64,
    at_front: bool,
    slip_to_end: bool,
    slips: Vec<Slip>,
    reserved: u64,
    /// The number of data sectors (offsets) in the zone.
    offsets: u64,
    /// The result of [`Self::region_offsets`] if the zone is one region.
    only_region: RegionOffsets,
}

/// The data sectors (offsets) of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RegionOffsets {
    first: u64,
    count: u64,
    /// The number of good sectors of the region before its first offset: spares at its front.
    front: u64,
}

/// Sectors with consecutive LBNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The position of the first sector in the zone.
    pub place: u64,
    /// The first LBN, counted from the zone's first.
    pub index: u64,
    /// The number of sectors.
    pub len: u64,
}

/// The number of sectors of each cylinder and of each track of a zone; 0 if the number differs within the zone.
#[derive(Clone, Copy)]
pub(super) struct Uniform {
    pub cylinder: u64,
    pub track: u64,
}

impl Spares {
    /// Creates the map of a zone of `places` sectors. `slip_tracks` are the slipped tracks as runs of places `(first, count)`.
    pub(super) fn new(
        zone: &Zone,
        at: &str,
        places: u64,
        Uniform { cylinder, track }: Uniform,
        slip_tracks: &[(u64, u64)],
    ) -> Result<Self, ProfileError> {
        let Sparing { per, cylinders, spares, at_front, slip_to_end } = zone.sparing;
        let uniform = |size: u64, what: &str| {
            if size == 0 {
                Err(ProfileError::new(
                    format!("{at}.sparing.per"),
                    format!("spares per {what} need tracks of one size, cylinder by cylinder"),
                    "use per = \"zone\"",
                ))
            } else {
                Ok(size)
            }
        };
        let whole = places.max(1);
        let (region, unit) = match per {
            SparingRegion::Zone => (whole, 1),
            SparingRegion::ZoneTracks => (whole, uniform(track, "whole track")?),
            SparingRegion::Track => (uniform(track, "track")?, 1),
            SparingRegion::Cylinder => (uniform(cylinder, "cylinder")?, 1),
            SparingRegion::Range => match cylinders {
                Some(n) if n > 0 => (uniform(cylinder, "range")? * u64::from(n), 1),
                _ => {
                    return Err(ProfileError::new(
                        format!("{at}.sparing.cylinders"),
                        "a range of no cylinders",
                        "say how many cylinders a range has",
                    ));
                }
            },
        };
        let too_many = |spares: u64| {
            ProfileError::new(
                format!("{at}.sparing.spares"),
                format!("{spares} spare sectors in a region of {region}"),
                "leave room for data",
            )
        };
        let spares = spares.checked_mul(unit).ok_or_else(|| too_many(spares))?;
        if spares >= region && spares > 0 {
            return Err(too_many(spares));
        }
        let slips = slip_runs(zone, slip_tracks, unit, places, at)?;
        let mut map = Self {
            places,
            region,
            capacity: region - spares,
            spares,
            at_front,
            slip_to_end,
            slips,
            reserved: zone.reserved,
            offsets: 0,
            only_region: RegionOffsets::default(),
        };
        map.only_region = map.work_out_region(0);
        map.offsets = map.count_offsets(at)?;
        if map.reserved > map.offsets {
            return Err(ProfileError::new(
                format!("{at}.reserved"),
                format!("{} reserved sectors in a zone of {}", map.reserved, map.offsets),
                "reserve fewer",
            ));
        }
        Ok(map)
    }

    /// Returns whether slips, spares and reserved sectors all begin at, and have lengths of, multiples of `sectors`.
    pub(super) fn is_whole(&self, sectors: u64) -> bool {
        let whole = |n: u64| n.is_multiple_of(sectors);
        let slips = self.slips.iter().all(|s| whole(s.start) && whole(s.len));
        slips && whole(self.spares) && whole(self.reserved) && whole(self.offsets)
    }

    /// Returns the number of LBNs in the zone.
    pub(super) fn lbns(&self) -> u64 {
        self.offsets - self.reserved
    }

    /// Returns the number of slipped sectors before `place`.
    pub(super) fn slipped_before(&self, place: u64) -> u64 {
        let after = self.slips.partition_point(|s| s.start < place);
        match after.checked_sub(1).and_then(|i| self.slips.get(i)) {
            Some(s) => s.before + s.len.min(place - s.start),
            None => 0,
        }
    }

    /// Returns the place of LBN number `index` of the zone, and the number of LBNs that follow without a break.
    #[inline]
    pub(super) fn locate(&self, index: u64) -> Option<Stretch> {
        let offset = index + self.reserved;
        if offset >= self.offsets {
            return None;
        }
        if self.slips.is_empty() {
            let (region, within) = if self.offsets <= self.capacity {
                (0, offset)
            } else {
                (offset / self.capacity, offset % self.capacity)
            };
            let front = if self.at_front { self.region_spares(region) } else { 0 };
            let len = (self.capacity - within).min(self.offsets - offset);
            return Some(Stretch { place: region * self.region + front + within, index, len });
        }
        let region = self.region_of(offset);
        let start = region * self.region;
        let RegionOffsets { first, count, front } = self.region_offsets(region);
        let within = offset - first;
        let good = start - self.slipped_before(start) + front + within;
        // The number of slips before the good sector with the number `good`.
        let passed = self.slips.partition_point(|s| s.start - s.before <= good);
        let before = passed.checked_sub(1).and_then(|i| self.slips.get(i)).map_or(0, |s| s.before + s.len);
        let place = good + before;
        let mut len = count - within;
        if let Some(next) = self.slips.get(passed) {
            len = len.min(next.start - place);
        }
        Some(Stretch { place, index, len })
    }

    /// Returns the first run of LBNs at or after `place` and before `end`, cut at `end`.
    pub(super) fn stretch_from(&self, place: u64, end: u64) -> Option<Stretch> {
        let mut place = place;
        let end = end.min(self.places);
        while place < end {
            // If the place is inside a slip, continue after the slip.
            let next = self.slips.partition_point(|s| s.start <= place);
            if let Some(s) = next.checked_sub(1).and_then(|i| self.slips.get(i))
                && place < s.start + s.len
            {
                place = s.start + s.len;
                continue;
            }
            let next_slip = self.slips.get(next).map_or(u64::MAX, |s| s.start);
            let slipped = next.checked_sub(1).map_or(0, |i| self.slips[i].before + self.slips[i].len);
            let region = if self.region >= self.places { 0 } else { place / self.region };
            let start = region * self.region;
            let RegionOffsets { first, count, front } = self.region_offsets(region);
            let good = place - start - (slipped - if region == 0 { 0 } else { self.slipped_before(start) });
            if good < front {
                place = (place + (front - good)).min(next_slip);
                continue;
            }
            if good - front >= count {
                place = start + self.region;
                continue;
            }
            let offset = first + good - front;
            if offset < self.reserved {
                place = (place + (self.reserved - offset)).min(next_slip).min(start + self.region);
                continue;
            }
            let len = (count - (good - front)).min(next_slip - place).min(end - place);
            return Some(Stretch { place, index: offset - self.reserved, len });
        }
        None
    }

    /// Returns the number of spares of a region. A smaller last region has fewer spares, down to none, before it has fewer
    /// sectors for data, as in DiskSim.
    fn region_spares(&self, region: u64) -> u64 {
        let size = self.region_size(region);
        if size < self.region { size.saturating_sub(self.capacity) } else { self.spares }
    }

    fn region_size(&self, region: u64) -> u64 {
        self.region.min(self.places - (region * self.region).min(self.places))
    }

    /// Returns the offsets of a region, by number.
    #[inline]
    fn region_offsets(&self, region: u64) -> RegionOffsets {
        if self.region >= self.places {
            return self.only_region;
        }
        self.work_out_region(region)
    }

    fn work_out_region(&self, region: u64) -> RegionOffsets {
        let start = region * self.region;
        let size = self.region_size(region);
        let slipped = self.slipped_before(start + size) - self.slipped_before(start);
        let good = size - slipped;
        if self.slip_to_end {
            let first = (region * self.capacity).saturating_sub(self.slipped_before(start));
            let spares = self.region_spares(region).min(good);
            RegionOffsets { first, count: good - spares, front: if self.at_front { spares } else { 0 } }
        } else {
            let count = self.capacity.min(good);
            let front = if self.at_front { good - count } else { 0 };
            RegionOffsets { first: region * self.capacity, count, front }
        }
    }

    fn region_of(&self, offset: u64) -> u64 {
        if self.region >= self.places {
            return 0;
        }
        if !self.slip_to_end {
            return offset / self.capacity;
        }
        // Slips reduce the first offsets of later regions, so that a division does not find the region: a binary search finds
        // the last region whose first offset is at most `offset`.
        let (mut low, mut high) = (0, self.places.div_ceil(self.region));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.region_offsets(middle).first <= offset { low = middle } else { high = middle }
        }
        low
    }

    fn count_offsets(&self, at: &str) -> Result<u64, ProfileError> {
        if self.places == 0 {
            return Ok(0);
        }
        let last = (self.places - 1) / self.region;
        if !self.slip_to_end && last > 0 {
            // The region of an offset is found by division, so all regions but the last must have equally many offsets.
            for s in &self.slips {
                let region = s.start / self.region;
                let count = self.region_offsets(region).count;
                if count < self.capacity && region < last {
                    return Err(ProfileError::new(
                        format!("{at}.slips"),
                        format!(
                            "more slips than the {} spares of the region that holds {}",
                            self.spares, s.start
                        ),
                        "list the rest as defects, or set slip_to_end",
                    ));
                }
            }
        }
        let RegionOffsets { first, count, .. } = self.region_offsets(last);
        Ok(first + count)
    }
}

fn slip_runs(
    zone: &Zone,
    slip_tracks: &[(u64, u64)],
    unit: u64,
    places: u64,
    at: &str,
) -> Result<Vec<Slip>, ProfileError> {
    let one_by_one = zone.slips.iter().map(|&first| ("slips", first, 1));
    let in_runs = zone.slip_runs.iter().map(|&(first, count)| ("slip_runs", first, count));
    let mut all = Vec::with_capacity(zone.slips.len() + zone.slip_runs.len() + slip_tracks.len());
    for (field, first, count) in one_by_one.chain(in_runs) {
        let end = first.checked_add(count).and_then(|end| end.checked_mul(unit)).filter(|&end| end <= places);
        let Some(end) = end else {
            return Err(ProfileError::new(
                format!("{at}.{field}"),
                format!("slip {first} + {count} lies past the zone's {places} sectors"),
                "slips count from the zone's first sector",
            ));
        };
        all.push((first * unit, end));
    }
    all.extend(slip_tracks.iter().map(|&(first, count)| (first, first + count)));
    all.retain(|(start, end)| start < end);
    all.sort_unstable();
    let mut runs: Vec<Slip> = Vec::new();
    let mut before = 0;
    for (start, end) in all {
        let start = runs.last().map_or(start, |last| start.max(last.start + last.len));
        let len = end.saturating_sub(start);
        match runs.last_mut() {
            Some(last) if last.start + last.len == start => last.len += len,
            _ => runs.push(Slip { start, len, before }),
        }
        before += len;
    }
    Ok(runs)
}
