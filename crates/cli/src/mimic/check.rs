//! `freeblock mimic check`.

use super::args::CheckArgs;
use super::store::check_capacity;
use super::{Went, carry_out, load, open};
use crate::output::Console;
use crate::probe::DeviceName;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::{grouped, percent, table};
use drive::demerit_ms;
use mimic::{Distance, Pair, Saved};
use serde::Serialize;
use std::num::NonZeroU64;
use units::{Lbn, LbnRange, Op};
use workload::random::Stream;

/// The number of reads that may fail because of bad sectors: a worse drive should be rescued, not measured.
const UNREADABLE_READS_MAX: u64 = 256;

/// The times and predictions of one set of distances (far or near), in milliseconds.
#[derive(Default)]
struct Compared {
    /// The number of reads whose distance the table does not know.
    unknown: usize,
    times: Vec<f64>,
    predictions: Vec<f64>,
}

pub(crate) fn execute(args: &CheckArgs, console: &Console) -> Result<String, Problem> {
    let saved = load(&args.table)?;
    let mut device = open(&args.device, None, console)?;
    check_capacity(&saved, &args.table, device.capacity())?;
    let mut random = Stream::new(args.seed, "mimic-check");
    let mut progress = Progress::new(console, "checking", args.requests);
    // Two sets of distances: far ones, between random blocks, and near ones, where each interval between powers of two is
    // equally likely.
    let (mut far, mut near) = (Compared::default(), Compared::default());
    let unit = saved.unit.get();
    let blocks = saved.capacity.get() / unit;
    let mut unreadable = 0;
    for i in 0..args.requests {
        let from = below(&mut random, blocks);
        let to = if i % 2 == 0 { below(&mut random, blocks) } else { nearby(&mut random, from, blocks) };
        let range = |block: u64| LbnRange::new(Lbn::new(block * unit), saved.unit);
        let mut read = |block: u64| carry_out(device.as_mut(), Op::Read, range(block));
        // After a failed read the head's position is unknown.
        let went = match read(from)? {
            Went::Done(_) => read(to)?,
            failed @ Went::Unreadable(..) => failed,
        };
        let time = match went {
            Went::Done(time) => time,
            Went::Unreadable(lbn, _) => {
                unreadable += 1;
                if unreadable > UNREADABLE_READS_MAX {
                    return Err(Problem::failed(format!(
                        "{unreadable} reads met sectors that cannot be read, the last at LBN {lbn}"
                    ))
                    .help("save what is on the drive"));
                }
                continue;
            }
        };
        let last = Lbn::new(range(from).end().get() - 1);
        let distance = Distance::between(last, range(to).start());
        let pair = Pair::new(Op::Read, Op::Read);
        let these = if i % 2 == 0 { &mut far } else { &mut near };
        match saved.table.time(pair, distance, random.next_u64()) {
            Some(predicted) => {
                these.times.push(time.as_millis_f64());
                these.predictions.push(predicted.as_millis_f64());
            }
            None => these.unknown += 1,
        }
        progress.at(i);
    }
    drop(progress);
    let differs = match &args.device {
        DeviceName::Emulated { differs, .. } if !differs.in_nothing() => Some(differs),
        _ => None,
    };
    let json = MimicCheckJson {
        drive: args.device.drive().to_owned(),
        noise: differs.is_some(),
        drive_seed: differs.map(|differs| differs.seed),
        random: far.result(),
        near: near.result(),
        unreadable,
        seed: args.seed,
    };
    if args.json { crate::drive::json(&json) } else { Ok(page(&saved, &args.device, &json)) }
}

fn below(random: &mut Stream, bound: u64) -> u64 {
    random.below(NonZeroU64::new(bound).unwrap_or(NonZeroU64::MIN))
}

/// Returns a block at a random distance from `from`, on either side. Each interval from one power of two to the next is equally
/// likely.
fn nearby(random: &mut Stream, from: u64, blocks: u64) -> u64 {
    let doublings = u64::from(blocks.ilog2()).max(1);
    let most = 1u64 << below(random, doublings);
    let steps = most + below(random, most);
    let forward = from.checked_add(steps).filter(|block| *block < blocks);
    let backward = from.checked_sub(steps);
    let (one, other) = if random.next_u64() & 1 == 0 { (forward, backward) } else { (backward, forward) };
    one.or(other).unwrap_or(from)
}

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
struct MimicCheckJson {
    drive: String,
    /// Whether the drive is an emulated one that differs from its profile; `drive_seed` is then the seed of its behaviour.
    noise: bool,
    drive_seed: Option<u64>,
    random: Errors,
    near: Errors,
    /// The number of reads that were left out because a sector could not be read.
    unreadable: u64,
    seed: u64,
}

/// The differences between predictions and times.
#[derive(Serialize)]
struct Errors {
    /// The numbers of reads with a distance that the table knows (`requests`) and does not know (`unknown`). All other fields
    /// are about the reads with known distances.
    requests: usize,
    unknown: usize,
    time_mean_ms: f64,
    predicted_mean_ms: f64,
    /// Mean of the differences without their signs.
    error_mean_ms: f64,
    /// Root of the mean square of the differences, request by request.
    error_rms_ms: f64,
    /// Root of the mean square of the differences of the sorted times (Ruemmler and Wilkes).
    demerit_ms: f64,
    /// The part of the times' variance that the predictions explain; below zero if the mean of the times would predict better.
    explained: f64,
}

impl Compared {
    fn result(&self) -> Errors {
        let n = self.times.len().max(1) as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
        let pairs = || self.times.iter().zip(&self.predictions);
        let time_mean_ms = mean(&self.times);
        let square = pairs().map(|(time, predicted)| (time - predicted).powi(2)).sum::<f64>() / n;
        let variance = self.times.iter().map(|time| (time - time_mean_ms).powi(2)).sum::<f64>() / n;
        Errors {
            requests: self.times.len(),
            unknown: self.unknown,
            time_mean_ms,
            predicted_mean_ms: mean(&self.predictions),
            error_mean_ms: pairs().map(|(time, predicted)| (time - predicted).abs()).sum::<f64>() / n,
            error_rms_ms: square.sqrt(),
            demerit_ms: demerit_ms(&self.times, &self.predictions),
            explained: if variance > 0.0 { 1.0 - square / variance } else { 0.0 },
        }
    }
}

fn page(saved: &Saved, device: &DeviceName, json: &MimicCheckJson) -> String {
    let row = |what: &str, errors: &Errors| {
        let ms = |value: f64| format!("{value:.3}");
        vec![
            what.to_owned(),
            grouped((errors.requests + errors.unknown) as u64),
            percent(errors.requests as f64 / (errors.requests + errors.unknown).max(1) as f64),
            ms(errors.time_mean_ms),
            ms(errors.predicted_mean_ms),
            ms(errors.error_mean_ms),
            ms(errors.error_rms_ms),
            ms(errors.demerit_ms),
            percent(errors.explained),
        ]
    };
    let header =
        ["distances", "reads", "known", "time", "predicted", "error", "error rms", "demerit", "explained"];
    let rows = [row("random", &json.random), row("near", &json.near)];
    let left_out = match json.unreadable {
        0 => String::new(),
        reads => format!("{} reads met a sector that cannot be read, and are left out.\n", grouped(reads)),
    };
    let shown = table(&header, &[0], rows);
    format!(
        "The table of {}, held against {device}; all in milliseconds\n\n{shown}\n\
         Near distances are drawn so that each doubling is as likely. All times are of known distances. Explained is the part of the variance.\n\
         {left_out}Seed of the reads: {}\n",
        saved.drive, json.seed
    )
}
