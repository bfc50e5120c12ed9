//! The layout: maps every LBN to a sector of a track and its angle, and sectors back to LBNs.
//!
//! A layout is a list of zones. A zone orders its tracks (`order.rs`) and decides which of their sectors have LBNs
//! (`sparing.rs`); single LBNs may be remapped anywhere. Both directions are arithmetic over a few small tables, so that
//! the layout of a drive of 20 TB takes kilobytes.
//!
//! A *place* numbers all sectors of a zone in the order of its tracks, from the zone's first, with or without an LBN.

mod apart;
mod order;
mod runs;
mod spans;
mod sparing;
mod track;
mod track_ref;
mod zone;

use crate::error::ProfileError;
use crate::profile::{LayoutSpec, SparingRegion, Zone as ZoneSpec};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use order::{Section, SectionTrack};
use spans::Spans;
use sparing::{Spares, Uniform};
pub use track::{Extent, Location, Piece, Track, Window};
use track_ref::NativeExtents;
pub use track_ref::{Extents, Pieces, TrackRef};
use units::{Cylinder, Head, Lbn, LbnRange, Sectors, TrackIndex};
use zone::{PlacedZone, SlipRevolutions, slipped_tracks};

/// The most cylinders accepted, to bound the tables by cylinder; a surface of a 3.5-inch drive of today has some 600,000.
pub const CYLINDERS_MAX: u32 = 1 << 22;

/// A run of remapped LBNs.
#[derive(Clone, Copy, Debug)]
struct Remapped {
    lbn: u64,
    len: u32,
    to: Location,
}

/// The layout of a drive.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<PlacedZone>,
    /// The first LBN of each zone. An array of its own, so that a search touches only one or two cache lines.
    zone_lbns: Vec<u64>,
    zone_tracks: Vec<u32>,
    spans: Spans,
    capacity: u64,
    tracks: u32,
    cylinders: u32,
    heads: u16,
    /// The remapped LBNs and the defects of zones, sorted by LBN.
    remaps: Vec<Remapped>,
    /// The entries of `remaps`, sorted by the location they lead to.
    remaps_in: Vec<Remapped>,
}

impl Layout {
    /// Computes the layout of a drive with this number of cylinders and heads.
    ///
    /// # Errors
    /// Zones overlap or leave the drive, tracks have no sectors, slips lie outside their zone, and so on. The error has the
    /// path of the field in the profile file, and the remedy.
    pub fn new(spec: &LayoutSpec, cylinders: u32, heads: u16) -> Result<Self, ProfileError> {
        let mut layout = Self {
            zones: Vec::with_capacity(spec.zones.len()),
            zone_lbns: Vec::new(),
            zone_tracks: Vec::new(),
            spans: Spans::default(),
            capacity: 0,
            tracks: 0,
            cylinders,
            heads,
            remaps: Vec::new(),
            remaps_in: Vec::new(),
        };
        for (i, zone) in spec.zones.iter().enumerate() {
            layout.push_zone(spec, zone, &format!("layout.zone[{i}]"))?;
        }
        if layout.capacity == 0 {
            return Err(ProfileError::new("layout.zone", "the drive holds no LBN", "give at least one zone"));
        }
        layout.zone_lbns = layout.zones.iter().map(|z| z.first_lbn).collect();
        layout.zone_tracks = layout.zones.iter().map(|z| z.first_track).collect();
        apart::check(&layout.zones, cylinders)?;
        layout.spans = Spans::new(&layout.zones, cylinders)?;
        layout.push_remaps(spec)?;
        Ok(layout)
    }

    fn push_zone(&mut self, spec: &LayoutSpec, zone: &ZoneSpec, at: &str) -> Result<(), ProfileError> {
        if zone.last_cylinder < zone.first_cylinder {
            return Err(ProfileError::new(
                format!("{at}.last_cylinder"),
                format!("{} lies before the first cylinder {}", zone.last_cylinder, zone.first_cylinder),
                "give the last cylinder of the zone, included",
            ));
        }
        if zone.last_cylinder >= self.cylinders {
            return Err(ProfileError::new(
                format!("{at}.last_cylinder"),
                format!("cylinder {} on a drive of {}", zone.last_cylinder, self.cylinders),
                "cylinders count from 0; raise `cylinders` or end the zone earlier",
            ));
        }
        if self.zones.len() >= usize::from(u16::MAX) {
            return Err(ProfileError::new(at, "more than 65,535 zones", "join zones that are alike"));
        }
        let sections = order::sections(spec, zone, self.heads, at)?;
        let tracks: u64 = sections.iter().map(|s| u64::from(s.tracks) * u64::from(s.repetitions)).sum();
        let Some(end) = u64::from(self.tracks).checked_add(tracks).and_then(|n| u32::try_from(n).ok()) else {
            return Err(ProfileError::new(at, "more than 4 billion tracks", "check cylinders and heads"));
        };
        let places = sections.iter().map(Section::place_count).sum();
        let surfaces = if zone.surfaces.is_empty() { self.heads } else { zone.surfaces.len() as u16 };
        let (cylinder, track) = match sections.first() {
            Some(s) if s.same_sectors != 0 => {
                let by_cylinder = s.tracks == s.cylinders * u32::from(surfaces) && s.same_tracks == 1;
                let track = u64::from(s.same_sectors);
                (if by_cylinder { track * u64::from(surfaces) } else { 0 }, track)
            }
            _ => (0, 0),
        };
        let slip_tracks = slipped_tracks(zone, &sections, tracks, at)?;
        let spares = Spares::new(zone, at, places, Uniform { cylinder, track }, &slip_tracks)?;
        let slip_revolutions = match zone.sparing.per {
            SparingRegion::Cylinder => SlipRevolutions::ByCylinder,
            SparingRegion::Track => SlipRevolutions::ByTrack,
            _ => SlipRevolutions::No,
        };
        let new = PlacedZone {
            first_lbn: self.capacity,
            lbns: spares.lbns(),
            first_track: self.tracks,
            sections,
            spares,
            surfaces,
            slip_revolutions: if zone.slip_count() == 0 { SlipRevolutions::No } else { slip_revolutions },
        };
        for (i, &(bad, replacement)) in zone.defects.iter().enumerate() {
            let place = format!("{at}.defects[{i}]");
            let error = |problem: String| {
                ProfileError::new(
                    place.clone(),
                    problem,
                    "list pairs [bad, replacement] of sectors of this zone; the bad one holds an LBN, the other is a spare",
                )
            };
            if bad >= places || replacement >= places {
                return Err(error(format!("[{bad}, {replacement}] in a zone of {places} sectors")));
            }
            // A bad sector without an LBN (for instance another spare) needs no replacement.
            if let Some(s) = new.spares.stretch_from(bad, bad + 1) {
                if new.spares.stretch_from(replacement, replacement + 1).is_some() {
                    return Err(error(format!("sector {replacement} holds an LBN of its own")));
                }
                let (track, sector) = new.locate_place(replacement);
                self.remaps.push(Remapped {
                    lbn: new.first_lbn + s.index,
                    len: 1,
                    to: Location { track: TrackIndex::new(new.first_track + track), sector },
                });
            }
        }
        self.capacity = match self.capacity.checked_add(new.lbns) {
            Some(sum) if sum < 1 << 48 => sum,
            _ => return Err(ProfileError::new(at, "more than 2^48 sectors", "check sectors per track")),
        };
        self.tracks = end;
        self.zones.push(new);
        Ok(())
    }

    fn push_remaps(&mut self, spec: &LayoutSpec) -> Result<(), ProfileError> {
        for (i, remap) in spec.remaps.iter().enumerate() {
            let error = |problem: String, mend: &str| {
                ProfileError::new(format!("layout.remap[{i}]"), problem, mend.to_owned())
            };
            if remap.sectors == 0 || remap.lbn.saturating_add(u64::from(remap.sectors)) > self.capacity {
                return Err(error(
                    format!("LBN {} + {} of {}", remap.lbn, remap.sectors, self.capacity),
                    "remap LBNs that the zones hold",
                ));
            }
            let (cylinder, head) = (Cylinder::new(remap.cylinder), Head::new(remap.head));
            let Some(track) = self.track_at(cylinder, head) else {
                return Err(error(
                    format!("no zone has cylinder {} head {}", remap.cylinder, remap.head),
                    "remap onto a track of a zone",
                ));
            };
            let sectors = self.track(track).sectors;
            if remap.sector.checked_add(remap.sectors).is_none_or(|end| end > sectors) {
                return Err(error(
                    format!("sector {} + {} on a track of {sectors}", remap.sector, remap.sectors),
                    "split the remap at the track's end",
                ));
            }
            self.remaps.push(Remapped {
                lbn: remap.lbn,
                len: remap.sectors,
                to: Location { track, sector: remap.sector },
            });
        }
        self.remaps.sort_by_key(|r| r.lbn);
        self.remaps_in = self.remaps.clone();
        self.remaps_in.sort_by_key(|r| r.to);
        let twice = |problem: String| {
            ProfileError::new("layout.remap", problem, "give every LBN and every sector once")
        };
        for pair in self.remaps.windows(2) {
            if pair[0].lbn + u64::from(pair[0].len) > pair[1].lbn {
                return Err(twice(format!("LBN {} is remapped twice", pair[1].lbn)));
            }
        }
        for pair in self.remaps_in.windows(2) {
            let (a, b) = (pair[0].to, pair[1].to);
            if a.track == b.track && a.sector + pair[0].len > b.sector {
                return Err(twice(format!("two LBNs on track {} sector {}", b.track, b.sector)));
            }
        }
        // A sector that gets a remapped LBN must not have an LBN already, unless that LBN was remapped as well.
        for r in &self.remaps_in {
            for sector in r.to.sector..r.to.sector + r.len {
                let own = self.native_lbn(Location { track: r.to.track, sector });
                if own.is_some_and(|lbn| self.remap_of(lbn).is_none()) {
                    return Err(twice(format!(
                        "track {} sector {sector} holds an LBN of its own",
                        r.to.track
                    )));
                }
            }
        }
        Ok(())
    }

    /// Fails if a sector of the medium, which has `sectors` LBNs, would be cut by the end of a track, or by slips, spares or
    /// reserved sectors.
    pub(crate) fn check_physical_sectors(&self, sectors: u64) -> Result<(), ProfileError> {
        if sectors == 1 {
            return Ok(());
        }
        for (i, zone) in self.zones.iter().enumerate() {
            let cut = |field: &str, problem: String| {
                let mend = format!("give multiples of {sectors} sectors, or leave out physical_sector_bytes");
                Err(ProfileError::new(format!("layout.zone[{i}].{field}"), problem, mend))
            };
            let runs = zone.sections.iter().flat_map(|s| &s.runs);
            if let Some(run) = runs.clone().find(|run| !u64::from(run.sectors).is_multiple_of(sectors)) {
                let problem =
                    format!("{} sectors on a track are no whole sectors of the medium", run.sectors);
                return cut("sectors_per_track", problem);
            }
            if !zone.spares.is_whole(sectors) {
                return cut("slips", "slips, spares or reserved sectors cut a sector of the medium".into());
            }
        }
        Ok(())
    }

    /// Returns the number of LBNs of the drive.
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.capacity)
    }

    /// Returns the number of tracks of all zones.
    pub fn track_count(&self) -> u32 {
        self.tracks
    }

    /// Returns the number of sectors on the track that has the most.
    pub fn densest_track(&self) -> u32 {
        let runs = self.zones.iter().flat_map(|z| &z.sections).flat_map(|s| &s.runs);
        runs.map(|r| r.sectors).max().unwrap_or(0)
    }

    /// Returns the least and the largest number of sectors of the tracks on the cylinders from `first` to `last`; `None` if
    /// these cylinders have no tracks.
    pub fn sectors_per_track(&self, first: Cylinder, last: Cylinder) -> Option<RangeInclusive<u32>> {
        let (first, last) = (first.get(), last.get());
        let mut found: Option<RangeInclusive<u32>> = None;
        let mut meet = |sectors: u32| {
            found = Some(match &found {
                Some(range) => sectors.min(*range.start())..=sectors.max(*range.end()),
                None => sectors..=sectors,
            });
        };
        for section in self.zones.iter().flat_map(|zone| &zone.sections) {
            let span = section.span();
            if first <= span.0 && span.1 <= last {
                section.runs.iter().for_each(|run| meet(run.sectors));
                continue;
            }
            // Only some cylinders of the section are within the bounds.
            for cylinder in first.max(span.0)..=last.min(span.1) {
                section
                    .tracks_on(cylinder - section.first_cylinder, |_| true)
                    .for_each(|(_, track)| meet(track.sectors));
            }
        }
        found
    }

    /// Returns the number of cylinders, including those without LBNs.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Returns the number of heads.
    pub fn heads(&self) -> u16 {
        self.heads
    }

    /// Returns the track and the sector of an LBN, or `None` past the drive's last LBN.
    pub fn locate(&self, lbn: Lbn) -> Option<Location> {
        self.run_at(lbn.get(), 1).map(|p| Location { track: p.track, sector: p.sector })
    }

    /// Returns the LBN of a sector, or `None` for spare, bad and reserved sectors and for sectors that do not exist.
    pub fn lbn_at(&self, location: Location) -> Option<Lbn> {
        if location.track.get() >= self.tracks {
            return None;
        }
        if let Some(r) = self.remap_into(location) {
            return Some(Lbn::new(r.lbn + u64::from(location.sector - r.to.sector)));
        }
        self.native_lbn(location).filter(|&lbn| self.remap_of(lbn).is_none()).map(Lbn::new)
    }

    /// Returns a track by its number.
    ///
    /// # Panics
    /// If the layout has no track of this number.
    #[inline]
    pub fn track(&self, index: TrackIndex) -> Track {
        self.track_ref(index).track
    }

    /// Returns a track by its number, with access to its LBNs.
    ///
    /// # Panics
    /// As for [`track`](Self::track).
    #[inline]
    pub fn track_ref(&self, index: TrackIndex) -> TrackRef<'_> {
        let (zone, section, local) = self.section_of_track(index);
        self.found(zone, index, section.track(local))
    }

    #[inline]
    fn found<'a>(&'a self, zone: &'a PlacedZone, index: TrackIndex, t: SectionTrack) -> TrackRef<'a> {
        let angle = match zone.slip_revolutions {
            SlipRevolutions::No => t.angle,
            by => t.angle + zone.slip_revolution(by, t.place, t.sectors),
        };
        let (cylinder, head) = (Cylinder::new(t.cylinder), Head::new(t.head));
        let track = Track { cylinder, head, sectors: t.sectors, angle };
        TrackRef { layout: self, zone, index, track, place: t.place }
    }

    /// Returns the track of a cylinder and a head; `None` if it belongs to no zone.
    pub fn track_at(&self, cylinder: Cylinder, head: Head) -> Option<TrackIndex> {
        self.sections_on(cylinder).find_map(|(zone, section)| {
            let local = section.track_at(cylinder.get() - section.first_cylinder, head.get())?;
            Some(TrackIndex::new(zone.first_track + section.first_track + local))
        })
    }

    /// Iterates over the tracks of a cylinder; a cylinder outside of all zones has none. The tracks are in LBN order, unless
    /// the surfaces of a zone are shifted (`surface_offsets` in the profile).
    pub fn tracks_on(&self, cylinder: Cylinder) -> impl Iterator<Item = TrackRef<'_>> {
        self.tracks_on_if(cylinder, |_| true)
    }

    /// Iterates over the tracks of a cylinder whose track numbers are `wanted`. Other tracks are not computed, which saves
    /// time.
    #[inline]
    pub fn tracks_on_if(
        &self,
        cylinder: Cylinder,
        wanted: impl Fn(TrackIndex) -> bool + Copy,
    ) -> impl Iterator<Item = TrackRef<'_>> {
        self.sections_on(cylinder).flat_map(move |(zone, section)| {
            let first = zone.first_track + section.first_track;
            section
                .tracks_on(cylinder.get() - section.first_cylinder, move |local| {
                    wanted(TrackIndex::new(first + local))
                })
                .map(move |(local, t)| self.found(zone, TrackIndex::new(first + local), t))
        })
    }

    /// Iterates over the LBNs of a track, as runs in sector order.
    pub fn extents(&self, index: TrackIndex) -> Extents<'_> {
        self.track_ref(index).extents()
    }

    #[cold]
    fn extents_with_remaps<'a>(&'a self, index: TrackIndex, native: NativeExtents<'a>) -> Extents<'a> {
        let mut all: Vec<Extent> = Vec::new();
        for extent in native.clone() {
            self.cut_out_remapped(extent, &mut all);
        }
        let from = self.remaps_in.partition_point(|r| r.to.track < index);
        all.extend(self.remaps_in[from..].iter().take_while(|r| r.to.track == index).map(|r| Extent {
            sector: r.to.sector,
            lbn: Lbn::new(r.lbn),
            len: r.len,
        }));
        all.sort_by_key(|e| e.sector);
        Extents { native, remapped: Some(all.into_iter()) }
    }

    /// Cuts a range of LBNs into pieces, each on consecutive sectors of one track, in LBN order. The part of the range past
    /// the drive's last LBN is left out.
    pub fn pieces(&self, range: LbnRange) -> Pieces<'_> {
        Pieces { layout: self, next: range.start().get(), left: range.len().get() }
    }

    /// Returns the longest piece that begins at `lbn`, of at most `most` sectors.
    #[inline]
    fn run_at(&self, lbn: u64, most: u64) -> Option<Piece> {
        if lbn >= self.capacity || most == 0 {
            return None;
        }
        let mut most = most;
        if !self.remaps.is_empty() {
            let after = self.remaps.partition_point(|r| r.lbn <= lbn);
            if let Some(r) = after.checked_sub(1).map(|i| &self.remaps[i])
                && lbn - r.lbn < u64::from(r.len)
            {
                let skip = (lbn - r.lbn) as u32;
                let len = u64::from(r.len - skip).min(most) as u32;
                return Some(Piece {
                    track: r.to.track,
                    sector: r.to.sector + skip,
                    lbn: Lbn::new(lbn),
                    len,
                });
            }
            if let Some(next) = self.remaps.get(after) {
                most = most.min(next.lbn - lbn);
            }
        }
        let zone = &self.zones[self.zone_lbns.partition_point(|&first| first <= lbn) - 1];
        let stretch = zone.spares.locate(lbn - zone.first_lbn)?;
        let section = zone.section_of_place(stretch.place);
        let (track, sector) = section.locate(stretch.place - section.first_place);
        let sectors =
            if section.same_sectors != 0 { section.same_sectors } else { section.track(track).sectors };
        let len = stretch.len.min(u64::from(sectors - sector)).min(most) as u32;
        let track = TrackIndex::new(zone.first_track + section.first_track + track);
        Some(Piece { track, sector, lbn: Lbn::new(lbn), len })
    }

    fn native_lbn(&self, location: Location) -> Option<u64> {
        let (zone, section, local) = self.section_of_track(location.track);
        let t = section.track(local);
        if location.sector >= t.sectors {
            return None;
        }
        let place = t.place + u64::from(location.sector);
        let stretch = zone.spares.stretch_from(place, place + 1)?;
        Some(zone.first_lbn + stretch.index)
    }

    fn remap_of(&self, lbn: u64) -> Option<&Remapped> {
        let after = self.remaps.partition_point(|r| r.lbn <= lbn);
        let r = self.remaps.get(after.checked_sub(1)?)?;
        (lbn - r.lbn < u64::from(r.len)).then_some(r)
    }

    fn remap_into(&self, location: Location) -> Option<&Remapped> {
        let after = self.remaps_in.partition_point(|r| r.to <= location);
        let r = self.remaps_in.get(after.checked_sub(1)?)?;
        (r.to.track == location.track && location.sector - r.to.sector < r.len).then_some(r)
    }

    fn cut_out_remapped(&self, extent: Extent, out: &mut Vec<Extent>) {
        let mut rest = extent;
        let from = self.remaps.partition_point(|r| r.lbn + u64::from(r.len) <= extent.lbn.get());
        let end = extent.lbn.get() + u64::from(extent.len);
        for r in self.remaps[from..].iter().take_while(|r| r.lbn < end) {
            let before = r.lbn.saturating_sub(rest.lbn.get()) as u32;
            if before > 0 {
                out.push(Extent { len: before, ..rest });
            }
            let skip = ((r.lbn + u64::from(r.len)).min(end) - rest.lbn.get()) as u32;
            rest = Extent {
                sector: rest.sector + skip,
                lbn: rest.lbn + Sectors::new(u64::from(skip)),
                len: rest.len - skip,
            };
        }
        if rest.len > 0 {
            out.push(rest);
        }
    }

    #[inline]
    fn section_of_track(&self, index: TrackIndex) -> (&PlacedZone, &Section, u32) {
        let zone = &self.zones[self.zone_tracks.partition_point(|&first| first <= index.get()) - 1];
        let mut local = index.get() - zone.first_track;
        let mut sections = zone.sections.iter();
        loop {
            match sections.next() {
                Some(s) if local < s.track_count() => return (zone, s, local),
                Some(s) => local -= s.track_count(),
                None => panic!("track {index} of {}", self.tracks),
            }
        }
    }

    /// Iterates over the sections that may have tracks on a cylinder, in LBN order.
    #[inline]
    fn sections_on(&self, cylinder: Cylinder) -> impl Iterator<Item = (&PlacedZone, &Section)> {
        let c = cylinder.get();
        self.spans.near(c).iter().filter(move |span| span.first <= c && c <= span.last).map(|span| {
            let zone = &self.zones[usize::from(span.zone)];
            (zone, &zone.sections[usize::from(span.section)])
        })
    }
}
