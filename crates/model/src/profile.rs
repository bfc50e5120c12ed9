//! The profile file: all knowledge of a drive, as plain data.
//!
//! Times are milliseconds, skews and offsets are fractions of a revolution (a number, or a text such as
//! `"63/334"`), capacities are sectors. Every field is checked when the file is read; a mistake names its place.

mod firmware;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
pub use firmware::{Cache, ExtraWriteDisconnect, Firmware, Overheads, QueueOrder, ReadAhead, WriteBack};
use serde::{Deserialize, Serialize};

/// The version of the format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// A drive profile: the content of one TOML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the format, [`FORMAT_VERSION`].
    pub format: u32,
    /// Short name, as given on a command line: lower case, digits and hyphens.
    pub name: String,
    /// The drive's name in full.
    pub title: String,
    /// Whether any part of the profile is assumed rather than measured on the drive that it names.
    #[serde(default)]
    pub synthetic: bool,
    /// The origin of the numbers: papers, product manuals, measurements.
    pub sources: Vec<String>,
    /// Bytes in a sector.
    #[serde(default = "default_sector_bytes")]
    pub sector_bytes: u32,
    /// Bytes in a sector of the medium, if the drive offers smaller ones ("512e"): before a write of partial sectors of
    /// the medium the drive reads them, which costs a revolution. LBN 0 begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector_bytes: Option<u32>,
    /// Revolutions a minute.
    pub rpm: u32,
    /// Cylinders, including those without LBNs.
    pub cylinders: u32,
    /// Heads, one a surface.
    pub heads: u16,
    /// Times of the arm other than the seek itself.
    pub mechanics: Mechanics,
    /// Seek time by distance.
    pub seek: Seek,
    /// The layout of the LBNs.
    pub layout: LayoutSpec,
    /// The drive's electronics, needed only to simulate it from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
}

fn default_sector_bytes() -> u32 {
    512
}

/// Times of the arm other than the seek itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanics {
    /// Time from one head to another on the same cylinder; a seek and a head switch overlap.
    pub head_switch_ms: f64,
    /// The least time of a move by one cylinder that also changes the head, if it is longer than either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_switch_ms: Option<f64>,
    /// Added to every move that ends in a write. Negative in some of DiskSim's files.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// The spread of seek times: `[cylinders, ms]`, the standard deviation of the times around the curve, in ascending
    /// distance. Empty if it was not measured. No model draws from it: it shows the accuracy of the curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seek_spread_ms: Vec<(u32, f64)>,
    /// Whether a read may begin at any of its sectors on the track, the first that passes.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// Whether a write may begin at any of its sectors on the track, the first that passes.
    #[serde(default)]
    pub zero_latency_write: bool,
}

/// Seek time by distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Seek {
    /// Measured points `[cylinders, ms]`, in ascending distance. Between two the time is linear, before the first it
    /// rises from zero, after the last the last segment continues.
    Table {
        /// The points.
        points: Vec<(u32, f64)>,
    },
    /// Ruemmler and Wilkes' two functions through three points, as ATC'03 Table 1 gives them: `a + b sqrt(d)`
    /// from one cylinder to the crossover, `c + e d` from there through the far point.
    TwoPiece {
        /// Time of a seek over one cylinder.
        one_ms: f64,
        /// The distance and time at which the functions meet.
        crossover: (u32, f64),
        /// A larger distance, and its time.
        far: (u32, f64),
    },
    /// The same two functions by their coefficients: below `crossover` `sqrt[0] + sqrt[1] sqrt(d)`, from there on
    /// `linear[0] + linear[1] d`; the first distances may be listed.
    SqrtLinear {
        /// The first distance of the linear function.
        crossover: u32,
        /// Constant and factor of the square root, ms.
        sqrt: (f64, f64),
        /// Constant and factor of the line, ms.
        linear: (f64, f64),
        /// Times for 1, 2, ... cylinders, instead of the functions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_ms: Vec<f64>,
        /// The shortest seek.
        #[serde(default)]
        least_ms: f64,
    },
}

/// A fraction of a revolution: a number, or an exact fraction written as text, `"63/334"`, followed by a drift if the
/// drive's skew is near a fraction: `"1/16-0.000008"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Revolutions {
    /// A decimal fraction.
    Decimal(f64),
    /// `"numerator/denominator"`, both whole, and perhaps a signed decimal fraction to add.
    Fraction(String),
}

impl Default for Revolutions {
    fn default() -> Self {
        Self::Decimal(0.0)
    }
}

impl Revolutions {
    /// Returns `sectors` out of `per_track`.
    pub fn of_sectors(sectors: i64, per_track: u32) -> Self {
        if sectors == 0 { Self::default() } else { Self::Fraction(format!("{sectors}/{per_track}")) }
    }

    /// Returns whether this is no rotation at all.
    pub fn is_zero(&self) -> bool {
        self.angle() == Some(units::Angle::ZERO)
    }

    /// Returns the angle, without whole revolutions; `None` if this is not a finite number or not a fraction.
    pub fn angle(&self) -> Option<units::Angle> {
        match self {
            Self::Decimal(revolutions) => units::Angle::from_revolutions(*revolutions),
            Self::Fraction(text) => {
                let (p, q) = text.split_once('/')?;
                let (q, drift) = match q.find(['+', '-']) {
                    Some(sign) => (q.get(..sign)?, q.get(sign..)?.trim().parse().ok()?),
                    None => (q, 0.0),
                };
                let (p, q): (i64, i64) = (p.trim().parse().ok()?, q.trim().parse().ok()?);
                if q <= 0 {
                    return None;
                }
                // The nearest part to the exact quotient.
                let revolution = i128::from(units::FULL_REVOLUTION);
                let parts =
                    (i128::from(p.rem_euclid(q)) * revolution * 2 + i128::from(q)) / (2 * i128::from(q));
                let drift = units::Angle::from_revolutions(drift)?;
                Some(units::Angle::from_parts(parts as u64 + drift.parts()))
            }
        }
    }
}

/// The layout of the LBNs: zones in LBN order, mostly from the outside in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutSpec {
    /// The order of LBNs over the tracks of a zone.
    pub order: Order,
    /// Track patterns that zones with the order `pattern` refer to by name.
    #[serde(default, rename = "pattern", skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<Pattern>,
    /// The zones, in LBN order. Zones may share cylinders, and follow each other in any direction, if each track
    /// belongs to one of them: some drives fill the tracks of one density on one surface after the other.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// Sectors that were moved elsewhere one by one.
    #[serde(default, rename = "remap", skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<Remap>,
}

/// The order of LBNs over the tracks of a zone. Sectors ascend along every track, cylinders from zone to zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// All tracks of a cylinder by ascending head, then the next cylinder.
    Cylinder,
    /// Every other cylinder of a zone, counted from the zone's first, by descending head.
    CylinderSerpentine,
    /// The same, counted from the drive's first cylinder.
    CylinderSerpentineAbsolute,
    /// Bands of `band_cylinders` cylinders: a band's tracks on one surface inward, on the next outward, and so on;
    /// every other band has the heads in descending order. The usual layout of drives since about 2000.
    SurfaceSerpentine {
        /// Cylinders in a band; the last band of a zone may be smaller.
        band_cylinders: u32,
    },
    /// Bands of tracks on one surface after the other, with independent directions: `surface-serpentine` is alternating
    /// in both. A band as wide as its zone changes the surface at the zone's end only.
    Bands {
        /// Cylinders in a band; the last band of a zone may be smaller.
        band_cylinders: u32,
        /// The direction of the tracks on each surface of a band: all inward, or every other one outward.
        tracks: Course,
        /// The order of the surfaces in each band: always the same, or reversed in every other band.
        surfaces: Course,
    },
    /// Each zone names its [`Pattern`].
    Pattern,
}

/// Whether a direction is the same every time, or alternates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// The same way every time.
    Forward,
    /// Forward and backward by turns.
    Alternating,
}

/// A piece of layout that repeats through a zone: runs of tracks on one surface each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// The name that zones use.
    pub name: String,
    /// The cylinders of one repetition.
    pub cylinders: u32,
    /// Rotation from the first track of one repetition to the first of the next.
    pub skew: Revolutions,
    /// The runs, in LBN order.
    pub runs: Vec<Run>,
}

/// Consecutive tracks on one surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The surface.
    pub head: u16,
    /// The cylinder of the first track, relative to the repetition.
    pub cylinder: u32,
    /// The number of tracks.
    pub tracks: u32,
    /// Whether the run goes to lower cylinders.
    #[serde(default)]
    pub outward: bool,
    /// The angle of sector 0 of the first track, relative to the repetition.
    #[serde(default)]
    pub offset: Revolutions,
    /// The rotation from each track's sector 0 to that of the next.
    #[serde(default)]
    pub skew: Revolutions,
    /// Sectors a track, if they differ from the zone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_per_track: Option<u32>,
}

/// Sectors per track: the same everywhere in the zone, or one number a head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SectorsPerTrack {
    /// One number for all surfaces.
    Same(u32),
    /// One number for each head, from head 0.
    ByHead(Vec<u32>),
}

/// Cylinders with one recording density and one skew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder. Cylinders outside of all zones have no LBN.
    pub first_cylinder: u32,
    /// Last cylinder, included.
    pub last_cylinder: u32,
    /// Sectors on each track, spares and bad ones included.
    pub sectors_per_track: SectorsPerTrack,
    /// The pattern, with the order `pattern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The order of this zone, if it differs from the layout's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The surfaces of the zone, by head, in LBN order; all by ascending head if not given. Not with the order
    /// `pattern`, whose runs name their heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surfaces: Vec<u16>,
    /// The cylinders by which each of the surfaces is shifted inward: heads that are not aligned reach their n-th track
    /// at different positions of the arm. One number for each of the zone's surfaces, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surface_offsets: Vec<u32>,
    /// The angle of sector 0 of the zone's first track.
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub offset: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next: on the same cylinder in the cylinder orders; on
    /// the same surface in `surface-serpentine`.
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub track_skew: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next, if that is on the next cylinder (cylinder orders) or in the
    /// next band.
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub cylinder_skew: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next, if that is on another surface of the same band
    /// (`surface-serpentine`); the track
    /// skew if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_skew: Option<Revolutions>,
    /// Sectors at the zone's start without LBN (the drive keeps its own data there).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// The spare sectors.
    #[serde(default)]
    pub sparing: Sparing,
    /// Bad sectors that the LBNs skip, ascending, counted in the zone from its first sector, reserved ones included.
    /// With sparing by whole tracks they are track numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Further slips as runs: `[first, count]`, both in the unit of `slips`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slip_runs: Vec<(u64, u64)>,
    /// Tracks that the LBNs skip, as runs: `[first, count]`, counted in the zone in LBN order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slip_tracks: Vec<(u32, u32)>,
    /// Bad sectors whose LBN was moved: `[bad, replacement]`, both counted like slips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<(u64, u64)>,
}

impl Zone {
    /// Returns a zone of whole cylinders with one density, no skew, and no spare or reserved sectors.
    ///
    /// ```
    /// use freeblock_model::profile::{SectorsPerTrack, Revolutions, Zone};
    /// let zone = Zone { track_skew: Revolutions::of_sectors(7, 50), ..Zone::plain(0, 9, SectorsPerTrack::Same(50)) };
    /// assert!(zone.slips.is_empty());
    /// ```
    pub fn plain(first_cylinder: u32, last_cylinder: u32, sectors_per_track: SectorsPerTrack) -> Self {
        Self {
            first_cylinder,
            last_cylinder,
            sectors_per_track,
            pattern: None,
            order: None,
            surfaces: Vec::new(),
            surface_offsets: Vec::new(),
            offset: Revolutions::default(),
            track_skew: Revolutions::default(),
            cylinder_skew: Revolutions::default(),
            head_skew: None,
            reserved: 0,
            sparing: Sparing::default(),
            slips: Vec::new(),
            slip_runs: Vec::new(),
            slip_tracks: Vec::new(),
            defects: Vec::new(),
        }
    }

    /// Returns the number of sectors, or whole tracks, that the LBNs skip.
    pub fn slip_count(&self) -> u64 {
        let runs = self.slip_runs.iter().map(|run| run.1);
        let tracks = self.slip_tracks.iter().map(|run| u64::from(run.1));
        runs.chain(tracks).fold(self.slips.len() as u64, u64::saturating_add)
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The spare sectors of a zone.
///
/// A zone is cut into regions (a track, a cylinder, some cylinders, all of it). Each reserves `spares` sectors at its
/// end or front, and a slip either uses one of them or pushes all that follows one further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sparing {
    /// The region.
    #[serde(default)]
    pub per: SparingRegion,
    /// Cylinders in a region, with `per = "range"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinders: Option<u32>,
    /// Spare sectors in each region; whole tracks with `per = "zone-tracks"`.
    #[serde(default)]
    pub spares: u64,
    /// Whether the spares are at the front of the region rather than at its end.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub at_front: bool,
    /// Whether a slip pushes all later LBNs of the zone, instead of using up one of its region's spares.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub slip_to_end: bool,
}

/// The unit that has spares of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparingRegion {
    /// The whole zone.
    #[default]
    Zone,
    /// The whole zone, with whole tracks as spares and slips.
    ZoneTracks,
    /// Each run of some cylinders.
    Range,
    /// Each cylinder.
    Cylinder,
    /// Each track.
    Track,
}

/// LBNs that were moved elsewhere on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remap {
    /// The first LBN moved.
    pub lbn: u64,
    /// The number of LBNs.
    pub sectors: u32,
    /// The cylinder of the first one now.
    pub cylinder: u32,
    /// The head of the first one now.
    pub head: u16,
    /// The sector of the first one now, on that track. The others follow it.
    pub sector: u32,
}
