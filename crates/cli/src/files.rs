//! Files that the user names.

use crate::problem::Problem;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The largest file read into memory, 1 GiB: a trace of some twenty million requests.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads the whole content of a file.
///
/// # Errors
/// The system's error, or the file is too large.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Problem::failed(format!("{} is larger than 1 GiB", path.display()))
            .help("cut it into smaller files"));
    }
    Ok(bytes)
}

/// Opens a file to read it part by part.
///
/// # Errors
/// The system's error.
pub(crate) fn open(path: &Path) -> Result<File, Problem> {
    File::open(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::failed(format!("cannot read {}: {error}", path.display())).help("name a file that can be read")
}

/// Replaces a file as a whole, or leaves it as it was.
///
/// # Errors
/// The system's error; nothing has changed then.
pub(crate) fn replace(path: &Path, text: impl AsRef<[u8]>) -> Result<(), Problem> {
    replace_with(path, |file| file.write_all(text.as_ref()))
}

/// Replaces a file by the output of `write`, for content that is too large for memory.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), Problem> {
    let target = target(path)?;
    let beside = beside(&target);
    write_new(&beside, write)
        .and_then(|()| fs::rename(&beside, &target))
        .map_err(|error| cannot_write(path, &beside, &error))
}

/// Checks that [`replace`] could write a small file at `path` now, before work whose results would be lost otherwise.
///
/// # Errors
/// As [`replace`]; nothing has changed then.
pub(crate) fn check_replaceable(path: &Path) -> Result<(), Problem> {
    let beside = beside(&target(path)?);
    write_new(&beside, |file| file.write_all(b"\n"))
        .and_then(|()| fs::remove_file(&beside))
        .map_err(|error| cannot_write(path, &beside, &error))
}

fn target(path: &Path) -> Result<PathBuf, Problem> {
    // The target of a link is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return Err(Problem::failed(format!("{} is there and is not a regular file", path.display()))
            .help("name another file"));
    }
    Ok(target)
}

fn cannot_write(path: &Path, beside: &Path, error: &io::Error) -> Problem {
    // The file may not exist.
    let _ = fs::remove_file(beside);
    Problem::failed(format!("cannot write {}: {error}", path.display()))
        .help("name a file in a directory that exists, has room and may be written to")
}

fn beside(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    target.with_file_name(name)
}

fn write_new(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    write(&mut file)?;
    file.sync_all()
}
