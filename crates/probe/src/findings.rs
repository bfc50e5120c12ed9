//! The measurements as findings of a report, each with its confidence.

use crate::buffer::Buffer;
use crate::geometry::Geometry;
use crate::mapping::Map;
use crate::report::{Check, PREDICTED_SHARE_MIN, Report};
use crate::seeks::Seeks;
use crate::shape::Kind;
use crate::spread;
use crate::sure::{self, Measured};
use crate::writes::{Settle, Writes};
use crate::zone::{Slot, Zone};
use std::collections::BTreeMap;

/// Below this confidence in an order of tracks, the report says that the other direction of heads is as likely.
const ORDER_CONFIDENCE_MIN: f64 = 0.7;

/// The highest confidence in the heads and the order of tracks if only a part of the drive was mapped.
const UNMAPPED_CONFIDENCE_MAX: f64 = 0.5;

/// The reported densities leave out one in this many LBNs at either end of their range.
const SMALL_SHARE_DIVISOR: u64 = 50;

/// The confidence in one of two alternatives without any evidence.
const UNTESTED_CONFIDENCE: f64 = 0.5;

pub(crate) fn of_switched_off(report: &mut Report, rest: &Buffer) {
    let of = |on: bool| if on { "on" } else { "off" };
    let value = format!("look-ahead {}, read cache {}", of(rest.reads_ahead), of(rest.keeps));
    report.add("buffer while probing", value, 1.0, "switched by the probe for the measurements that follow");
}

pub(crate) fn of_buffer(report: &mut Report, buffer: &Buffer) {
    let yes = |on: bool| (if on { "on" } else { "off" }).to_owned();
    report.add("read cache", yes(buffer.keeps || buffer.reads_ahead), 1.0, "");
    let ahead = if buffer.reads_ahead { format!("on, {} sectors or more", buffer.ahead) } else { yes(false) };
    report.add("read-ahead", ahead, 1.0, "");
    if buffer.segments.value > 0 {
        let note = "random reads until one is evicted, if that is the least recently used";
        report.add("cache segments", buffer.segments.value.to_string(), buffer.segments.sure, note);
        let on = format!("{:.3} ms if the read continues the last one", buffer.on_ns / 1e6);
        let note = if buffer.on_ns < buffer.hit_ns { on } else { String::new() };
        report.add("hit", format!("{:.3} ms for a sector", buffer.hit_ns / 1e6), 1.0, note);
        if buffer.tells_bus {
            of_bus(report, Measured { value: buffer.bus_sector_ns, sure: 1.0 }, "");
        }
    }
}

pub(crate) fn of_bus(report: &mut Report, sector_ns: Measured<f64>, note: &str) {
    report.add("bus", format!("{:.4} ms a sector", sector_ns.value / 1e6), sector_ns.sure, note);
}

pub(crate) fn of_map(report: &mut Report, map: &Map, geometry: &Geometry, cylinders: u32, exact: bool) {
    let shape = geometry.shape;
    let tracks: u64 = map.zones.iter().map(|z| z.tracks()).sum();
    let end = map.zones.last().map_or(0, |z| z.end);
    let note = if map.mapped >= end { "" } else { "the rest of the drive was not understood" };
    // The confidence is the mapped share of the drive.
    report.add("zones", map.zones.len().to_string(), map.mapped as f64 / end.max(1) as f64, note);
    let (densest, sparsest) = densities(map);
    let note = "without a fiftieth of the LBNs at either end";
    report.add("sectors per track", format!("{densest} to {sparsest}"), 1.0, note);
    let least = least_tracks(map);
    let evidence = Evidence::of(map, exact);
    let sure_of_tracks = evidence.of_tracks();
    report.add(
        "tracks",
        between(least.min(tracks), tracks),
        sure_of_tracks,
        format!(
            "a zone may begin inside a track; {} of {} measured tracks matched those before",
            evidence.agree, evidence.looked_at
        ),
    );
    let looked_at = map.measured.to_string();
    report.add(
        "tracks measured",
        looked_at,
        1.0,
        "for the map; the others are taken to be like these, and sampled in the check",
    );
    let slips: u64 = map.zones.iter().flat_map(|z| &z.shifts).map(|s| s.sectors).sum();
    report.add("slipped sectors", slips.to_string(), evidence.of_slips(), "those that later LBNs show");
    let (kind, other) = match shape.kind {
        Kind::Cylinder => ("cylinder by cylinder, heads ascending".to_owned(), "back and forth"),
        Kind::Serpentine => ("cylinder by cylinder, heads back and forth".to_owned(), "ascending"),
        Kind::ByZone => ("zone by zone, each on one surface".to_owned(), ""),
        Kind::Bands(width) => (format!("bands of {width} tracks, surface by surface, back and forth"), ""),
        Kind::ForwardBands(width) => {
            (format!("bands of {width} tracks, surface by surface, always in the same order"), "")
        }
    };
    // Tracks without a place in the map do not show which of them are near to one another.
    let part = "may be otherwise in the rest of the drive, which was not understood";
    let most = if map.mapped >= end { 1.0 } else { UNMAPPED_CONFIDENCE_MAX };
    let (sure_of_heads, sure) =
        (geometry.sure.min(most), geometry.sure_of_order.min(geometry.sure).min(most));
    let note = if map.mapped < end {
        part.to_owned()
    } else if sure < ORDER_CONFIDENCE_MIN && sure_of_heads >= ORDER_CONFIDENCE_MIN && !other.is_empty() {
        format!("surely by cylinders; heads {other} would take the same times")
    } else {
        String::new()
    };
    report.add("order of tracks", kind, sure, note);
    report.add("heads", shape.heads.to_string(), sure_of_heads, if map.mapped < end { part } else { "" });
    // Cylinders are computed from heads and tracks.
    let least = least.div_ceil(shape.heads.max(1)).min(u64::from(cylinders));
    let sure = sure_of_heads.min(sure_of_tracks);
    report.add("cylinders", between(least, u64::from(cylinders)), sure, "those with LBNs");
}

/// The evidence for the map's tracks and slips.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// The tracks on which an angle was measured, and those of them that matched the prediction from the tracks before.
    looked_at: u64,
    agree: u64,
    /// The places where a slip may have been missed, or reported although there is none.
    doubtful: u64,
}

impl Evidence {
    fn of(map: &Map, exact: bool) -> Self {
        let breaks = map.breaks();
        // Several slips may be on one measured track; each of them counts as a track.
        let looked_at = map.measured.max(breaks);
        let slips: usize = map.zones.iter().map(|zone| zone.shifts.len()).sum();
        // If angles give a sector's position only to a part of a track, slips near a zone's end look like that end.
        let ends = if exact { 0 } else { map.ends_inside_of_tracks() };
        Self { looked_at, agree: looked_at - breaks, doubtful: slips as u64 + ends }
    }

    /// Returns the probability that an unmeasured track matches the tracks before it. The more breaks were found, the more
    /// were missed.
    fn of_tracks(self) -> f64 {
        sure::next(self.agree, self.looked_at)
    }

    /// Returns the probability that no slip was missed or invented: that the next track and each doubtful place are as
    /// assumed.
    fn of_slips(self) -> f64 {
        self.of_tracks().powf((1 + self.doubtful) as f64)
    }
}

/// Returns the most and the fewest sectors on a track, without a small share of LBNs at either end: at an irregularity
/// the mapper begins a new zone, whose density may rest on few measurements.
fn densities(map: &Map) -> (u64, u64) {
    let mut lbns: BTreeMap<u64, u64> = BTreeMap::new();
    for zone in &map.zones {
        match &zone.cycle {
            Some(cycle) => {
                let part = |s: &Slot| {
                    (zone.lbns() as f64 * (s.tracks * s.sectors) as f64 / cycle.sectors as f64) as u64
                };
                cycle.slots.iter().for_each(|s| *lbns.entry(s.sectors).or_default() += part(s));
            }
            None => *lbns.entry(zone.sectors).or_default() += zone.lbns(),
        }
    }
    let few = lbns.values().sum::<u64>() / SMALL_SHARE_DIVISOR;
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

/// Returns the fewest tracks that hold the map's LBNs: without slips, and with each zone beginning where the previous
/// zone ends.
fn least_tracks(map: &Map) -> u64 {
    let of = |zone: &Zone| {
        let slipped: u64 = zone.shifts.iter().map(|shift| shift.sectors).sum();
        match &zone.cycle {
            Some(cycle) => zone.lbns() as f64 / cycle.sectors as f64 * cycle.tracks() as f64,
            None => (zone.place(zone.end - 1) + 1).saturating_sub(slipped) as f64 / zone.sectors as f64,
        }
    };
    map.zones.iter().map(of).sum::<f64>().ceil() as u64
}

fn between(least: u64, most: u64) -> String {
    if least < most { format!("{least} to {most}") } else { most.to_string() }
}

/// Reports the cylinders without LBNs. Moves over `shown` of the `boundaries` between zones showed whether there are
/// any. The confidence is that all boundaries are as measured, or as assumed without a measurement.
pub(crate) fn of_gaps(report: &mut Report, left_out: u32, shown: u64, boundaries: u64) {
    let sure = sure::next(shown, boundaries).powf(boundaries.max(1) as f64);
    let note = format!("between zones, as moves over them show at {shown} of {boundaries}");
    report.add("cylinders without LBNs", left_out.to_string(), sure, note);
}

pub(crate) fn of_seeks(report: &mut Report, seeks: &Seeks, zero_latency: Option<Measured<bool>>) {
    if let (Some(one), Some(far)) = (seeks.curve.first(), seeks.curve.last()) {
        let spread = seeks.curve.iter().map(|p| p.spread).sum::<f64>() / seeks.curve.len() as f64;
        report.add(
            "seek curve",
            format!(
                "{} points: {:.3} ms over {}, {:.3} ms over {} cylinders; searches {spread:.3} ms apart",
                seeks.curve.len(),
                one.time,
                one.distance,
                far.time,
                far.distance
            ),
            1.0,
            "",
        );
    }
    let described = |&(distance, ms): &(u32, f64)| match ms {
        0.0 => format!("below {:.3} ms over {distance}", spread::DEVIATION_NS_MIN / 1e6),
        ms => format!("{ms:.3} ms over {distance}"),
    };
    let spread: Vec<String> = seeks.spread.value.iter().map(described).collect();
    let note =
        "standard deviation, most to a quarter or 5 us; includes the variation of the command overhead";
    let (value, sure, note) = if spread.is_empty() {
        ("not measured".to_owned(), 0.0, "no time was left, or no seek was caught")
    } else {
        (spread.join(", "), seeks.spread.sure, note)
    };
    report.add("spread of seeks", value, sure, note);
    // Unless two commands at a time showed it, the command's overhead may be anything from zero to this sum.
    let parting =
        sure::of_bounds(seeks.overhead_may_be_more_ms() + seeks.overhead_ms, sure::EQUAL_TIMES_MS_MAX);
    let overhead_sure = seeks.overhead_sure.unwrap_or(parting);
    let (sure, note) = if seeks.parted {
        (overhead_sure, "the time by which a seek is shorter right after another command")
    } else {
        (
            overhead_sure,
            "measured only together with a seek; taken from the shortest seek, a head switch and a buffer hit",
        )
    };
    report.add("command overhead", format!("{:.3} ms", seeks.overhead_ms), sure, note);
    let (sure, note) = if seeks.head_switch_moved {
        (
            sure::of_bounds(seeks.head_switch_ms, sure::EQUAL_TIMES_MS_MAX),
            "a bound, by reads over a change of head",
        )
    } else if seeks.head_switch_shows {
        (seeks.head_switch_sure.unwrap_or(overhead_sure), "")
    } else {
        // The time of a head switch is between zero and this bound, which includes an unseparated overhead.
        let bound = seeks.head_switch_ms + if seeks.parted { 0.0 } else { seeks.overhead_ms };
        (sure::of_bounds(bound, sure::EQUAL_TIMES_MS_MAX), "hidden by the shortest seek: an upper bound")
    };
    report.add("head switch", format!("{:.3} ms", seeks.head_switch_ms), sure, note);
    if let Some(ms) = seeks.cylinder_switch_ms {
        report.add("cylinder switch", format!("{ms:.3} ms"), overhead_sure, "");
    }
    let (value, sure, note) = match zero_latency {
        Some(seen) => (if seen.value { "on" } else { "off" }, seen.sure, ""),
        None => ("not seen", 0.0, "the bus is slower than the medium, so that nothing depends on it"),
    };
    report.add("zero-latency reads", value.to_owned(), sure, note);
}

pub(crate) fn of_writes(
    report: &mut Report,
    written: Option<&Writes>,
    (reads, writes): (Option<Measured<bool>>, Option<Measured<bool>>),
    why_not: &str,
) {
    let on = |on: bool| (if on { "on" } else { "off" }).to_owned();
    let what = "zero-latency writes";
    match (writes, written) {
        (Some(seen), _) => report.add(what, on(seen.value), seen.sure, ""),
        (None, written) => {
            let why = match written {
                None => why_not,
                Some(written) if written.write_back.value => "writes are acknowledged from the buffer",
                Some(_) => "hidden by a slow bus, or the writable sectors hold too few half tracks",
            };
            let note = format!("an assumption, that they are as reads: {why}");
            report.add(what, on(reads.is_some_and(|seen| seen.value)), UNTESTED_CONFIDENCE, note);
        }
    }
    let Some(written) = written else {
        for what in ["write cache", "write settle"] {
            report.add(what, "not measured".to_owned(), 0.0, why_not);
        }
        return;
    };
    let value = match (written.write_back.value, written.kept) {
        (true, _) => format!("write-back: acknowledged after {:.3} ms", written.acknowledged_ns / 1e6),
        (false, true) => "write-through: acknowledged from the medium, kept for reads".to_owned(),
        (false, false) => "off, or write-through that keeps nothing for reads".to_owned(),
    };
    report.add("write cache", value, written.write_back.sure, "");
    if let Some(Measured { value: ms, sure }) = written.overhead {
        report.add("overhead of a write", format!("{ms:.3} ms"), sure, "");
    }
    for (what, measured) in
        [("read after a write", written.read_after_write), ("write after a write", written.write_after_write)]
    {
        if let Some(Measured { value: ms, sure }) = measured {
            report.add(
                what,
                format!("{ms:+.3} ms"),
                sure,
                "command overhead, compared with that after a read",
            );
        }
    }
    match &written.settle {
        Some(settle) => {
            let Settle { ms, apart_ms, may_be_more_ms, may_be_less_ms, .. } = settle;
            let mut note = format!("beyond a read of the same sector; measurements {apart_ms:.3} ms apart");
            if may_be_more_ms + may_be_less_ms > 0.0 {
                note += &format!(
                    "; up to {may_be_more_ms:.3} ms more or {may_be_less_ms:.3} less: a read's move was measured only together with its command's overhead"
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

/// Limits the confidence of findings by the check: to the probability that 97% of all reads end at the predicted
/// angles, and for some findings in the predicted revolutions.
pub(crate) fn doubt(report: &mut Report, check: &Check, map: &Map, sure_of_heads: f64) {
    let end = map.zones.last().map_or(0, |zone| zone.end);
    let count = |share: f64| (share * check.requests as f64).round() as u64;
    let mapped = map.mapped as f64 >= PREDICTED_SHARE_MIN * end as f64;
    let in_place = if mapped {
        sure::at_least(PREDICTED_SHARE_MIN, count(check.elsewhere), check.requests)
    } else {
        0.0
    };
    let places =
        ["zones", "sectors per track", "tracks", "cylinders", "slipped sectors", "cylinders without LBNs"];
    report.no_surer(&places, in_place);
    report.no_surer(&["zero-latency reads", "read over a change of head"], in_place);
    let in_revolution = sure::at_least(PREDICTED_SHARE_MIN, count(check.revolutions_off), check.requests);
    report.no_surer(&["seek curve"], in_revolution.min(in_place));
    report.no_surer(&["spread of seeks", "command overhead"], in_place);
    report.no_surer(&["head switch", "cylinder switch"], in_place.min(sure_of_heads));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Shift;

    /// Returns zones of 100 tracks of 50 sectors, with this many measured tracks.
    fn map(zones: u64, measured: u64) -> Map {
        let zone = |i: u64| Zone { end: 5_000 * (i + 1), ..Zone::new(5_000 * i, 50, 0.0) };
        Map { zones: (0..zones).map(zone).collect(), mapped: 5_000 * zones, measured }
    }

    fn slipped(mut map: Map, slips: u64) -> Map {
        let shift = |i: u64| Shift { lbn: 100 + 200 * i, sectors: 1 };
        if let Some(zone) = map.zones.first_mut() {
            zone.shifts = (0..slips).map(shift).collect();
        }
        map
    }

    #[test]
    fn the_more_tracks_disagree_the_less_sure_are_tracks_and_slips() {
        // One of 58 tracks began a zone.
        let two = Evidence::of(&map(2, 58), true);
        assert_eq!((two.looked_at, two.agree, two.of_tracks()), (58, 57, 58.0 / 60.0));
        for exact in [true, false] {
            let sure = |map: Map| {
                let evidence = Evidence::of(&map, exact);
                [evidence.of_tracks(), evidence.of_slips()]
            };
            let fall = |of: &[[f64; 2]]| of.windows(2).all(|w| w[1][0] < w[0][0] && w[1][1] < w[0][1]);
            let by_zones: Vec<_> = (1..20).map(|zones| sure(map(zones, 100))).collect();
            let by_slips: Vec<_> = (0..20).map(|slips| sure(slipped(map(2, 100), slips))).collect();
            assert!(fall(&by_zones) && fall(&by_slips), "{by_zones:?} {by_slips:?}");
            // Three slips on ever fewer measured tracks.
            let by_looks: Vec<_> = [400, 200, 100, 50, 5, 0].map(|n| sure(slipped(map(2, n), 3))).to_vec();
            assert!(fall(&by_looks[..5]) && by_looks[4][0] <= 1.0 / 3.0, "{by_looks:?}");
            // In the last map only tracks with slips are measured.
            assert!(by_looks.iter().flatten().all(|&p| p > 0.0 && p < 1.0), "{by_looks:?}");
        }
    }

    #[test]
    fn the_more_boundaries_are_unmeasured_the_less_sure_are_cylinders_without_lbns() {
        let sure = |shown, boundaries| {
            let mut report = Report::new();
            of_gaps(&mut report, 3, shown, boundaries);
            report.findings.first().map(|f| f.confidence).unwrap_or_default()
        };
        assert_eq!([sure(0, 0), sure(0, 1), sure(1, 1), sure(2, 2)], [0.5, 0.33, 0.67, 0.56]);
        assert!(sure(3, 3) > sure(2, 3) && sure(2, 3) > sure(1, 3) && sure(1, 3) > sure(0, 3));
    }

    #[test]
    fn where_readings_vary_a_zones_end_inside_of_a_track_may_be_a_slip() {
        let mut inside = map(3, 100);
        let (exact, noisy) = (Evidence::of(&inside, true), Evidence::of(&inside, false));
        assert_eq!(exact.of_slips(), noisy.of_slips());
        if let [first, second, ..] = inside.zones.as_mut_slice() {
            (first.end, second.first) = (4_990, 4_990);
        }
        assert_eq!(Evidence::of(&inside, true).of_slips(), exact.of_slips());
        assert!(Evidence::of(&inside, false).of_slips() < noisy.of_slips());
    }
}
