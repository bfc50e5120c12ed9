//! The measurement of tracks one after another, if readings vary and densities differ from track to track.
//!
//! A density that is wrong by one sector shows only over most of a track: a prediction would take a track of 203
//! sectors for one of 202 with a slip. So each track is measured by itself. Some readings at its beginning and some
//! near its end give its number of sectors, and thereby the beginning of the next track.

use super::Mapper;
use super::cycle::Track;
use crate::error::ProbeError;
use crate::revolutions::{frac, wrap};
use crate::zone::Zone;

/// The most sectors by which a track may differ from the previous one.
const TRACK_SECTORS_CHANGE_MAX: u64 = 4;

/// The places of readings, as parts of the fewest sectors that the track may have: near its end and at its beginning.
const END_PLACE_SHARES: (f64, f64) = (0.97, 0.7);
const START_PLACE_SHARES: (f64, f64) = (0.2, 0.02);

/// The distance between the middles of the two groups of readings, in revolutions.
const PLACES_APART_REVOLUTIONS: f64 = 0.725;

/// The least and the most readings of a track; and the number of standard deviations (of the measured number of
/// sectors) that must fit into half a sector.
const READINGS: (u64, u64) = (6, 24);
const CERTAINTY_DEVIATIONS: f64 = 2.5;

/// The largest deviation of a reading from the line of its track, in standard deviations.
const LINE_DEVIATIONS_MAX: f64 = 4.0;

/// The most tracks that are measured in a row; and the number of equal densities after which they belong to a plain
/// zone.
const WALKED_TRACKS_MAX: usize = 40;
const EQUAL_TRACKS_MIN: usize = 7;

/// The fewest sectors of a track that is measured by itself.
const TRACK_SECTORS_MIN: u64 = 24;

impl Mapper<'_, '_> {
    /// Measures whole tracks from the beginning of the last zone on, until one differs too much from the previous one.
    pub(super) fn walk(&mut self) -> Result<Vec<Track>, ProbeError> {
        let Some(zone) = self.map.zones.last().cloned() else { return Ok(Vec::new()) };
        let mut tracks: Vec<Track> = Vec::new();
        if zone.sectors < TRACK_SECTORS_MIN || self.readings(zone.sectors) > READINGS.1 {
            return Ok(tracks);
        }
        let mut before = zone.sectors;
        let mut first = self.begins(&zone)?;
        while tracks.len() < WALKED_TRACKS_MAX
            && first + 2 * (before + TRACK_SECTORS_CHANGE_MAX) < self.capacity
        {
            let Some(track) = self.track_at(first, before)? else { break };
            first += track.sectors;
            before = track.sectors;
            tracks.push(track);
            if tracks.len() == EQUAL_TRACKS_MIN && tracks.iter().all(|t| t.sectors == before) {
                tracks.clear();
                break;
            }
        }
        Ok(tracks)
    }

    /// Returns the first LBN of a whole track: that of the zone, if its first track has the full length, else that of
    /// the next track.
    fn begins(&mut self, zone: &Zone) -> Result<u64, ProbeError> {
        let alone = Zone::new(zone.first, zone.sectors, zone.angle);
        let near = |mapper: &mut Self, lbn: u64| -> Result<bool, ProbeError> {
            let threshold =
                0.4 / zone.sectors as f64 + lbn.abs_diff(zone.first) as f64 / (zone.sectors as f64).powi(2);
            Ok(mapper.check_angle_within(&alone, lbn, threshold)?.met)
        };
        let last = zone.first + zone.sectors - 2;
        if last >= self.capacity || near(self, last)? {
            return Ok(zone.first);
        }
        let (mut good, mut bad) = (zone.first, last);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if near(self, middle)? { good = middle } else { bad = middle }
        }
        Ok(bad)
    }

    /// Returns the number of readings that distinguish a track of this many sectors from one with a sector more; half
    /// of them are near each end.
    fn readings(&self, sectors: u64) -> u64 {
        let half = 2.0
            * (2.0 * CERTAINTY_DEVIATIONS * self.spread * sectors as f64 / PLACES_APART_REVOLUTIONS).powi(2);
        (2 * half.ceil() as u64).max(READINGS.0)
    }

    /// Measures a track that begins at `first`, with about as many sectors as the previous one; `None` if the readings
    /// do not fit one.
    fn track_at(&mut self, first: u64, before: u64) -> Result<Option<Track>, ProbeError> {
        let least = before.saturating_sub(TRACK_SECTORS_CHANGE_MAX).max(8);
        let half = self.readings(before) / 2;
        let mut readings: Vec<(u64, f64)> = Vec::new();
        // The LBNs are read in descending order, because the drive reads ahead in ascending order.
        for (high, low) in [END_PLACE_SHARES, START_PLACE_SHARES] {
            for k in 0..half {
                let part = high - (high - low) * k as f64 / (half - 1) as f64;
                let place = (part * least as f64).ceil() as u64;
                readings.push((place, self.angle(first + place)?));
            }
        }
        let line = |sectors: u64| {
            let ends: Vec<f64> =
                readings.iter().map(|&(k, angle)| angle - k as f64 / sectors as f64).collect();
            let one = ends.last().copied().unwrap_or(0.0);
            let mean = one + ends.iter().map(|e| wrap(e - one)).sum::<f64>() / ends.len().max(1) as f64;
            let worst = ends.iter().map(|e| wrap(e - mean).abs()).fold(0.0, f64::max);
            let misfit: f64 = ends.iter().map(|e| wrap(e - mean).powi(2)).sum();
            (misfit, worst, mean)
        };
        let best = (least..=before + TRACK_SECTORS_CHANGE_MAX)
            .map(|n| (line(n), n))
            .min_by(|a, b| a.0.0.total_cmp(&b.0.0));
        let Some(((_, worst, angle), sectors)) = best else { return Ok(None) };
        if worst > LINE_DEVIATIONS_MAX * self.spread {
            return Ok(None);
        }
        // The last sector must be on the track, too.
        let last = sectors - 1;
        let off = self.meter.deviation(first + last, angle + last as f64 / sectors as f64)?;
        let track = Track { first, sectors, angle: frac(angle) };
        Ok((off.abs() < LINE_DEVIATIONS_MAX * self.spread).then_some(track))
    }
}
