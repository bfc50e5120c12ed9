//! OSDI'00, section 4: the processor time of one decision of the freeblock scheduler.

use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use model::DriveModel;
use scheduler::{Config, HeadWork, InDrive, Output, Parameter, Priority, Request, SearchBudget, Sessions};
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Instant, Lbn, LbnRange, RequestId, Sectors};
use workload::random::Stream;
use workload::{Oltp, OltpConfig, Share, Source};

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-cost",
    paper: Paper::Osdi00,
    reproduces: "section 4",
    title: "Time of one freeblock decision",
    set_up: "Atlas 10K, OLTP requests, ten outstanding, first come first served, the default search budget. The time is that of the \
             whole call that chooses the next request and fills its gap, on one core of this machine, while a \
             scan in blocks of 4 KB has a given share of the disk left; and with 1% of the blocks wanted at random places.",
    claims: &["osdi00-cost"],
    timed: true,
    run,
};

/// Sectors of 512 bytes in a block of 4 KB.
const BLOCK_SECTORS: u64 = 8;

/// The percentages of the disk that are wanted when the timing begins.
const WANTED_PERCENTS: [u64; 5] = [100, 50, 20, 5, 1];

/// The number of [`WANTED_PERCENTS`], from the first, that are in the paper's range of 20-100%.
const CLAIMED_PERCENTS: usize = 3;

/// The paper's ten tasks without think time: there is always a request to choose.
const OUTSTANDING: u64 = 10;

fn failed(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LabError {
    LabError::new("timing decisions", e)
}

/// A core whose predictions are taken for what the drive does, so that only the core runs. The scheduler's benchmark
/// `decision` has a loop of its own, with more drives, more kinds of wanted sets and checksums of the decisions,
/// because the scheduler cannot depend on this crate.
struct DecisionBench {
    core: InDrive,
    load: Oltp,
    now: Instant,
    next: u64,
}

impl DecisionBench {
    fn new(drive: &Arc<DriveModel>, budget: SearchBudget, seed: u64) -> Result<Self, LabError> {
        let config = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
        let mut bench = Self {
            core: InDrive::new(Arc::clone(drive), Config::default().with_budget(budget)),
            load: Oltp::new(config, seed).map_err(failed)?,
            now: Instant::ZERO,
            next: 0,
        };
        for _ in 0..OUTSTANDING {
            bench.submit()?;
        }
        Ok(bench)
    }

    fn submit(&mut self) -> Result<(), LabError> {
        if let Some(request) = self.load.next_request() {
            let id = RequestId::new(self.next);
            self.next += 1;
            let request = Request { id, op: request.op, range: request.range };
            self.core.submit(self.now, request).map_err(failed)?;
        }
        Ok(())
    }

    fn decide(&mut self) -> Result<Decision, LabError> {
        let mut decision = Decision::default();
        loop {
            let before = self.core.planner_stats().tracks;
            let clock = Clock::now();
            let Some(output) = self.core.poll(self.now) else { break };
            let took = clock.elapsed();
            match output {
                Output::Do(HeadWork::Execute) => {
                    decision.nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                    decision.tracks = self.core.planner_stats().tracks - before;
                    self.now = self.core.busy_until().unwrap_or(self.now);
                    break;
                }
                Output::Completed(_)
                | Output::Deliver(_)
                | Output::Do(HeadWork::Cut)
                | Output::Failed { .. } => {}
            }
        }
        self.core.completed(self.now);
        self.submit()?;
        Ok(decision)
    }

    fn decisions(&mut self, count: u64) -> Result<Vec<Decision>, LabError> {
        (0..count).map(|_| self.decide()).collect()
    }
}

/// The cost of choosing a request and searching its gap for a detour.
#[derive(Clone, Copy, Default)]
struct Decision {
    nanos: u64,
    /// The number of tracks examined.
    tracks: u64,
}

/// The decisions, ordered by their times.
struct Times {
    label: String,
    decisions: Vec<Decision>,
}

impl Times {
    fn new(label: String, mut decisions: Vec<Decision>) -> Self {
        decisions.sort_unstable_by_key(|d| d.nanos);
        Self { label, decisions }
    }

    /// Returns a quantile of the decisions' times, in microseconds.
    fn quantile(&self, q: f64) -> f64 {
        quantile(&self.decisions, q).map_or(f64::NAN, |d| d.nanos as f64 / 1e3)
    }

    /// Returns a quantile of the numbers of tracks examined.
    fn tracks(&self, q: f64) -> f64 {
        let mut tracks: Vec<u64> = self.decisions.iter().map(|d| d.tracks).collect();
        tracks.sort_unstable();
        quantile(&tracks, q).map_or(f64::NAN, |&t| t as f64)
    }

    fn mean_tracks(&self) -> f64 {
        self.decisions.iter().map(|d| d.tracks as f64).sum::<f64>() / self.decisions.len() as f64
    }

    /// Returns the median decision of the shortest searches and of the longest: tracks, microseconds.
    fn ends(&self) -> Option<[(f64, f64); 2]> {
        let groups = self.by_tracks();
        let median = |(tracks, group): &(f64, Self)| (*tracks, group.quantile(0.5));
        Some([median(groups.first()?), median(groups.last()?)])
    }

    /// Groups the decisions that examined tracks by the number of tracks; returns each group's mean number, and its
    /// decisions.
    fn by_tracks(&self) -> Vec<(f64, Self)> {
        let group = |d: &Decision| d.tracks.div_ceil(GROUP_TRACKS);
        let most = self.decisions.iter().map(group).max().unwrap_or(0);
        let groups = (1..=most).map(|of| {
            let decisions: Vec<Decision> =
                self.decisions.iter().filter(|d| group(d) == of).copied().collect();
            Self { label: self.label.clone(), decisions }
        });
        groups.filter(|g| g.decisions.len() >= DECISIONS_MIN).map(|g| (g.mean_tracks(), g)).collect()
    }
}

/// The width of a group in tracks, and the number of decisions below which a group is left out because its median is
/// not significant.
const GROUP_TRACKS: u64 = 10;
const DECISIONS_MIN: usize = 20;

/// Returns a quantile of an ordered slice.
fn quantile<T>(sorted: &[T], q: f64) -> Option<&T> {
    sorted.get((sorted.len().saturating_sub(1) as f64 * q).round() as usize)
}

/// Times decisions when a scan has each of `levels` left, in percent of the disk.
fn by_scan(
    drive: &Arc<DriveModel>,
    budget: SearchBudget,
    levels: &[u64],
    seed: u64,
    samples: u64,
) -> Result<Vec<Times>, LabError> {
    let mut bench = DecisionBench::new(drive, budget, seed)?;
    let session = bench.core.open(Priority::default()).map_err(failed)?;
    let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
    bench.core.read(session, whole, Sectors::new(BLOCK_SECTORS), Parameter::default()).map_err(failed)?;
    let all = bench.core.undelivered(session).unwrap_or(0);
    let mut times = Vec::new();
    for level in levels {
        while bench.core.undelivered(session).is_some_and(|left| left * 100 > all * level) {
            bench.decide()?;
        }
        times.push(Times::new(format!("{level}% left by a scan"), bench.decisions(samples)?));
    }
    Ok(times)
}

/// Times decisions when blocks at random places are wanted, each registered by itself.
fn scattered(drive: &Arc<DriveModel>, seed: u64, samples: u64) -> Result<Times, LabError> {
    let mut bench = DecisionBench::new(drive, SearchBudget::default(), seed)?;
    let session = bench.core.open(Priority::default()).map_err(failed)?;
    let mut stream = Stream::new(seed, "lab.cost");
    let share = Share::new(1, 100).map_err(failed)?;
    for block in 0..drive.layout().capacity().get() / BLOCK_SECTORS {
        if stream.chance(share) {
            let range = LbnRange::new(Lbn::new(block * BLOCK_SECTORS), Sectors::new(BLOCK_SECTORS));
            bench
                .core
                .read(session, range, Sectors::new(BLOCK_SECTORS), Parameter::default())
                .map_err(failed)?;
        }
    }
    Ok(Times::new("1% at random places".into(), bench.decisions(samples)?))
}

/// Limits on the tracks of a search, smaller than the default.
const SEARCH_TRACKS_MAX: [u32; 3] = [10, 25, 50];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let samples = lab.pick(2_000, 10_000);
    // Runs are timed one after the other, so that the timed code has a core of the processor for itself.
    let nothing = DecisionBench::new(&drive, SearchBudget::default(), lab.seed())?.decisions(samples)?;
    let nothing = Times::new("nothing".into(), nothing);
    let mut times = by_scan(&drive, SearchBudget::default(), &WANTED_PERCENTS, lab.seed(), samples)?;
    times.push(scattered(&drive, lab.seed(), lab.pick(1_000, 3_000))?);
    let shorter = SEARCH_TRACKS_MAX.map(|tracks| {
        by_scan(
            &drive,
            SearchBudget::tracks(tracks),
            &WANTED_PERCENTS[..CLAIMED_PERCENTS],
            lab.seed(),
            samples,
        )
        .map(|times| (tracks, times))
    });
    let shorter = shorter.into_iter().collect::<Result<Vec<_>, _>>()?;

    let mut claim =
        Claim::new("osdi00-cost", "0-2.5 ms on a 550 MHz Pentium III, 20-100% of the disk wanted");
    for times in times.iter().take(CLAIMED_PERCENTS) {
        claim = claim
            .measure(&format!("median, {}", times.label), times.quantile(0.5), " us", Band::AtMost(3.0))
            .measure(&format!("99%, {}", times.label), times.quantile(0.99), " us", Band::AtMost(50.0));
    }
    if let Some(last) = times.last() {
        claim =
            claim.measure(&format!("99%, {}", last.label), last.quantile(0.99), " us", Band::AtMost(100.0));
    }
    let claim = claim.note(why(&nothing, &times, &shorter));
    let curve = |t: &Times| {
        Line::new(
            &t.label,
            (0..=99).map(|percent| (t.quantile(f64::from(percent) / 100.0), f64::from(percent))),
        )
    };
    let by_tracks = |t: &Times| {
        Line::new(&t.label, t.by_tracks().iter().map(|(tracks, group)| (*tracks, group.quantile(0.5))))
    };
    let lines = |id: &str, title: &str, x: &str, y: Axis, lines: Vec<Line>| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new(x),
        y,
        kind: Kind::Lines(lines),
    };
    let share = Axis::between("share of decisions (%)", 0.0, 100.0);
    let figures = vec![
        lines(
            "osdi00-cost",
            "Decisions that took no longer",
            "time of a decision (us)",
            share,
            times.iter().map(curve).collect(),
        ),
        lines(
            "osdi00-cost-tracks",
            "A decision takes as long as the tracks that it examines",
            "tracks examined",
            Axis::new("median time of a decision (us)"),
            times.iter().map(by_tracks).collect(),
        ),
        numbers(&nothing, &times),
        budgets(&times, &shorter),
    ];
    Ok(Outcome { figures, claims: vec![claim], notes: Vec::new() })
}

/// Explains where the time goes, and the cost of meeting the paper's budget.
fn why(nothing: &Times, times: &[Times], shorter: &[(u32, Vec<Times>)]) -> String {
    let each = |times: &[Times], of: &dyn Fn(&Times) -> f64, digits: usize| {
        let values = times.iter().take(CLAIMED_PERCENTS).map(|t| format!("{:.digits$}", of(t)));
        values.collect::<Vec<_>>().join(", ")
    };
    let end = |t: &Times, which: usize| t.ends().map_or((f64::NAN, f64::NAN), |ends| ends[which]);
    let medians: Vec<String> = shorter
        .iter()
        .map(|(tracks, times)| format!("{} us with {tracks}", each(times, &|t| t.quantile(0.5), 1)))
        .collect();
    format!(
        "The budget of 3 us is this project's own; the paper's times are hundreds of times as long. Choosing the request \
         takes {:.2} us; the rest is the gap. At 100, 50 and 20% wanted the median decision examines {} tracks (mean {}). \
         Those that examine {} of them, which are mostly the source's and the destination's cylinder, take {} us; those \
         that examine {} take {}. The less is wanted, the less does the best track so far rule out, and the more decisions \
         go on to the 75 tracks that end a search. Shorter searches have medians of {}; figure 8's table of budgets has what \
         they cost in scans a day. A quarter of a search's time is the walk outward over cylinders, two fifths are finding and timing \
         tracks, a fifth is counting the wanted blocks on them (profile in \
         docs/BENCHMARKS.md). Single runs, on whatever else the machine was doing, which the longest times are.",
        nothing.quantile(0.5),
        each(times, &|t| t.tracks(0.5), 0),
        each(times, &Times::mean_tracks, 0),
        each(times, &|t| end(t, 0).0, 0),
        each(times, &|t| end(t, 0).1, 1),
        each(times, &|t| end(t, 1).0, 0),
        each(times, &|t| end(t, 1).1, 1),
        medians.join("; "),
    )
}

fn numbers(nothing: &Times, times: &[Times]) -> Figure {
    let row = |t: &Times| {
        let q = |q: f64| format!("{:.2}", t.quantile(q));
        let ends = t.ends();
        let end = |which: usize| {
            ends.map_or("-".into(), |ends| format!("{:.1} us with {:.0}", ends[which].1, ends[which].0))
        };
        vec![
            t.label.clone(),
            t.decisions.len().to_string(),
            q(0.1),
            q(0.5),
            q(0.9),
            q(0.99),
            q(1.0),
            format!("{:.0}", t.tracks(0.5)),
            format!("{:.1}", t.mean_tracks()),
            format!("{:.0}", t.tracks(0.99)),
            end(0),
            end(1),
        ]
    };
    let columns = [
        "wanted",
        "decisions",
        "10% us",
        "median us",
        "90% us",
        "99% us",
        "most us",
        "tracks, median",
        "tracks, mean",
        "tracks, 99%",
        "shortest searches: median and tracks",
        "longest searches: median and tracks",
    ];
    table(
        "osdi00-cost-numbers",
        "Time of one decision, and tracks examined",
        &columns,
        std::iter::once(nothing).chain(times).map(row).collect(),
    )
}

fn budgets(times: &[Times], shorter: &[(u32, Vec<Times>)]) -> Figure {
    let row = |label: String, times: &[Times]| {
        let mut row = vec![label];
        row.extend(times.iter().take(CLAIMED_PERCENTS).map(|t| format!("{:.2}", t.quantile(0.5))));
        row.extend(times.iter().take(CLAIMED_PERCENTS).map(|t| format!("{:.2}", t.quantile(0.99))));
        row
    };
    let mut rows: Vec<Vec<String>> = shorter.iter().map(|(tracks, t)| row(tracks.to_string(), t)).collect();
    rows.push(row("75, the default".into(), times));
    let columns = [
        "tracks a gap",
        "median us, 100%",
        "median us, 50%",
        "median us, 20%",
        "99% us, 100%",
        "99% us, 50%",
        "99% us, 20%",
    ];
    table("osdi00-cost-budget", "Decision times of shorter searches", &columns, rows)
}

fn table(id: &str, title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Figure {
    let columns = columns.iter().map(|c| String::from(*c)).collect();
    let (x, y) = (Axis::default(), Axis::default());
    Figure { id: id.into(), title: title.into(), x, y, kind: Kind::Table { columns, rows } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_and_the_longest_searches_have_the_times_of_their_median_decisions() {
        // Decisions that examine 10 or 20 tracks, at 100 ns a track; six of them were interrupted for 4 ms.
        let decisions = (0..60u64).map(|i| {
            let tracks = if i % 2 == 0 { 10 } else { 20 };
            Decision { nanos: 200 + tracks * 100 + if i < 6 { 4_000_000 } else { 0 }, tracks }
        });
        let times = Times::new("x".into(), decisions.collect());
        assert_eq!(times.ends(), Some([(10.0, 1.2), (20.0, 2.2)]));
        assert_eq!((times.tracks(0.25), times.mean_tracks(), times.by_tracks().len()), (10.0, 15.0, 2));
    }
}
