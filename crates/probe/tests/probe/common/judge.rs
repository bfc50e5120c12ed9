//! Compares a report with the drive: decides whether each finding is right.

use super::{Emulated, Shares};
use drive::Behaviour;
use model::profile::{Order, ReadAhead, SparingRegion};
use model::{DriveModel, Layout, Profile};
use probe::{ProbedDevice, ProbedProfile};
use std::collections::BTreeMap;
use units::{Cylinder, Head, Lbn};

/// The largest difference of equal times, ms: the tolerance of a prediction.
const EQUAL_TIMES_MS_MAX: f64 = 0.05;

/// A finding with its confidence, compared with the drive.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The name of the finding in the report.
    pub what: String,
    /// The confidence, 0 to 1.
    pub confidence: f64,
    /// Whether the finding is right.
    pub right: bool,
    /// The finding and the drive's value, in words.
    pub reported: String,
}

/// Returns all findings that can be compared with the drive's profile; `Judge::right` has the criterion of each.
pub fn judged(truth: &Profile, behaviour: &Behaviour, found: &ProbedProfile, shares: Shares) -> Vec<Judged> {
    let judge = Judge::new(truth, behaviour, found, shares);
    let of = |f: &probe::Finding| {
        let (right, is) = judge.right(&f.what, &f.value)?;
        let reported = format!("{} for {is}", f.value);
        Some(Judged { what: f.what.clone(), confidence: f.confidence, right, reported })
    };
    found.report.findings.iter().filter_map(of).collect()
}

struct Judge<'t> {
    truth: &'t Profile,
    behaviour: &'t Behaviour,
    found: &'t Profile,
    model: DriveModel,
    probed: DriveModel,
    /// The shares of random reads by their prediction.
    shares: Shares,
}

/// Returns the first number of a text.
fn number(text: &str) -> f64 {
    let from = text.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let from = if text[..from].ends_with('-') { from - 1 } else { from };
    let rest = &text[from..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or(f64::NAN)
}

/// Returns whether a number lies in a range such as `5 to 8`, or equals a single number; and `is` as text.
fn between(value: &str, is: u64) -> (bool, String) {
    let (least, most) = value.split_once(" to ").unwrap_or((value, value));
    ((number(least)..=number(most)).contains(&(is as f64)), is.to_string())
}

impl<'t> Judge<'t> {
    fn new(truth: &'t Profile, behaviour: &'t Behaviour, found: &'t ProbedProfile, shares: Shares) -> Self {
        let model = DriveModel::from_profile(truth).unwrap();
        let probed = DriveModel::from_profile(&found.profile).unwrap();
        Self { truth, behaviour, found: &found.profile, model, probed, shares }
    }

    /// Returns the mean time that the noise adds to each command, ms: the delays of commands and completions are
    /// uniformly distributed from zero on.
    fn mean_delay_ms(&self) -> f64 {
        (self.behaviour.command_spread + self.behaviour.completion_spread).as_nanos() as f64 / 2e6
    }

    fn overhead_ms(&self) -> f64 {
        let firmware = self.truth.firmware.clone().unwrap_or_default();
        firmware.per_request_overhead_ms + firmware.overheads.read_miss.0
    }

    fn bus_ms(&self) -> f64 {
        let firmware = self.truth.firmware.clone().unwrap_or_default();
        self.behaviour.bus_sector.map_or(firmware.bulk_sector_ms, |bus| bus.as_nanos() as f64 / 1e6)
    }

    /// Returns the number of tracks with LBNs, the number of cylinders with LBNs, and the fewest and most sectors on a
    /// track; the latter leave out a fiftieth of the LBNs at either end.
    fn used(&self) -> (u64, u64, [u32; 2]) {
        let layout = self.model.layout();
        let (mut tracks, mut cylinders, mut last) = (0, 0, None);
        let mut densities: BTreeMap<u32, u64> = BTreeMap::new();
        for cylinder in 0..layout.cylinders() {
            for head in 0..layout.heads() {
                let Some(index) = layout.track_at(Cylinder::new(cylinder), Head::new(head)) else { continue };
                let lbns: u64 = layout.extents(index).map(|e| u64::from(e.len)).sum();
                if lbns > 0 {
                    tracks += 1;
                    *densities.entry(layout.track(index).sectors).or_default() += lbns;
                    cylinders += u64::from(last != Some(cylinder));
                    last = Some(cylinder);
                }
            }
        }
        let few = layout.capacity().get() / 50;
        let beyond = |of: &mut dyn Iterator<Item = (&u32, &u64)>| {
            let mut so_far = 0;
            for (sectors, lbns) in of {
                so_far += lbns;
                if so_far > few {
                    return *sectors;
                }
            }
            0
        };
        let (least, most) = (beyond(&mut densities.iter()), beyond(&mut densities.iter().rev()));
        (tracks, cylinders, [least, most])
    }

    /// Returns the share of LBNs within 50 us of their angles in the found layout, after a rotation of the whole
    /// layout.
    fn in_place(&self) -> f64 {
        let (here, there) = (self.model.layout(), self.probed.layout());
        let capacity = here.capacity().get();
        let at = |layout: &Layout, lbn: u64| {
            let at = layout.locate(Lbn::new(lbn))?;
            Some(layout.track(at.track).sector_angle(at.sector).as_revolutions())
        };
        let offs: Vec<f64> = (0..2_000)
            .map(|k| capacity * k / 2_000)
            .filter_map(|lbn| Some((at(there, lbn)? - at(here, lbn)?).rem_euclid(1.0)))
            .collect();
        let near = 2.0 * EQUAL_TIMES_MS_MAX * f64::from(self.truth.rpm) / 60e3;
        // Of all rotations, the one on which most LBNs agree counts.
        let agree = |off: f64| {
            offs.iter().filter(|&&o| ((o - off + 0.5).rem_euclid(1.0) - 0.5).abs() < near / 2.0).count()
        };
        let most = offs.iter().step_by(7).map(|&off| agree(off)).max().unwrap_or(0);
        most as f64 / 2_000.0
    }

    /// Returns whether a finding is right, and the drive's value; `None` if the profile does not give it.
    fn right(&self, what: &str, value: &str) -> Option<(bool, String)> {
        let near =
            |truth: f64| ((number(value) - truth).abs() <= EQUAL_TIMES_MS_MAX, format!("{truth:.3} ms"));
        let cache = self.truth.firmware.as_ref().map(|f| f.cache.clone()).unwrap_or_default();
        let hits = self.truth.firmware.clone().unwrap_or_default();
        let heads = self.truth.heads;
        Some(match what {
            // Right within the drift of the spindle's speed.
            "revolution time" => {
                let revolution = 60e3 / f64::from(self.truth.rpm);
                let drift = self.behaviour.drift.map_or(0.0, |d| f64::from(d.most_ppm) / 1e6);
                ((number(value) / revolution - 1.0).abs() <= 1e-4 + drift, format!("{revolution:.6} ms"))
            }
            "read cache" => {
                let on = self.behaviour.buffer.unwrap_or(cache.enabled);
                ((value == "on") == on, on.to_string())
            }
            // Right if at most the length of a cache segment.
            "read-ahead" => {
                let reads = self.behaviour.read_ahead.unwrap_or(cache.read_ahead != ReadAhead::None);
                let on = self.behaviour.buffer.unwrap_or(cache.enabled) && reads;
                let far = value.strip_prefix("on, ").map(number);
                let most = f64::from(cache.segment_sectors);
                (
                    if on { far.is_some_and(|far| far <= most) } else { value == "off" },
                    format!("{on}, {most} at most"),
                )
            }
            "cache segments" => {
                (number(value) as usize == cache.segments as usize, cache.segments.to_string())
            }
            // The time of a hit that does not continue the last read; one that does takes the smaller of the two times
            // (docs/MODEL.md).
            "hit" => near(
                hits.per_request_overhead_ms
                    + hits.overheads.read_hit.0.max(hits.overheads.read_hit.1)
                    + self.bus_ms()
                    + self.mean_delay_ms(),
            ),
            // Right if a request of 64 sectors takes an equal time.
            "bus" => (
                (number(value) - self.bus_ms()).abs() * 64.0 <= EQUAL_TIMES_MS_MAX,
                format!("{:.4} ms", self.bus_ms()),
            ),
            // Right if 97% of the LBNs are at the found angles.
            "zones" => {
                let share = self.in_place();
                (share >= 0.97, format!("{:.1}% in place", 100.0 * share))
            }
            // Right if the difference takes at most 50 us in a revolution.
            "sectors per track" => {
                let [least, most] = self.used().2;
                let (said_most, said_least) = value.split_once(" to ")?;
                let revolution = 60e3 / f64::from(self.truth.rpm);
                let same = |said: &str, is: u32| {
                    let apart = number(said) - f64::from(is);
                    apart.abs() <= (f64::from(is) * EQUAL_TIMES_MS_MAX / revolution).max(0.5)
                };
                (same(said_most, most) && same(said_least, least), format!("{most} to {least}"))
            }
            "tracks" => between(value, self.used().0),
            "order of tracks" => {
                let order_of =
                    |o| if o == Order::CylinderSerpentineAbsolute { Order::CylinderSerpentine } else { o };
                let (said, is) = (self.found.layout.order, self.truth.layout.order);
                // A drive with a single head has only one order of tracks.
                (said == order_of(is) || heads == 1 && self.found.heads == 1, format!("{is:?}"))
            }
            "heads" => (number(value) as u16 == heads, heads.to_string()),
            "cylinders" => between(value, self.used().1),
            // The cylinders without LBNs that lie between cylinders with LBNs.
            "cylinders without LBNs" => {
                let layout = self.model.layout();
                let holds = |c: u32| {
                    (0..layout.heads()).any(|h| {
                        let track = layout.track_at(Cylinder::new(c), Head::new(h));
                        track.is_some_and(|t| layout.extents(t).next().is_some())
                    })
                };
                let with: Vec<u32> = (0..layout.cylinders()).filter(|&c| holds(c)).collect();
                let without = with.last()? - with.first()? + 1 - with.len() as u32;
                (number(value) as u32 == without, without.to_string())
            }
            "command overhead" => {
                near(self.overhead_ms() + self.behaviour.command_spread.as_nanos() as f64 / 2e6)
            }
            "head switch" if heads > 1 => near(self.truth.mechanics.head_switch_ms),
            "cylinder switch" if heads > 1 => near(self.truth.mechanics.cylinder_switch_ms?),
            // Right if at most three in a hundred random reads end whole revolutions off.
            "seek curve" => (
                self.shares.revolutions <= 0.03,
                format!("{:.1}% whole revolutions off", 100.0 * self.shares.revolutions),
            ),
            // Right if most of them are within a quarter, or 5 us, of the variation of seeks and commands together.
            "spread of seeks" => {
                let even = self.behaviour.command_spread.as_nanos() as f64 / 1e3 / 12f64.sqrt();
                let late = self.behaviour.completion_spread.as_nanos() as f64 / 1e3 / 12f64.sqrt();
                let us = (self.behaviour.seek_spread.as_nanos() as f64 / 1e3).hypot(even).hypot(late);
                let ok = |ms: f64| (ms * 1e3 - us).abs() <= (us / 4.0).max(5.0);
                let spread = &self.found.mechanics.seek_spread_ms;
                if spread.is_empty() {
                    return None;
                }
                let near = spread.iter().filter(|s| ok(s.1)).count();
                (2 * near > spread.len(), format!("{us:.1} us"))
            }
            "zero-latency reads" => {
                let on = self.truth.mechanics.zero_latency_read;
                ((value == "on") == on, on.to_string())
            }
            "slipped sectors" => {
                let counted = |z: &model::profile::Zone| z.sparing.per != SparingRegion::ZoneTracks;
                let slips: usize =
                    self.truth.layout.zones.iter().filter(|z| counted(z)).map(|z| z.slips.len()).sum();
                if !self.truth.layout.zones.iter().all(counted) {
                    return None;
                }
                (number(value) as usize == slips, slips.to_string())
            }
            _ => return None,
        })
    }
}

/// Returns a drive with that behaviour, which takes one command at a time or two.
pub fn drive(truth: &Profile, behaviour: Behaviour, seed: u64, two: bool) -> Emulated {
    let device = Emulated::with(truth, behaviour, seed);
    if two { device } else { device.one_at_a_time() }
}

/// Returns the number of LBNs of a drive.
pub fn capacity(device: &Emulated) -> u64 {
    device.capacity().get()
}
