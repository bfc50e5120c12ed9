//! `freeblock lab run`.

use super::args::LabArgs;
use super::results::{self, Finding};
use super::show;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use lab::numbers::numbers;
use lab::plot;
use lab::store::Saved;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(crate) fn execute(
    args: &LabArgs,
    directory: &Path,
    resume: bool,
    console: &Console,
) -> Result<String, Problem> {
    let experiments = results::chosen(args)?;
    results::make_directory(directory)?;
    let mut text = String::new();
    results::obtain(
        args,
        &experiments,
        results::Wanted::All,
        resume.then_some(directory),
        console,
        |finding| {
            let written = write(directory, finding)?;
            page(&mut text, finding, &written);
            Ok(())
        },
    )?;
    Ok(text)
}

/// Writes the pictures, then the numbers, so that numbers are never without their pictures. Returns the files
/// written.
fn write(directory: &Path, finding: &Finding) -> Result<Vec<PathBuf>, Problem> {
    let mut written = Vec::new();
    for figure in &finding.saved.outcome.figures {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if figure.id.is_empty() || !figure.id.chars().all(fits) {
            return Err(Problem::failed(format!(
                "{}: {:?} is no name for a figure",
                finding.experiment.id, figure.id
            ))
            .help("give lower-case letters, digits and hyphens"));
        }
        if let Some(picture) = plot::svg(figure).map_err(Problem::failed)? {
            let path = directory.join(format!("{}.svg", figure.id));
            files::replace(&path, &picture)?;
            written.push(path);
        }
        let path = directory.join(format!("{}.figure.json", figure.id));
        files::replace(&path, &crate::drive::json(figure)?)?;
        written.push(path);
    }
    if !finding.kept {
        let path = directory.join(Saved::file_name(finding.experiment.id));
        files::replace(&path, &finding.saved.to_json().map_err(Problem::failed)?)?;
        written.push(path);
    }
    Ok(written)
}

fn page(text: &mut String, finding: &Finding, written: &[PathBuf]) {
    let Finding { experiment, saved, kept } = finding;
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}: {}\n{}", experiment.id, experiment.title, experiment.set_up);
    for figure in &saved.outcome.figures {
        let _ = write!(
            text,
            "\n{}: {} ({})\n{}",
            figure.id,
            figure.title,
            figure.y.label,
            show::numbers(&numbers(figure))
        );
    }
    if !saved.outcome.claims.is_empty() {
        let claims = &saved.outcome.claims;
        let _ = write!(text, "\n{}{}", show::claims(claims), show::reasons(claims));
    }
    for note in &saved.outcome.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    let _ = writeln!(text, "\nmade by {}{}", saved.command, if *kept { ", before" } else { "" });
    for path in written {
        let _ = writeln!(text, "wrote {}", path.display());
    }
}
