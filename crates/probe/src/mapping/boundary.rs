//! The boundary between zones of short sectors if readings vary.
//!
//! A density of 1% more or less moves the first LBNs of a track by less than a reading shows, so the first LBN that
//! deviates is some hundred LBNs behind the boundary. But a track ends with a jump by the skew, which readings locate
//! to one LBN. The ends of two tracks give the density, and the boundary is the end of a track of either density.

use super::Mapper;
use crate::error::ProbeError;
use crate::revolutions::{frac, wrap};
use crate::zone::{Level, Shift, Zone};

/// The most tracks of the new zone before the first LBN that deviates from the previous zone's angles.
const TRACKS_BEFORE_MAX: u64 = 3;

/// The most slipped sectors in the previous zone that the readings of that zone may have missed.
const HIDDEN_SLIPS_MAX: u64 = 8;

/// The least skew that shows the end of a track, relative to the tolerance of an angle.
const SKEW_TOLERANCE_RATIO_MIN: f64 = 4.0;

/// The shape of the runs of a zone whose densities differ by head. A run is the consecutive tracks of one density. The
/// next zone has other densities, and mostly runs of the same shape.
#[derive(Clone, Debug)]
pub(super) struct RunShape {
    /// The numbers of tracks that runs have, descending.
    tracks: Vec<u64>,
    /// The rotation from each track to the next, in revolutions.
    skew: f64,
}

impl RunShape {
    pub(super) fn new(tracks: impl Iterator<Item = u64>, skew: f64) -> Self {
        let mut tracks: Vec<u64> = tracks.collect();
        tracks.sort_unstable_by(|a, b| b.cmp(a));
        tracks.dedup();
        Self { tracks, skew }
    }
}

impl Mapper<'_, '_> {
    /// Tests whether a zone is a run of the known shape; if so, ends it a few LBNs behind the end of the run and
    /// returns true.
    pub(super) fn is_run(&mut self, zone: &mut Zone) -> Result<bool, ProbeError> {
        let n = zone.sectors;
        let (Some(shape), [level]) = (self.shape.clone(), zone.levels.as_slice()) else { return Ok(false) };
        let alike = wrap(level.advance - shape.skew).abs() < self.tolerance(n);
        if !alike || !self.finds_ends_by_skews(n) || !zone.shifts.is_empty() || zone.region.is_some() {
            return Ok(false);
        }
        let mut run = zone.clone();
        run.levels = vec![Level { unit: 1, advance: shape.skew }];
        let before = self.map.zones.last().map_or(0, Zone::tracks);
        for tracks in RunShape::new(shape.tracks.iter().copied().chain([before]), shape.skew).tracks {
            let end = zone.first + tracks * n;
            if tracks <= TRACKS_BEFORE_MAX || end + 3 * n >= self.capacity {
                continue;
            }
            let points = [end - 1 - n / 4, end - n, end - n * (tracks / 4), end - n * (tracks / 2)];
            if !self.all_meet(&run, &points)? {
                continue;
            }
            // The density of the next run shows only some tracks behind its beginning.
            if self.meets(&run, end + 2 * n + n / 2)? {
                return Ok(false);
            }
            run.end = end + n / 16;
            *zone = run;
            (self.found, self.fit) = (None, None);
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns a zone of another density that begins with a track of the previous zone, and ends the previous zone
    /// there instead of at `at`.
    pub(super) fn begin_with_track(&mut self, at: u64) -> Result<Option<Zone>, ProbeError> {
        let Some(before) = self.map.zones.last().filter(|z| z.region.is_none()).cloned() else {
            return Ok(None);
        };
        let (track, sector) = before.locate(before.end - 1);
        let n = before.sectors_on(track);
        let begins = at.saturating_sub(sector + 1);
        if !self.finds_ends_by_skews(n) || sector + 1 == n || track <= TRACKS_BEFORE_MAX {
            return Ok(None);
        }
        self.known = f64::INFINITY;
        let angle = self.sure_angle_alone(begins)?;
        let sectors = self.density(begins, angle)?;
        let Some(end) = self.track_end(begins, sectors, angle)? else { return Ok(None) };
        // The first track may begin earlier, or have slips, so the second gives the density.
        let second = self.sure_angle(end, sectors)?;
        let Some(n) = self.track_end(end, sectors, second)?.map(|next| next - end) else { return Ok(None) };
        let skew = wrap(second - angle + (n as f64 - (end - begins) as f64) / n as f64);
        if !self.finds_ends_by_skews(n)
            || end + 2 * n >= self.capacity
            || skew.abs() < SKEW_TOLERANCE_RATIO_MIN * self.tolerance(n)
        {
            return Ok(None);
        }
        let mut places = Vec::new();
        for passed in 1..=TRACKS_BEFORE_MAX {
            let Some(first) = end.checked_sub(passed * n).filter(|&first| first > before.first) else {
                break;
            };
            let (last, _) = before.locate(first - 1);
            let slipped = before.track_place(last + 1) - before.place(first - 1) - 1;
            if slipped <= HIDDEN_SLIPS_MAX && first <= at && before.sectors_on(last) != n {
                places.push((slipped, passed, first, last + 1));
            }
        }
        // The likeliest boundary is the one with the fewest hidden slips.
        places.sort_unstable();
        for (slipped, passed, first, tracks) in places {
            let sector = n as f64 - (end - begins) as f64;
            let turned = (passed - 1) as f64 * skew + sector / n as f64;
            let mut zone = Zone::new(first, n, frac(angle - turned));
            zone.end = self.capacity;
            zone.levels.push(Level { unit: 1, advance: skew });
            if !self.all_meet(&zone, &[first + n / 2, end - 1, end, end + n - 1, end + n])? {
                continue;
            }
            let slip = self.hidden_slip(&before, first, tracks, slipped)?;
            if let Some(last) = self.map.zones.last_mut() {
                last.end = first;
                last.shifts.retain(|s| s.lbn < first);
                last.shifts.extend(slip);
                last.shifts.sort_unstable_by_key(|s| s.lbn);
            }
            return Ok(Some(zone));
        }
        Ok(None)
    }

    /// Returns the first LBN past the track of `first`, if that track has nearly `sectors` sectors.
    fn track_end(&mut self, first: u64, sectors: u64, angle: f64) -> Result<Option<u64>, ProbeError> {
        let track = Zone::new(first, sectors, angle);
        let loose = self.tolerance(sectors);
        let (mut on, mut off) = (first, first + sectors + sectors / 4);
        let (mut at, mut step) = (first + sectors - 1, 1);
        while off - on > 1 {
            if at <= on || at >= off {
                at = on + (off - on) / 2;
            }
            if off >= self.capacity {
                return Ok(None);
            }
            let met = self.check_angle(&track, at, loose)?.met;
            if met {
                on = at
            } else {
                off = at
            }
            at = if met { at + step } else { at.saturating_sub(step) };
            step *= 2;
        }
        Ok(Some(off).filter(|&off| off > first + 1))
    }

    /// Returns the slip of a few sectors in a cycle if the run before `off` ends a few sectors early; `off` is the
    /// first LBN of the next run.
    pub(super) fn slip_before_end(
        &mut self,
        zone: &Zone,
        off: u64,
        more: f64,
    ) -> Result<Option<Shift>, ProbeError> {
        let (track, sector) = zone.locate(off);
        let (n, next) = (zone.sectors_on(track), zone.sectors_on(track + 1));
        let slipped = n - sector;
        if slipped > HIDDEN_SLIPS_MAX || off + 2 * next >= zone.end {
            return Ok(None);
        }
        let mut trial = zone.clone();
        trial.shifts.push(Shift { lbn: off, sectors: slipped });
        let points = [off, off + 1, off + next / 2, off + next - 1, off + next];
        if !self.all_meet_within(&trial, &points, more)? {
            return Ok(None);
        }
        self.hidden_slip(zone, off, track + 1, slipped)
    }

    /// Returns the slip of `slipped` sectors on one of the last tracks of a zone that ends at `end`: the slip is on the
    /// first track that ends too early.
    fn hidden_slip(
        &mut self,
        zone: &Zone,
        end: u64,
        tracks: u64,
        slipped: u64,
    ) -> Result<Option<Shift>, ProbeError> {
        if slipped == 0 {
            return Ok(None);
        }
        let loose = self.tolerance(zone.sectors);
        let since = zone.shifts.last().map_or(0, |s| zone.locate(s.lbn).0 + 1);
        let (mut right, mut early) = (since, tracks);
        while early > right + 1 {
            let middle = right + (early - right) / 2;
            // If no sector was slipped before the track `middle`, this is the last sector of the track before it.
            let last = zone.lbn_near(middle, 0).min(end) - 1;
            if self.check_angle(zone, last, loose)?.met { right = middle } else { early = middle }
        }
        let on = early.saturating_sub(1);
        let lbn = zone.lbn_near(on, zone.sectors_on(on) / 2).min(end);
        Ok(Some(Shift { lbn, sectors: slipped }))
    }
}
