//! The set-up of a history: its drive, its host, and the configuration of the core.

use crate::outer::Outer;
use mimic::{Learner, LearnerConfig};
use model::profile::Profile;
use model::random_profile::{Size, random_profile};
use model::{DriveModel, builtin};
use scheduler::policy::{AgeWeight, PolicyName};
use scheduler::{Config, IdleTime, InDrive, Mimic, OutsideDrive, SearchBudget, Sharing};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use units::{Bytes, Sectors};

/// The most sectors of a drive, because the contents of all sectors are kept in memory.
const DRIVE_SECTORS_MAX: u64 = 1 << 20;

/// The drive of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSpec {
    /// The random tiny drive of this seed ([`random_profile`]).
    Random(u64),
    /// The first cylinders of a built-in drive.
    Cut {
        /// The name of the built-in drive.
        name: String,
        /// The number of cylinders.
        cylinders: u32,
    },
}

/// The host of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A core inside the drive, with clients of its sessions, a scrubber and a miner.
    Core,
    /// A volume with bytes ([`sim::Volume`]), with a core inside the drive and applications.
    Volume,
    /// A volume with bytes and applications, with a core outside the drive.
    VolumeOutside,
    /// A core outside the drive, which is a black box, with clients of its sessions, a scrubber and a miner.
    Outside,
    /// The daemon's disk and task manager outside the drive, with snapshots and background requests.
    Daemon,
}

impl Host {
    /// The hosts, with their names in files and on the command line.
    const NAMES: [(Self, &str); 5] = [
        (Self::Core, "core"),
        (Self::Volume, "volume"),
        (Self::VolumeOutside, "volume-outside"),
        (Self::Outside, "outside"),
        (Self::Daemon, "daemon"),
    ];
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(host, _)| host == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

/// The error for a name that no host has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no host is named {0:?}; give one of core, volume, volume-outside, outside, daemon")]
pub struct UnknownHost(String);

impl FromStr for Host {
    type Err = UnknownHost;

    fn from_str(name: &str) -> Result<Self, UnknownHost> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(host, _)| *host).ok_or_else(|| UnknownHost(name.to_owned()))
    }
}

/// The mimic of the core: a learner of the drive's service times, which the policy SMTF uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mimicry {
    /// No learner: SMTF chooses requests as its base policy does.
    None,
    /// A learner of the service times of foreground requests.
    Learner,
    /// A learner that also measures service times in idle time.
    Probing,
}

/// The memory of a learner in bytes: enough for every distance of a tiny drive.
const LEARNER_BYTES: u64 = 1 << 16;

impl Mimicry {
    /// Returns a new learner for a drive of this capacity, if there is to be one.
    pub(crate) fn begin(self, capacity: Sectors, seed: u64) -> Option<Box<dyn Mimic>> {
        let config = LearnerConfig {
            memory: Bytes::new(LEARNER_BYTES),
            probe_idle: self == Self::Probing,
            seed,
            ..LearnerConfig::new(capacity, Sectors::new(1))
        };
        let learner = (self != Self::None).then(|| Learner::new(config, None));
        // `Learner::new` fails only for drives that are too large for its memory, which the drives of histories are not.
        learner?.ok().map(|learner| -> Box<dyn Mimic> { Box::new(learner) })
    }
}

/// The set-up of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The drive.
    pub drive: DriveSpec,
    /// The host of the core.
    pub host: Host,
    /// The policy that chooses foreground requests.
    pub policy: PolicyName,
    /// The weight of a request's waiting time in the policy's choice, in millionths.
    pub age: u32,
    /// The most tracks that the planner examines for a gap.
    pub budget: u32,
    /// The sharing of gaps among sessions.
    pub sharing: Sharing,
    /// The configuration of idle time; `None` if it is not used.
    pub idle: Option<IdleTime>,
    /// The most waiting foreground requests.
    pub most_pending: usize,
    /// The most blocks of which only a part has been read or written.
    pub most_partials: usize,
    /// Whether a write of a block completes pending reads of it, in new sessions.
    pub writes_serve_reads: bool,
    /// Whether a background write of a block completes pending writes of it by other tasks, in new sessions.
    pub writes_serve_writes: bool,
    /// Whether a log-structured disk occupies the last part of the volume.
    pub log: bool,
    /// The mimic of the core.
    pub mimic: Mimicry,
    /// The drive of a core outside it, and that core's configuration.
    pub outside: Outer,
    /// The virtual time at which the history starts, in ns; not always zero, because no result may depend on that.
    pub start_ns: u64,
    /// The seed of the core's lottery, and of other random choices while the history runs.
    pub seed: u64,
}

impl DriveSpec {
    /// Returns the model of the drive; the error is a message.
    pub(crate) fn build(&self) -> Result<DriveModel, String> {
        let drive = DriveModel::from_profile(&self.profile()?).map_err(|e| e.to_string())?;
        match drive.layout().capacity().get() {
            capacity if capacity <= DRIVE_SECTORS_MAX => Ok(drive),
            capacity => {
                Err(format!("{capacity} sectors are too many; cut it to {DRIVE_SECTORS_MAX} or fewer"))
            }
        }
    }

    /// Returns the profile of the drive; the error is a message.
    pub(crate) fn profile(&self) -> Result<Profile, String> {
        Ok(match self {
            Self::Random(seed) => random_profile(*seed, Size::Tiny),
            Self::Cut { name, cylinders } => {
                let mut profile = builtin::find(name).map_err(|e| e.to_string())?;
                profile.layout.zones.truncate(1);
                profile.layout.remaps.clear();
                let zone = profile.layout.zones.first_mut().ok_or("the drive has no zones; name another")?;
                zone.last_cylinder = zone.first_cylinder.saturating_add(cylinders.saturating_sub(1));
                zone.slips.clear();
                zone.defects.clear();
                profile
            }
        })
    }
}

impl Setup {
    /// Returns the configuration of the core.
    pub fn config(&self) -> Config {
        Config::default()
            .with_policy(self.policy)
            .with_age(AgeWeight::from_millionths(self.age))
            .with_budget(SearchBudget::tracks(self.budget))
            .with_most_pending(self.most_pending)
            .with_most_partials(self.most_partials)
            .with_writes_serve_reads(self.writes_serve_reads)
            .with_writes_serve_writes(self.writes_serve_writes)
            .with_sharing(self.sharing)
            .with_seed(self.seed)
            .with_idle(self.idle)
    }

    /// Returns a new core inside the drive, with its learner.
    pub(crate) fn in_drive(&self, drive: Arc<DriveModel>, config: Config) -> InDrive {
        let mimic = self.mimic.begin(drive.layout().capacity(), self.seed);
        let mut core = InDrive::new(drive, config);
        core.set_mimic(mimic);
        core
    }

    /// Returns a new core outside the drive, with its learner.
    pub(crate) fn outside_drive(&self, drive: Arc<DriveModel>, config: Config) -> OutsideDrive {
        let mimic = self.mimic.begin(drive.layout().capacity(), self.seed);
        let mut core = OutsideDrive::new(drive, config);
        core.set_mimic(mimic);
        core
    }
}
