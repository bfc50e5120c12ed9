//! The order of LBNs over the tracks of a zone: sections of repeating runs of tracks.

use super::CYLINDERS_MAX;
use super::runs::{RunIndex, TrackRun};
use crate::error::ProfileError;
use crate::profile::{Course, LayoutSpec, Order, Pattern, Revolutions, SectorsPerTrack, Zone};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use units::{Angle, Arc, FULL_REVOLUTION};

/// The most sectors accepted on a track: far more than any drive has, and few enough for the angle arithmetic in 64 bits.
const SECTORS_PER_TRACK_MAX: u32 = 100_000;

/// A part of a zone in which one pattern repeats.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub first_cylinder: u32,
    pub cylinders: u32,
    pub repetitions: u32,
    /// The first track of the section, counted from the zone's first.
    pub first_track: u32,
    /// The number of tracks in a repetition.
    pub tracks: u32,
    /// The position of the section's first sector among all sectors of the zone.
    pub first_place: u64,
    /// The number of sectors in a repetition, with and without LBNs.
    pub places: u64,
    /// The sectors per track if all runs have the same number, else 0.
    pub same_sectors: u32,
    /// The tracks per run if all runs have the same number, else 0.
    pub same_tracks: u32,
    pub angle: Arc,
    pub skew: Arc,
    pub runs: Vec<TrackRun>,
    /// An index of the runs on each cylinder, if the section has too many runs for a linear search.
    pub by_cylinder: Option<RunIndex>,
}

/// A track of a section, computed from its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionTrack {
    pub cylinder: u32,
    pub head: u16,
    pub sectors: u32,
    pub angle: Angle,
    /// The position of the track's sector 0 among all sectors of the zone.
    pub place: u64,
}

impl Section {
    pub(super) fn track_count(&self) -> u32 {
        self.tracks * self.repetitions
    }

    pub(super) fn place_count(&self) -> u64 {
        self.places * u64::from(self.repetitions)
    }

    /// Returns track number `track` of the section.
    #[inline]
    pub(super) fn track(&self, track: u32) -> SectionTrack {
        let (repetition, slot) = (track / self.tracks, track % self.tracks);
        let index = match slot.checked_div(self.same_tracks) {
            Some(index) => index as usize,
            None => self.runs.partition_point(|r| r.first_track <= slot) - 1,
        };
        let run = &self.runs[index];
        self.track_of_run(repetition, run, slot - run.first_track)
    }

    #[inline]
    fn track_of_run(&self, repetition: u32, run: &TrackRun, along: u32) -> SectionTrack {
        let parts = self.angle.parts()
            + u64::from(repetition) * self.skew.parts()
            + run.angle.parts()
            + u64::from(along) * run.skew.parts();
        let cylinder = self.first_cylinder + repetition * self.cylinders + run.cylinder + run.shift;
        SectionTrack {
            cylinder: if run.outward { cylinder - along } else { cylinder + along },
            head: run.head,
            sectors: run.sectors,
            angle: Angle::from_parts(parts),
            place: self.first_place
                + u64::from(repetition) * self.places
                + run.first_place
                + u64::from(along) * u64::from(run.sectors),
        }
    }

    /// Returns the number of the track in the section, and the sector on the track, of a sector position counted from the
    /// section's first.
    #[inline]
    pub(super) fn locate(&self, place: u64) -> (u32, u32) {
        let (repetition, within) = (place / self.places, place % self.places);
        let (slot, sector) = if self.same_sectors != 0 {
            let n = u64::from(self.same_sectors);
            ((within / n) as u32, (within % n) as u32)
        } else {
            let run = &self.runs[self.runs.partition_point(|r| r.first_place <= within) - 1];
            let within = within - run.first_place;
            let n = u64::from(run.sectors);
            (run.first_track + (within / n) as u32, (within % n) as u32)
        };
        (repetition as u32 * self.tracks + slot, sector)
    }

    /// Returns the first and the last cylinder on which a track may be.
    pub(super) fn span(&self) -> (u32, u32) {
        let shift = self.runs.iter().map(|r| r.shift).max().unwrap_or(0);
        (self.first_cylinder, self.first_cylinder + self.cylinders * self.repetitions - 1 + shift)
    }

    /// Returns the repetition, and the cylinder within it.
    #[inline]
    fn repetition_of(&self, cylinder: u32) -> (u32, u32) {
        // Most repetitions have one cylinder. Without this case the division would double the time of the query.
        match self.cylinders {
            1 => (cylinder, 0),
            n => (cylinder / n, cylinder % n),
        }
    }

    /// Returns the repetition, and the index in `run`, of the run's track on `cylinder` (counted from the section's first).
    /// `unshifted` is [`Self::repetition_of`] the cylinder, computed once for all runs.
    #[inline]
    fn on_run(&self, run: &TrackRun, cylinder: u32, unshifted: (u32, u32)) -> Option<(u32, u32)> {
        let (repetition, within) = match run.shift {
            0 => unshifted,
            shift => self.repetition_of(cylinder.checked_sub(shift)?),
        };
        if repetition >= self.repetitions {
            return None;
        }
        Some((repetition, run.track_on(within)?))
    }

    /// Returns the runs that may have a track on a cylinder of a repetition, in LBN order.
    #[inline]
    fn runs_near(&self, within: u32) -> RunsNear<'_> {
        match &self.by_cylinder {
            None => RunsNear::All(self.runs.iter()),
            Some(index) => RunsNear::Listed(index.near(within).iter(), &self.runs),
        }
    }

    /// Iterates over the tracks on `cylinder` (counted from the section's first), each with its number in the section. Only
    /// tracks whose number in the section is `wanted` are computed. The tracks are in LBN order if no surface is shifted.
    #[inline]
    pub(super) fn tracks_on(
        &self,
        cylinder: u32,
        wanted: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = (u32, SectionTrack)> {
        let unshifted = self.repetition_of(cylinder);
        self.runs_near(unshifted.1).filter_map(move |run| {
            let (repetition, along) = self.on_run(run, cylinder, unshifted)?;
            let number = repetition * self.tracks + run.first_track + along;
            wanted(number).then(|| (number, self.track_of_run(repetition, run, along)))
        })
    }

    /// Returns the number in the section of the track of a cylinder (counted from the section's first) and a head.
    pub(super) fn track_at(&self, cylinder: u32, head: u16) -> Option<u32> {
        let unshifted = self.repetition_of(cylinder);
        self.runs_near(unshifted.1).filter(|run| run.head == head).find_map(|run| {
            let (repetition, along) = self.on_run(run, cylinder, unshifted)?;
            Some(repetition * self.tracks + run.first_track + along)
        })
    }
}

/// The iterator of [`Section::runs_near`].
enum RunsNear<'a> {
    All(core::slice::Iter<'a, TrackRun>),
    Listed(core::slice::Iter<'a, u32>, &'a [TrackRun]),
}

impl<'a> Iterator for RunsNear<'a> {
    type Item = &'a TrackRun;

    #[inline]
    fn next(&mut self) -> Option<&'a TrackRun> {
        match self {
            Self::All(runs) => runs.next(),
            Self::Listed(list, runs) => list.next().and_then(|&i| runs.get(i as usize)),
        }
    }
}

/// The sectors per track of one zone, after their check.
#[derive(Clone, Copy)]
struct Density<'a> {
    spec: &'a SectorsPerTrack,
}

impl Density<'_> {
    fn on(&self, head: u16) -> u32 {
        match self.spec {
            SectorsPerTrack::Same(n) => *n,
            SectorsPerTrack::ByHead(list) => list.get(usize::from(head)).copied().unwrap_or(0),
        }
    }
}

/// Returns the sections of one zone. `at` is the zone's path in the profile, for errors.
pub(super) fn sections(
    layout: &LayoutSpec,
    zone: &Zone,
    heads: u16,
    at: &str,
) -> Result<Vec<Section>, ProfileError> {
    check_density(&zone.sectors_per_track, heads, at)?;
    let density = Density { spec: &zone.sectors_per_track };
    let cylinders = zone.last_cylinder - zone.first_cylinder + 1;
    let angle = |revolutions: &Revolutions, field: &str| {
        revolutions.angle().map(|a| Arc::from_parts(a.parts())).ok_or_else(|| {
            ProfileError::new(
                format!("{at}.{field}"),
                "not a fraction of a revolution",
                "give a number, or a text such as \"63/334\"",
            )
        })
    };
    let offset = angle(&zone.offset, "offset")?;
    let track_skew = angle(&zone.track_skew, "track_skew")?;
    let cylinder_skew = angle(&zone.cylinder_skew, "cylinder_skew")?;
    let head_skew = match &zone.head_skew {
        Some(revolutions) => angle(revolutions, "head_skew")?,
        None => track_skew,
    };
    let order = zone.order.unwrap_or(layout.order);
    if order != Order::Pattern && zone.pattern.is_some() {
        return Err(ProfileError::new(
            format!("{at}.pattern"),
            "a pattern where the zone's order is not `pattern`",
            "remove it, or set layout.order = { kind = \"pattern\" }",
        ));
    }
    let surfaces = Surfaces::new(zone, order, heads, at)?;
    let chain = || Chain::new(density, track_skew, &surfaces);
    let mut build = Builder { sections: Vec::new(), cylinder: zone.first_cylinder, angle: offset };
    let band_place = if zone.order.is_some() {
        format!("{at}.order.band_cylinders")
    } else {
        "layout.order.band_cylinders".to_owned()
    };
    match order {
        Order::Cylinder => build.section(chain().cylinder(0, false), 1, cylinders, cylinder_skew),
        Order::CylinderSerpentine | Order::CylinderSerpentineAbsolute => {
            let absolute = order == Order::CylinderSerpentineAbsolute;
            let flipped = absolute && zone.first_cylinder % 2 == 1;
            let one = |chain, cylinder: u32| -> Chain<'_> {
                Chain::cylinder(chain, cylinder, flipped == cylinder.is_multiple_of(2))
            };
            let pair = one(one(chain(), 0).step(cylinder_skew), 1);
            build.section(pair, 2, cylinders / 2, cylinder_skew);
            build.section(one(chain(), 0), 1, cylinders % 2, cylinder_skew);
        }
        Order::SurfaceSerpentine { band_cylinders: width } => {
            let bands = Bands { width, tracks: Course::Alternating, surfaces: Course::Alternating };
            bands.build(&mut build, &chain, cylinders, head_skew, cylinder_skew, &band_place)?;
        }
        Order::Bands { band_cylinders: width, tracks, surfaces } => {
            let bands = Bands { width, tracks, surfaces };
            bands.build(&mut build, &chain, cylinders, head_skew, cylinder_skew, &band_place)?;
        }
        Order::Pattern => {
            let (pattern, place) = find_pattern(layout, zone, at)?;
            let runs = pattern_runs(pattern, &density, heads, &place)?;
            if !cylinders.is_multiple_of(pattern.cylinders) {
                return Err(ProfileError::new(
                    format!("{at}.last_cylinder"),
                    format!("{cylinders} cylinders are no multiple of the pattern's {}", pattern.cylinders),
                    "end the zone with a whole pattern, and give the rest a zone and pattern of its own",
                ));
            }
            let skew = pattern.skew.angle().map(|a| Arc::from_parts(a.parts())).ok_or_else(|| {
                ProfileError::new(format!("{place}.skew"), "not a fraction of a revolution", "give a number")
            })?;
            let chain = Chain { runs, ..chain() };
            build.repeat(chain, pattern.cylinders, cylinders / pattern.cylinders, skew);
        }
    }
    Ok(build.sections)
}

fn check_density(spec: &SectorsPerTrack, heads: u16, at: &str) -> Result<(), ProfileError> {
    let place = format!("{at}.sectors_per_track");
    let one = |n: u32| {
        if (1..=SECTORS_PER_TRACK_MAX).contains(&n) {
            Ok(())
        } else {
            Err(ProfileError::new(
                place.clone(),
                format!("{n} sectors on a track"),
                format!("give 1 to {SECTORS_PER_TRACK_MAX}"),
            ))
        }
    };
    match spec {
        SectorsPerTrack::Same(n) => one(*n),
        SectorsPerTrack::ByHead(list) if list.len() == usize::from(heads) => {
            list.iter().copied().try_for_each(one)
        }
        SectorsPerTrack::ByHead(list) => Err(ProfileError::new(
            place,
            format!("{} numbers for {heads} heads", list.len()),
            "give one number, or one a head",
        )),
    }
}

fn find_pattern<'a>(
    layout: &'a LayoutSpec,
    zone: &Zone,
    at: &str,
) -> Result<(&'a Pattern, String), ProfileError> {
    let missing = |problem: String| {
        ProfileError::new(format!("{at}.pattern"), problem, "name one of the [[layout.pattern]] tables")
    };
    let name = zone.pattern.as_deref().ok_or_else(|| missing("no pattern named".into()))?;
    let index = layout
        .patterns
        .iter()
        .position(|p| p.name == name)
        .ok_or_else(|| missing(format!("no pattern is named {name:?}")))?;
    Ok((&layout.patterns[index], format!("layout.pattern[{index}]")))
}

fn pattern_runs(
    pattern: &Pattern,
    density: &Density<'_>,
    heads: u16,
    at: &str,
) -> Result<Vec<TrackRun>, ProfileError> {
    if pattern.cylinders == 0 || pattern.runs.is_empty() {
        return Err(ProfileError::new(at, "an empty pattern", "give it cylinders and runs"));
    }
    let mut runs: Vec<TrackRun> = Vec::new();
    for (i, run) in pattern.runs.iter().enumerate() {
        let place = format!("{at}.runs[{i}]");
        let error = |problem: String, mend: &str| ProfileError::new(place.clone(), problem, mend);
        if run.head >= heads {
            return Err(error(format!("head {} of {heads}", run.head), "heads count from 0"));
        }
        let fits = run.tracks > 0
            && if run.outward {
                run.cylinder < pattern.cylinders && run.tracks <= run.cylinder + 1
            } else {
                run.cylinder.checked_add(run.tracks).is_some_and(|end| end <= pattern.cylinders)
            };
        if !fits {
            return Err(error(
                format!("{} tracks from cylinder {} leave the pattern", run.tracks, run.cylinder),
                "a run holds at least a track and stays inside the pattern's cylinders",
            ));
        }
        let sectors = run.sectors_per_track.unwrap_or_else(|| density.on(run.head));
        check_density(&SectorsPerTrack::Same(sectors), heads, &place)?;
        let arc = |revolutions: &Revolutions| revolutions.angle().map(|a| Arc::from_parts(a.parts()));
        let (Some(angle), Some(skew)) = (arc(&run.offset), arc(&run.skew)) else {
            return Err(error("offset or skew is no fraction of a revolution".into(), "give numbers"));
        };
        let last = runs.last();
        let new = TrackRun {
            head: run.head,
            cylinder: run.cylinder,
            shift: 0,
            outward: run.outward,
            first_track: last.map_or(0, |r| r.first_track + r.tracks),
            tracks: run.tracks,
            first_place: last.map_or(0, |r| r.first_place + u64::from(r.tracks) * u64::from(r.sectors)),
            sectors,
            angle,
            skew,
        };
        let (low, high) = new.span();
        if runs.iter().any(|r| r.head == new.head && r.span().0 <= high && low <= r.span().1) {
            return Err(error(
                "the run lies over another of the same head".into(),
                "give every track of the pattern to one run",
            ));
        }
        runs.push(new);
    }
    Ok(runs)
}

/// The heads of a zone in LBN order, each with the shift of its surface in cylinders.
struct Surfaces(Vec<(u16, u32)>);

impl Surfaces {
    fn new(zone: &Zone, order: Order, heads: u16, at: &str) -> Result<Self, ProfileError> {
        let error = |field: &str, problem: String, mend: &str| {
            Err(ProfileError::new(format!("{at}.{field}"), problem, mend.to_owned()))
        };
        if order == Order::Pattern && !(zone.surfaces.is_empty() && zone.surface_offsets.is_empty()) {
            let problem = "surfaces of a zone with a pattern".to_owned();
            return error("surfaces", problem, "let the runs of the pattern name their heads");
        }
        let list: Vec<u16> =
            if zone.surfaces.is_empty() { (0..heads).collect() } else { zone.surfaces.clone() };
        for (i, &head) in list.iter().enumerate() {
            if head >= heads {
                return error(
                    &format!("surfaces[{i}]"),
                    format!("head {head} of {heads}"),
                    "heads count from 0",
                );
            }
            if list.iter().take(i).any(|&before| before == head) {
                let problem = format!("head {head} is listed twice");
                return error(&format!("surfaces[{i}]"), problem, "list every surface once");
            }
        }
        let shifts = &zone.surface_offsets;
        if !shifts.is_empty() && shifts.len() != list.len() {
            let problem = format!("{} numbers for {} surfaces", shifts.len(), list.len());
            return error("surface_offsets", problem, "give one number for each surface of the zone");
        }
        if let Some(shift) = shifts.iter().find(|&&shift| shift > CYLINDERS_MAX) {
            let problem = format!("a surface shifted by {shift} cylinders");
            return error("surface_offsets", problem, "give fewer cylinders than the drive has");
        }
        let shifts = shifts.iter().copied().chain(core::iter::repeat(0));
        Ok(Self(list.into_iter().zip(shifts).collect()))
    }

    fn in_order(&self, reversed: bool) -> impl Iterator<Item = (u16, u32)> {
        let n = self.0.len();
        (0..n).filter_map(move |i| self.0.get(if reversed { n - 1 - i } else { i }).copied())
    }
}

/// The parameters of a layout in bands: see [`Order::Bands`].
struct Bands {
    width: u32,
    tracks: Course,
    surfaces: Course,
}

impl Bands {
    fn build<'a>(
        &self,
        build: &mut Builder,
        chain: &impl Fn() -> Chain<'a>,
        cylinders: u32,
        head_skew: Arc,
        band_skew: Arc,
        place: &str,
    ) -> Result<(), ProfileError> {
        if self.width == 0 {
            return Err(ProfileError::new(
                place,
                "a band of no cylinders",
                "give how many tracks lie side by side before the head changes",
            ));
        }
        let alternating = self.tracks == Course::Alternating;
        let band = |chain: Chain<'a>, first: u32, width: u32, reversed: bool| {
            chain.band(first, width, reversed, head_skew, alternating)
        };
        let (bands, rest) = (cylinders / self.width, cylinders % self.width);
        // Whether the smaller band at the zone's end has the surfaces in reverse order.
        let reversed = match self.surfaces {
            Course::Forward => {
                if bands >= 1 {
                    build.section(band(chain(), 0, self.width, false), self.width, bands, band_skew);
                }
                false
            }
            Course::Alternating => {
                if bands >= 2 {
                    let pair = band(chain(), 0, self.width, false).step(band_skew);
                    let pair = band(pair, self.width, self.width, true);
                    build.section(pair, 2 * self.width, bands / 2, band_skew);
                }
                let odd = bands % 2 == 1;
                if odd {
                    build.section(band(chain(), 0, self.width, false), self.width, 1, band_skew);
                }
                odd
            }
        };
        if rest > 0 {
            build.section(band(chain(), 0, rest, reversed), rest, 1, band_skew);
        }
        Ok(())
    }
}

/// Consecutive runs of tracks under construction. The angle of each track is that of the track before it plus a skew.
struct Chain<'a> {
    density: Density<'a>,
    track_skew: Arc,
    surfaces: &'a Surfaces,
    runs: Vec<TrackRun>,
    /// The angle of the next track.
    angle: Arc,
}

impl<'a> Chain<'a> {
    fn new(density: Density<'a>, track_skew: Arc, surfaces: &'a Surfaces) -> Self {
        Self { density, track_skew, surfaces, runs: Vec::new(), angle: Arc::ZERO }
    }

    fn push(&mut self, (head, shift): (u16, u32), cylinder: u32, tracks: u32, outward: bool) {
        let last = self.runs.last();
        self.runs.push(TrackRun {
            head,
            cylinder,
            shift,
            outward,
            first_track: last.map_or(0, |r| r.first_track + r.tracks),
            tracks,
            first_place: last.map_or(0, |r| r.first_place + u64::from(r.tracks) * u64::from(r.sectors)),
            sectors: self.density.on(head),
            angle: self.angle,
            skew: self.track_skew,
        });
        self.angle = wrap(self.angle, self.track_skew, u64::from(tracks) - 1);
    }

    /// Appends the tracks of one cylinder. Afterwards `angle` is that of the last track.
    fn cylinder(mut self, cylinder: u32, reversed: bool) -> Self {
        for (i, surface) in self.surfaces.in_order(reversed).enumerate() {
            if i > 0 {
                let skew = self.track_skew;
                self = self.step(skew);
            }
            self.push(surface, cylinder, 1, false);
        }
        self
    }

    /// Appends one band of `width` cylinders, surface by surface. Afterwards `angle` is that of the last track.
    fn band(mut self, first: u32, width: u32, reversed: bool, head_skew: Arc, alternating: bool) -> Self {
        for (i, surface) in self.surfaces.in_order(reversed).enumerate() {
            if i > 0 {
                self = self.step(head_skew);
            }
            let outward = alternating && i % 2 == 1;
            self.push(surface, if outward { first + width - 1 } else { first }, width, outward);
        }
        self
    }

    fn step(mut self, skew: Arc) -> Self {
        self.angle = wrap(self.angle, skew, 1);
        self
    }
}

/// Returns `angle + times * skew`, modulo a revolution.
fn wrap(angle: Arc, skew: Arc, times: u64) -> Arc {
    Arc::from_parts((angle.parts() + skew.parts() * times) % FULL_REVOLUTION)
}

struct Builder {
    sections: Vec<Section>,
    cylinder: u32,
    angle: Arc,
}

impl Builder {
    /// Appends a section of `repetitions` of a chain. Each repetition begins at the angle `skew` after that of the last track
    /// of the one before.
    fn section(&mut self, chain: Chain<'_>, cylinders: u32, repetitions: u32, skew: Arc) {
        let skew = wrap(chain.angle, skew, 1);
        self.repeat(chain, cylinders, repetitions, skew);
    }

    /// Appends a section of `repetitions` of a chain. Each repetition begins at the angle `skew` after the start of the one
    /// before.
    fn repeat(&mut self, chain: Chain<'_>, cylinders: u32, repetitions: u32, skew: Arc) {
        let Some(last_run) = chain.runs.last() else { return };
        if repetitions == 0 {
            return;
        }
        let same = |value: fn(&TrackRun) -> u32| {
            let first = chain.runs.first().map_or(0, value);
            if chain.runs.iter().all(|r| value(r) == first) { first } else { 0 }
        };
        let previous = self.sections.last();
        let section = Section {
            first_cylinder: self.cylinder,
            cylinders,
            repetitions,
            first_track: previous.map_or(0, |s| s.first_track + s.track_count()),
            tracks: last_run.first_track + last_run.tracks,
            first_place: previous.map_or(0, |s| s.first_place + s.place_count()),
            places: last_run.first_place + u64::from(last_run.tracks) * u64::from(last_run.sectors),
            same_sectors: same(|r| r.sectors),
            same_tracks: same(|r| r.tracks),
            angle: self.angle,
            skew,
            by_cylinder: RunIndex::new(&chain.runs, cylinders),
            runs: chain.runs,
        };
        self.cylinder += cylinders * repetitions;
        self.angle = wrap(self.angle, skew, u64::from(repetitions));
        self.sections.push(section);
    }
}
