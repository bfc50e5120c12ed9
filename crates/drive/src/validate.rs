//! Validation against real drives: replays a measured trace, and compares the service times.
//!
//! The replay has closed arrivals: one command is outstanding, and the next one is submitted a think time, taken from the
//! trace, after the simulated completion. The distributions of service times are compared by the demerit figure (Ruemmler
//! and Wilkes 1994), the root mean square of the horizontal distance between the two cumulative distributions. If both have
//! the same number of values, this is the root mean square of the differences of the sorted values.

use crate::error::{CommandError, DriveError};
use crate::firmware::{Command, Completion, Drive, Served};
use crate::rules::Rules;
use model::Profile;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// A request of a measured trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidateRecord {
    /// The operation of the request.
    pub op: Op,
    /// The sectors of the request.
    pub range: LbnRange,
    /// The service time of the real drive.
    pub service: Duration,
    /// The time from the completion of this request to the submission of the next.
    pub think: Duration,
}

/// The reason for which a replay failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ValidateError {
    /// The profile is invalid.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The trace has no requests.
    #[error("the trace holds no requests; give one with at least one line")]
    NoRequests,
    /// The drive refuses a request.
    #[error(
        "request {index} of the trace (counted from 1): {error}; check that the trace was taken on this drive"
    )]
    Request {
        /// The number of the request in the trace, from 1.
        index: usize,
        /// The drive's error.
        error: CommandError,
    },
}

/// The service times of the requests of one kind, of the real drive (the trace) and of the simulated one (the model).
#[derive(Clone, Debug, PartialEq)]
pub struct ClassReport {
    /// The operation of the requests.
    pub op: Op,
    /// The operation of the request before each.
    pub after: Op,
    /// The distance from the request before: `"sequential"`, `"local"` (at most 5,000 LBNs) or `"random"`.
    pub distance: &'static str,
    /// The way in which the simulated drive served the requests.
    pub served: Served,
    /// The number of requests.
    pub requests: usize,
    /// The mean service time in the trace.
    pub trace_mean_ms: f64,
    /// The mean service time of the model.
    pub model_mean_ms: f64,
    /// The demerit figure of these requests alone.
    pub demerit_ms: f64,
    /// The 5th, 50th and 95th percentile of the differences of single requests, trace minus model.
    pub residual_ms: [f64; 3],
}

/// A point of the cumulative distributions of service time of trace and model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CdfPoint {
    /// The share of the requests, from 0 to 1.
    pub share: f64,
    /// The service time that this share of the requests did not exceed in the trace.
    pub trace_ms: f64,
    /// The service time that this share of the requests did not exceed in the model.
    pub model_ms: f64,
}

/// The accuracy of a simulated drive for a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct AccuracyReport {
    /// The number of requests replayed.
    pub requests: usize,
    /// The demerit figure: the RMS horizontal distance of the two distributions of service time.
    pub demerit_ms: f64,
    /// The mean service time of the model.
    pub model_mean_ms: f64,
    /// The mean service time in the trace.
    pub trace_mean_ms: f64,
    /// The RMS of the differences of single requests. Large if the angle of the platter at the trace's start is unknown.
    pub per_request_rms_ms: f64,
    /// A report for each kind of request. The kind with the largest share of the squared demerit figure comes first.
    pub classes: Vec<ClassReport>,
    /// The two distributions of service time, at every hundredth.
    pub cdf: Vec<CdfPoint>,
    /// The model's service times, in the order of the trace.
    pub service: Vec<Duration>,
}

/// Replays a trace on the drive of a profile, with [`Rules::HARDWARE`].
///
/// # Errors
/// The profile is invalid, the trace is empty, or the drive refuses a request.
pub fn validate(profile: &Profile, records: &[ValidateRecord]) -> Result<AccuracyReport, ValidateError> {
    validate_with(profile, Rules::HARDWARE, records)
}

/// Replays a trace on the drive of a profile, with these rules.
///
/// # Errors
/// As [`validate`].
pub fn validate_with(
    profile: &Profile,
    rules: Rules,
    records: &[ValidateRecord],
) -> Result<AccuracyReport, ValidateError> {
    let mut drive = Drive::with_rules(profile, rules)?;
    if records.is_empty() {
        return Err(ValidateError::NoRequests);
    }
    let mut now = Instant::ZERO;
    let mut service = Vec::with_capacity(records.len());
    let mut served = Vec::with_capacity(records.len());
    for (i, record) in records.iter().enumerate() {
        let command = Command { id: RequestId::new(i as u64), op: record.op, range: record.range };
        let refused = |error| ValidateError::Request { index: i + 1, error };
        drive.submit(now, command).map_err(refused)?;
        let Some(done) = complete(&mut drive) else { continue };
        service.push(done.at.since(now));
        served.push(done.breakdown.served);
        now = done.at + record.think;
    }
    Ok(report(records, service, &served))
}

fn complete(drive: &mut Drive) -> Option<Completion> {
    let at = drive.next_event()?;
    drive.advance(at);
    drive.pop_completion()
}

/// Returns the demerit figure of two sets of values, in their unit: the RMS of the differences of the sorted values; zero
/// without values. Both sets should have the same size: the largest values of the larger set are ignored.
pub fn demerit_ms(a: &[f64], b: &[f64]) -> f64 {
    rms(sorted(a).iter().zip(&sorted(b)).map(|(x, y)| x - y))
}

fn sorted(x: &[f64]) -> Vec<f64> {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    x
}

/// Returns the distributions of trace and model at 1%, 2%, ... 100%.
fn cdf(trace: &[f64], model: &[f64]) -> Vec<CdfPoint> {
    let (trace, model) = (sorted(trace), sorted(model));
    let at = |x: &[f64], percent: usize| x[(x.len() * percent).div_ceil(100).max(1) - 1];
    (1..=100)
        .map(|percent| CdfPoint {
            share: percent as f64 / 100.0,
            trace_ms: at(&trace, percent),
            model_ms: at(&model, percent),
        })
        .collect()
}

fn rms(differences: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = differences.fold((0.0, 0_u32), |(sum, n), d| (sum + d * d, n + 1));
    if n == 0 { 0.0 } else { (sum / f64::from(n)).sqrt() }
}

fn mean(x: &[f64]) -> f64 {
    if x.is_empty() { 0.0 } else { x.iter().sum::<f64>() / x.len() as f64 }
}

fn distance(last: Option<LbnRange>, range: LbnRange) -> &'static str {
    let Some(last) = last else { return "random" };
    let start = |r: LbnRange| r.start().get();
    if last.checked_end() == Some(Lbn::new(start(range))) {
        "sequential"
    } else if start(range).abs_diff(start(last)) <= 5_000 {
        "local"
    } else {
        "random"
    }
}

fn report(records: &[ValidateRecord], service: Vec<Duration>, served: &[Served]) -> AccuracyReport {
    let model: Vec<f64> = service.iter().map(|d| d.as_millis_f64()).collect();
    let trace: Vec<f64> = records.iter().map(|r| r.service.as_millis_f64()).collect();
    let mut classes: std::collections::BTreeMap<_, (Vec<f64>, Vec<f64>)> = Default::default();
    let mut last: Option<&ValidateRecord> = None;
    for (i, record) in records.iter().enumerate() {
        let key = (
            record.op,
            last.map_or(Op::Read, |l| l.op),
            distance(last.map(|l| l.range), record.range),
            served[i],
        );
        let (t, m) = classes.entry(key).or_default();
        t.push(trace[i]);
        m.push(model[i]);
        last = Some(record);
    }
    let mut classes: Vec<ClassReport> = classes
        .into_iter()
        .map(|((op, after, distance, served), (trace, model))| {
            let mut residuals: Vec<f64> = trace.iter().zip(&model).map(|(t, m)| t - m).collect();
            residuals.sort_by(f64::total_cmp);
            let at = |share: f64| residuals[((residuals.len() - 1) as f64 * share) as usize];
            ClassReport {
                op,
                after,
                distance,
                served,
                requests: trace.len(),
                trace_mean_ms: mean(&trace),
                model_mean_ms: mean(&model),
                demerit_ms: demerit_ms(&trace, &model),
                residual_ms: [at(0.05), at(0.5), at(0.95)],
            }
        })
        .collect();
    let share = |c: &ClassReport| c.demerit_ms * c.demerit_ms * c.requests as f64;
    classes.sort_by(|a, b| share(b).total_cmp(&share(a)));
    AccuracyReport {
        requests: records.len(),
        demerit_ms: demerit_ms(&trace, &model),
        model_mean_ms: mean(&model),
        trace_mean_ms: mean(&trace),
        per_request_rms_ms: rms(trace.iter().zip(&model).map(|(t, m)| t - m)),
        classes,
        cdf: cdf(&trace, &model),
        service,
    }
}
