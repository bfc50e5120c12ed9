//! `freeblock drive import`.

use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use model::{Profile, disksim};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bounds the bytes read from one file: a device or pipe may have no end, and the importer refuses a file this large.
const FILE_BYTES_MAX: u64 = 128 << 20;

pub(crate) fn execute(
    file: &Path,
    output: Option<&Path>,
    disk: Option<&str>,
    name: Option<&str>,
    console: &Console,
) -> Result<String, Problem> {
    if let Some(name) = name {
        check(name)?;
    }
    let was_read = RefCell::new(Vec::new());
    let files = |path: &Path| {
        let bytes = read(path)?;
        was_read.borrow_mut().push(path.to_owned());
        Ok(bytes)
    };
    let mut imported = disksim::import_from(&files, file, disk).map_err(Problem::failed)?;
    if let Some(output) = output {
        spare(&was_read.borrow(), output)?;
    }
    if let Some(name) = name {
        imported.profile.name = name.to_owned();
    }
    let text = imported.profile.to_toml();
    // Refuse to write a profile that cannot be read again.
    match Profile::from_toml(&text, "the profile") {
        Ok(again) if again == imported.profile => {}
        _ => {
            return Err(Problem::failed(format!(
                "{}: the imported profile changes when it is written and read again",
                file.display()
            ))
            .help("report this defect of freeblock with the file"));
        }
    }
    if let Some(output) = output {
        files::replace(output, &text)?;
    }
    for note in &imported.notes {
        console.note(&format!("note: {note}"));
    }
    Ok(if output.is_some() { String::new() } else { text })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses to overwrite a file that was read, under any path or link.
fn spare(was_read: &[PathBuf], output: &Path) -> Result<(), Problem> {
    // A file that does not exist yet was not read.
    let Ok(target) = fs::canonicalize(output) else { return Ok(()) };
    let same = |path: &&PathBuf| fs::canonicalize(path).is_ok_and(|path| path == target);
    match was_read.iter().find(same) {
        None => Ok(()),
        Some(path) => Err(Problem::usage(format!(
            "-o {} would write over {}, which this import reads",
            output.display(),
            path.display()
        ))
        .help("name another file, or leave out -o to print to standard output")),
    }
}

fn check(name: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 60 && name.chars().all(fits) {
        return Ok(());
    }
    Err(Problem::usage(format!("{name:?} is no name for a drive"))
        .help("give --name 1 to 60 lower-case letters, digits and hyphens"))
}
