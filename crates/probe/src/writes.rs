//! Where the user allows writes: when they are acknowledged, and what the head needs to settle before one.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::shortest_of;
use crate::pairs::{self, Move};
use crate::seeks::{InLayout, Seeks};
use crate::turns::median;
use model::{Layout, Location};
use units::{Cylinder, Duration, Lbn, LbnRange, Op, TrackIndex};

/// The least that must be allowed, sectors: the head's waits must differ.
pub(crate) const LEAST: u64 = 64;

/// Writes whose responses say when they are acknowledged.
const WRITES: usize = 11;

/// Responses so near to one another, turns, are not the medium's.
const ALIKE: f64 = 0.06;

/// What a drive may still do after it acknowledged a write from its buffer.
const FLUSH: Duration = Duration::from_millis(500);

/// Moves that are compared: distances as parts of the drive's cylinders.
const DISTANCES: [u32; 4] = [20, 10, 5, 3];

/// Searches of each.
const SEARCHES: usize = 3;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    /// Whether writes are acknowledged from the buffer.
    pub(crate) write_back: bool,
    /// Response of such a write of one sector, ns.
    pub(crate) acknowledged_ns: f64,
    /// Whether sectors just written are read from the buffer.
    pub(crate) kept: bool,
    /// What a write needs beyond a read of the same sector, ms, and how far apart the measurements are; not seen
    /// where writes are acknowledged from the buffer.
    pub(crate) settle_ms: Option<(f64, f64)>,
    /// A write's command overhead, ms, where two commands at a time part it from the settling.
    pub(crate) overhead_ms: Option<f64>,
}

/// Writes to `region`, and nowhere else.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    layout: &Layout,
    buffer: &Buffer,
    seeks: &Seeks,
    region: LbnRange,
) -> Result<Writes, ProbeError> {
    meter.stage("writes", 0.94);
    let (write_back, acknowledged_ns) = acknowledged(meter, region)?;
    let kept = is_kept(meter, region)?;
    let (mut settle_ms, mut overheads) = (None, Vec::new());
    if write_back {
        let quiet = meter.now() + FLUSH;
        meter.execute(quiet, Op::Read, 0, 1)?;
    } else {
        let mut differences = Vec::new();
        for part in DISTANCES {
            let distance = (layout.cylinders() / part).max(1);
            let read = moved(meter, layout, buffer, seeks, region, distance, Op::Read)?;
            let write = moved(meter, layout, buffer, seeks, region, distance, Op::Write)?;
            let (Some(read), Some(write)) = (read, write) else { continue };
            match behind(meter, layout, region, distance, write)? {
                Some((read, moved)) => {
                    differences.push((moved - read) / 1e6);
                    overheads.push(((write - moved) / 1e6).max(0.0));
                }
                None => differences.push((write - read) / 1e6),
            }
        }
        if let (Some(least), Some(most)) =
            (differences.iter().copied().reduce(f64::min), differences.iter().copied().reduce(f64::max))
        {
            settle_ms = Some(((median(&mut differences) * 1e3).round() / 1e3, most - least));
        }
    }
    meter.find_phase()?;
    let overhead_ms = (!overheads.is_empty()).then(|| (median(&mut overheads) * 1e3).round() / 1e3);
    Ok(Writes { write_back, acknowledged_ns, kept, settle_ms, overhead_ms })
}

/// The shortest moves over `distance` cylinders behind another command, to read and to write, ns; nothing on a handle that
/// takes one command at a time.
fn behind(
    meter: &mut Meter<'_>,
    layout: &Layout,
    region: LbnRange,
    distance: u32,
    most: f64,
) -> Result<Option<(f64, f64)>, ProbeError> {
    if !meter.takes_two() {
        return Ok(None);
    }
    let moved = |op| Move { distance, other_head: false, op, within: region };
    let read = pairs::shortest(meter, layout, moved(Op::Read), most)?;
    let write = pairs::shortest(meter, layout, moved(Op::Write), most)?;
    Ok(read.zip(write))
}

/// Whether writes are all acknowledged as quickly, whatever the platter's place, and after how long.
fn acknowledged(meter: &mut Meter<'_>, region: LbnRange) -> Result<(bool, f64), ProbeError> {
    let mut responses = Vec::new();
    for _ in 0..WRITES {
        let away = meter.draw.below(meter.capacity());
        let one = meter.read(away, 1)?;
        // What an earlier write left to do is done.
        let wait = Duration::from_nanos(((6.0 + meter.draw.unit()) * meter.revolution()) as u64);
        let lbn = region.start().get() + meter.draw.below(region.len().get());
        responses.push(meter.execute(one.completed + wait, Op::Write, lbn, 1)?.response_ns());
    }
    let middle = median(&mut responses);
    let alike = responses.iter().filter(|&&ns| (ns - middle).abs() < ALIKE * meter.revolution()).count();
    Ok((alike >= WRITES - 2, middle))
}

/// Whether a sector just written is read from the buffer.
fn is_kept(meter: &mut Meter<'_>, region: LbnRange) -> Result<bool, ProbeError> {
    if meter.hit_below == 0.0 {
        return Ok(false);
    }
    let mut hits = 0;
    for _ in 0..3 {
        let lbn = region.start().get() + meter.draw.below(region.len().get());
        meter.leave(lbn)?;
        let one = meter.execute(meter.now(), Op::Write, lbn, 1)?;
        let wait = Duration::from_nanos(((6.0 + meter.draw.unit()) * meter.revolution()) as u64);
        let reading = meter.execute(one.completed + wait, Op::Read, lbn, 1)?;
        hits += u32::from(meter.is_hit(&reading));
    }
    Ok(hits >= 2)
}

/// The shortest move over `distance` cylinders to a sector of `region`, overhead included, ns.
fn moved(
    meter: &mut Meter<'_>,
    layout: &Layout,
    buffer: &Buffer,
    seeks: &Seeks,
    region: LbnRange,
    distance: u32,
    op: Op,
) -> Result<Option<f64>, ProbeError> {
    let bus = buffer.bus_sector_ns;
    let end_turns = bus / meter.revolution();
    let mut leg = |meter: &mut Meter<'_>| -> Result<Option<InLayout<'_>>, ProbeError> {
        for _ in 0..8 {
            let lbn = region.start().get() + meter.draw.below(region.len().get());
            let Some(at) = layout.locate(Lbn::new(lbn)) else { continue };
            let Some(source) = source(meter, layout, at.track, distance) else { continue };
            let mut reading = meter.read(source, 1)?;
            if meter.is_hit(&reading) {
                meter.leave(source)?;
                reading = meter.read(source, 1)?;
            }
            if meter.is_hit(&reading) {
                continue;
            }
            let sector = 1.0 / f64::from(layout.track(at.track).sectors);
            return Ok(Some(InLayout {
                layout,
                index: at.track,
                end_turns: sector + end_turns,
                within: region,
                op,
            }));
        }
        Ok(None)
    };
    let guess = seeks.at(distance) * 1e6;
    let range = ((guess - 400_000.0).max(0.0), guess + 400_000.0);
    Ok(shortest_of(SEARCHES, meter, range, bus, &mut leg)?.map(|(ns, _)| ns))
}

/// An LBN `distance` cylinders from a track, under the same head.
fn source(meter: &mut Meter<'_>, layout: &Layout, track: TrackIndex, distance: u32) -> Option<u64> {
    let here = layout.track(track);
    let cylinder = here.cylinder.get().checked_add(distance).filter(|&c| c < layout.cylinders());
    let cylinder = cylinder.or(here.cylinder.get().checked_sub(distance))?;
    let index = layout.track_at(Cylinder::new(cylinder), here.head)?;
    let sector = meter.draw.below(u64::from(layout.track(index).sectors)) as u32;
    let lbn = layout.lbn_at(Location { track: index, sector })?.get();
    (lbn < meter.capacity()).then_some(lbn)
}
