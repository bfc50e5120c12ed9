//! FAST'04, figure 11: a scrubber and the cache cleaner, with a lottery and without.

use crate::cache::{Cleaning, Run, Scrub, SetUp, run as conduct};
use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread,
};
use scheduler::Sharing;
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig11",
    paper: Paper::Fast04,
    reproduces: "figure 11",
    title: "Disk scrubbing and cache cleaning",
    set_up: "As figure 7, with a cache of 512 MB, LRU, the 30 s syncer, reads and writes 1:1. Beside the cleaner a \
             scrubber of the same priority reads every block of the drive once, in blocks of 16 KB, until it has all \
             (in the quick size: for two minutes after as long). The most blocks win, whosever they are; or \
             the session that a lottery draws; and each application alone. Once more with the core outside the drive (FAST'02's noise), the \
             scrubber for as long as in the quick size.",
    claims: &["fast04-fig11"],
    timed: false,
    run,
};

/// Who is there, and how gaps are shared.
const CASES: [(&str, Scrub, Cleaning, Sharing); 4] = [
    ("greedy", Scrub::Whole, Cleaning::Free, Sharing::Greedy),
    ("lottery", Scrub::Whole, Cleaning::Free, Sharing::Lottery),
    ("cleaner alone", Scrub::None, Cleaning::Free, Sharing::Lottery),
    ("scrubber alone", Scrub::Whole, Cleaning::Never, Sharing::Lottery),
];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let time = Duration::from_secs(lab.pick(120, 600));
    let runs = lab.map_seeds(CASES, lab.pick(1, 2), |&(_, scrub, cleaning, sharing), seed| {
        let scrub = if scrub == Scrub::Whole { lab.pick(Scrub::Window, Scrub::Whole) } else { scrub };
        conduct(&SetUp { scrub, cleaning, sharing, warm_up: time, window: time, ..SetUp::new(&drive, seed) })
    })?;
    let outside = lab.map_seeds(CASES, 1, |&(_, scrub, cleaning, sharing), seed| {
        let scrub = if scrub == Scrub::Whole { Scrub::Window } else { scrub };
        let time = Duration::from_secs(120);
        let set_up =
            SetUp { scrub, cleaning, sharing, warm_up: time, window: time, ..SetUp::new(&drive, seed) };
        conduct(&set_up.outside()?)
    })?;
    let [greedy, lottery, cleaner, scrubber] = [0, 1, 2, 3].map(|case: usize| runs[case].as_slice());
    let cleaned = |runs: &[Run]| spread(runs, |r| r.cleaned_mb_per_s);
    let scrubbed = |runs: &[Run]| spread(runs, |r| r.scrubbed_mb_per_s);
    let share = |of: &[Run], whole: &[Run], rate: fn(&Run) -> f64| {
        let shares: Vec<f64> = of.iter().zip(whole).map(|(a, b)| 100.0 * rate(a) / rate(b)).collect();
        Spread::of(&shares)
    };
    let lost = |lottery: &[Run], greedy: &[Run]| {
        let kept = share(lottery, greedy, |r| r.scrubbed_mb_per_s);
        Spread { mean: 100.0 - kept.mean, min: 100.0 - kept.max, max: 100.0 - kept.min, runs: kept.runs }
    };
    let of_alone = |lottery: &[Run], cleaner: &[Run]| share(lottery, cleaner, |r| r.cleaned_mb_per_s);
    let kilobytes = |runs: &[Run]| spread(runs, |r| r.cleaned_mb_per_s * 1e3);
    let in_gaps = |runs: &[Run]| spread(runs, |r| 100.0 * r.cleaned_per_s() / r.gaps_per_s());
    let claim = Claim::new(
        "fast04-fig11",
        "cleaner from almost nothing to 0.3 of the 0.34 MB/s it gets alone; scrubber loses 2-5%",
    )
    .measure("cleaner, of its rate alone", of_alone(lottery, cleaner), "%", Band::AtLeast(80.0))
    .measure("scrubber loses", lost(lottery, greedy), "%", Band::AtMost(8.0))
    .measure("outside the drive: cleaner, of its rate alone", of_alone(&outside[1], &outside[2]), "%", Band::AtLeast(80.0))
    .measure("outside the drive: scrubber loses", lost(&outside[1], &outside[0]), "%", Band::AtMost(8.0))
    .note(format!(
        "The cleaner gets {} KB/s greedy, {} by lottery, {} alone; the scrubber {}, {}, {} MB/s. The lottery gives each \
         half of the gaps, and what is free is gaps: of one in which the cleaner writes 4 KB somewhere else the scrubber \
         gets what is left behind that, and a gap holds {} KB for it alone. By lottery {}% of all gaps have a cleaned block, greedy {}%. The \
         cleaner alone writes in {}% of them, so that half of the gaps are not enough for 80% of its rate.",
        kilobytes(greedy),
        kilobytes(lottery),
        kilobytes(cleaner),
        scrubbed(greedy),
        scrubbed(lottery),
        scrubbed(scrubber),
        spread(scrubber, |r| r.scrubbed_mb_per_s * 1e3 / r.gaps_per_s()),
        in_gaps(lottery),
        in_gaps(greedy),
        in_gaps(cleaner),
    ));
    let bars = CASES.iter().zip(&runs).map(|((label, ..), runs)| Bar {
        label: (*label).to_owned(),
        values: vec![scrubbed(runs).mean, cleaned(runs).mean],
    });
    let labelled = |place: &'static str| CASES.iter().map(move |(label, ..)| format!("{label}{place}"));
    let all = labelled("").zip(&runs).chain(labelled(", outside the drive").zip(&outside));
    let rows = all.map(|(label, runs)| {
        vec![
            label,
            scrubbed(runs).to_string(),
            cleaned(runs).to_string(),
            spread(runs, |r| r.free).to_string(),
            spread(runs, |r| r.response_ms).to_string(),
            spread(runs, |r| r.seconds).to_string(),
        ]
    });
    let columns = ["", "scrubber MB/s", "cleaner MB/s", "cleaned for free %", "read ms", "seconds"];
    let figures = vec![
        Figure {
            id: "fast04-fig11".into(),
            title: EXPERIMENT.title.into(),
            x: Axis::new("how gaps are shared"),
            y: Axis::new("free bandwidth (MB/s)"),
            kind: Kind::Stacked {
                parts: ["scrubber", "cache cleaner"].map(String::from).to_vec(),
                bars: bars.collect(),
            },
        },
        Figure {
            id: "fast04-fig11-all".into(),
            title: "What each gets".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows: rows.collect() },
        },
    ];
    Ok(Outcome { figures, claims: vec![claim], notes: Vec::new() })
}
