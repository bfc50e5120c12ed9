//! The name of a file.

use std::fmt;

/// A file's path: one of the directories, and a name in it, which is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    /// The directory, counted from 0.
    pub directory: u32,
    /// The name.
    pub name: u64,
}

impl FilePath {
    /// Returns the path of `name` in `directory`.
    #[inline]
    pub const fn new(directory: u32, name: u64) -> Self {
        Self { directory, name }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}/{}", self.directory, self.name)
    }
}
