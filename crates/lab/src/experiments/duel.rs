//! The duel: our core outside a modern drive, against the drive's own queue, against our core in the drive, and
//! against common alternatives.

use crate::duel::paired::{Responses, Slower, mean_slower, p99_slower};
use crate::duel::{Contest, Contestant, PassingMb, Result as Served};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread,
};
use drive::Behaviour;
use sim::{Rival, When};
use units::{Duration, Sectors};

pub const EXPERIMENT: Experiment = Experiment {
    id: "duel",
    paper: Paper::Ours,
    reproduces: "nothing of the papers: what an operator has today",
    title: "Ours outside a drive of today against the disk without us, the drive itself, and rivals",
    set_up: "Synthetic drives of 20 TB and 4 TB under the preset `modern`; random requests of 4 KiB, two reads for each write, \
             Poisson arrivals of 5, 20, 50 and 80 a second; SPTF; a scan of the whole disk with idle time. Every contestant \
             serves the same requests: the drive's own queue alone, ours as `freeblock serve` has it (pass-through and streams) \
             without and with a scan (bounds of 1 to 100%), the core in the drive, and rivals that read \
             sequentially straight from the drive (quick: one seed, 3,000 requests; full: seeds 42 to 44, 12,000 requests each).",
    claims: &["duel-alone", "duel-harm", "duel-yield", "duel-rivals"],
    timed: false,
    run,
};

const DRIVES: [&str; 2] = ["nearline-20tb", "nearline-4tb"];

/// The arrival rates of the loads; every drive gets each.
const REQUESTS_PER_SECOND: [f64; 4] = [5.0, 20.0, 50.0, 80.0];

/// The bound on harm that the claims are about, in millionths.
const BOUND_PPM: u32 = 10_000;

/// The bounds on harm of our Pareto curve, in millionths, ascending; the claims are about the first.
const BOUNDS_PPM: [u32; 5] = [BOUND_PPM, 30_000, 100_000, 300_000, 1_000_000];

/// The shares of each second in which the paced rival reads, in millionths, ascending.
const SHARES_PPM: [u32; 5] = [30_000, 100_000, 200_000, 400_000, 700_000];

/// Sectors of 512 bytes in the rivals' reads.
const SMALL_READ_SECTORS: Sectors = Sectors::new(128);
const LARGE_READ_SECTORS: Sectors = Sectors::new(2_048);

/// The largest ratio of bandwidths that is shown; a larger one, such as that to a bandwidth of zero, is shown as
/// this.
const RATIO_MAX: f64 = 1_000.0;

/// The harm in percent at which a figure ends. A contestant with more harm stands at the edge with its harm in its
/// name: on an axis up to a rival's 2,000% all other contestants would lie on each other.
const HARM_DRAWN_PERCENT_MAX: f64 = 150.0;

/// The least bandwidth that the claim requires, in percent of that of the core in the drive.
const YIELD_PERCENT_MIN: f64 = 60.0;

/// Returns the most harm that the claim permits at a rate, in percent.
fn harm_percent_max(rate: f64) -> f64 {
    if rate < 80.0 { 1.0 } else { 2.0 }
}

/// Returns the least bandwidth that the claim requires at a rate, in multiples of the paced rival's at equal harm.
fn times_paced_min(rate: f64) -> f64 {
    match rate {
        r if r < 20.0 => 2.0,
        r if r < 50.0 => 3.0,
        _ => 5.0,
    }
}

const fn idle(read: Sectors, after_ms: u64) -> Rival {
    Rival { read, when: When::idle(Duration::from_millis(after_ms)) }
}

const fn paced(share_ppm: u32) -> Rival {
    Rival { read: SMALL_READ_SECTORS, when: When::Idle { after: Duration::ZERO, share_ppm } }
}

/// Rivals that are not paced, with their names.
const RIVALS: [(&str, Rival); 7] = [
    ("always, 1 MiB", Rival { read: LARGE_READ_SECTORS, when: When::Always }),
    ("idle, 64 KiB after 0 ms", idle(SMALL_READ_SECTORS, 0)),
    ("idle, 64 KiB after 5 ms", idle(SMALL_READ_SECTORS, 5)),
    ("idle, 64 KiB after 20 ms", idle(SMALL_READ_SECTORS, 20)),
    ("idle, 1 MiB after 0 ms", idle(LARGE_READ_SECTORS, 0)),
    ("idle, 1 MiB after 5 ms", idle(LARGE_READ_SECTORS, 5)),
    ("idle, 1 MiB after 20 ms", idle(LARGE_READ_SECTORS, 20)),
];

/// Returns all contestants, in the order in which [`Panel::of`] splits their runs.
fn contestants() -> Vec<Contestant> {
    let mut all = vec![Contestant::Alone, Contestant::InDrive, Contestant::Assisted];
    all.extend(BOUNDS_PPM.map(Contestant::Scan));
    all.extend(SHARES_PPM.map(|share| Contestant::Rival(paced(share))));
    all.extend(RIVALS.map(|(_, rival)| Contestant::Rival(rival)));
    all
}

/// One contestant's runs over all seeds, compared with the drive alone.
#[derive(Clone, Debug)]
struct ContestantRuns {
    name: String,
    mean_ms: f64,
    p99_ms: f64,
    mean: Slower,
    p99: Slower,
    mb_per_s: f64,
    /// The harm of each seed, in percent.
    seeds: Vec<f64>,
}

impl ContestantRuns {
    fn of(name: String, runs: &[Served], alone: &[Responses]) -> Self {
        let responses: Vec<Responses> = runs.iter().map(|run| run.responses.clone()).collect();
        let over =
            |of: fn(&Responses) -> f64| responses.iter().map(of).sum::<f64>() / responses.len().max(1) as f64;
        let seeds =
            responses.iter().zip(alone).map(|(with, without)| (with.mean() / without.mean() - 1.0) * 100.0);
        Self {
            name,
            mean_ms: over(Responses::mean),
            p99_ms: over(Responses::p99),
            mean: mean_slower(&responses, alone),
            p99: p99_slower(&responses, alone),
            mb_per_s: runs.iter().map(|run| run.mb_per_s).sum::<f64>() / runs.len().max(1) as f64,
            seeds: seeds.collect(),
        }
    }

    /// Returns the upper end of the confidence interval of the harm, with the estimates of single seeds as its
    /// spread.
    fn held(&self) -> Spread {
        Spread { mean: self.mean.at_most, ..Spread::of(&self.seeds) }
    }

    fn point(&self) -> Point {
        Point { x: self.mean.percent, y: self.mb_per_s, spread: None }
    }
}

/// The results of all contestants on one drive at one rate.
struct Panel {
    drive: &'static str,
    rate: f64,
    alone: ContestantRuns,
    /// The MB that pass under the head of the drive alone, for each second of the run, by the state of its arm.
    passing: PassingMb,
    in_drive: ContestantRuns,
    assisted: ContestantRuns,
    scans: Vec<ContestantRuns>,
    paced: Vec<ContestantRuns>,
    rivals: Vec<ContestantRuns>,
}

impl Panel {
    fn of(contest: &Contest, runs: &[Vec<Served>]) -> Option<Self> {
        let alone: Vec<Responses> = runs.first()?.iter().map(|run| run.responses.clone()).collect();
        let passing: Vec<PassingMb> = runs.first()?.iter().map(|run| run.passing).collect();
        let mut names = vec!["alone".to_owned(), "in the drive".to_owned(), "ours, no task".to_owned()];
        names.extend(BOUNDS_PPM.map(|ppm| format!("ours, scan, bound {}%", f64::from(ppm) / 1e4)));
        names.extend(SHARES_PPM.map(|ppm| format!("paced, {}% of each second", f64::from(ppm) / 1e4)));
        names.extend(RIVALS.map(|(name, _)| name.to_owned()));
        let mut entries =
            names.into_iter().zip(runs).map(|(name, runs)| ContestantRuns::of(name, runs, &alone));
        Some(Self {
            drive: contest.drive,
            rate: contest.rate,
            alone: entries.next()?,
            passing: PassingMb::mean(&passing),
            in_drive: entries.next()?,
            assisted: entries.next()?,
            scans: entries.by_ref().take(BOUNDS_PPM.len()).collect(),
            paced: entries.by_ref().take(SHARES_PPM.len()).collect(),
            rivals: entries.collect(),
        })
    }

    fn entries(&self) -> impl Iterator<Item = &ContestantRuns> {
        let ours = [&self.alone, &self.in_drive, &self.assisted];
        ours.into_iter().chain(&self.scans).chain(&self.paced).chain(&self.rivals)
    }

    fn name(&self) -> String {
        format!("{}, {}/s", self.drive, self.rate)
    }

    fn id(&self) -> String {
        format!("duel-{}-{}", self.drive.trim_start_matches("nearline-"), self.rate)
    }

    /// Returns the scan with the bound that the claims are about.
    fn ours(&self) -> Option<&ContestantRuns> {
        self.scans.first()
    }

    /// Returns the bandwidth of [`ours`](Self::ours) in percent of that of the core in the drive.
    fn of_in_drive(&self) -> f64 {
        self.ours().map_or(f64::NAN, |ours| self.percent_of_in_drive(ours.mb_per_s))
    }

    /// Returns a bandwidth in percent of that of the core in the drive.
    fn percent_of_in_drive(&self, mb_per_s: f64) -> f64 {
        100.0 * mb_per_s / self.in_drive.mb_per_s
    }

    /// Returns the MB that pass under the head, each second, in that time of the arm that the background may take
    /// from requests. The bound on harm permits all responses together to be longer by that time, and each nanosecond
    /// taken from a request delays at least that request.
    fn permitted(&self) -> f64 {
        let permitted_ms = self.alone.mean_ms * f64::from(BOUND_PPM) / 1e6;
        permitted_ms / 1e3 * self.rate * self.passing.always
    }

    /// Returns this panel's row of the table of upper bounds on the bandwidth, in percent of that of the core in the
    /// drive.
    fn bounds(&self) -> Vec<String> {
        let PassingMb { latency_behind_reads, latency_behind_writes, idle_behind_reads, .. } = self.passing;
        let (permitted, idle) = (self.permitted(), self.passing.idle());
        let bounds = [
            self.ours().map_or(f64::NAN, |ours| ours.mb_per_s),
            idle_behind_reads + permitted,
            idle + permitted,
            idle_behind_reads + latency_behind_reads + permitted,
            idle + latency_behind_reads + latency_behind_writes + permitted,
        ];
        let shown =
            |mb_per_s: f64| format!("{:.1}% ({mb_per_s:.1} MB/s)", self.percent_of_in_drive(mb_per_s));
        let least = YIELD_PERCENT_MIN / 100.0 * self.in_drive.mb_per_s;
        let head = [self.name(), format!("{least:.1}")];
        head.into_iter().chain(bounds.map(shown)).collect()
    }

    /// Returns our bandwidth in multiples of the paced rival's at a harm equal to the upper end of our harm's
    /// confidence interval.
    fn times_paced(&self) -> f64 {
        let Some(ours) = self.ours() else { return f64::NAN };
        (ours.mb_per_s / reached(&self.paced, ours.mean.at_most)).min(RATIO_MAX)
    }

    /// Returns the largest ratio of a rival's bandwidth to ours at the rival's harm, with the rival's name.
    fn above(&self) -> (f64, &str) {
        let ratios =
            self.paced.iter().chain(&self.rivals).filter(|rival| rival.mb_per_s > 0.0).map(|rival| {
                let ours = reached(&self.scans, rival.mean.percent);
                ((rival.mb_per_s / ours).min(RATIO_MAX), rival.name.as_str())
            });
        ratios.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, ""))
    }

    fn figure(&self) -> Figure {
        let line = |label: &str, entries: &[ContestantRuns]| {
            drawn(label, entries.iter().map(ContestantRuns::point).collect())
        };
        let mut lines = vec![line("ours, bounds of 1 to 100%", &self.scans), line("paced", &self.paced)];
        lines.extend(self.rivals.iter().map(|rival| line(&rival.name, std::slice::from_ref(rival))));
        Figure {
            id: self.id(),
            title: format!("{}: background bandwidth against harm", self.name()),
            x: Axis::new("mean response above that of the drive alone (%)"),
            y: Axis::new("background bandwidth (MB/s)"),
            kind: Kind::Lines(lines),
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.entries().map(|entry| {
            vec![
                format!("{}: {}", self.name(), entry.name),
                format!("{:.2}", entry.mean_ms),
                format!("{:+.2}", entry.mean.percent),
                format!("{:+.2}", entry.mean.at_most),
                format!("{:.1}", entry.p99_ms),
                format!("{:+.2}", entry.p99.percent),
                format!("{:.1}", entry.mb_per_s),
            ]
        })
    }
}

/// Returns the bandwidth that a curve reaches at this harm: straight lines between its points, from nothing at no harm,
/// and constant beyond its maximum.
fn reached(curve: &[ContestantRuns], harm: f64) -> f64 {
    let mut points: Vec<(f64, f64)> = curve.iter().map(|e| (e.mean.percent.max(0.0), e.mb_per_s)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // A point with more harm and less bandwidth than another gets the other's bandwidth, because a larger bound on
    // harm also permits the schedule with less harm.
    let mut best = 0.0;
    for point in &mut points {
        best = f64::max(best, point.1);
        point.1 = best;
    }
    let mut before = (0.0, 0.0);
    for point in points {
        if point.0 > harm {
            let way = (harm.max(0.0) - before.0) / (point.0 - before.0);
            return before.1 + way * (point.1 - before.1);
        }
        before = point;
    }
    before.1
}

fn run(lab: &Lab) -> std::result::Result<Outcome, LabError> {
    let requests = lab.pick(3_000, 12_000);
    let seeds = lab.pick(1, 3);
    let contests: Vec<Contest> = DRIVES
        .iter()
        .flat_map(|&drive| {
            REQUESTS_PER_SECOND.map(|rate| Contest { drive, behaviour: Behaviour::modern(), rate, requests })
        })
        .collect();
    let all = contestants();
    let items = contests.iter().flat_map(|contest| all.iter().map(move |contestant| (contest, *contestant)));
    let runs = lab.map_seeds(items, seeds, |(contest, contestant), seed| contest.run(*contestant, seed))?;
    let panels: Vec<Panel> =
        contests.iter().zip(runs.chunks(all.len())).filter_map(|(c, runs)| Panel::of(c, runs)).collect();
    let mut figures: Vec<Figure> = panels.iter().map(Panel::figure).collect();
    figures.push(results(&panels));
    figures.push(bounds(&panels));
    Ok(Outcome { figures, claims: claims(&panels), notes: notes() })
}

/// Returns a contestant's curve, whose points beyond [`HARM_DRAWN_PERCENT_MAX`] stand at the edge.
fn drawn(label: &str, mut points: Vec<Point>) -> Line {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let most = points.last().map_or(0.0, |last| last.x);
    points.iter_mut().for_each(|point| point.x = point.x.min(HARM_DRAWN_PERCENT_MAX));
    let beyond = most > HARM_DRAWN_PERCENT_MAX;
    Line { label: if beyond { format!("{label}: {most:.0}%, at the edge") } else { label.into() }, points }
}

/// Returns a table of all seeds together.
fn table(id: &str, title: &str, columns: [&str; 7], rows: Vec<Vec<String>>) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::default(),
        y: Axis::new("all seeds together"),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    }
}

fn results(panels: &[Panel]) -> Figure {
    let columns = [
        "drive, rate: contestant",
        "mean ms",
        "against alone, %",
        "at most (95%), %",
        "p99 ms",
        "p99 against alone, %",
        "MB/s",
    ];
    table("duel", EXPERIMENT.title, columns, panels.iter().flat_map(Panel::rows).collect())
}

/// Returns the table of upper bounds on a scheduler's bandwidth, from the drive's own use of its arm.
fn bounds(panels: &[Panel]) -> Figure {
    let columns = [
        "drive, rate",
        "goal, MB/s",
        "ours",
        "at most: idle behind reads",
        "at most: all idle time",
        "at most: idle behind reads, gaps between reads",
        "at most: all idle time, all gaps",
    ];
    let title = "What the drive's own use of its arm leaves a scheduler outside, of the core in the drive";
    table("duel-bound", title, columns, panels.iter().map(Panel::bounds).collect())
}

/// Returns the upper limits of the bandwidth for each panel that misses the goal, in percent of the core in the
/// drive.
fn limits(panels: &[Panel]) -> String {
    let missed = panels.iter().filter(|panel| panel.of_in_drive() < YIELD_PERCENT_MIN);
    let limits: Vec<String> = missed
        .map(|panel| {
            let with = |mb_per_s: f64| panel.percent_of_in_drive(mb_per_s + panel.permitted());
            let PassingMb { idle_behind_reads, latency_behind_reads, .. } = panel.passing;
            format!(
                "{}: {:.1}%, {:.1}% and {:.1}%",
                panel.name(),
                with(idle_behind_reads),
                with(panel.passing.idle()),
                with(idle_behind_reads + latency_behind_reads)
            )
        })
        .collect();
    limits.join("; ")
}

/// The rule by which a claim is judged.
const RULE: &str = "All seeds together, compared with the drive alone over the same arrivals. The value that is held against the band \
                    is the upper end of the one-sided 95% confidence interval of a paired block bootstrap (24 blocks a seed); \
                    the range behind it is of the single seeds' estimates.";

fn claims(panels: &[Panel]) -> Vec<Claim> {
    let mut alone =
        Claim::new("duel-alone", "our own goal: without a task clients are served as by the drive alone");
    let mut harm =
        Claim::new("duel-harm", "our own goal: a scan costs clients at most 1% (2% at 80 requests a second)");
    let mut gain = Claim::new("duel-yield", "our own goal: 60% of what the core in the drive gets");
    let mut rivals =
        Claim::new("duel-rivals", "our own goal: 2 to 5 times what a paced loop gets for the same harm");
    for panel in panels {
        let name = panel.name();
        let Some(ours) = panel.ours() else { continue };
        let p99 = panel.assisted.p99.at_most;
        alone = alone
            .measure(&format!("{name}, mean"), panel.assisted.held(), "%", Band::AtMost(1.0))
            .measure(&format!("{name}, 99th percentile"), p99, "%", Band::AtMost(1.0));
        harm = harm.measure(&name, ours.held(), "%", Band::AtMost(harm_percent_max(panel.rate)));
        gain = gain.measure(&name, panel.of_in_drive(), "%", Band::AtLeast(YIELD_PERCENT_MIN));
        let (above, rival) = panel.above();
        rivals = rivals
            .measure(
                &format!("{name}, times paced at our harm"),
                panel.times_paced(),
                "",
                Band::AtLeast(times_paced_min(panel.rate)),
            )
            .measure(&format!("{name}, {rival} against ours at its harm"), above, "", Band::AtMost(1.0));
    }
    let paced = "The paced rival is a loop of 64 KiB reads whenever no request is outstanding, in a share of each second; its bandwidth \
                 at our harm lies on straight lines between the shares that were run, from nothing at no harm, and it is allowed the \
                 upper end of our harm. A rival is above our curve where it gets more than ours at its harm.";
    let rule = |reason: &str| format!("{reason} {RULE}");
    vec![
        alone.note(rule("Without a task requests pass straight through to the drive.")),
        harm.note(rule("Where the claim fails, requests wait longer for a stream's command than the bound on harm allows.")),
        gain.note(format!(
            "Limits of any core outside the drive, in percent of the in-drive core's bandwidth: streams behind reads bring at most the \
             first, streams in all idle time of the arm the second, and idle time behind reads together with all rotational \
             latency between two reads the third ({}; table duel-bound). The limits assume that commands cost nothing, that every \
             sector is wanted, and that all of the bound on harm is used. Ours begins streams behind reads, waits for the drive's cached writes, and uses no gap of a drive whose \
             cache is not predicted.",
            limits(panels)
        )),
        rivals.note(format!("The reasons are those of duel-yield. {paced}")),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "Alone is the drive's own queue under the preset `modern`; in the drive is the core with exact knowledge, SPTF over all \
         requests and idle time, and no write cache."
            .to_owned(),
        "The bounds of duel-bound hold for a host that leaves the foreground's order to the drive, as ours does there; one that \
         orders requests better than the drive gains arm time, and is not covered."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contestant_beyond_the_figure_stands_at_its_edge_with_its_harm_in_its_name() {
        let points = |all: &[f64]| all.iter().map(|&x| Point { x, y: 1.0, spread: None }).collect();
        let far = drawn("always", points(&[2_117.0, 3.0]));
        assert_eq!(
            (far.label.as_str(), far.points[1].x),
            ("always: 2117%, at the edge", HARM_DRAWN_PERCENT_MAX)
        );
        let near = drawn("idle", points(&[149.0]));
        assert_eq!((near.label.as_str(), near.points[0].x), ("idle", 149.0));
    }
}
