//! `freeblock drive validate`.

use super::resolve::resolve;
use crate::output::Console;
use crate::problem::Problem;
use crate::tables::{grouped, percent, table};
use crate::traces::{open, unreadable};
use drive::{AccuracyReport, CdfPoint, ClassReport, ValidateRecord};
use serde::Serialize;
use std::io::{self, Read};
use std::path::Path;
use units::{Bytes, Duration, Sectors};
use workload::trace::{self, Notes, Options, Trace, TraceFormat};

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
struct ValidateJson {
    requests: usize,
    demerit_ms: f64,
    model_mean_ms: f64,
    trace_mean_ms: f64,
    per_request_rms_ms: f64,
    cdf: Vec<Point>,
    classes: Vec<Class>,
}

/// The response times, in the trace and in the model, that this share of the requests did not exceed.
#[derive(Serialize)]
struct Point {
    share: f64,
    trace_ms: f64,
    model_ms: f64,
}

/// The requests of one kind. Kinds are sorted by their part of the demerit, the largest first.
#[derive(Serialize)]
struct Class {
    op: String,
    after: String,
    distance: &'static str,
    served: String,
    requests: usize,
    trace_mean_ms: f64,
    model_mean_ms: f64,
    demerit_ms: f64,
    /// The 5%, 50% and 95% quantiles of the trace's time minus the model's, request by request.
    residual_p5_ms: f64,
    residual_p50_ms: f64,
    residual_p95_ms: f64,
}

impl From<&CdfPoint> for Point {
    fn from(point: &CdfPoint) -> Self {
        let CdfPoint { share, trace_ms, model_ms } = *point;
        Self { share, trace_ms, model_ms }
    }
}

impl From<&ClassReport> for Class {
    fn from(class: &ClassReport) -> Self {
        let [residual_p5_ms, residual_p50_ms, residual_p95_ms] = class.residual_ms;
        Self {
            op: class.op.to_string(),
            after: class.after.to_string(),
            distance: class.distance,
            served: format!("{:?}", class.served).to_lowercase(),
            requests: class.requests,
            trace_mean_ms: class.trace_mean_ms,
            model_mean_ms: class.model_mean_ms,
            demerit_ms: class.demerit_ms,
            residual_p5_ms,
            residual_p50_ms,
            residual_p95_ms,
        }
    }
}

/// Returns the title of a drive, and its comparison with a trace.
///
/// # Errors
/// The drive or the trace cannot be read, or they do not fit each other.
pub(crate) fn compare(
    name: &str,
    trace: &Path,
    console: &Console,
) -> Result<(String, AccuracyReport), Problem> {
    let drive = resolve(name)?;
    let records = records(trace, drive.model.sector_bytes(), drive.model.layout().capacity(), console)?;
    let report = drive::validate(&drive.profile, &records)
        .map_err(|error| Problem::failed(format!("{}: {error}", trace.display())))?;
    Ok((drive.profile.title, report))
}

pub(crate) fn execute(name: &str, trace: &Path, json: bool, console: &Console) -> Result<String, Problem> {
    let (title, report) = compare(name, trace, console)?;
    if json {
        return super::json(&ValidateJson {
            requests: report.requests,
            demerit_ms: report.demerit_ms,
            model_mean_ms: report.model_mean_ms,
            trace_mean_ms: report.trace_mean_ms,
            per_request_rms_ms: report.per_request_rms_ms,
            cdf: report.cdf.iter().map(Point::from).collect(),
            classes: report.classes.iter().map(Class::from).collect(),
        });
    }
    Ok(shown(&title, &report))
}

/// Returns the requests of a trace with the times that the real drive took.
fn records(
    path: &Path,
    sector: Bytes,
    capacity: Sectors,
    console: &Console,
) -> Result<Vec<ValidateRecord>, Problem> {
    let mut trace = read(path)?;
    trace.convert_to(sector).map_err(Problem::failed)?;
    if let Some(remark) = remark(&trace.notes) {
        console.note(&remark);
    }
    let untimed = |format: TraceFormat| {
        Problem::failed(format!(
            "{}: a trace in the format {format} does not say how long requests took",
            path.display()
        ))
        .help(format!(
            "give a trace in the format {}: {}",
            TraceFormat::Validate,
            TraceFormat::Validate.shape()
        ))
    };
    if trace.format != TraceFormat::Validate {
        return Err(untimed(trace.format));
    }
    let record = |(index, record): (usize, &trace::TraceRecord)| {
        let service = record.service.ok_or_else(|| untimed(trace.format))?;
        if record.range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(Problem::failed(format!(
                "{}: record {} ({}) ends past the drive's {capacity} sectors",
                path.display(),
                index + 1,
                record.range
            ))
            .help("check that the trace was taken on this drive"));
        }
        Ok(ValidateRecord {
            op: record.op,
            range: record.range,
            service,
            think: record.think.unwrap_or(Duration::ZERO),
        })
    };
    trace.records.iter().enumerate().map(record).collect()
}

/// Returns the reader's remarks on parts of a trace that it omitted or changed; `None` if there are none.
fn remark(notes: &Notes) -> Option<String> {
    let kinds = [
        (notes.suspect, "are marked as suspect by the tracer and left out"),
        (notes.other, "are neither reads nor writes and left out"),
        (notes.empty, "have no bytes and are left out"),
        (notes.widened, "were widened to whole sectors"),
    ];
    let said: Vec<String> = kinds
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} of the trace's records {what}"))
        .collect();
    (!said.is_empty()).then(|| format!("note: {}", said.join("; ")))
}

/// Bounds the unpacked size of a trace: 1 GiB, some twenty million requests.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Reads a trace file of any format.
fn read(path: &Path) -> Result<Trace, Problem> {
    let source = AtMost { source: open(path)?, left: UNPACKED_BYTES_MAX };
    trace::read_with(&Options::default(), source).map_err(|error| unreadable(path, &error))
}

/// A source that fails instead of giving more than `left` bytes.
struct AtMost<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for AtMost<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other("the trace is larger than 1 GiB; cut it into smaller files"))?;
        Ok(read)
    }
}

fn shown(title: &str, report: &AccuracyReport) -> String {
    let share = report.demerit_ms / report.trace_mean_ms.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "{title}: {} requests of the trace replayed, one at a time\n\n\
         demerit figure  {:.3} ms, {} of the trace's mean\n\
         trace           {:.3} ms mean service time\n\
         model           {:.3} ms mean service time\n\
         per request     {:.3} ms RMS of the differences (large where the trace's rotational phase is unknown)\n\n",
        grouped(report.requests as u64),
        report.demerit_ms,
        percent(share),
        report.trace_mean_ms,
        report.model_mean_ms,
        report.per_request_rms_ms,
    );
    text.push_str("Distribution of the service time: the time that a share of the requests did not exceed\n");
    let header = ["share", "trace ms", "model ms", "model - trace, ms"];
    let shown =
        report.cdf.iter().filter(|point| SHOWN_PERCENT.contains(&((point.share * 100.0).round() as u64)));
    text.push_str(&table(&header, &[], shown.map(cdf_row)));
    text.push_str("\nBy kind of request, the largest part of the demerit first\n");
    let header = [
        "kind",
        "served",
        "requests",
        "trace ms",
        "model ms",
        "demerit ms",
        "5% / 50% / 95% of trace - model, ms",
    ];
    text.push_str(&table(&header, &[0, 1], report.classes.iter().map(row)));
    text
}

/// The percentiles of the distributions that the text shows.
const SHOWN_PERCENT: [u64; 11] = [1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 100];

fn cdf_row(point: &CdfPoint) -> Vec<String> {
    vec![
        format!("{:.0}%", point.share * 100.0),
        format!("{:.3}", point.trace_ms),
        format!("{:.3}", point.model_ms),
        format!("{:+.3}", point.model_ms - point.trace_ms),
    ]
}

fn row(class: &ClassReport) -> Vec<String> {
    let [low, middle, high] = class.residual_ms;
    vec![
        format!("{} {} after a {}", class.distance, class.op, class.after),
        format!("{:?}", class.served).to_lowercase(),
        grouped(class.requests as u64),
        format!("{:.3}", class.trace_mean_ms),
        format!("{:.3}", class.model_mean_ms),
        format!("{:.3}", class.demerit_ms),
        format!("{low:.2} / {middle:.2} / {high:.2}"),
    ]
}
