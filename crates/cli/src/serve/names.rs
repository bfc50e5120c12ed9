//! Drives, and addresses for clients, as the command line and the configuration file name them.

use crate::differs::{self, Differs};
use server::Address;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A drive, as it is named on the command line and in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceSpec {
    /// A block device or a file.
    Raw(PathBuf),
    /// A simulated drive.
    Emulated {
        /// A built-in drive's name or a profile.
        drive: String,
        /// The file with the drive's bytes.
        file: PathBuf,
        /// The drive's differences from the profile.
        differs: Box<Differs>,
    },
}

impl DeviceSpec {
    /// Returns whether both drives use the same device or file, judging by the path.
    pub(crate) fn is_over(&self, other: &Self) -> bool {
        self.path() == other.path()
    }

    /// Returns the drive's name, which files of the state directory contain, so that they are not used for another drive.
    pub(crate) fn drive(&self) -> String {
        match self {
            Self::Raw(path) => path.display().to_string(),
            Self::Emulated { drive, .. } => format!("emulated:{drive}"),
        }
    }

    /// Returns the path of the drive's bytes.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Raw(path) => path,
            Self::Emulated { file, .. } => file,
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(rest) = text.strip_prefix("emulated:") else {
            return match text {
                "" => Err("give a device, a file, or emulated:NAME,file=PATH".into()),
                path => Ok(Self::Raw(path.into())),
            };
        };
        let (drive, parts) = differs::parted(rest);
        let (files, words): (Vec<&str>, Vec<&str>) =
            parts.into_iter().partition(|part| part.starts_with("file="));
        let file = files.last().and_then(|part| part.strip_prefix("file="));
        let differs = Differs::read(&words).map_err(|problem| differs::wrong(rest, drive, problem))?;
        let drive = drive.to_owned();
        match file.filter(|path| !path.is_empty()).map(PathBuf::from) {
            Some(file) if !drive.is_empty() => Ok(Self::Emulated { drive, file, differs: Box::new(differs) }),
            _ => Err(
                "give emulated:NAME,file=PATH: a built-in drive's name or a profile, and where its bytes are"
                    .into(),
            ),
        }
    }
}

/// An address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) Address);

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self(Address::Unix(path.into()))),
            Some(("tcp", address)) => match address.parse() {
                Ok(address) => Ok(Self(Address::Tcp(address))),
                Err(_) => {
                    Err(format!("{address:?} is no address with a port; give one as in tcp:127.0.0.1:10809"))
                }
            },
            _ => Err("give unix:PATH or tcp:ADDRESS:PORT".into()),
        }
    }
}
