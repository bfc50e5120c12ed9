//! Tables of the Disk Mimic in files.

use crate::files;
use crate::problem::Problem;
use mimic::Saved;
use std::path::Path;
use units::Sectors;

/// Reads the table in a file.
///
/// # Errors
/// The file cannot be read, or holds no table, a damaged one or one of another version.
pub(crate) fn load(path: &Path) -> Result<Saved, Problem> {
    Saved::read(&mut files::open(path)?).map_err(|error| {
        Problem::failed(format!("{}: {error}", path.display())).help(format!(
            "`freeblock mimic probe DEVICE -o {}` begins anew; smtf without --mimic learns as it goes",
            path.display()
        ))
    })
}

/// Checks whether a table can be of a drive of this capacity.
///
/// # Errors
/// The table is that of another drive.
pub(crate) fn check_capacity(saved: &Saved, path: &Path, capacity: Sectors) -> Result<(), Problem> {
    if saved.capacity == capacity {
        return Ok(());
    }
    Err(Problem::failed(format!(
        "{}: the table is of {:?} with {} sectors, the drive has {capacity}",
        path.display(),
        saved.drive,
        saved.capacity
    ))
    .help("probe this drive, or name its own table"))
}
