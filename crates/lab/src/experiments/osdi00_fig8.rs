//! OSDI'00, figure 8: the free bandwidth of data mining on a drive busy with transactions, and that it costs nothing.

use crate::scan::{Compared, MediaRate, Potential, Scan, ScanSetUp};
use crate::set_up::{ATLAS_10K, drive, head_bar, head_figure};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread,
    spread,
};
use model::DriveModel;
use scheduler::{Config, SearchBudget};
use std::sync::Arc;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig8",
    paper: Paper::Osdi00,
    reproduces: "figure 8",
    title: "Freeblock-based data mining on a transaction system",
    set_up: "Atlas 10K; OLTP of 1 to 20 tasks (think time 30 ms, multiples of 4 KB, exponential, mean 8 KB, two reads a \
             write), first come first served. Scans of the whole disk in blocks of 4 KB, one after the other (full: five, \
             quick: one), and the same foreground without them.",
    claims: &["osdi00-fig8a", "osdi00-fig8b", "osdi00-fig8c"],
    timed: false,
    run,
};

/// The multiprogramming level (MPL) of the claims, at which the disk is busy all the time.
const HIGH_MPL: u32 = 10;

/// The name of a curve, and the function that returns its value from the runs at one MPL.
type Curve<'a> = (&'a str, &'a dyn Fn(&Compared) -> Spread);

/// Limits on the tracks of a search; `None` for no limit.
const BUDGETS: [Option<u32>; 7] = [Some(10), Some(25), Some(50), Some(100), Some(200), Some(500), None];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let mpls: Vec<u32> = lab.pick(vec![1, 4, HIGH_MPL], vec![1, 2, 3, 4, 5, 6, 7, HIGH_MPL, 15, 20]);
    let tried: Vec<Option<u32>> = lab.pick(vec![None], BUDGETS.to_vec());
    let (runs, searched) = both(lab, &drive, &mpls, &tried)?;
    let high = mpls.iter().position(|mpl| *mpl == HIGH_MPL).unwrap_or_default();
    let x = "multiprogramming level (MPL) of the OLTP load";
    let usage = |id: &str, title: &str, of: fn(&Compared) -> &sim::Report| {
        let bars = mpls.iter().zip(&runs).map(|(mpl, r)| head_bar(mpl.to_string(), &of(r).head_time));
        head_figure(id, title, x, bars.collect())
    };
    let rate = |id: &str, title: &str, y: &str, lines: &[Curve<'_>]| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new(x),
        y: Axis::new(y),
        kind: Kind::Lines(lines.iter().map(|(label, of)| line(label, &mpls, &runs, of)).collect()),
    };
    let media = MediaRate::of(&drive);
    let potential = |r: &Compared| spread(&r.scans, |s| s.potential_mb_per_s(&media));
    let mut figures = vec![
        usage("osdi00-fig8a", "Disk head usage of the foreground alone", |r| &r.without),
        rate(
            "osdi00-fig8b",
            "Free bandwidth delivered to data mining",
            "MB/s",
            &[("potential", &potential), ("achieved", &|r| spread(&r.scans, Scan::mb_per_s))],
        ),
        rate(
            "osdi00-fig8b-scans",
            "Full scans of the disk a day",
            "scans a day",
            &[("achieved", &|r| spread(&r.scans, Scan::per_day))],
        ),
        usage("osdi00-fig8c", "Disk head usage with data mining", |r| &r.with),
        potentials(&mpls, &runs, x),
    ];
    let mut notes = vec![format!(
        "MB are millions of bytes. Potential free bandwidth is the media rate, {:.1} MB/s on the average over the disk, \
         times the share of the time that is rotational latency of the foreground. Once the disk is busy all the time, \
         more tasks only make the queue longer: first come, first served, they get the same requests in the same order, \
         and the scan the same gaps.",
        media.bytes_per_s / 1e6
    )];
    let (figure, note) = budgets(&tried, &searched, &runs[high].scans);
    figures.push(figure);
    notes.push(note);
    Ok(Outcome { figures, claims: claims(&runs, &runs[high]), notes })
}

fn claims(runs: &[Compared], high: &Compared) -> Vec<Claim> {
    let compared: u64 = runs.iter().map(|r| r.requests).sum();
    let different: u64 = runs.iter().map(|r| r.different).sum();
    let share = |of: fn(&Potential) -> f64| spread(&high.scans, |s| of(&s.potential()));
    vec![
        Claim::new("osdi00-fig8a", "foreground performance untouched")
            .measure("completion times that differ", different as f64, "", Band::AtMost(0.0))
            .measure("compared", compared as f64, "", Band::AtLeast(1.0))
            .note(
                "Every foreground request of every MPL with scans and without, in step: the same request, arrived and \
                 done at the same nanosecond.",
            ),
        Claim::new("osdi00-fig8b", "at high MPL 4.9 MB/s, > 47 scans a day")
            .measure("MPL 10", spread(&high.scans, Scan::mb_per_s), " MB/s", Band::Within(4.7, 5.5))
            .measure("MPL 10", spread(&high.scans, Scan::per_day), " scans a day", Band::Within(45.0, 53.0)),
        Claim::new("osdi00-fig8c", "half of the potential used; 18% lost to extra seeks, 28% left as latency")
            .measure("used", share(|p| p.used), "%", Band::Within(50.0, 60.0))
            .measure("extra seeks", share(|p| p.extra_seek), "%", Band::Within(12.0, 20.0))
            .note(format!("At MPL 10; {}% is left as latency.", share(|p| p.unused))),
    ]
}

fn line(label: &str, mpls: &[u32], runs: &[Compared], of: &dyn Fn(&Compared) -> Spread) -> Line {
    let points = mpls.iter().zip(runs).map(|(mpl, run)| point(f64::from(*mpl), of(run)));
    Line { label: label.into(), points: points.collect() }
}

fn point(x: f64, y: Spread) -> Point {
    Point { x, y: y.mean, spread: Some((y.min, y.max)) }
}

fn potentials(mpls: &[u32], runs: &[Compared], x: &str) -> Figure {
    let bars = mpls.iter().zip(runs).map(|(mpl, run)| {
        let of = |part: fn(&Potential) -> f64| spread(&run.scans, |s| part(&s.potential())).mean;
        Bar { label: mpl.to_string(), values: vec![of(|p| p.used), of(|p| p.extra_seek), of(|p| p.unused)] }
    });
    Figure {
        id: "osdi00-fig8c-potential".into(),
        title: "Use of the potential free bandwidth".into(),
        x: Axis::new(x),
        y: Axis::between("share of the foreground's latency (%)", 0.0, 100.0),
        kind: Kind::Stacked {
            parts: ["free transfer", "extra seek", "unused latency"].map(String::from).to_vec(),
            bars: bars.collect(),
        },
    }
}

/// A job that runs on one thread.
#[derive(Clone, Copy)]
enum ScanJob {
    /// Scans, and in step with them the same foreground without scans, at this MPL and from this seed.
    Compared(u32, u64),
    /// Scans with this limit on the tracks of a search.
    Searched(Option<u32>),
}

enum JobResult {
    Compared(Box<Compared>),
    Searched(Vec<Scan>),
}

/// Runs all long jobs, the longest first, so that no processor core idles while another works at the last job.
fn both(
    lab: &Lab,
    drive: &Arc<DriveModel>,
    mpls: &[u32],
    tried: &[Option<u32>],
) -> Result<(Vec<Compared>, Vec<Vec<Scan>>), LabError> {
    let searched = tried.iter().rev().map(|tracks| ScanJob::Searched(*tracks));
    let seeds = lab.pick(1, 3);
    let compared = mpls.iter().flat_map(|mpl| lab.seeds(seeds).map(|seed| ScanJob::Compared(*mpl, seed)));
    let jobs = searched.chain(compared);
    let done = lab.map(jobs, |job| match job {
        ScanJob::Compared(mpl, seed) => ScanSetUp::new(drive, mpl, seed)
            .compared(lab.pick(1, 2))
            .map(|c| JobResult::Compared(Box::new(c))),
        ScanJob::Searched(tracks) => {
            let mut set_up = ScanSetUp::new(drive, HIGH_MPL, lab.seed());
            let budget = tracks.map_or(SearchBudget::UNLIMITED, SearchBudget::tracks);
            set_up.scheduler = Config::default().with_budget(budget);
            set_up.scans(100, lab.pick(1, 3)).map(JobResult::Searched)
        }
    })?;
    let (mut compared, mut searched): (Vec<Compared>, Vec<_>) = (Vec::new(), Vec::new());
    let mut seed = 0;
    for done in done {
        match done {
            // The head's usage is drawn for the first seed only; values are measured over all seeds.
            JobResult::Compared(runs) => match compared.last_mut().filter(|_| seed % seeds > 0) {
                None => compared.push(*runs),
                Some(before) => {
                    before.scans.extend(runs.scans);
                    before.requests += runs.requests;
                    before.different += runs.different;
                }
            },
            JobResult::Searched(scans) => {
                searched.insert(0, scans);
                continue;
            }
        }
        seed += 1;
    }
    Ok((compared, searched))
}

/// Shows how scans depend on the limit on tracks.
fn budgets(tried: &[Option<u32>], runs: &[Vec<Scan>], default: &[Scan]) -> (Figure, String) {
    let row = |label: String, scans: &[Scan]| {
        let of = |of: &dyn Fn(&Scan) -> f64| spread(scans, of).to_string();
        vec![
            label,
            of(&Scan::mb_per_s),
            of(&Scan::per_day),
            of(&|s| s.potential().used),
            of(&|s| s.potential().extra_seek),
            of(&|s| s.potential().unused),
        ]
    };
    let label = |tracks: &Option<u32>| tracks.map_or("no limit".into(), |t| t.to_string());
    let mut rows = vec![row("default".into(), default)];
    rows.extend(tried.iter().zip(runs).map(|(tracks, scans)| row(label(tracks), scans)));
    let columns = ["tracks a gap", "MB/s", "scans a day", "used %", "extra seeks %", "unused %"];
    let mut note =
        "The planner stops after a number of tracks a gap (by default 75, beside those of the source and \
                    destination cylinder), so that a decision takes microseconds."
            .to_owned();
    if let Some(unlimited) = runs.last() {
        note.push_str(&format!(
            " A search without end gets {} scans a day instead of {}.",
            spread(unlimited, Scan::per_day),
            spread(default, Scan::per_day)
        ));
    }
    let figure = Figure {
        id: "osdi00-fig8-budget".into(),
        title: "Gain by a longer search, at MPL 10".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    };
    (figure, note)
}
