//! The options of the background export.

use super::source::Source;
use crate::problem::Problem;
use crate::values;
use server::Floor;
use std::num::NonZeroU64;
use toml::Spanned;
use units::{Bytes, Duration};

/// Bounds a floor in seconds to a day.
const FLOOR_SECONDS_MAX: f64 = 86_400.0;

/// Reads a floor, the least service of the background export: a rate in bytes a second, or the most seconds for which a request
/// waits.
pub(super) fn floor(text: &str) -> Result<Floor, String> {
    let mend = || format!("{text:?} is no floor; give a rate, as 2MB/s, or seconds, as 30s");
    if let Some(rate) = text.strip_suffix("/s") {
        let digits = rate.trim_end_matches(char::is_alphabetic);
        let (power, binary) = rate.get(digits.len()..).and_then(values::unit).ok_or_else(mend)?;
        let unit = if binary { 1_024.0_f64 } else { 1e3 };
        let rate = digits.parse::<f64>().map_err(|_| mend())? * unit.powi(power as i32);
        if !(1e3..=1e10).contains(&rate) {
            return Err(format!("{text:?} is out of range; give 1kB/s to 10GB/s"));
        }
        return NonZeroU64::new(rate.round() as u64).map(Floor::BytesPerSecond).ok_or_else(mend);
    }
    let seconds: f64 = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).ok_or_else(mend)?;
    if !(0.001..=FLOOR_SECONDS_MAX).contains(&seconds) {
        return Err(format!("{text:?} is out of range; give 0.001s to {FLOOR_SECONDS_MAX}s"));
    }
    Duration::from_millis_f64(seconds * 1e3).map(Floor::Within).ok_or_else(mend)
}

/// Reads a size of memory for blocks that are read ahead.
pub(super) fn memory(text: &str) -> Result<Bytes, String> {
    let bytes = values::bytes(text)?;
    if !(1 << 20..=64 << 30).contains(&bytes.get()) {
        return Err(format!("{text:?} is out of range; give 1MiB to 64GiB"));
    }
    Ok(bytes)
}

/// Reads the name of an export: the disk's own or the background export.
pub(super) fn export_name(text: &str) -> Result<String, String> {
    match text.contains('@') {
        true => {
            Err(format!("{text:?} has an @, which stands in the names of snapshots' exports; give another"))
        }
        false => Ok(text.to_owned()),
    }
}

/// Returns the name of the background export.
///
/// # Errors
/// The name is empty, that of the foreground's export, or could be that of a snapshot's.
pub(super) fn name(
    text: Option<&Spanned<String>>,
    export: Option<&Spanned<String>>,
    place: &Source<'_>,
) -> Result<Option<String>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let name = text.get_ref();
    if name.is_empty() {
        let message = "the background export needs a name of its own; give one, as d0-background";
        return Err(place.problem(text.span(), message));
    }
    if export.is_some_and(|export| export.get_ref() == name) {
        return Err(place.problem(text.span(), "the disk's other export has this name; give another"));
    }
    place.parsed(text, export_name).map(Some)
}

/// Returns whether clients may write to the background export.
///
/// # Errors
/// No background export is configured, or the disk is read-only.
pub(super) fn write(
    given: Option<&Spanned<bool>>,
    has_export: bool,
    read_only: bool,
    place: &Source<'_>,
) -> Result<bool, Problem> {
    let Some(write) = given.filter(|write| *write.get_ref()) else { return Ok(false) };
    if !has_export {
        let message =
            "without a background export nothing is written there; give `background`, or omit the line";
        return Err(place.problem(write.span(), message));
    }
    if read_only {
        return Err(place.problem(write.span(), "the disk is read_only; leave one of the two out"));
    }
    Ok(true)
}

/// Returns the floor of the background export.
///
/// # Errors
/// The text is no floor, or no background export is configured.
pub(super) fn checked(
    text: Option<&Spanned<String>>,
    has_export: bool,
    place: &Source<'_>,
) -> Result<Option<Floor>, Problem> {
    let Some(text) = text else { return Ok(None) };
    if !has_export {
        let message =
            "without a background export nothing has this floor; give `background`, or omit the line";
        return Err(place.problem(text.span(), message));
    }
    place.parsed(text, floor).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_a_rate_or_a_time() {
        let rate = |bytes| Ok(Floor::BytesPerSecond(NonZeroU64::new(bytes).unwrap()));
        assert_eq!(floor("2MB/s"), rate(2_000_000));
        assert_eq!(floor("0.5MB/s"), rate(500_000));
        assert_eq!(floor("1MiB/s"), rate(1 << 20));
        assert_eq!(floor("64kib/s"), rate(64 << 10));
        assert_eq!(floor("1g/s"), rate(1_000_000_000));
        assert_eq!(floor("30s"), Ok(Floor::Within(Duration::from_secs(30))));
        assert_eq!(floor("0.5s"), Ok(Floor::Within(Duration::from_millis(500))));
        for wrong in [
            "", "s", "/s", "2", "0MB/s", "0s", "-1s", "NaNs", "infs", "1e9s", "2MB", "-2MB/s", "1e9GB/s",
            "2xB/s",
        ] {
            assert!(floor(wrong).is_err(), "{wrong}");
        }
    }
}
