//! Checks that no track belongs to two zones.

use super::PlacedZone;
use crate::error::ProfileError;
use alloc::format;
use alloc::vec::Vec;

/// The most runs of tracks of zones that interleave on one surface: a small file could claim billions.
const RUNS_MAX: u64 = 1 << 22;

/// The cylinders between the outermost and the innermost track of a section under one head.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hull {
    head: u16,
    first: u32,
    last: u32,
    zone: u16,
    section: u16,
}

/// Fails if two zones have the same track, or one has a track past the drive's last cylinder.
pub(super) fn check(zones: &[PlacedZone], cylinders: u32) -> Result<(), ProfileError> {
    let mut hulls = Vec::new();
    for (z, zone) in zones.iter().enumerate() {
        for (s, section) in zone.sections.iter().enumerate() {
            let (_, last) = section.span();
            if last >= cylinders {
                return Err(ProfileError::new(
                    format!("layout.zone[{z}]"),
                    format!("a track on cylinder {last} of {cylinders}"),
                    "cylinders count from 0; raise `cylinders`, or shift the surface by less",
                ));
            }
            let from = hulls.len();
            for run in &section.runs {
                let (low, high) = run.span();
                let first = section.first_cylinder + low;
                let last = section.first_cylinder + section.cylinders * (section.repetitions - 1) + high;
                let known = hulls.iter_mut().skip(from).find(|hull: &&mut Hull| hull.head == run.head);
                match known {
                    Some(hull) => {
                        hull.first = hull.first.min(first);
                        hull.last = hull.last.max(last);
                    }
                    None => {
                        hulls.push(Hull { head: run.head, first, last, zone: z as u16, section: s as u16 })
                    }
                }
            }
        }
    }
    hulls.sort_unstable();
    // Each group of hulls of one head that overlap, directly or through others, is compared run by run.
    let mut rest = hulls.as_slice();
    while let Some(first) = rest.first() {
        let (mut last, mut count) = (first.last, 1);
        while let Some(next) = rest.get(count).filter(|next| next.head == first.head && next.first <= last) {
            last = last.max(next.last);
            count += 1;
        }
        let (chain, others) = rest.split_at(count);
        if count > 1 {
            check_runs(zones, chain)?;
        }
        rest = others;
    }
    Ok(())
}

/// Fails if two hulls of one head have the same track.
fn check_runs(zones: &[PlacedZone], hulls: &[Hull]) -> Result<(), ProfileError> {
    let mut runs: Vec<(u32, u32, u16)> = Vec::new();
    let mut all = 0;
    for hull in hulls {
        let Some(section) =
            zones.get(usize::from(hull.zone)).and_then(|z| z.sections.get(usize::from(hull.section)))
        else {
            continue;
        };
        let of_head = || section.runs.iter().filter(|run| run.head == hull.head);
        all += of_head().count() as u64 * u64::from(section.repetitions);
        if all > RUNS_MAX {
            return Err(ProfileError::new(
                format!("layout.zone[{}]", hull.zone),
                format!("the zone interleaves with others on surface {} in too many places", hull.head),
                "give it cylinders of its own, or make one pattern of these zones",
            ));
        }
        for repetition in 0..section.repetitions {
            let first = section.first_cylinder + repetition * section.cylinders;
            runs.extend(of_head().map(|run| {
                let (low, high) = run.span();
                (first + low, first + high, hull.zone)
            }));
        }
    }
    runs.sort_unstable();
    for pair in runs.windows(2) {
        if let [(_, last, one), (first, _, other)] = pair
            && first <= last
        {
            let head = hulls.first().map_or(0, |hull| hull.head);
            return Err(ProfileError::new(
                format!("layout.zone[{}].first_cylinder", one.max(other)),
                format!("cylinder {first} of surface {head} belongs to zone {}, too", one.min(other)),
                "give every track to one zone",
            ));
        }
    }
    Ok(())
}
