//! Values of flags. The error of every parser describes a correct value.

use drive::{Behaviour, SwitchError};
use scheduler::policy::{AgeWeight, PolicyName};
use std::path::PathBuf;
use std::str::FromStr;
use units::{Bytes, Duration, Sectors};
use workload::trace::{Columns, Event, TimeUnit, TraceFormat};
use workload::{Share, Utilisation};

/// The kind of foreground load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Requests of one size at random addresses.
    Random,
    /// The OLTP load of the papers.
    Oltp,
    /// FAST'04's synthetic requests, at a rate that keeps the drive busy for this share of the time.
    Utilisation(Utilisation),
    /// Transactions like TPC-C's.
    Tpcc,
    /// Small files like Postmark's.
    Postmark,
    /// A trace.
    Replay(PathBuf),
    /// A load in the language of docs/WORKLOADS.md, not yet read.
    Mixture(String),
}

impl Load {
    /// Returns the load's name on the command line, without the part after a colon; for a mixture, its text.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Random => "random",
            Self::Oltp => "oltp",
            Self::Utilisation(_) => "utilisation",
            Self::Tpcc => "tpcc",
            Self::Postmark => "postmark",
            Self::Replay(_) => "replay",
            Self::Mixture(text) => text,
        }
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "random" => Ok(Self::Random),
            None if text == "oltp" => Ok(Self::Oltp),
            None if text == "tpcc" => Ok(Self::Tpcc),
            None if text == "postmark" => Ok(Self::Postmark),
            Some(("utilisation", share)) => utilisation(share).map(Self::Utilisation),
            None if text == "utilisation" => Err(UTILISATION.to_owned()),
            Some(("replay", "")) => Err("name the trace: replay:FILE".to_owned()),
            Some(("replay", file)) => Ok(Self::Replay(PathBuf::from(file))),
            None if text == "replay" => Err("name the trace: replay:FILE".to_owned()),
            // The reader of mixtures, which runs later, reports a mistake with its place in the text.
            _ if is_mixture(text) => Ok(Self::Mixture(text.to_owned())),
            _ => Err("the workloads are random, oltp, utilisation:PERCENT, tpcc, postmark and replay:FILE, and mixtures such as 3*zipf:0.9,size=4k/64k + sequential:4,size=64k; poisson:150"
                .to_owned()),
        }
    }
}

/// Returns whether a text is meant as a mixture: it contains a sign of that language, or begins with a word for the addresses
/// of requests.
fn is_mixture(text: &str) -> bool {
    text.contains([',', ';', '+', '*', '@', '='])
        || text.split(':').next().is_some_and(|word| matches!(word.trim(), "zipf" | "hot" | "sequential"))
}

const UTILISATION: &str = "give the share of time for which the drive is to be busy: utilisation:50 for 50%";

/// Reads a percentage, with or without its sign.
fn utilisation(text: &str) -> Result<Utilisation, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| UTILISATION.to_owned())?;
    Utilisation::from_percent(percent).map_err(|_| "give a utilisation from 0 to 100 percent".to_owned())
}

/// The most requests of a run: more would take too long.
pub(crate) const REQUESTS_MAX: u64 = 1_000_000_000;

/// The largest number of tasks: as many requests as the scheduler's pool and a simulated drive's queue hold.
const TASKS_MAX: u64 = 65_536;

/// The most seeds of one command: more would take too long.
const SEEDS_MAX: u64 = 10_000;

/// The most tracks of a search: more than any drive has.
const TRACKS_MAX: u64 = 100_000_000;

/// The most parallel jobs: more than any machine has cores.
#[cfg(feature = "lab")]
const JOBS_MAX: u64 = 1_024;

/// Reads the number of requests of a run.
pub(crate) fn requests(text: &str) -> Result<u64, String> {
    whole(text, 1, REQUESTS_MAX)
}

/// Reads the number of seeds.
pub(crate) fn seeds(text: &str) -> Result<u64, String> {
    whole(text, 2, SEEDS_MAX)
}

/// The beginning of a run that its results leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warmup {
    /// This number of requests.
    Requests(u64),
    /// This simulated time.
    Time(Duration),
}

/// Reads a number of requests, or seconds with an `s` behind them.
pub(crate) fn warmup(text: &str) -> Result<Warmup, String> {
    let mend = || "give requests, such as 1000, or seconds with an s, such as 60s".to_owned();
    match text.strip_suffix('s') {
        Some(seconds) => seconds_up_to_years(seconds.trim_end()).map(Warmup::Time).ok_or_else(mend),
        None => whole(text, 1, REQUESTS_MAX).map(Warmup::Requests).map_err(|_| mend()),
    }
}

/// Reads the length of an interval in seconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    seconds_up_to_years(text).ok_or_else(|| "give seconds, more than 0, such as 60 or 0.5".to_owned())
}

/// Reads seconds, to the nanosecond: more than 0 and up to ten years.
fn seconds_up_to_years(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 315_360_000.0)?;
    Duration::from_millis_f64(seconds * 1e3).filter(|time| *time > Duration::ZERO)
}

/// Reads the number of tasks of a closed loop.
pub(crate) fn tasks(text: &str) -> Result<u32, String> {
    whole(text, 1, TASKS_MAX)
}

/// Reads the number of tracks of a search.
pub(crate) fn tracks(text: &str) -> Result<u32, String> {
    whole(text, 0, TRACKS_MAX)
}

/// Reads the number of parallel jobs.
#[cfg(feature = "lab")]
pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    whole(text, 1, JOBS_MAX)
}

/// Reads a seed.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}

/// Reads the differences between an emulated drive and its profile.
pub(crate) fn behaviour(text: &str) -> Result<Behaviour, String> {
    text.parse().map_err(|error: SwitchError| match &error {
        SwitchError::Unknown { word } if word.starts_with("seed=") => {
            format!("{word:?} is no behaviour of a drive; the seed is given by --seed")
        }
        _ => error.to_string(),
    })
}

/// Reads a profile's name.
pub(crate) fn profile_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.len() <= 64 && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err("give lower-case letters, digits and hyphens, 64 at most".to_owned())
    }
}

pub(crate) fn whole<N: TryFrom<u64>>(text: &str, low: u64, high: u64) -> Result<N, String> {
    let number = text.parse().ok().filter(|n| (low..=high).contains(n));
    number
        .and_then(|n| N::try_from(n).ok())
        .ok_or_else(|| format!("give a whole number from {low} to {high}"))
}

/// Reads a policy's name.
pub(crate) fn policy(text: &str) -> Result<PolicyName, String> {
    text.parse().map_err(|error: scheduler::policy::UnknownPolicy| error.to_string())
}

/// Returns the exponent of a unit of bytes (1 for `k` to 4 for `T`), and whether an `i` makes the base 1,024: `k`, `M`, `G` or
/// `T`, in either case, with or without `i` and `B` behind it.
pub(crate) fn unit(text: &str) -> Option<(u32, bool)> {
    let text = text.trim().to_ascii_lowercase();
    let prefix = text.strip_suffix('b').unwrap_or(&text);
    let (prefix, binary) = prefix.strip_suffix('i').map_or((prefix, false), |prefix| (prefix, true));
    let power = match prefix {
        "" if !binary => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    Some((power, binary))
}

/// The largest size, 1,024 TiB.
const SIZE_MAX: u64 = 1 << 50;

/// Reads a number of bytes, with or without a [unit]. The base of the unit is 1,024, with or without an `i`.
pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let mend = || "give bytes as a whole number, such as 4096, 4k, 64KiB or 2T (k is 1024)".to_owned();
    let ((power, _), number) = unit(rest).zip(number.parse::<u64>().ok()).ok_or_else(mend)?;
    match number.checked_mul(1 << (10 * power)) {
        Some(0) => Err("give at least one sector".to_owned()),
        Some(bytes) if bytes <= SIZE_MAX => Ok(Bytes::new(bytes)),
        _ => Err("give at most 1024 TiB".to_owned()),
    }
}

/// Reads a size of memory.
pub(crate) fn memory(text: &str) -> Result<Bytes, String> {
    if text.trim_end_matches(char::is_alphabetic).parse() == Ok(0) {
        return Err("give at least 65536 bytes, as 64k".to_owned());
    }
    bytes(text)
}

/// Returns a size in sectors of `sector` bytes, if it is whole sectors.
pub(crate) fn sectors(size: Bytes, sector: Bytes) -> Option<Sectors> {
    let (size, sector) = (size.get(), sector.get());
    (sector > 0 && size > 0 && size.is_multiple_of(sector)).then(|| Sectors::new(size / sector))
}

/// The longest think time, an hour: simulated time must not run out.
const THINK_TIME_MS_MAX: f64 = 3_600_000.0;

/// Reads milliseconds, from none to an hour.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    let mend = || "give milliseconds from 0 to 3600000, such as 30 or 0.5".to_owned();
    let ms: f64 = text.parse().map_err(|_| mend())?;
    if !(0.0..=THINK_TIME_MS_MAX).contains(&ms) {
        return Err(mend());
    }
    Duration::from_millis_f64(ms).ok_or_else(mend)
}

/// Reads a bound on harm in percent; returns millionths.
pub(crate) fn harm(text: &str) -> Result<u32, String> {
    let percent = within(text, 0.0, 100.0, "give percent from 0 to 100, such as 1 or 0.5")?;
    Ok((percent * 1e4).round() as u32)
}

/// Reads a share: `0.7`, `70%` or `2/3`.
pub(crate) fn share(text: &str) -> Result<Share, String> {
    let mend = || "give a share from 0 to 1, such as 0.7, 70% or 2/3".to_owned();
    if let Some((part, whole)) = text.split_once('/') {
        let (part, whole) = (part.parse().map_err(|_| mend())?, whole.parse().map_err(|_| mend())?);
        return Share::new(part, whole).map_err(|_| mend());
    }
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| mend())?;
    Share::from_fraction(number / scale).map_err(|_| mend())
}

/// Reads requests a second. The lower bound keeps simulated time from running out.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e6, "give requests a second, from 0.001 to 1000000")
}

/// A format of traces, with the columns of `csv:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadAs {
    pub(crate) format: TraceFormat,
    pub(crate) columns: Option<Columns>,
}

impl FromStr for ReadAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("csv", columns)) => Ok(Self { format: TraceFormat::Csv, columns: Some(columns.parse()?) }),
            _ if text == "csv" => Err("name the columns: csv:time=5,unit=us,op=2,offset=3,size=4".to_owned()),
            _ => Ok(Self { format: text.parse()?, columns: None }),
        }
    }
}

/// Reads the unit of a trace's times.
pub(crate) fn time_unit(text: &str) -> Result<TimeUnit, String> {
    text.parse()
}

/// Reads the event of a block trace that is an arrival.
pub(crate) fn event(text: &str) -> Result<Event, String> {
    [Event::Queue, Event::Dispatch]
        .into_iter()
        .find(|event| event.letter() == text)
        .ok_or_else(|| "give Q (queued, before the kernel's scheduler) or D (sent to the driver)".to_owned())
}

/// Several drives of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drives {
    /// This number of equal drives.
    Count(u32),
    /// The drives that a file names, one on each line.
    File(PathBuf),
}

/// The most drives of a simulation; each is a row of the result.
pub(crate) const DRIVES_MAX: u32 = 100_000;

impl FromStr for Drives {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_start_matches('-');
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::File(PathBuf::from(text)));
        }
        match text.parse() {
            Ok(count) if (1..=DRIVES_MAX).contains(&count) => Ok(Self::Count(count)),
            _ => Err(format!(
                "give a number of drives from 1 to {DRIVES_MAX}, or a file with the name of one in each line"
            )),
        }
    }
}

/// The devices of a trace to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceDevices {
    /// All devices, concatenated.
    All,
    /// All devices, each on a drive of its own.
    Each,
    /// The device with this number.
    One(u32),
}

impl FromStr for TraceDevices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "each" => Ok(Self::Each),
            _ => text
                .parse()
                .map(Self::One)
                .map_err(|_| "give the number of a device in the trace, all or each".to_owned()),
        }
    }
}

/// Reads a factor on a trace's arrival times.
pub(crate) fn scale(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1e6, "give a factor from 0.000001 to 1000000; 0.5 replays twice as fast")
}

/// Reads the factor by which a trace is replayed faster.
pub(crate) fn compression(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1e6, "give a factor from 0.000001 to 1000000; 20 replays twenty times as fast")
}

/// Reads the weight of age: the milliseconds subtracted from a request's positioning time for each millisecond that it has
/// waited.
pub(crate) fn age_weight(text: &str) -> Result<AgeWeight, String> {
    let weight = within(text, 0.0, 1_000.0, "give a factor from 0 (the pure policy) to 1000, such as 0.006")?;
    Ok(AgeWeight::from_millionths((weight * 1e6).round() as u32))
}

fn within(text: &str, low: f64, high: f64, mend: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| mend.to_owned())?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(mend.to_owned()) }
}

/// Reads sectors as FIRST-LAST, both included.
pub(crate) fn region(text: &str) -> Result<units::LbnRange, String> {
    let usage = || "give the first sector and the last, as 1000000-1020000".to_owned();
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| usage());
    let (first, last) = text.split_once('-').ok_or_else(usage)?;
    let (first, last) = (number(first)?, number(last)?);
    let len = last.checked_sub(first).and_then(|more| more.checked_add(1)).ok_or_else(usage)?;
    first.checked_add(len).ok_or_else(usage)?;
    Ok(units::LbnRange::new(units::Lbn::new(first), units::Sectors::new(len)))
}

/// Returns sectors as FIRST-LAST, both included.
pub(crate) fn first_last(region: units::LbnRange) -> String {
    let first = region.start().get();
    format!("{first}-{}", first.saturating_add(region.len().get().saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for text in ["4096", "4k", "4K", "4KiB", "4kb", "4096b", "4 k"] {
            assert_eq!(bytes(text), Ok(Bytes::new(4096)), "{text}");
        }
        assert_eq!(bytes("64KiB"), Ok(Bytes::new(65_536)));
        for (text, shift) in [("1g", 30), ("1GB", 30), ("2TiB", 41), ("1t", 40), ("1024T", 50)] {
            assert_eq!(bytes(text), Ok(Bytes::new(1 << shift)), "{text}");
        }
        for wrong in [
            "",
            "k",
            "-1",
            "0",
            "0k",
            "4.5k",
            "4 kilobytes",
            "18446744073709551616",
            "99999999999g",
            "1e3",
            "1025T",
            "4i",
            "4iB",
            "4kk",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_size_must_be_whole_sectors() {
        assert_eq!(sectors(Bytes::new(4096), Bytes::new(512)), Some(Sectors::new(8)));
        assert_eq!(sectors(Bytes::new(4096), Bytes::new(4096)), Some(Sectors::new(1)));
        assert_eq!(sectors(Bytes::new(512), Bytes::new(4096)), None);
        assert_eq!(sectors(Bytes::new(513), Bytes::new(512)), None);
    }

    #[test]
    fn a_quantity_that_is_not_finite_or_not_a_number_is_refused() {
        for wrong in ["nan", "inf", "-inf", "-1", "1e999", "", "x"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
            assert!(share(wrong).is_err(), "{wrong}");
            assert!(rate(wrong).is_err(), "{wrong}");
            assert!(scale(wrong).is_err(), "{wrong}");
            assert!(age_weight(wrong).is_err(), "{wrong}");
        }
        assert!(rate("0").is_err() && scale("0").is_err() && share("3/2").is_err() && share("1/0").is_err());
    }

    #[test]
    fn whole_numbers_have_bounds() {
        assert_eq!(requests("1"), Ok(1));
        assert_eq!(tasks("65536"), Ok(65_536));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "-1", "1.5", "1e3", "x", "18446744073709551616"] {
            assert!(requests(wrong).is_err() && tasks(wrong).is_err() && seed(wrong).is_err(), "{wrong}");
        }
        assert!(requests("0").is_err() && requests("1000000001").is_err() && tasks("65537").is_err());
    }

    #[test]
    fn a_warm_up_is_requests_or_seconds() {
        assert_eq!(warmup("1000"), Ok(Warmup::Requests(1_000)));
        for text in ["60s", "60.0s", "60 s"] {
            assert_eq!(warmup(text), Ok(Warmup::Time(Duration::from_secs(60))), "{text}");
        }
        for wrong in ["", "s", "0", "0s", "-1", "-1s", "1.5", "nans", "infs", "1m", "1e-20s", "400000000s"] {
            assert!(warmup(wrong).is_err(), "{wrong}");
        }
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert!(interval("0").is_err() && interval("nan").is_err() && interval("1s").is_err());
    }

    #[test]
    fn shares_are_read_in_three_ways() {
        assert_eq!(share("2/3"), Ok(Share::TWO_THIRDS));
        assert_eq!(share("70%").map(Share::as_f64), Ok(0.7));
        assert_eq!(share("0.7").map(Share::as_f64), Ok(0.7));
    }

    #[test]
    fn a_utilisation_needs_its_percentage() {
        let half = Utilisation::from_percent(50.0).unwrap();
        assert_eq!("utilisation:50".parse(), Ok(Load::Utilisation(half)));
        assert_eq!("utilisation:50.0%".parse(), Ok(Load::Utilisation(half)));
        for wrong in ["utilisation", "utilisation:", "utilisation:half", "utilisation:101", "utilisation:nan"]
        {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_replay_needs_its_file() {
        assert_eq!("replay:a:b".parse(), Ok(Load::Replay("a:b".into())));
        for wrong in ["replay", "replay:", "tpc-c", "tpcc:", "random:", ""] {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
    }
}
