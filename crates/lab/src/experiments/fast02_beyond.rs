//! Beyond FAST'02: how much of what the drive itself would get can be had from outside, idea by idea.

use crate::outside::{Measured, POLICIES, Trial, exact, hundredths, percent_of, slower};
use crate::{Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, spread};
use drive::Behaviour;
use scheduler::{Neighbours, OutsideConfig, Overheads};
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-beyond",
    paper: Paper::Fast02,
    reproduces: "nothing of the paper: what goes beyond its section 5.3",
    title: "Free bandwidth outside the drive beyond the paper's scheduler",
    set_up: "Atlas 10K as a black box with the default noise; OLTP, MPL 10; a scan of the whole disk in blocks of 4 KB \
             (quick: its first 25,000 requests). The paper's scheduler at 0.3 ms, then each idea on top of those before.",
    claims: &["fast02-beyond"],
    timed: false,
    run,
};

type Idea = (&'static str, fn(Overheads, Duration) -> OutsideConfig);

/// Conservatism of the ideas that are tried with a constant.
const CLOSE: Duration = Duration::from_micros(100);

const IDEAS: [Idea; 7] = [
    ("paper, 0.3 ms", OutsideConfig::paper),
    ("neighbours learned", |o, c| OutsideConfig {
        neighbours: Neighbours::Learned,
        ..OutsideConfig::paper(o, c)
    }),
    ("late bus allowed for", late_bus),
    ("merged behind detours", |o, c| OutsideConfig { merge_after: true, ..late_bus(o, c) }),
    ("0.1 ms", |o, _| OutsideConfig { merge_after: true, ..late_bus(o, CLOSE) }),
    ("margins learned, harm below 2%", |o, _| OutsideConfig {
        harm_ppm: Some(20_000),
        ..OutsideConfig::beyond(o)
    }),
    ("margins learned, harm below 1%", |o, _| OutsideConfig::beyond(o)),
];

fn late_bus(overheads: Overheads, conservatism: Duration) -> OutsideConfig {
    OutsideConfig {
        neighbours: Neighbours::Learned,
        late_bus: true,
        ..OutsideConfig::paper(overheads, conservatism)
    }
}

/// What may be different on a drive that is exact but for one thing.
type Noise = (&'static str, fn(Behaviour) -> Behaviour);

const NOISES: [Noise; 7] = [
    ("nothing", |drive| drive),
    ("seeks spread", |drive| Behaviour { seek_spread: Behaviour::noisy().seek_spread, ..drive }),
    ("late settles", |drive| Behaviour { late_settles: Behaviour::noisy().late_settles, ..drive }),
    ("missed landings", |drive| Behaviour {
        missed_landings_ppm: Behaviour::noisy().missed_landings_ppm,
        ..drive
    }),
    ("drift and recalibration", |drive| Behaviour {
        drift: Behaviour::noisy().drift,
        recalibration: Behaviour::noisy().recalibration,
        ..drive
    }),
    ("overlap of the bus", |drive| Behaviour {
        overlap_percent: Behaviour::noisy().overlap_percent,
        ..drive
    }),
    ("eager read-ahead", |drive| Behaviour { read_ahead: None, eager_read_ahead: true, ..drive }),
];

/// Where the rest goes, policy SPTF-SW60%: an exact drive without any margin, then one noise at a time at 0.1 ms.
fn accounting(lab: &Lab, requests: u64) -> Result<String, LabError> {
    let close: fn(Overheads, Duration) -> OutsideConfig =
        |o, c| OutsideConfig { merge_after: true, ..late_bus(o, c) };
    let paper = Trial::paper(POLICIES[1].0, CLOSE, requests);
    let on = |behaviour| Trial { behaviour, outside: Some(close), ..paper };
    let mut trials = vec![
        Trial { outside: None, ..paper },
        Trial { behaviour: exact(), scan: false, ..paper },
        Trial { conservatism: Duration::ZERO, ..on(exact()) },
    ];
    trials.extend(NOISES.map(|(_, noise)| on(noise(exact()))));
    let runs = lab.map_seeds(trials, lab.pick(1, 3), |trial, seed| trial.run(seed))?;
    let [inside, without, none, noisy @ ..] = &runs[..] else { return Ok(String::new()) };
    let gaps = |runs: &[Measured]| spread(runs, |m| m.report.foreground.iops);
    let share = |runs: &[Measured]| percent_of(runs, inside, Measured::mb_per_s);
    let each = noisy
        .iter()
        .zip(NOISES)
        .map(|(runs, (name, _))| format!("{name} {}% at {}% slower", share(runs), slower(runs, without)));
    Ok(format!(
        "Where the rest goes, with {}: an exact drive without any margin yields {}%, since with two commands at the drive the \
         next request is chosen while another is served ({} requests a second without a scan, {} in the drive) and a command \
         that follows another begins no sooner than its own overhead allows. With a margin of 0.1 ms and one noise at a time: \
         {}.",
        POLICIES[1].1,
        share(none),
        gaps(without),
        gaps(inside),
        each.collect::<Vec<_>>().join("; "),
    ))
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let requests = lab.pick(25_000, 1_000_000);
    let mut trials = Vec::new();
    for (policy, _) in POLICIES {
        let paper = Trial::paper(policy, hundredths(30), requests);
        trials.push(Trial { outside: None, ..paper });
        trials.push(Trial { scan: false, requests: lab.pick(25_000, 200_000), ..paper });
        trials.extend(IDEAS.map(|(_, outside)| Trial { outside: Some(outside), ..paper }));
    }
    let runs = lab.map_seeds(trials, lab.pick(2, 3), |trial, seed| trial.run(seed))?;
    let mut claim =
        Claim::new("fast02-beyond", "no claim of the paper's: 90% of the in-drive at < 1% is our own aim");
    let mut bars = Vec::new();
    let mut notes = Vec::new();
    for (of, (_, name)) in runs.chunks(2 + IDEAS.len()).zip(POLICIES) {
        let [inside, without, ideas @ ..] = of else { continue };
        let mut said = Vec::new();
        for (runs, (idea, _)) in ideas.iter().zip(IDEAS) {
            let share = percent_of(runs, inside, Measured::mb_per_s);
            let harm = spread(runs, |r| r.harm).mean;
            let foreseen = spread(runs, |r| r.foreseen).mean;
            said.push(format!(
                "{idea} {share}% with the foreground {}% slower (late detours {harm:.2}% at most; {foreseen:.1}% of the \
                 commands within 50 us)",
                slower(runs, without)
            ));
            bars.push(Bar { label: format!("{name}: {idea}"), values: vec![share.mean] });
        }
        notes.push(format!(
            "{name}, of the in-drive {:.2} MB/s: {}.",
            spread(inside, Measured::mb_per_s).mean,
            said.join("; ")
        ));
        // All of it, with the account of harm at twice the aim: it knows of turns that were lost, and not of what the
        // foreground gains since it chooses later.
        if let [.., all, _] = ideas {
            let share = percent_of(all, inside, Measured::mb_per_s);
            claim = claim.measure(name, share, "% of the in-drive", Band::AtLeast(90.0)).measure(
                &format!("{name}, foreground slower by"),
                slower(all, without),
                "%",
                Band::AtMost(1.0),
            );
        }
    }
    claim = claim.note(accounting(lab, lab.pick(15_000, 200_000))?);
    let figure = Figure {
        id: "fast02-beyond".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("each idea on top of those before"),
        y: Axis::between("% of the in-drive free bandwidth", 0.0, 100.0),
        kind: Kind::Stacked { parts: vec!["free bandwidth".into()], bars },
    };
    Ok(Outcome { figures: vec![figure], claims: vec![claim], notes })
}
