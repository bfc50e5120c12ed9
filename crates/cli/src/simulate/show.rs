//! The result of a simulation, for scripts and for people.

use super::args::{BackgroundTask, Where};
use super::outside::{self, SchedulerState};
use super::replayed::{Replayed, TraceJson};
use crate::bars::{bar, parts};
use crate::tables::{grouped, percent, span, table};
use demo::results::{Background, Foreground, HeadTime};
use drive::Behaviour;
use mimic::LearnerStats;
use serde::Serialize;
use sim::{CacheCommands, CacheReport, ForegroundReport, Interval, Report, ResponseReport};
use std::fmt::Write;
use std::time::Duration;
use units::Instant;

/// The results of a run.
pub(crate) struct Result {
    /// One line about what was simulated.
    pub(crate) title: String,
    /// The part of the title about the drive (the first one of an array); `of_drive_title` is the rest.
    pub(crate) drive_title: String,
    pub(crate) of_drive_title: String,
    pub(crate) place: Where,
    /// The behaviour of the drive, unless the scheduler is in it.
    pub(crate) behaviour: Option<Behaviour>,
    pub(crate) report: Report,
    /// The flushes and discards of the load.
    pub(crate) cache: CacheReport,
    /// The results of each drive, if there are several.
    pub(crate) several: Option<Several>,
    /// The length of the warm-up, which the report leaves out, if there is one.
    pub(crate) warmup: Option<Left>,
    /// The results interval by interval, if they are wanted.
    pub(crate) series: Option<Vec<Interval>>,
    /// The replay of a trace, if there is one.
    pub(crate) replayed: Option<Replayed>,
    /// The learner of SMTF, if there is one.
    pub(crate) mimic: Option<LearnerStats>,
    /// The scheduler outside the drive, if there is one.
    pub(crate) outside: Option<SchedulerState>,
    pub(crate) seed: u64,
    /// Whether the run was ended before its goal.
    pub(crate) interrupted: bool,
    /// The real time of the run.
    pub(crate) wall: Duration,
}

/// Several drives.
pub(crate) struct Several {
    /// The array's layout, or `independent`.
    pub(crate) layout: String,
    pub(crate) drives: Vec<OfDrive>,
}

/// One of several drives.
pub(crate) struct OfDrive {
    /// The name that the user gave.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The drive's seed, if each drive has its own.
    pub(crate) seed: Option<u64>,
    /// The drive's results; in an array, those of the commands sent to this drive.
    pub(crate) report: Report,
    /// The scheduler outside the drive, if there is one.
    pub(crate) outside: Option<SchedulerState>,
}

/// The length of a warm-up, which the results leave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) requests: u64,
    pub(crate) time: units::Duration,
}

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
pub(crate) struct SimulateJson {
    title: String,
    #[serde(rename = "where")]
    place: &'static str,
    /// The drive's behaviour; `null` if the scheduler is inside the drive.
    behaviour: Option<String>,
    foreground: Foreground,
    #[serde(skip_serializing_if = "Option::is_none")]
    flushes: Option<WithoutTransfer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discards: Option<WithoutTransfer>,
    head_time: HeadTime,
    background: Background,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drives: Option<Vec<DriveJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mimic: Option<Mimic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<outside::OutsideJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<WarmupJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<InInterval>>,
    seed: u64,
    #[serde(skip_serializing_if = "is_false")]
    interrupted: bool,
    simulated_s: f64,
    wall_s: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The results of one of several drives.
#[derive(Serialize)]
struct DriveJson {
    device: usize,
    drive: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    foreground: Foreground,
    head_time: HeadTime,
    background: Background,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<outside::OutsideJson>,
    simulated_s: f64,
}

impl DriveJson {
    fn of((device, drive): (usize, &OfDrive)) -> Self {
        let OfDrive { name, seed, report, outside, .. } = drive;
        Self {
            device,
            drive: name.clone(),
            seed: *seed,
            foreground: (&report.foreground).into(),
            head_time: (&report.head_time).into(),
            background: (&report.background).into(),
            outside: outside.as_ref().map(SchedulerState::json),
            simulated_s: report.simulated.as_secs_f64(),
        }
    }
}

/// The response times of flushes or of discards.
#[derive(Serialize)]
struct WithoutTransfer {
    requests: u64,
    mean_ms: f64,
    max_ms: f64,
}

impl WithoutTransfer {
    /// Returns the response times of these commands; `None` if there were no such commands.
    fn of(commands: CacheCommands) -> Option<Self> {
        let CacheCommands { requests, longest, .. } = commands;
        let (mean_ms, max_ms) = (commands.mean().as_millis_f64(), longest.as_millis_f64());
        (requests > 0).then_some(Self { requests, mean_ms, max_ms })
    }
}

#[derive(Serialize)]
struct WarmupJson {
    requests: u64,
    simulated_s: f64,
}

/// An interval of the time series.
#[derive(Serialize)]
struct InInterval {
    from_s: f64,
    to_s: f64,
    #[serde(flatten)]
    foreground: Foreground,
}

impl From<&Interval> for InInterval {
    fn from(interval: &Interval) -> Self {
        let Interval { from, to, foreground } = interval;
        let seconds = |at: &Instant| at.since(Instant::ZERO).as_secs_f64();
        Self { from_s: seconds(from), to_s: seconds(to), foreground: foreground.into() }
    }
}

/// The state of SMTF's learner.
#[derive(Serialize)]
struct Mimic {
    observed: u64,
    known: u64,
    changes: u32,
    mean_error_ms: f64,
    memory_bytes: u64,
}

impl Result {
    pub(crate) fn json(&self) -> SimulateJson {
        let Report { foreground, head_time, background, simulated } = &self.report;
        SimulateJson {
            title: self.title.clone(),
            place: match self.place {
                Where::Inside => "inside",
                Where::Outside => "outside",
                Where::Device => "device",
            },
            behaviour: self.behaviour.as_ref().map(ToString::to_string),
            foreground: foreground.into(),
            flushes: WithoutTransfer::of(self.cache.flushes),
            discards: WithoutTransfer::of(self.cache.discards),
            head_time: head_time.into(),
            background: background.into(),
            array: self.several.as_ref().map(|several| several.layout.clone()),
            drives: self
                .several
                .as_ref()
                .map(|several| several.drives.iter().enumerate().map(DriveJson::of).collect()),
            trace: self.replayed.as_ref().map(|replayed| replayed.json(foreground.utilisation)),
            mimic: self.mimic.map(|mimic| Mimic {
                observed: mimic.observed,
                known: mimic.known,
                changes: mimic.changes,
                mean_error_ms: mimic.mean_error.as_millis_f64(),
                memory_bytes: mimic.memory.get(),
            }),
            outside: self.outside.as_ref().map(SchedulerState::json),
            warmup: self
                .warmup
                .map(|left| WarmupJson { requests: left.requests, simulated_s: left.time.as_secs_f64() }),
            series: self.series.as_ref().map(|series| series.iter().map(InInterval::from).collect()),
            seed: self.seed,
            interrupted: self.interrupted,
            simulated_s: simulated.as_secs_f64(),
            wall_s: self.wall.as_secs_f64(),
        }
    }

    pub(crate) fn page(&self, background: BackgroundTask) -> String {
        let Report { foreground, head_time, background: scan, simulated } = &self.report;
        let mut text = format!("{}\n\n", self.title);
        let mut line = |what: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{what:15} {value}");
        };
        if self.interrupted {
            line("INTERRUPTED", "before the end: these are the results so far".to_owned());
        }
        for (what, value) in foreground_lines(foreground) {
            line(what, value);
        }
        for (what, commands) in [("flushes", self.cache.flushes), ("discards", self.cache.discards)] {
            if let Some(WithoutTransfer { requests, mean_ms, max_ms }) = WithoutTransfer::of(commands) {
                line(what, format!("{}, {mean_ms:.3} ms mean, {max_ms:.3} (longest)", grouped(requests)));
            }
        }
        if background == BackgroundTask::Scan {
            let state = if scan.done { "all of them" } else { "not done" };
            line("scan", format!("{} blocks, {state}", grouped(scan.blocks)));
            line(
                "free bandwidth",
                format!("{:.2} MB/s, {:.1} scans a day", scan.mb_per_s, scan.scans_per_day),
            );
            line("potential used", percent(scan.potential_used));
            if let Some(share) = scan.last5_time_share {
                line("last 5%", format!("{} of the scan's time", percent(share)));
            }
        }
        if let Some(mimic) = &self.mimic {
            let (known, error) = (grouped(mimic.known), mimic.mean_error.as_millis_f64());
            let memory = grouped(mimic.memory.get());
            line(
                "mimic",
                format!(
                    "{known} distances known by their own samples, mean error {error:.3} ms, {memory} bytes of memory"
                ),
            );
        }
        for (what, value) in
            self.outside.iter().flat_map(|reported| reported.lines(background == BackgroundTask::Scan))
        {
            line(what, value);
        }
        line("seed", self.seed.to_string());
        if let Some(Left { requests, time }) = self.warmup {
            let (requests, time) = (grouped(requests), span(time.as_secs_f64()));
            line("warm-up", format!("{requests} requests in the first {time}, in no figure"));
        }
        line(
            "time",
            format!("{} simulated in {}", span(simulated.as_secs_f64()), span(self.wall.as_secs_f64())),
        );
        text.push_str("\nThe head's time\n");
        for (name, share) in parts(head_time) {
            let _ =
                writeln!(text, "{}", format!("{name:15} {:>6}  {}", percent(share), bar(share)).trim_end());
        }
        if let Some(Several { drives, .. }) = &self.several {
            text.push_str("\nDrives\n");
            let scan = background == BackgroundTask::Scan;
            let header = DRIVE_HEADER.len() - if scan { 0 } else { SCAN_COLUMNS };
            let rows = drives.iter().enumerate().map(|(n, drive)| {
                let mut row = drive_row(n, drive);
                row.truncate(header);
                row
            });
            text.push_str(&table(&DRIVE_HEADER[..header], &[1], rows));
        }
        if let Some(series) = &self.series {
            text.push_str("\nIntervals\n");
            text.push_str(&table(&INTERVAL_HEADER, &[], series.iter().map(interval_row)));
        }
        text
    }
}

/// Returns the foreground's results as lines of a page; reads and writes are apart if there are both.
fn foreground_lines(report: &ForegroundReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        (
            "foreground",
            format!(
                "{} requests, {:.1} a second, {:.2} MB/s",
                grouped(report.requests),
                report.iops,
                report.mb_per_s
            ),
        ),
        (
            "response time",
            format!(
                "{:.3} ms mean, {:.3} ms 99th percentile, {:.3} ms standard deviation",
                report.mean_response_ms, report.p99_response_ms, report.sd_ms
            ),
        ),
        (
            "percentiles, ms",
            format!(
                "{:.3} (50%), {:.3} (90%), {:.3} (95%), {:.3} (99%), {:.3} (99.9%), {:.3} (longest)",
                report.p50_ms,
                report.p90_ms,
                report.p95_ms,
                report.p99_response_ms,
                report.p999_ms,
                report.max_ms
            ),
        ),
    ];
    let kinds = [("reads", &report.reads), ("writes", &report.writes)];
    let both = kinds.iter().all(|(_, kind)| kind.requests > 0);
    for (what, kind) in kinds.into_iter().filter(|_| both) {
        let ResponseReport { mean_ms, p50_ms, p99_ms, max_ms, mb_per_s, .. } = kind;
        let times =
            format!("{mean_ms:.3} ms mean, {p50_ms:.3} (50%), {p99_ms:.3} (99%), {max_ms:.3} (longest)");
        lines.push((what, format!("{}, {times}, {mb_per_s:.2} MB/s", grouped(kind.requests))));
    }
    lines.push(("access time", format!("{:.3} ms mean", report.mean_access_ms)));
    lines.push((
        "queue",
        format!(
            "{:.2} requests on average, {} at most; at least one during {} of the time",
            report.queue_length,
            grouped(report.queue_length_max),
            percent(report.utilisation)
        ),
    ));
    lines
}

const DRIVE_HEADER: [&str; 11] = [
    "drive",
    "name",
    "requests",
    "a second",
    "MB/s",
    "mean ms",
    "99% ms",
    "queue",
    "busy",
    "free MB/s",
    "scanned blocks",
];

/// The number of columns at the end of [`DRIVE_HEADER`] that are for a scan.
const SCAN_COLUMNS: usize = 2;

fn drive_row(number: usize, drive: &OfDrive) -> Vec<String> {
    let Report { foreground, background, .. } = &drive.report;
    vec![
        number.to_string(),
        drive.name.clone(),
        grouped(foreground.requests),
        format!("{:.1}", foreground.iops),
        format!("{:.2}", foreground.mb_per_s),
        format!("{:.3}", foreground.mean_response_ms),
        format!("{:.3}", foreground.p99_response_ms),
        format!("{:.2}", foreground.queue_length),
        percent(foreground.utilisation),
        format!("{:.2}", background.mb_per_s),
        grouped(background.blocks),
    ]
}

const INTERVAL_HEADER: [&str; 9] =
    ["from, s", "requests", "a second", "MB/s", "mean ms", "99% ms", "longest ms", "queue", "busy"];

fn interval_row(interval: &Interval) -> Vec<String> {
    let Interval { from, foreground, .. } = interval;
    vec![
        format!("{:.3}", from.since(Instant::ZERO).as_secs_f64()),
        grouped(foreground.requests),
        format!("{:.1}", foreground.iops),
        format!("{:.2}", foreground.mb_per_s),
        format!("{:.3}", foreground.mean_response_ms),
        format!("{:.3}", foreground.p99_response_ms),
        format!("{:.3}", foreground.max_ms),
        format!("{:.2}", foreground.queue_length),
        percent(foreground.utilisation),
    ]
}
