//! OSDI'00, figure 7: cleaning the segments of a log-structured disk for free.

use crate::lld::{
    PARTS, PostmarkRun, PostmarkSetUp, Strategy, Transaction, files_for, one_surface_atlas,
    run as run_postmark,
};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Size,
    Spread, spread,
};
use lab_apps::lld::{FreeConfig, Reads};
use model::DriveModel;
use std::sync::Arc;
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig7",
    paper: Paper::Osdi00,
    reproduces: "figure 7",
    title: "LLD performance for three cleaning strategies",
    set_up: "One surface of an Atlas 10K (1.5 GB); a log of 800 segments of 128 blocks of 4 KB at its start; files with a \
             buffer cache of 32 MB; Postmark (files of 5-10 KB, 100 directories, 25,000 transactions) whose transaction \
             phase runs twice, the second time measured. One process that waits for its I/O. Full: three seeds; quick: \
             one, and fewer utilisations.",
    claims: &["osdi00-fig7a", "osdi00-fig7b"],
    timed: false,
    run,
};

const TRANSACTIONS: u32 = 25_000;

/// Returns the figure's choice of the parameters that the paper does not give.
fn default(strategy: Strategy, files: u32, seed: u64) -> PostmarkSetUp {
    PostmarkSetUp {
        strategy,
        files,
        transactions: TRANSACTIONS,
        phases: 2,
        reads: Reads::Block,
        cpu: Duration::from_micros(300),
        per_request: Duration::from_micros(100),
        merge: false,
        cache_blocks: 8192,
        write_back: None,
        summaries: false,
        seed,
    }
}

/// Changes one assumption in a set-up.
type Vary = fn(PostmarkSetUp) -> PostmarkSetUp;

const AS_IN_THE_FIGURE: Vary = |s| s;

/// The assumption on which the second claim depends.
const WRITTEN_BACK: Vary = |s| PostmarkSetUp { write_back: Some(Duration::from_millis(5_000)), ..s };

const VARIANTS: [(&str, Vary); 17] = [
    ("as in the figure", AS_IN_THE_FIGURE),
    ("the cache writes changes back every 30 s", |s| PostmarkSetUp {
        write_back: Some(Duration::from_millis(30_000)),
        ..s
    }),
    ("every 5 s", WRITTEN_BACK),
    ("every 5 s, 32 victims at once, from 48 free segments down", |s| with(WRITTEN_BACK(s), 32, 48)),
    ("every second", |s| PostmarkSetUp { write_back: Some(Duration::from_millis(1_000)), ..s }),
    ("after every operation", |s| PostmarkSetUp { write_back: Some(Duration::ZERO), ..s }),
    ("the cleaner reads runs of live blocks", |s| PostmarkSetUp { reads: Reads::Run, ..s }),
    ("the cleaner reads from the first to the last live block", |s| PostmarkSetUp {
        reads: Reads::Segment,
        ..s
    }),
    ("the foreground cleaner reads a segment's summary first", |s| PostmarkSetUp { summaries: true, ..s }),
    ("files are read in runs of blocks, the cleaner block by block", |s| PostmarkSetUp { merge: true, ..s }),
    ("no computing time before a request", |s| PostmarkSetUp { per_request: Duration::ZERO, ..s }),
    ("no computing time of file operations", |s| PostmarkSetUp { cpu: Duration::ZERO, ..s }),
    ("1 ms computing time a file operation", |s| PostmarkSetUp { cpu: Duration::from_millis(1), ..s }),
    ("a cache of 8 MB", |s| PostmarkSetUp { cache_blocks: 2048, ..s }),
    ("the sixth phase measured instead of the second", |s| PostmarkSetUp { phases: 6, ..s }),
    ("4 victims at once", |s| with(s, 4, 16)),
    ("20 victims at once, from 20 free segments down", |s| with(s, 20, 20)),
];

fn with(set_up: PostmarkSetUp, victims: u32, start_below: u32) -> PostmarkSetUp {
    match set_up.strategy {
        Strategy::Original => set_up,
        Strategy::Freeblock(free) => PostmarkSetUp {
            strategy: Strategy::Freeblock(FreeConfig { victims, start_below, ..free }),
            ..set_up
        },
    }
}

/// The runs of both strategies with the same files and the same seed.
struct Pair {
    original: PostmarkRun,
    freeblock: PostmarkRun,
}

impl Pair {
    fn utilisation(&self) -> f64 {
        self.original.utilisation * 100.0
    }

    fn of_ideal(&self) -> f64 {
        self.freeblock.per_second() / self.original.ideal_per_second()
    }

    fn original_of_ideal(&self) -> f64 {
        self.original.per_second() / self.original.ideal_per_second()
    }

    fn gain(&self) -> f64 {
        self.freeblock.per_second() / self.original.per_second()
    }
}

/// The runs at one target utilisation under one assumption, seed by seed.
struct At {
    pairs: Vec<Pair>,
}

impl At {
    fn of(&self, of: impl Fn(&Pair) -> f64) -> Spread {
        spread(&self.pairs, of)
    }

    fn utilisation(&self) -> f64 {
        self.of(Pair::utilisation).mean
    }

    fn original(&self) -> Transaction {
        Transaction::of(self.pairs.iter().map(|p| &p.original))
    }

    fn freeblock(&self) -> Transaction {
        Transaction::of(self.pairs.iter().map(|p| &p.freeblock))
    }
}

/// The utilisations that the second claim names.
const CLAIMED_UTILISATIONS: [f64; 2] = [0.60, 0.85];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let aims: Vec<f64> = lab.pick(
        vec![0.20, 0.60, 0.85, 0.89, 0.93],
        vec![0.04, 0.07, 0.10, 0.20, 0.30, 0.40, 0.50, 0.60, 0.70, 0.80, 0.85, 0.89, 0.93, 0.95],
    );
    let seeds = lab.pick(1, 3);
    let of_claimed = |vary: Vary, seeds: u64| CLAIMED_UTILISATIONS.map(|aim| Wanted { aim, vary, seeds });
    let mut wanted: Vec<Wanted> =
        aims.iter().map(|&aim| Wanted { aim, vary: AS_IN_THE_FIGURE, seeds }).collect();
    wanted.extend(of_claimed(AS_IN_THE_FIGURE, seeds));
    wanted.extend(of_claimed(WRITTEN_BACK, seeds));
    if lab.size() == Size::Full {
        wanted.extend(VARIANTS.iter().flat_map(|(_, vary)| of_claimed(*vary, 1)));
    }
    let drive = one_surface_atlas()?;
    let all = compared(lab, &drive, &wanted)?;
    let (points, rest) = all.split_at(aims.len());
    let (claimed, rest) = rest.split_at(CLAIMED_UTILISATIONS.len());
    let (written_back, variants) = rest.split_at(CLAIMED_UTILISATIONS.len());
    let mut figures = figures(points);
    figures.extend(times(claimed, written_back));
    if !variants.is_empty() {
        figures.push(sensitivity(variants));
    }
    let notes = NOTES.map(String::from).to_vec();
    Ok(Outcome {
        figures,
        claims: claims(points, &why(claimed, written_back, drive.rpm().revolution())),
        notes,
    })
}

/// A point of a curve: a target utilisation under one assumption.
struct Wanted {
    aim: f64,
    vary: Vary,
    seeds: u64,
}

/// Runs both strategies at all points. Equal set-ups are run once.
fn compared(lab: &Lab, drive: &Arc<DriveModel>, wanted: &[Wanted]) -> Result<Vec<At>, LabError> {
    let mut keys: Vec<(f64, u64)> = Vec::new();
    for w in wanted {
        for key in lab.seeds(w.seeds).map(|seed| (w.aim, seed)) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let files = lab.map(&keys, |&(aim, seed)| files_for(aim, TRANSACTIONS, seed))?;
    let strategies = [Strategy::Original, Strategy::Freeblock(FreeConfig::default())];
    let mut set_ups: Vec<PostmarkSetUp> = Vec::new();
    // The indices of set-ups, by point, seed and strategy.
    let mut places: Vec<Vec<[usize; 2]>> = Vec::new();
    for w in wanted {
        let of_seed = |seed: u64| {
            let key = keys.iter().position(|key| *key == (w.aim, seed));
            let files = key.and_then(|i| files.get(i)).copied().unwrap_or_default();
            strategies.map(|strategy| {
                let set_up = (w.vary)(default(strategy, files, seed));
                set_ups.iter().position(|s| *s == set_up).unwrap_or_else(|| {
                    set_ups.push(set_up);
                    set_ups.len() - 1
                })
            })
        };
        places.push(lab.seeds(w.seeds).map(of_seed).collect());
    }
    let runs = lab.map(set_ups, |set_up| run_postmark(drive, set_up))?;
    let pair =
        |[original, freeblock]: [usize; 2]| Pair { original: runs[original], freeblock: runs[freeblock] };
    Ok(places.into_iter().map(|seeds| At { pairs: seeds.into_iter().map(pair).collect() }).collect())
}

const NOTES: [&str; 3] = [
    "IDEAL is computed from the run of ORIGINAL, as in the paper: all cleaning reads and, by blocks, the copies' part of \
     segment writes are taken away. Assumed, because the paper does not say: 300 us of computing a file operation and 100 \
     us before each request (the paper measured real computing times on a Pentium III; while it computes the disk is idle \
     and nothing is cleaned); a cache of 32 MB that writes a changed block when it needs its room, as the paper's cache \
     absorbs everything below 8%; files and cleaning are read block by block, each read waited for; segment writes are \
     waited for; the free cleaner starts below 16 free segments and takes 8 at once. Summaries are in memory as well as \
     on the drive, and not read again to clean. The drive has no read-ahead, no command overhead and no defects: the core \
     is inside it.",
    "Utilisation is that of the file system, mean over the measured phase, against the log's 101,600 data blocks. At the \
     end of every run all files are read back and held byte by byte against what was written; a difference ends the \
     experiment.",
    "The full run changes one assumption at a time (table of assumptions, first seed). How the cleaner reads matters \
     most for what a block costs: by runs, or from the first to the last live block, cleaning hardly slows ORIGINAL at \
     all. How often the cache writes matters most for how many blocks there are to clean. Longer ageing changes little \
     at 60%; at 85%, where two phases have not reached the steady state, six have.",
];

/// Explains by the parts of a transaction's time why ORIGINAL's rate does not fall to the paper's values.
fn why(claimed: &[At], written_back: &[At], revolution: Duration) -> String {
    let ([at_60, at_85], [back_60, back_85]) = (claimed, written_back) else { return String::new() };
    let (t, high) = (at_60.original(), at_85.original());
    let (ideal, ideal_high) = (t.ideal().whole(), high.ideal().whole());
    let revolutions = t.cleaning_reads * revolution.as_millis_f64() + t.writing_copies;
    let (back, free) = (back_85.original(), back_85.freeblock());
    let ratio = |at: &At, of: fn(&Pair) -> f64| at.of(of).mean;
    format!(
        "The cleaner has too little to move, because the cache keeps changes until it needs their room, and many are overwritten \
         or deleted before that: even if each move waited for a whole revolution, ORIGINAL/IDEAL would be {:.2} at 60%. That \
         ratio is IDEAL's time divided by the sum of IDEAL's time and cleaning's. At 60% a transaction of IDEAL takes {ideal:.1} \
         ms, {:.1} of them for {:.1} reads of blocks that miss the cache. It writes {:.1} blocks, for each of which {:.2} \
         are moved: {:.2} blocks of {:.1} ms to read and {:.2} to write, together {:.1} ms where halving takes {ideal:.1}. \
         Whole \
         revolutions would be {revolutions:.1} ms. At 85% cleaning takes {:.1} ms and IDEAL {ideal_high:.1}; quartering takes {:.1}. An \
         experiment shows the cause: with changes written back every 5 s a transaction at 85% writes {:.1} blocks and moves \
         {:.1}, and ORIGINAL is {:.2} of IDEAL at 60% and {:.2} at 85%. But then FREEBLOCK is {:.2} of IDEAL at 85%, so \
         that osdi00-fig7a does not hold: its writes of moved blocks ({:.1}) are not free and take {:.1} ms of {:.1}, and cleaning reads that find no room in gaps take \
         {:.1}. No assumption tried meets both claims. The paper does not say when its cache writes; it says only that the cache \
         absorbs all activity below 8%, which a cache that writes every few seconds does not do.",
        ideal / (ideal + revolutions),
        t.reading,
        t.reads,
        t.fresh,
        t.copies / t.fresh,
        t.copies,
        t.cleaning / t.copies,
        t.writing_copies / t.copies,
        t.cleaned(),
        high.cleaned(),
        3.0 * ideal_high,
        back.fresh,
        back.copies,
        ratio(back_60, Pair::original_of_ideal),
        ratio(back_85, Pair::original_of_ideal),
        ratio(back_85, Pair::of_ideal),
        free.copies,
        free.writing_copies,
        free.whole(),
        free.cleaning,
    )
}

/// Returns the parts of a transaction's time, for each strategy, under the figure's assumptions and with a cache that
/// writes changes back every 5 s.
fn times(claimed: &[At], written_back: &[At]) -> [Figure; 2] {
    let cases = claimed.iter().map(|at| ("", at)).chain(written_back.iter().map(|at| (", 5 s", at)));
    let strategies = cases.flat_map(|(case, at)| {
        let (original, used) = (at.original(), format!("{:.0}%{case}", at.utilisation()));
        [("IDEAL", original.ideal()), ("FREEBLOCK", at.freeblock()), ("ORIGINAL", original)]
            .map(|(strategy, t)| (format!("{strategy} {used}"), t, original.ideal().whole()))
    });
    let strategies: Vec<(String, Transaction, f64)> = strategies.collect();
    let bars =
        strategies.iter().map(|(label, t, _)| Bar { label: label.clone(), values: t.parts().to_vec() });
    let rows = strategies.iter().map(|(label, t, ideal)| {
        let mut row = vec![label.clone()];
        row.extend([t.reads, t.fresh, t.copies, t.cleaning_reads].map(|count| format!("{count:.2}")));
        row.extend(t.parts().map(|ms| format!("{ms:.2}")));
        row.extend([format!("{:.2}", t.whole()), format!("{:.2}", ideal / t.whole())]);
        row
    });
    let mut columns =
        vec!["strategy", "files' blocks read", "blocks written", "blocks moved", "cleaning reads"];
    columns.extend(PARTS);
    columns.extend(["together", "of IDEAL"]);
    let columns = columns.into_iter().map(String::from).collect();
    [
        Figure {
            id: "osdi00-fig7-times".into(),
            title:
                "Where a transaction's time goes; with \"5 s\", when the cache writes changes back every 5 s"
                    .into(),
            x: Axis::new("strategy and utilisation"),
            y: Axis::new("ms a transaction"),
            kind: Kind::Stacked { parts: PARTS.map(String::from).to_vec(), bars: bars.collect() },
        },
        Figure {
            id: "osdi00-fig7-transactions".into(),
            title: "The mean transaction: counts, then ms".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns, rows: rows.collect() },
        },
    ]
}

fn sensitivity(points: &[At]) -> Figure {
    let rows =
        VARIANTS.iter().zip(points.chunks_exact(CLAIMED_UTILISATIONS.len())).map(|((what, _), pair)| {
            let mut row = vec![(*what).to_owned()];
            for p in pair {
                row.push(format!("{:.1}", p.of(|p| p.original.ideal_per_second()).mean));
                row.extend(
                    [Pair::of_ideal, Pair::original_of_ideal, Pair::gain]
                        .map(|of| format!("{:.2}", p.of(of).mean)),
                );
            }
            row
        });
    let columns = [
        "assumption",
        "IDEAL at 60% (tps)",
        "FREEBLOCK / IDEAL",
        "ORIGINAL / IDEAL",
        "FREEBLOCK / ORIGINAL",
        "IDEAL at 85% (tps)",
        "FREEBLOCK / IDEAL",
        "ORIGINAL / IDEAL",
        "FREEBLOCK / ORIGINAL",
    ];
    Figure {
        id: "osdi00-fig7-assumptions".into(),
        title: "Assumptions that the paper leaves open, changed one at a time".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows: rows.collect() },
    }
}

fn figures(points: &[At]) -> Vec<Figure> {
    let line = |label: &str, of: fn(&Pair) -> f64| Line {
        label: label.into(),
        points: points
            .iter()
            .map(|at| {
                let Spread { mean, min, max, .. } = at.of(of);
                Point { x: at.utilisation(), y: mean, spread: Some((min, max)) }
            })
            .collect(),
    };
    let rows = points.iter().map(|at| {
        let tps = |of: fn(&Pair) -> f64| format!("{:.1}", at.of(of).mean);
        let ratio = |of: fn(&Pair) -> f64| format!("{:.3}", at.of(of).mean);
        let count = |of: fn(&Pair) -> u64| format!("{:.0}", at.of(|p| of(p) as f64).mean);
        vec![
            tps(Pair::utilisation),
            tps(|p| p.original.ideal_per_second()),
            tps(|p| p.freeblock.per_second()),
            tps(|p| p.original.per_second()),
            ratio(Pair::of_ideal),
            ratio(Pair::original_of_ideal),
            ratio(|p| p.original.write_cost()),
            ratio(|p| p.freeblock.write_cost()),
            count(|p| p.original.spent.cleaning_reads),
            count(|p| p.freeblock.spent.cleaning_reads),
            count(|p| p.freeblock.spent.free_blocks),
            count(|p| p.original.verified + p.freeblock.verified),
        ]
    });
    let columns = [
        "used %",
        "IDEAL tps",
        "FREEBLOCK tps",
        "ORIGINAL tps",
        "FREEBLOCK / IDEAL",
        "ORIGINAL / IDEAL",
        "blocks written per block, ORIGINAL",
        "the same, FREEBLOCK",
        "foreground cleaning reads, ORIGINAL",
        "the same, FREEBLOCK",
        "blocks read for free",
        "files read back right",
    ];
    vec![
        Figure {
            id: "osdi00-fig7".into(),
            title: "LLD performance for three cleaning strategies".into(),
            x: Axis::between("file system space utilisation (%)", 0.0, 100.0),
            y: Axis::new("transactions a second"),
            kind: Kind::Lines(vec![
                line("IDEAL", |p| p.original.ideal_per_second()),
                line("FREEBLOCK", |p| p.freeblock.per_second()),
                line("ORIGINAL", |p| p.original.per_second()),
            ]),
        },
        Figure {
            id: "osdi00-fig7-numbers".into(),
            title: "The same in numbers, means over the seeds".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows: rows.collect() },
        },
    ]
}

fn claims(points: &[At], why: &str) -> Vec<Claim> {
    let seeds = points.first().map_or(0, |at| at.pairs.len());
    // Returns the spread over seeds of a quantity that is computed from one seed's whole curve.
    let over_seeds = |of: &dyn Fn(&[&Pair]) -> f64| {
        let curve = |seed: usize| points.iter().map(|at| &at.pairs[seed]).collect::<Vec<_>>();
        Spread::of(&(0..seeds).map(|seed| of(&curve(seed))).collect::<Vec<_>>())
    };
    let worst = over_seeds(&|curve| {
        let up_to_90 = curve.iter().filter(|p| p.utilisation() <= 90.0);
        up_to_90.map(|p| p.of_ideal() * 100.0).fold(f64::INFINITY, f64::min)
    });
    let best = over_seeds(&|curve| curve.iter().map(|p| p.gain()).fold(0.0, f64::max));
    let of_ideal = |at| over_seeds(&|curve| between(curve, at, Pair::original_of_ideal));
    let rate = |curve: &[&Pair], at| between(curve, at, |pair| pair.original.per_second());
    let of_its_own = |at| over_seeds(&|curve| rate(curve, at) / rate(curve, OWN_BASE_PERCENT));
    vec![
        Claim::new("osdi00-fig7a", "FREEBLOCK stays close to IDEAL up to 93% capacity used")
            .measure("FREEBLOCK of IDEAL, worst up to 90%", worst, "%", Band::AtLeast(85.0))
            .note(format!(
                "The band ends at 90%. At {}% capacity used FREEBLOCK is {}% of IDEAL.",
                over_seeds(&|curve| curve.last().map_or(f64::NAN, |p| p.utilisation())),
                over_seeds(&|curve| curve.last().map_or(f64::NAN, |p| p.of_ideal() * 100.0)),
            )),
        Claim::new(
            "osdi00-fig7b",
            "ORIGINAL halves at 60% and quarters at 85% capacity (against IDEAL); FREEBLOCK up to 3 x ORIGINAL",
        )
        .measure("ORIGINAL/IDEAL at 60%", of_ideal(60.0), "", HALVED)
        .measure("at 85%", of_ideal(85.0), "", QUARTERED)
        .measure("ORIGINAL at 60% of its own rate at 20%", of_its_own(60.0), "", HALVED)
        .measure("at 85% of that", of_its_own(85.0), "", QUARTERED)
        .measure("best ratio", best, "", Band::AtLeast(2.5))
        .note(why),
    ]
}

/// The utilisation, in percent, at which ORIGINAL's own rate counts as its full rate: the paper does not say which
/// rate is halved and quartered.
const OWN_BASE_PERCENT: f64 = 20.0;
const HALVED: Band = Band::Within(0.4, 0.65);
const QUARTERED: Band = Band::Within(0.15, 0.40);

/// Returns a value at a utilisation, interpolated between the points beside it.
fn between(curve: &[&Pair], at: f64, value: impl Fn(&Pair) -> f64) -> f64 {
    let pair = curve.windows(2).find(|pair| pair[0].utilisation() <= at && at <= pair[1].utilisation());
    match pair {
        Some([a, b]) => {
            let part = (at - a.utilisation()) / (b.utilisation() - a.utilisation()).max(1e-9);
            value(a) + (value(b) - value(a)) * part
        }
        _ => curve
            .iter()
            .min_by(|a, b| (a.utilisation() - at).abs().total_cmp(&(b.utilisation() - at).abs()))
            .map_or(f64::NAN, |p| value(p)),
    }
}
