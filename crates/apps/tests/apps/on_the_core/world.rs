//! Random drives, loads and faults for the tests of applications on the core.

use drive::Behaviour;
use model::profile::WriteBack;
use model::random_profile::{Size, random_profile};
use model::{DriveModel, Profile, builtin};
use proptest::prelude::*;
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Sharing};
use sim::{Content, Faults, Platters, TrueDrive, Volume, black_box};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::{Arrival, Closed, Issuer, Random, RandomConfig, Request, Share, Source, Think};

pub fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// A drive, its load, and its faults.
#[derive(Clone, Debug)]
pub struct World {
    pub drive: u64,
    pub seed: u64,
    pub policy: PolicyName,
    pub greedy: bool,
    pub idle: bool,
    pub partials: usize,
    pub tasks: u32,
    pub think_us: u64,
    pub lost_ppm: u32,
    pub late_ppm: u32,
    /// Whether the core is outside the drive; then times differ from the predictions.
    pub outside: bool,
}

pub fn worlds() -> impl Strategy<Value = World> {
    let policy = prop_oneof![Just(PolicyName::Fcfs), Just(PolicyName::CLook), Just(PolicyName::Sptf)];
    let ppm = || prop_oneof![Just(0), 0..100_000u32];
    (
        (any::<u64>(), any::<u64>(), policy, any::<bool>(), any::<bool>()),
        (prop_oneof![Just(1usize << 15), 2..6usize], 1..8u32, 0..40_000u64, ppm(), ppm(), any::<bool>()),
    )
        .prop_map(
            |(
                (drive, seed, policy, greedy, idle),
                (partials, tasks, think_us, lost_ppm, late_ppm, outside),
            )| World {
                drive,
                seed,
                policy,
                greedy,
                idle,
                partials,
                tasks,
                think_us,
                lost_ppm,
                late_ppm,
                outside,
            },
        )
}

impl World {
    pub fn drive(&self) -> Arc<DriveModel> {
        Arc::new(DriveModel::from_profile(&self.profile()).unwrap())
    }

    /// Returns a profile with which every write is on the medium before it is reported.
    fn profile(&self) -> Profile {
        let mut profile = random_profile(self.drive, Size::Tiny);
        let mut firmware = builtin::find("seagate-cheetah-18lp").unwrap().firmware.unwrap();
        firmware.cache.write_back = WriteBack::None;
        profile.firmware = Some(firmware);
        profile
    }

    pub fn config(&self) -> Config {
        let idle = match self.outside {
            // With the core outside the drive, blocks that fit no gap must be read in idle time.
            true => Some(IdleTime::default().with_harm_ppm(1_000_000)),
            false => self.idle.then(IdleTime::default),
        };
        Config::default()
            .with_policy(self.policy)
            .with_sharing(if self.greedy { Sharing::Greedy } else { Sharing::Lottery })
            .with_idle(idle)
            .with_most_partials(self.partials)
            .with_seed(self.seed)
    }

    /// Switches the drive on. `life` differs after each power cut, and with it the faults.
    pub fn start(&self, platters: Platters, now: Instant, life: u64) -> Volume {
        let (drive, config) = (self.drive(), self.config());
        let mut volume = if self.outside {
            let (profile, behaviour) = (self.profile(), Behaviour::fast02());
            let seed = self.seed.wrapping_add(life);
            let (_, overheads) = black_box(&profile, behaviour, seed).unwrap();
            let config = config.with_outside(OutsideConfig::beyond(overheads));
            let true_drive = TrueDrive { profile: &profile, behaviour, seed };
            Volume::outside(now, true_drive, drive, config, platters).unwrap()
        } else {
            Volume::starting_at(now, drive, config, platters).unwrap()
        };
        volume.set_faults(Faults {
            seed: self.seed.wrapping_add(life),
            lost_ppm: self.lost_ppm,
            late_ppm: self.late_ppm,
            ..Faults::default()
        });
        volume
    }

    /// Starts a foreground over the whole drive that reads, and with `writes` rewrites the same content. Writes must
    /// not go where applications write: a block that a foreground write overtakes would never be written.
    pub fn load(&self, volume: &mut Volume, writes: bool) {
        let capacity = volume.drive().layout().capacity();
        let config = RandomConfig {
            size: Sectors::new(3),
            align: Sectors::new(1),
            reads: if writes { Share::TWO_THIRDS } else { Share::ALL },
            ..RandomConfig::new(capacity, volume.drive().sector_bytes())
        };
        let source = Random::new(config, self.seed).unwrap();
        // With the core outside the drive some blocks are read in idle time only.
        let left = if self.outside { REQUESTS_OUTSIDE } else { u64::MAX };
        let source: Box<dyn Source> = Box::new(Ends { source, left });
        let think = Think::Exponential(Duration::from_micros(self.think_us));
        let arrival = Arrival::Closed(Closed { tasks: self.tasks, think });
        volume.load(Issuer::new(source, arrival, volume.now(), self.seed).unwrap(), Content::Timing);
    }
}

/// Runs until `done`; fails after far more virtual time than any run should take.
pub fn run(volume: &mut Volume, done: impl Fn(&Volume) -> bool) -> Result<(), TestCaseError> {
    let end = volume.now() + Duration::from_secs(4_000);
    while !done(volume) {
        volume.run_for(Duration::from_millis(100)).unwrap();
        prop_assert!(volume.now() < end, "it does not come to an end");
    }
    Ok(())
}

/// The requests of a load with the core outside the drive, after which idle time begins.
const REQUESTS_OUTSIDE: u64 = 500;

/// A load that comes to an end.
struct Ends {
    source: Random,
    left: u64,
}

impl Source for Ends {
    fn next_request(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        self.source.next_request()
    }
}
