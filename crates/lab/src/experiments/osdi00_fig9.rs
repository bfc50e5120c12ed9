//! OSDI'00, figure 9: the free bandwidth falls with the number of blocks left.

use crate::scan::{MediaRate, Potential, Scan, ScanSetUp, State, Stretch, potential_mb_per_s, stretches};
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, spread};
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig9",
    paper: Paper::Osdi00,
    reproduces: "figure 9",
    title: "Progress of a scan at MPL 7",
    set_up: "Atlas 10K, OLTP of 7 tasks, first come first served, one scan of the whole disk in blocks of 4 KB for each \
             seed. The curves are those of the first seed.",
    claims: &["osdi00-fig9"],
    timed: false,
    run,
};

const MPL: u32 = 7;

/// The number of foreground requests between two recorded states; a scan takes about 200,000 requests.
const REQUESTS_PER_STATE: u64 = 100;

/// The number of points of a curve.
const POINTS: u32 = 100;

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let media = MediaRate::of(&drive);
    let runs = lab.map(lab.seeds(lab.pick(2, 10)), |seed| {
        ScanSetUp::new(&drive, MPL, seed).progress(REQUESTS_PER_STATE)
    })?;
    let claim = Claim::new("osdi00-fig9", "the last 5% of the blocks takes 30% of the time").measure(
        "",
        spread(&runs, |(scan, _)| scan.last5_time_share * 100.0),
        "%",
        Band::Within(24.0, 34.0),
    );
    let Some((scan, states)) = runs.first() else { return Ok(Outcome::default()) };
    let capacity = drive.layout().capacity().bytes(drive.sector_bytes()).get();
    let parts = stretches(states, POINTS);
    let figure = |id: &str, title: &str, y: Axis, lines: Vec<Line>| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::between("time of the scan (%)", 0.0, 100.0),
        y,
        kind: Kind::Lines(lines),
    };
    let figures = vec![
        figure(
            "osdi00-fig9a",
            "Potential and achieved progress",
            Axis::between("blocks delivered (%)", 0.0, 100.0),
            progress(scan, states, &parts, capacity, &media),
        ),
        figure(
            "osdi00-fig9b",
            "Instantaneous free bandwidth",
            Axis::new("MB/s"),
            bandwidth(scan, &parts, &media),
        ),
        figure(
            "osdi00-fig9c",
            "Use of the potential free bandwidth",
            Axis::new("share of the foreground's latency (%)"),
            uses(scan, &parts, &media),
        ),
    ];
    let took = spread(&runs, |(scan, _)| scan.took.as_secs_f64() / 60.0);
    let notes = vec![format!(
        "A scan takes {took} minutes. Early on, more comes than the gaps could give, because the foreground itself passes \
         over blocks that are still wanted: \"free transfer\" has these in it, \"in gaps\" has not; with \"in gaps\", the \
         uses of the potential add up to 100%."
    )];
    Ok(Outcome { figures, claims: vec![claim], notes })
}

fn percent(part: Duration, scan: &Scan) -> f64 {
    part.as_secs_f64() * 100.0 / scan.took.as_secs_f64()
}

/// Returns the curve of the values of `of`, each at the middle of its part of the scan.
fn curve(label: &str, scan: &Scan, parts: &[Stretch], of: impl Fn(&Stretch) -> f64) -> Line {
    Line::new(label, parts.iter().map(|p| (percent(p.from + p.to, scan) / 2.0, of(p))))
}

fn progress(scan: &Scan, states: &[State], parts: &[Stretch], capacity: u64, media: &MediaRate) -> Vec<Line> {
    let share = |bytes: f64| bytes * 100.0 / capacity as f64;
    let at: Vec<&State> = std::iter::once(Duration::ZERO)
        .chain(parts.iter().map(|p| p.to))
        .filter_map(|at| states.iter().find(|s| s.at == at))
        .collect();
    let potential = at.iter().map(|s| {
        let bytes = s.head.potential().as_secs_f64() * media.bytes_per_s;
        (percent(s.at, scan), share(bytes).min(100.0))
    });
    let achieved = at.iter().map(|s| (percent(s.at, scan), share(s.bytes as f64)));
    vec![Line::new("potential", potential), Line::new("achieved", achieved)]
}

fn bandwidth(scan: &Scan, parts: &[Stretch], media: &MediaRate) -> Vec<Line> {
    let seconds = |p: &Stretch| (p.to - p.from).as_secs_f64();
    vec![
        curve("potential", scan, parts, |p| potential_mb_per_s(&p.head, p.to - p.from, media)),
        curve("achieved", scan, parts, |p| p.bytes as f64 / 1e6 / seconds(p)),
    ]
}

fn uses(scan: &Scan, parts: &[Stretch], media: &MediaRate) -> Vec<Line> {
    let of = |p: &Stretch| Potential::of(&p.head);
    vec![
        curve("free transfer", scan, parts, |p| p.efficiency(media) * 100.0),
        curve("in gaps", scan, parts, |p| of(p).used),
        curve("extra seek", scan, parts, |p| of(p).extra_seek),
        curve("unused latency", scan, parts, |p| of(p).unused),
    ]
}
