//! `freeblock lab report`.

use super::check::tally;
use super::results::{self, Finding};
use crate::args::{LabArgs, LedgerArgs};
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use lab::ledger::{Ledger, Run};
use lab::report::{Entry, Page, html};
use std::path::Path;

pub(crate) fn execute(
    args: &LabArgs,
    output: &Path,
    kept: Option<&Path>,
    record: &LedgerArgs,
    console: &Console,
) -> Result<String, Problem> {
    if record.ledger.is_some() && record.commit.is_none() {
        return keep(record, &[]);
    }
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
    let recorded = keep(record, &findings)?;
    Ok(format!("wrote {}: {}\n{recorded}", output.display(), tally(holding, claims().count())))
}

/// Records the findings in the ledger, and writes the document; returns what was written.
fn keep(args: &LedgerArgs, findings: &[Finding]) -> Result<String, Problem> {
    let Some(path) = &args.ledger else { return Ok(String::new()) };
    let there = std::fs::exists(path).unwrap_or(true);
    if !there && findings.is_empty() {
        return Err(Problem::failed(format!("there is no ledger at {}", path.display()))
            .help("name one that is there, or give --commit and --date to run experiments and begin one"));
    }
    let mut ledger = if there {
        let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
        Ledger::from_json(&text).map_err(|error| Problem::failed(format!("{}: {error}", path.display())))?
    } else {
        Ledger::default()
    };
    let mut written = String::new();
    if let Some((commit, date)) = args.commit.as_ref().zip(args.date.as_ref()) {
        for Finding { experiment, saved, .. } in findings {
            ledger.record(Run {
                experiment: experiment.id.to_owned(),
                size: saved.stamp.size,
                seed: saved.stamp.seed,
                commit: commit.clone(),
                date: date.clone(),
                claims: saved.outcome.claims.clone(),
            });
        }
        files::replace(path, ledger.to_json().map_err(Problem::failed)?)?;
        written.push_str(&format!("wrote {}\n", path.display()));
    }
    if let Some(document) = &args.markdown {
        files::replace(document, ledger.markdown(lab::experiments()))?;
        written.push_str(&format!("wrote {}\n", document.display()));
    }
    Ok(written)
}

/// Returns the command that makes the page, without its place.
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
