//! FAST'04, figure 8: replacement and persistence policies of a cache that is cleaned for free.

use crate::cache::{
    CACHE_MB_MAX, CacheSetUp, Daemon, PairedRuns, ReadWriteMix, WindowResult, lower, percent_free,
    run as conduct,
};
use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread,
};
use lab_apps::cache::{Replacement, Syncer};
use units::{Bytes, Duration};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig8",
    paper: Paper::Fast04,
    reproduces: "figure 8",
    title: "Replacement and persistence policies of a cache that is cleaned for free",
    set_up: "As figure 7, with a cache of 512 MB, not scaled with the drive, reads and writes 1:1: LRU, SPTF-Evict and \
             FREE-CLEAN, each with the 30 s syncer and without (NVRAM), each with and without free write-backs. Measured \
             when the cache has been full for a while, over whole periods of the buffer daemon where it comes in \
             bursts. The claim has a buffer daemon that forces two write-backs at a time, as two requests are at the \
             disk queue at all times; beside it one that forces bursts. LRU also with half the cache and with the core \
             outside the drive (FAST'02's noise).",
    claims: &["fast04-fig8"],
    timed: false,
    run,
};

const POLICIES: [(Replacement, &str); 3] = [
    (Replacement::Lru, "LRU"),
    (Replacement::SptfEvict, "SPTF-Evict"),
    (Replacement::FreeClean, "FREE-CLEAN"),
];

/// Whether a syncer runs, and how the buffer daemon writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    Syncer,
    Nvram,
    NvramTwoAtATime,
}

/// The index of the claim's daemon in [`PERSISTENCE`].
const TWO_AT_A_TIME_INDEX: usize = 2;
const PERSISTENCE: [(Persistence, &str); 3] = [
    (Persistence::Syncer, "syncer"),
    (Persistence::Nvram, "no syncer, daemon in bursts"),
    (Persistence::NvramTwoAtATime, "no syncer, daemon two at a time"),
];

/// The size of the cache. The paper keeps it fixed, so it does not shrink with the drive as the sizes of figure 7 do.
const CACHE: Bytes = Bytes::new(CACHE_MB_MAX << 20);

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let seeds = lab.pick(1, 2);
    let set_up = |persistence: Persistence, replacement: Replacement, seed: u64| CacheSetUp {
        replacement,
        cache: CACHE,
        syncer: (persistence == Persistence::Syncer).then(Syncer::default),
        daemon: if persistence == Persistence::NvramTwoAtATime { Daemon::AtATime(2) } else { Daemon::Burst },
        // After some 440 s the cache is full, and the daemon runs.
        warm_up: Duration::from_secs(lab.pick(500, 800)),
        window: Duration::from_secs(lab.pick(200, 1_200)),
        ..CacheSetUp::new(&drive, seed)
    };
    let cells = || PERSISTENCE.iter().flat_map(|p| POLICIES.iter().map(move |r| (p.0, r.0)));
    // Without free write-backs FREE-CLEAN has nothing to prefer and is the same as LRU.
    let fellows =
        cells().map(|(p, r)| if r == Replacement::FreeClean { (p, Replacement::Lru) } else { (p, r) });
    let mut wanted: Vec<(Persistence, Replacement, bool)> = cells().map(|(p, r)| (p, r, true)).collect();
    let first_without = wanted.len();
    wanted.extend(PERSISTENCE.iter().flat_map(|p| POLICIES[..2].iter().map(move |r| (p.0, r.0, false))));
    let runs = lab.map_seeds(wanted.iter().copied(), seeds, |&(persistence, replacement, free), seed| {
        let set_up = set_up(persistence, replacement, seed);
        conduct(&if free { set_up } else { set_up.without() })
    })?;
    let reads_only = lab.map_seeds([ReadWriteMix { reads: 1, writes: 0 }], seeds, |&load, seed| {
        let (warm_up, window) = (Duration::ZERO, Duration::from_secs(100));
        conduct(&CacheSetUp { load, warm_up, window, ..CacheSetUp::new(&drive, seed).without() })
    })?;
    let halved = lab.map_seeds([Persistence::NvramTwoAtATime], seeds, |&persistence, seed| {
        let base = set_up(persistence, Replacement::Lru, seed);
        conduct(&CacheSetUp {
            cache: Bytes::new(CACHE.get() / 2),
            warm_up: base.warm_up / 2,
            window: base.window / 2,
            ..base
        })
    })?;
    let reads_only_outside =
        lab.map_seeds([ReadWriteMix { reads: 1, writes: 0 }], seeds, |&load, seed| {
            let (warm_up, window) = (Duration::ZERO, Duration::from_secs(100));
            conduct(
                &CacheSetUp { load, warm_up, window, ..CacheSetUp::new(&drive, seed).without() }.outside()?,
            )
        })?;
    let outside = lab.map_seeds([true, false], seeds, |&free, seed| {
        let set_up = set_up(Persistence::NvramTwoAtATime, Replacement::Lru, seed).outside()?;
        conduct(&if free { set_up } else { set_up.without() })
    })?;
    let outside: Vec<PairedRuns> = match outside.as_slice() {
        [free, without] => PairedRuns::of(free, without),
        _ => Vec::new(),
    };
    let pairs: Vec<Vec<PairedRuns>> = fellows
        .zip(&runs)
        .map(|((persistence, replacement), free)| {
            let fellow = wanted[first_without..]
                .iter()
                .position(|(p, r, _)| (*p, *r) == (persistence, replacement))
                .unwrap_or_default();
            PairedRuns::of(free, &runs[first_without + fellow])
        })
        .collect();
    let of = |persistence: usize, policy: usize| pairs[persistence * POLICIES.len() + policy].as_slice();
    let less = |persistence: usize, more: usize, fewer: usize| {
        let differences: Vec<f64> = of(persistence, more)
            .iter()
            .zip(of(persistence, fewer))
            .map(|(a, b)| a.free.free - b.free.free)
            .collect();
        Spread::of(&differences)
    };
    // The band excludes zero, because the paper claims an order and no tie.
    let order = Band::Above(0.0);
    let claim = Claim::new(
        "fast04-fig8",
        "no syncer (NVRAM): almost all flushes free, read response almost 50% lower; SPTF-Evict worst; FREE-CLEAN best by a \
         little",
    )
    .measure("free without syncer, LRU", percent_free(of(TWO_AT_A_TIME_INDEX, 0)), "%", Band::AtLeast(90.0))
    .measure("free without syncer, FREE-CLEAN", percent_free(of(TWO_AT_A_TIME_INDEX, 2)), "%", Band::AtLeast(90.0))
    .measure("read response lower without syncer, LRU", lower(of(TWO_AT_A_TIME_INDEX, 0)), "%", Band::AtLeast(35.0))
    .measure("without syncer: FREE-CLEAN above LRU by", less(TWO_AT_A_TIME_INDEX, 2, 0), " points", order)
    .measure("without syncer: LRU above SPTF-Evict by", less(TWO_AT_A_TIME_INDEX, 0, 1), " points", order)
    .measure("with syncer: FREE-CLEAN above LRU by", less(0, 2, 0), " points", order)
    .measure("with syncer: LRU above SPTF-Evict by", less(0, 0, 1), " points", order)
    .measure("outside the drive: free without syncer, LRU", percent_free(&outside), "%", Band::AtLeast(90.0))
    .measure("outside the drive: read response lower without syncer, LRU", lower(&outside), "%", Band::AtLeast(35.0))
    .note(format!(
        "{} {} {}",
        note(reads_only.first().map_or(&[], Vec::as_slice), of(1, 0), of(TWO_AT_A_TIME_INDEX, 0), halved.first().map_or(&[], Vec::as_slice)),
        ties(of(0, 0), of(0, 1), less(0, 0, 1)),
        why_outside(reads_only_outside.first().map_or(&[], Vec::as_slice), &outside),
    ));
    let stacked = |id: &str, title: &str, y: Axis, value: fn(&[PairedRuns]) -> Spread| {
        let bar = |(p, (_, when)): (usize, &(Persistence, &str)),
                   (r, (_, name)): (usize, &(Replacement, &str))| {
            Bar { label: format!("{name}, {when}"), values: vec![value(of(p, r)).mean] }
        };
        let bars = PERSISTENCE
            .iter()
            .enumerate()
            .filter(|(_, (persistence, _))| *persistence != Persistence::Nvram)
            .flat_map(|p| POLICIES.iter().enumerate().map(move |r| bar(p, r)));
        Figure {
            id: id.into(),
            title: title.into(),
            x: Axis::new("policy"),
            y: y.clone(),
            kind: Kind::Stacked { parts: vec![y.label], bars: bars.collect() },
        }
    };
    let mut rows = Vec::new();
    for (p, (_, when)) in PERSISTENCE.iter().enumerate() {
        for (r, (_, name)) in POLICIES.iter().enumerate() {
            rows.push(row(name, when, of(p, r)));
        }
    }
    rows.push(row("LRU", "no syncer, daemon two at a time, outside the drive", &outside));
    let figures = vec![
        stacked(
            "fast04-fig8a",
            "Cleaned for free",
            Axis::between("share of all write-backs (%)", 0.0, 100.0),
            percent_free,
        ),
        stacked(
            "fast04-fig8b",
            "Reduction of reads' response time by free write-backs",
            Axis::new("lower mean response (%)"),
            lower,
        ),
        Figure {
            id: "fast04-fig8-all".into(),
            title: "Policies; forced write-backs a second by cause".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: COLUMNS.map(String::from).to_vec(), rows },
        },
    ];
    let notes = vec![
        "With a syncer what is dirty is at most 30 s old, the least recently used buffer older, so that policies differ in \
         what is cleaned for free only by the hits that they have."
            .to_owned(),
    ];
    Ok(Outcome { figures, claims: vec![claim], notes })
}

const COLUMNS: [&str; 13] = [
    "policy",
    "persistence",
    "free %",
    "read ms",
    "without free write-backs",
    "lower %",
    "by the syncer",
    "by the daemon",
    "for room",
    "most dirty",
    "gaps used %",
    "unused %",
    "empty %",
];

fn row(name: &str, when: &str, runs: &[PairedRuns]) -> Vec<String> {
    let [syncer, daemon, room] =
        [0, 1, 2].map(|cause| spread(runs, |pair| pair.free.forced_per_s[cause]).to_string());
    vec![
        name.to_owned(),
        when.to_owned(),
        percent_free(runs).to_string(),
        spread(runs, |pair| pair.free.response_ms).to_string(),
        spread(runs, |pair| pair.without.response_ms).to_string(),
        lower(runs).to_string(),
        syncer,
        daemon,
        room,
        spread(runs, |pair| pair.free.dirty_max as f64).to_string(),
        spread(runs, |pair| pair.free.gaps.used_percent()).to_string(),
        spread(runs, |pair| pair.free.gaps.closed_percent()).to_string(),
        spread(runs, |pair| pair.free.gaps.empty_percent()).to_string(),
    ]
}

/// Explains why with a syncer SPTF-Evict is no worse than LRU.
fn ties(lru: &[PairedRuns], evict: &[PairedRuns], above: Spread) -> String {
    let for_room = |runs: &[PairedRuns]| spread(runs, |pair| pair.free.forced_per_s[2]);
    format!(
        "With the syncer, LRU {}: SPTF-Evict differs from it only by the dirty buffers that make room, and these are {} \
         a second, with LRU {}. The paper's is worse with a syncer too.",
        match (above.min, above.max) {
            (0.0, 0.0) => "and SPTF-Evict are the same to the last digit".to_owned(),
            _ => format!("is above SPTF-Evict by {above} points"),
        },
        for_room(evict),
        for_room(lru)
    )
}

/// Explains the results of LRU without a syncer and with the core outside the drive.
fn why_outside(reads_only: &[WindowResult], runs: &[PairedRuns]) -> String {
    let alone = spread(reads_only, |r| r.response_ms).mean;
    let without = spread(runs, |pair| pair.without.response_ms).mean;
    let of = |value: fn(&WindowResult) -> f64| spread(runs, |pair| value(&pair.free)).mean;
    format!(
        "Outside the drive, write-backs that are not free are forced by the daemon ({:.1} a second) or for room ({:.1}), and out of a \
         hundred gaps \
         {:.0} are used, {:.0} unused ({:.0} because of the harm of detours), {:.0} hold no dirty buffer; reads take {without:.1} ms \
         without free write-backs and {alone:.1} ms where nothing is written, so that no cleaner could take off more than {:.1}%.",
        of(|r| r.forced_per_s[1]),
        of(|r| r.forced_per_s[2]),
        of(|r| r.gaps.used_percent()),
        of(|r| r.gaps.closed_percent()),
        of(|r| r.gaps.for_harm_percent()),
        of(|r| r.gaps.empty_percent()),
        (1.0 - alone / without) * 100.0,
    )
}

fn note(
    reads_only: &[WindowResult],
    burst: &[PairedRuns],
    two: &[PairedRuns],
    halved: &[WindowResult],
) -> String {
    let alone = spread(reads_only, |r| r.response_ms).mean;
    let without = |runs: &[PairedRuns]| spread(runs, |pair| pair.without.response_ms).mean;
    let forced = |cause: usize| spread(two, |pair| pair.free.forced_per_s[cause]);
    format!(
        "Without a syncer, LRU's write-backs that are not free are forced by the daemon ({} a second) or write a dirty buffer \
         that has to make room ({} a second), which depends on how long the cache keeps a buffer: with half of the cache {}% \
         are free. Reads take {:.1} ms without free write-backs, and {alone:.1} ms where nothing is ever written, so no cleaner \
         could make them faster by more than {:.1}%. If the daemon forces a quarter of the cache at once (the paper's daemon \
         writes \"in large bursts\"), SPTF makes these writes cheap: reads take {:.1} ms without free write-backs and {}% less \
         with them, and {}% of the write-backs are free.",
        forced(1),
        forced(2),
        spread(halved, |r| r.free),
        without(two),
        (1.0 - alone / without(two)) * 100.0,
        without(burst),
        lower(burst),
        percent_free(burst),
    )
}
