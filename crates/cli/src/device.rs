//! A device by what the user calls it.

use crate::drive::resolve::resolve;
use crate::problem::Problem;
use crate::values;
use drive::{Behaviour, BlackBox, Command, Drive, Rules};
use std::str::FromStr;
use units::{Duration, Instant, RequestId};

/// What the command line says of a device: `emulated:NAME-or-PROFILE[,seed=N][,noise]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSpec {
    /// A built-in drive's name, a profile or a DiskSim file.
    pub(crate) drive: String,
    /// Seeds its noise.
    seed: u64,
    /// Whether its times vary as a real drive's do.
    noise: bool,
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("emulated:") else {
            return Err(
                "this version knows emulated drives: give emulated:NAME, with a built-in drive's name or a profile"
                    .to_owned(),
            );
        };
        let mut parts = rest.split(',');
        let drive = parts.next().filter(|name| !name.is_empty()).ok_or("name the drive: emulated:NAME")?;
        let mut spec = Self { drive: drive.to_owned(), seed: 1, noise: false };
        for part in parts {
            match part.split_once('=') {
                Some(("seed", seed)) => spec.seed = values::seed(seed)?,
                None if part == "noise" => spec.noise = true,
                _ => return Err(format!("after the drive's name come seed=N and noise, not {part:?}")),
            }
        }
        Ok(spec)
    }
}

/// A device that carries out one command at a time.
pub(crate) struct Device {
    /// Its name, for people and files.
    pub(crate) name: String,
    box_: Box<dyn BlackBox>,
    now: Instant,
    next: u64,
}

impl DeviceSpec {
    /// Finds it.
    ///
    /// # Errors
    /// A drive that is not known, or has no firmware to speak to.
    pub(crate) fn open(&self) -> Result<Device, Problem> {
        let resolved = resolve(&self.drive)?;
        let behaviour = if self.noise { Behaviour::noisy() } else { Behaviour::default() };
        let drive = Drive::with_behaviour(&resolved.profile, Rules::HARDWARE, behaviour, self.seed)
            .map_err(|error| Problem::failed(format!("{}: {error}", self.drive)))?;
        let name = resolved.profile.title;
        Ok(Device { name, box_: Box::new(drive), now: Instant::ZERO, next: 0 })
    }
}

impl Device {
    /// What it says of itself.
    pub(crate) fn interface(&self) -> &dyn BlackBox {
        &*self.box_
    }

    /// Carries out one request, on the drive's own clock; how long it took.
    ///
    /// # Errors
    /// A request that the device refuses, fails or never ends.
    pub(crate) fn carry_out(&mut self, op: units::Op, range: units::LbnRange) -> Result<Duration, Problem> {
        let id = RequestId::new(self.next);
        self.next += 1;
        let begun = self.now;
        self.box_.submit(begun, Command { id, op, range }).map_err(Problem::failed)?;
        while let Some(at) = self.box_.next_event() {
            self.box_.advance(at);
            let Some(reply) = self.box_.pop_reply() else { continue };
            self.now = reply.at;
            return match reply.failed {
                None => Ok(reply.at.since(begun)),
                Some(bad) => Err(Problem::failed(format!("the device cannot {op} LBN {bad}"))
                    .help("probe a device without bad sectors, or replace this one")),
            };
        }
        Err(Problem::failed(format!("the device never answered a {op} of LBNs {range}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_drive_with_a_seed_and_noise() {
        let spec = |drive: &str, seed, noise| Ok(DeviceSpec { drive: drive.to_owned(), seed, noise });
        assert_eq!("emulated:a".parse(), spec("a", 1, false));
        assert_eq!("emulated:./a.toml,noise,seed=7".parse(), spec("./a.toml", 7, true));
        for wrong in [
            "",
            "a",
            "emulated:",
            "emulated:,noise",
            "emulated:a,",
            "emulated:a,seed",
            "emulated:a,seed=x",
            "/dev/sda",
        ] {
            assert!(wrong.parse::<DeviceSpec>().is_err(), "{wrong}");
        }
    }
}
