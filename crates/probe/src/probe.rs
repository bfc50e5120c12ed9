//! The probe: all measurements in their order, and the profile made from them.

use crate::buffer::{self, Buffer};
use crate::bus;
use crate::check;
use crate::crossing;
use crate::device::ProbedDevice;
use crate::error::{ProbeError, StateError};
use crate::findings;
use crate::gaps::{self, Known};
use crate::geometry::{self, Geometry};
use crate::journal::{Journal, Recorder};
use crate::layout;
use crate::mapping::{Map, Mapper};
use crate::meter::{Hook, Meter};
use crate::pairs;
use crate::predict::Predictor;
use crate::report::Report;
use crate::seeks::{SeekMeter, Seeks};
use crate::spin;
use crate::sure;
use crate::surfaces;
use crate::writes::{self, Writes};
use crate::zero;
use model::Layout;
use model::profile::{
    Cache, FORMAT_VERSION, Firmware, LayoutSpec, Mechanics, Overheads, Profile, ReadAhead, Seek, WriteBack,
};
use units::LbnRange;

/// The user's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of the probe's random numbers, which choose the sectors to read.
    pub seed: u64,
    /// The sectors that may be written; with `None` the probe writes nothing, and writes are not measured.
    pub writes: Option<LbnRange>,
    /// The name of the resulting profile: lower case, digits, hyphens.
    pub name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, writes: None, name: "probed".to_owned() }
    }
}

/// The permitted error of an angle of the map if readings vary, ns: half of the tolerance of a prediction.
const ANGLE_ERROR_NS_MAX: f64 = 25_000.0;

/// The profile that a probe found, and its reliability.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbedProfile {
    /// The profile for `freeblock drive show` and the scheduler.
    pub profile: Profile,
    /// The findings with their confidence, and the regions where the profile may be wrong.
    pub report: Report,
}

/// A probe of one drive, running or not yet begun.
#[derive(Clone, Debug)]
pub struct Probe {
    options: Options,
    journal: Journal,
}

impl Probe {
    /// Returns a new probe.
    pub fn new(options: Options) -> Self {
        let journal = Journal::new(options.seed);
        Self { options, journal }
    }

    /// Returns a probe that continues from a saved state. If the saved probe ended with a part of the drive
    /// ([`Report::is_partial`]), the drive is measured anew, with other random numbers and more time.
    ///
    /// # Errors
    /// The state was begun with another seed.
    pub fn resume(options: Options, mut journal: Journal) -> Result<Self, StateError> {
        if journal.seed() != options.seed {
            return Err(StateError::Other {
                problem: format!("the state's seed is {}, not {}", journal.seed(), options.seed),
            });
        }
        journal.begin_again_if_partial();
        Ok(Self { options, journal })
    }

    /// Returns all measurements so far.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Probes `device` to the end. Calls `hook` before the first command and regularly after it.
    ///
    /// # Errors
    /// The device is gone, the hook ended the probe, the state is of another drive, or the times show no revolution, so
    /// that the device is no spinning disk. The journal keeps the measurements. In all other cases there is a profile,
    /// and the report names its uncertain parts.
    pub fn run(
        &mut self,
        device: &mut dyn ProbedDevice,
        hook: &mut Hook<'_>,
    ) -> Result<ProbedProfile, ProbeError> {
        if let Some(region) = self.options.writes {
            let capacity = device.capacity().get();
            let inside = region.checked_end().is_some_and(|end| end.get() <= capacity);
            if !inside || region.len().get() < writes::WRITABLE_SECTORS_MIN {
                return Err(ProbeError::Region { region, capacity, least: writes::WRITABLE_SECTORS_MIN });
            }
        }
        let recorder = Recorder::new(device, &mut self.journal)?;
        let of_writes = if self.options.writes.is_some() { check::REQUESTS } else { 0 };
        let mut meter = Meter::new(recorder, hook, check::RESERVED_READS + of_writes);
        meter.begin()?;
        characterise(&mut meter, &self.options)
    }
}

fn characterise(meter: &mut Meter<'_>, options: &Options) -> Result<ProbedProfile, ProbeError> {
    let mut report = Report::new();
    let spin = spin::find(meter)?;
    let rpm = (60e9 / spin.revolution).round() as u32;
    report.add("revolution time", format!("{:.6} ms ({rpm} rpm)", spin.revolution / 1e6), spin.strength, "");
    let mut buffer = match report.kept("read cache", buffer::find(meter))? {
        Some(buffer) => {
            findings::of_buffer(&mut report, &buffer);
            buffer
        }
        None => Buffer::default(),
    };
    if (buffer.keeps || buffer.reads_ahead) && meter.switch_buffer_off()? {
        // The profile describes the buffer as it was before; the measurements that follow use the buffer as switched
        // off.
        let rest = report.kept("read cache, switched off", buffer::find(meter))?.unwrap_or_default();
        findings::of_switched_off(&mut report, &rest);
        buffer.vary = rest.vary;
    }
    if !spin.steady {
        meter.stage("spindle", 0.05);
        report.kept("spindle", meter.anchor())?;
        let us = meter.spread * meter.revolution() / 1e3;
        report.add(
            "spread of an angle",
            format!("{us:.1} us"),
            1.0,
            "the spindle is followed by anchor sectors",
        );
    }
    let (mut map, ended) = Mapper::new(meter).run()?;
    report.kept("zones and tracks", ended)?;
    let bus = if buffer.tells_bus { None } else { report.kept("bus", bus::find(meter, &map))?.flatten() };
    if let Some(sector_ns) = bus {
        buffer.bus_sector_ns = sector_ns.value;
        let note = "slower than the medium: each sector more delays the end of a read by this time";
        findings::of_bus(&mut report, sector_ns, note);
    }
    let surfaces = surfaces::find(meter, &map, &buffer);
    let surfaces = report.kept("surfaces of zones", surfaces)?.flatten();
    let mut geometry = match &surfaces {
        Some(surfaces) => surfaces.geometry(),
        None => {
            let geometry = geometry::find(meter, &map, &buffer);
            report.kept("heads and cylinders", geometry)?.unwrap_or_else(geometry::unknown)
        }
    };
    let bus_revolutions = buffer.bus_sector_ns / meter.revolution();
    let loose = if meter.is_noisy() { ANGLE_ERROR_NS_MAX / meter.revolution() } else { 0.0 };
    let (mut cylinders, mut spec) = match &surfaces {
        Some(surfaces) => surfaces.assemble(&map, bus_revolutions, loose),
        None => layout::assemble(&map, geometry.shape, bus_revolutions, loose),
    };
    let mut heads = geometry.shape.heads.max(1) as u16;
    let mut placed = match report.kept("layout", placed_if_mapped(&map, &geometry, &spec, cylinders))? {
        Some(placed) => placed,
        None => {
            // No profile can have these zones and heads: they are withdrawn, with all findings that depend on them.
            let of_size = layout::of_size(meter.capacity(), meter.sector_bytes())?;
            (cylinders, heads, spec) = (of_size.cylinders, of_size.heads, of_size.layout);
            (map, geometry) = (Map::of_nothing(meter.capacity()), geometry::unknown());
            place(&spec, cylinders, heads)?
        }
    };
    if map.mapped > 0 {
        findings::of_map(&mut report, &map, &geometry, cylinders, !meter.is_noisy());
    }
    let zero_latency = zero::reads(meter, &map, buffer.bus_sector_ns);
    let zero_latency = report.kept("zero-latency reads", zero_latency)?.flatten();
    let mut inside = SeekMeter { meter, layout: &placed, buffer: &buffer, zones: spans(&spec) };
    let mut points = Vec::new();
    // If moves have shown the first cylinder of each zone, no cylinders between zones are unknown.
    let known = match surfaces {
        Some(_) => None,
        None => report.kept("seeks inside of zones", inside.inside())?.flatten(),
    };
    if let Some((known, switch)) = known {
        let known_moves = Known { curve: &known, switch, bus_ns: buffer.bus_sector_ns };
        let gaps = gaps::find(meter, &placed, &spec.zones, &known_moves);
        let gaps = report.kept("cylinders without LBNs", gaps)?.unwrap_or_default();
        let (reported, boundaries) = (gaps.iter().flatten().count(), gaps.len());
        let gaps: Vec<u32> = gaps.into_iter().map(Option::unwrap_or_default).collect();
        let left_out: u32 = gaps.iter().sum();
        if left_out > 0 {
            cylinders = layout::spread(&mut spec, &gaps);
            placed = place(&spec, cylinders, heads)?;
        }
        findings::of_gaps(&mut report, left_out, reported as u64, boundaries as u64);
        points = known;
    }
    let seeks = SeekMeter { meter, layout: &placed, buffer: &buffer, zones: spans(&spec) }.run(points);
    let mut seeks = report.kept("seek curve", seeks)?.unwrap_or_default();
    let parted = pairs::part(meter, &placed, &mut seeks);
    report.kept("two commands at a time", parted)?;
    let crossing = crossing::find(meter, &map, geometry.shape, buffer.bus_sector_ns);
    let crossing = report.kept("read over a change of head", crossing)?.flatten();
    if let Some(crossing) = crossing {
        let value = if crossing.lost.value { "loses a revolution" } else { "loses nothing" };
        report.add("read over a change of head", value.to_owned(), crossing.lost.sure, "");
    }
    let written = match options.writes {
        Some(region) => {
            let written = writes::find(meter, &placed, &buffer, &seeks, region);
            report.kept("writes", written)?.flatten()
        }
        None => None,
    };
    if let Some(missed_ms) = written.as_ref().and_then(|w| w.settle.as_ref()).map(|s| s.missed_overhead_ms) {
        seeks.part_at(rounded(seeks.overhead_ms + missed_ms));
    }
    // The profile must predict what was found about reads over a head switch, so the switch is made longer or shorter
    // than the gap between the tracks.
    if let Some(crossing) = crossing {
        let measured = seeks.head_switch_ms;
        seeks.head_switch_ms = crossing.repeated_by(measured);
        if (seeks.head_switch_ms - measured).abs() > sure::EQUAL_TIMES_MS_MAX {
            // The reads and the moves disagree on the head switch: one is wrong, so the switch is reported as a bound.
            seeks.head_switch_moved = true;
        }
    }
    findings::of_seeks(&mut report, &seeks, zero_latency);
    let zero_latency_writes = match (options.writes, &written) {
        (Some(region), Some(written)) if !written.write_back.value => {
            let seen = zero::writes(meter, &map, region, buffer.bus_sector_ns);
            report.kept("zero-latency writes", seen)?.flatten()
        }
        _ => None,
    };
    findings::of_writes(
        &mut report,
        written.as_ref(),
        (zero_latency, zero_latency_writes),
        meter.refuses_writes().unwrap_or("writes were not allowed"),
    );
    let zero_latency = zero_latency.is_some_and(|seen| seen.value);
    let zero_latency = (zero_latency, zero_latency_writes.map_or(zero_latency, |seen| seen.value));
    // If the speed varies, the profile has the present one.
    let rpm = (60e9 / meter.revolution()).round() as u32;
    let mut profile =
        profile(options, meter, rpm, cylinders, heads, spec, &buffer, &seeks, zero_latency, written.as_ref());
    let mut predictor = Predictor::new(&profile).map_err(|e| ProbeError::Unlike {
        stage: "profile",
        problem: e.to_string(),
        mend: "report this drive".to_owned(),
    })?;
    let checked = if map.mapped == 0 {
        None
    } else {
        let checked = check::run(meter, &mut map, &mut predictor);
        report.kept("check", checked)?
    };
    let (check, unsure) = checked.unwrap_or_else(|| check::of_nothing(meter.capacity()));
    let again = check::moved_alone(meter, &map);
    if let Some(again) = report.kept("remapped LBNs", again)?.flatten() {
        let odd: Vec<String> = map.zones.iter().flat_map(|z| &z.odd).map(u64::to_string).collect();
        let note = format!(
            "met by chance, not searched for; {:.0}% of {} further reads find them elsewhere again",
            100.0 * again.within_50us,
            again.reads
        );
        report.add("remapped LBNs", odd.join(", "), again.low, note);
    }
    report.check = check;
    findings::doubt(&mut report, &check, &map, geometry.sure);
    let writes = check::writes(meter, &mut predictor, options.writes);
    let (writes, unsure_writes) = match report.kept("check of writes", writes)? {
        Some(found) => found,
        None => (None, check::of_nothing(meter.capacity()).1),
    };
    let given_up =
        report.given_up.iter().map(|given_up| format!("not measured: {}: {}", given_up.what, given_up.why));
    profile.sources.extend(given_up);
    profile.sources.extend(unsure.iter().map(ToString::to_string));
    profile.sources.extend(unsure_writes.iter().map(|region| format!("writes: {region}")));
    (report.writes, report.unsure_writes) = (writes, unsure_writes);
    report.unsure = unsure;
    report.unreadable = meter.unreadable();
    report.unwritable = meter.unwritable();
    report.commands = meter.commands();
    report.drive_time_s = meter.drive_time().as_secs_f64();
    if report.is_partial() {
        meter.ended_partial();
    }
    meter.end();
    Ok(ProbedProfile { profile, report })
}

/// Returns the layout if the map has one; a drive on which no angle could be measured has none.
fn placed_if_mapped(
    map: &Map,
    geometry: &Geometry,
    spec: &LayoutSpec,
    cylinders: u32,
) -> Result<Layout, ProbeError> {
    let unlike = |problem: String| ProbeError::Unlike {
        stage: "layout",
        problem,
        mend: "the layout was withdrawn; probe again with another --seed".to_owned(),
    };
    if map.mapped == 0 {
        return Err(unlike("no angle of a sector was found".to_owned()));
    }
    match u16::try_from(geometry.shape.heads.max(1)) {
        Ok(heads) => Layout::new(spec, cylinders, heads).map_err(|e| unlike(e.to_string())),
        Err(_) => Err(unlike(format!("{} heads", geometry.shape.heads))),
    }
}

fn place(spec: &LayoutSpec, cylinders: u32, heads: u16) -> Result<Layout, ProbeError> {
    Layout::new(spec, cylinders, heads).map_err(|e| ProbeError::Unlike {
        stage: "layout",
        problem: e.to_string(),
        mend: "report this drive".to_owned(),
    })
}

/// Returns the first and last cylinders of zones.
fn spans(spec: &LayoutSpec) -> Vec<(u32, u32)> {
    spec.zones.iter().map(|z| (z.first_cylinder, z.last_cylinder)).collect()
}

/// Rounds to the microsecond.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[expect(clippy::too_many_arguments, reason = "the one place where all findings meet")]
fn profile(
    options: &Options,
    meter: &Meter<'_>,
    rpm: u32,
    cylinders: u32,
    heads: u16,
    layout: LayoutSpec,
    buffer: &Buffer,
    seeks: &Seeks,
    (zero_latency_read, zero_latency_write): (bool, bool),
    written: Option<&Writes>,
) -> Profile {
    let ms = |ns: f64| (ns / 10.0).round() / 1e5;
    let hit = ms((buffer.hit_ns - buffer.bus_sector_ns).max(0.0));
    let hit_on = ms((buffer.on_ns - buffer.bus_sector_ns).max(0.0));
    let write_hit = match written {
        Some(w) if w.write_back.value => ms((w.acknowledged_ns - buffer.bus_sector_ns).max(0.0)),
        _ => hit,
    };
    // No overhead is negative: if the sum is, the part below zero belongs to the seeks.
    let later =
        |first: f64, more: Option<f64>| (((first + more.unwrap_or(0.0)).max(0.0)) * 1e5).round() / 1e5;
    // A drive that evicts all data that it has transferred has no read cache, but still has a buffer for writes.
    let enabled = buffer.keeps || buffer.reads_ahead || written.is_some_and(|w| w.write_back.value);
    let write_overhead = written.and_then(|w| w.overhead).map(|o| o.value).unwrap_or(seeks.overhead_ms);
    Profile {
        format: FORMAT_VERSION,
        name: options.name.clone(),
        title: format!("Probed drive of {} sectors", meter.capacity()),
        synthetic: false,
        sources: vec![format!(
            "freeblock probe: {} timed commands in {:.0} s; its report names the values that were not measured",
            meter.commands(),
            meter.drive_time().as_secs_f64()
        )],
        sector_bytes: meter.sector_bytes() as u32,
        physical_sector_bytes: None,
        rpm,
        cylinders,
        heads,
        mechanics: Mechanics {
            head_switch_ms: seeks.head_switch_ms,
            cylinder_switch_ms: seeks.cylinder_switch_ms,
            seek_spread_ms: seeks.spread.value.clone(),
            write_settle_ms: written.and_then(|w| w.settle.as_ref()).map_or(0.0, |settle| settle.ms),
            zero_latency_read,
            zero_latency_write,
        },
        seek: Seek::Table {
            points: if seeks.curve.is_empty() {
                vec![(1, seeks.head_switch_ms)]
            } else {
                seeks.curve.iter().map(|p| (p.distance, p.time)).collect()
            },
        },
        layout,
        firmware: Some(Firmware {
            bulk_sector_ms: ms(buffer.bus_sector_ns),
            overheads: Overheads {
                read_hit: (hit_on, hit),
                read_miss: (
                    seeks.overhead_ms,
                    later(seeks.overhead_ms, written.and_then(|w| w.read_after_write).map(|m| m.value)),
                ),
                write_hit: (write_hit, write_hit),
                write_miss: (
                    write_overhead,
                    later(write_overhead, written.and_then(|w| w.write_after_write).map(|m| m.value)),
                ),
                ..Overheads::default()
            },
            cache: Cache {
                enabled,
                segments: buffer.segments.value.max(1) as u32,
                segment_sectors: (2 * buffer.ahead).max(256) as u32,
                read_ahead: if buffer.reads_ahead { ReadAhead::Segment } else { ReadAhead::None },
                read_ahead_over_requested: i32::from(enabled && !buffer.keeps),
                read_free_sectors: buffer.keeps_before,
                write_back: match written {
                    Some(written) if written.write_back.value => WriteBack::Always,
                    Some(_) => WriteBack::None,
                    None => WriteBack::Unknown,
                },
                ..Cache::default()
            },
            ..Firmware::default()
        }),
    }
}
