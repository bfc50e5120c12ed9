//! The parameters of a mimic that learns, from flags and from the daemon's file.

use crate::values;
use clap::Args;
use mimic::LearnerConfig;
use serde::{Deserialize, Serialize};
use units::{Bytes, Sectors};

/// The flags of a learner.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LearningArgs {
    /// The most memory of what smtf has learnt, with the table that it starts from [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = values::memory, allow_negative_numbers = true)]
    pub(crate) mimic_memory: Option<Bytes>,
    /// How many samples smtf needs of a distance before it counts as known [default: 1]
    #[arg(long, value_name = "N", value_parser = minimum_samples, allow_negative_numbers = true)]
    pub(crate) mimic_minimum_samples: Option<u8>,
    /// Read unknown distances when the drive is idle, so that smtf knows them
    #[arg(long)]
    pub(crate) mimic_probe_idle: bool,
}

impl LearningArgs {
    /// Returns the first flag that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--mimic-memory", self.mimic_memory.is_some()),
            ("--mimic-minimum-samples", self.mimic_minimum_samples.is_some()),
            ("--mimic-probe-idle", self.mimic_probe_idle),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
}

/// The parameters of a mimic as a recording contains them, defaults included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Learning {
    pub(crate) memory_bytes: u64,
    pub(crate) minimum_samples: u8,
    pub(crate) probe_idle: bool,
}

impl Default for Learning {
    fn default() -> Self {
        // The defaults are the same for every drive, so any capacity and grain will do.
        let standard = LearnerConfig::new(Sectors::new(1), Sectors::new(1));
        Self {
            memory_bytes: standard.memory.get(),
            minimum_samples: standard.minimum_samples,
            probe_idle: standard.probe_idle,
        }
    }
}

impl From<LearningArgs> for Learning {
    fn from(args: LearningArgs) -> Self {
        let standard = Self::default();
        Self {
            memory_bytes: args.mimic_memory.map_or(standard.memory_bytes, Bytes::get),
            minimum_samples: args.mimic_minimum_samples.unwrap_or(standard.minimum_samples),
            probe_idle: args.mimic_probe_idle,
        }
    }
}

impl Learning {
    /// Returns the configuration for a drive of this capacity, in steps of `grain`.
    pub(crate) fn config(self, capacity: Sectors, grain: Sectors) -> LearnerConfig {
        LearnerConfig {
            memory: Bytes::new(self.memory_bytes),
            minimum_samples: self.minimum_samples,
            probe_idle: self.probe_idle,
            ..LearnerConfig::new(capacity, grain)
        }
    }
}

/// Reads the number of samples that make a distance known: at most as many as a mean is made of.
pub(crate) fn minimum_samples(text: &str) -> Result<u8, String> {
    let most = LearnerConfig::new(Sectors::new(1), Sectors::new(1)).window;
    let samples = text.parse().ok().filter(|n| (1..=most).contains(n));
    samples.ok_or_else(|| format!("give a whole number from 1 to {most}"))
}
