//! The errors of an import, with their places in the files.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file, shown as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The path of the file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", shown(&self.file), self.line, self.column)
    }
}

/// The reason for which a file could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text does not follow the syntax of DiskSim's files.
    #[error("{place}: expected {expected}, found {found}; {mend}")]
    Syntax {
        /// The place of the invalid text.
        place: Place,
        /// The expected text.
        expected: String,
        /// The text at that place.
        found: String,
        /// The remedy, as an instruction to the user.
        mend: String,
    },
    /// A parameter has a value that is invalid or not supported.
    #[error("{place}: {problem}; {mend}")]
    Value {
        /// The place of the value.
        place: Place,
        /// The invalid value, and the reason.
        problem: String,
        /// The remedy, as an instruction to the user.
        mend: String,
    },
    /// A required parameter is missing.
    #[error("{place}: `{block}` has no `{key}`; add `{key} = ...` to it")]
    Missing {
        /// The beginning of the block.
        place: Place,
        /// The name or the type of the block.
        block: String,
        /// The name of the parameter.
        key: String,
    },
    /// The given file cannot be read.
    #[error("cannot read {}: {cause}; check the path", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: String,
    },
    /// A file that another file names cannot be read.
    #[error("{place}: cannot read {}: {cause}; put the file there, or correct its name", shown(path))]
    UnreadableSource {
        /// The place where the file is named.
        place: Place,
        /// The path of the file that cannot be read.
        path: PathBuf,
        /// The system's error.
        cause: String,
    },
    /// A file sources itself, directly or through others.
    #[error(
        "{place}: {} is being read already and would source itself for ever; remove this `source`",
        shown(path)
    )]
    SelfSourcing {
        /// The `source` statement that closes the cycle.
        place: Place,
        /// The file.
        path: PathBuf,
    },
    /// No disk is specified.
    #[error(
        "{}: there is no `disksim_disk` or `dm_disk` block; give a .parv, .diskspecs or .model file",
        shown(path)
    )]
    NoDisk {
        /// The file.
        path: PathBuf,
    },
    /// Several disks are specified, and none or several of them are instantiated.
    #[error(
        "{}: several disks to choose from: {}; name one of them (`freeblock drive import --disk NAME`), or `instantiate` only one",
        shown(path),
        listed(choices)
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The names of the disks.
        choices: Vec<String>,
    },
    /// The named disk does not exist.
    #[error("{}: no disk is called `{}`; there are: {}", shown(path), plain(name), listed(choices))]
    NoSuchDisk {
        /// The file.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names of the disks in the file.
        choices: Vec<String>,
    },
    /// The numbers in the file describe no possible drive.
    #[error("{}: {cause}", shown(path))]
    Impossible {
        /// The file.
        path: PathBuf,
        /// The invalid field of the resulting profile.
        cause: crate::ProfileError,
    },
}

/// Returns a path in a form fit for a message. A damaged file may name other files with control characters in their names.
fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
}

fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
