//! The set-up of a history: the drive, the host, and the configuration of the core.

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

/// The maximum of a drive's sectors, whose contents are kept in memory.
const DRIVE_SECTORS_MAX: u64 = 1 << 20;

/// The drive of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSpec {
    /// A random tiny one ([`random_profile`]).
    Random(u64),
    /// The first cylinders of a built-in drive.
    Cut {
        /// Its name.
        name: String,
        /// The number of its first zone's cylinders.
        cylinders: u32,
    },
}

/// The host of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host without knowledge of the core's internals, with clients of its sessions and a scrubber.
    Core,
    /// A volume that holds bytes, with the other applications on it.
    Volume,
    /// A volume that holds bytes, with the core outside the drive.
    VolumeOutside,
    /// A host with a core outside the drive, in front of a black box.
    Outside,
    /// The daemon's own disk and task manager, outside the drive: snapshots, and the background export.
    Daemon,
}

impl Host {
    /// All hosts, with their names in files and on the command line.
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

/// An unknown name of a host.
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

/// The mimic that learns from the foreground's times, for SMTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mimicry {
    /// None: SMTF is its base policy.
    None,
    /// A learner of the foreground's times alone.
    Learner,
    /// A learner that probes in idle time.
    Probing,
}

/// The memory of a learner: enough for every distance of a tiny drive.
const LEARNER_BYTES: u64 = 1 << 16;

impl Mimicry {
    /// Returns the learner for a drive of this capacity.
    pub(crate) fn begin(self, capacity: Sectors, seed: u64) -> Option<Box<dyn Mimic>> {
        let config = LearnerConfig {
            memory: Bytes::new(LEARNER_BYTES),
            probe_idle: self == Self::Probing,
            seed,
            ..LearnerConfig::new(capacity, Sectors::new(1))
        };
        let learner = (self != Self::None).then(|| Learner::new(config, None));
        // No real drive is too large for the learner's memory.
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
    /// The foreground's policy.
    pub policy: PolicyName,
    /// The weight of the waiting time, in millionths.
    pub age: u32,
    /// The number of tracks examined for a gap.
    pub budget: u32,
    /// The sharing of gaps among sessions.
    pub sharing: Sharing,
    /// Idle time.
    pub idle: Option<IdleTime>,
    /// The maximum of waiting foreground requests.
    pub most_pending: usize,
    /// The maximum of half-done blocks.
    pub most_partials: usize,
    /// Whether writes complete reads of new sessions.
    pub writes_serve_reads: bool,
    /// Whether other sessions' background writes complete pending writes of new sessions.
    pub writes_serve_writes: bool,
    /// Whether a log-structured disk has the volume's last part.
    pub log: bool,
    /// The mimic that learns from the foreground's times.
    pub mimic: Mimicry,
    /// The drive in front of which a core outside is.
    pub outside: Outer,
    /// Its start in nanoseconds: no result may depend on zero.
    pub start_ns: u64,
    /// The seed of the lottery, and of the steady foreground at the end.
    pub seed: u64,
}

impl DriveSpec {
    /// Returns the drive, or the error in it.
    pub(crate) fn build(&self) -> Result<DriveModel, String> {
        let drive = DriveModel::from_profile(&self.profile()?).map_err(|e| e.to_string())?;
        match drive.layout().capacity().get() {
            capacity if capacity <= DRIVE_SECTORS_MAX => Ok(drive),
            capacity => {
                Err(format!("{capacity} sectors are too many; cut it to {DRIVE_SECTORS_MAX} or fewer"))
            }
        }
    }

    /// Returns its profile.
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

    /// Returns a core in the drive, with its learner.
    pub(crate) fn in_drive(&self, drive: Arc<DriveModel>, config: Config) -> InDrive {
        let mimic = self.mimic.begin(drive.layout().capacity(), self.seed);
        let mut core = InDrive::new(drive, config);
        core.set_mimic(mimic);
        core
    }

    /// Returns a core outside the drive, with its learner.
    pub(crate) fn outside_drive(&self, drive: Arc<DriveModel>, config: Config) -> OutsideDrive {
        let mimic = self.mimic.begin(drive.layout().capacity(), self.seed);
        let mut core = OutsideDrive::new(drive, config);
        core.set_mimic(mimic);
        core
    }
}
