//! The result of a probe: findings with their confidence, and the regions where the profile may be wrong.

use crate::error::ProbeError;
use serde::Serialize;
use std::fmt;
use units::Lbn;

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the finding: `revolution time`, `heads` and so on.
    pub what: String,
    /// The value with its unit.
    pub value: String,
    /// The probability that the value is right: 0 (a guess) to 1 (measured without contradiction).
    pub confidence: f64,
    /// The reason why the confidence is not higher.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The reliability of a profile in a region where it may be wrong: the share of random reads there that the profile
/// predicts within 50 us.
///
/// The reads were made after the profile was finished, each after a read anywhere on the drive. With 95% confidence the
/// share of all such reads lies between `low` and `high` (Wilson's score interval, JASA 1927).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// The number of reads; without any the interval is from 0 to 1.
    pub reads: u64,
    /// The share of these reads within 50 us of their prediction.
    pub within_50us: f64,
    /// The lower limit of the share of all random reads in the region, with 95% confidence.
    pub low: f64,
    /// The upper limit of the share of all random reads in the region, with 95% confidence.
    pub high: f64,
}

/// The share of predicted reads below which the report calls the profile unsure.
pub(crate) const PREDICTED_SHARE_MIN: f64 = 0.97;

/// The least confidence in a revolution time with which a probe continues after a failed measurement: random times
/// reach less.
const REVOLUTION_CONFIDENCE_MIN: f64 = 0.7;

/// The number of standard deviations that contain 95% of a normal distribution.
const CONFIDENCE_DEVIATIONS: f64 = 1.959_964;

impl Confidence {
    /// Returns the confidence after `near` of `reads` reads met their predictions.
    pub fn of(near: u64, reads: u64) -> Self {
        let n = reads as f64;
        let share = if reads == 0 { 0.0 } else { near as f64 / n };
        let whole = n + CONFIDENCE_DEVIATIONS * CONFIDENCE_DEVIATIONS;
        let middle = (near as f64 + CONFIDENCE_DEVIATIONS * CONFIDENCE_DEVIATIONS / 2.0) / whole;
        let half = CONFIDENCE_DEVIATIONS
            * (n * share * (1.0 - share) + CONFIDENCE_DEVIATIONS * CONFIDENCE_DEVIATIONS / 4.0).sqrt()
            / whole;
        Self { reads, within_50us: share, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reads == 0 {
            return f.write_str("no request was timed there, so the reliability is unknown");
        }
        write!(
            f,
            "{:.1}% of {} random requests there came within 50 us, {:.1}% to {:.1}% of all with a confidence of 95%",
            100.0 * self.within_50us,
            self.reads,
            100.0 * self.low,
            100.0 * self.high
        )
    }
}

/// LBNs for which the profile may be wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsure {
    /// The first LBN of the region.
    #[serde(serialize_with = "number")]
    pub first: Lbn,
    /// The LBN past the last one.
    #[serde(serialize_with = "number")]
    pub end: Lbn,
    /// The observation in the region, in words.
    pub why: String,
    /// The reliability of the profile in the region.
    pub confidence: Confidence,
    /// The reliability of the profile outside the region for a request right after one in the region: the arm may not
    /// be where the profile predicts. The request after that one is not affected.
    pub behind: Confidence,
}

impl Unsure {
    pub(crate) fn new(first: u64, end: u64, why: String) -> Self {
        let nothing = Confidence::of(0, 0);
        Self { first: Lbn::new(first), end: Lbn::new(end), why, confidence: nothing, behind: nothing }
    }

    /// Returns a note on requests right after one in the region; `None` if they meet their predictions, or none was
    /// timed.
    pub fn behind_it(&self) -> Option<String> {
        let Confidence { reads, within_50us, .. } = self.behind;
        (reads > 0 && within_50us < PREDICTED_SHARE_MIN).then(|| {
            format!(
                "{reads} requests elsewhere, each right after one in the region: {:.1}% end within 50 us",
                100.0 * within_50us
            )
        })
    }
}

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.end.get().saturating_sub(1);
        write!(f, "not sure of LBN {} to {last}: {}; {}", self.first.get(), self.why, self.confidence)?;
        self.behind_it().map_or(Ok(()), |behind| write!(f, "; {behind}"))
    }
}

/// LBNs that could not be read, or written. The probe met them by chance and then avoided them; no prediction of them
/// was checked. A scan finds all such LBNs (`freeblock scrub`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The first LBN of the run.
    #[serde(serialize_with = "number")]
    pub first: Lbn,
    /// The LBN past the last one.
    #[serde(serialize_with = "number")]
    pub end: Lbn,
}

/// A measurement that ended without a result. The profile has a default in its place, and the report names where that
/// may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GivenUp {
    /// The name of the measurement.
    pub what: String,
    /// The reason why the measurement ended, and a possible remedy.
    pub why: String,
}

fn number<S: serde::Serializer>(lbn: &Lbn, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(lbn.get())
}

/// The comparison of the profile with random requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Check {
    /// The first LBN of the mapped part of the drive, from which the requests were drawn.
    #[serde(serialize_with = "number")]
    pub first: Lbn,
    /// The LBN past the mapped part. The rest of the drive is among the regions for which the profile may be wrong.
    #[serde(serialize_with = "number")]
    pub end: Lbn,
    /// The share of the drive's LBNs in the mapped part.
    pub of_drive: f64,
    /// The number of requests.
    pub requests: u64,
    /// The share of the requests that completed within 50 us of their predictions.
    pub within_50us: f64,
    /// The share of the requests that completed whole revolutions early or late.
    pub revolutions_off: f64,
    /// The share of the requests with any other error.
    pub elsewhere: f64,
}

/// The report of a probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The findings in the order of the measurements.
    pub findings: Vec<Finding>,
    /// The measurements that ended without a result.
    pub given_up: Vec<GivenUp>,
    /// The regions where the profile may be wrong; empty if all checks met their predictions.
    pub unsure: Vec<Unsure>,
    /// The sectors that could not be read, ascending; only those that the probe met.
    pub unreadable: Vec<Unreadable>,
    /// The sectors that could not be written, ascending; only those that the probe met.
    pub unwritable: Vec<Unreadable>,
    /// The result of the check with random reads.
    pub check: Check,
    /// The result of the check with random requests, a third of them writes to the writable sectors; `None` if no
    /// sector is writable.
    pub writes: Option<Check>,
    /// The regions where predictions of writes may be wrong; the whole drive if no writes were allowed.
    pub unsure_writes: Vec<Unsure>,
    /// The number of commands that the probe executed.
    pub commands: u64,
    /// The time from the first command to the last completion, s.
    pub drive_time_s: f64,
}

impl Report {
    /// Returns an empty report.
    pub(crate) fn new() -> Self {
        Self {
            findings: Vec::new(),
            given_up: Vec::new(),
            unsure: Vec::new(),
            unreadable: Vec::new(),
            unwritable: Vec::new(),
            check: Check::default(),
            writes: None,
            unsure_writes: Vec::new(),
            commands: 0,
            drive_time_s: 0.0,
        }
    }

    pub(crate) fn add(&mut self, what: &str, value: String, confidence: f64, note: impl Into<String>) {
        let confidence = (confidence.clamp(0.0, 1.0) * 100.0).round() / 100.0;
        self.findings.push(Finding { what: what.to_owned(), value, confidence, note: note.into() });
    }

    /// Returns whether the profile covers only a part of the drive: a measurement was given up, the map ends early, or
    /// regions where the profile may be wrong contain more LBNs than the check allows.
    pub fn is_partial(&self) -> bool {
        let unsure: u64 = self.unsure.iter().map(|u| u.end.get().saturating_sub(u.first.get())).sum();
        let drive = self.check.end.get() as f64 / self.check.of_drive.max(f64::MIN_POSITIVE);
        !self.given_up.is_empty()
            || self.check.of_drive < 1.0
            || unsure as f64 > (1.0 - PREDICTED_SHARE_MIN) * drive
    }

    /// Returns the result of a measurement. If the drive's times or its defects prevented the measurement, records that
    /// and returns `None`; the probe then continues with a default.
    ///
    /// # Errors
    /// The device is gone, the probe was interrupted, or the state is of another drive: such errors are not the drive's
    /// answers. If the drive may not spin, any error is returned: a RAM disk timed by a busy machine's clock may show a
    /// revolution time by chance, and must get no profile.
    pub(crate) fn kept<T>(
        &mut self,
        what: &str,
        found: Result<T, ProbeError>,
    ) -> Result<Option<T>, ProbeError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_of_the_drive() && self.spins() => {
                self.given_up.push(GivenUp { what: what.to_owned(), why: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the revolution time is certain enough for a drive that spins.
    fn spins(&self) -> bool {
        self.findings.iter().any(|f| f.what == "revolution time" && f.confidence >= REVOLUTION_CONFIDENCE_MIN)
    }

    /// Limits the confidence in the findings named `what` to `most`.
    pub(crate) fn no_surer(&mut self, what: &[&str], most: f64) {
        for finding in self.findings.iter_mut().filter(|finding| what.contains(&finding.what.as_str())) {
            finding.confidence = finding.confidence.min((most.clamp(0.0, 1.0) * 100.0).round() / 100.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe's worked examples (Statistics in Medicine 1998, table I, method 3).
    #[test]
    fn the_interval_is_wilsons() {
        for (near, reads, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = Confidence::of(near, reads);
            assert!((found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4, "{found:?}");
        }
        let none = Confidence::of(0, 0);
        assert_eq!((none.low, none.high), (0.0, 1.0));
    }
}
