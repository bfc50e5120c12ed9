//! A history as a file: its set-up, then its steps, a line each.

mod drawn;
mod outer;

pub use outer::{Conduct, Knowledge, Manner, Outer, Tells};

use crate::step::Step;
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
use units::{Bytes, Duration, Sectors};

/// The first line of a file.
const FORMAT: &str = "freeblock-torture 1";

/// The maximum of a drive's sectors, whose contents are kept in memory.
const MOST_SECTORS: u64 = 1 << 20;

/// The latest start, 300 years: later the steps might exceed the range of time.
const LATEST_START_NS: u64 = 10_000_000_000_000_000_000;

/// The maximum of steps in a file.
const MOST_STEPS: usize = 1 << 20;

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
    /// The same with the core outside the drive.
    VolumeOutside,
    /// A host with a core outside the drive, in front of a black box.
    Outside,
}

impl Host {
    /// All hosts, with their names in files and on the command line.
    const NAMES: [(Self, &str); 4] = [
        (Self::Core, "core"),
        (Self::Volume, "volume"),
        (Self::VolumeOutside, "volume-outside"),
        (Self::Outside, "outside"),
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
#[error("no host is named {0:?}; give one of core, volume, volume-outside, outside")]
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
    /// A learner.
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
        // A real drive's size is never too large for it.
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

/// A history: a drive, a core on it, and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The set-up.
    pub setup: Setup,
    /// The steps.
    pub steps: Vec<Step>,
}

/// An invalid file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// The error there, and the mend.
    pub message: String,
}

impl DriveSpec {
    /// Returns the drive, or the error in it.
    pub(crate) fn build(&self) -> Result<DriveModel, String> {
        let drive = DriveModel::from_profile(&self.profile()?).map_err(|e| e.to_string())?;
        match drive.layout().capacity().get() {
            capacity if capacity <= MOST_SECTORS => Ok(drive),
            capacity => Err(format!("{capacity} sectors are too many; cut it to {MOST_SECTORS} or fewer")),
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
        Config {
            policy: self.policy,
            age: AgeWeight::from_millionths(self.age),
            budget: SearchBudget::tracks(self.budget),
            most_pending: self.most_pending,
            most_partials: self.most_partials,
            writes_serve_reads: self.writes_serve_reads,
            writes_serve_writes: self.writes_serve_writes,
            sharing: self.sharing,
            seed: self.seed,
            idle: self.idle,
            ..Config::default()
        }
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

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.setup;
        writeln!(f, "{FORMAT}")?;
        match &s.drive {
            DriveSpec::Random(seed) => writeln!(f, "drive random {seed}")?,
            DriveSpec::Cut { name, cylinders } => writeln!(f, "drive cut {name} {cylinders}")?,
        }
        writeln!(f, "host {}", s.host)?;
        if matches!(s.host, Host::Outside | Host::VolumeOutside) {
            writeln!(f, "outside {}", s.outside)?;
        }
        writeln!(f, "policy {}", s.policy)?;
        match s.mimic {
            Mimicry::None => {}
            Mimicry::Learner => writeln!(f, "mimic learner")?,
            Mimicry::Probing => writeln!(f, "mimic probing")?,
        }
        writeln!(f, "age {}", s.age)?;
        writeln!(f, "budget {}", s.budget)?;
        writeln!(f, "sharing {}", if s.sharing == Sharing::Lottery { "lottery" } else { "greedy" })?;
        match s.idle {
            None => writeln!(f, "idle off")?,
            Some(IdleTime { threshold, short, harm_ppm }) => {
                let short = if short { "short" } else { "long" };
                writeln!(f, "idle {} {harm_ppm} {short}", threshold.as_nanos())?;
            }
        }
        writeln!(f, "most-pending {}", s.most_pending)?;
        writeln!(f, "most-partials {}", s.most_partials)?;
        writeln!(f, "writes-serve-reads {}", if s.writes_serve_reads { "on" } else { "off" })?;
        // Older files do not have these settings.
        if !s.writes_serve_writes {
            writeln!(f, "writes-serve-writes off")?;
        }
        if s.log {
            writeln!(f, "log on")?;
        }
        writeln!(f, "start {}", s.start_ns)?;
        writeln!(f, "seed {}", s.seed)?;
        // An invalid setup draws nothing, and is refused when it is read.
        if let Ok(drawn) = s.drawn() {
            writeln!(f, "drawn {drawn:016x}")?;
        }
        writeln!(f, "steps")?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl Scenario {
    /// Reads a file. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// The first invalid line, and the mend.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut setup = Setup {
            drive: DriveSpec::Random(0),
            host: Host::Core,
            policy: PolicyName::Fcfs,
            age: 0,
            budget: 75,
            sharing: Sharing::Lottery,
            idle: None,
            most_pending: 64,
            most_partials: 64,
            writes_serve_reads: true,
            writes_serve_writes: true,
            log: false,
            mimic: Mimicry::None,
            outside: Outer::default(),
            start_ns: 0,
            seed: 1,
        };
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |line: usize, message: String| ScenarioError { line, message };
        match lines.next() {
            Some((_, FORMAT)) => {}
            Some((line, _)) => return Err(wrong(line, format!("no history; the first line is {FORMAT:?}"))),
            None => return Err(wrong(1, format!("an empty file; the first line is {FORMAT:?}"))),
        }
        let (mut steps, mut in_steps, mut last, mut drive_line) = (Vec::new(), false, 1, 1);
        let mut drawn = None;
        for (line, content) in lines {
            last = line;
            let words: Vec<&str> = content.split_whitespace().collect();
            if in_steps {
                if steps.len() >= MOST_STEPS {
                    return Err(wrong(line, format!("more than {MOST_STEPS} steps; cut the file")));
                }
                steps.push(Step::parse(&words).map_err(|message| wrong(line, message))?);
            } else if words == ["steps"] {
                in_steps = true;
            } else if let ["drawn", word] = words[..] {
                let number = u64::from_str_radix(word, 16);
                let told = "give the 16 digits that were written, or leave the line out";
                drawn =
                    Some((line, number.map_err(|_| wrong(line, format!("{word:?} is no number; {told}")))?));
            } else {
                if words.first() == Some(&"drive") {
                    drive_line = line;
                }
                setting(&mut setup, &words).map_err(|message| wrong(line, message))?;
            }
        }
        if !in_steps {
            return Err(wrong(last, "the file ends before its steps; add a line `steps`".into()));
        }
        setup.drive.build().map_err(|e| wrong(drive_line, format!("the drive cannot be made: {e}")))?;
        if let Some((line, was)) = drawn {
            let is = setup.drawn().map_err(|e| wrong(line, e))?;
            let another = || {
                format!(
                    "what is drawn from the seeds is {is:016x}, and was {was:016x}: this would be another history; find \
                     the failure anew, or leave the line out if it does not matter"
                )
            };
            (is == was).then_some(()).ok_or_else(|| wrong(line, another()))?;
        }
        Ok(Self { setup, steps })
    }
}

fn setting(setup: &mut Setup, words: &[&str]) -> Result<(), String> {
    fn number<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
        word.parse().map_err(|_| format!("{word:?} is no {what}; give a number that fits"))
    }
    match words {
        ["drive", "random", seed] => setup.drive = DriveSpec::Random(number(seed, "seed")?),
        ["drive", "cut", name, n] => {
            setup.drive =
                DriveSpec::Cut { name: (*name).into(), cylinders: number(n, "number of cylinders")? };
        }
        ["host", host] => setup.host = host.parse().map_err(|e: UnknownHost| e.to_string())?,
        ["outside", words @ ..] => setup.outside = Outer::parse(words)?,
        ["mimic", "none"] => setup.mimic = Mimicry::None,
        ["mimic", "learner"] => setup.mimic = Mimicry::Learner,
        ["mimic", "probing"] => setup.mimic = Mimicry::Probing,
        ["policy", name] => setup.policy = name.parse().map_err(|e| format!("{e}"))?,
        ["age", n] => setup.age = number(n, "weight")?,
        ["budget", n] => setup.budget = number(n, "number of tracks")?,
        ["sharing", "lottery"] => setup.sharing = Sharing::Lottery,
        ["sharing", "greedy"] => setup.sharing = Sharing::Greedy,
        ["idle", "off"] => setup.idle = None,
        ["idle", threshold, ppm, used @ ("short" | "long")] => {
            let threshold = Duration::from_nanos(number(threshold, "number of nanoseconds")?);
            let harm_ppm = number(ppm, "part in a million")?;
            let idle = IdleTime { threshold, short: *used == "short", harm_ppm };
            idle.check().map_err(|error| error.to_string())?;
            setup.idle = Some(idle);
        }
        ["most-pending", n] => setup.most_pending = number(n, "number of requests")?,
        ["most-partials", n] => setup.most_partials = number(n, "number of blocks")?,
        ["writes-serve-reads", "on"] => setup.writes_serve_reads = true,
        ["writes-serve-reads", "off"] => setup.writes_serve_reads = false,
        ["writes-serve-writes", "on"] => setup.writes_serve_writes = true,
        ["writes-serve-writes", "off"] => setup.writes_serve_writes = false,
        ["log", "on"] => setup.log = true,
        ["log", "off"] => setup.log = false,
        ["start", n] => match number(n, "number of nanoseconds")? {
            ns if ns <= LATEST_START_NS => setup.start_ns = ns,
            _ => return Err(format!("too late a start; give at most {LATEST_START_NS} ns")),
        },
        ["seed", n] => setup.seed = number(n, "seed")?,
        _ => {
            let shown: String = words.join(" ").chars().take(40).collect();
            return Err(format!(
                "{shown:?} is no setting; give drive, host, outside, policy, mimic, age, budget, sharing, idle, most-pending, \
                 most-partials, writes-serve-reads, writes-serve-writes, log, start or seed, or begin the steps with a line `steps`"
            ));
        }
    }
    Ok(())
}
