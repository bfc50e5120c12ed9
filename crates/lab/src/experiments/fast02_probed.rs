//! FAST'02, section 5, again: two drives, each with its true profile and with what a probe finds out about it.

use crate::outside::{Measured, POLICIES, Told, Trial, hundredths, percent_of, slower};
use crate::set_up::{ATLAS_10K, CHEETAH_18LP};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread};
use drive::Behaviour;
use model::{DriveModel, Position};
use scheduler::policy::PolicyName;
use scheduler::{Config, OutsideConfig, Overheads, Place};
use sim::{Background, Direct, Nothing, Outside};
use std::sync::Arc;
use units::{Cylinder, Duration, Instant, Op};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-probed",
    paper: Paper::Fast02,
    reproduces: "figures 7 to 10, with profiles that were measured from outside",
    title: "Scheduling outside the drive by true and by probed profiles",
    set_up: "Atlas 10K and Cheetah 18LP (synthetic) as black boxes with the default noise. Each is probed by timed reads over \
             the same black box (quick: without its noise); what a probe finds takes the place of the true profile, as it \
             is and with its moves corrected by completions. Random \
             requests of 4 KB, two at a time, for figure 7; OLTP with 10 outstanding for figure 8; OLTP, MPL 10, SPTF-SW60% \
             and a scan in blocks of 4 KB for figures 9 and 10 (quick: 15,000 requests).",
    claims: &["fast02-probed"],
    timed: false,
    run,
};

const DRIVES: [(&str, &str); 2] = [("Atlas 10K", ATLAS_10K), ("Cheetah 18LP", CHEETAH_18LP)];
/// What a core outside the drive is told, and whether it corrects that by what it sees.
const TOLD: [(&str, bool, bool); 3] = [
    ("true profile", false, false),
    ("probed profile, as it is", true, false),
    ("probed profile, corrected", true, true),
];

/// The paper's scheduler, which takes what it was told for the truth, or corrects its moves by completions and leaves some gaps
/// alone to see what it would not see otherwise.
fn paper(corrects: bool) -> fn(Overheads, Duration) -> OutsideConfig {
    if corrects {
        |o, c| OutsideConfig { correct_moves: true, control_gaps: true, ..OutsideConfig::paper(o, c) }
    } else {
        OutsideConfig::paper
    }
}

/// What figure 7 counts, in percent of the commands: within 50 us, a turn late or early, unexplained.
type Foreseen = [f64; 3];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let noise = lab.pick(exact_but_for_the_bus(), Behaviour::noisy());
    let known =
        lab.map(DRIVES.iter().flat_map(|drive| [(*drive, false), (*drive, true)]), |((_, name), probed)| {
            if probed { Told::probed(name, noise, lab.seed()) } else { Told::truth(name) }
        })?;
    // By drive, then as in `TOLD`.
    let told: Vec<(&Told, bool)> = known
        .chunks(2)
        .flat_map(|known| TOLD.map(|(_, probed, corrects)| (known.get(usize::from(probed)), corrects)))
        .filter_map(|(told, corrects)| Some((told?, corrects)))
        .collect();
    let requests = lab.pick(15_000, 1_000_000);
    let seeds = lab.pick(1, 3);
    let policy = POLICIES[1].0;
    let margins = [30, 40];
    let trials = |corrects: bool, probed: bool| {
        let paper = |m: u64| Trial {
            outside: Some(paper(corrects)),
            ..Trial::paper(policy, hundredths(m), requests)
        };
        let inside = Trial { outside: None, ..paper(0) };
        let without = Trial { scan: false, requests: lab.pick(15_000, 200_000), ..paper(0) };
        let beyond: fn(Overheads, Duration) -> OutsideConfig = if probed && !corrects {
            |o, _| OutsideConfig { correct_moves: false, ..OutsideConfig::beyond(o) }
        } else {
            |o, _| OutsideConfig::beyond(o)
        };
        [inside, without, paper(margins[0]), paper(margins[1]), Trial { outside: Some(beyond), ..paper(0) }]
    };
    let pairs: Vec<(&Told, Trial)> = told
        .iter()
        .zip(TOLD.iter().cycle())
        .flat_map(|(&(told, corrects), &(_, probed, _))| trials(corrects, probed).map(|trial| (told, trial)))
        .collect();
    let runs = lab.map_seeds(pairs, seeds, |(told, trial), seed| trial.run_told(told, seed))?;
    let foreseen = lab.map_seeds(&told, seeds, |told, seed| figure7(told, lab.pick(8_000, 40_000), seed))?;
    let against = lab.map_seeds(&told, seeds, |told, seed| figure8(told, lab.pick(5_000, 20_000), seed))?;
    let mut rows = Vec::new();
    let mut claim = Claim::new(
        "fast02-probed",
        "no claim of the paper's, whose profiles were all measured: a probed one is to do as well as the true",
    );
    let mut as_it_is = Vec::new();
    let each = runs.chunks(5 * TOLD.len()).zip(foreseen.chunks(TOLD.len())).zip(against.chunks(TOLD.len()));
    for (((runs, foreseen), against), (drive, _)) in each.zip(DRIVES) {
        let mut by_true: &[Measured] = &[];
        let figures = foreseen.iter().zip(against);
        for (((of, (foreseen, against)), (how, probed, corrects)), part_of) in
            runs.chunks(5).zip(figures).zip(TOLD).zip(0..)
        {
            let [inside, without, close, far, beyond] = of else { continue };
            let share = |runs: &[Measured]| percent_of(runs, inside, Measured::mb_per_s);
            let part = |i: usize| spread(foreseen, |f| f[i]);
            rows.push(vec![
                format!("{drive}, {how}"),
                format!("{}; {} / {}", part(0), part(1), part(2)),
                spread(against, |d| *d).to_string(),
                format!("{} / {}", slower(close, without), slower(far, without)),
                format!("{} / {}", share(close), share(far)),
                format!("{} at {}", share(beyond), slower(beyond, without)),
            ]);
            if part_of == 0 {
                by_true = close;
            }
            let as_true: Spread = percent_of(close, by_true, Measured::mb_per_s);
            if corrects {
                claim = claim
                    .measure(
                        &format!("{drive}, free bandwidth"),
                        as_true,
                        "% of that by the true profile",
                        Band::AtLeast(95.0),
                    )
                    .measure(
                        &format!("{drive}, foreground slower by"),
                        slower(close, without),
                        "%",
                        Band::AtMost(2.0),
                    )
                    .measure(
                        &format!("{drive}, all ideas, harm below 1%: foreground slower by"),
                        slower(beyond, without),
                        "%",
                        Band::AtMost(1.0),
                    )
                    .measure(&format!("{drive}, within 50 us"), part(0), "%", Band::AtLeast(97.0));
            } else if probed {
                as_it_is.push(format!(
                    "{drive} {as_true}% of the free bandwidth, the foreground {}% slower, {}% within 50 us",
                    slower(close, without),
                    part(0)
                ));
            }
        }
    }
    let differences = known.chunks(2).zip(DRIVES).filter_map(|(known, (drive, _))| {
        let [truth, probed] = known else { return None };
        let longer = |op| move_ms(&truth.known, op) - move_ms(&probed.known, op);
        Some(format!("{drive} {:.2} ms and {:.2} ms", longer(Op::Read), longer(Op::Write)))
    });
    claim = claim.note(format!(
        "By the true profile a move over a third of the drive takes longer, to read and to write: {}. A probe that reads, one \
         command at a time, knows the sum of overhead and seek only, and nothing of writes; behind another command the seek \
         alone counts. Taken as it is the probed profile gets: {}.",
        differences.collect::<Vec<_>>().join("; "),
        as_it_is.join("; ")
    ));
    let columns = [
        "",
        "fig. 7: within 50 us; a turn late / early (%)",
        "fig. 8: slower than the firmware (%)",
        "fig. 9: foreground slower at 0.3 / 0.4 ms (%)",
        "fig. 10: of the in-drive at 0.3 / 0.4 ms (%)",
        "beyond the paper: of the in-drive (%) at slower (%)",
    ];
    let figure = Figure {
        id: "fast02-probed".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
    };
    Ok(Outcome { figures: vec![figure], claims: vec![claim], notes: Vec::new() })
}

/// A move over a third of the drive.
fn move_ms(drive: &DriveModel, op: Op) -> f64 {
    let to = Position { cylinder: Cylinder::new(drive.layout().cylinders() / 3), ..Position::default() };
    drive.move_time(Position::default(), to, op).as_nanos() as f64 / 1e6
}

/// The default black box without what varies.
fn exact_but_for_the_bus() -> Behaviour {
    let noisy = Behaviour::noisy();
    Behaviour { bus_sector: noisy.bus_sector, write_back: noisy.write_back, ..Behaviour::default() }
}

/// How the core foresees random requests.
fn figure7(&(told, corrects): &(&Told, bool), requests: u64, seed: u64) -> Result<Foreseen, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let load = RandomConfig::new(told.truth.layout().capacity(), told.truth.sector_bytes());
    let load = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(2), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    let (drive, overheads) = told.black_box(Behaviour::noisy(), seed)?;
    let place = Place::Outside(paper(corrects)(overheads, Duration::ZERO));
    let config = Config { place, ..Config::default() };
    let mut run = Outside::new(drive, Arc::clone(&told.known), config, load, Background::None)
        .map_err(|e| failed(e.into()))?;
    run.advance(requests, &mut Nothing).map_err(|e| failed(e.into()))?;
    let Some(errors) = run.prediction_errors() else { return Ok([0.0; 3]) };
    let percent = |n: u64| 100.0 * n as f64 / errors.count().max(1) as f64;
    Ok([100.0 * errors.within(Duration::from_micros(50)), percent(errors.late()), percent(errors.early())])
}

/// By how many percent responses are longer with SPTF outside than with the drive's own, 10 outstanding.
fn figure8(&(told, corrects): &(&Told, bool), requests: u64, seed: u64) -> Result<f64, LabError> {
    const DEPTH: u32 = 10;
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
    let load = || {
        let load = OltpConfig::new(told.truth.layout().capacity(), told.truth.sector_bytes());
        let load = Oltp::new(load, seed).map_err(|e| failed(e.into()))?;
        Issuer::new(load, Arrival::outstanding(DEPTH), Instant::ZERO, seed).map_err(|e| failed(e.into()))
    };
    let (drive, overheads) = told.black_box(Behaviour::noisy(), seed)?;
    let mut firmware = Direct::new(drive.clone(), DEPTH as usize, load()?);
    firmware.advance(requests, |_| {}).map_err(|e| failed(e.into()))?;
    let place = Place::Outside(paper(corrects)(overheads, Duration::ZERO));
    let config = Config { policy: PolicyName::Sptf, place, ..Config::default() };
    let mut outside = Outside::new(drive, Arc::clone(&told.known), config, load()?, Background::None)
        .map_err(|e| failed(e.into()))?;
    outside.advance(requests, &mut Nothing).map_err(|e| failed(e.into()))?;
    let (ours, its) = (outside.report().foreground.mean_response_ms, firmware.report().mean_response_ms);
    Ok((ours / its - 1.0) * 100.0)
}
