//! `freeblock probe`.

mod args;
mod device;
#[cfg(target_os = "linux")]
mod timed;

pub(crate) use args::ProbeArgs;
pub(crate) use device::DeviceName;

use crate::files;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::{grouped, percent, table};
use crate::values;
use ::probe::{Check, Journal, Options, Probe, ProbeError, ProbedProfile, Report};
use model::Profile;
use serde::Serialize;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The interval at which the measurements are saved.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The length of the progress bar, in parts.
const PROGRESS_PARTS: f64 = 1_000.0;

/// The JSON output for scripts.
#[derive(Serialize)]
struct ProbeJson<'a> {
    profile: &'a Profile,
    report: &'a Report,
}

/// The exit code of a probe that found only a part of the drive.
const PARTIAL: u8 = 3;

pub(crate) fn execute(args: &ProbeArgs, console: &Console) -> Result<crate::Outcome, Problem> {
    let Some(name) = &args.device else {
        return Err(Problem::usage("no drive to probe").help("give a disk's path, or emulated:NAME"));
    };
    for path in args.output.iter().chain(&args.resume) {
        files::check_replaceable(path)?;
    }
    #[cfg(target_os = "linux")]
    let _back_at_the_end = match name {
        DeviceName::Raw { path } => {
            refuse(path)?;
            crate::switches::put_back_left(console);
            Some(crate::switches::Guard)
        }
        DeviceName::Emulated { .. } => None,
    };
    let (mut device, warning) = name.open_for(args.allow_writes)?;
    if let Some(warning) = warning {
        console.note(&warning);
    }
    let mut probe = begin(args)?;
    let mut progress = Progress::new(console, "probing", PROGRESS_PARTS as u64);
    if args.resume.is_some() || matches!(name, DeviceName::Raw { .. }) {
        // Ctrl-C saves the measurements so far and restores a disk's switches (read cache, look-ahead); a second Ctrl-C waits
        // only for the switches.
        interrupt::watch(|| {
            #[cfg(target_os = "linux")]
            let _ = crate::switches::back();
        });
    }
    // The instant of the last saving, and the number of commands saved then. Commands whose results the probe took from the
    // file are saved already.
    let mut saved: Option<(Instant, u64)> = None;
    let mut trouble = None;
    let result = probe.run(device.as_mut(), &mut |at| {
        progress.at((at.share * PROGRESS_PARTS) as u64);
        if interrupt::came() || console.is_stopped() {
            return ControlFlow::Break(());
        }
        if let Some(path) = &args.resume
            && saved.is_none_or(|(last, commands)| {
                last.elapsed() > SAVE_EVERY && commands < at.journal.commands()
            })
        {
            saved = Some((Instant::now(), at.journal.commands()));
            if let Err(problem) = files::replace(path, at.journal.to_bytes()) {
                trouble = Some(problem);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    drop(progress);
    #[cfg(target_os = "linux")]
    for note in crate::switches::notes().into_iter().chain(crate::switches::back()) {
        console.note(&format!("note: {note}"));
    }
    if let Some(problem) = trouble {
        return Err(problem);
    }
    if let Some(path) = &args.resume {
        files::replace(path, probe.journal().to_bytes())?;
    }
    let outcome = result.map_err(|error| {
        let failed = Problem::failed(&error);
        match error {
            ProbeError::Region { region, capacity, least } => Problem::failed(format!(
                "--allow-writes {}: the range is not at least {least} sectors within the drive's {capacity}",
                values::first_last(region)
            ))
            .help(format!("name the first sector and the last, as 0-{}", least.saturating_sub(1))),
            ProbeError::Device(_) | ProbeError::Interrupted if args.resume.is_some() => {
                failed.help("the same command goes on from its state file")
            }
            _ => failed,
        }
    })?;
    let ProbedProfile { profile, report } = &outcome;
    if let Some(path) = &args.output {
        files::replace(path, profile.to_toml())?;
    }
    let text = match (&args.output, args.json) {
        (_, true) => crate::drive::json(&ProbeJson { profile, report })?,
        (Some(_), false) => {
            let preset = name.preset()?.map_or_else(String::new, |preset| preset + "\n\n");
            preset + &shown(report)
        }
        (None, false) => profile.to_toml(),
    };
    if !report.is_partial() {
        return Ok(text.into());
    }
    let more =
        if args.resume.is_some() { "; the same command measures the drive anew, with more time" } else { "" };
    console.note(&format!("partial: the report names what the profile is not sure of{more}"));
    Ok(crate::Outcome { text, code: PARTIAL })
}

/// Refuses a disk that no profile fits: a shingled one, flash, and one with several actuators. A file is not inspected, and is
/// never refused.
#[cfg(target_os = "linux")]
fn refuse(path: &str) -> Result<(), Problem> {
    let Ok(disk) = ::device::inspect(path.as_ref()) else { return Ok(()) };
    match disk.refusals().next() {
        None => Ok(()),
        Some(::device::Finding { property, value, reason, .. }) => {
            Err(Problem::failed(format!("{path}: {property} {value}: {reason}"))
                .help("`freeblock inspect` shows what the kernel and the disk report"))
        }
    }
}

/// Returns a new probe, or one that continues from the state file if that exists.
fn begin(args: &ProbeArgs) -> Result<Probe, Problem> {
    let options = Options { seed: args.seed, writes: args.allow_writes, name: args.name.clone() };
    let Some(path) = args.resume.as_ref().filter(|path| path.exists()) else {
        return Ok(Probe::new(options));
    };
    let journal =
        Journal::from_bytes(&files::read(path)?, &path.display().to_string()).map_err(Problem::failed)?;
    Probe::resume(options, journal).map_err(Problem::failed)
}

/// Describes the part of the drive from which a check's reads were drawn.
fn checked(check: &Check) -> String {
    if check.of_drive >= 1.0 {
        return "the whole drive".to_owned();
    }
    format!(
        "LBN {} to {}, which is {} of the drive",
        grouped(check.first.get()),
        grouped(check.end.get().saturating_sub(1)),
        percent(check.of_drive)
    )
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    let rows = report
        .findings
        .iter()
        .map(|f| vec![f.what.clone(), f.value.clone(), percent(f.confidence), f.note.clone()]);
    text.push_str(&table(&["found", "value", "sure", "note"], &[0, 1, 3], rows));
    let check = &report.check;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "\n{} commands, {:.1} s of the drive's time.\n\
         The profile predicts {} of {} random 4 KiB reads ({}) within 50 us; {} end whole revolutions off, {} otherwise.",
        grouped(report.commands),
        report.drive_time_s,
        percent(check.within_50us),
        grouped(check.requests),
        checked(check),
        percent(check.revolutions_off),
        percent(check.elsewhere),
    );
    if let Some(writes) = &report.writes {
        let _ = writeln!(
            text,
            "The profile predicts {} of {} more requests within 50 us, a third of them writes to the writable part; {} end whole revolutions off, {} otherwise.",
            percent(writes.within_50us),
            grouped(writes.requests),
            percent(writes.revolutions_off),
            percent(writes.elsewhere),
        );
    }
    for given_up in &report.given_up {
        let _ = writeln!(text, "Not measured, {}: {}.", given_up.what, given_up.why);
    }
    if report.unsure.is_empty() {
        text.push_str("No region of the drive is unsure.\n");
    }
    let reads = report.unsure.iter().map(|region| ("", region));
    for (what, region) in reads.chain(report.unsure_writes.iter().map(|region| ("writes to ", region))) {
        let _ = writeln!(
            text,
            "Not sure of {what}LBN {} to {}: {}; {}{}.",
            grouped(region.first.get()),
            grouped(region.end.get().saturating_sub(1)),
            region.why,
            region.confidence,
            region.behind_it().map_or_else(String::new, |behind| format!("; {behind}"))
        );
    }
    let unreadable = report.unreadable.iter().map(|run| ("read", run));
    for (what, run) in unreadable.chain(report.unwritable.iter().map(|run| ("written", run))) {
        let (first, last) = (run.first.get(), run.end.get().saturating_sub(1));
        let which = if first == last {
            format!("LBN {}", grouped(first))
        } else {
            format!("LBN {} to {}", grouped(first), grouped(last))
        };
        let _ = writeln!(text, "Cannot be {what}: {which}.");
    }
    if !report.unreadable.is_empty() {
        text.push_str("The probe met these by chance and avoided them; `freeblock scrub` finds all.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Lbn;

    #[test]
    fn the_share_says_of_which_part_of_the_drive_it_is() {
        let part = |end: u64, of_drive: f64| Check { end: Lbn::new(end), of_drive, ..Check::default() };
        assert_eq!(checked(&part(4_000, 1.0)), "the whole drive");
        assert_eq!(checked(&part(1_000, 0.25)), "LBN 0 to 999, which is 25.0% of the drive");
        // A part that omits a single sector is not called the whole drive.
        assert!(checked(&part(3_999_999, 0.999_999_75)).starts_with("LBN 0 to 3,999,998, which is "));
    }
}
