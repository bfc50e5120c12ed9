//! The cost to a scheduler outside the drive of each difference between the drive and its profile: one switch of the
//! black box at a time.

use crate::outside::{Measured, POLICIES, Trial, exact, percent_of, slower};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread,
};
use drive::Behaviour;
use scheduler::{Conservatism, OutsideConfig, Overheads};
use units::Duration;
use workload::random::Share;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-switches",
    paper: Paper::Fast02,
    reproduces: "no result of the paper, whose section 3 names the behaviours that are hard to predict, but not the cost of each",
    title: "Cost of each behaviour of a drive to a scheduler outside it",
    set_up: "Atlas 10K as a black box that differs from its profile in one thing at a time; OLTP, MPL 10, SPTF; a scan of the \
             whole disk in blocks of 4 KB (quick: its first 12,000 requests). All ideas, with a constant 0.05 ms and without \
             a bound on harm, and as they are by default, with harm below 1%. Once more with a foreground of which half the \
             requests read on behind the one before, where a drive's buffer has something to offer.",
    claims: &["fast02-switches"],
    timed: false,
    run,
};

/// A drift faster than the default noise's. The default spindle begins at its nominal speed and drifts by at most one
/// revolution a minute every five seconds, hardly a tenth of its limit of half a percent in runs of this length; this
/// drift covers most of that limit in half a minute.
const FAST_DRIFT: &str = "drift=5000:20ms";

/// Bad sectors, each of which the drive tries for eight revolutions. How many of them detours meet is random: in the
/// quick size the foreground is between half a percent and one and a half slower depending on the seed, so that only
/// the mean of a dozen seeds can be compared with the bound.
const BAD_SECTORS: &str = "bad_sectors=1000:8";

/// The differences between the drive and [`exact`], by the names of its switches (docs/MODEL.md, section 8).
const RANDOM: [&str; 23] = [
    "",
    "seek_spread",
    "late_settles",
    "missed_landings_ppm",
    "seek_ageing_ppm=20000",
    "drift",
    FAST_DRIFT,
    "recalibration",
    "grown_defects=1000",
    "command_percent=0",
    "completion_overhead=300us",
    "command_spread",
    "completion_spread",
    "bus_sector=off",
    "overlap_percent",
    "buffer=off",
    "read_ahead",
    "read_ahead,eager_read_ahead",
    "write_back",
    "queue=off",
    "queue=fcfs:64",
    "queue=sptf:2",
    "fast02",
];

/// The differences that are tried under the load of which half is sequential.
const FOLLOWED: [&str; 6] =
    ["", "buffer=off", "read_ahead", "read_ahead,eager_read_ahead", "write_back", "fast02"];

/// Returns the behaviour that these words describe.
fn behaviour_of(words: &str) -> Result<Behaviour, LabError> {
    if words == "fast02" {
        return Ok(Behaviour::fast02());
    }
    let mut behaviour = exact();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        behaviour.set(word).map_err(|e| LabError::new("a black box", e))?;
    }
    Ok(behaviour)
}

fn unbounded(overheads: Overheads, margin: Duration) -> OutsideConfig {
    OutsideConfig::beyond(overheads).with_harm_ppm(None).with_conservatism(Conservatism::Constant(margin))
}

/// Returns a row's runs: without a scan, with a scan and no bound on harm, and with a scan and the default bound.
fn trials(paper: Trial) -> [Trial; 3] {
    [
        Trial { scan: false, outside: Some(unbounded), ..paper },
        Trial { outside: Some(unbounded), ..paper },
        Trial { outside: Some(|o, _| OutsideConfig::beyond(o)), ..paper },
    ]
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let half = Share::new(1, 2).map_err(|e| LabError::new("a sequential load", e))?;
    let mut claim = Claim::new(
        "fast02-switches",
        "no claim of the paper's: whatever a drive does, the foreground is to be less than 1% slower",
    );
    let (mut notes, mut bars, mut worst) = (Vec::new(), Vec::new(), Vec::new());
    let few = lab.pick(1, 3);
    for (load, name, rows, seeds) in [
        (Share::NONE, "OLTP", &RANDOM[..], few),
        (Share::NONE, "OLTP", &[BAD_SECTORS][..], lab.pick(12, 3)),
        (half, "half of it sequential", &FOLLOWED[..], few),
    ] {
        let requests = lab.pick(12_000, 200_000);
        let paper =
            Trial { followed: load, ..Trial::paper(POLICIES[0].0, Duration::from_micros(50), requests) };
        let mut all = vec![Trial { outside: None, ..paper }];
        for words in rows {
            all.extend(trials(Trial { behaviour: behaviour_of(words)?, ..paper }));
        }
        let runs = lab.map_seeds(all, seeds, |trial, seed| trial.run(seed))?;
        let Some((inside, outside)) = runs.split_first() else { continue };
        let mut said = Vec::new();
        for (runs, words) in outside.chunks(3).zip(rows) {
            let [without, with, bounded] = runs else { continue };
            let share = |runs: &[Measured]| percent_of(runs, inside, Measured::mb_per_s);
            let words = if words.is_empty() { "exact" } else { words };
            let harm = slower(bounded, without);
            said.push(format!(
                "{words}: {}%, the foreground {}% slower than {:.1} ms; harm below 1%: {}%, {harm}% slower, by the account {:.2}%",
                share(with),
                slower(with, without),
                spread(without, Measured::response_ms).mean,
                share(bounded),
                spread(bounded, |m| m.harm).mean,
            ));
            bars.push(Bar { label: format!("{name}: {words}"), values: vec![share(bounded).mean] });
            worst.push((harm, format!("{name}: {words}"), spread(bounded, |m| m.harm).mean));
        }
        notes.push(format!(
            "{name}, of the in-drive {:.2} MB/s: {}.",
            spread(inside, Measured::mb_per_s).mean,
            said.join("; ")
        ));
    }
    worst.sort_by(|(a, ..), (b, ..)| b.mean.total_cmp(&a.mean));
    // The row of bad sectors is nearest to the bound and has a measure of its own, so that it cannot hide another
    // row.
    let at_worst = |bad: bool| {
        let row = worst.iter().find(|(_, row, _)| row.ends_with(BAD_SECTORS) == bad);
        row.map_or(Spread::of(&[]), |(harm, ..)| *harm)
    };
    let bounded = "foreground slower with harm below 1%";
    claim = claim.measure(&format!("{bounded}, at worst"), at_worst(false), "%", Band::AtMost(1.0)).measure(
        &format!("{bounded}, over bad sectors"),
        at_worst(true),
        "%",
        Band::AtMost(1.0),
    );
    claim.note = why(&worst);
    let figure = Figure {
        id: "fast02-switches".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("one switch at a time, harm below 1%"),
        y: Axis::between("% of the in-drive free bandwidth", 0.0, 100.0),
        kind: Kind::Stacked { parts: vec!["free bandwidth".into()], bars },
    };
    Ok(Outcome { figures: vec![figure], claims: vec![claim], notes })
}

/// Describes the rows over the bound with their estimates of harm, and the worst of the other rows.
fn why(worst_first: &[(Spread, String, f64)]) -> String {
    let over = worst_first.iter().take_while(|(harm, ..)| harm.mean > 1.0);
    let said: Vec<String> = over
        .map(|(harm, row, account)| format!("{row}, {harm}% slower, by the account {account:.2}%"))
        .collect();
    let mut why = Vec::new();
    if !said.is_empty() {
        why.push(format!("Over it: {}.", said.join("; ")));
    }
    if let Some((harm, row, _)) = worst_first.get(said.len()) {
        why.push(format!("The worst of the rows within it: {row}, {harm}% slower."));
    }
    why.join(" ")
}
