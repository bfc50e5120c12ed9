//! ATC'03, figure 5: the mean times, plotted by distance, form two toothed bands along the seek curve.

use crate::set_up::drive;
use crate::smtf::Probe;
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use model::{DriveModel, builtin};
use units::Op;

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig5",
    paper: Paper::Atc03,
    reproduces: "figure 5",
    title: "Mean time by inter-request distance",
    set_up: "Means of 100 probes of 1 KB, reads after reads, each after a move to a random place, on the base disk of Table 1. Windows of \
             four tracks, at 48 distances either way (12 when quick), more of them where the curve bends; and a close-up of every other \
             sector in sixteen tracks, by means of 1,000 as well.",
    claims: &["atc03-fig5"],
    timed: false,
    run,
};

const NAME: &str = "mimic-base";
const PROBES: u32 = 100;

/// The number of samples in a mean from which the straightness of the teeth's edges is measured: with 100 samples the
/// random error is as large as the quantity measured.
const EDGE_SAMPLES: u32 = 1_000;

/// The width of a window in tracks, and the number of distances probed in it.
const WINDOW_TRACKS: i64 = 4;
const WINDOW_PROBES: i64 = 96;

/// The longest distance of the figure's close-up in tracks, and the sectors from one of its distances to the next.
const CLOSE_TRACKS: i64 = 16;
const CLOSE_STEP_SECTORS: i64 = 2;

/// A group of distances that lie close together.
struct Window {
    distance: i64,
    /// The shortest and the longest mean time in the group, ms.
    low: f64,
    high: f64,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive(NAME)?;
    let sectors = Shape::of(&disk)?;
    let seed = lab.seed();
    let windows = lab.map(sectors.windows(lab.pick(12, 48)), |distance| {
        let mut probe = Probe::new(&disk, seed);
        let wide = WINDOW_TRACKS * sectors.track;
        let means = (0..WINDOW_PROBES)
            .map(|i| mean(&mut probe, distance + i * wide / WINDOW_PROBES - wide / 2, PROBES));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for ms in means {
            (low, high) = (low.min(ms), high.max(ms));
        }
        Ok(Window { distance, low, high })
    })?;
    let close: Vec<i64> = (1..CLOSE_TRACKS * sectors.track).step_by(CLOSE_STEP_SECTORS as usize).collect();
    let mut probe = Probe::new(&disk, seed);
    let mut by =
        |probes| close.iter().map(|d| (*d, mean(&mut probe, *d, probes))).collect::<Vec<(i64, f64)>>();
    let (close, many) = (by(PROBES), by(EDGE_SAMPLES));

    let revolution = disk.rpm().revolution().as_millis_f64();
    let widths: Vec<f64> = windows.iter().map(|w| (w.high - w.low) / revolution).collect();
    let (narrowest, widest) =
        widths.iter().fold((f64::INFINITY, 0.0f64), |(low, high), w| (low.min(*w), high.max(*w)));
    let mean_width = widths.iter().sum::<f64>() / widths.len() as f64;
    // The lower edge of the bands is the minimum of each window. Lines are fitted to it: against the root of the
    // distance up to the bend of the seek curve, and against the distance beyond the bend.
    let edge = |short: bool, of: fn(f64) -> f64| {
        let these = windows.iter().filter(|w| (w.distance.abs() < sectors.bend) == short);
        fit(&these.map(|w| (of(w.distance.abs() as f64), w.low)).collect::<Vec<_>>())
    };
    let tooth = tooth(&close, sectors.track) as f64;
    let over = |of: &[(i64, f64)], tracks: f64| line_error(of, (tracks * sectors.track as f64) as i64);
    let (within, across, with_chance) = (over(&many, 0.125), over(&many, 4.0), over(&close, 0.125));
    let claim = Claim::new(
        "atc03-fig5",
        "the means are two bands along the seek curve, one revolution wide everywhere, with teeth that have straight edges: lines are good \
         over short distances only",
    )
    .measure("width of the bands in revolutions, mean", mean_width, "", Band::Within(0.75, 1.25))
    .measure("widest by narrowest", widest / narrowest, "", Band::AtMost(1.5))
    .measure("lower edge against the root of short distances, R2", edge(true, f64::sqrt), "", Band::AtLeast(0.95))
    .measure("lower edge against long distances, R2", edge(false, |d| d), "", Band::AtLeast(0.95))
    .measure("length of a tooth by the sectors that pass in a revolution", tooth / sectors.revolution, "", Band::Within(0.95, 1.05))
    .measure("off a line over an eighth of a track, median", within, "%", Band::AtMost(1.0))
    .measure("off a line over four tracks, median", across, "%", Band::AtLeast(10.0))
    .note(format!(
        "Bands of {narrowest:.2} to {widest:.2} revolutions. A tooth is {tooth:.0} sectors long; a revolution passes {:.0}, a track of \
         {} less its part of the \
         skews. The bend is at {} sectors, 400 cylinders. Off lines: \
         by means of {EDGE_SAMPLES} probes; of {PROBES} it is {with_chance:.1}% over an eighth of a track, most of it the chance in the \
         means. Figure 5 of the paper has no numbers, so the claim is its text.",
        sectors.revolution, sectors.track, sectors.bend
    ));
    let edges = |label: &str, of: fn(&Window) -> f64| {
        Line::new(label, windows.iter().map(|w| (w.distance as f64 / 1e6, of(w))))
    };
    let figure = |id: &str, title: &str, x: &str, lines| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new(x),
        y: Axis::new("mean time (ms)"),
        kind: Kind::Lines(lines),
    };
    let lines = vec![edges("longest around", |w| w.high), edges("shortest around", |w| w.low)];
    let teeth = vec![Line::new("mean", close.iter().map(|(d, ms)| (*d as f64, *ms)))];
    Ok(Outcome {
        figures: vec![
            figure(EXPERIMENT.id, EXPERIMENT.title, "distance (millions of sectors)", lines),
            figure("atc03-fig5-close", "The same, close up", "distance (sectors)", teeth),
        ],
        claims: vec![claim],
        notes: Vec::new(),
    })
}

/// Returns the mean of the probes of a distance, ms.
fn mean(probe: &mut Probe, distance: i64, probes: u32) -> f64 {
    let times = (0..probes).map(|i| f64::from(probe.sample((distance, Op::Read, Op::Read), i).2));
    times.sum::<f64>() / f64::from(probes) / 1e6
}

/// The dimensions of a disk with one zone, in sectors.
struct Shape {
    track: i64,
    /// The sectors that pass the head in one revolution, skews included.
    revolution: f64,
    /// The distance at which the seek curve bends.
    bend: i64,
    capacity: i64,
}

impl Shape {
    fn of(disk: &DriveModel) -> Result<Self, LabError> {
        let failed = |what: &str| LabError::new(format!("drive {NAME}"), what.to_owned());
        let profile = builtin::find(NAME).map_err(|e| LabError::new(format!("drive {NAME}"), e))?;
        let zone = profile.layout.zones.first().ok_or_else(|| failed("it has no zone"))?;
        let first = disk.layout().track(units::TrackIndex::new(0));
        let (track, heads) = (i64::from(first.sectors), f64::from(profile.heads));
        let revolutions = |of: &model::profile::Revolutions| of.angle().map(units::Angle::as_revolutions);
        let skews = revolutions(&zone.track_skew).zip(revolutions(&zone.cylinder_skew));
        let (own, cylinder) = skews.ok_or_else(|| failed("its skews are not known"))?;
        // The skew between tracks, on average: all tracks of a cylinder but the last are followed by a head switch,
        // the last by a move to the next cylinder.
        let skew = (own * (heads - 1.0) + cylinder) / heads;
        Ok(Self {
            track,
            revolution: track as f64 / (1.0 + skew),
            bend: 400 * track * i64::from(profile.heads),
            capacity: disk.layout().capacity().get() as i64,
        })
    }

    /// Returns `count` distances in each direction; the shorter half of them grow as squares.
    fn windows(&self, count: i64) -> Vec<i64> {
        let longest = self.capacity * 9 / 10;
        let least = WINDOW_TRACKS * self.track;
        let near = (1..=count / 2).map(|i| least + (self.bend - least) * i * i / (count / 2 * (count / 2)));
        let far = (1..=count / 2).map(|i| self.bend + (longest - self.bend) * i / (count / 2));
        let forward: Vec<i64> = near.chain(far).collect();
        forward.iter().rev().map(|d| -d).chain(forward.iter().copied()).collect()
    }
}

/// Returns the share of the variance of `y` that a line explains.
fn fit(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let both = mean(&|p| (p.0 - x) * (p.1 - y));
    both * both / (mean(&|p| (p.0 - x).powi(2)) * mean(&|p| (p.1 - y).powi(2)))
}

/// Returns the length of a tooth: the period of the times, in sectors, with the highest autocorrelation, between half
/// a track and one and a half tracks.
fn tooth(close: &[(i64, f64)], track: i64) -> i64 {
    let mean = close.iter().map(|(_, ms)| ms).sum::<f64>() / close.len() as f64;
    let like = |steps: usize| {
        let pairs = close.iter().zip(close.iter().skip(steps));
        let count = close.len().saturating_sub(steps).max(1) as f64;
        pairs.map(|((_, a), (_, b))| (a - mean) * (b - mean)).sum::<f64>() / count
    };
    let lags = track / 2 / CLOSE_STEP_SECTORS..=track * 3 / 2 / CLOSE_STEP_SECTORS;
    lags.max_by(|a, b| like(*a as usize).total_cmp(&like(*b as usize))).unwrap_or(0) * CLOSE_STEP_SECTORS
}

/// Returns how far the time at the midpoint of two distances, `apart` sectors from each other, is off the line
/// between the times at these two: the median, in percent.
fn line_error(close: &[(i64, f64)], apart: i64) -> f64 {
    let half = (apart / 2 / CLOSE_STEP_SECTORS) as usize;
    let ends = close.iter().zip(close.iter().skip(2 * half));
    let mut off: Vec<f64> = ends
        .zip(close.iter().skip(half))
        .map(|(((_, left), (_, right)), (_, ms))| ((left + right) / 2.0 / ms - 1.0).abs() * 100.0)
        .collect();
    off.sort_by(f64::total_cmp);
    off.get(off.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(length: i64) -> Vec<(i64, f64)> {
        (1..3_000)
            .step_by(CLOSE_STEP_SECTORS as usize)
            .map(|d| (d, 2.0 + (d % length) as f64 / length as f64))
            .collect()
    }

    #[test]
    fn teeth_are_found_and_lines_fit_within_them() {
        assert_eq!(tooth(&saw(240), 272), 240);
        let (within, across) = (line_error(&saw(240), 30), line_error(&saw(240), 700));
        assert!(within < 0.01 && across > 5.0, "{within} {across}");
    }

    #[test]
    fn a_line_explains_a_line_and_nothing_else() {
        assert!((fit(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) - 1.0).abs() < 1e-9);
        assert!(fit(&[(-1.0, 1.0), (0.0, 0.0), (1.0, 1.0)]) < 1e-9);
    }
}
