//! FAST'04, figure 11: a scrubber and the cache cleaner, with a lottery and without.

use crate::cache::{CacheSetUp, Cleaning, Scrub, WindowResult, run as conduct};
use crate::gaps::Gaps;
use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread,
};
use scheduler::Sharing;
use units::{Bytes, Duration};

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

/// The applications, and how they share gaps.
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
        conduct(&CacheSetUp {
            scrub,
            cleaning,
            sharing,
            warm_up: time,
            window: time,
            ..CacheSetUp::new(&drive, seed)
        })
    })?;
    let outside = lab.map_seeds(CASES, 1, |&(_, scrub, cleaning, sharing), seed| {
        let scrub = if scrub == Scrub::Whole { Scrub::Window } else { scrub };
        let time = Duration::from_secs(120);
        let set_up = CacheSetUp {
            scrub,
            cleaning,
            sharing,
            warm_up: time,
            window: time,
            ..CacheSetUp::new(&drive, seed)
        };
        conduct(&set_up.outside()?)
    })?;
    let [greedy, lottery, cleaner, scrubber] = [0, 1, 2, 3].map(|case: usize| runs[case].as_slice());
    let cleaned = |runs: &[WindowResult]| spread(runs, |r| r.cleaned_mb_per_s);
    let scrubbed = |runs: &[WindowResult]| spread(runs, |r| r.scrubbed_mb_per_s);
    let share = |of: &[WindowResult], whole: &[WindowResult], rate: fn(&WindowResult) -> f64| {
        let shares: Vec<f64> = of.iter().zip(whole).map(|(a, b)| 100.0 * rate(a) / rate(b)).collect();
        Spread::of(&shares)
    };
    // With a lottery the scrubber may lose what the cleaner gains; the claim is about the bandwidth that both lose
    // together.
    let lost = |lottery: &[WindowResult], greedy: &[WindowResult]| {
        let kept = share(lottery, greedy, |r| r.scrubbed_mb_per_s + r.cleaned_mb_per_s);
        Spread { mean: 100.0 - kept.mean, min: 100.0 - kept.max, max: 100.0 - kept.min, runs: kept.runs }
    };
    let of_alone =
        |lottery: &[WindowResult], cleaner: &[WindowResult]| share(lottery, cleaner, |r| r.cleaned_mb_per_s);
    let kilobytes = |runs: &[WindowResult]| spread(runs, |r| r.cleaned_mb_per_s * 1e3);
    let in_gaps = |runs: &[WindowResult]| spread(runs, |r| 100.0 * r.cleaned_per_s() / r.gaps_per_s());
    let claim = Claim::new(
        "fast04-fig11",
        "cleaner from almost nothing to 0.3 of the 0.34 MB/s it gets alone; scrubber loses 2-5%",
    )
    .measure("cleaner, of its rate alone", of_alone(lottery, cleaner), "%", Band::AtLeast(80.0))
    .measure("both together lose", lost(lottery, greedy), "%", Band::AtMost(8.0))
    .measure("outside the drive: cleaner, of its rate alone", of_alone(&outside[1], &outside[2]), "%", Band::AtLeast(80.0))
    .measure("outside the drive: both together lose", lost(&outside[1], &outside[0]), "%", Band::AtMost(8.0))
    .note(format!(
        "The lottery gives the cleaner half of the gaps (alone it writes in {}% of all gaps), and where it writes, the scrubber gets \
         only the time before and after the write. The cleaner gets {} KB/s greedy, {} by lottery, {} alone; the \
         scrubber {}, {}, {} MB/s, and a gap holds {} KB for it alone. By lottery {}% of all gaps have a cleaned block, \
         greedy {}%. {}",
        in_gaps(cleaner),
        kilobytes(greedy),
        kilobytes(lottery),
        kilobytes(cleaner),
        scrubbed(greedy),
        scrubbed(lottery),
        scrubbed(scrubber),
        spread(scrubber, |r| r.scrubbed_mb_per_s * 1e3 / r.gaps_per_s()),
        in_gaps(lottery),
        in_gaps(greedy),
        why((greedy, lottery, cleaner), &outside, drive.sector_bytes()),
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
            spread(runs, |r| r.gaps.used_percent()).to_string(),
            spread(runs, |r| r.gaps.closed_percent()).to_string(),
            spread(runs, |r| r.gaps.empty_percent()).to_string(),
            spread(runs, |r| r.gaps.margin_ms()).to_string(),
        ]
    });
    let columns = [
        "",
        "scrubber MB/s",
        "cleaner MB/s",
        "cleaned for free %",
        "read ms",
        "seconds",
        "gaps used %",
        "unused %",
        "empty %",
        "margin ms",
    ];
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
            title: "Shares of the applications".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows: rows.collect() },
        },
    ];
    Ok(Outcome { figures, claims: vec![claim], notes: Vec::new() })
}

/// Explains the results by the use of gaps in the drive (greedy, by lottery, the cleaner alone) and outside.
fn why(
    inside: (&[WindowResult], &[WindowResult], &[WindowResult]),
    outside: &[Vec<WindowResult>],
    sector: Bytes,
) -> String {
    let kb = |sectors: u64, gaps: u64| (sectors * sector.get()) as f64 / 1e3 / (gaps as f64).max(1.0);
    let (greedy, lottery, cleaner) = inside;
    let mean = |runs: &[WindowResult], value: &dyn Fn(&Gaps) -> f64| spread(runs, |r| value(&r.gaps)).mean;
    let beside = |g: &Gaps| kb(g.read_beside, g.written_in);
    let others = |g: &Gaps| kb(g.read - g.read_beside, g.requests - g.written_in);
    let all = |g: &Gaps| kb(g.read, g.requests);
    let [out_lottery, out_cleaner] =
        [1, 2].map(|case: usize| outside.get(case).map_or(&[][..], Vec::as_slice));
    let shares = |runs: &[WindowResult]| {
        format!(
            "{:.0} are used, {:.0} unused ({:.0} because of the harm of detours), {:.0} hold nothing",
            mean(runs, &Gaps::used_percent),
            mean(runs, &Gaps::closed_percent),
            mean(runs, &Gaps::for_harm_percent),
            mean(runs, &Gaps::empty_percent),
        )
    };
    format!(
        "By lottery the scrubber gets {:.1} KB in a gap in which something is cleaned and {:.1} KB in one of the others, greedy \
         {:.1} KB in each: where the others hold less than that, it is the longer gaps that the cleaner takes. Out of a hundred gaps, \
         the cleaner alone: {}; outside the drive: {}; margin {:.2} ms. By lottery outside: {}; something is cleaned in {:.1} \
         of a hundred, in the drive in {:.1}.",
        mean(lottery, &beside),
        mean(lottery, &others),
        mean(greedy, &all),
        shares(cleaner),
        shares(out_cleaner),
        mean(out_cleaner, &Gaps::margin_ms),
        shares(out_lottery),
        mean(out_lottery, &|g| g.written_in as f64 * 100.0 / (g.requests as f64).max(1.0)),
        mean(lottery, &|g| g.written_in as f64 * 100.0 / (g.requests as f64).max(1.0)),
    )
}
