//! Converts parts of the tree to zones and patterns of a profile.

use super::{AdjacentTracks, Part, too_large};
use crate::disksim::fields::flattened;
use crate::disksim::source::{Fault, refuse};
use crate::disksim::syntax::Block;
use crate::profile::{
    LayoutSpec, Pattern, Remap, Revolutions, Run, SectorsPerTrack, Sparing, SparingRegion, Zone,
};

/// The most sectors without LBNs that are listed one by one, because a repeated track can claim billions.
const SLIPS_MAX: u64 = 1 << 22;

/// Writes the zones of the profile.
pub(super) struct Writer {
    pub spec: LayoutSpec,
    pub heads: u16,
    /// The number of LBNs of the zones so far.
    pub capacity: u64,
}

impl Writer {
    pub(super) fn zone(&mut self, part: &Part) -> Result<(), Fault> {
        let at = part.at;
        let whole = |n: u64| u32::try_from(n).map_err(|_| too_large(at));
        for run in &part.tracks {
            self.heads = self.heads.max(run.head.saturating_add(1));
        }
        let density = density(&part.tracks, self.heads);
        let runs = part
            .tracks
            .iter()
            .map(|run| {
                Ok(Run {
                    head: run.head,
                    cylinder: whole(run.cylinder)?,
                    tracks: whole(run.count)?,
                    outward: run.outward,
                    offset: revolutions(run.revolutions),
                    skew: revolutions(if run.count > 1 { run.skew } else { 0.0 }),
                    sectors_per_track: (density_on(&density, run.head) != run.kind.sectors)
                        .then_some(run.kind.sectors),
                })
            })
            .collect::<Result<Vec<_>, Fault>>()?;
        let last = part
            .cylinders
            .checked_mul(part.repetitions)
            .and_then(|n| n.checked_add(part.first))
            .and_then(|n| n.checked_sub(1))
            .ok_or_else(|| too_large(at))?;
        let pattern = self.pattern(whole(part.cylinders)?, revolutions(part.skew), runs);
        let (sparing, slips) = unused(part)?;
        let each =
            part.tracks.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.count.checked_mul(run.lbns)?));
        self.capacity = each
            .and_then(|each| each.checked_mul(part.repetitions))
            .and_then(|lbns| self.capacity.checked_add(lbns))
            .filter(|&sum| sum <= i64::MAX as u64)
            .ok_or_else(|| too_large(at))?;
        self.spec.zones.push(Zone {
            first_cylinder: whole(part.first)?,
            last_cylinder: whole(last)?,
            sectors_per_track: density,
            pattern: Some(pattern),
            offset: revolutions(part.revolutions),
            track_skew: Revolutions::default(),
            cylinder_skew: Revolutions::default(),
            head_skew: None,
            reserved: 0,
            sparing,
            slips,
            defects: Vec::new(),
            order: None,
            surfaces: Vec::new(),
            surface_offsets: Vec::new(),
            slip_runs: Vec::new(),
            slip_tracks: Vec::new(),
        });
        Ok(())
    }

    /// Returns the name of the profile's pattern with these values, which is added if the profile has none.
    fn pattern(&mut self, cylinders: u32, skew: Revolutions, runs: Vec<Run>) -> String {
        let known =
            self.spec.patterns.iter().find(|p| p.cylinders == cylinders && p.skew == skew && p.runs == runs);
        if let Some(pattern) = known {
            return pattern.name.clone();
        }
        let name = format!("pattern-{}", self.spec.patterns.len());
        self.spec.patterns.push(Pattern { name: name.clone(), cylinders, skew, runs });
        name
    }

    /// Reads `Slips`: pairs of the first skipped sector and the number of skipped sectors. Sectors are counted in LBN order,
    /// including skipped ones. DiskSim does not document this, but with any other count the slips of neighbouring tracks of
    /// the Maxtor 300 GB would not lie at one angle, as those of a scratch do (see the test
    /// `slips_of_neighbouring_tracks_lie_at_one_angle`).
    pub(super) fn slips(&mut self, block: &Block, notes: &mut Vec<String>) -> Result<(), Fault> {
        let mut items = Vec::new();
        flattened(block.list("Slips")?, &mut items);
        let (pairs, odd) = items.as_chunks::<2>();
        if let Some(item) = odd.first() {
            return Err(refuse(item.at(), "a slip without its count", "give pairs `LBN, count`"));
        }
        if pairs.is_empty() {
            return Ok(());
        }
        notes.push(
            "`Slips` are read as pairs of the first bad sector, bad ones counted, and their number".into(),
        );
        let (mut slipped, mut least, mut end) = (0_u64, 0, 0);
        // The zone of the current slip, and the number of sectors before that zone.
        let (mut zone, mut zone_start) = (0, 0_u64);
        let sizes: Vec<u64> = self.spec.zones.iter().map(|z| self.mapped_sectors(z)).collect();
        for [first, count] in pairs {
            let at = first.at();
            let first = first.whole("Slips", 0, self.capacity)?;
            if first < least {
                return Err(refuse(at, "the slips are not in ascending order", "sort them by LBN"));
            }
            least = first;
            let count = count.whole("Slips", 0, SLIPS_MAX)?;
            let bad = first.max(end)..first.max(end) + count;
            end = bad.end;
            slipped += count;
            if slipped > SLIPS_MAX || end > self.capacity {
                return Err(too_large(at));
            }
            let mut next = bad.start;
            while next < bad.end {
                while sizes.get(zone).is_some_and(|&size| next - zone_start >= size) {
                    zone_start += sizes.get(zone).copied().unwrap_or(0);
                    zone += 1;
                }
                let (Some(target), Some(size)) = (self.spec.zones.get_mut(zone), sizes.get(zone)) else {
                    break;
                };
                if !target.slips.is_empty() && !target.sparing.slip_to_end || target.sparing.spares > 0 {
                    return Err(refuse(
                        at,
                        "slips in a zone whose tracks have sectors without LBNs are not supported",
                        "remove the slips, or the unused sectors of the tracks",
                    ));
                }
                target.sparing.slip_to_end = true;
                let here = bad.end.min(zone_start + size) - next;
                match here {
                    1 => target.slips.push(next - zone_start),
                    _ => target.slip_runs.push((next - zone_start, here)),
                }
                next += here;
            }
        }
        self.capacity -= slipped;
        Ok(())
    }

    fn mapped_sectors(&self, zone: &Zone) -> u64 {
        let pattern = self.spec.patterns.iter().find(|p| Some(&p.name) == zone.pattern.as_ref());
        pattern.map_or(0, |pattern| {
            let repetitions = (zone.last_cylinder - zone.first_cylinder + 1) / pattern.cylinders.max(1);
            let sectors = pattern.runs.iter().map(|run| {
                let each =
                    run.sectors_per_track.unwrap_or_else(|| density_on(&zone.sectors_per_track, run.head));
                u64::from(run.tracks) * u64::from(each)
            });
            sectors.sum::<u64>() * u64::from(repetitions)
        })
    }

    /// Reads `Remaps`: rows of LBN, length, cylinder, head, sector, sectors per track.
    pub(super) fn remaps(&mut self, block: &Block) -> Result<(), Fault> {
        let mut items = Vec::new();
        flattened(block.list("Remaps")?, &mut items);
        let (rows, odd) = items.as_chunks::<6>();
        if let Some(item) = odd.first() {
            return Err(refuse(
                item.at(),
                "an incomplete remap",
                "give rows `LBN, length, cylinder, head, sector, sectors per track`",
            ));
        }
        for [lbn, sectors, cylinder, head, sector, _] in rows {
            self.spec.remaps.push(Remap {
                lbn: lbn.whole("Remaps", 0, u64::MAX)?,
                sectors: sectors.whole("Remaps", 1, u64::from(u32::MAX))? as u32,
                cylinder: cylinder.whole("Remaps", 0, u64::from(u32::MAX))? as u32,
                head: head.whole("Remaps", 0, u64::from(u16::MAX))? as u16,
                sector: sector.whole("Remaps", 0, u64::from(u32::MAX))? as u32,
            });
        }
        Ok(())
    }
}

fn revolutions(revolutions: f64) -> Revolutions {
    // Rounding to twelve digits removes the errors of sums, because the file's angles have six. The addition of zero makes 0.0
    // of -0.0.
    Revolutions::Decimal((revolutions * 1e12).round() / 1e12 + 0.0)
}

/// Returns the sectors per track: one number if all tracks agree, otherwise for each head the number of its first run.
fn density(tracks: &[AdjacentTracks], heads: u16) -> SectorsPerTrack {
    let first = tracks.first().map_or(1, |run| run.kind.sectors);
    if tracks.iter().all(|run| run.kind.sectors == first) {
        return SectorsPerTrack::Same(first);
    }
    let mut by_head = vec![None; usize::from(heads)];
    for run in tracks {
        if let Some(sectors) = by_head.get_mut(usize::from(run.head)) {
            sectors.get_or_insert(run.kind.sectors);
        }
    }
    SectorsPerTrack::ByHead(by_head.into_iter().map(|sectors| sectors.unwrap_or(first)).collect())
}

fn density_on(density: &SectorsPerTrack, head: u16) -> u32 {
    match density {
        SectorsPerTrack::Same(sectors) => *sectors,
        SectorsPerTrack::ByHead(by_head) => by_head.get(usize::from(head)).copied().unwrap_or(0),
    }
}

/// Returns the sectors without LBNs: as spares of each track if all tracks agree, otherwise as slips.
fn unused(part: &Part) -> Result<(Sparing, Vec<u64>), Fault> {
    let behind = |run: &AdjacentTracks| u64::from(run.kind.sectors) - u64::from(run.kind.first) - run.lbns;
    if part.tracks.iter().all(|run| run.kind.first == 0 && behind(run) == 0) {
        return Ok((Sparing::default(), Vec::new()));
    }
    if let Some(one) = part.tracks.first() {
        let before = u64::from(one.kind.first);
        let alike = |run: &AdjacentTracks| u64::from(run.kind.first) == before && behind(run) == behind(one);
        if part.tracks.iter().all(alike) && (before == 0 || behind(one) == 0) {
            let spares = before + behind(one);
            let sparing =
                Sparing { per: SparingRegion::Track, spares, at_front: before > 0, ..Sparing::default() };
            return Ok((sparing, Vec::new()));
        }
    }
    let mut slips = Vec::new();
    let mut place = 0_u64;
    for _ in 0..part.repetitions {
        for run in &part.tracks {
            if run.kind.first == 0 && behind(run) == 0 {
                place += run.count * u64::from(run.kind.sectors);
                continue;
            }
            for _ in 0..run.count {
                slips.extend(place..place + u64::from(run.kind.first));
                place += u64::from(run.kind.sectors);
                slips.extend(place - behind(run)..place);
                if slips.len() as u64 > SLIPS_MAX {
                    return Err(refuse(
                        part.at,
                        "too many sectors without LBNs on tracks that differ in them",
                        "give all tracks of the run the same unused sectors",
                    ));
                }
            }
        }
    }
    Ok((Sparing { slip_to_end: true, ..Sparing::default() }, slips))
}
