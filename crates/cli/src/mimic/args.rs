//! Flags of `freeblock mimic`.

use crate::probe::DeviceName;
use crate::values;
use clap::{Args, Subcommand, ValueEnum};
use mimic::{CheckPoints, Metric, Pair};
use std::path::PathBuf;
use units::{Bytes, LbnRange, Op};

#[derive(Debug, Subcommand)]
pub(crate) enum MimicCommand {
    /// Measure a drive of which only the size is known, and write the table of its times
    #[command(
        after_help = "Example:\n  freeblock mimic probe emulated:quantum-atlas-10k -o atlas.mimic\n  freeblock mimic probe emulated:nearline-4tb,seed=3,noise -o nearline.mimic --memory 64M --requests 200000\n  freeblock mimic probe /dev/sdX -o sdx.mimic --requests 100000\n\nA disk is written only with --allow-writes; half of the requests are moves to a random place, so a hundred thousand take a quarter of an hour. Probe a disk that is not in use. The same seed gives the same table of an emulated drive. The table replaces the file only when it is complete; after Ctrl-C the former file is unchanged."
    )]
    Probe(MimicProbeArgs),
    /// Show a table: its coverage, and the saw-tooth of its times
    #[command(
        after_help = "Example:\n  freeblock mimic show atlas.mimic\n  freeblock mimic show atlas.mimic --from -2000 --to 2000 --svg teeth.svg\n  freeblock mimic show atlas.mimic --pair write-after-read"
    )]
    Show(ShowArgs),
    /// Compare a table with a drive: errors of its predictions, and the demerit figure
    #[command(
        after_help = "Example:\n  freeblock mimic check atlas.mimic emulated:quantum-atlas-10k,seed=2,noise\n  freeblock mimic check sdx.mimic /dev/sdX --requests 2000"
    )]
    Check(CheckArgs),
}

/// Which requests probing makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Types {
    /// Reads alone, which answer for writes as well
    Read,
    /// Reads and writes after reads and writes: of a disk only where --allow-writes says so
    All,
}

/// A request, and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PairName {
    ReadAfterRead,
    WriteAfterRead,
    ReadAfterWrite,
    WriteAfterWrite,
}

impl From<PairName> for Pair {
    fn from(name: PairName) -> Self {
        match name {
            PairName::ReadAfterRead => Self::new(Op::Read, Op::Read),
            PairName::WriteAfterRead => Self::new(Op::Read, Op::Write),
            PairName::ReadAfterWrite => Self::new(Op::Write, Op::Read),
            PairName::WriteAfterWrite => Self::new(Op::Write, Op::Write),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct MimicProbeArgs {
    /// The drive: /dev/NAME or a file, by its path; or emulated:NAME, with a built-in drive's name, a profile or a DiskSim file, and then ,seed=N, ,noise and behaviours by name (see `freeblock probe --help`)
    #[arg(value_name = "DEVICE")]
    pub(crate) device: DeviceName,
    /// Write the table to this file
    #[arg(short, long, value_name = "TABLE")]
    pub(crate) output: PathBuf,
    /// The size of every request, and the grain of distances
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "4096", allow_negative_numbers = true)]
    pub(crate) unit: Bytes,
    /// Samples of each distance
    #[arg(long, value_name = "N", value_parser = samples, default_value = "10", allow_negative_numbers = true)]
    pub(crate) samples: u32,
    /// The summary of the samples: mean, median, maximum, minimum or probabilistic
    #[arg(long, value_name = "NAME", value_parser = metric, default_value = "mean")]
    pub(crate) summary: Metric,
    /// When a range is interpolated: careful, table-2 (the paper's), table-2-twice (each range must pass it twice), N:PERCENT (N check points with an error of at most PERCENT), or none
    #[arg(long, value_name = "RULE", value_parser = check_points, default_value = "careful")]
    pub(crate) check_points: CheckPoints,
    /// The types of the requests
    #[arg(long, value_enum, default_value = "read")]
    pub(crate) types: Types,
    /// Probe only these sectors, and write them if --types says so; their content is put back. No other sector of a disk is written
    #[arg(long, value_name = "FIRST-LAST", value_parser = values::region)]
    pub(crate) allow_writes: Option<LbnRange>,
    /// The furthest distance either way [default: all of the drive]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) reach: Option<Bytes>,
    /// The limit on memory
    #[arg(long, value_name = "BYTES", value_parser = values::memory, default_value = "64M", allow_negative_numbers = true)]
    pub(crate) memory: Bytes,
    /// The approximate limit on requests; SMTF's base decides for distances that are still unknown then
    #[arg(long, value_name = "N", value_parser = values::requests, default_value = "1000000", allow_negative_numbers = true)]
    pub(crate) requests: u64,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A table that `mimic probe` wrote
    #[arg(value_name = "TABLE")]
    pub(crate) table: PathBuf,
    /// The first distance to plot, in sectors, backward if negative [default: the furthest backward]
    #[arg(long, value_name = "SECTORS", value_parser = distance, allow_negative_numbers = true)]
    pub(crate) from: Option<i64>,
    /// The last distance to plot, in sectors [default: the furthest forward]
    #[arg(long, value_name = "SECTORS", value_parser = distance, allow_negative_numbers = true)]
    pub(crate) to: Option<i64>,
    /// Which request after which other to plot [default: the first that was probed]
    #[arg(long, value_enum, value_name = "PAIR")]
    pub(crate) pair: Option<PairName>,
    /// Write the plot to this file as SVG too
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A table that `mimic probe` wrote
    #[arg(value_name = "TABLE")]
    pub(crate) table: PathBuf,
    /// The drive: /dev/NAME or a file, by its path, which is read only; or emulated:NAME, with a built-in drive's name, a profile or a DiskSim file, and then ,seed=N, ,noise and behaviours by name (see `freeblock probe --help`)
    #[arg(value_name = "DEVICE")]
    pub(crate) device: DeviceName,
    /// The number of reads to compare
    #[arg(long, value_name = "N", value_parser = values::requests, default_value = "10000", allow_negative_numbers = true)]
    pub(crate) requests: u64,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn samples(text: &str) -> Result<u32, String> {
    let samples = text.parse().ok().filter(|n| (1..=1_000).contains(n));
    samples.ok_or_else(|| "give a whole number from 1 to 1000; gains stop at about 10".to_owned())
}

fn metric(text: &str) -> Result<Metric, String> {
    text.parse().map_err(|error: mimic::UnknownMetric| error.to_string())
}

fn distance(text: &str) -> Result<i64, String> {
    let distance = text.parse().ok().filter(|d: &i64| d.unsigned_abs() <= 1 << 44);
    distance.ok_or_else(|| "give a whole number of sectors, such as 2000 or -2000".to_owned())
}

fn check_points(text: &str) -> Result<CheckPoints, String> {
    let mend = || {
        "give careful, table-2, table-2-twice, none, or N:PERCENT such as 5:1.5 (1 to 100 check points, up to 100%)"
            .to_owned()
    };
    match text {
        "careful" => Ok(CheckPoints::CAREFUL),
        "table-2" => Ok(CheckPoints::TABLE_2),
        "table-2-twice" => Ok(CheckPoints::TABLE_2.confirmed(2)),
        "none" => Ok(CheckPoints::NONE),
        _ => {
            let (points, percent) = text.split_once(':').ok_or_else(mend)?;
            let points = points.parse().ok().filter(|n| (1..=100).contains(n)).ok_or_else(mend)?;
            let percent: f64 = percent.trim_end_matches('%').parse().map_err(|_| mend())?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(mend());
            }
            Ok(CheckPoints::fixed(points, (percent * 100.0).round() as u32))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_points_are_read_in_five_ways() {
        assert_eq!(check_points("table-2-twice"), Ok(CheckPoints::TABLE_2.confirmed(2)));
        assert_eq!(check_points("table-2"), Ok(CheckPoints::TABLE_2));
        assert_eq!(check_points("careful"), Ok(CheckPoints::CAREFUL));
        assert_eq!(check_points("none"), Ok(CheckPoints::NONE));
        assert_eq!(check_points("5:1.5"), Ok(CheckPoints::fixed(5, 150)));
        assert_eq!(check_points("5:1.5%"), Ok(CheckPoints::fixed(5, 150)));
        for wrong in ["", "table", "0:1", "101:1", "1:", ":1", "1:-1", "1:101", "1:nan"] {
            assert!(check_points(wrong).is_err(), "{wrong}");
        }
    }
}
