//! The profile of a drive as plain data, in the structure of its TOML file.
//!
//! Times are milliseconds, skews and offsets are fractions of a revolution (a number, or a text such as
//! `"63/334"`), capacities are sectors. [`DriveModel::from_profile`](crate::DriveModel::from_profile) checks the values,
//! and an error names the field.

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
    /// The name for a command line: lower case letters, digits and hyphens.
    pub name: String,
    /// The full name of the drive: maker, model, capacity.
    pub title: String,
    /// Whether any part of the profile is assumed rather than measured on the drive that it names.
    #[serde(default)]
    pub synthetic: bool,
    /// The origin of the numbers: papers, product manuals, measurements.
    pub sources: Vec<String>,
    /// The bytes in a sector, as the host sees it.
    #[serde(default = "default_sector_bytes")]
    pub sector_bytes: u32,
    /// The bytes in a sector of the medium, if the drive offers smaller sectors to the host ("512e"). A write of a part of
    /// such a sector costs a revolution, because the drive reads the sector first. LBN 0 is at the start of a sector of
    /// the medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector_bytes: Option<u32>,
    /// The spindle speed in revolutions per minute.
    pub rpm: u32,
    /// The number of cylinders, including those without LBNs.
    pub cylinders: u32,
    /// The number of heads, one per surface.
    pub heads: u16,
    /// Times of the arm other than the seek itself.
    pub mechanics: Mechanics,
    /// The seek time by distance.
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
    /// The time from one head to another on the same cylinder. A move that changes cylinder and head takes the longer of
    /// seek and head switch.
    pub head_switch_ms: f64,
    /// The least time of a move by one cylinder that also changes the head, if that is longer than both the seek and the
    /// head switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_switch_ms: Option<f64>,
    /// The extra time of every move that ends in a write. Negative in some of DiskSim's files.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// The standard deviation of measured seek times around the curve, as `[cylinders, ms]` in ascending distance. Empty if
    /// the deviation was not measured. No model uses these numbers; they show a reader the accuracy of the curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seek_spread_ms: Vec<(u32, f64)>,
    /// Whether a read begins at whichever of its sectors on a track passes first, instead of the one with the lowest LBN.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// Whether a write begins at whichever of its sectors on a track passes first, instead of the one with the lowest LBN.
    #[serde(default)]
    pub zero_latency_write: bool,
}

/// The seek time as a function of the distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Seek {
    /// Measured points `[cylinders, ms]`, joined by straight lines. The line before the first point begins at zero, and the
    /// line through the last two points continues to the last cylinder.
    Table {
        /// The points, in ascending distance.
        points: Vec<(u32, f64)>,
    },
    /// Ruemmler and Wilkes' two functions, given by three points as in Table 1 of the ATC 2003 paper: `a + b sqrt(d)`
    /// from one cylinder to the crossover, `c + e d` from the crossover through the far point.
    TwoPiece {
        /// The time of a seek over one cylinder.
        one_ms: f64,
        /// The distance in cylinders, and the time in ms, at which the functions meet.
        crossover: (u32, f64),
        /// A distance beyond the crossover, and its time in ms.
        far: (u32, f64),
    },
    /// Ruemmler and Wilkes' two functions, given by their coefficients: `sqrt[0] + sqrt[1] sqrt(d)` below `crossover`,
    /// `linear[0] + linear[1] d` from `crossover` on. The times of the first distances may be listed instead.
    SqrtLinear {
        /// The first distance of the linear function.
        crossover: u32,
        /// The constant and the factor of the square root, ms.
        sqrt: (f64, f64),
        /// The constant and the factor of the line, ms.
        linear: (f64, f64),
        /// The seek times over 1, 2, ... cylinders, used instead of the functions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_ms: Vec<f64>,
        /// The least time of a seek over any distance.
        #[serde(default)]
        least_ms: f64,
    },
}

/// A fraction of a revolution: a number, or a text with an exact fraction such as `"63/334"`. A skew that is only near a
/// fraction has the difference after it: `"1/16-0.000008"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Revolutions {
    /// A decimal fraction.
    Decimal(f64),
    /// `"numerator/denominator"`, two whole numbers, optionally followed by a signed decimal fraction to add.
    Fraction(String),
}

impl Default for Revolutions {
    fn default() -> Self {
        Self::Decimal(0.0)
    }
}

impl Revolutions {
    /// Returns the rotation by `sectors` of a track that has `per_track` sectors.
    pub fn of_sectors(sectors: i64, per_track: u32) -> Self {
        if sectors == 0 { Self::default() } else { Self::Fraction(format!("{sectors}/{per_track}")) }
    }

    /// Returns whether the rotation is zero or a number of whole revolutions.
    pub fn is_zero(&self) -> bool {
        self.angle() == Some(units::Angle::ZERO)
    }

    /// Returns the angle modulo a revolution; `None` if the value is not a finite number or not a valid fraction.
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
                // The exact quotient, rounded to the nearest part of a revolution.
                let revolution = i128::from(units::FULL_REVOLUTION);
                let parts =
                    (i128::from(p.rem_euclid(q)) * revolution * 2 + i128::from(q)) / (2 * i128::from(q));
                let drift = units::Angle::from_revolutions(drift)?;
                Some(units::Angle::from_parts(parts as u64 + drift.parts()))
            }
        }
    }
}

/// The layout of the LBNs: zones in LBN order. On most drives the first zone is the outermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutSpec {
    /// The order of LBNs over the tracks of a zone.
    pub order: Order,
    /// Patterns of tracks, to which zones with [`Order::Pattern`] refer by name.
    #[serde(default, rename = "pattern", skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<Pattern>,
    /// The zones, in LBN order. Zones may share cylinders and follow each other in any direction, because some drives fill
    /// all tracks of one density on one surface before the next surface. No track may belong to two zones.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// Runs of LBNs that the drive has moved to other sectors.
    #[serde(default, rename = "remap", skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<Remap>,
}

/// The order of LBNs over the tracks of a zone. On every track LBNs ascend with the sector number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Cylinder by cylinder, each by ascending head.
    Cylinder,
    /// Cylinder by cylinder, alternately by ascending and by descending head. The first cylinder of each zone is by
    /// ascending head.
    CylinderSerpentine,
    /// Cylinder by cylinder: by ascending head on cylinders with an even number, by descending head on the others.
    CylinderSerpentineAbsolute,
    /// Bands of `band_cylinders` cylinders: a band's tracks on one surface inward, on the next outward, and so on;
    /// every other band has the heads in descending order. The usual layout of drives since about 2000.
    SurfaceSerpentine {
        /// The number of cylinders in a band; the last band of a zone may be smaller.
        band_cylinders: u32,
    },
    /// Bands of cylinders, each of which has its tracks on one surface after the other. [`Order::SurfaceSerpentine`] is
    /// the case in which both directions alternate. In a band as wide as its zone, each surface is filled completely
    /// before the next.
    Bands {
        /// The number of cylinders in a band; the last band of a zone may be smaller.
        band_cylinders: u32,
        /// The direction of the tracks in a band: inward on all surfaces, or outward on every other one.
        tracks: Course,
        /// The order of the surfaces in each band: always the same, or reversed in every other band.
        surfaces: Course,
    },
    /// A repeating [`Pattern`], which each zone names.
    Pattern,
}

/// Whether the direction of a layout is the same from one surface or band to the next, or alternates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// Always forward.
    Forward,
    /// Alternately forward and backward.
    Alternating,
}

/// A piece of layout that a zone repeats: runs of tracks, each on one surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// The name that zones use.
    pub name: String,
    /// The number of cylinders of one repetition.
    pub cylinders: u32,
    /// The rotation from sector 0 of the first track of one repetition to that of the next repetition.
    pub skew: Revolutions,
    /// The runs, in LBN order.
    pub runs: Vec<Run>,
}

/// Consecutive tracks on one surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The head of the surface.
    pub head: u16,
    /// The cylinder of the first track, counted from the first cylinder of the repetition.
    pub cylinder: u32,
    /// The number of tracks.
    pub tracks: u32,
    /// Whether each track is one cylinder outward of the track before it, rather than inward.
    #[serde(default)]
    pub outward: bool,
    /// The angle of sector 0 of the first track, relative to the start angle of the repetition.
    #[serde(default)]
    pub offset: Revolutions,
    /// The rotation from each track's sector 0 to that of the next.
    #[serde(default)]
    pub skew: Revolutions,
    /// The number of sectors on each track, if it differs from the zone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_per_track: Option<u32>,
}

/// The sectors per track of a zone: one number for all surfaces, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SectorsPerTrack {
    /// One number for all surfaces.
    Same(u32),
    /// One number for each head of the drive, from head 0.
    ByHead(Vec<u32>),
}

/// A range of cylinders with one recording density (by head) and one set of skews.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder. Cylinders outside of all zones have no LBNs.
    pub first_cylinder: u32,
    /// The last cylinder, which belongs to the zone.
    pub last_cylinder: u32,
    /// The number of sectors on each track, including bad and spare ones.
    pub sectors_per_track: SectorsPerTrack,
    /// The name of the pattern, if the order is [`Order::Pattern`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The order of this zone, if it differs from the layout's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The heads of the zone's surfaces, in LBN order; if empty, all heads in ascending order. Must be empty with
    /// [`Order::Pattern`], because the runs of a pattern name their heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surfaces: Vec<u16>,
    /// The number of cylinders by which each surface is shifted inward, for drives whose heads are not aligned and reach
    /// their n-th tracks at different positions of the arm. One number for each of the zone's surfaces, or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surface_offsets: Vec<u32>,
    /// The angle of sector 0 of the zone's first track.
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub offset: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next track, if that is on the same cylinder (cylinder
    /// orders) or on the same surface (bands).
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub track_skew: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next track, if that is on the next cylinder (cylinder
    /// orders) or in the next band.
    #[serde(default, skip_serializing_if = "Revolutions::is_zero")]
    pub cylinder_skew: Revolutions,
    /// The rotation from sector 0 of a track to sector 0 of the next track, if that is on another surface of the same band;
    /// if not given, equal to `track_skew`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_skew: Option<Revolutions>,
    /// The number of sectors at the zone's start that have no LBNs, because the drive stores its own data there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// The number and the position of the spare sectors.
    #[serde(default)]
    pub sparing: Sparing,
    /// Bad sectors that the LBNs skip, in ascending order, counted from the zone's first sector, reserved ones included.
    /// With [`SparingRegion::ZoneTracks`] the numbers are tracks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Runs of further bad sectors that the LBNs skip: `[first, count]`, in the unit of `slips`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slip_runs: Vec<(u64, u64)>,
    /// Runs of tracks that the LBNs skip: `[first, count]`. Tracks are counted from the zone's first, in LBN order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slip_tracks: Vec<(u32, u32)>,
    /// Bad sectors whose LBN was moved to a spare sector: `[bad, replacement]`, in the unit of `slips`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<(u64, u64)>,
}

impl Zone {
    /// Returns a zone over all surfaces without skews, spares, slips or reserved sectors.
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

    /// Returns the sum of the entries of `slips`, the counts of `slip_runs` (both in sectors, or in tracks with
    /// [`SparingRegion::ZoneTracks`]) and the counts of `slip_tracks` (in tracks).
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
/// A zone is divided into regions: tracks, cylinders, runs of cylinders, or the whole zone. Each region has `spares` spare
/// sectors at its end or front. A slip either uses one of them, or moves all later LBNs of the zone by one sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sparing {
    /// The kind of region that has spares of its own.
    #[serde(default)]
    pub per: SparingRegion,
    /// The number of cylinders in a region, with [`SparingRegion::Range`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinders: Option<u32>,
    /// The number of spare sectors in each region; of spare tracks with [`SparingRegion::ZoneTracks`].
    #[serde(default)]
    pub spares: u64,
    /// Whether the spares are at the front of the region rather than at its end.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub at_front: bool,
    /// Whether a slip moves all later LBNs of the zone by one sector, instead of using one of its region's spares.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub slip_to_end: bool,
}

/// The part of a zone that has spares of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparingRegion {
    /// The whole zone.
    #[default]
    Zone,
    /// The whole zone, with whole tracks as spares and slips.
    ZoneTracks,
    /// Each run of [`Sparing::cylinders`] cylinders.
    Range,
    /// Each cylinder.
    Cylinder,
    /// Each track.
    Track,
}

/// Consecutive LBNs that were moved to other sectors of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remap {
    /// The first LBN moved.
    pub lbn: u64,
    /// The number of LBNs moved.
    pub sectors: u32,
    /// The cylinder of the track that holds the LBNs now.
    pub cylinder: u32,
    /// The head of the track that holds the LBNs now.
    pub head: u16,
    /// The sector that holds the first LBN now; the other LBNs follow it on the same track.
    pub sector: u32,
}
