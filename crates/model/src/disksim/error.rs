//! Why an import failed, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file, shown as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", shown(&self.file), self.line, self.column)
    }
}

/// Why a file could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is not what DiskSim's files look like.
    #[error("{place}: expected {expected}, found {found}; {mend}")]
    Syntax {
        /// Where.
        place: Place,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do about it.
        mend: String,
    },
    /// A parameter has a value that makes no sense or is not supported.
    #[error("{place}: {problem}; {mend}")]
    Value {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        mend: String,
    },
    /// A parameter without which there is no drive.
    #[error("{place}: `{block}` has no `{key}`; add `{key} = ...` to it")]
    Missing {
        /// Where the block begins.
        place: Place,
        /// The block.
        block: String,
        /// The parameter.
        key: String,
    },
    /// The file given cannot be read.
    #[error("cannot read {}: {cause}; check the path", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// A file that another one names cannot be read.
    #[error("{place}: cannot read {}: {cause}; put the file there, or correct its name", shown(path))]
    UnreadableSource {
        /// Where it is named.
        place: Place,
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// A file sources itself, directly or through others.
    #[error(
        "{place}: {} is being read already and would source itself for ever; remove this `source`",
        shown(path)
    )]
    SelfSourcing {
        /// The `source` that closes the circle.
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
        /// Their names.
        choices: Vec<String>,
    },
    /// The disk named is not there.
    #[error("{}: no disk is called `{}`; there are: {}", shown(path), plain(name), listed(choices))]
    NoSuchDisk {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names there are.
        choices: Vec<String>,
    },
    /// The numbers were read, but a drive cannot be laid out by them.
    #[error("{}: {cause}", shown(path))]
    Impossible {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: crate::ProfileError,
    },
}

/// A path fit for a message: a damaged file may name others with control characters in them.
fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
}

fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
