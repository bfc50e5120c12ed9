//! The probe: all measurements in their order, and what comes of them.

use crate::buffer::{self, Buffer};
use crate::check;
use crate::crossing;
use crate::device::Device;
use crate::error::ProbeError;
use crate::gaps::{self, Known};
use crate::geometry::{self, Geometry, Kind};
use crate::journal::{Journal, Recorder, StateError};
use crate::layout;
use crate::mapping::{Map, Mapper};
use crate::meter::{Hook, Meter};
use crate::pairs;
use crate::predict::Predictor;
use crate::report::{Check, Report};
use crate::seeks::{SeekMeter, Seeks};
use crate::spin;
use crate::spread;
use crate::sure;
use crate::writes::{self, Measured, Settle, Writes};
use crate::zero::{self, ZeroLatency};
use crate::zone::Zone;
use model::Layout;
use model::profile::{
    Cache, FORMAT, Firmware, LayoutSpec, Mechanics, Overheads, Profile, ReadAhead, Seek, WriteBack,
};
use std::collections::BTreeMap;
use units::LbnRange;

/// What the user allows and chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of the probe's own dice: which sectors it reads.
    pub seed: u64,
    /// Sectors that may be written; without them nothing is written, and writes are not measured.
    pub writes: Option<LbnRange>,
    /// The found profile's name: lower case, digits, hyphens.
    pub name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, writes: None, name: "probed".to_owned() }
    }
}

/// An order of tracks that is less sure is not told from the next likely one.
const TOLD: f64 = 0.7;

/// How sure an order of tracks is at most, of a drive that was mapped for a part only.
const UNMAPPED: f64 = 0.5;

/// What an angle of the map may be off by where readings vary, ns: half of what counts as predicted.
const LOOSE: f64 = 25_000.0;

/// One of so many LBNs are few.
const FEW: u64 = 50;

/// How sure are numbers that nothing measures how sure they are of: of 101 random drives, so many were right (tests/calibration.rs).
const TRACKS: f64 = 0.95;
const TRACKS_NOISY: f64 = 0.8;
const SLIPS: f64 = 0.75;
const SLIPS_NOISY: f64 = 0.4;
const GAPS: f64 = 0.5;
const GAPS_NOISY: f64 = 0.3;

/// How sure is one of two that nothing was seen of.
const ASSUMED: f64 = 0.5;

/// A profile, and how far to trust it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What `freeblock drive show` and the scheduler take.
    pub profile: Profile,
    /// Findings with their confidence, and where the profile may be wrong.
    pub report: Report,
}

/// A probe of one drive, under way or not yet begun.
#[derive(Clone, Debug)]
pub struct Probe {
    options: Options,
    journal: Journal,
}

impl Probe {
    /// A new one.
    pub fn new(options: Options) -> Self {
        let journal = Journal::new(options.seed);
        Self { options, journal }
    }

    /// One that goes on from a saved state.
    ///
    /// # Errors
    /// The state was begun with another seed.
    pub fn resume(options: Options, journal: Journal) -> Result<Self, StateError> {
        if journal.seed() != options.seed {
            return Err(StateError::Other {
                problem: format!("its seed is {}, not {}", journal.seed(), options.seed),
            });
        }
        Ok(Self { options, journal })
    }

    /// Everything measured so far.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Probes `device` to the end, calling `hook` now and then.
    ///
    /// # Errors
    /// A command that failed, a hook that said so, a state of another drive, or times that are no disk's. The journal
    /// keeps what was measured.
    pub fn run(&mut self, device: &mut dyn Device, hook: &mut Hook<'_>) -> Result<Outcome, ProbeError> {
        if let Some(region) = self.options.writes {
            let capacity = device.capacity().get();
            let inside = region.checked_end().is_some_and(|end| end.get() <= capacity);
            if !inside || region.len().get() < writes::LEAST {
                return Err(ProbeError::Region { region, capacity, least: writes::LEAST });
            }
        }
        let recorder = Recorder::new(device, &mut self.journal)?;
        let mut meter = Meter::new(recorder, hook);
        characterise(&mut meter, &self.options)
    }
}

fn characterise(meter: &mut Meter<'_>, options: &Options) -> Result<Outcome, ProbeError> {
    let mut report = Report {
        findings: Vec::new(),
        unsure: Vec::new(),
        unreadable: Vec::new(),
        unwritable: Vec::new(),
        check: Check::default(),
        writes: None,
        unsure_writes: Vec::new(),
        commands: 0,
        drive_time_s: 0.0,
    };
    let spin = spin::find(meter)?;
    let rpm = (60e9 / spin.revolution).round() as u32;
    report.add("revolution time", format!("{:.6} ms ({rpm} rpm)", spin.revolution / 1e6), spin.strength, "");
    let buffer = buffer::find(meter)?;
    of_buffer(&mut report, &buffer);
    if !spin.steady {
        meter.stage("spindle", 0.05);
        meter.anchor()?;
        let us = meter.spread * meter.revolution() / 1e3;
        report.add(
            "spread of an angle",
            format!("{us:.1} us"),
            1.0,
            "the spindle is followed by anchor sectors",
        );
    }
    let mut map = Mapper::new(meter).run()?;
    let geometry = geometry::find(meter, &map, &buffer)?;
    let bus_turns = buffer.bus_sector_ns / meter.revolution();
    let loose = if meter.is_noisy() { LOOSE / meter.revolution() } else { 0.0 };
    let (mut cylinders, mut spec) = layout::assemble(&map, geometry.shape, bus_turns, loose);
    of_map(&mut report, &map, &geometry, cylinders, !meter.is_noisy());
    let zero_latency = zero::reads(meter, &map, buffer.bus_sector_ns)?;
    let heads = geometry.shape.heads.max(1) as u16;
    let mut placed = place(&spec, cylinders, heads)?;
    let mut inside = SeekMeter { meter, layout: &placed, buffer: &buffer, zones: spans(&spec) };
    let mut points = Vec::new();
    if let Some((known, switch)) = inside.inside()? {
        let known_moves = Known { curve: &known, switch, bus_ns: buffer.bus_sector_ns };
        let gaps = gaps::find(meter, &placed, &spec.zones, &known_moves)?;
        let left_out: u32 = gaps.iter().sum();
        if left_out > 0 {
            cylinders = layout::spread(&mut spec, &gaps);
            placed = place(&spec, cylinders, heads)?;
        }
        report.add(
            "cylinders without LBNs",
            left_out.to_string(),
            if meter.is_noisy() { GAPS_NOISY } else { GAPS },
            "between zones, as moves over them show",
        );
        points = known;
    }
    let mut seeks = SeekMeter { meter, layout: &placed, buffer: &buffer, zones: spans(&spec) }.run(points)?;
    pairs::part(meter, &placed, &mut seeks)?;
    let crossing = crossing::find(meter, &map, geometry.shape, buffer.bus_sector_ns)?;
    if let Some(crossing) = crossing {
        let value = if crossing.lost { "loses a revolution" } else { "loses nothing" };
        report.add("read over a change of head", value.to_owned(), crossing.sure, "");
    }
    let written = match options.writes {
        Some(region) => writes::find(meter, &placed, &buffer, &seeks, region)?,
        None => None,
    };
    if let Some(missed_ms) = written.as_ref().and_then(|w| w.settle.as_ref()).map(|s| s.missed_overhead_ms) {
        seeks.part_at(rounded(seeks.overhead_ms + missed_ms));
    }
    // What a read over a change of head shows is what the profile must repeat, to the side of the gap.
    if let Some(crossing) = crossing {
        let measured = seeks.head_switch_ms;
        seeks.head_switch_ms = crossing.repeated_by(measured);
        if (seeks.head_switch_ms - measured).abs() > sure::NEAR_MS {
            // One of both went wrong: what is said is a bound.
            seeks.head_switch_moved = true;
        }
    }
    of_seeks(&mut report, &seeks, zero_latency);
    let zero_latency_writes = match (options.writes, &written) {
        (Some(region), Some(written)) if !written.write_back => {
            zero::writes(meter, &map, region, buffer.bus_sector_ns)?
        }
        _ => None,
    };
    of_writes(
        &mut report,
        written.as_ref(),
        (zero_latency, zero_latency_writes),
        meter.refuses_writes().unwrap_or("writes were not allowed"),
    );
    let zero_latency = zero_latency.is_some_and(|seen| seen.on);
    let zero_latency = (zero_latency, zero_latency_writes.map_or(zero_latency, |seen| seen.on));
    // A speed that wanders is given as it is now.
    let rpm = (60e9 / meter.revolution()).round() as u32;
    let mut profile =
        profile(options, meter, rpm, cylinders, heads, spec, &buffer, &seeks, zero_latency, written.as_ref());
    let mut predictor = Predictor::new(&profile).map_err(|e| ProbeError::Unlike {
        stage: "profile",
        problem: e.to_string(),
        mend: "report this drive".to_owned(),
    })?;
    let (check, unsure) = check::run(meter, &mut map, &mut predictor)?;
    if let Some(again) = check::moved_alone(meter, &map)? {
        let odd: Vec<String> = map.zones.iter().flat_map(|z| &z.odd).map(u64::to_string).collect();
        let note = format!(
            "met by chance; where they are was not looked for; so again in {:.0}% of {} further reads",
            100.0 * again.within_50us,
            again.reads
        );
        report.add("remapped LBNs", odd.join(", "), again.low, note);
    }
    report.check = check;
    doubt(&mut report, &check, &map, geometry.sure);
    let (writes, unsure_writes) = check::writes(meter, &mut predictor, options.writes)?;
    profile.sources.extend(unsure.iter().map(ToString::to_string));
    profile.sources.extend(unsure_writes.iter().map(|region| format!("writes: {region}")));
    (report.writes, report.unsure_writes) = (writes, unsure_writes);
    report.unsure = unsure;
    report.unreadable = meter.unreadable();
    report.unwritable = meter.unwritable();
    report.commands = meter.commands();
    report.drive_time_s = meter.drive_time().as_secs_f64();
    meter.end();
    Ok(Outcome { profile, report })
}

/// What the check's reads say of findings on which their predictions rest: they are no surer than that 97% of all reads come at their
/// angles, and in their turns.
fn doubt(report: &mut Report, check: &Check, map: &Map, sure_of_heads: f64) {
    let end = map.zones.last().map_or(0, |zone| zone.end);
    let count = |share: f64| (share * check.requests as f64).round() as u64;
    let mapped = map.mapped as f64 >= check::ENOUGH * end as f64;
    let in_place =
        if mapped { sure::at_least(check::ENOUGH, count(check.elsewhere), check.requests) } else { 0.0 };
    let places =
        ["zones", "sectors per track", "tracks", "cylinders", "slipped sectors", "cylinders without LBNs"];
    report.no_surer(&places, in_place);
    report.no_surer(&["zero-latency reads", "read over a change of head"], in_place);
    let in_turn = sure::at_least(check::ENOUGH, count(check.turns_off), check.requests);
    report.no_surer(&["seek curve"], in_turn.min(in_place));
    report.no_surer(&["spread of seeks", "command overhead"], in_place);
    report.no_surer(&["head switch", "cylinder switch"], in_place.min(sure_of_heads));
}

fn place(spec: &LayoutSpec, cylinders: u32, heads: u16) -> Result<Layout, ProbeError> {
    Layout::new(spec, cylinders, heads).map_err(|e| ProbeError::Unlike {
        stage: "layout",
        problem: e.to_string(),
        mend: "report this drive".to_owned(),
    })
}

/// First and last cylinders of zones.
fn spans(spec: &LayoutSpec) -> Vec<(u32, u32)> {
    spec.zones.iter().map(|z| (z.first_cylinder, z.last_cylinder)).collect()
}

/// To the microsecond.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

fn of_buffer(report: &mut Report, buffer: &Buffer) {
    let yes = |on: bool| (if on { "on" } else { "off" }).to_owned();
    report.add("read cache", yes(buffer.keeps || buffer.reads_ahead), 1.0, "");
    let ahead = if buffer.reads_ahead { format!("on, {} sectors or more", buffer.ahead) } else { yes(false) };
    report.add("read-ahead", ahead, 1.0, "");
    if buffer.segments > 0 {
        report.add("cache segments", buffer.segments.to_string(), 0.8, "random reads until one is forgotten");
        report.add("hit", format!("{:.3} ms for a sector", buffer.hit_ns / 1e6), 1.0, "");
        report.add("bus", format!("{:.4} ms a sector", buffer.bus_sector_ns / 1e6), 1.0, "");
    }
}

fn of_map(report: &mut Report, map: &Map, geometry: &Geometry, cylinders: u32, exact: bool) {
    let shape = geometry.shape;
    let tracks: u64 = map.zones.iter().map(|z| z.tracks()).sum();
    let end = map.zones.last().map_or(0, |z| z.end);
    let note = if map.mapped >= end { "" } else { "the rest of the drive was not understood" };
    // As sure as is the part of the drive that was mapped.
    report.add("zones", map.zones.len().to_string(), map.mapped as f64 / end.max(1) as f64, note);
    let (densest, sparsest) = densities(map);
    let note = "of all but a fiftieth of the LBNs at either end";
    report.add("sectors per track", format!("{densest} to {sparsest}"), 1.0, note);
    let least = least_tracks(map);
    let sure_of_tracks = if exact { TRACKS } else { TRACKS_NOISY };
    report.add(
        "tracks",
        between(least.min(tracks), tracks),
        sure_of_tracks,
        "each zone may begin inside of one",
    );
    let looked_at = map.measured.to_string();
    report.add(
        "tracks measured",
        looked_at,
        1.0,
        "for the map; the others are taken to be like these, and sampled in the check",
    );
    let slips: u64 = map.zones.iter().flat_map(|z| &z.shifts).map(|s| s.sectors).sum();
    report.add(
        "slipped sectors",
        slips.to_string(),
        if exact { SLIPS } else { SLIPS_NOISY },
        "those that later LBNs show",
    );
    let (kind, other) = match shape.kind {
        Kind::Cylinder => ("cylinder by cylinder, heads ascending".to_owned(), "back and forth"),
        Kind::Serpentine => ("cylinder by cylinder, heads back and forth".to_owned(), "ascending"),
        Kind::Bands(width) => (format!("bands of {width} tracks, surface by surface, back and forth"), ""),
    };
    // Tracks whose places are not understood are no ground for saying which of them are near to one another.
    let part = "what was not understood may be otherwise";
    let most = if map.mapped >= end { 1.0 } else { UNMAPPED };
    let (sure_of_heads, sure) =
        (geometry.sure.min(most), geometry.sure_of_order.min(geometry.sure).min(most));
    let note = if map.mapped < end {
        part.to_owned()
    } else if sure < TOLD && sure_of_heads >= TOLD && !other.is_empty() {
        format!("by cylinders for sure; heads {other} would take as long wherever they are asked for")
    } else {
        String::new()
    };
    report.add("order of tracks", kind, sure, note);
    report.add("heads", shape.heads.to_string(), sure_of_heads, if map.mapped < end { part } else { "" });
    // As sure as are the tracks of each.
    let least = least.div_ceil(shape.heads.max(1)).min(u64::from(cylinders));
    let sure = sure_of_heads.min(sure_of_tracks);
    report.add("cylinders", between(least, u64::from(cylinders)), sure, "those with LBNs");
}

/// The most and the fewest sectors on a track, of all but some LBNs at either end: where something is otherwise the mapper begins a
/// zone anew, which may have little to go by.
fn densities(map: &Map) -> (u64, u64) {
    let mut lbns: BTreeMap<u64, u64> = BTreeMap::new();
    for zone in &map.zones {
        match &zone.cycle {
            Some(cycle) => {
                let part = |sectors: u64| zone.lbns() as f64 * sectors as f64 / cycle.lbns as f64;
                cycle
                    .slots
                    .iter()
                    .for_each(|s| *lbns.entry(s.sectors).or_default() += part(s.sectors) as u64);
            }
            None => *lbns.entry(zone.sectors).or_default() += zone.lbns(),
        }
    }
    let few = lbns.values().sum::<u64>() / FEW;
    let beyond = |of: &mut dyn Iterator<Item = (&u64, &u64)>| {
        let mut so_far = 0;
        for (sectors, lbns) in of {
            so_far += lbns;
            if so_far > few {
                return *sectors;
            }
        }
        0
    };
    (beyond(&mut lbns.iter().rev()), beyond(&mut lbns.iter()))
}

/// The fewest tracks that hold what the map has: were no sector slipped, and went each zone on where the one before ends.
fn least_tracks(map: &Map) -> u64 {
    let of = |zone: &Zone| {
        let slipped: u64 = zone.shifts.iter().map(|shift| shift.sectors).sum();
        match &zone.cycle {
            Some(cycle) => zone.lbns() as f64 / cycle.lbns as f64 * cycle.slots.len() as f64,
            None => (zone.place(zone.end - 1) + 1).saturating_sub(slipped) as f64 / zone.sectors as f64,
        }
    };
    map.zones.iter().map(of).sum::<f64>().ceil() as u64
}

fn between(least: u64, most: u64) -> String {
    if least < most { format!("{least} to {most}") } else { most.to_string() }
}

fn of_seeks(report: &mut Report, seeks: &Seeks, zero_latency: Option<ZeroLatency>) {
    if let (Some(one), Some(far)) = (seeks.curve.first(), seeks.curve.last()) {
        let spread = seeks.curve.iter().map(|p| p.2).sum::<f64>() / seeks.curve.len() as f64;
        report.add(
            "seek curve",
            format!(
                "{} points: {:.3} ms over {}, {:.3} ms over {} cylinders; searches {spread:.3} ms apart",
                seeks.curve.len(),
                one.1,
                one.0,
                far.1,
                far.0
            ),
            1.0,
            "",
        );
    }
    let told = |&(distance, ms): &(u32, f64)| match ms {
        0.0 => format!("below {:.3} ms over {distance}", spread::LEAST / 1e6),
        ms => format!("{ms:.3} ms over {distance}"),
    };
    let spread: Vec<String> = seeks.spread.iter().map(told).collect();
    let note = "standard deviation, most to a quarter or 5 us; what the command overhead varies by is in it";
    let (value, sure, note) = if spread.is_empty() {
        ("not measured".to_owned(), 0.0, "no time was left, or no seek was caught")
    } else {
        (spread.join(", "), seeks.spread_sure, note)
    };
    report.add("spread of seeks", value, sure, note);
    // So much more of the moves may be the command's, or none.
    let parting = sure::of_bounds(seeks.overhead_may_be_more_ms() + seeks.overhead_ms, sure::NEAR_MS);
    let overhead_sure = seeks.overhead_sure.unwrap_or(parting);
    let (sure, note) = if seeks.parted {
        (overhead_sure, "behind another command a seek takes so much less")
    } else {
        (overhead_sure, "only its sum with a seek shows; taken from what hides the head switch")
    };
    report.add("command overhead", format!("{:.3} ms", seeks.overhead_ms), sure, note);
    let (sure, note) = if seeks.head_switch_moved {
        (sure::of_bounds(seeks.head_switch_ms, sure::NEAR_MS), "a bound, by reads over a change of head")
    } else if seeks.head_switch_shows {
        (seeks.head_switch_sure.unwrap_or(overhead_sure), "")
    } else {
        // It may be anything from nothing on; so may the overhead that is part of what was seen of it.
        let bound = seeks.head_switch_ms + if seeks.parted { 0.0 } else { seeks.overhead_ms };
        (sure::of_bounds(bound, sure::NEAR_MS), "hidden by the shortest seek: an upper bound")
    };
    report.add("head switch", format!("{:.3} ms", seeks.head_switch_ms), sure, note);
    if let Some(ms) = seeks.cylinder_switch_ms {
        report.add("cylinder switch", format!("{ms:.3} ms"), overhead_sure, "");
    }
    let (value, sure, note) = match zero_latency {
        Some(seen) => (if seen.on { "on" } else { "off" }, seen.sure, ""),
        None => ("not seen", 0.0, "the bus is slower than the medium, so that nothing depends on it"),
    };
    report.add("zero-latency reads", value.to_owned(), sure, note);
}

fn of_writes(
    report: &mut Report,
    written: Option<&Writes>,
    (reads, writes): (Option<ZeroLatency>, Option<ZeroLatency>),
    why_not: &str,
) {
    let on = |on: bool| (if on { "on" } else { "off" }).to_owned();
    let what = "zero-latency writes";
    match (writes, written) {
        (Some(seen), _) => report.add(what, on(seen.on), seen.sure, ""),
        (None, written) => {
            let why = match written {
                None => why_not,
                Some(written) if written.write_back => "writes are acknowledged from the buffer",
                Some(_) => "a slow bus hides it, or too little may be written: half a track on each of some",
            };
            let note = format!("an assumption, that they are as reads: {why}");
            report.add(what, on(reads.is_some_and(|seen| seen.on)), ASSUMED, note);
        }
    }
    let Some(written) = written else {
        for what in ["write cache", "write settle"] {
            report.add(what, "not measured".to_owned(), 0.0, why_not);
        }
        return;
    };
    let value = match (written.write_back, written.kept) {
        (true, _) => format!("write-back: acknowledged after {:.3} ms", written.acknowledged_ns / 1e6),
        (false, true) => "write-through: acknowledged from the medium, kept for reads".to_owned(),
        (false, false) => "off, or write-through that keeps nothing for reads".to_owned(),
    };
    report.add("write cache", value, written.sure, "");
    if let Some(Measured { ms, sure }) = written.overhead {
        report.add("overhead of a write", format!("{ms:.3} ms"), sure, "");
    }
    for (what, measured) in
        [("read after a write", written.read_after_write), ("write after a write", written.write_after_write)]
    {
        if let Some(Measured { ms, sure }) = measured {
            report.add(what, format!("{ms:+.3} ms"), sure, "of command overhead, beside that after a read");
        }
    }
    match &written.settle {
        Some(settle) => {
            let Settle { ms, apart_ms, may_be_more_ms, may_be_less_ms, .. } = settle;
            let mut note = format!("beyond a read of the same sector; measurements {apart_ms:.3} ms apart");
            if may_be_more_ms + may_be_less_ms > 0.0 {
                note += &format!(
                    "; up to {may_be_more_ms:.3} ms more or {may_be_less_ms:.3} less, by what part of a read's moves is its command's overhead: only their sum shows"
                );
            }
            report.add("write settle", format!("{ms:.3} ms"), settle.sure, note);
        }
        None => report.add(
            "write settle",
            "not seen".to_owned(),
            0.0,
            "no time was left, or no move to what may be written was caught; allow writes to more sectors",
        ),
    }
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
    let write_hit = match written {
        Some(w) if w.write_back => ms((w.acknowledged_ns - buffer.bus_sector_ns).max(0.0)),
        _ => hit,
    };
    // What is less than nothing is in the seeks.
    let later =
        |first: f64, more: Option<f64>| (((first + more.unwrap_or(0.0)).max(0.0)) * 1e5).round() / 1e5;
    let write_overhead = written.and_then(|w| w.overhead).map(|o| o.ms).unwrap_or(seeks.overhead_ms);
    Profile {
        format: FORMAT,
        name: options.name.clone(),
        title: format!("Probed drive of {} sectors", meter.capacity()),
        synthetic: false,
        sources: vec![format!(
            "freeblock probe: {} timed commands in {:.0} s; what was not measured stands in its report",
            meter.commands(),
            meter.drive_time().as_secs_f64()
        )],
        sector_bytes: meter.sector_bytes() as u32,
        rpm,
        cylinders,
        heads,
        mechanics: Mechanics {
            head_switch_ms: seeks.head_switch_ms,
            cylinder_switch_ms: seeks.cylinder_switch_ms,
            seek_spread_ms: seeks.spread.clone(),
            write_settle_ms: written.and_then(|w| w.settle.as_ref()).map_or(0.0, |settle| settle.ms),
            zero_latency_read,
            zero_latency_write,
        },
        seek: Seek::Table {
            points: if seeks.curve.is_empty() {
                vec![(1, seeks.head_switch_ms)]
            } else {
                seeks.curve.iter().map(|&(d, ms, _)| (d, ms)).collect()
            },
        },
        layout,
        firmware: Some(Firmware {
            bulk_sector_ms: ms(buffer.bus_sector_ns),
            overheads: Overheads {
                read_hit: (hit, hit),
                read_miss: (
                    seeks.overhead_ms,
                    later(seeks.overhead_ms, written.and_then(|w| w.read_after_write).map(|m| m.ms)),
                ),
                write_hit: (write_hit, write_hit),
                write_miss: (
                    write_overhead,
                    later(write_overhead, written.and_then(|w| w.write_after_write).map(|m| m.ms)),
                ),
                ..Overheads::default()
            },
            cache: Cache {
                enabled: buffer.keeps || buffer.reads_ahead,
                segments: buffer.segments.max(1) as u32,
                segment_sectors: (2 * buffer.ahead).max(256) as u32,
                read_ahead: if buffer.reads_ahead { ReadAhead::Segment } else { ReadAhead::None },
                read_ahead_over_requested: i32::from(buffer.reads_ahead && !buffer.keeps),
                read_free_sectors: buffer.keeps_before,
                write_back: match written {
                    Some(Writes { write_back: true, .. }) => WriteBack::Always,
                    _ => WriteBack::None,
                },
                ..Cache::default()
            },
            ..Firmware::default()
        }),
    }
}
