//! The drive of a core outside the drive, and that core's knowledge and configuration.

use drive::{BadSectors, Behaviour, Queue, QueueOrder};
use model::{DriveModel, Profile, builtin};
use scheduler::{OutsideConfig, Overheads};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use units::Duration;

/// The built-in drive whose firmware random drives get, because they have none of their own.
const FIRMWARE: &str = "quantum-atlas-10k";

/// The behaviour of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// The drive behaves as its profile says, without read-ahead, and serves commands in order of arrival.
    Exact,
    /// The drive behaves like those of the FAST 2002 paper ([`Behaviour::fast02`]).
    Noisy,
    /// The drive's seek times and overheads vary far more than real drives', it misses more landings, and it acknowledges
    /// writes from its buffer.
    Rough,
}

/// The configuration of a core outside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The configuration of the FAST 2002 paper ([`OutsideConfig::paper`]).
    Paper,
    /// The improved configuration ([`OutsideConfig::beyond`]).
    Beyond,
    /// The improved configuration, which also plans the rest of a gap behind a detour, and delays requests by a revolution
    /// for a detour while the harm bound permits.
    Spends,
    /// The configuration of a daemon: the improved one, which also passes requests to the drive while no block is wanted or no
    /// gap can be used ([`OutsideConfig::serving`]).
    Serving,
}

/// The core's knowledge of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The core has the profile of the drive.
    Exact,
    /// The core has a profile with a wrong speed.
    Wrong,
    /// The core knows only the size of the drive.
    Size,
}

impl FromStr for Knowledge {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "exact" => Ok(Self::Exact),
            "wrong" => Ok(Self::Wrong),
            "size" => Ok(Self::Size),
            other => Err(format!("{other:?}; give one of exact, wrong, size")),
        }
    }
}

impl fmt::Display for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Wrong => "wrong",
            Self::Size => "size",
        })
    }
}

/// The information that the host gives the core about a command with bad sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// The host reports every bad sector.
    All,
    /// The host reports the first bad sector; the sectors before it were read or written.
    First,
    /// The host reports the first bad sector, and nothing about the other sectors.
    Nothing,
}

/// A drive, and the core outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The behaviour of the drive.
    pub conduct: Conduct,
    /// The core's knowledge of the drive.
    pub knowledge: Knowledge,
    /// The configuration of the core.
    pub manner: Manner,
    /// The most scheduled commands at the drive.
    pub at_drive: u8,
    /// The information that the host gives about commands with bad sectors.
    pub tells: Tells,
}

impl Default for Outer {
    fn default() -> Self {
        Self {
            conduct: Conduct::Noisy,
            knowledge: Knowledge::Exact,
            manner: Manner::Beyond,
            at_drive: 2,
            tells: Tells::All,
        }
    }
}

impl Outer {
    /// Returns the profile with firmware, which it gets if it has none.
    pub(crate) fn profile(mut profile: Profile) -> Result<Profile, String> {
        if profile.firmware.is_none() {
            profile.firmware = builtin::find(FIRMWARE).map_err(|e| e.to_string())?.firmware;
        }
        Ok(profile)
    }

    /// Returns the behaviour of the drive.
    pub(crate) fn behaviour(&self) -> Behaviour {
        let noisy = Behaviour::fast02();
        // No sector is bad at the start, because steps make sectors bad. The number of retries applies to such sectors.
        let bad_sectors = Some(BadSectors { count: 0, retries: 2 });
        match self.conduct {
            Conduct::Exact => Behaviour {
                write_back: Some(false),
                read_ahead: Some(false),
                bad_sectors,
                queue: Queue::Tagged { order: QueueOrder::Fcfs, depth: 64 },
                ..Behaviour::default()
            },
            Conduct::Noisy => Behaviour { bad_sectors, ..noisy },
            Conduct::Rough => Behaviour {
                seek_spread: Duration::from_micros(300),
                missed_landings_ppm: 50_000,
                seek_ageing_ppm: 100_000,
                command_spread: Duration::from_micros(400),
                completion_spread: Duration::from_micros(400),
                write_back: Some(true),
                bad_sectors,
                ..noisy
            },
        }
    }

    /// Returns the core's model of the drive.
    pub(crate) fn known(&self, profile: &Profile, drive: &DriveModel) -> Result<Arc<DriveModel>, String> {
        let model = match self.knowledge {
            Knowledge::Exact => DriveModel::from_profile(profile),
            Knowledge::Wrong => {
                let rpm = profile.rpm + profile.rpm / 50;
                DriveModel::from_profile(&Profile { rpm, ..profile.clone() })
            }
            Knowledge::Size => DriveModel::unknown(drive.layout().capacity(), drive.sector_bytes()),
        };
        model.map(Arc::new).map_err(|e| e.to_string())
    }

    /// Returns the configuration of the core.
    pub(crate) fn config(&self, overheads: Overheads) -> OutsideConfig {
        let config = match (self.knowledge, self.manner) {
            (Knowledge::Size, Manner::Serving) => OutsideConfig::blind().serving(),
            (Knowledge::Size, _) => OutsideConfig::blind(),
            (_, Manner::Serving) => OutsideConfig::beyond(overheads).serving(),
            (_, Manner::Beyond) => OutsideConfig::beyond(overheads),
            (_, Manner::Spends) => {
                OutsideConfig::beyond(overheads).with_plan_rest(true).with_extra_revolutions(true)
            }
            (_, Manner::Paper) => OutsideConfig::paper(overheads, Duration::from_micros(300)),
        };
        config.with_at_drive(self.at_drive)
    }

    /// Returns the most commands at the drive, whether requests are scheduled or passed through.
    pub(crate) fn most_at_drive(&self) -> usize {
        let config = self.config(Overheads::default());
        config.at_drive.max(config.pass_through).into()
    }

    /// Parses the words after `outside` in a file.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let [conduct, knowledge, manner, at_drive, tells] = words else {
            return Err(format!(
                "outside takes 5 words, here are {}; for example: outside noisy exact beyond 2 all",
                words.len()
            ));
        };
        let none = |word: &str, of: &str| Err(format!("{word:?}; give one of {of}"));
        Ok(Self {
            conduct: match *conduct {
                "exact" => Conduct::Exact,
                "noisy" => Conduct::Noisy,
                "rough" => Conduct::Rough,
                other => return none(other, "exact, noisy, rough"),
            },
            knowledge: knowledge.parse()?,
            manner: match *manner {
                "paper" => Manner::Paper,
                "beyond" => Manner::Beyond,
                "spends" => Manner::Spends,
                "serving" => Manner::Serving,
                other => return none(other, "paper, beyond, spends, serving"),
            },
            at_drive: match at_drive.parse() {
                Ok(n @ 1..=64) => n,
                _ => return Err(format!("{at_drive:?} commands at the drive; give 1 to 64")),
            },
            tells: match *tells {
                "all" => Tells::All,
                "first" => Tells::First,
                "nothing" => Tells::Nothing,
                other => return none(other, "all, first, nothing"),
            },
        })
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conduct = match self.conduct {
            Conduct::Exact => "exact",
            Conduct::Noisy => "noisy",
            Conduct::Rough => "rough",
        };
        let knowledge = self.knowledge;
        let tells = match self.tells {
            Tells::All => "all",
            Tells::First => "first",
            Tells::Nothing => "nothing",
        };
        let manner = match self.manner {
            Manner::Paper => "paper",
            Manner::Beyond => "beyond",
            Manner::Spends => "spends",
            Manner::Serving => "serving",
        };
        write!(f, "{conduct} {knowledge} {manner} {} {tells}", self.at_drive)
    }
}
