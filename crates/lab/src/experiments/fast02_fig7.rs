//! FAST'02, figure 7: how well head times can be foreseen from outside a drive.

use crate::set_up::{ATLAS_10K, CHEETAH_18LP, black_box, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, spread};
use ::drive::{Behaviour, Mechanics};
use model::{DriveModel, builtin};
use scheduler::{Config, OutsideConfig, Place};
use sim::{Background, Direct, Done, Nothing, Outside};
use std::sync::Arc;
use units::{Duration, Instant, Sectors, TrackIndex};
use workload::{Arrival, Issuer, Random, RandomConfig, Request};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig7",
    paper: Paper::Fast02,
    reproduces: "figure 7, (a) and (b), and section 5.2",
    title: "Errors of head times predicted from outside",
    set_up: "Random requests of 4 KB and of 40 KB, two reads to a write, first come first served, two at a time at \
             the drive with its default noise; Atlas 10K and Cheetah 18LP (synthetic). A prediction is what the \
             profile says of seek, latency and transfer from the end of the request before; for 4 KB the forecasts of \
             the core outside the drive are measured as well.",
    claims: &["fast02-fig7a", "fast02-fig7b"],
    timed: false,
    run,
};

const DRIVES: [(&str, &str); 2] = [("Atlas 10K", ATLAS_10K), ("Cheetah 18LP", CHEETAH_18LP)];
/// Kilobytes a request.
const SIZES: [u64; 2] = [4, 40];
/// How near to a prediction is near, for each.
const NEAR: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(150)];
/// How far from a request's sectors a head may come in earnest that was foreseen among them, or the other way round.
const NEARLY: Duration = Duration::from_micros(100);
/// Percent that the paper's three shares, each rounded to a tenth, leave at most for anything else: 97.45 + 1.75 + 0.65.
const LEFT_OVER: f64 = 0.15;
/// Bins of the figures, and how far they reach, ns.
const BIN: i64 = 50_000;
const REACH: i64 = 8_000_000;

/// Foresees head times from what is known of the drive. The platter stands at the end of the last request's last
/// sector when that request is done, however many turns it took (FAST'02, section 3.3, "Resync after each request"),
/// so the model goes from sector to sector in a time of its own.
struct Forecast {
    model: Arc<DriveModel>,
    mechanics: Mechanics,
    /// Time of a sector on the bus.
    sector: Duration,
    /// When the head was done with the last request, and when the host heard of it.
    end: Instant,
    heard: Instant,
    /// Whether the head may have come to the request's sectors among them, or nearly so.
    among: bool,
}

impl Forecast {
    fn new(model: Arc<DriveModel>, sector: Duration) -> Self {
        let mechanics = Mechanics::new(Arc::clone(&model));
        Self { model, mechanics, sector, end: Instant::ZERO, heard: Instant::ZERO, among: false }
    }

    /// How long after the last request the host will hear of this one.
    fn head_time(&mut self, request: &Request) -> Duration {
        let before = self.heard;
        // Sectors of a read that cross the bus when the head is done with them.
        let mut left = 1;
        for piece in self.model.layout().pieces(request.range) {
            let track = self.model.layout().track(piece.track);
            let arrival = self.mechanics.seek_to(self.end, track.into(), request.op);
            let (first, len) = (piece.sector, piece.len);
            let around = self
                .mechanics
                .pass_in_any_order(arrival, track, first, len)
                .filter(|_| self.model.zero_latency(request.op));
            left = around.map_or(1, |around| first + len - around.first);
            let pass = around.unwrap_or_else(|| self.mechanics.pass(arrival, track, first, len));
            let plain = self.mechanics.pass(arrival, track, first, len);
            let (wait, over) =
                (plain.start(&*self.model).since(arrival), plain.end(&*self.model).since(arrival));
            let turn = self.model.rpm().revolution();
            self.among = self.model.zero_latency(request.op) && (wait < NEARLY || over + NEARLY > turn);
            self.end = pass.end(&*self.model);
        }
        let crossing = if request.op.is_write() { Duration::ZERO } else { self.sector * u64::from(left) };
        self.heard = self.end + crossing;
        self.heard.since(before)
    }

    /// The host heard of the request `error` ns later than foreseen. A head that comes among the sectors of a
    /// zero-latency drive ends where it began, not at the last sector: what the bus does not explain is believed then.
    fn resync(&mut self, error: i64, noise: Duration) {
        let turn = self.model.rpm().revolution().as_nanos() as i64;
        let error = (error + turn / 2).rem_euclid(turn) - turn / 2;
        if self.among && error.unsigned_abs() > noise.as_nanos() {
            for at in [&mut self.end, &mut self.heard] {
                *at = Instant::from_nanos(at.as_nanos().saturating_add_signed(error));
            }
        }
    }
}

/// Observed less predicted head time of each request, ns.
fn errors(
    name: &str,
    kilobytes: u64,
    noise: Duration,
    requests: u64,
    seed: u64,
) -> Result<Vec<i64>, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let model = drive(name)?;
    let capacity = model.layout().capacity();
    let size = Sectors::new(kilobytes * 1024 / model.sector_bytes().get().max(1));
    let load = RandomConfig { size, ..RandomConfig::new(capacity, model.sector_bytes()) };
    let load = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(10), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    let mut run = Direct::new(black_box(name, seed)?, 2, load);
    let sector = Behaviour::noisy().bus_sector.unwrap_or_default();
    let mut forecast = Forecast::new(model, sector);
    let mut errors = Vec::new();
    let mut last: Option<Instant> = None;
    let each = |done: Done| {
        let predicted = forecast.head_time(&done.request).as_nanos() as i64;
        if let Some(last) = last {
            let error = done.at.since(last).as_nanos() as i64 - predicted;
            forecast.resync(error, noise);
            errors.push(error);
        }
        last = Some(done.at);
    };
    run.advance(requests, each).map_err(|e| failed(e.into()))?;
    Ok(errors)
}

/// The longest transfer of a request.
fn transfer(name: &str, kilobytes: u64) -> Result<Duration, LabError> {
    let drive = drive(name)?;
    let tracks = (0..drive.layout().track_count()).map(TrackIndex::new);
    let fewest = tracks.map(|t| drive.layout().track(t).sectors).min().unwrap_or(1);
    let sectors = kilobytes * 1024 / drive.sector_bytes().get().max(1);
    Ok(drive.rpm().revolution() * sectors / u64::from(fewest))
}

fn near_of(kilobytes: u64) -> Duration {
    NEAR[usize::from(kilobytes != SIZES[0])]
}

/// The same of the core's own forecasts, as it schedules the load: percent within 50 us, and of commands whose time
/// neither that nor whole turns explain.
fn by_the_core(name: &str, requests: u64, seed: u64) -> Result<(f64, f64), LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let model = drive(name)?;
    let profile = builtin::find(name).map_err(|e| failed(e.into()))?;
    let (truth, overheads) =
        sim::black_box(&profile, Behaviour::noisy(), seed).map_err(|e| failed(e.into()))?;
    let load = RandomConfig::new(model.layout().capacity(), model.sector_bytes());
    let load = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(10), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    let place = Place::Outside(OutsideConfig::paper(overheads, Duration::ZERO));
    let config = Config { place, ..Config::default() };
    let mut run = Outside::new(truth, model, config, load, Background::None).map_err(|e| failed(e.into()))?;
    run.advance(requests, &mut Nothing).map_err(|e| failed(e.into()))?;
    let Some(record) = run.prediction_errors() else { return Ok((f64::NAN, f64::NAN)) };
    let percent = |part: u64| part as f64 / record.count().max(1) as f64 * 100.0;
    Ok((record.within(NEAR[0]) * 100.0, percent(record.unexplained())))
}

/// Percent of the errors within `reach` of `of`.
fn near(errors: &[i64], of: i64, reach: Duration) -> f64 {
    let near = errors.iter().filter(|e| (**e - of).unsigned_abs() <= reach.as_nanos()).count();
    near as f64 / errors.len().max(1) as f64 * 100.0
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let cases: Vec<_> = DRIVES.iter().flat_map(|d| SIZES.map(|size| (*d, size))).collect();
    let requests = lab.pick(10_000, 20_000);
    let runs = lab.map_seeds(cases.clone(), lab.pick(3, 10), |((_, name), size), seed| {
        errors(name, *size, near_of(*size), requests, seed)
    })?;
    let turn = |name| Ok::<i64, LabError>(drive(name)?.rpm().revolution().as_nanos() as i64);
    let mut small = Claim::new(
        "fast02-fig7a",
        "Atlas 10K, 4 KB: 97.5% within 50 us, 1.8% one rotation long, 0.7% one rotation short; Cheetah 18LP 99.3%",
    );
    let mut large = Claim::new("fast02-fig7b", "40 KB: 75% within 150 us");
    let mut rows = Vec::new();
    let mut turns = Vec::new();
    for (((title, name), size), runs) in cases.iter().zip(&runs) {
        let turn = turn(name)?;
        let reach = near_of(*size);
        let within = spread(runs, |e| near(e, 0, reach));
        // A zero-latency drive that comes among the sectors saves up to their transfer of the turn that it loses.
        let off = reach + transfer(name, *size)?;
        let long = spread(runs, |e| near(e, turn, off));
        let short = spread(runs, |e| near(e, -turn, off));
        let rest = spread(runs, |e| 100.0 - near(e, 0, reach) - near(e, turn, off) - near(e, -turn, off));
        let us = reach.as_nanos() / 1_000;
        rows.push(
            [title.to_string(), format!("{size} KB"), format!("{us} us")]
                .into_iter()
                .chain([within, long, short, rest].map(|share| share.to_string()))
                .collect(),
        );
        if *size == SIZES[0] {
            turns.push(format!("{title}: {long}% one rotation long, {short}% one rotation short."));
            let neither = format!("{title}: neither that nor one rotation off");
            small = small
                .measure(&format!("{title}: within 50 us"), within, "%", Band::AtLeast(97.0))
                .measure(&neither, rest, "%", Band::AtMost(LEFT_OVER));
        } else {
            large = large.measure(title, within, "%", Band::AtLeast(75.0));
        }
    }
    let own = lab.map_seeds(DRIVES, lab.pick(3, 10), |(_, name), seed| by_the_core(name, requests, seed))?;
    for ((title, _), own) in DRIVES.iter().zip(&own) {
        let within = spread(own, |(within, _)| *within);
        small = small.measure(
            &format!("{title}: the core's own forecasts within 50 us"),
            within,
            "%",
            Band::AtLeast(97.0),
        );
        turns.push(format!(
            "{title}: {}% of the core's own forecasts are neither near nor whole turns off.",
            spread(own, |(_, unexplained)| *unexplained)
        ));
    }
    small = small.note(format!(
        "{} Counted as one rotation off is what lies within a request's transfer and 50 us of it: a zero-latency drive \
         that comes among the sectors saves that much.",
        turns.join(" ")
    ));
    let figure = |id: &str, size: u64| Figure {
        id: id.into(),
        title: format!("Prediction error of head times, random {size} KB"),
        x: Axis::new("observed less predicted head time (ms)"),
        y: Axis::new("requests (%)"),
        kind: Kind::Lines(
            cases
                .iter()
                .zip(&runs)
                .filter(|(case, _)| case.1 == size)
                .map(|(case, runs)| line(case.0.0, runs))
                .collect(),
        ),
    };
    let columns = [
        "drive",
        "size",
        "within",
        "of the prediction (%)",
        "one rotation long (%)",
        "short (%)",
        "neither (%)",
    ];
    let table = Figure {
        id: "fast02-fig7-shares".into(),
        title: "How far off predictions are".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    };
    Ok(Outcome {
        figures: vec![figure("fast02-fig7a", SIZES[0]), figure("fast02-fig7b", SIZES[1]), table],
        claims: vec![small, large],
        notes: Vec::new(),
    })
}

/// The share of the errors in each bin, over all runs.
fn line(title: &str, runs: &[Vec<i64>]) -> Line {
    let mut bins = vec![0_u64; (2 * REACH / BIN) as usize + 1];
    let all: usize = runs.iter().map(Vec::len).sum();
    for error in runs.iter().flatten() {
        let bin = (error + REACH + BIN / 2).div_euclid(BIN);
        if let Some(count) = usize::try_from(bin).ok().and_then(|bin| bins.get_mut(bin)) {
            *count += 1;
        }
    }
    let points = bins.iter().enumerate().map(|(i, &count)| {
        let ms = (i as i64 * BIN - REACH) as f64 / 1e6;
        (ms, count as f64 / all.max(1) as f64 * 100.0)
    });
    Line::new(title, points)
}
