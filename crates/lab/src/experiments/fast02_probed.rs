//! FAST'02, section 5, again: two drives, each with its true profile and with a probed one.

use crate::knowledge::{self, DRIVES, Knowledge, KnownDrive};
use crate::outside::{
    ACCURATE_ERROR_MAX, Measured, POLICIES, Trial, by_the_firmware, hundredths, in_front, percent_of,
    predicted, slower,
};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Spread, spread};
use scheduler::{ErrorRecord, OutsideConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-probed",
    paper: Paper::Fast02,
    reproduces: "figures 7 to 10, with profiles that were measured from outside",
    title: "Scheduling outside the drive by true and by probed profiles",
    set_up: "Atlas 10K and Cheetah 18LP (synthetic) as black boxes with the default noise. Each is probed by timed reads over \
             the same black box (quick: without its noise), and once more with writes allowed; what a probe finds takes the \
             place of the true profile, as it is and with its moves corrected by completions. A number of each of figures 7 \
             to 10, which fast02-fig7 to -fig10 draw: random \
             requests of 4 KB for figure 7; OLTP with 10 outstanding for figure 8; OLTP, MPL 10, SPTF-SW60% \
             and a scan in blocks of 4 KB for figures 9 and 10, by the paper's scheduler at 0.3 ms and by all ideas with the \
             harm bounded to 1% (quick: 15,000 requests).",
    claims: &["fast02-probed"],
    timed: false,
    run,
};

/// The number of outstanding requests at which figure 8 is measured here.
const DEPTH: u32 = 10;

/// All measurements of one drive with one kind of knowledge, seed by seed.
struct ProbedDrive<'t> {
    known_drive: &'t KnownDrive,
    predicted: Vec<ErrorRecord>,
    /// The excess of responses with SPTF outside over those with the drive's own order, in percent.
    against: Vec<f64>,
    without: Vec<Measured>,
    paper: Vec<Measured>,
    beyond: Vec<Measured>,
}

impl<'t> ProbedDrive<'t> {
    fn measure(lab: &Lab, known_drive: &'t KnownDrive) -> Result<Self, LabError> {
        let seeds = lab.pick(1, 3);
        let scan = Trial::paper(POLICIES[1].0, hundredths(30), lab.pick(15_000, 1_000_000));
        let trials = [
            Trial { scan: false, requests: lab.pick(15_000, 200_000), ..scan },
            scan,
            Trial { outside: Some(|o, _| OutsideConfig::beyond(o)), ..scan },
        ];
        let mut runs =
            lab.map_seeds(trials, seeds, |trial, seed| trial.run_on(known_drive, seed))?.into_iter();
        let mut next = || runs.next().unwrap_or_default();
        let requests = lab.pick(5_000, 20_000);
        let against = |seed| {
            let ours = in_front(POLICIES[0].0, known_drive, DEPTH, requests, seed)?.mean_response_ms;
            let its = by_the_firmware(known_drive, DEPTH, requests, seed)?.mean_response_ms;
            Ok((ours / its - 1.0) * 100.0)
        };
        Ok(Self {
            known_drive,
            predicted: lab
                .map(lab.seeds(seeds), |seed| predicted(known_drive, lab.pick(8_000, 40_000), seed))?,
            against: lab.map(lab.seeds(seeds), against)?,
            without: next(),
            paper: next(),
            beyond: next(),
        })
    }

    fn within(&self) -> Spread {
        spread(&self.predicted, |record| record.within(ACCURATE_ERROR_MAX) * 100.0)
    }

    fn row(&self, inside: &[Measured]) -> Vec<String> {
        let part = |of: fn(&ErrorRecord) -> u64| {
            spread(&self.predicted, |record| 100.0 * of(record) as f64 / record.count().max(1) as f64)
        };
        let share = |runs: &[Measured]| percent_of(runs, inside, Measured::mb_per_s);
        vec![
            format!("{}, {}", self.known_drive.drive, self.known_drive.knowledge.name()),
            format!("{}; {} / {}", self.within(), part(ErrorRecord::late), part(ErrorRecord::early)),
            Spread::of(&self.against).to_string(),
            slower(&self.paper, &self.without).to_string(),
            share(&self.paper).to_string(),
            format!("{} at {}", share(&self.beyond), slower(&self.beyond, &self.without)),
        ]
    }
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let known_drives = knowledge::all(lab, &Knowledge::ALL)?;
    let mut rows = Vec::new();
    let mut claim = Claim::new(
        "fast02-probed",
        "no claim of the paper's, whose profiles were all measured: a probed one is to do as well as the true",
    );
    let mut as_it_is = Vec::new();
    for known_drives in known_drives.chunks(known_drives.len() / DRIVES.len()) {
        let Some(truth) = known_drives.first() else { continue };
        let inside = Trial {
            outside: None,
            ..Trial::paper(POLICIES[1].0, hundredths(0), lab.pick(15_000, 1_000_000))
        };
        let inside = lab.map(lab.seeds(lab.pick(1, 3)), |seed| inside.run_on(truth, seed))?;
        let cases = known_drives
            .iter()
            .map(|known_drive| ProbedDrive::measure(lab, known_drive))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(by_truth) = cases.first() else { continue };
        for case in &cases {
            rows.push(case.row(&inside));
            let harm = slower(&case.paper, &case.without);
            let as_true = percent_of(&case.paper, &by_truth.paper, Measured::mb_per_s);
            let drive = case.known_drive.drive;
            let what = match case.known_drive.knowledge {
                Knowledge::True => continue,
                Knowledge::AsItIs => {
                    as_it_is.push(format!(
                        "{drive} {as_true}% of the free bandwidth, the foreground {harm}% slower, {}% within 50 us",
                        case.within()
                    ));
                    continue;
                }
                Knowledge::Probed => drive.to_owned(),
                Knowledge::Written => format!("{drive}, writes allowed"),
            };
            claim = claim
                .measure(
                    &format!("{what}, free bandwidth"),
                    as_true,
                    "% of that by the true profile",
                    Band::AtLeast(95.0),
                )
                .measure(&format!("{what}, foreground slower by"), harm, "%", Band::AtMost(2.0))
                .measure(
                    &format!("{what}, all ideas, harm below 1%: foreground slower by"),
                    slower(&case.beyond, &case.without),
                    "%",
                    Band::AtMost(1.0),
                )
                .measure(&format!("{what}, within 50 us"), case.within(), "%", Band::AtLeast(97.0));
        }
    }
    claim = claim.note(format!(
        "{} Taken as it is the probed profile gets: {}.",
        knowledge::differences(known_drives.iter()),
        as_it_is.join("; ")
    ));
    let columns = [
        "",
        "fig. 7: within 50 us; a revolution late / early (%)",
        "fig. 8: slower than the firmware (%)",
        "fig. 9: foreground slower at 0.3 ms (%)",
        "fig. 10: share of the in-drive at 0.3 ms (%)",
        "beyond the paper: share of the in-drive (%) at slower (%)",
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
