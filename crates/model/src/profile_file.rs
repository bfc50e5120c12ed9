//! Reading and writing profiles as TOML.

use crate::error::ProfileError;
use crate::profile::Profile;
use std::ops::Range;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The largest profile file read; the largest built-in one has a tenth of it.
const LARGEST_FILE: u64 = 64 << 20;

/// A profile that could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("{}: {source}; name a readable profile file", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a profile in TOML.
    #[error("{name}:{line}:{column}: {message}; see `freeblock drive show NAME` for a profile that works")]
    Toml {
        /// The file, or whatever the text was called.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser said.
        message: String,
        /// The bytes meant.
        span: Range<usize>,
    },
    /// The file is a profile, but not of a drive.
    #[error("{name}: {source}")]
    Profile {
        /// The file, or whatever the text was called.
        name: String,
        /// What is wrong.
        source: ProfileError,
    },
}

impl Profile {
    /// Reads a profile from TOML; `name` stands in messages for the file.
    ///
    /// # Errors
    /// Line and column of what is not TOML or not a profile. That the numbers describe a drive is checked by
    /// [`DriveModel::from_profile`](crate::DriveModel::from_profile).
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ReadError> {
        toml::from_str(text).map_err(|e| {
            let span = e.span().unwrap_or(0..0);
            let before = text.get(..span.start).unwrap_or(text);
            ReadError::Toml {
                name: name.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1,
                message: e.message().trim().replace('\n', " "),
                span,
            }
        })
    }

    /// Reads a profile file.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml), and what the system says of the file.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let size = std::fs::metadata(path).map_err(io)?.len();
        if size > LARGEST_FILE {
            return Err(io(std::io::Error::other(format!("{size} bytes are no profile"))));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        Self::from_toml(&text, &path.display().to_string())
    }

    /// The profile as TOML.
    pub fn to_toml(&self) -> String {
        // A profile is plain tables, arrays and numbers: all of it has a place in TOML.
        toml::to_string(self).unwrap_or_default()
    }
}
