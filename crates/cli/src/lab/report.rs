//! `freeblock lab report`.

use super::args::{DriveTrace, LabArgs, LedgerArgs};
use super::check::tally;
use super::results::{self, Finding};
use crate::drive::validate;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use lab::ledger::{Ledger, LedgerRun};
use lab::report::{Entry, Page, html};
use lab::{Axis, Figure, Kind};
use std::fmt::Write;
use std::path::Path;

pub(crate) fn execute(
    args: &LabArgs,
    output: &Path,
    kept: Option<&Path>,
    measured: &[DriveTrace],
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
    let tables = drives(measured, console)?;
    let findings = results::obtain(args, &experiments, results::Wanted::All, kept, console, |_| Ok(()))?;
    let entries = findings
        .iter()
        .map(|f| Entry { experiment: f.experiment, command: &f.saved.command, outcome: &f.saved.outcome })
        .collect();
    let page =
        Page { version: env!("CARGO_PKG_VERSION"), command: &command(args, measured), entries, tables };
    files::replace(output, &html(&page).map_err(Problem::failed)?)?;
    let claims = || findings.iter().flat_map(|f| &f.saved.outcome.claims);
    let holding = claims().filter(|claim| claim.holds()).count();
    let recorded = keep(record, &findings)?;
    Ok(format!("wrote {}: {}\n{recorded}", output.display(), tally(holding, claims().count())))
}

/// Returns a table of how far each drive's model is from its trace; nothing without a trace.
fn drives(measured: &[DriveTrace], console: &Console) -> Result<Vec<Figure>, Problem> {
    let mut rows = Vec::new();
    for DriveTrace { drive, trace } in measured {
        let (title, report) = validate::compare(drive, trace, console)?;
        let at = |share: f64| report.cdf.iter().find(|point| (point.share - share).abs() < 1e-9);
        let both = |share: f64| {
            at(share).map_or(String::new(), |point| format!("{:.2} / {:.2}", point.trace_ms, point.model_ms))
        };
        rows.push(vec![
            title,
            report.requests.to_string(),
            format!("{:.3}", report.demerit_ms),
            format!("{:.1}", 100.0 * report.demerit_ms / report.trace_mean_ms.max(f64::MIN_POSITIVE)),
            format!("{:.3} / {:.3}", report.trace_mean_ms, report.model_mean_ms),
            both(0.5),
            both(0.9),
            both(0.99),
        ]);
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let columns = [
        "drive",
        "requests",
        "demerit, ms",
        "% of the mean",
        "mean, drive / model, ms",
        "50%, drive / model",
        "90%",
        "99%",
    ];
    let columns = columns.map(str::to_owned).into();
    Ok(vec![Figure {
        id: "drives".to_owned(),
        title: "Drives held against traces of real ones".to_owned(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns, rows },
    }])
}

/// Records the findings in the ledger, and writes the document. Returns a line for each file written.
fn keep(args: &LedgerArgs, findings: &[Finding]) -> Result<String, Problem> {
    let Some(path) = &args.ledger else { return Ok(String::new()) };
    let there = std::fs::exists(path).unwrap_or(true);
    if !there && findings.is_empty() {
        return Err(Problem::failed(format!("there is no ledger at {}", path.display())).help(
            "name a report that is there, or give --commit and --date to run experiments and begin one",
        ));
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
            ledger.record(LedgerRun {
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

/// Returns the command that makes the page, without `-o` and the ledger's flags.
fn command(args: &LabArgs, measured: &[DriveTrace]) -> String {
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
    let _ = write!(command, " --seed {}", args.seed);
    for DriveTrace { drive, trace } in measured {
        let _ = write!(command, " --validate {drive}={}", trace.display());
    }
    command
}
