//! FAST'04, figure 7: the share of a write-back cache that is cleaned for free, and the effect on reads.

use crate::cache::{CacheSetUp, PairedRuns, ReadWriteMix, lower, percent_free, run as conduct, scaled};
use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use lab_apps::cache::Syncer;
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig7",
    paper: Paper::Fast04,
    reproduces: "figure 7",
    title: "Free cache cleaning with LRU and a syncer",
    set_up: "Atlas 10K, SPTF. It has half the capacity of the paper's drive (18 GB), so each cache is half of what it is \
             called by, which is its size in the paper: 512 MB are 256. A \
             client with two calls at all times, each of 4 KB, anywhere, reads and writes at a ratio, above a \
             write-back cache: LRU, watermarks at a half and a quarter of the buffers, a syncer that looks every second \
             for what will be 30 s old. The same calls with and without free write-backs, for 3 minutes after 3 \
             minutes. A call that the cache answers takes no time. At 1:1 with 512 MB once more with the core outside the drive \
             (FAST'02's noise).",
    claims: &["fast04-fig7"],
    timed: false,
    run,
};

/// Ratios of reads to writes, from the left of the paper's figure, as far as the paper's text names them.
const RATIOS: [ReadWriteMix; 5] = [
    ReadWriteMix { reads: 1, writes: 3 },
    ONE_TO_TWO,
    EVEN,
    ReadWriteMix { reads: 2, writes: 1 },
    ReadWriteMix { reads: 3, writes: 1 },
];
const ONE_TO_TWO: ReadWriteMix = ReadWriteMix { reads: 1, writes: 2 };
const EVEN: ReadWriteMix = ReadWriteMix { reads: 1, writes: 1 };
const ALL_WRITES: ReadWriteMix = ReadWriteMix { reads: 0, writes: 1 };

/// Sizes of caches in MB, for the paper's drive; the paper's text names only the last.
const CACHE_SIZES_MB: [u64; 3] = [16, 128, 512];

/// The band of a difference that must not be negative.
const ORDER: Band = Band::AtLeast(0.0);

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let ratios = RATIOS.to_vec();
    let caches = lab.pick(vec![512], CACHE_SIZES_MB.to_vec());
    // Buffers that become dirty in one half minute are written in the next, so times are whole minutes.
    let time = Duration::from_secs(lab.pick(120, 180));
    let set_up = |megabytes: u64, load: ReadWriteMix, seed: u64| CacheSetUp {
        load,
        cache: scaled(megabytes),
        warm_up: time,
        window: time,
        ..CacheSetUp::new(&drive, seed)
    };
    let cells = caches.iter().flat_map(|mb| ratios.iter().map(move |load| (*mb, *load)));
    let pairs = lab
        .map_seeds(cells, lab.pick(1, 3), |&(megabytes, load), seed| pair(&set_up(megabytes, load, seed)))?;
    let by_cache: Vec<&[Vec<PairedRuns>]> = pairs.chunks(ratios.len()).collect();
    // A load of writes alone has no response times of reads. The cache takes its writes as fast as the drive empties
    // buffers, so a short run is enough.
    let no_reads = lab.map_seeds(lab.pick(vec![16], caches.clone()), 1, |&megabytes, seed| {
        let short = Duration::from_secs(2);
        conduct(&CacheSetUp { warm_up: short, window: short, ..set_up(megabytes, ALL_WRITES, seed) })
    })?;
    let bursts = lab.map_seeds(lab.pick(vec![EVEN], RATIOS[1..].to_vec()), 1, |&load, seed| {
        let every = Duration::from_secs(30);
        pair(&CacheSetUp { syncer: Some(Syncer { every, ..Syncer::default() }), ..set_up(512, load, seed) })
    })?;
    let outside =
        lab.map_seeds([EVEN], lab.pick(1, 3), |&load, seed| pair(&set_up(512, load, seed).outside()?))?;
    let outside = outside.first().map_or(&[][..], Vec::as_slice);
    let largest = *by_cache.last().unwrap_or(&&[][..]);
    let even = ratios.iter().position(|load| *load == EVEN).unwrap_or_default();
    let free: Vec<f64> = largest.iter().map(|runs| percent_free(runs).mean).collect();
    let gain: Vec<f64> = largest.iter().map(|runs| lower(runs).mean).collect();
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let rise = least(&mut free.windows(2).map(|w| w[1] - w[0]));
    let few = ratios.iter().position(|load| *load == ONE_TO_TWO).unwrap_or_default();
    let falls = gain.get(few).copied().unwrap_or(f64::NAN) - gain.last().copied().unwrap_or(f64::NAN);
    let at = |of: fn(&[PairedRuns]) -> Spread| largest.get(even).map_or(Spread::of(&[]), |runs| of(runs));
    let claim = Claim::new(
        "fast04-fig7",
        "share cleaned for free rises with reads; about 80% at high read share, 30-55% at 1:3-1:1; read response 12-30% lower",
    )
    .measure("cleaned for free at 1:1, 512 MB", at(percent_free), "%", Band::AtLeast(25.0))
    .measure("read response lower at 1:1, 512 MB", at(lower), "%", Band::AtLeast(10.0))
    .measure("free share rises from ratio to ratio by, at least", rise, " points", ORDER)
    .measure("read response lower at any ratio by, at least", least(&mut gain.iter().copied()), "%", ORDER)
    .measure("gain at 1:2 above that at 3:1 by", falls, " points", ORDER)
    .measure("outside the drive: cleaned for free at 1:1, 512 MB", percent_free(outside), "%", Band::AtLeast(25.0))
    .measure("outside the drive: read response lower at 1:1, 512 MB", lower(outside), "%", Band::AtLeast(10.0))
    .note(note(lab, largest, &ratios, &bursts));
    let mut rows = Vec::new();
    for (megabytes, none) in lab.pick(vec![16], caches.clone()).into_iter().zip(&no_reads) {
        let dash = || "-".to_owned();
        rows.push(vec![
            format!("{megabytes} MB"),
            label(ALL_WRITES),
            "1 s".into(),
            spread(none, |r| r.free).to_string(),
            spread(none, |r| r.in_gaps).to_string(),
            dash(),
            dash(),
            dash(),
            spread(none, |r| r.dirty_max as f64).to_string(),
        ]);
    }
    for (megabytes, cells) in caches.iter().zip(&by_cache) {
        rows.extend(ratios.iter().zip(*cells).map(|(load, runs)| row(*megabytes, *load, "1 s", runs)));
    }
    let of_bursts = lab.pick(vec![EVEN], RATIOS[1..].to_vec());
    rows.extend(of_bursts.iter().zip(&bursts).map(|(load, runs)| row(512, *load, "30 s", runs)));
    rows.push(row(512, EVEN, "1 s, outside the drive", outside));
    let lines = |value: fn(&[PairedRuns]) -> Spread| {
        let line = |(megabytes, cells): (&u64, &&[Vec<PairedRuns>])| Line {
            label: format!("{megabytes} MB"),
            points: ratios.iter().zip(*cells).map(|(load, runs)| point(*load, value(runs))).collect(),
        };
        Kind::Lines(caches.iter().zip(&by_cache).map(line).collect())
    };
    let x = || Axis::between("reads among the client's calls (%)", 0.0, 100.0);
    let figures = vec![
        Figure {
            id: "fast04-fig7a".into(),
            title: "Cleaned for free".into(),
            x: x(),
            y: Axis::between("share of all write-backs (%)", 0.0, 100.0),
            kind: lines(percent_free),
        },
        Figure {
            id: "fast04-fig7b".into(),
            title: "Reduction of reads' response time by free write-backs".into(),
            x: x(),
            y: Axis::new("lower mean response (%)"),
            kind: lines(lower),
        },
        Figure {
            id: "fast04-fig7-all".into(),
            title: "Cache sizes, ratios, and how often the syncer looks".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: COLUMNS.map(String::from).to_vec(), rows },
        },
    ];
    let notes = vec![
        "A write-back counts as free if nothing had forced it when the head took it. A forced write-back may still come in a gap before \
         it is due; the table's \"in gaps\" counts these as well. Read response is the mean over reads that had to \
         wait for the drive."
            .to_owned(),
    ];
    Ok(Outcome { figures, claims: vec![claim], notes })
}

const COLUMNS: [&str; 9] = [
    "cache",
    "reads : writes",
    "syncer looks every",
    "free %",
    "in gaps %",
    "read ms",
    "without free write-backs",
    "lower %",
    "most dirty",
];

fn pair(set_up: &CacheSetUp) -> Result<PairedRuns, LabError> {
    Ok(PairedRuns { free: conduct(set_up)?, without: conduct(&set_up.without())? })
}

fn label(load: ReadWriteMix) -> String {
    format!("{} : {}", load.reads, load.writes)
}

fn point(load: ReadWriteMix, y: Spread) -> Point {
    let x = 100.0 * load.reads as f64 / (load.reads + load.writes) as f64;
    Point { x, y: y.mean, spread: Some((y.min, y.max)) }
}

fn row(megabytes: u64, load: ReadWriteMix, every: &str, runs: &[PairedRuns]) -> Vec<String> {
    vec![
        format!("{megabytes} MB"),
        label(load),
        every.into(),
        percent_free(runs).to_string(),
        spread(runs, |pair| pair.free.in_gaps).to_string(),
        spread(runs, |pair| pair.free.response_ms).to_string(),
        spread(runs, |pair| pair.without.response_ms).to_string(),
        lower(runs).to_string(),
        spread(runs, |pair| pair.free.dirty_max as f64).to_string(),
    ]
}

fn note(
    lab: &Lab,
    largest: &[Vec<PairedRuns>],
    ratios: &[ReadWriteMix],
    bursts: &[Vec<PairedRuns>],
) -> String {
    let each = |of: fn(&[PairedRuns]) -> Spread| {
        let each =
            |(load, runs): (&ReadWriteMix, &Vec<PairedRuns>)| format!("{} at {}", of(runs), label(*load));
        ratios.iter().zip(largest).map(each).collect::<Vec<_>>().join(", ")
    };
    let saved: Vec<String> = ratios
        .iter()
        .zip(largest)
        .map(|(load, runs)| {
            let writes = load.writes as f64 / (load.reads + load.writes) as f64;
            format!("{:.1} at {}", writes * percent_free(runs).mean, label(*load))
        })
        .collect();
    let at = lab.pick(0, RATIOS[1..].iter().position(|load| *load == EVEN).unwrap_or_default());
    let burst = bursts.get(at).map_or(String::new(), |runs| {
        format!(
            " The paper does not say how often the syncer looks. If it looks every 30 s, it writes all dirty buffers in \
             one burst, SPTF makes these writes cheap, and at 1:1 {}% are free and reads take {}% less.",
            percent_free(runs),
            lower(runs)
        )
    });
    format!(
        "The calls that are saved are the share of writes times the share of write-backs that are free, so the gain can fall, \
         as the paper's does beyond 1:2, only where nearly all write-backs are free already. \
         With 512 MB: percent of write-backs free: {}; read response lower by percent: {}; calls saved of a hundred: {}.{burst}",
        each(percent_free),
        each(lower),
        saved.join(", ")
    )
}
