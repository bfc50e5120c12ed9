//! What a probe found, how sure it is, and where it is not.

use serde::Serialize;
use units::Lbn;

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What: `revolution time`, `heads` and so on.
    pub what: String,
    /// The value with its unit.
    pub value: String,
    /// 0 (a guess) to 1 (measured without contradiction).
    pub confidence: f64,
    /// Why it is not surer, if it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// LBNs of which the profile is not sure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsure {
    /// The first.
    #[serde(serialize_with = "number")]
    pub first: Lbn,
    /// Past the last.
    #[serde(serialize_with = "number")]
    pub end: Lbn,
    /// What was seen there.
    pub why: String,
}

/// LBNs that could not be read: the probe went round them, and no prediction of them was checked. It met them by chance; a scan
/// finds all (`freeblock scrub`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The first.
    #[serde(serialize_with = "number")]
    pub first: Lbn,
    /// Past the last.
    #[serde(serialize_with = "number")]
    pub end: Lbn,
}

fn number<S: serde::Serializer>(lbn: &Lbn, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(lbn.get())
}

/// The found profile held against random reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Check {
    /// Reads.
    pub requests: u64,
    /// Share predicted within 50 us.
    pub within_50us: f64,
    /// Share that came whole turns early or late.
    pub turns_off: f64,
    /// Share that came otherwise.
    pub elsewhere: f64,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// In the order of the measurements.
    pub findings: Vec<Finding>,
    /// Where the profile may be wrong; empty when it met every check.
    pub unsure: Vec<Unsure>,
    /// Sectors that could not be read, ascending; only those that the probe met.
    pub unreadable: Vec<Unreadable>,
    /// The check at the end.
    pub check: Check,
    /// Commands sent.
    pub commands: u64,
    /// Seconds of the drive's time.
    pub drive_time_s: f64,
}

impl Report {
    pub(crate) fn add(&mut self, what: &str, value: String, confidence: f64, note: impl Into<String>) {
        let confidence = (confidence.clamp(0.0, 1.0) * 100.0).round() / 100.0;
        self.findings.push(Finding { what: what.to_owned(), value, confidence, note: note.into() });
    }
}
