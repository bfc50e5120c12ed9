//! FAST'02, figure 7: the accuracy of head times predicted from outside a drive.

use crate::knowledge::{self, Knowledge, KnownDrive};
use crate::outside::{ACCURATE_ERROR_MAX, predicted};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Spread, spread,
};
use ::drive::{Behaviour, Mechanics};
use model::DriveModel;
use scheduler::ErrorRecord;
use sim::{Direct, Done};
use std::sync::Arc;
use units::{Duration, Instant, Sectors, TrackIndex};
use workload::{Arrival, Issuer, Random, RandomConfig, Request};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig7",
    paper: Paper::Fast02,
    reproduces: "figure 7, (a) and (b), and section 5.2",
    title: "Errors of head times predicted from outside",
    set_up: "Random requests of 4 KB and of 40 KB, two reads to a write, first come first served, two at a time at \
             the drive with its default noise; Atlas 10K and Cheetah 18LP (synthetic), each by its true profile and by \
             those that a probe finds over the same black box (quick: without its noise), which reads only or may \
             write. A prediction is what the profile says of seek, latency and transfer from the end of the request \
             before; for 4 KB the forecasts of the core outside the drive are measured as well, which corrects by \
             completions what was probed.",
    claims: &["fast02-fig7a", "fast02-fig7b", "fast02-fig7-probed"],
    timed: false,
    run,
};

/// The sizes of requests, in kilobytes.
const SIZES_KB: [u64; 2] = [4, 40];
/// The error at which a prediction counts as accurate, for each size.
const ACCURATE_ERRORS_MAX: [Duration; 2] = [ACCURATE_ERROR_MAX, Duration::from_micros(150)];
/// The largest error of a predicted arrival: if the head is predicted this near to either end of a request's sectors,
/// it may arrive on the other side of that end.
const BOUNDARY_ERROR_MAX: Duration = Duration::from_micros(100);
/// The largest percentage that the paper's three shares leave for other errors: each share is rounded to a tenth, and
/// the least that they may be is 97.45 + 1.75 + 0.65.
const OTHER_ERRORS_PERCENT_MAX: f64 = 0.15;
/// The width of the figures' bins, and the largest error that has a bin, ns.
const BIN_NS: i64 = 50_000;
const BINS_END_NS: i64 = 8_000_000;

/// A predictor of head times from the knowledge of a drive. When a request is done, the platter is at the end of its
/// last sector, after any number of revolutions (FAST'02, section 3.3, "Resync after each request"), so the model moves
/// from sector to sector in a time of its own.
struct Forecast {
    model: Arc<DriveModel>,
    mechanics: Mechanics,
    /// The time of a sector on the bus.
    sector: Duration,
    /// When the head finished the last request, and when the host received that request's completion.
    end: Instant,
    heard: Instant,
    /// Whether the head may have arrived among the request's sectors, or nearly so.
    among: bool,
}

impl Forecast {
    fn new(model: Arc<DriveModel>, sector: Duration) -> Self {
        let mechanics = Mechanics::new(Arc::clone(&model));
        Self { model, mechanics, sector, end: Instant::ZERO, heard: Instant::ZERO, among: false }
    }

    /// Returns the predicted time from the last completion to that of `request`.
    fn head_time(&mut self, request: &Request) -> Duration {
        let before = self.heard;
        // Sectors of a read that cross the bus only after the head has finished.
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
            let revolution = self.model.rpm().revolution();
            self.among = self.model.zero_latency(request.op)
                && (wait < BOUNDARY_ERROR_MAX || over + BOUNDARY_ERROR_MAX > revolution);
            self.end = pass.end(&*self.model);
        }
        let crossing = if request.op.is_write() { Duration::ZERO } else { self.sector * u64::from(left) };
        self.heard = self.end + crossing;
        self.heard.since(before)
    }

    /// Corrects the model: the completion was `error` ns later than predicted. If a zero-latency drive's head arrives
    /// among the request's sectors, it ends where it began, not at the last sector, so in that case an error beyond
    /// the bus's noise is taken for the head's.
    fn resync(&mut self, error: i64, noise: Duration) {
        let revolution = self.model.rpm().revolution().as_nanos() as i64;
        let error = (error + revolution / 2).rem_euclid(revolution) - revolution / 2;
        if self.among && error.unsigned_abs() > noise.as_nanos() {
            for at in [&mut self.end, &mut self.heard] {
                *at = Instant::from_nanos(at.as_nanos().saturating_add_signed(error));
            }
        }
    }
}

/// Returns the observed less the predicted head time of each request, ns.
fn errors(known_drive: &KnownDrive, kilobytes: u64, requests: u64, seed: u64) -> Result<Vec<i64>, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let model = &known_drive.truth;
    let size = Sectors::new(kilobytes * 1024 / model.sector_bytes().get().max(1));
    let load = RandomConfig { size, ..RandomConfig::new(model.layout().capacity(), model.sector_bytes()) };
    let load = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(10), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    let (drive, overheads) = known_drive.black_box(Behaviour::fast02(), seed)?;
    let mut run = Direct::new(drive, 2, load);
    let mut forecast = Forecast::new(Arc::clone(&known_drive.known), overheads.bus_sector);
    let noise = near_of(kilobytes);
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

/// Returns the longest transfer of a request.
fn transfer(drive: &DriveModel, kilobytes: u64) -> Duration {
    let tracks = (0..drive.layout().track_count()).map(TrackIndex::new);
    let fewest = tracks.map(|t| drive.layout().track(t).sectors).min().unwrap_or(1);
    let sectors = kilobytes * 1024 / drive.sector_bytes().get().max(1);
    drive.rpm().revolution() * sectors / u64::from(fewest)
}

fn near_of(kilobytes: u64) -> Duration {
    ACCURATE_ERRORS_MAX[usize::from(kilobytes != SIZES_KB[0])]
}

/// Returns the percentage of the errors that are within `reach` of the error `of`.
fn near(errors: &[i64], of: i64, reach: Duration) -> f64 {
    let near = errors.iter().filter(|e| (**e - of).unsigned_abs() <= reach.as_nanos()).count();
    near as f64 / errors.len().max(1) as f64 * 100.0
}

/// The errors of predictions from the profile alone: accurate, a revolution too long, a revolution too short, other, in
/// percent.
struct Shares {
    within: Spread,
    long: Spread,
    short: Spread,
    neither: Spread,
}

impl Shares {
    fn of(known_drive: &KnownDrive, kilobytes: u64, runs: &[Vec<i64>]) -> Self {
        let revolution = known_drive.truth.rpm().revolution().as_nanos() as i64;
        let reach = near_of(kilobytes);
        // If a zero-latency drive's head arrives among the request's sectors, it loses less than a revolution, by up
        // to the transfer time of these sectors.
        let off = reach + transfer(&known_drive.truth, kilobytes);
        let (near_0, long, short) = (
            |e: &Vec<i64>| near(e, 0, reach),
            |e: &Vec<i64>| near(e, revolution, off),
            |e: &Vec<i64>| near(e, -revolution, off),
        );
        Self {
            within: spread(runs, near_0),
            long: spread(runs, long),
            short: spread(runs, short),
            neither: spread(runs, |e| 100.0 - near_0(e) - long(e) - short(e)),
        }
    }
}

/// The errors of predictions for a drive with one kind of knowledge: from the profile alone, for each size of
/// requests, and of the core's own forecasts.
struct DriveErrors<'t> {
    known_drive: &'t KnownDrive,
    alone: Vec<&'t [Vec<i64>]>,
    own: &'t [ErrorRecord],
}

impl DriveErrors<'_> {
    /// Returns the count `of` of the core's own predictions, in percent of all of them.
    fn own(&self, of: impl Fn(&ErrorRecord) -> u64) -> Spread {
        spread(self.own, |record| of(record) as f64 / record.count().max(1) as f64 * 100.0)
    }

    fn own_within(&self) -> Spread {
        spread(self.own, |record| record.within(ACCURATE_ERROR_MAX) * 100.0)
    }
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let known_drives = knowledge::all(lab, &Knowledge::ALL)?;
    let requests = lab.pick(10_000, 20_000);
    let seeds = lab.pick(3, 10);
    let pairs: Vec<(&KnownDrive, u64)> =
        known_drives.iter().flat_map(|known_drive| SIZES_KB.map(|size| (known_drive, size))).collect();
    let alone =
        lab.map_seeds(pairs, seeds, |(known_drive, size), seed| errors(known_drive, *size, requests, seed))?;
    let own =
        lab.map_seeds(&known_drives, seeds, |known_drive, seed| predicted(known_drive, requests, seed))?;
    let cases: Vec<DriveErrors<'_>> = known_drives
        .iter()
        .zip(alone.chunks(SIZES_KB.len()).zip(&own))
        .map(|(known_drive, (alone, own))| DriveErrors {
            known_drive,
            alone: alone.iter().map(Vec::as_slice).collect(),
            own,
        })
        .collect();
    let lines = |of: &dyn Fn(&DriveErrors<'_>) -> Line| Kind::Distributions(cases.iter().map(of).collect());
    let figure = |id: &str, title: String, kind| Figure {
        id: id.into(),
        title,
        x: Axis::new("observed less predicted head time (ms)"),
        y: Axis::between("requests (%), each row 0.01 to 100 (log)", 0.01, 100.0),
        kind,
    };
    let by_profile = |id: &str, at: usize| {
        let title = format!("Prediction error of head times, random {} KB", SIZES_KB[at]);
        figure(id, title, lines(&|case| line(&case.known_drive.label(), case.alone[at])))
    };
    let core = "Prediction error of the core's own forecasts, random 4 KB".to_owned();
    Ok(Outcome {
        figures: vec![
            by_profile("fast02-fig7a", 0),
            by_profile("fast02-fig7b", 1),
            figure(
                "fast02-fig7-core",
                core,
                lines(&|case| distribution(&case.known_drive.label(), case.own)),
            ),
            shares(&cases),
        ],
        claims: claims(&cases),
        notes: Vec::new(),
    })
}

fn shares(cases: &[DriveErrors<'_>]) -> Figure {
    let mut rows = Vec::new();
    for case in cases {
        let mut row = |how: String, us: u64, shares: [Spread; 4]| {
            let cells = [case.known_drive.label(), how, format!("{us} us")].into_iter();
            rows.push(cells.chain(shares.map(|share| share.to_string())).collect());
        };
        for (size, runs) in SIZES_KB.iter().zip(&case.alone) {
            let Shares { within, long, short, neither } = Shares::of(case.known_drive, *size, runs);
            let us = near_of(*size).as_nanos() / 1_000;
            row(format!("{size} KB"), us, [within, long, short, neither]);
        }
        row(
            format!("{} KB, by the core", SIZES_KB[0]),
            ACCURATE_ERROR_MAX.as_nanos() / 1_000,
            [
                case.own_within(),
                case.own(ErrorRecord::late),
                case.own(ErrorRecord::early),
                case.own(ErrorRecord::unexplained),
            ],
        );
    }
    let columns = [
        "drive",
        "size",
        "within",
        "within that of the prediction (%)",
        "one rotation long (%)",
        "short (%)",
        "neither (%)",
    ];
    Figure {
        id: "fast02-fig7-shares".into(),
        title: "How far off predictions are".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    }
}

fn claims(cases: &[DriveErrors<'_>]) -> Vec<Claim> {
    let mut small = Claim::new(
        "fast02-fig7a",
        "Atlas 10K, 4 KB: 97.5% within 50 us, 1.8% one rotation long, 0.7% one rotation short; Cheetah 18LP 99.3%",
    );
    let mut large = Claim::new("fast02-fig7b", "40 KB: 75% within 150 us");
    let mut probed = Claim::new(
        "fast02-fig7-probed",
        "no claim of the paper, whose profiles were all measured: the core has to predict as well with a probed one",
    );
    let (mut revolutions, mut own, mut as_it_is) = (Vec::new(), Vec::new(), Vec::new());
    let by_truth: Vec<&DriveErrors<'_>> =
        cases.iter().filter(|c| c.known_drive.knowledge == Knowledge::True).collect();
    for case in &by_truth {
        let title = case.known_drive.drive;
        for (size, runs) in SIZES_KB.iter().zip(&case.alone) {
            let Shares { within, long, short, neither } = Shares::of(case.known_drive, *size, runs);
            if *size == SIZES_KB[0] {
                revolutions.push(format!("{title}: {long}% one rotation long, {short}% one rotation short."));
                let what = format!("{title}: neither that nor one rotation off");
                small = small
                    .measure(&format!("{title}: within 50 us"), within, "%", Band::AtLeast(97.0))
                    .measure(&what, neither, "%", Band::AtMost(OTHER_ERRORS_PERCENT_MAX));
            } else {
                large = large.measure(title, within, "%", Band::AtLeast(75.0));
            }
        }
    }
    for case in &by_truth {
        let title = case.known_drive.drive;
        let what = format!("{title}: the core's own forecasts within 50 us");
        small = small.measure(&what, case.own_within(), "%", Band::AtLeast(97.0));
        own.push(format!(
            "{title}: {}% of the core's own forecasts are neither near nor whole revolutions off.",
            case.own(ErrorRecord::unexplained)
        ));
    }
    small = small.note(format!(
        "{} {} Counted as one rotation off is what lies within a request's transfer and 50 us of it: a zero-latency drive \
         that comes among the sectors saves that much.",
        revolutions.join(" "),
        own.join(" "),
    ));
    for case in cases.iter().filter(|c| c.known_drive.knowledge != Knowledge::True) {
        let label = case.known_drive.label();
        if case.known_drive.knowledge == Knowledge::AsItIs {
            as_it_is.push(format!("{label} {}%", case.own_within()));
            continue;
        }
        let what = format!("{label}: the core's own forecasts within 50 us");
        probed = probed.measure(&what, case.own_within(), "%", Band::AtLeast(97.0));
        as_it_is.push(format!(
            "{label} {}% one rotation long and {}% short",
            case.own(ErrorRecord::late),
            case.own(ErrorRecord::early)
        ));
    }
    probed = probed.note(format!(
        "{} Of the core's own forecasts: {}.",
        knowledge::differences(cases.iter().map(|case| case.known_drive)),
        as_it_is.join("; ")
    ));
    vec![small, large, probed]
}

/// Returns the distribution of the errors of the core's own predictions, over all runs.
fn distribution(title: &str, runs: &[ErrorRecord]) -> Line {
    let errors = runs.iter().flat_map(ErrorRecord::distribution);
    binned(title, errors.map(|(us, count)| (us * 1_000, u64::from(count))))
}

/// Returns the share of the errors in each bin, over all runs.
fn line(title: &str, runs: &[Vec<i64>]) -> Line {
    binned(title, runs.iter().flatten().map(|&ns| (ns, 1)))
}

/// Makes a curve from errors in nanoseconds with their counts.
fn binned(title: &str, errors: impl Iterator<Item = (i64, u64)>) -> Line {
    let mut bins = vec![0_u64; (2 * BINS_END_NS / BIN_NS) as usize + 1];
    let mut all = 0;
    for (error, times) in errors {
        all += times;
        let bin = (error + BINS_END_NS + BIN_NS / 2).div_euclid(BIN_NS);
        if let Some(count) = usize::try_from(bin).ok().and_then(|bin| bins.get_mut(bin)) {
            *count += times;
        }
    }
    let points = bins.iter().enumerate().map(|(i, &count)| {
        let ms = (i as i64 * BIN_NS - BINS_END_NS) as f64 / 1e6;
        (ms, count as f64 / all.max(1) as f64 * 100.0)
    });
    Line::new(title, points)
}
