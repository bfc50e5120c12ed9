//! FAST'02, figure 10: the share of the in-drive free bandwidth that a scheduler outside the drive reaches, and the
//! causes of the loss.

use crate::knowledge::{self, DRIVES, Knowledge, KnownDrive};
use crate::outside::{Measured, POLICIES, Trial, exact, hundredths, percent_of};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use scheduler::SearchBudget;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig10",
    paper: Paper::Fast02,
    reproduces: "figure 10",
    title: "Free bandwidth outside the drive and in it, against conservatism",
    set_up: "Atlas 10K; OLTP, MPL 10, SPTF-SW60%; a scan of the whole disk in blocks of 4 KB. In the drive; by commands to an \
             exact drive with the paper's restrictions, at each conservatism; and the paper's scheduler outside the black box \
             with the default noise. Then the same on a Cheetah 18LP (synthetic), and on both by the profiles that a probe \
             finds over the same black box (quick: without its noise, and a scan's first 25,000 requests), with moves \
             corrected by completions.",
    claims: &["fast02-fig10", "fast02-fig10b", "fast02-fig10-others"],
    timed: false,
    run,
};

/// The two conservatisms for which the paper gives numbers, in hundredths of a millisecond.
const CONSERVATISM_LOW_10US: u64 = 30;
const CONSERVATISM_HIGH_10US: u64 = 40;

/// The requests in the beginning of a scan, the only part that the quick size measures of other drives than the
/// paper's.
const BEGINNING_REQUESTS: u64 = 25_000;

/// More foreground requests than arrive while the whole disk is read.
const WHOLE_SCAN_REQUESTS: u64 = 1_000_000;

/// The band for the paper's "about half", in percent.
const HALF: Band = Band::Within(35.0, 65.0);

/// Runs at each conservatism, one for each seed.
type ByMargin = Vec<Vec<Measured>>;

/// The curves of one drive.
struct Curves<'t> {
    drive: &'static str,
    /// The conservatisms that are measured, in hundredths of a millisecond.
    margins: &'t [u64],
    inside: Vec<Measured>,
    /// Runs in the drive with the planner of OSDI'00: one track a gap.
    one_track: Vec<Measured>,
    /// Runs with the core outside a drive exactly as in its profile.
    restricted: ByMargin,
    /// Runs with the core outside a drive with noise, for each knowledge of the drive.
    external: Vec<(&'t KnownDrive, ByMargin)>,
}

impl<'t> Curves<'t> {
    /// Measures one drive with several kinds of knowledge, the true profile first.
    fn measure(
        lab: &Lab,
        known_drives: &'t [KnownDrive],
        margins: &'t [u64],
        requests: u64,
        seeds: u64,
    ) -> Result<Option<Self>, LabError> {
        let Some(truth) = known_drives.first() else { return Ok(None) };
        let paper = |m: u64| Trial::paper(POLICIES[1].0, hundredths(m), requests);
        let inside = Trial { outside: None, ..paper(0) };
        let mut trials =
            vec![(truth, inside), (truth, Trial { budget: SearchBudget::default().one_track(), ..inside })];
        trials.extend(margins.iter().map(|&m| (truth, Trial { behaviour: exact(), ..paper(m) })));
        trials.extend(
            known_drives.iter().flat_map(|known_drive| margins.iter().map(move |&m| (known_drive, paper(m)))),
        );
        let mut runs = lab
            .map_seeds(trials, seeds, |(known_drive, trial), seed| trial.run_on(known_drive, seed))?
            .into_iter();
        let inside = runs.next().unwrap_or_default();
        let one_track = runs.next().unwrap_or_default();
        let mut next = || runs.by_ref().take(margins.len()).collect::<Vec<_>>();
        let restricted = next();
        let external = known_drives.iter().map(|known_drive| (known_drive, next())).collect();
        Ok(Some(Self { drive: truth.drive, margins, inside, one_track, restricted, external }))
    }

    fn at<'r>(&self, runs: &'r [Vec<Measured>], margin: u64) -> &'r [Measured] {
        &runs[self.margins.iter().position(|m| *m == margin).unwrap_or_default()]
    }

    fn of_inside(&self, runs: &[Measured]) -> Spread {
        percent_of(runs, &self.inside, Measured::mb_per_s)
    }

    /// Returns the runs with the true profile.
    fn by_truth(&self) -> &[Vec<Measured>] {
        self.external.first().map_or(&[], |(_, runs)| runs)
    }

    fn figure(&self) -> Figure {
        let line = |label: String, of: &[Vec<Measured>]| Line {
            label,
            points: self
                .margins
                .iter()
                .zip(of)
                .map(|(&m, runs)| {
                    let y = spread(runs, Measured::mb_per_s);
                    Point { x: m as f64 / 100.0, y: y.mean, spread: Some((y.min, y.max)) }
                })
                .collect(),
        };
        let level = spread(&self.inside, Measured::mb_per_s).mean;
        let ends = [0, self.margins.last().copied().unwrap_or(0)].map(|m| (m as f64 / 100.0, level));
        let mut lines =
            vec![Line::new("in the drive", ends), line("simulation, no track".into(), &self.restricted)];
        lines.extend(self.external.iter().map(|(known_drive, runs)| {
            line(format!("external scheduler, {}", known_drive.knowledge.name()), runs)
        }));
        Figure {
            id: self
                .external
                .first()
                .map(|(known_drive, _)| known_drive.figure("fast02-fig10"))
                .unwrap_or_default(),
            title: format!("{}, {}", EXPERIMENT.title, self.drive),
            x: Axis::new("seek conservatism (ms)"),
            y: Axis::new("MB/s"),
            kind: Kind::Lines(lines),
        }
    }
}

fn mb_per_s(runs: &[Measured]) -> f64 {
    spread(runs, Measured::mb_per_s).mean
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let known = [Knowledge::True, Knowledge::Probed, Knowledge::Written];
    let known_drives = knowledge::all(lab, &known)?;
    let margins: Vec<u64> = lab.pick(vec![0, 30, 40], vec![0, 10, 20, 30, 40, 50, 60]);
    let requests = lab.pick(BEGINNING_REQUESTS, WHOLE_SCAN_REQUESTS);
    let mut drives = Vec::new();
    for (known_drives, seeds) in known_drives.chunks(known.len()).zip([lab.pick(2, 3), 1]) {
        drives.extend(Curves::measure(lab, known_drives, &margins, requests, seeds)?);
    }
    let mut claims = Vec::new();
    let of_the_papers = drives.iter().find(|curves| curves.drive == DRIVES[0].0);
    // In both sizes, quick and full, the claim is about a whole scan; the scan's beginning is for the claim's note.
    let other_size = |requests, margins, seeds| match known_drives.get(..1) {
        Some(truth) => Curves::measure(lab, truth, margins, requests, seeds),
        None => Ok(None),
    };
    if let Some(measured) = of_the_papers {
        let other = lab.pick(
            (WHOLE_SCAN_REQUESTS, &margins[..], 1),
            (BEGINNING_REQUESTS, &[CONSERVATISM_LOW_10US][..], 3),
        );
        if let Some(other) = other_size(other.0, other.1, other.2)? {
            let (whole, beginning) = lab.pick((&other, measured), (measured, &other));
            claims.extend(of_the_paper(whole, beginning));
        }
    }
    claims.push(others(&drives, &known_drives));
    Ok(Outcome { figures: drives.iter().map(Curves::figure).collect(), claims, notes: Vec::new() })
}

/// Returns the paper's claims about a whole scan, with the results of a scan's beginning.
fn of_the_paper(curves: &Curves<'_>, beginning: &Curves<'_>) -> [Claim; 2] {
    let (external, restricted) = (curves.by_truth(), &curves.restricted[..]);
    let level = mb_per_s(&curves.inside);
    let of = |runs: &[Measured]| curves.of_inside(runs);
    let [near, far] = [CONSERVATISM_LOW_10US, CONSERVATISM_HIGH_10US].map(|m| curves.at(external, m));
    let [none, exactly, exactly_far] =
        [0, CONSERVATISM_LOW_10US, CONSERVATISM_HIGH_10US].map(|m| curves.at(restricted, m));
    let lost = |from: f64, to: f64| 100.0 * (from - to) / level;
    let apart = |exact: &[Measured], noisy: &[Measured]| 100.0 * (mb_per_s(exact) / mb_per_s(noisy) - 1.0);
    let of_beginning = |runs| beginning.of_inside(beginning.at(runs, CONSERVATISM_LOW_10US));
    let sooner = format!(
        " In the scan's first {BEGINNING_REQUESTS} requests alone, where all blocks are wanted and any track has some for the rest of \
         a gap, the share is {}%, and {}% by the same commands to an exact drive.",
        of_beginning(beginning.by_truth()),
        of_beginning(&beginning.restricted),
    );
    // Returns the share of the loss at 0.3 ms that lies between two bandwidths, in percent.
    let of_the_loss = |from: f64, to: f64| 100.0 * (from - to) / (level - mb_per_s(near)).max(f64::EPSILON);
    [
        Claim::new("fast02-fig10", "65% of the in-drive free bandwidth, 3.1 MB/s, 37 scans a day")
            .measure("at 0.3 ms", of(near), "% of the in-drive", Band::AtLeast(65.0))
            .note(format!(
                "The paper's restrictions outside the drive, which our planner in the drive has not, leave {}% of the in-drive \
                 bandwidth without conservatism and {}% with 0.3 ms, by the same commands to an exact drive, so noise takes next to \
                 nothing. SPTF-SW60%: {:.2} MB/s outside at 0.3 ms, {:.1} scans a day; {level:.2} MB/s in the drive; {} in the drive by the \
                 planner of OSDI 2000, with one track a gap, of which the outside has {}%. At 0.4 ms: {}%.{sooner}",
                of(none),
                of(exactly),
                mb_per_s(near),
                spread(near, |r| r.report.background.scans_per_day).mean,
                spread(&curves.one_track, Measured::mb_per_s),
                percent_of(near, &curves.one_track, Measured::mb_per_s),
                of(far),
            )),
        Claim::new(
            "fast02-fig10b",
            "half conservatism, half one-command-per-track; with the same restriction simulation and measurement agree \
             within 2-3%",
        )
        .measure("conservatism of 0.3 ms", of_the_loss(mb_per_s(none), mb_per_s(exactly)), "% of the loss", HALF)
        .measure("one command a track", of_the_loss(level, mb_per_s(none)), "% of the loss", HALF)
        .measure("simulation above measurement, 0.3 ms", apart(exactly, near), "%", Band::Within(-3.0, 3.0))
        .measure("simulation above measurement, 0.4 ms", apart(exactly_far, far), "%", Band::Within(-3.0, 3.0))
        .note(format!(
            "Of the in-drive free bandwidth, conservatism of 0.3 ms costs {:.1}%, one command a track {:.1}%, and noise (detours \
             that end too late, and commands' overheads) {:.1}%.",
            lost(mb_per_s(none), mb_per_s(exactly)),
            lost(level, mb_per_s(none)),
            lost(mb_per_s(exactly), mb_per_s(near))
        )),
    ]
}

/// Returns our claim: a probed profile gives nearly the same bandwidth as the true one.
fn others(drives: &[Curves<'_>], known_drives: &[KnownDrive]) -> Claim {
    let mut claim = Claim::new(
        "fast02-fig10-others",
        "the paper shows it for its Atlas 10K only; so it is to be for another drive, and by probed profiles",
    );
    let mut said = Vec::new();
    for curves in drives {
        let truth = curves.at(curves.by_truth(), CONSERVATISM_LOW_10US);
        for (known_drive, runs) in &curves.external {
            let near = curves.at(runs, CONSERVATISM_LOW_10US);
            let of_inside = curves.of_inside(near);
            let (what, unit) = (known_drive.label(), "% of that by the true profile");
            if known_drive.knowledge != Knowledge::True {
                let as_true = percent_of(near, truth, Measured::mb_per_s);
                claim = claim.measure(&what, as_true, unit, Band::AtLeast(95.0));
            } else if !known_drive.is_the_papers() {
                claim = claim.measure(&what, of_inside, "% of the in-drive", Band::AtLeast(65.0));
            }
            let far = curves.of_inside(curves.at(runs, CONSERVATISM_HIGH_10US));
            said.push(format!("{what} {of_inside}% and {far}%"));
        }
    }
    claim.note(format!(
        "{} Shares of the in-drive free bandwidth at 0.3 and 0.4 ms: {}.",
        knowledge::differences(known_drives.iter()),
        said.join("; ")
    ))
}
