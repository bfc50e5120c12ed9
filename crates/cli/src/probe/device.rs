//! The drive to probe, as the user names it, and the handle to it.

use crate::differs::{self, Differs, in_force};
use crate::drive::resolve::resolve;
use crate::problem::Problem;
use ::probe::{DeviceError, ProbedDevice, Timed};
use drive::{Drive, NotDone, Rules, Waiting};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Instant, LbnRange, Op, Sectors};

/// A drive to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceName {
    /// A drive simulated from a profile.
    Emulated {
        /// A built-in drive's name, or a file.
        drive: String,
        /// The drive's differences from the profile.
        differs: Differs,
    },
    /// A disk of this machine, or a file on one.
    Raw {
        /// The path of the disk or file.
        path: String,
    },
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let usage = || {
            "give emulated:NAME with a built-in drive's name, or emulated:FILE.toml; `,PRESET`, `,BEHAVIOUR=VALUE` and `,seed=N` \
             may follow; or a disk's path, /dev/sdX"
                .to_owned()
        };
        if ["/", "./", "../"].iter().any(|begin| text.starts_with(begin)) {
            return Ok(Self::Raw { path: text.to_owned() });
        }
        let Some(("emulated", rest)) = text.split_once(':') else { return Err(usage()) };
        let (drive, words) = differs::parted(rest);
        if drive.is_empty() {
            return Err(usage());
        }
        let differs = Differs::read(&words).map_err(|problem| differs::wrong(rest, drive, problem))?;
        Ok(Self::Emulated { drive: drive.to_owned(), differs })
    }
}

/// An emulated drive is written with its differences from the profile.
impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw { path } => f.write_str(path),
            Self::Emulated { drive, differs } => write!(f, "{drive}{differs}"),
        }
    }
}

impl DeviceName {
    /// Returns the name of the drive or the path, without the differences.
    pub(crate) fn drive(&self) -> &str {
        let (Self::Emulated { drive: name, .. } | Self::Raw { path: name }) = self;
        name
    }

    /// Returns a line about an emulated drive: its title, behaviour, queue, buffer and bus. `None` for a real disk.
    ///
    /// # Errors
    /// There is no such drive.
    pub(crate) fn preset(&self) -> Result<Option<String>, Problem> {
        let Self::Emulated { drive, differs } = self else { return Ok(None) };
        let found = resolve(drive)?;
        Ok(Some(format!(
            "{}, emulated, {}",
            found.profile.title,
            in_force(&found.profile, differs.behaviour)
        )))
    }

    /// Opens the drive for reads, and for writes to some sectors; an emulated drive, which has no data to lose, for all
    /// writes. Also returns a warning if the disk is in use.
    ///
    /// # Errors
    /// There is no such drive, its profile is too incomplete to simulate it, or a disk to be written is in use.
    pub(crate) fn open_for(
        &self,
        writes: Option<LbnRange>,
    ) -> Result<(Box<dyn ProbedDevice>, Option<String>), Problem> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Raw { path } => {
                let (disk, user) = super::timed::TimedRaw::open(path.as_ref(), writes)?;
                let warning = user.map(|user| {
                    format!(
                        "warning: {path} is in use ({user}): what others do on it disturbs the measurement"
                    )
                });
                Ok((Box::new(disk), warning))
            }
            #[cfg(not(target_os = "linux"))]
            Self::Raw { path } => {
                Err(Problem::failed(format!("{path}: disks are read on Linux only"))
                    .help("give emulated:NAME"))
            }
            Self::Emulated { drive: name, differs: Differs { behaviour, seed } } => {
                let found = resolve(name)?;
                let drive = Drive::with_behaviour(&found.profile, Rules::HARDWARE, *behaviour, *seed);
                let drive = drive.map_err(|error| {
                    Problem::failed(format!("{name}: {error}"))
                        .help("give a profile with a [firmware] table, as `freeblock drive show NAME --toml` prints")
                })?;
                Ok((Box::new(Emulated { host: Waiting::new(drive) }), None))
            }
        }
    }
}

/// A simulated drive behind the same handle as a real one.
struct Emulated {
    host: Waiting,
}

impl Emulated {
    fn carry_out<const N: usize>(
        &mut self,
        at: Instant,
        of: [(Op, LbnRange); N],
    ) -> Result<[Timed; N], DeviceError> {
        let times = self.host.carry_out(at, of).map_err(|NotDone { op, range, why }| DeviceError {
            op,
            range,
            unreadable: why.unreadable(),
            reason: why.to_string(),
            mend: "check the profile with `freeblock drive show`".to_owned(),
        })?;
        Ok(times.map(|(submitted, completed)| Timed { submitted, completed }))
    }
}

impl ProbedDevice for Emulated {
    fn capacity(&self) -> Sectors {
        self.host.drive().model().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.host.drive().model().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.host.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        self.carry_out(at, [(op, range)]).map(|[timed]| timed)
    }

    fn takes_two(&self) -> bool {
        self.host.drive().queue_depth() > 1
    }

    fn execute_two(&mut self, at: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        self.carry_out(at, two)
    }
}
