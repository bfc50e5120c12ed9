//! Cylinders without LBNs between zones, found by moves over them.
//!
//! Moves inside of zones give the time of each distance. If a move from one zone to the next takes longer than its
//! cylinders require, it crosses cylinders without LBNs: reserved, spare, or left between two densities.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::shortest_of;
use crate::seeks::{InLayout, SeekPoint};
use model::profile::Zone;
use model::{Layout, Location};
use units::{Cylinder, Head, Lbn, LbnRange, Op, Sectors};

/// The distances of moves over a boundary, in cylinders with LBNs. The first two suffice if they take the same time as
/// inside of a zone.
const DISTANCES_CYLINDERS: [u32; 6] = [4, 9, 2, 14, 21, 30];
const FIRST_DISTANCES: usize = 2;

/// Times that differ by less than this are equal, ns: the first if times are exact, the second if they vary.
const EQUAL_TIMES_NS_MAX: f64 = 14_000.0;
const EQUAL_NOISY_TIMES_NS_MAX: f64 = 60_000.0;

/// The widest gap between two zones that is looked for, in cylinders.
const GAP_CYLINDERS_MAX: u32 = 2_000;

/// The most zones between which gaps are measured: with more, zones are artefacts of a map that does not fit the drive.
const BOUNDARIES_MAX: usize = 100;

/// A head switch may hide seeks that are shorter than it by more than this, ns: such distances are not measured.
const SWITCH_DIFFERENCE_NS_MAX: f64 = 20_000.0;

/// The share of the probe's time limit at which this measurement ends.
const TIME_SHARE_MAX: f64 = 0.84;

/// The measured times of moves, ns: by distance, and the shortest to another head; and the time of a sector on the bus.
pub(crate) struct Known<'k> {
    pub(crate) curve: &'k [SeekPoint],
    pub(crate) switch: f64,
    pub(crate) bus_ns: f64,
}

/// Returns the cylinders without LBNs before each zone except the first; `None` if moves do not show them.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    layout: &Layout,
    zones: &[Zone],
    known: &Known<'_>,
) -> Result<Vec<Option<u32>>, ProbeError> {
    let mut gaps = Vec::new();
    for (i, two) in zones.windows(2).enumerate() {
        let [before, after] = two else { continue };
        let looked_at = zones.len() <= BOUNDARIES_MAX && meter.is_within_before_check(TIME_SHARE_MAX);
        meter.stage("gaps between zones", 0.84 + 0.02 * i as f64 / zones.len() as f64);
        gaps.push(if looked_at { gap(meter, layout, before, after, known)? } else { None });
    }
    Ok(gaps)
}

fn gap(
    meter: &mut Meter<'_>,
    layout: &Layout,
    before: &Zone,
    after: &Zone,
    known: &Known<'_>,
) -> Result<Option<u32>, ProbeError> {
    let room = |zone: &Zone| zone.last_cylinder - zone.first_cylinder + 1;
    let same = if meter.is_noisy() { EQUAL_NOISY_TIMES_NS_MAX } else { EQUAL_TIMES_NS_MAX };
    let searches = if meter.is_noisy() { 2 } else { 1 };
    let mut times: Vec<(u32, f64)> = Vec::new();
    for distance in DISTANCES_CYLINDERS {
        let expected = match known.time(distance) {
            Some(ns)
                if ns > known.switch - SWITCH_DIFFERENCE_NS_MAX && distance < room(before) + room(after) =>
            {
                ns
            }
            _ => continue,
        };
        let mut leg = |meter: &mut Meter<'_>| leg(meter, layout, (before, after), distance, known.bus_ns);
        let range = (expected - 100_000.0).max(0.0)..expected + 400_000.0;
        if let Some(found) = shortest_of(searches, meter, range, known.bus_ns, &mut leg)? {
            times.push((distance, found.ns));
        }
        if times.len() == FIRST_DISTANCES
            && times.iter().all(|&(d, ns)| known.time(d).is_some_and(|t| (t - ns).abs() < same))
        {
            return Ok(Some(0));
        }
    }
    let misfit = |gap: u32| -> Option<f64> {
        times.iter().map(|&(d, ns)| known.time(d + gap).map(|t| (t - ns).abs().min(10.0 * same))).sum()
    };
    // Of gaps that fit equally well the smallest is taken.
    let mut best = (misfit(0).unwrap_or(0.0), 0);
    for gap in 1..=GAP_CYLINDERS_MAX {
        let Some(misfit) = misfit(gap) else { break };
        if misfit < best.0 - 1.0 {
            best = (misfit, gap);
        }
    }
    let clear = times.len() > FIRST_DISTANCES && best.0 < 2.0 * same * times.len() as f64;
    Ok(clear.then_some(best.1))
}

impl Known<'_> {
    /// Returns the interpolated time of a move over this many cylinders, ns; `None` beyond the longest distance.
    fn time(&self, distance: u32) -> Option<f64> {
        let after = self.curve.partition_point(|p| p.distance < distance);
        let above = self.curve.get(after)?;
        let below = match after.checked_sub(1).and_then(|i| self.curve.get(i)) {
            Some(below) if above.distance > distance => below,
            _ => return Some(above.time),
        };
        let part = f64::from(distance - below.distance) / f64::from(above.distance - below.distance);
        Some(below.time + part * (above.time - below.time))
    }
}

/// Reads in one of two neighbouring zones, and returns the target of a move of this many cylinders to the other zone;
/// `None` if there is no such target.
fn leg<'l>(
    meter: &mut Meter<'_>,
    layout: &'l Layout,
    (before, after): (&Zone, &Zone),
    distance: u32,
    bus_ns: f64,
) -> Result<Option<InLayout<'l>>, ProbeError> {
    let least = (distance - 1).saturating_sub(after.last_cylinder - after.first_cylinder);
    let most = (distance - 1).min(before.last_cylinder - before.first_cylinder);
    let within = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
    for _ in 0..8 {
        let back = least + meter.draw.below(u64::from(most - least) + 1) as u32;
        let (a, b) = (before.last_cylinder - back, after.first_cylinder + distance - 1 - back);
        let head = Head::new(meter.draw.below(u64::from(layout.heads())) as u16);
        let (from, to) = if meter.draw.below(2) == 0 { (a, b) } else { (b, a) };
        let track = |cylinder: u32| layout.track_at(Cylinder::new(cylinder), head);
        let (Some(from), Some(to)) = (track(from), track(to)) else { continue };
        let sectors = layout.track(from).sectors;
        let sector = meter.draw.below(u64::from(sectors)) as u32;
        let Some(source) = layout.lbn_at(Location { track: from, sector }).map(Lbn::get) else { continue };
        if source >= meter.capacity() || layout.extents(to).next().is_none() {
            continue;
        }
        let reading = meter.read(source, 1)?;
        if meter.is_hit(&reading) {
            // A cache hit did not move the arm, so `source` is evicted.
            meter.leave(source)?;
            continue;
        }
        let (sector, bus) = (1.0 / f64::from(layout.track(to).sectors), bus_ns / meter.revolution());
        return Ok(Some(InLayout { layout, index: to, end_revolutions: sector + bus, within, op: Op::Read }));
    }
    Ok(None)
}
