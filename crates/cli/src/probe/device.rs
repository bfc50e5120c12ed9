//! Which drive is probed, as the user names it, and the handle to it.

use crate::drive::resolve::resolve;
use crate::problem::Problem;
use ::probe::{Device, DeviceError, Timed};
use drive::{Command, Drive};
use std::str::FromStr;
use units::{Bytes, Instant, LbnRange, Op, RequestId, Sectors};

/// A drive to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceName {
    /// Simulated from a profile.
    Emulated {
        /// A built-in drive's name or a file.
        drive: String,
    },
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("emulated", drive)) if !drive.is_empty() => Ok(Self::Emulated { drive: drive.to_owned() }),
            _ => Err("give emulated:NAME with a built-in drive's name, or emulated:FILE.toml".to_owned()),
        }
    }
}

impl DeviceName {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such drive, or its profile does not say enough to simulate it.
    pub(crate) fn open(&self) -> Result<Box<dyn Device>, Problem> {
        match self {
            Self::Emulated { drive: name } => {
                let found = resolve(name)?;
                let drive = Drive::new(&found.profile).map_err(|error| {
                    Problem::failed(format!("{name}: {error}"))
                        .help("give a profile with a [firmware] table, as `freeblock drive show NAME --toml` prints")
                })?;
                Ok(Box::new(Emulated { drive, now: Instant::ZERO, commands: 0 }))
            }
        }
    }
}

/// A simulated drive behind the handle that a real one would have.
struct Emulated {
    drive: Drive,
    now: Instant,
    commands: u64,
}

impl Device for Emulated {
    fn capacity(&self) -> Sectors {
        self.drive.model().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.drive.model().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let submitted = at.max(self.now);
        let id = RequestId::new(self.commands);
        self.commands += 1;
        let failed = |reason: String| DeviceError {
            op,
            range,
            reason,
            mend: "check the profile with `freeblock drive show`".to_owned(),
        };
        self.drive.submit(submitted, Command { id, op, range }).map_err(|e| failed(e.to_string()))?;
        loop {
            let Some(at) = self.drive.next_event() else {
                return Err(failed("the drive gave no answer".to_owned()));
            };
            self.drive.advance(at);
            if let Some(done) = self.drive.pop_completion() {
                self.now = done.at;
                return Ok(Timed { submitted, completed: done.at });
            }
        }
    }
}
