//! `freeblock drive show`.

use super::resolve::{Resolved, resolve};
use crate::problem::Problem;
use crate::tables::{capacity, grouped, table};
use model::DriveModel;
use model::profile::{Revolutions, Zone};
use serde::Serialize;
use std::fmt::{self, Write};
use units::{Cylinder, Op, TrackIndex};

/// The minimum and maximum of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Span {
    least: u32,
    most: u32,
}

impl Span {
    /// Returns the span of sectors per track in the cylinders `first` to `last`; `None` if no track there holds an LBN.
    pub(crate) fn of_tracks(drive: &DriveModel, first: u32, last: u32) -> Option<Self> {
        let sectors = drive.layout().sectors_per_track(Cylinder::new(first), Cylinder::new(last))?;
        Some(Self { least: *sectors.start(), most: *sectors.end() })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { self.least.fmt(f) } else { write!(f, "{}-{}", self.least, self.most) }
    }
}

/// The facts about a drive that are shown.
#[derive(Serialize)]
struct Page {
    name: String,
    title: String,
    synthetic: bool,
    sources: Vec<String>,
    capacity_bytes: u64,
    capacity_sectors: u64,
    sector_bytes: u32,
    rpm: u32,
    revolution_ms: f64,
    cylinders: u32,
    heads: u16,
    tracks: u32,
    outer_mb_per_s: f64,
    inner_mb_per_s: f64,
    mean_seek_ms: f64,
    head_switch_ms: f64,
    write_settle_ms: f64,
    zero_latency_read: bool,
    zero_latency_write: bool,
    firmware: bool,
    /// Whether writes were measured. If a probe was not permitted to write, the provenance of the profile's values says that.
    writes_measured: bool,
    zones: Vec<ZoneRow>,
    seek: Vec<SeekPoint>,
}

#[derive(Serialize)]
struct ZoneRow {
    first_cylinder: u32,
    last_cylinder: u32,
    sectors_per_track: Span,
    track_skew_revolutions: f64,
    cylinder_skew_revolutions: f64,
    mb_per_s: f64,
}

#[derive(Serialize)]
struct SeekPoint {
    cylinders: u32,
    ms: f64,
}

pub(crate) fn execute(name: &str, json: bool, toml: bool) -> Result<String, Problem> {
    let drive = resolve(name)?;
    if toml {
        return Ok(drive.text);
    }
    let page = page(&drive);
    if json { super::json(&page) } else { Ok(shown(&page)) }
}

fn page(drive: &Resolved) -> Page {
    let Resolved { profile, model, .. } = drive;
    let layout = model.layout();
    let last_track = layout.track_count().saturating_sub(1);
    let rate = |track: u32| mb_per_s(model, layout.track(TrackIndex::new(track)).sectors);
    Page {
        name: profile.name.clone(),
        title: profile.title.clone(),
        synthetic: profile.synthetic,
        sources: profile.sources.clone(),
        capacity_bytes: layout.capacity().bytes(model.sector_bytes()).get(),
        capacity_sectors: layout.capacity().get(),
        sector_bytes: profile.sector_bytes,
        rpm: profile.rpm,
        revolution_ms: model.rpm().revolution().as_millis_f64(),
        cylinders: layout.cylinders(),
        heads: layout.heads(),
        tracks: layout.track_count(),
        outer_mb_per_s: rate(0),
        inner_mb_per_s: rate(last_track),
        mean_seek_ms: model.seek_profile().mean().as_millis_f64(),
        head_switch_ms: model.head_switch().as_millis_f64(),
        write_settle_ms: profile.mechanics.write_settle_ms,
        zero_latency_read: model.zero_latency(Op::Read),
        zero_latency_write: model.zero_latency(Op::Write),
        firmware: profile.firmware.is_some(),
        writes_measured: profile.firmware.as_ref().is_none_or(|of| of.cache.write_back.known().is_some()),
        zones: profile.layout.zones.iter().map(|zone| zone_row(model, zone)).collect(),
        seek: distances(layout.cylinders())
            .map(|cylinders| SeekPoint { cylinders, ms: model.seek(cylinders).as_millis_f64() })
            .collect(),
    }
}

/// Returns the transfer rate of a track with this many sectors in MB/s.
fn mb_per_s(model: &DriveModel, sectors: u32) -> f64 {
    let revolutions = f64::from(model.rpm().get()) / 60.0;
    f64::from(sectors) * model.sector_bytes().get() as f64 * revolutions / 1e6
}

fn zone_row(model: &DriveModel, zone: &Zone) -> ZoneRow {
    let skew_of = |skew: &Revolutions| skew.angle().map_or(0.0, units::Angle::as_revolutions);
    let sectors = Span::of_tracks(model, zone.first_cylinder, zone.last_cylinder).unwrap_or_default();
    ZoneRow {
        first_cylinder: zone.first_cylinder,
        last_cylinder: zone.last_cylinder,
        sectors_per_track: sectors,
        track_skew_revolutions: skew_of(&zone.track_skew),
        cylinder_skew_revolutions: skew_of(&zone.cylinder_skew),
        mb_per_s: mb_per_s(model, sectors.most),
    }
}

/// Returns the seek distances to show: 1, 3, 10, 30, ... cylinders, a third of the drive, and the whole drive.
fn distances(cylinders: u32) -> impl Iterator<Item = u32> {
    let last = cylinders.saturating_sub(1);
    let mut distances: Vec<u32> = (0..7).flat_map(|e| [10u32.pow(e), 3 * 10u32.pow(e)]).collect();
    distances.extend([cylinders / 3, last]);
    distances.retain(|d| (1..=last).contains(d));
    distances.sort_unstable();
    distances.dedup();
    distances.into_iter()
}

fn shown(page: &Page) -> String {
    let mut text = format!("{} ({})\n\n", page.title, page.name);
    let yes = |on: bool| if on { "yes" } else { "no" };
    let zero_latency =
        format!("reads {}, writes {}", yes(page.zero_latency_read), yes(page.zero_latency_write));
    let (settle, electronics) = match (page.firmware, page.writes_measured) {
        (true, false) => ("not measured".to_owned(), "known, but for writes"),
        (true, true) => (format!("{:.3} ms", page.write_settle_ms), "known"),
        (false, _) => (format!("{:.3} ms", page.write_settle_ms), "not known"),
    };
    let facts = [
        (
            "capacity",
            format!(
                "{}: {} sectors of {} bytes",
                capacity(page.capacity_bytes),
                grouped(page.capacity_sectors),
                page.sector_bytes
            ),
        ),
        ("speed", format!("{} rpm, {:.3} ms a revolution", page.rpm, page.revolution_ms)),
        (
            "geometry",
            format!(
                "{} cylinders, {} heads, {} tracks with LBNs",
                grouped(page.cylinders.into()),
                page.heads,
                grouped(page.tracks.into())
            ),
        ),
        (
            "media rate",
            format!("{:.1} MB/s outermost, {:.1} MB/s innermost", page.outer_mb_per_s, page.inner_mb_per_s),
        ),
        ("mean seek", format!("{:.3} ms over all pairs of cylinders", page.mean_seek_ms)),
        ("head switch", format!("{:.3} ms", page.head_switch_ms)),
        ("write settle", settle),
        ("zero latency", zero_latency),
        ("electronics", electronics.to_owned()),
        (
            "made up",
            (if page.synthetic { "yes, at least in part; see the sources" } else { "no" }).to_owned(),
        ),
    ];
    // Writing to a string does not fail.
    for (what, value) in facts {
        let _ = writeln!(text, "{what:13} {value}");
    }
    text.push_str("\nZones, from the outside in\n");
    let rows = page.zones.iter().map(|zone| {
        vec![
            format!("{}-{}", zone.first_cylinder, zone.last_cylinder),
            zone.sectors_per_track.to_string(),
            format!("{:.1}", zone.mb_per_s),
            format!("{:.4}", zone.track_skew_revolutions),
            format!("{:.4}", zone.cylinder_skew_revolutions),
        ]
    });
    let header =
        ["cylinders", "sectors/track", "MB/s", "track skew (revolutions)", "cylinder skew (revolutions)"];
    text.push_str(&table(&header, &[0], rows));
    text.push_str("\nSeek time by distance\n");
    let rows =
        page.seek.iter().map(|point| vec![grouped(point.cylinders.into()), format!("{:.3}", point.ms)]);
    text.push_str(&table(&["cylinders", "ms"], &[], rows));
    text.push_str("\nSources\n");
    for source in &page.sources {
        let _ = writeln!(text, "- {source}");
    }
    text
}
