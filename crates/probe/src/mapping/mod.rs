//! From LBN 0 to the last: zones, track boundaries, skews, slips, by angles alone.
//!
//! A zone's rotations repeat, so a few of them say where each LBN should stand. The mapper predicts ever farther
//! ahead ([`course`]); where a prediction fails it looks for the first LBN that is off ([`edge`]), and finds out what is
//! there ([`event`]).

mod beginning;
mod course;
mod cycle;
mod edge;
mod event;
mod join;
mod look;
mod walk;

use crate::error::ProbeError;
use crate::fit::Fit;
use crate::meter::Meter;
use crate::zone::Zone;
use std::collections::BTreeSet;

/// The most zones; beyond that the drive is not understood.
const MOST_ZONES: usize = 4_096;

/// The most tracks of a drive.
const MOST_TRACKS: u64 = crate::geometry::MOST_HEADS * model::MOST_CYLINDERS as u64 / 2;

/// When mapping ends, of the time that a probe may take.
pub(super) const LONGEST: f64 = 0.6;

/// An angle this near is near enough where readings vary, ns: half of what counts as predicted.
const GOOD_ENOUGH: f64 = 25_000.0;

/// A sector that takes so many standard deviations of a reading can be told from the next.
const TOLD: f64 = 4.0;

/// The map, and what of it is strange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) zones: Vec<Zone>,
    /// From here on the drive was not understood; its capacity, if it was.
    pub(crate) mapped: u64,
    /// Tracks on which an angle was taken for it.
    pub(crate) measured: u64,
}

impl Map {
    /// The map of a drive of so many sectors of which nothing is known.
    pub(crate) fn of_nothing(capacity: u64) -> Self {
        let mut zone = Zone::new(0, capacity.max(1), 0.0);
        zone.end = capacity;
        Self { zones: vec![zone], ..Self::default() }
    }

    pub(crate) fn zone_of(&self, lbn: u64) -> Option<&Zone> {
        let after = self.zones.partition_point(|z| z.first <= lbn);
        self.zones.get(after.checked_sub(1)?).filter(|z| lbn < z.end)
    }

    /// Where LBNs stood otherwise than those before had it: a zone's end, a slip, one that stands elsewhere alone.
    pub(crate) fn breaks(&self) -> u64 {
        let inside: usize = self.zones.iter().map(|z| z.shifts.len() + z.odd.len()).sum();
        (inside + self.zones.len().saturating_sub(1)) as u64
    }

    /// Zones that end inside of a track, but for the last.
    pub(crate) fn ends_inside_of_tracks(&self) -> u64 {
        let inside = |zone: &&Zone| {
            zone.cycle.is_none() && !(zone.place(zone.end - 1) + 1).is_multiple_of(zone.sectors)
        };
        self.zones.iter().rev().skip(1).filter(inside).count() as u64
    }

    /// How many tracks these LBNs stand on.
    fn tracks_of(&self, lbns: &[u64]) -> u64 {
        let of = |&lbn: &u64| self.zone_of(lbn).map(|zone| (zone.first, zone.locate(lbn).0));
        lbns.iter().filter_map(of).collect::<BTreeSet<_>>().len() as u64
    }

    /// These stand elsewhere, each alone.
    pub(crate) fn stand_alone(&mut self, lbns: &[u64]) {
        for &lbn in lbns {
            let zone = self.zones.iter_mut().find(|zone| (zone.first..zone.end).contains(&lbn));
            if let Some(zone) = zone
                && let Err(place) = zone.odd.binary_search(&lbn)
            {
                zone.odd.insert(place, lbn);
            }
        }
    }

    pub(crate) fn predict(&self, lbn: u64) -> Option<f64> {
        self.zone_of(lbn).map(|z| z.predict(lbn))
    }
}

pub(crate) struct Mapper<'m, 'a> {
    meter: &'m mut Meter<'a>,
    capacity: u64,
    /// Of one reading, turns.
    spread: f64,
    /// To what the predictions of the stretch looked at are known, turns; infinite while it is not known.
    known: f64,
    /// What is known of the angles of the zone before.
    fit: Option<Fit>,
    /// An LBN that begins something else, and its angle.
    found: Option<(u64, f64)>,
    /// Up to here tracks were looked at one by one.
    walked: u64,
    map: Map,
}

impl<'m, 'a> Mapper<'m, 'a> {
    pub(crate) fn new(meter: &'m mut Meter<'a>) -> Self {
        let capacity = meter.capacity();
        let spread = meter.spread.max(0.6 / meter.revolution());
        Self {
            meter,
            capacity,
            spread,
            known: f64::INFINITY,
            fit: None,
            found: None,
            walked: 0,
            map: Map::default(),
        }
    }

    /// How near to its prediction an angle meets it, on a track of so many sectors.
    fn tolerance(&self, sectors: u64) -> f64 {
        let turn = self.meter.revolution();
        if !self.meter.is_noisy() {
            // A nanosecond of clock, and what of it adds up.
            6.0 / turn + 2e-5
        } else if self.tells_sectors(sectors) {
            f64::min(0.5 / sectors as f64, GOOD_ENOUGH / turn)
        } else {
            f64::max(3.5 * self.spread, GOOD_ENOUGH / turn)
        }
    }

    /// Whether one sector more or less can be told.
    fn tells_sectors(&self, sectors: u64) -> bool {
        !self.meter.is_noisy() || 1.0 / sectors as f64 > TOLD * self.spread
    }

    /// Maps the drive; and why that ended before the drive does, where it was for the drive's sake.
    pub(crate) fn run(mut self) -> Result<(Map, Result<(), ProbeError>), ProbeError> {
        let ended = match self.all_zones() {
            Err(error) if !error.is_of_the_drive() => return Err(error),
            ended => ended,
        };
        let at = self.map.zones.last().map_or(0, |zone| zone.end);
        self.map.mapped = at.min(self.capacity);
        if at < self.capacity {
            // The rest was not understood: it is taken to go on as before, and is reported as unsure.
            let rest = self.rest(at)?;
            self.map.zones.push(rest);
        }
        let measured = self.meter.measured();
        self.map.measured = self.map.tracks_of(&measured);
        Ok((self.map, ended))
    }

    /// Zone after zone, as long as there is time.
    fn all_zones(&mut self) -> Result<(), ProbeError> {
        let mut at = 0;
        while at < self.capacity && self.map.zones.len() < MOST_ZONES && self.meter.is_within(LONGEST) {
            self.meter.stage("zones and tracks", 0.05 + 0.6 * at as f64 / self.capacity as f64);
            let angle = self.found.take().filter(|&(lbn, _)| lbn == at).map(|(_, angle)| angle);
            let mut zone = self.begin(at, angle)?;
            self.extend(&mut zone)?;
            // What is not understood is left behind an LBN at a time.
            zone.end = zone.end.clamp(at + 1, self.capacity);
            if let Some(joined) = self.join(&zone)? {
                self.map.zones.pop();
                let known = joined.end;
                zone = joined;
                if zone.region.is_some() && known == self.capacity {
                    self.extend(&mut zone)?;
                }
            }
            at = zone.end;
            self.map.zones.push(zone);
            if let Some(mut zone) = self.join_pairs()? {
                self.map.zones.retain(|z| z.first < zone.first);
                self.found = None;
                self.extend(&mut zone)?;
                at = zone.end;
                self.map.zones.push(zone);
            }
            if let Some(zone) = self.cycle()? {
                at = zone.end;
                self.map.zones.push(zone);
            }
        }
        Ok(())
    }

    /// A zone for all LBNs from one on, which were not mapped.
    fn rest(&mut self, at: u64) -> Result<Zone, ProbeError> {
        let largest = self.map.zones.iter().max_by_key(|z| z.lbns());
        let sectors = largest.map_or(1, |z| z.sectors).max(self.fewest_sectors());
        let levels = largest.map(|z| z.levels.clone()).unwrap_or_default();
        let angle = match self.angle(at) {
            Err(error) if !error.is_of_the_drive() => return Err(error),
            angle => angle.unwrap_or_default(),
        };
        let mut rest = Zone::new(at, sectors, angle);
        rest.end = self.capacity;
        rest.levels = levels;
        Ok(rest)
    }

    /// The fewest sectors that a drive's tracks have in the mean: with fewer there would be more tracks than a profile has.
    fn fewest_sectors(&self) -> u64 {
        self.capacity.div_ceil(MOST_TRACKS)
    }
}
