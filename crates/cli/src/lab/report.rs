//! `freeblock lab report`.

use super::check::tally;
use super::results;
use crate::args::LabArgs;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use lab::report::{Entry, Page, html};
use std::path::Path;

pub(crate) fn execute(
    args: &LabArgs,
    output: &Path,
    kept: Option<&Path>,
    console: &Console,
) -> Result<String, Problem> {
    let experiments = results::chosen(args)?;
    if let Some(directory) = output.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        results::make_directory(directory)?;
    }
    files::check_replaceable(output)?;
    let findings = results::obtain(args, &experiments, kept, console, |_| Ok(()))?;
    let entries = findings
        .iter()
        .map(|f| Entry { experiment: f.experiment, command: &f.saved.command, outcome: &f.saved.outcome })
        .collect();
    let page = Page { version: env!("CARGO_PKG_VERSION"), command: &command(args), entries };
    files::replace(output, &html(&page).map_err(Problem::failed)?)?;
    let claims = || findings.iter().flat_map(|f| &f.saved.outcome.claims);
    let holding = claims().filter(|claim| claim.holds()).count();
    Ok(format!("wrote {}: {}\n", output.display(), tally(holding, claims().count())))
}

/// The command that makes the page, but for the place where it is put.
fn command(args: &LabArgs) -> String {
    let mut command = "freeblock lab report".to_owned();
    for id in &args.ids {
        command.push(' ');
        command.push_str(id);
    }
    for (given, flag) in [(args.quick, " --quick"), (args.exact, " --exact")] {
        if given {
            command.push_str(flag);
        }
    }
    format!("{command} --seed {}", args.seed)
}
