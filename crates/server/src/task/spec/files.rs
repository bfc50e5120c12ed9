//! The files that a task names.

use super::{SpecError, TaskSpec};
use crate::file_system::Places;
use std::path::{Path, PathBuf};

impl TaskSpec {
    /// Returns the files that the specification names, with the names of the fields.
    fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        fn all<'a>(
            field: &'static str,
            paths: &'a [PathBuf],
        ) -> impl Iterator<Item = (&'static str, &'a Path)> {
            paths.iter().map(move |path| (field, path.as_path()))
        }
        all("to", self.to.as_slice())
            .chain(all("plan", self.plan.as_slice()))
            .chain(all("checksums", self.checksums.as_slice()))
            .chain(all("from", &self.from))
            .chain(all("since", &self.since))
    }

    /// Returns whether the specification names any file.
    pub fn names_files(&self) -> bool {
        self.paths().next().is_some()
    }

    /// Checks by path alone, without opening files, that every file that the specification names is in one of the
    /// permitted directories, `targets`.
    ///
    /// # Errors
    /// The first field with a path outside of these directories.
    pub fn check_places(&self, places: &Places) -> Result<(), SpecError> {
        self.paths().try_for_each(|(field, path)| {
            places.check(path).map_err(|mend| SpecError::new(field, path.display().to_string(), mend))
        })
    }
}
