//! Reads and writes profiles as TOML.

use crate::error::ProfileError;
use crate::profile::Profile;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::ops::Range;
#[cfg(feature = "std")]
use std::io::Read;
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The largest profile file accepted. Built-in profiles have at most 20 KB; an imported drive with many defects has some MB.
#[cfg(feature = "std")]
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads the text of a profile. Reading stops at the limit, because a pipe or a device may have no end.
#[cfg(feature = "std")]
fn text(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(std::io::Error::other(format!(
            "the file has more than {FILE_BYTES_MAX} bytes, which no profile has"
        ))),
        false => Ok(text),
    }
}

/// A profile that could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[cfg(feature = "std")]
    #[error("{}: {source}; name a readable profile file", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a profile in TOML.
    #[error("{name}:{line}:{column}: {message}; see `freeblock drive show NAME` for a profile that works")]
    Toml {
        /// The file, or the name given to the text.
        name: String,
        /// The line of the error, from 1.
        line: usize,
        /// The column of the error in characters, from 1.
        column: usize,
        /// The parser's message, on one line.
        message: String,
        /// The position of the invalid text, in bytes.
        span: Range<usize>,
    },
    /// The file is a profile, but its values describe no possible drive.
    #[error("{name}: {source}")]
    Profile {
        /// The file, or the name given to the text.
        name: String,
        /// The invalid field.
        source: ProfileError,
    },
}

impl Profile {
    /// Reads a profile from TOML; `name` is used for the file in messages.
    ///
    /// # Errors
    /// The text is not TOML, or lacks fields of a profile, or has unknown ones; the error has line and column. The values
    /// are checked later, by [`DriveModel::from_profile`](crate::DriveModel::from_profile).
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
    /// Those of [`from_toml`](Self::from_toml), and [`ReadError::Io`] if the file cannot be read.
    #[cfg(feature = "std")]
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let text = std::fs::File::open(path).and_then(text).map_err(io)?;
        Self::from_toml(&text, &path.display().to_string())
    }

    /// Returns the profile as TOML.
    pub fn to_toml(&self) -> String {
        // Cannot fail: a profile has only tables, arrays, numbers and texts, and TOML can represent these.
        toml::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_file_is_read_than_a_profile_may_have() {
        let most = usize::try_from(FILE_BYTES_MAX).unwrap();
        let mut endless = std::io::repeat(b'#').take(4 * FILE_BYTES_MAX);
        assert!(text(&mut endless).unwrap_err().to_string().contains("bytes, which no profile has"));
        assert_eq!(endless.limit(), 3 * FILE_BYTES_MAX - 1);
        assert_eq!(text(std::io::repeat(b'#').take(FILE_BYTES_MAX)).unwrap().len(), most);
    }
}
