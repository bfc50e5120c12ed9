//! Joins zones of the map that are parts of one zone of the drive.
//!
//! The mapper begins a new zone at every irregularity: where the first LBN is not the first of a band, at a track
//! without LBNs, in the last, narrower band. If each became a zone of the profile, it would begin with a cylinder of
//! its own, and all distances would be too long. So the tracks of the largest zone are extended in both directions.
//! Neighbouring zones whose LBNs lie on these tracks become a part of it, with unused sectors in between.

use crate::mapping::Map;
use crate::revolutions::{frac, wrap};
use crate::shape::{Kind, Shape};
use crate::zone::{Cycle, Zone, least_multiple};
use crate::zone_spec::{order, rounded, spec};
use model::Layout;
use model::profile::{LayoutSpec, Revolutions, SectorsPerTrack, Sparing, Zone as ZoneSpec};
use std::ops::Range;
use units::{Lbn, TrackIndex};

/// The number of LBNs of a zone whose angles are compared.
const SAMPLES: u64 = 40;

/// The most tracks in a row without LBNs between two joined zones.
const EMPTY_TRACKS_MAX: u64 = 3;

/// The most sectors without an LBN that one zone of a profile lists.
const ZONE_SLIPS_MAX: u64 = 20_000;

/// Zones of the map that are one zone of the profile.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// The indices, in the map, of the zones that are one.
    pub(crate) zones: Range<usize>,
    /// The profile's zone, with cylinders from 0 on.
    pub(crate) spec: ZoneSpec,
}

/// The search for the profile's zones.
pub(crate) struct Joiner<'m> {
    pub(crate) map: &'m Map,
    pub(crate) shape: Shape,
    /// The time from the end of a sector to the end of its read, in revolutions.
    pub(crate) bus_revolutions: f64,
    /// The tolerance of the map's angles, in revolutions.
    pub(crate) loose: f64,
}

/// The extended tracks of a zone, as if all their sectors held LBNs.
struct Bare {
    spec: ZoneSpec,
    layout: Layout,
    /// The number of sectors on the extended tracks before the zone.
    begin: u64,
}

/// The positions of the first sectors of zones on the extended tracks.
#[derive(Clone, Debug)]
struct Placed {
    zones: Range<usize>,
    first_place: Vec<u64>,
}

impl Joiner<'_> {
    /// Joins all zones that `is_wanted` accepts, and neighbours whose LBNs lie on the same tracks.
    pub(crate) fn run(&self, is_wanted: &dyn Fn(usize) -> bool) -> Vec<Whole> {
        let mut found: Vec<Whole> = Vec::new();
        let zones = &self.map.zones;
        let mut order: Vec<usize> = (0..zones.len()).filter(|&i| self.is_mapped(i)).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(zones.get(i).map_or(0, Zone::tracks)));
        for anchor in order {
            let is_free = |i: usize| !found.iter().any(|w| w.zones.contains(&i)) && self.is_mapped(i);
            if !is_free(anchor) {
                continue;
            }
            let run = self.run_of(anchor, &is_free);
            if (run.len() > 1 || is_wanted(anchor))
                && let Some(whole) = self.whole(anchor, run)
                && (whole.zones.len() > 1 || is_wanted(anchor))
            {
                found.push(whole);
            }
        }
        found.sort_by_key(|w| w.zones.start);
        found
    }

    fn is_mapped(&self, i: usize) -> bool {
        self.map
            .zones
            .get(i)
            .is_some_and(|z| z.first < self.map.mapped && !z.levels.is_empty() || z.tracks() == 1)
    }

    fn zone(&self, i: usize) -> Option<&Zone> {
        self.map.zones.get(i)
    }

    /// Returns the consecutive zones around `anchor` that have no other densities than it.
    fn run_of(&self, anchor: usize, is_free: &dyn Fn(usize) -> bool) -> Range<usize> {
        let densities = self.zone(anchor).map(densities).unwrap_or_default();
        let same = |i: usize| {
            is_free(i)
                && self.zone(i).is_some_and(|z| self::densities(z).iter().all(|n| densities.contains(n)))
        };
        let mut run = anchor..anchor + 1;
        while run.start > 0 && same(run.start - 1) {
            run.start -= 1;
        }
        while same(run.end) {
            run.end += 1;
        }
        run
    }

    fn whole(&self, anchor: usize, run: Range<usize>) -> Option<Whole> {
        let zone = self.zone(anchor)?;
        let heads = self.shape.heads.max(1);
        let tracks = |range: Range<usize>| range.filter_map(|i| self.zone(i)).map(Zone::tracks).sum::<u64>();
        // The number of tracks after which the order of tracks repeats, with the rotations of this zone.
        let unit = match self.shape.kind {
            Kind::Cylinder | Kind::ByZone => heads,
            Kind::Serpentine if zone.cycle.is_some() => 2 * heads,
            Kind::Serpentine => heads,
            Kind::Bands(width) if zone.cycle.is_some() => 2 * width * heads,
            Kind::Bands(width) | Kind::ForwardBands(width) => width * heads,
        };
        let own = zone.cycle.as_ref().map(Cycle::tracks);
        let own = own.or(zone.levels.last().map(|l| l.unit)).unwrap_or(1);
        let period = least_multiple(unit, own.max(1));
        let before = (tracks(run.start..anchor) + EMPTY_TRACKS_MAX).div_ceil(period) * period;
        let after = tracks(anchor..run.end) + EMPTY_TRACKS_MAX * (run.len() as u64 + 1);
        let mut best: Option<(u64, Whole)> = None;
        for cylinders in self.cylinders(before, after) {
            let Some(bare) = self.bare(zone, before, cylinders) else { continue };
            let Some(placed) = self.placed(&bare, anchor, &run) else { continue };
            let lbns = placed.zones.clone().filter_map(|i| self.zone(i)).map(Zone::lbns).sum();
            if best.as_ref().is_none_or(|b| lbns > b.0)
                && let Some(spec) = self.spec_of(&bare, &placed, unit)
            {
                best = Some((lbns, Whole { zones: placed.zones, spec }));
            }
        }
        best.map(|b| b.1)
    }

    /// Returns the numbers of cylinders that the extended tracks may have: `before` of these tracks precede the zone
    /// from which they are derived, and `after` begin with it.
    fn cylinders(&self, before: u64, after: u64) -> Vec<u32> {
        let heads = self.shape.heads.max(1);
        match self.shape.kind.band() {
            // The last band may be narrower.
            Some(width) => {
                let bands = (before + after) / (width * heads);
                let (most, least) = (bands + 1, bands.saturating_sub(1));
                (least * width + 1..=most * width).rev().map(|c| c as u32).collect()
            }
            None => vec![(before + after).div_ceil(heads) as u32 + 1],
        }
    }

    fn bare(&self, zone: &Zone, before: u64, cylinders: u32) -> Option<Bare> {
        let mut spec = spec(zone, self.shape, 0, cylinders, self.bus_revolutions);
        (spec.slips, spec.slip_runs) = (Vec::new(), Vec::new());
        (spec.sparing, spec.reserved) = (Sparing::default(), 0);
        let turned = match &zone.cycle {
            Some(cycle) => (before / cycle.tracks()) as f64 * cycle.advance,
            None => zone.levels.last().map_or(0.0, |l| (before / l.unit) as f64 * l.advance),
        };
        spec.offset = Revolutions::Decimal(rounded(frac(
            zone.angle - turned - 1.0 / zone.sectors_on(0) as f64 - self.bus_revolutions,
        )));
        let heads = self.shape.heads.max(1);
        let on_cylinder = match &spec.sectors_per_track {
            SectorsPerTrack::Same(n) => heads * u64::from(*n),
            SectorsPerTrack::ByHead(list) => list.iter().map(|&n| u64::from(n)).sum(),
        };
        let layout = self.layout(&spec)?;
        Some(Bare { layout, begin: before / heads * on_cylinder, spec })
    }

    fn layout(&self, spec: &ZoneSpec) -> Option<Layout> {
        let whole = LayoutSpec {
            order: order(self.shape),
            patterns: Vec::new(),
            zones: vec![spec.clone()],
            remaps: Vec::new(),
        };
        Layout::new(&whole, spec.last_cylinder + 1, self.shape.heads.max(1) as u16).ok()
    }

    /// Returns the neighbouring zones whose LBNs lie on the tracks of the anchor, with their positions.
    fn placed(&self, bare: &Bare, anchor: usize, run: &Range<usize>) -> Option<Placed> {
        let zone = self.zone(anchor)?;
        if !self.stands(zone, bare, bare.begin) {
            return None;
        }
        let mut placed = Placed { zones: anchor..anchor + 1, first_place: vec![bare.begin] };
        while placed.zones.end < run.end {
            let (last, next) = (self.zone(placed.zones.end - 1)?, self.zone(placed.zones.end)?);
            let end = placed.first_place.last()? + length(last);
            let Some(at) = (0..=EMPTY_TRACKS_MAX * zone.sectors)
                .map(|m| end + m)
                .find(|&at| self.stands(next, bare, at))
            else {
                break;
            };
            placed.first_place.push(at);
            placed.zones.end += 1;
        }
        while placed.zones.start > run.start {
            let before = self.zone(placed.zones.start - 1)?;
            let end = placed.first_place.first()?.checked_sub(length(before));
            let Some(at) = (0..=EMPTY_TRACKS_MAX * zone.sectors)
                .filter_map(|m| end?.checked_sub(m))
                .find(|&at| self.stands(before, bare, at))
            else {
                break;
            };
            placed.first_place.insert(0, at);
            placed.zones.start -= 1;
        }
        Some(placed)
    }

    /// Returns whether a zone's LBNs are at the angles of the tracks `bare`, if the zone begins with sector `first`.
    fn stands(&self, zone: &Zone, bare: &Bare, first: u64) -> bool {
        let last = zone.lbns() - 1;
        let begin = zone.place(zone.first);
        (0..SAMPLES.min(last + 1)).all(|k| {
            let samples = SAMPLES.min(last + 1);
            let lbn =
                zone.first + (u128::from(last) * u128::from(k) / u128::from((samples - 1).max(1))) as u64;
            let place = first + zone.place(lbn) - begin;
            self.angle(&bare.layout, place).is_some_and(|(angle, sectors)| {
                wrap(angle - zone.predict(lbn)).abs() < 0.3 / sectors as f64 + self.loose
            })
        })
    }

    /// Returns the angle at which a read of an LBN of a layout ends, and the number of sectors of its track.
    fn angle(&self, layout: &Layout, lbn: u64) -> Option<(f64, u64)> {
        let at = layout.locate(Lbn::new(lbn))?;
        let track = layout.track(at.track);
        let angle = track.sector_angle(at.sector).as_revolutions()
            + 1.0 / f64::from(track.sectors)
            + self.bus_revolutions;
        Some((angle, u64::from(track.sectors)))
    }

    /// Returns the profile's zone: unused sectors before the first LBN are reserved, those inside are slips, and those
    /// behind the last LBN are spares.
    fn spec_of(&self, bare: &Bare, placed: &Placed, unit: u64) -> Option<ZoneSpec> {
        let heads = self.shape.heads.max(1);
        let mut spec = bare.spec.clone();
        let begin = *placed.first_place.first()?;
        let first_track = u64::from(bare.layout.locate(Lbn::new(begin))?.track.get());
        let empty = first_track / unit * unit;
        let track = bare.layout.track(TrackIndex::new(empty as u32));
        spec.offset = Revolutions::Decimal(rounded(track.angle.as_revolutions()));
        let on_cylinder = match &spec.sectors_per_track {
            SectorsPerTrack::Same(n) => heads * u64::from(*n),
            SectorsPerTrack::ByHead(list) => list.iter().map(|&n| u64::from(n)).sum(),
        };
        let left_out = empty / heads * on_cylinder;
        let (mut slips, mut slip_runs) = (Vec::new(), Vec::new());
        let mut slip = |sectors: Range<u64>| {
            // Unused sectors are listed as a run if they are more than a track, and singly otherwise.
            let count = sectors.end.saturating_sub(sectors.start);
            if count > on_cylinder / heads {
                slip_runs.push((sectors.start, count))
            } else {
                slips.extend(sectors)
            }
            slips.len() as u64 <= ZONE_SLIPS_MAX
        };
        let mut next = begin;
        let mut lbns = 0;
        for (i, &place) in placed.zones.clone().zip(&placed.first_place) {
            let zone = self.zone(i)?;
            lbns += zone.lbns();
            let mut few = slip(next - left_out..place - left_out);
            let own = zone.place(zone.first);
            for (lbn, sectors) in gaps(zone)? {
                let past = place + zone.place(lbn) - own - left_out;
                few &= slip(past.checked_sub(sectors)?..past);
            }
            next = place + length(zone);
            if !few {
                return None;
            }
        }
        let last = u64::from(bare.layout.locate(Lbn::new(next - 1))?.track.get()) - empty;
        spec.last_cylinder = match self.shape.kind.band() {
            // Bands behind the last LBN belong to other zones.
            Some(width) => {
                let used = (last / (width * heads) + 1) * width - 1;
                (u64::from(spec.last_cylinder) - empty / heads).min(used) as u32
            }
            None => (last / heads) as u32,
        };
        spec.reserved = begin - left_out;
        (spec.slips, spec.slip_runs) = (slips, slip_runs);
        let places = u64::from(spec.last_cylinder + 1) * on_cylinder;
        spec.sparing.spares = places.checked_sub(spec.reserved)?.checked_sub(lbns)?;
        if let Some(width) = self.shape.kind.band() {
            // The zone is made as narrow as possible, because the sectors behind the last LBN may be in other zones.
            let narrow = |spec: &ZoneSpec| -> Option<ZoneSpec> {
                let mut less = spec.clone();
                less.last_cylinder = less.last_cylinder.checked_sub(1)?;
                less.sparing.spares = less.sparing.spares.checked_sub(on_cylinder)?;
                self.holds(&less, placed).then_some(less)
            };
            for _ in 0..2 * width {
                let Some(less) = narrow(&spec) else { break };
                spec = less;
            }
        }
        self.holds(&spec, placed).then_some(spec)
    }

    /// Returns whether a profile's zone has exactly these zones' LBNs, at their angles.
    fn holds(&self, spec: &ZoneSpec, placed: &Placed) -> bool {
        let Some(layout) = self.layout(spec) else { return false };
        let zones: Vec<&Zone> = placed.zones.clone().filter_map(|i| self.zone(i)).collect();
        let Some(first) = zones.first().map(|z| z.first) else { return false };
        layout.capacity().get() == zones.iter().map(|z| z.lbns()).sum::<u64>()
            && zones.iter().all(|zone| {
                let samples = SAMPLES.min(zone.lbns());
                (0..samples).all(|k| {
                    let lbn = zone.first + (zone.lbns() - 1) * k / (samples - 1).max(1);
                    self.angle(&layout, lbn - first).is_some_and(|(angle, sectors)| {
                        wrap(angle - zone.predict(lbn)).abs() < 0.3 / sectors as f64 + self.loose
                    })
                })
            })
    }
}

/// Returns the numbers of sectors on the tracks of a zone.
fn densities(zone: &Zone) -> Vec<u64> {
    match &zone.cycle {
        Some(cycle) => cycle.slots.iter().map(|s| s.sectors).collect(),
        None => vec![zone.sectors],
    }
}

/// Returns the number of sectors from a zone's first LBN to its last.
fn length(zone: &Zone) -> u64 {
    zone.place(zone.end - 1) - zone.place(zone.first) + 1
}

/// Returns the LBNs before which sectors are unused, each with the number of these sectors; `None` if there are too
/// many.
fn gaps(zone: &Zone) -> Option<Vec<(u64, u64)>> {
    let mut gaps: Vec<(u64, u64)> =
        zone.shifts.iter().filter(|s| s.lbn > zone.first).map(|s| (s.lbn, s.sectors)).collect();
    if let Some(region) = zone.region {
        let count = (zone.lbns() - 1) / region.lbns.max(1);
        if count * region.spares > ZONE_SLIPS_MAX {
            return None;
        }
        gaps.extend((1..=count).map(|i| (zone.first + i * region.lbns, region.spares)));
    }
    gaps.sort_unstable();
    // Two gaps before one LBN are joined.
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (lbn, sectors) in gaps {
        match joined.last_mut() {
            Some(last) if last.0 == lbn => last.1 += sectors,
            _ => joined.push((lbn, sectors)),
        }
    }
    Some(joined)
}
