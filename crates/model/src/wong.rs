//! Random drives with the layouts of the twenty drives that Henry Wong measured.
//!
//! Source: Henry Wong, "Discovering Hard Disk Physical Geometry through Microbenchmarking", September 2019, gives the
//! speed, the sectors on the outermost and innermost track, the tracks, surfaces, skew, longest seek, order of tracks and
//! oddities of each drive. Zones, densities by head and defects are drawn at random, because no such tables are published.

use crate::profile::{
    Cache, Course, FORMAT_VERSION, Firmware, LayoutSpec, Mechanics, Order, Overheads, Pattern, Profile,
    ReadAhead, Revolutions, Run, SectorsPerTrack, Seek, Sparing, SparingRegion, Zone,
};
use crate::random_profile::Draw;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use units::Float as _;

/// The order of the tracks of a measured drive. Wong names an order by letters: F is forward, A alternating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracks {
    /// F: cylinder by cylinder, by ascending head.
    F,
    /// A: cylinder by cylinder, with the heads in reverse on every other cylinder.
    A,
    /// F or A: the measurement does not distinguish them.
    ForA,
    /// Two letters: bands of this number of tracks, with the directions of tracks and of surfaces.
    Bands(u32, Course, Course),
    /// AF or AA, in bands of this number of tracks: the measurement does not distinguish them.
    AForAA(u32),
    /// Zone by zone, and in a zone one surface after the other. Every surface has zone boundaries of its own.
    ByZone,
    /// F*: the tracks of all surfaces by falling density.
    ByDensity,
}

/// A property of a measured drive that is unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    None,
    /// Skews of 93 to 100 degrees, different by zone.
    SkewByZone,
    /// A zone's last track and the next zone's first track together have as many LBNs as one full track of the zone.
    PartialLastTrack,
    /// One sector of each track has no LBN, and each surface has a skew of its own.
    EmptySectors,
    /// This number of consecutive tracks is slipped.
    SlippedTracks(u32),
    /// The surfaces are not aligned, and on some tracks nearly all sectors are slipped.
    Misaligned,
}

/// A drive that Wong measured: its name, and the numbers from which random profiles like it are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The name for a command line.
    pub name: &'static str,
    /// The maker and the model.
    pub title: &'static str,
    /// The advertised capacity in GB.
    pub gigabytes: f64,
    rpm: u32,
    sector_bytes: u32,
    outer: u32,
    inner: u32,
    tracks: u32,
    surfaces: u16,
    skew: &'static str,
    /// The skew from a track to one on another surface, as text; empty if it is equal to `skew`.
    head_skew: &'static str,
    longest_seek_ms: f64,
    order: Tracks,
    oddity: Oddity,
    /// Whether densities differ by head, as on drives since about 2005.
    by_head: bool,
}

/// The size of a generated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The size of the measured drive.
    Full,
    /// A few hundred short tracks in the order of the measured drive, so that a test can visit every sector.
    Tiny,
}

const F: Course = Course::Forward;
const A: Course = Course::Alternating;

macro_rules! drive {
    ($name:literal, $title:literal, $gb:literal GB, $rpm:literal rpm, $bytes:literal, $outer:literal - $inner:literal,
     $tracks:literal / $surfaces:literal, $skew:literal, $head:literal, $seek:literal ms, $order:expr, $oddity:expr, $by_head:literal) => {
        Measured {
            name: $name,
            title: $title,
            gigabytes: $gb,
            rpm: $rpm,
            sector_bytes: $bytes,
            outer: $outer,
            inner: $inner,
            tracks: $tracks,
            surfaces: $surfaces,
            skew: $skew,
            head_skew: $head,
            longest_seek_ms: $seek,
            order: $order,
            oddity: $oddity,
            by_head: $by_head,
        }
    };
}

/// The measured drives, the oldest first.
#[rustfmt::skip]
pub const DRIVES: [Measured; 20] = [
    drive!("st-157a", "Seagate ST-157A", 0.0447 GB, 3602 rpm, 512, 26 - 26, 3_360 / 6, "", "", 63.0 ms, Tracks::ForA, Oddity::None, false),
    drive!("maxtor-7405av", "Maxtor 7405AV", 0.405 GB, 3548 rpm, 512, 123 - 66, 7_998 / 3, "93/360", "", 30.5 ms, Tracks::AForAA(8), Oddity::SkewByZone, false),
    drive!("st51270a", "Seagate ST51270A", 1.28 GB, 5371 rpm, 512, 145 - 76, 21_599 / 4, "129/360", "", 22.2 ms, Tracks::F, Oddity::None, false),
    drive!("st39140a", "Seagate ST39140A", 9.1 GB, 7209 rpm, 512, 297 - 169, 72_048 / 8, "85/360", "", 18.3 ms, Tracks::ForA, Oddity::None, false),
    drive!("sv0432d", "Samsung SV0432D", 4.3 GB, 5399 rpm, 512, 403 - 231, 24_460 / 2, "7/42", "", 19.4 ms, Tracks::F, Oddity::PartialLastTrack, false),
    drive!("st650211cf", "Seagate ST1 ST650211CF", 5.0 GB, 3606 rpm, 512, 335 - 183, 37_782 / 2, "17/56", "", 26.3 ms, Tracks::Bands(32, A, F), Oddity::EmptySectors, false),
    drive!("mk8034gsx", "Toshiba MK8034GSX", 80.0 GB, 5400 rpm, 512, 891 - 429, 219_635 / 3, "19/132", "", 19.1 ms, Tracks::Bands(115, A, F), Oddity::None, false),
    drive!("deskstar-7k80", "Hitachi Deskstar 7K80", 82.0 GB, 7201 rpm, 512, 1170 - 573, 176_275 / 2, "3/16-0.0004", "", 25.7 ms, Tracks::A, Oddity::None, true),
    drive!("wd2500ks", "WD Caviar SE16 WD2500KS", 250.0 GB, 7204 rpm, 512, 1116 - 630, 520_449 / 6, "2/18", "", 17.4 ms, Tracks::Bands(64, A, F), Oddity::None, true),
    drive!("st3160811as", "Seagate 7200.9 ST3160811AS", 160.0 GB, 7203 rpm, 512, 1452 - 638, 281_786 / 2, "557/3600", "", 24.1 ms, Tracks::Bands(128, F, A), Oddity::None, true),
    drive!("st3320613as", "Seagate 7200.11 ST3320613AS", 320.0 GB, 7204 rpm, 512, 2464 - 1200, 329_853 / 2, "1/6+0.004", "", 19.9 ms, Tracks::Bands(160, A, A), Oddity::None, true),
    drive!("wd3000bkhg", "WD S25 WD3000BKHG", 300.0 GB, 10_000 rpm, 512, 1926 - 1117, 384_085 / 3, "1/15+0.0009", "", 8.1 ms, Tracks::ByDensity, Oddity::None, true),
    drive!("st3450857ss", "Seagate Cheetah 15K.7 ST3450857SS", 450.0 GB, 15_048 rpm, 512, 1800 - 1028, 595_848 / 6, "1/15-0.0006", "", 7.3 ms, Tracks::Bands(96, A, A), Oddity::SlippedTracks(27), true),
    drive!("hd103sj", "Samsung SpinPoint F3 HD103SJ", 1_000.0 GB, 7247 rpm, 512, 2937 - 1546, 854_135 / 4, "1/5", "", 17.3 ms, Tracks::ByZone, Oddity::None, true),
    drive!("deskstar-7k1000c", "Hitachi 7K1000.C", 1_000.0 GB, 7200 rpm, 512, 2673 - 1350, 914_873 / 4, "4/27", "", 15.2 ms, Tracks::Bands(256, A, F), Oddity::SlippedTracks(40), true),
    drive!("dt01aca300-1", "Toshiba DT01ACA300 #1", 3_000.0 GB, 7219 rpm, 4096, 473 - 211, 2_075_497 / 6, "3/29", "3/29+0.5", 21.0 ms, Tracks::Bands(140, F, F), Oddity::Misaligned, true),
    drive!("dt01aca300-2", "Toshiba DT01ACA300 #2", 3_000.0 GB, 7200 rpm, 4096, 464 - 204, 2_098_859 / 6, "3/29", "3/29+0.5", 21.1 ms, Tracks::Bands(140, F, F), Oddity::Misaligned, true),
    drive!("dt01aca300-3", "Toshiba DT01ACA300 #3", 3_000.0 GB, 7200 rpm, 4096, 485 - 207, 2_070_465 / 6, "3/29", "3/29+0.5", 20.9 ms, Tracks::Bands(140, F, F), Oddity::Misaligned, true),
    drive!("dt01aca300-4", "Toshiba DT01ACA300 #4", 3_000.0 GB, 7200 rpm, 4096, 464 - 216, 2_076_586 / 6, "3/29", "3/29+0.5", 20.9 ms, Tracks::Bands(140, F, F), Oddity::Misaligned, true),
    drive!("hdwe150", "Toshiba X300 HDWE150", 5_000.0 GB, 7200 rpm, 4096, 500 - 229, 3_279_583 / 10, "1/16-0.000008", "9/16", 14.6 ms, Tracks::Bands(315, A, F), Oddity::SlippedTracks(263), true),
];

impl Measured {
    /// Draws a profile with the numbers and the oddity of this drive; a seed always gives the same profile.
    ///
    /// ```
    /// use freeblock_model::{DriveModel, wong};
    /// let profile = wong::DRIVES[11].draw(1, wong::Scale::Full);
    /// assert_eq!(profile.name, "wd3000bkhg-1");
    /// assert!(DriveModel::from_profile(&profile)?.layout().track_count() > 300_000);
    /// # Ok::<(), freeblock_model::ProfileError>(())
    /// ```
    pub fn draw(&self, seed: u64, scale: Scale) -> Profile {
        let mut draw = Draw::new(seed);
        let mut this = *self;
        if scale == Scale::Tiny {
            // Bands, zones and slips shrink with the number of tracks, so that each oddity still occurs.
            this.tracks = draw.range(150, 400) as u32;
            let shrink = |n: u32| (n / 30).max(4);
            (this.outer, this.inner) = (shrink(self.outer).min(40), shrink(self.inner).min(24));
        }
        let (order, zones, patterns, cylinders) = Plan::new(&this, scale, &mut draw).lay_out(&mut draw);
        Profile {
            format: FORMAT_VERSION,
            name: format!("{}-{seed}", self.name),
            title: format!("{}, drawn with seed {seed}", self.title),
            synthetic: true,
            sources: vec![
                "Henry Wong, Discovering Hard Disk Physical Geometry through Microbenchmarking, 2019: speed, densities, tracks, skew, order of tracks, longest seek".into(),
                format!("zones, densities by head and defects: made up from seed {seed}"),
            ],
            sector_bytes: self.sector_bytes,
            physical_sector_bytes: None,
            rpm: self.rpm,
            cylinders,
            heads: self.surfaces,
            mechanics: Mechanics {
                head_switch_ms: 0.7,
                cylinder_switch_ms: None,
                write_settle_ms: 0.3,
                seek_spread_ms: Vec::new(),
                zero_latency_read: self.by_head,
                zero_latency_write: self.by_head,
            },
            seek: seek(cylinders, self.longest_seek_ms),
            layout: LayoutSpec { order, patterns, zones, remaps: Vec::new() },
            firmware: Some(firmware(self)),
        }
    }
}

/// Returns a seek curve that begins near 0.8 ms, the time to settle, and takes `longest_ms` over all cylinders.
fn seek(cylinders: u32, longest_ms: f64) -> Seek {
    let (far, settle) = (f64::from(cylinders.max(8)), 0.8_f64);
    let crossover = (far / 4.0).floor();
    let there = settle + (longest_ms - settle) * 0.45;
    let slope = (longest_ms - there) / (far - crossover);
    Seek::SqrtLinear {
        crossover: crossover as u32,
        sqrt: (settle, (there - settle) / crossover.sqrt()),
        linear: (there - slope * crossover, slope),
        first_ms: Vec::new(),
        least_ms: 0.0,
    }
}

fn firmware(drive: &Measured) -> Firmware {
    Firmware {
        bulk_sector_ms: if drive.sector_bytes == 4096 { 0.01 } else { 0.004 },
        overheads: Overheads {
            read_hit: (0.12, 0.12),
            read_miss: (0.12, 0.12),
            write_hit: (0.15, 0.15),
            write_miss: (0.15, 0.15),
            ..Overheads::default()
        },
        cache: Cache {
            segments: 16,
            segment_sectors: drive.outer,
            read_ahead: ReadAhead::Track,
            ..Cache::default()
        },
        ..Firmware::default()
    }
}

/// The zones of a drawn drive, before they are arranged in LBN order.
struct Plan<'a> {
    drive: &'a Measured,
    scale: Scale,
    /// The first cylinder of each zone, followed by the number of cylinders.
    bounds: Vec<u32>,
    /// The sectors per track of each zone on the densest surface.
    density: Vec<u32>,
    /// The percentage by which each surface is less dense than the densest.
    less: Vec<u32>,
}

impl<'a> Plan<'a> {
    fn new(drive: &'a Measured, scale: Scale, draw: &mut Draw) -> Self {
        let cylinders = drive.tracks / u32::from(drive.surfaces);
        let count = match (drive.outer == drive.inner, scale) {
            (true, _) => 1,
            (_, Scale::Full) => draw.range(14, 30) as u32,
            (_, Scale::Tiny) => draw.range(2, 4) as u32,
        };
        let mut bounds = vec![0];
        for zone in 1..count {
            let even = u64::from(zone) * u64::from(cylinders) / u64::from(count);
            let aside = u64::from(cylinders / count / 4);
            bounds.push((even + draw.range(0, aside * 2)).saturating_sub(aside).max(1) as u32);
        }
        bounds.push(cylinders);
        bounds.dedup();
        let zones = bounds.len() as u32 - 1;
        let density = (0..zones)
            .map(|zone| drive.outer - (drive.outer - drive.inner) * zone / (zones - 1).max(1))
            .collect();
        let less = (0..drive.surfaces)
            .map(|head| if head == 0 || !drive.by_head { 0 } else { draw.range(0, 12) as u32 })
            .collect();
        Self { drive, scale, bounds, density, less }
    }

    fn sectors(&self, zone: usize, head: u16) -> u32 {
        let full = self.density.get(zone).copied().unwrap_or(1);
        (full - full * self.less.get(usize::from(head)).copied().unwrap_or(0) / 100).max(2)
    }

    fn cylinders_of(&self, zone: usize) -> Option<(u32, u32)> {
        match self.bounds.get(zone..) {
            Some(&[first, end, ..]) => Some((first, end - 1)),
            _ => None,
        }
    }

    /// Returns the order, the zones, the patterns and the number of cylinders of the layout.
    fn lay_out(&self, draw: &mut Draw) -> (Order, Vec<Zone>, Vec<Pattern>, u32) {
        let band = |tracks: u32| if self.scale == Scale::Tiny { draw_band(tracks) } else { tracks };
        let bands = |width, tracks, surfaces| Order::Bands { band_cylinders: band(width), tracks, surfaces };
        let order = match self.drive.order {
            Tracks::F => Order::Cylinder,
            Tracks::A => Order::CylinderSerpentine,
            Tracks::ForA if draw.one_in(2) => Order::Cylinder,
            Tracks::ForA => Order::CylinderSerpentine,
            Tracks::Bands(width, tracks, surfaces) => bands(width, tracks, surfaces),
            Tracks::AForAA(width) if draw.one_in(2) => bands(width, A, F),
            Tracks::AForAA(width) => bands(width, A, A),
            Tracks::ByZone | Tracks::ByDensity => Order::Cylinder,
        };
        let mut patterns = Vec::new();
        let mut zones = match self.drive.order {
            Tracks::ByZone | Tracks::ByDensity => self.surface_by_surface(),
            _ => (0..self.density.len()).filter_map(|zone| self.across_surfaces(zone, draw)).collect(),
        };
        if self.drive.oddity == Oddity::EmptySectors {
            self.skew_by_surface(&mut zones, &mut patterns);
        }
        if self.drive.oddity == Oddity::Misaligned {
            let most = if self.scale == Scale::Tiny { 3 } else { 63 };
            let offsets: Vec<u32> = (0..self.drive.surfaces).map(|_| draw.range(0, most) as u32).collect();
            zones.iter_mut().for_each(|zone| zone.surface_offsets.clone_from(&offsets));
        }
        self.add_slips(&mut zones, draw);
        let shift = zones.iter().flat_map(|zone| &zone.surface_offsets).copied().max().unwrap_or(0);
        let last = zones.iter().map(|zone| zone.last_cylinder).max().unwrap_or(0);
        (order, zones, patterns, last + 1 + shift)
    }

    /// Returns a zone over all surfaces.
    fn across_surfaces(&self, zone: usize, draw: &mut Draw) -> Option<Zone> {
        let (first, last) = self.cylinders_of(zone)?;
        let by_head: Vec<u32> = (0..self.drive.surfaces).map(|head| self.sectors(zone, head)).collect();
        let density = match by_head.first() {
            Some(&sectors) if by_head.iter().all(|&n| n == sectors) => SectorsPerTrack::Same(sectors),
            _ => SectorsPerTrack::ByHead(by_head),
        };
        let skew = match self.drive.oddity {
            Oddity::SkewByZone => Revolutions::Fraction(format!("{}/360", draw.range(93, 100))),
            _ => revolutions(self.drive.skew),
        };
        let mut plain = Zone { track_skew: skew.clone(), ..Zone::plain(first, last, density) };
        plain.cylinder_skew = skew;
        if !self.drive.head_skew.is_empty() {
            plain.head_skew = Some(revolutions(self.drive.head_skew));
            plain.cylinder_skew = revolutions(self.drive.head_skew);
        }
        plain.sparing = match self.drive.oddity {
            Oddity::EmptySectors => Sparing { per: SparingRegion::Track, spares: 1, ..Sparing::default() },
            Oddity::PartialLastTrack => {
                let next = self.density.get(zone + 1).copied();
                Sparing { spares: u64::from(next.unwrap_or(1)), ..Sparing::default() }
            }
            _ => Sparing { spares: draw.range(0, 40), ..Sparing::default() },
        };
        Some(plain)
    }

    /// Returns zones of one surface each, for [`Tracks::ByZone`] or, sorted by falling density, for [`Tracks::ByDensity`].
    fn surface_by_surface(&self) -> Vec<Zone> {
        let cylinders = self.bounds.last().copied().unwrap_or(1);
        let skew = revolutions(self.drive.skew);
        let mut zones = Vec::new();
        for zone in 0..self.density.len() {
            for head in 0..self.drive.surfaces {
                let Some((first, last)) = self.cylinders_of(zone) else { continue };
                // The zones of a less dense surface end further outward.
                let less = u64::from(self.less.get(usize::from(head)).copied().unwrap_or(0));
                let inner = |bound: u32| match bound {
                    bound if bound == cylinders => bound,
                    bound => (u64::from(bound) * (200 - less) / 200) as u32,
                };
                let (first, end) = (inner(first), inner(last + 1));
                if first < end {
                    zones.push(Zone {
                        surfaces: vec![head],
                        track_skew: skew.clone(),
                        cylinder_skew: skew.clone(),
                        ..Zone::plain(first, end - 1, SectorsPerTrack::Same(self.sectors(zone, head)))
                    });
                }
            }
        }
        if self.drive.order == Tracks::ByDensity {
            zones.sort_by_key(|zone| match &zone.sectors_per_track {
                SectorsPerTrack::Same(sectors) => core::cmp::Reverse(*sectors),
                SectorsPerTrack::ByHead(_) => core::cmp::Reverse(0),
            });
        }
        zones
    }

    /// Replaces the order of the zones by patterns of one band, in which each surface has a skew of its own: 17/56 and 18/56.
    fn skew_by_surface(&self, zones: &mut Vec<Zone>, patterns: &mut Vec<Pattern>) {
        let width = match self.drive.order {
            Tracks::Bands(width, ..) if self.scale == Scale::Full => width,
            Tracks::Bands(width, ..) => draw_band(width),
            _ => 1,
        };
        let skew = |head: u16| Revolutions::Fraction(format!("{}/56", 17 + head));
        let run = |head: u16, tracks: u32| {
            let outward = head % 2 == 1;
            let cylinder = if outward { tracks - 1 } else { 0 };
            Run {
                head,
                cylinder,
                tracks,
                outward,
                offset: skew(head),
                skew: skew(head),
                sectors_per_track: None,
            }
        };
        let mut pattern = |tracks: u32| {
            let name = format!("band-{tracks}");
            if patterns.iter().all(|known| known.name != name) {
                let runs = (0..self.drive.surfaces).map(|head| run(head, tracks)).collect();
                patterns.push(Pattern { name: name.clone(), cylinders: tracks, skew: skew(0), runs });
            }
            Some(name)
        };
        // A zone must have a whole number of repetitions of its pattern, so the rest gets a zone and a pattern of its own.
        let mut whole = Vec::new();
        for zone in zones.drain(..) {
            let cylinders = zone.last_cylinder - zone.first_cylinder + 1;
            let rest = cylinders % width;
            let middle = zone.first_cylinder + cylinders - rest;
            let order = Some(Order::Pattern);
            if middle > zone.first_cylinder {
                let last_cylinder = middle - 1;
                whole.push(Zone { last_cylinder, pattern: pattern(width), order, ..zone.clone() });
            }
            if rest > 0 {
                whole.push(Zone { first_cylinder: middle, pattern: pattern(rest), order, ..zone });
            }
        }
        *zones = whole;
    }

    /// Adds slips of single sectors and, depending on the oddity, of whole tracks or of most of one track.
    fn add_slips(&self, zones: &mut [Zone], draw: &mut Draw) {
        for zone in zones.iter_mut() {
            if zone.sparing.per == SparingRegion::Track || self.drive.oddity == Oddity::PartialLastTrack {
                continue;
            }
            let surfaces = if zone.surfaces.is_empty() { self.drive.surfaces } else { 1 };
            let tracks = u64::from(zone.last_cylinder - zone.first_cylinder + 1) * u64::from(surfaces);
            let outermost = match &zone.sectors_per_track {
                SectorsPerTrack::Same(sectors) => u64::from(*sectors),
                SectorsPerTrack::ByHead(list) => list.first().copied().map_or(1, u64::from),
            };
            // Other surfaces are less dense than the first by up to 12%, but have more than half as many sectors.
            let sure = outermost * tracks / 2;
            zone.sparing.slip_to_end = true;
            zone.slips = (0..draw.range(0, 6)).map(|_| draw.range(0, sure.max(1) - 1)).collect();
            zone.slips.sort_unstable();
            zone.slips.dedup();
            match self.drive.oddity {
                Oddity::SlippedTracks(count) if draw.one_in(2) => {
                    let count = u64::from(count).min(tracks / 4) as u32;
                    let first = draw.range(0, tracks - u64::from(count)) as u32;
                    zone.slip_tracks = vec![(first, count)];
                }
                Oddity::Misaligned if draw.one_in(2) => {
                    // 95% of a track, from the third sector of the zone's second track on.
                    zone.slip_runs = vec![(outermost + 2, outermost * 19 / 20)];
                }
                _ => {}
            }
        }
    }
}

fn revolutions(skew: &str) -> Revolutions {
    if skew.is_empty() { Revolutions::default() } else { Revolutions::Fraction(skew.into()) }
}

/// Returns the width of a band on a tiny drive.
fn draw_band(tracks: u32) -> u32 {
    (tracks / 16).clamp(2, 9)
}
