//! The map of a drive from LBN 0 to the last: zones, track boundaries, skews and slips, from angles alone.
//!
//! The rotations of a zone repeat, so a few of them predict the angle of each LBN. The mapper predicts LBNs ever
//! farther ahead ([`course`]); if a prediction fails, it searches for the first LBN that deviates ([`edge`]), and
//! determines the cause ([`event`]).

mod angle_check;
mod beginning;
mod boundary;
mod course;
mod cycle;
mod edge;
mod event;
mod join;
mod runs;
mod walk;

use crate::error::ProbeError;
use crate::fit::Fit;
use crate::meter::{Meter, SectorAngle};
use crate::shape::HEADS_MAX;
use crate::zone::Zone;
use boundary::RunShape;
use std::collections::BTreeSet;

/// The most zones: a drive that seems to have more does not fit the model.
const ZONES_MAX: usize = 4_096;

/// The most tracks of a drive, from which the least mean number of sectors per track follows.
const DRIVE_TRACKS_MAX: u64 = HEADS_MAX * model::CYLINDERS_MAX as u64 / 2;

/// The share of the probe's time limit at which mapping ends.
pub(super) const TIME_SHARE_MAX: f64 = 0.6;

/// The tolerance of an angle if readings vary, ns: half of the tolerance of a prediction.
const NOISY_ANGLE_ERROR_NS_MAX: f64 = 25_000.0;

/// The least length of a sector that can be distinguished from the next, in standard deviations of a reading.
const SECTOR_DEVIATIONS_MIN: f64 = 4.0;

/// The length of sectors below which the densities of neighbouring runs look like slips, in standard deviations of a
/// reading.
const SHORT_SECTOR_DEVIATIONS_MAX: f64 = 2.0;

/// The map, with its irregularities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) zones: Vec<Zone>,
    /// The end of the mapped LBNs; the capacity, if all were mapped.
    pub(crate) mapped: u64,
    /// The number of tracks on which an angle was measured.
    pub(crate) measured: u64,
}

impl Map {
    /// Returns the map of an unknown drive of this capacity.
    pub(crate) fn of_nothing(capacity: u64) -> Self {
        let mut zone = Zone::new(0, capacity.max(1), 0.0);
        zone.end = capacity;
        Self { zones: vec![zone], ..Self::default() }
    }

    pub(crate) fn zone_of(&self, lbn: u64) -> Option<&Zone> {
        let after = self.zones.partition_point(|z| z.first <= lbn);
        self.zones.get(after.checked_sub(1)?).filter(|z| lbn < z.end)
    }

    /// Returns the number of irregularities: ends of zones, slips, and single LBNs that are not at their zones' angles.
    pub(crate) fn breaks(&self) -> u64 {
        let inside: usize = self.zones.iter().map(|z| z.shifts.len() + z.odd.len()).sum();
        (inside + self.zones.len().saturating_sub(1)) as u64
    }

    /// Returns the number of zones that end inside of a track, without the last zone.
    pub(crate) fn ends_inside_of_tracks(&self) -> u64 {
        let inside = |zone: &&Zone| {
            zone.cycle.is_none() && !(zone.place(zone.end - 1) + 1).is_multiple_of(zone.sectors)
        };
        self.zones.iter().rev().skip(1).filter(inside).count() as u64
    }

    /// Returns the number of tracks that hold these LBNs.
    fn tracks_of(&self, lbns: &[u64]) -> u64 {
        let of = |&lbn: &u64| self.zone_of(lbn).map(|zone| (zone.first, zone.locate(lbn).0));
        lbns.iter().filter_map(of).collect::<BTreeSet<_>>().len() as u64
    }

    /// Records single LBNs that are not at the angles of their zones.
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
    /// The standard deviation of one reading, in revolutions.
    spread: f64,
    /// The standard deviation of the angle that is predicted at present, in revolutions; infinite while it is unknown.
    known: f64,
    /// The fit of the angles of the previous zone.
    fit: Option<Fit>,
    /// The sector at which a new zone begins, with its angle.
    found: Option<SectorAngle>,
    /// The end of the tracks that were measured one by one.
    walked: u64,
    /// The shape of the runs of the last zone of recurring runs.
    shape: Option<RunShape>,
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
            shape: None,
            map: Map::default(),
        }
    }

    /// Returns the tolerance of an angle on a track of this many sectors, in revolutions.
    fn tolerance(&self, sectors: u64) -> f64 {
        let revolution = self.meter.revolution();
        if !self.meter.is_noisy() {
            // The clock's resolution of a nanosecond, and accumulated rounding.
            6.0 / revolution + 2e-5
        } else if self.resolves_sectors(sectors) {
            f64::min(0.5 / sectors as f64, NOISY_ANGLE_ERROR_NS_MAX / revolution)
        } else {
            f64::max(3.5 * self.spread, NOISY_ANGLE_ERROR_NS_MAX / revolution)
        }
    }

    /// Returns whether readings can distinguish adjacent sectors.
    fn resolves_sectors(&self, sectors: u64) -> bool {
        !self.meter.is_noisy() || 1.0 / sectors as f64 > SECTOR_DEVIATIONS_MIN * self.spread
    }

    /// Returns whether the ends of tracks of this many sectors are found by their skews, because readings vary by a
    /// large part of a sector, or by a smaller part on a drive with runs.
    fn finds_ends_by_skews(&self, sectors: u64) -> bool {
        let is_short = 1.0 / (sectors as f64) < SHORT_SECTOR_DEVIATIONS_MAX * self.spread;
        !self.resolves_sectors(sectors) && (is_short || self.shape.is_some())
    }

    /// Maps the drive; also returns the reason if the drive itself ended the map early.
    pub(crate) fn run(mut self) -> Result<(Map, Result<(), ProbeError>), ProbeError> {
        let ended = match self.all_zones() {
            Err(error) if !error.is_of_the_drive() => return Err(error),
            ended => ended,
        };
        let at = self.map.zones.last().map_or(0, |zone| zone.end);
        self.map.mapped = at.min(self.capacity);
        if at < self.capacity {
            // The rest of the drive is assumed to continue as before, and is reported as unsure.
            let rest = self.rest(at)?;
            self.map.zones.push(rest);
        }
        self.map.make_runs_equal(self.equal_rotations());
        let measured = self.meter.measured();
        self.map.measured = self.map.tracks_of(&measured);
        Ok((self.map, ended))
    }

    /// Maps one zone after another while time is left.
    fn all_zones(&mut self) -> Result<(), ProbeError> {
        let mut at = 0;
        while at < self.capacity && self.map.zones.len() < ZONES_MAX && self.meter.is_within(TIME_SHARE_MAX) {
            self.meter.stage("zones and tracks", 0.05 + 0.6 * at as f64 / self.capacity as f64);
            let angle = self.found.take().filter(|found| found.lbn == at).map(|found| found.angle);
            let mut zone = match self.begin_sooner(at, angle)? {
                Some(zone) => zone,
                None => self.begin(at, angle)?,
            };
            if !self.is_run(&mut zone)? {
                self.extend(&mut zone)?;
            }
            // LBNs that are on no regular track are passed one at a time.
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

    /// Returns a zone for all LBNs from `at` on, which were not mapped.
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

    /// Returns the least mean number of sectors per track: with fewer sectors there would be more tracks than a profile
    /// can have.
    fn fewest_sectors(&self) -> u64 {
        self.capacity.div_ceil(DRIVE_TRACKS_MAX)
    }
}
