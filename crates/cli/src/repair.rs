//! `freeblock repair`: shows what can be read of a damaged state directory, and repairs it.

use crate::Outcome;
use crate::problem::Problem;
use crate::tables::table;
use clap::Args;
use serde::Serialize;
use server::manager::table::Closed;
use server::repair::{self, Choice, Report};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `freeblock repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// The daemon's state directory
    #[arg(long, value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// The disk, as the daemon calls it; without it all are shown
    #[arg(long, value_name = "NAME")]
    pub(crate) disk: Option<String>,
    /// Write a new journal of what is known; tasks that were not over are failed
    #[arg(long, requires = "disk")]
    pub(crate) give_up: bool,
    /// Begin with an empty journal
    #[arg(long, requires = "disk", conflicts_with = "give_up")]
    pub(crate) begin_anew: bool,
    /// Make this task a failed one (as often as you like)
    #[arg(long, value_name = "N", requires = "disk")]
    pub(crate) fail: Vec<u64>,
    /// Open to clients again the ranges that a failed task had closed
    #[arg(long, requires = "disk")]
    pub(crate) open: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct RepairJson<'a> {
    damaged: bool,
    disks: &'a [Report],
}

pub(crate) fn execute(args: &RepairArgs) -> Result<Outcome, Problem> {
    let RepairArgs { give_up, begin_anew, open, .. } = *args;
    let choice = Choice { begin_anew, give_up, open, fail: args.fail.clone() };
    let reports = match &args.disk {
        Some(disk) if choice != Choice::default() => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            vec![repair::mend(&args.state.join(disk), &choice, since.as_secs()).map_err(Problem::failed)?]
        }
        Some(disk) => vec![repair::inspect(&args.state.join(disk)).map_err(Problem::failed)?],
        None => {
            let disks = repair::disks(&args.state).map_err(Problem::failed)?;
            disks
                .iter()
                .map(|disk| repair::inspect(disk))
                .collect::<Result<_, _>>()
                .map_err(Problem::failed)?
        }
    };
    let damaged = reports.iter().any(Report::is_damaged);
    let text = match args.json {
        true => crate::drive::json(&RepairJson { damaged, disks: &reports })?,
        false => reports.iter().map(|report| shown(report, &args.state)).collect::<Vec<_>>().join("\n"),
    };
    Ok(Outcome { text, code: u8::from(damaged) })
}

/// Returns the text of a report.
fn shown(report: &Report, state: &std::path::Path) -> String {
    let mut text = format!("{}\n", report.place.display());
    let files = report.files.iter().map(|file| {
        let standing = match file.sound {
            Some(true) => "sound",
            Some(false) => "DAMAGED",
            None => "-",
        };
        let more = file.standing.strip_prefix("sound; ").unwrap_or(&file.standing);
        vec![file.name.clone(), standing.into(), if more == "sound" { String::new() } else { more.into() }]
    });
    text += &table(&["file", "", "details"], &[0, 1, 2], files);
    if !report.tasks.is_empty() {
        text.push('\n');
        let tasks = report.tasks.iter().map(|task| {
            let blocks = format!("{} of {}", task.done, task.blocks);
            let state = task.state.to_string();
            let stopped = report.damage.is_some() && !task.state.is_over();
            let state = if stopped { format!("{state}, stopped") } else { state };
            vec![
                task.id.to_string(),
                task.kind.clone(),
                state,
                blocks,
                task.reason.clone().unwrap_or_default(),
            ]
        });
        text += &table(&["task", "kind", "state", "blocks", "reason"], &[1, 2, 4], tasks);
    }
    text.push('\n');
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "numbers of tasks used: up to {}{}",
        report.used,
        if report.more_used { ", and perhaps more" } else { "" }
    );
    let _ = writeln!(
        text,
        "clients: {}",
        match report.closed {
            None => "may read and write",
            Some(Closed::Writes) =>
                "may read and not write, because a task that was writing the disk is not done",
            Some(Closed::All) => "may neither read nor write, because blocks may be between two places",
        }
    );
    for done in &report.done {
        let _ = writeln!(text, "done: {done}");
    }
    let name = report.place.file_name().unwrap_or_default().to_string_lossy();
    let again = format!("freeblock repair --state {} --disk {name}", state.display());
    if let Some(why) = &report.damage {
        let _ = writeln!(text, "damage: {why}");
        // If the journal is sound, damage elsewhere has stopped the disk's tasks.
        let is_whole =
            report.files.iter().any(|file| file.name == "tasks.journal" && file.sound == Some(true));
        let mut back = "";
        if !is_whole {
            back = "put an undamaged file back, never an older copy; or ";
            let _ = writeln!(
                text,
                "not known: whatever was in the damaged records, such as tasks, their progress and their ends"
            );
        }
        let _ = writeln!(
            text,
            "to go on: {back}`{again} --give-up`, which fails the tasks that were not over and keeps what is closed closed"
        );
    }
    if report.closed.is_some() {
        let _ = writeln!(
            text,
            "to open the disk: restore it from a backup; or `{again} --open` if its bytes do not matter"
        );
    }
    text
}
