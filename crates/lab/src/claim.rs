//! A claim of a paper, and whether our result meets it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A claim: one row of the table "paper / ours / band / holds".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The name of the claim, such as `osdi00-fig6a`.
    pub id: String,
    /// The paper's statement.
    pub paper: String,
    /// Our measures; the claim holds if each of them does.
    pub measures: Vec<Measure>,
    /// A note for the reader; if the claim does not hold, the reason.
    pub note: String,
}

impl Claim {
    /// Makes a claim without measures.
    pub fn new(id: &str, paper: &str) -> Self {
        Self { id: id.into(), paper: paper.into(), measures: Vec::new(), note: String::new() }
    }

    /// Adds a measure: a description, our value, the unit as printed after the number (`%`, ` MB/s`), and the band in
    /// which the value counts as reproduced.
    #[must_use]
    pub fn measure(mut self, what: &str, ours: impl Into<Spread>, unit: &str, band: Band) -> Self {
        self.measures.push(Measure { what: what.into(), ours: ours.into(), unit: unit.into(), band });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Returns whether every measure is in its band. A claim without measures does not hold.
    pub fn holds(&self) -> bool {
        !self.measures.is_empty() && self.measures.iter().all(Measure::holds)
    }

    /// Returns all our values, in a line.
    pub fn ours(&self) -> String {
        join(self.measures.iter().map(Measure::sentence))
    }

    /// Returns all bands, in a line.
    pub fn band(&self) -> String {
        let mut bands: Vec<String> = Vec::new();
        for measure in &self.measures {
            let band = format!("{}{}", measure.band, measure.unit);
            if !bands.contains(&band) {
                bands.push(band);
            }
        }
        join(bands.into_iter())
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

/// One of our values for a claim, with the band that it must lie in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The description; empty if the claim is description enough.
    pub what: String,
    /// Our value.
    pub ours: Spread,
    /// The unit, as printed after the number.
    pub unit: String,
    /// The band in which the mean of the value must lie.
    pub band: Band,
}

impl Measure {
    /// Returns whether the mean is in the band.
    pub fn holds(&self) -> bool {
        self.band.contains(self.ours.mean)
    }

    /// Returns the description with the value.
    pub fn sentence(&self) -> String {
        match self.what.trim_end_matches(':') {
            "" => self.value(),
            what => format!("{what}: {}", self.value()),
        }
    }

    /// Returns the value with its unit.
    pub fn value(&self) -> String {
        format!("{}{}", self.ours, self.unit)
    }
}

/// A value over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The number of values.
    pub runs: usize,
}

impl Spread {
    /// Returns the spread of the values of some runs; without runs the mean is NaN, which lies in no band.
    pub fn of(values: &[f64]) -> Self {
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: values.len(),
        }
    }
}

impl From<f64> for Spread {
    fn from(value: f64) -> Self {
        Self { mean: value, min: value, max: value, runs: 1 }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&three_digits(self.mean))?;
        if self.runs > 1 {
            write!(f, " ({} to {})", three_digits(self.min), three_digits(self.max))?;
        }
        Ok(())
    }
}

/// The permitted range of a value, ends included except for [`Above`](Self::Above).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// From the first to the second.
    Within(f64, f64),
    /// This value or more.
    AtLeast(f64),
    /// More than this value: for a claim that one thing is greater than another, in which equality is a failure.
    Above(f64),
    /// This value or less.
    AtMost(f64),
}

impl Band {
    /// Returns whether the value lies in the band; NaN lies in no band.
    pub fn contains(self, value: f64) -> bool {
        match self {
            Self::Within(low, high) => (low..=high).contains(&value),
            Self::AtLeast(low) => value >= low,
            Self::Above(low) => value > low,
            Self::AtMost(high) => value <= high,
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(low, high) => write!(f, "{low}-{high}"),
            Self::AtLeast(low) => write!(f, ">= {low}"),
            Self::Above(low) => write!(f, "> {low}"),
            Self::AtMost(high) => write!(f, "<= {high}"),
        }
    }
}

/// Formats with three significant digits, whole numbers in full.
fn three_digits(value: f64) -> String {
    match value.abs() {
        v if value == value.round() || v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_when_all_of_it_does() {
        let claim = Claim::new("x", "half").measure("a", 0.5, "", Band::Within(0.4, 0.6));
        assert!(claim.holds());
        assert!(!claim.measure("b", 0.7, "", Band::AtMost(0.6)).holds());
    }

    #[test]
    fn a_claim_without_measures_does_not_hold() {
        assert!(!Claim::new("x", "half").holds());
        let nothing = Spread::of(&[]);
        assert!(!Claim::new("x", "half").measure("", nothing, "", Band::AtLeast(0.0)).holds());
    }

    #[test]
    fn the_ends_of_a_band_belong_to_it() {
        assert!(Band::Within(1.0, 2.0).contains(2.0) && Band::AtLeast(1.0).contains(1.0));
        assert!(!Band::AtMost(1.0).contains(1.0 + 1e-12));
        assert!(!Band::Above(0.0).contains(0.0) && Band::Above(0.0).contains(1e-12));
        assert!(!Band::Above(0.0).contains(f64::NAN));
    }

    #[test]
    fn a_value_is_printed_with_its_spread() {
        assert_eq!(Spread::of(&[1.0, 2.0, 4.5]).to_string(), "2.50 (1 to 4.50)");
        assert_eq!(Spread::from(47.26).to_string(), "47.3");
    }
}
