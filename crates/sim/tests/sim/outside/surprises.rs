//! Differences between a drive and the core's profile.

use super::troubled::Delayed;
use drive::{Behaviour, BlackBox, FlashConfig, Queue, QueueOrder, Rarely, ShingledConfig, SpindleDrift};
use freeblock_sim::black_box;
use model::profile::{Order, Revolutions, SectorsPerTrack};
use model::{DriveModel, Profile, builtin};
use scheduler::OutsideConfig;
use std::sync::Arc;
use units::{Duration, Instant};

/// A difference between the profile and the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surprise {
    /// No difference.
    None,
    /// The profile has this many thousandths of the true revolutions per minute.
    Rpm(u32),
    /// The profile has this many thousandths of the true revolutions per minute, on a drive whose platter is slow compared with
    /// its seeks.
    SlowRpm(u32),
    /// Another drive's profile.
    Other { reported: &'static str, there: &'static str },
    /// Zones end this many cylinders further in, or out.
    ZonesShifted(i32),
    /// Tracks have this many sectors more, or fewer.
    Sectors(i32),
    /// The heads of every cylinder are used in order from the first.
    HeadsInAnotherOrder,
    /// Track skews are this many sectors larger.
    TrackSkew(i64),
    /// Cylinder skews are this many sectors larger.
    CylinderSkew(i64),
    /// Arms are slower by this many thousandths; faster if negative.
    Arms(i32),
    /// In the profile heads settle for this many microseconds longer before writes.
    WriteSettle(i32),
    /// Commands take this many microseconds longer than in the profile.
    Overhead(u64),
    /// A queue that reorders, with more than two commands in it.
    Reorders,
    /// A flash device in place of a disk.
    Flash,
    /// Shingled tracks, which overlap; the profile describes the drive without them.
    Shingled,
    /// Completions are delayed by a random time of up to this many microseconds.
    HeldBack(u64),
    /// Completions arrive at multiples of this many microseconds.
    Coalesced(u64),
    /// Writes are reported from the buffer, against the profile.
    WriteBack,
    /// The drive always reads ahead, and its bus is not in the profile.
    SlowBus,
    /// This many thousandths of the moves miss their tracks.
    MissedLandings(u32),
    /// This many thousandths of the moves settle late, by up to 3 ms.
    LateSettles(u32),
    /// This many sectors are remapped.
    Remapped(u32),
    /// A spindle that drifts quickly by up to 2%.
    Drifts,
}

use Surprise::*;

const fn other(reported: &'static str, there: &'static str) -> Surprise {
    Other { reported, there }
}

const ATLAS: &str = "quantum-atlas-10k";
const CHEETAH: &str = "seagate-cheetah-18lp";
const ULTRASTAR: &str = "ibm-ultrastar-9es";
const BASE: &str = "mimic-base";
const FAST_SEEK: &str = "mimic-fast-seek";

pub const ALL: [Surprise; 63] = [
    None,
    Rpm(850),
    Rpm(894),
    Rpm(950),
    Rpm(970),
    Rpm(985),
    Rpm(995),
    Rpm(1_005),
    Rpm(1_015),
    Rpm(1_030),
    Rpm(1_050),
    Rpm(1_119),
    Rpm(1_250),
    SlowRpm(894),
    SlowRpm(970),
    SlowRpm(1_119),
    other(ATLAS, CHEETAH),
    other(ATLAS, ULTRASTAR),
    other(ATLAS, BASE),
    other(CHEETAH, ATLAS),
    other(CHEETAH, ULTRASTAR),
    other(CHEETAH, BASE),
    other(ULTRASTAR, ATLAS),
    other(ULTRASTAR, CHEETAH),
    other(ULTRASTAR, BASE),
    other(BASE, ATLAS),
    other(BASE, CHEETAH),
    other(BASE, ULTRASTAR),
    other(BASE, FAST_SEEK),
    other(FAST_SEEK, BASE),
    ZonesShifted(30),
    ZonesShifted(-30),
    ZonesShifted(1),
    Sectors(1),
    Sectors(-4),
    HeadsInAnotherOrder,
    TrackSkew(2),
    TrackSkew(10),
    TrackSkew(60),
    CylinderSkew(2),
    CylinderSkew(20),
    Arms(-400),
    Arms(-100),
    Arms(100),
    Arms(400),
    WriteSettle(-480),
    WriteSettle(500),
    WriteSettle(1_500),
    Overhead(150),
    Overhead(1_000),
    Reorders,
    Flash,
    Shingled,
    HeldBack(300),
    HeldBack(8_000),
    Coalesced(1_000),
    Coalesced(4_000),
    WriteBack,
    SlowBus,
    MissedLandings(100),
    LateSettles(300),
    Remapped(20_000),
    Drifts,
];

impl Surprise {
    /// Returns the profile of the true drive.
    fn there(self) -> Profile {
        let name = match self {
            Other { there, .. } => there,
            SlowRpm(_) => "mimic-slow-rotate",
            _ => ATLAS,
        };
        builtin::find(name).unwrap()
    }

    /// Returns the core's profile.
    pub fn known(self) -> Arc<DriveModel> {
        let mut reported = self.there();
        let layout = &mut reported.layout;
        if matches!(self, ZonesShifted(_) | Sectors(_)) {
            // Slips are counted from the start of a zone.
            layout.zones.iter_mut().for_each(|zone| zone.slips.clear());
        }
        let skewed = |skew: &Revolutions, by: i64, on: u32| {
            let own = skew.angle().unwrap().parts() as f64 / units::FULL_REVOLUTION as f64;
            Revolutions::Decimal((own + by as f64 / f64::from(on)).rem_euclid(1.0))
        };
        match self {
            Rpm(thousandths) | SlowRpm(thousandths) => {
                reported.rpm = (u64::from(reported.rpm) * u64::from(thousandths) / 1_000) as u32
            }
            Other { reported: name, .. } => reported = builtin::find(name).unwrap(),
            ZonesShifted(by) => {
                for at in 1..layout.zones.len() {
                    let end = layout.zones[at].first_cylinder.saturating_add_signed(by);
                    layout.zones[at].first_cylinder = end;
                    layout.zones[at - 1].last_cylinder = end - 1;
                }
            }
            Sectors(by) => {
                for zone in &mut layout.zones {
                    if let SectorsPerTrack::Same(sectors) = &mut zone.sectors_per_track {
                        *sectors = sectors.saturating_add_signed(by);
                    }
                }
            }
            HeadsInAnotherOrder => layout.order = Order::Cylinder,
            TrackSkew(by) | CylinderSkew(by) => {
                for zone in &mut layout.zones {
                    let SectorsPerTrack::Same(on) = zone.sectors_per_track else { continue };
                    match self {
                        TrackSkew(_) => zone.track_skew = skewed(&zone.track_skew, by, on),
                        _ => zone.cylinder_skew = skewed(&zone.cylinder_skew, by, on),
                    }
                }
            }
            WriteSettle(us) => reported.mechanics.write_settle_ms += f64::from(us) / 1e3,
            _ => {}
        }
        Arc::new(DriveModel::from_profile(&reported).unwrap())
    }

    /// Returns the behaviour of the drive.
    fn behaviour(self) -> Behaviour {
        let noisy = Behaviour::fast02();
        match self {
            Arms(thousandths) => Behaviour { seek_ageing_ppm: thousandths * 1_000, ..noisy },
            Reorders => Behaviour { queue: Queue::Tagged { order: QueueOrder::Sptf, depth: 64 }, ..noisy },
            WriteBack => Behaviour { write_back: Some(true), ..noisy },
            SlowBus => Behaviour { bus_sector: Some(Duration::from_micros(60)), ..noisy },
            MissedLandings(thousandths) => Behaviour { missed_landings_ppm: thousandths * 1_000, ..noisy },
            LateSettles(thousandths) => Behaviour {
                late_settles: Rarely { ppm: thousandths * 1_000, most: Duration::from_millis(3) },
                ..noisy
            },
            Remapped(sectors) => Behaviour { grown_defects: sectors, ..noisy },
            Drifts => Behaviour {
                drift: Some(SpindleDrift { most_ppm: 20_000, step: Duration::from_millis(200) }),
                ..noisy
            },
            _ => noisy,
        }
    }

    /// Returns the device, with the noise of `seed`.
    pub fn device(self, seed: u64) -> Box<dyn BlackBox> {
        let drive = || black_box(&self.there(), self.behaviour(), seed).unwrap().0;
        let always = || Instant::ZERO..Instant::MAX;
        match self {
            Flash => {
                let capacity = self.known().layout().capacity();
                Box::new(drive::Flash::new(FlashConfig { capacity, ..FlashConfig::default() }, seed))
            }
            Shingled => {
                let known = self.known();
                let config = ShingledConfig::of(known.layout().capacity(), known.sector_bytes());
                Box::new(drive::Shingled::new(drive(), config).unwrap())
            }
            HeldBack(us) => {
                Box::new(Delayed::for_a_while(Box::new(drive()), always(), Duration::from_micros(us)))
            }
            Coalesced(us) => Box::new(Delayed::to_a_beat(Box::new(drive()), Duration::from_micros(us))),
            _ => Box::new(drive()),
        }
    }

    /// Returns the configuration of the core, with the costs of commands in the profile.
    pub fn outside(self) -> OutsideConfig {
        let (_, mut overheads) = black_box(&self.there(), Behaviour::fast02(), 1).unwrap();
        if let Overhead(us) = self {
            for command in &mut overheads.command {
                *command = command.saturating_sub(Duration::from_micros(us));
            }
        }
        let reported = OutsideConfig::beyond(overheads);
        if self == Reorders { reported.with_at_drive(6) } else { reported }
    }
}
