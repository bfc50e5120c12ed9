//! `freeblock drive import`.

use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use model::{Profile, disksim};
use std::path::Path;

pub(crate) fn execute(
    file: &Path,
    output: Option<&Path>,
    name: Option<&str>,
    console: &Console,
) -> Result<String, Problem> {
    if let Some(name) = name {
        check(name)?;
    }
    let mut imported = disksim::import(file).map_err(Problem::failed)?;
    if let Some(name) = name {
        imported.profile.name = name.to_owned();
    }
    let text = imported.profile.to_toml();
    // What cannot be read again is not worth writing.
    match Profile::from_toml(&text, "the profile") {
        Ok(again) if again == imported.profile => {}
        _ => {
            return Err(Problem::failed(format!(
                "{}: its profile does not survive being written",
                file.display()
            ))
            .help("this is a defect of freeblock; please report it with the file"));
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

fn check(name: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 60 && name.chars().all(fits) {
        return Ok(());
    }
    Err(Problem::usage(format!("{name:?} is no name for a drive"))
        .help("give --name 1 to 60 lower-case letters, digits and hyphens"))
}
