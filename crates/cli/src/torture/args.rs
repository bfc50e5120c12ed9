//! The flags of `freeblock torture`, and their values.

use crate::values::{REQUESTS_MAX, jobs, seed, whole};
use clap::Args;
use std::path::PathBuf;
use torture::Host;
use units::Duration;

#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// Seed of everything random; `random` draws one, which is printed
    #[arg(long, value_name = "N", value_parser = seed_or_random, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: SeedOrRandom,
    /// Virtual time [default: 1]
    #[arg(long, value_name = "H", value_parser = hours, conflicts_with_all = ["steps", "minutes"], allow_negative_numbers = true)]
    pub(crate) hours: Option<Duration>,
    /// Steps, in place of virtual time
    #[arg(long, value_name = "N", value_parser = steps, conflicts_with = "minutes", allow_negative_numbers = true)]
    pub(crate) steps: Option<u64>,
    /// Minutes of the clock, in place of virtual time
    #[arg(long, value_name = "N", value_parser = minutes, allow_negative_numbers = true)]
    pub(crate) minutes: Option<Duration>,
    /// Histories at a time [default: as many as there are cores]; a seed gives the same histories with any number
    #[arg(long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub(crate) jobs: Option<usize>,
    /// The only host: core, volume, volume-outside, outside or daemon
    #[arg(long, value_name = "HOST", value_parser = host, default_value = "all")]
    pub(crate) host: Hosts,
    /// Replay one history from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "hours", "steps", "minutes", "skip", "jobs", "host"])]
    pub(crate) replay: Option<PathBuf>,
    /// Skip the first N histories of the seed
    #[arg(long, value_name = "N", value_parser = skipped, conflicts_with = "replay", default_value = "0", allow_negative_numbers = true)]
    pub(crate) skip: u64,
    /// Write the shortest history that breaks a promise to this file too; after Ctrl-C, the next history
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Reads the number of steps of all histories.
fn steps(text: &str) -> Result<u64, String> {
    whole(text, 1, REQUESTS_MAX)
}

/// Reads the number of histories to skip, so small that adding those of a run does not overflow.
fn skipped(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX / 2)
}

/// Reads hours of virtual time, to the nanosecond: up to ten years.
fn hours(text: &str) -> Result<Duration, String> {
    let hours = text.parse::<f64>().ok().filter(|h| *h > 0.0 && *h <= 87_600.0);
    let ms = hours.map(|h| h * 3_600_000.0);
    ms.and_then(Duration::from_millis_f64).ok_or_else(|| "give hours, more than 0 and up to 87600".to_owned())
}

/// Reads minutes of real time: up to a year.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().ok().filter(|m| *m > 0.0 && *m <= 525_600.0);
    let ms = minutes.map(|m| m * 60_000.0);
    ms.and_then(Duration::from_millis_f64)
        .ok_or_else(|| "give minutes, more than 0 and up to 525600".to_owned())
}

/// A seed that the user gives, or one that is drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedOrRandom {
    Seed(u64),
    Random,
}

/// Reads a seed, or `random`.
fn seed_or_random(text: &str) -> Result<SeedOrRandom, String> {
    if text == "random" { Ok(SeedOrRandom::Random) } else { seed(text).map(SeedOrRandom::Seed) }
}

/// The hosts of random histories: one, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hosts(pub(crate) Option<Host>);

/// Reads the name of one host, or `all`.
fn host(text: &str) -> Result<Hosts, String> {
    if text == "all" {
        return Ok(Hosts(None));
    }
    let host =
        text.parse().map_err(|_| "give core, volume, volume-outside, outside, daemon or all".to_owned());
    host.map(|host| Hosts(Some(host)))
}
