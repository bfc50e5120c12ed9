//! FAST'02, figure 9: the effect of conservatism on the foreground's response times and on the free bandwidth.

use crate::knowledge::{self, Knowledge, KnownDrive};
use crate::outside::{Measured, POLICIES, Trial, exact, hundredths, percent_of, slower};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use scheduler::policy::PolicyName;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig9",
    paper: Paper::Fast02,
    reproduces: "figure 9",
    title: "Foreground and free bandwidth against seek conservatism, outside the drive",
    set_up: "Atlas 10K as a black box with the default noise; OLTP, MPL 10; the paper's scheduler with two commands at \
             the drive, and a scan of the whole disk in blocks of 4 KB (quick: its first 25,000 requests). Then the same on a \
             Cheetah 18LP (synthetic), and on both by the profiles that a probe finds over the same black box (quick: \
             without its noise), with moves corrected by completions (quick: 15,000 requests).",
    claims: &["fast02-fig9a", "fast02-fig9b", "fast02-fig9c", "fast02-fig9-others"],
    timed: false,
    run,
};

/// The two conservatisms for which the paper gives numbers, in hundredths of a millisecond.
const CONSERVATISM_LOW_10US: u64 = 30;
const CONSERVATISM_HIGH_10US: u64 = 40;

/// The foreground requests in the beginning of a scan, the only part of the scan that the quick size measures.
const BEGINNING_REQUESTS: u64 = 25_000;

/// The runs of one policy: without a scan, and with a scan at each conservatism.
struct Policy {
    name: &'static str,
    without: Vec<Measured>,
    with: Vec<Vec<Measured>>,
}

/// The curves of one drive, with one kind of knowledge.
struct DriveCurves<'t> {
    known_drive: &'t KnownDrive,
    /// The conservatisms that are measured, in hundredths of a millisecond.
    margins: &'t [u64],
    policies: Vec<Policy>,
}

impl<'t> DriveCurves<'t> {
    fn measure(
        lab: &Lab,
        known_drive: &'t KnownDrive,
        margins: &'t [u64],
        requests: u64,
    ) -> Result<Self, LabError> {
        let mut trials = Vec::new();
        for (policy, _) in POLICIES {
            let short = requests.min(200_000);
            trials.push(Trial { scan: false, ..Trial::paper(policy, hundredths(0), short) });
            trials.extend(margins.iter().map(|&m| Trial::paper(policy, hundredths(m), requests)));
        }
        let seeds = known_drive.seeds(lab.pick((2, 1), (3, 1)));
        let runs = lab.map_seeds(trials, seeds, |trial, seed| trial.run_on(known_drive, seed))?;
        let mut runs = runs.into_iter();
        let policies = POLICIES.iter().map(|&(_, name)| Policy {
            name,
            without: runs.next().unwrap_or_default(),
            with: runs.by_ref().take(margins.len()).collect(),
        });
        Ok(Self { known_drive, margins, policies: policies.collect() })
    }

    fn at<'p>(&self, policy: &'p Policy, margin: u64) -> &'p [Measured] {
        &policy.with[self.margins.iter().position(|m| *m == margin).unwrap_or_default()]
    }

    /// Returns the share of free bandwidth lost relative to the best conservatism, in percent. A smaller conservatism
    /// loses bandwidth, too: the foreground then loses whole revolutions, in which the scan gets nothing.
    fn lost(&self, policy: &Policy, margin: u64) -> Spread {
        lost(&policy.with, self.at(policy, margin))
    }

    fn figures(&self) -> [Figure; 2] {
        let lines = |of: &dyn Fn(&Policy, &[Measured]) -> Spread| {
            let line = |policy: &Policy| Line {
                label: policy.name.into(),
                points: self
                    .margins
                    .iter()
                    .zip(&policy.with)
                    .map(|(&m, runs)| {
                        let y = of(policy, runs);
                        Point { x: m as f64 / 100.0, y: y.mean, spread: Some((y.min, y.max)) }
                    })
                    .collect(),
            };
            Kind::Lines(self.policies.iter().map(line).collect())
        };
        let figure = |id: &str, title: &str, y: &str, kind| Figure {
            id: self.known_drive.figure(id),
            title: format!("{title}, {}", self.known_drive.label()),
            x: Axis::new("seek conservatism (ms)"),
            y: Axis::new(y),
            kind,
        };
        [
            figure(
                "fast02-fig9-foreground",
                "Foreground: mean response longer than without a scan",
                "longer by %",
                lines(&|policy, runs| slower(runs, &policy.without)),
            ),
            figure(
                "fast02-fig9-free",
                "Free bandwidth",
                "MB/s",
                lines(&|_, runs| spread(runs, Measured::mb_per_s)),
            ),
        ]
    }
}

/// Returns by how much the bandwidth of the runs `of` is below the best in `all`, in percent.
fn lost(all: &[Vec<Measured>], of: &[Measured]) -> Spread {
    let best = all.iter().map(|runs| spread(runs, Measured::mb_per_s).mean).fold(0.0, f64::max);
    spread(of, |r| 100.0 * (1.0 - r.mb_per_s() / best))
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let known_drives = knowledge::all(lab, &Knowledge::FIGURES)?;
    let margins: Vec<u64> = lab.pick(vec![0, 10, 20, 30, 40], vec![0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60]);
    let fewer: Vec<u64> = lab.pick(vec![0, 30, 40], vec![0, 10, 20, 30, 40, 60]);
    let mut claims = Vec::new();
    let mut figures = Vec::new();
    let mut notes = Vec::new();
    let mut others = Claim::new(
        "fast02-fig9-others",
        "the paper shows it for its Atlas 10K only; so it is to be for another drive, and by probed profiles",
    );
    let mut said = Vec::new();
    for known_drive in &known_drives {
        if known_drive.is_the_papers() {
            let curves =
                DriveCurves::measure(lab, known_drive, &margins, lab.pick(BEGINNING_REQUESTS, 1_000_000))?;
            let beside = Beside::measure(lab, known_drive)?;
            claims.extend(papers(&curves, &beside));
            let kept = |p: &Policy| {
                let (near, nearer) = (curves.at(p, CONSERVATISM_LOW_10US), curves.at(p, 20));
                format!("{} {}", p.name, percent_of(near, nearer, Measured::mb_per_s))
            };
            notes.push(format!(
                "Free bandwidth at 0.3 ms in percent of that at 0.2 ms: {}.",
                curves.policies.iter().map(kept).collect::<Vec<_>>().join(", ")
            ));
            figures.extend(curves.figures());
            continue;
        }
        let curves = DriveCurves::measure(lab, known_drive, &fewer, lab.pick(15_000, 1_000_000))?;
        for policy in &curves.policies {
            let what = format!("{}, {} at 0.3 ms: foreground slower by", known_drive.label(), policy.name);
            let harm = slower(curves.at(policy, CONSERVATISM_LOW_10US), &policy.without);
            others = others.measure(&what, harm, "%", Band::AtMost(2.0));
            said.push(format!(
                "{}, {} {}% and {}%",
                known_drive.label(),
                policy.name,
                curves.lost(policy, CONSERVATISM_LOW_10US),
                curves.lost(policy, CONSERVATISM_HIGH_10US)
            ));
        }
        figures.extend(curves.figures());
    }
    claims.push(others.note(format!(
        "{} Free bandwidth lost to conservatism at 0.3 and 0.4 ms: {}.",
        knowledge::differences(known_drives.iter()),
        said.join("; ")
    )));
    Ok(Outcome { figures, claims, notes })
}

/// Further measurements, to explain why claims do not hold: by policy, then in the order that each field gives.
struct Beside {
    /// Without think time: without a scan, and with a scan at 0.4 ms.
    restless: Vec<Vec<Measured>>,
    /// With commands to a drive exactly as in its profile: no conservatism, 0.3 ms, 0.4 ms.
    exact: Vec<Vec<Measured>>,
    /// In the scan's beginning alone: no conservatism, 0.2 ms, 0.3 ms, 0.4 ms.
    beginning: Vec<Vec<Measured>>,
    /// With the planner in the drive, which has neither conservatism nor restrictions.
    inside: Vec<Vec<Measured>>,
}

impl Beside {
    const EXACT_CONSERVATISMS: [u64; 3] = [0, CONSERVATISM_LOW_10US, CONSERVATISM_HIGH_10US];
    const BEGINNING_CONSERVATISMS: [u64; 4] = [0, 20, CONSERVATISM_LOW_10US, CONSERVATISM_HIGH_10US];

    fn measure(lab: &Lab, known_drive: &KnownDrive) -> Result<Self, LabError> {
        let whole = lab.pick(BEGINNING_REQUESTS, 1_000_000);
        let measure = |of: &dyn Fn(Trial) -> Vec<Trial>| {
            let trials =
                POLICIES.iter().flat_map(|(policy, _)| of(Trial::paper(*policy, hundredths(0), whole)));
            lab.map_seeds(trials, lab.pick(2, 3), |trial, seed| trial.run_on(known_drive, seed))
        };
        let at = |paper: Trial, m: u64| Trial { conservatism: hundredths(m), ..paper };
        Ok(Self {
            restless: measure(&|paper| {
                let far = Trial {
                    restless: true,
                    requests: lab.pick(BEGINNING_REQUESTS, 200_000),
                    ..at(paper, CONSERVATISM_HIGH_10US)
                };
                vec![Trial { scan: false, ..far }, far]
            })?,
            exact: measure(&|paper| {
                Self::EXACT_CONSERVATISMS.map(|m| Trial { behaviour: exact(), ..at(paper, m) }).to_vec()
            })?,
            // In the quick size the curves themselves are of the scan's beginning, so nothing is measured here.
            beginning: measure(&|paper| {
                let margins = lab.pick(&[][..], &Self::BEGINNING_CONSERVATISMS);
                margins.iter().map(|&m| Trial { requests: BEGINNING_REQUESTS, ..at(paper, m) }).collect()
            })?,
            inside: measure(&|paper| vec![Trial { outside: None, ..paper }])?,
        })
    }
}

fn papers(curves: &DriveCurves<'_>, beside: &Beside) -> [Claim; 3] {
    let policies = &curves.policies;
    let mut a = Claim::new("fast02-fig9a", "< 2% at 0.3 ms, < 0.6% at 0.4 ms");
    let mut b = Claim::new("fast02-fig9b", "3% at 0.3 ms, 10% at 0.4 ms");
    for policy in policies {
        for (m, harm, loss) in [(CONSERVATISM_LOW_10US, 2.0, 6.0), (CONSERVATISM_HIGH_10US, 0.6, 13.0)] {
            let ms = m as f64 / 100.0;
            let what = format!("{} at {ms} ms", policy.name);
            a = a.measure(&what, slower(curves.at(policy, m), &policy.without), "%", Band::AtMost(harm));
            b = b.measure(&what, curves.lost(policy, m), "%", Band::AtMost(loss));
        }
    }
    let gaps = policies.iter().map(|policy| {
        let gap = |m: &Measured| m.report.head_time.rotation / m.report.foreground.iops * 1e3;
        format!("{} {} ms", policy.name, spread(&policy.without, gap))
    });
    let given_away = policies.iter().map(|policy| {
        let gap =
            spread(&policy.without, |m| m.report.head_time.rotation / m.report.foreground.iops * 1e3).mean;
        // A detour has two moves, there and back, and each leaves a time as long as the conservatism unused.
        let part = |ms: f64| 200.0 * ms / gap.max(f64::EPSILON);
        format!("{} {:.0}% and {:.0}%", policy.name, part(0.3), part(0.4))
    });
    b = b.note(format!(
        "Both moves of a detour lose the conservatism, and gaps are short (rotational latency a request without a scan: {}). The two \
         moves lose of that, at 0.3 and 0.4 ms: {}. By the same commands to an exact drive 0.3 and 0.4 ms cost, against none: {}, so \
         noise is not the reason.{}",
        gaps.collect::<Vec<_>>().join(", "),
        given_away.collect::<Vec<_>>().join(", "),
        costs(&beside.exact, &Beside::EXACT_CONSERVATISMS),
        match beside.beginning.first() {
            Some(_) => format!(
                " In the scan's first {BEGINNING_REQUESTS} requests alone, where all blocks are wanted and any track has some for the \
                 rest of a gap, 0.3 and 0.4 ms cost {}.",
                costs(&beside.beginning, &Beside::BEGINNING_CONSERVATISMS)
            ),
            None => String::new(),
        },
    ));
    let of = |name: PolicyName| POLICIES.iter().position(|(p, _)| *p == name).unwrap_or_default();
    let (sptf, sstf, sw) = (&policies[of(PolicyName::Sptf)], &policies[of(PolicyName::Sstf)], &policies[1]);
    let lower = |of: &[Measured], than: &[Measured]| {
        let iops = |m: &Measured| m.report.foreground.iops;
        let pairs: Vec<(f64, f64)> = of.iter().zip(than).map(|(a, b)| (iops(a), iops(b))).collect();
        spread(&pairs, |(ours, best)| (1.0 - ours / best) * 100.0)
    };
    let slower_than = |p: &Policy| lower(&p.without, &sptf.without);
    let times = |p: &Policy| {
        let percent = percent_of(
            curves.at(p, CONSERVATISM_HIGH_10US),
            curves.at(sptf, CONSERVATISM_HIGH_10US),
            Measured::mb_per_s,
        );
        Spread { mean: percent.mean / 100.0, min: percent.min / 100.0, max: percent.max / 100.0, ..percent }
    };
    let c = Claim::new(
        "fast02-fig9c",
        "SSTF: 13-15% lower foreground, 2.1-2.6 x SPTF's free bandwidth; SW60: > 80% of SSTF's at 5-6% penalty",
    )
    .measure("SSTF's foreground lower by", slower_than(sstf), "%", Band::Within(9.0, 18.0))
    .measure("SSTF's free bandwidth", times(sstf), " x SPTF's", Band::Within(1.7, 2.8))
    .measure("SW60's free bandwidth", percent_of(curves.at(sw, CONSERVATISM_HIGH_10US), curves.at(sstf, CONSERVATISM_HIGH_10US), Measured::mb_per_s), "% of SSTF's", Band::AtLeast(80.0))
    .measure("SW60's foreground lower by", slower_than(sw), "%", Band::AtMost(8.0))
    .note(format!(
        "Of the ten tasks only {} wait for the drive with SPTF, because the others think, and policies that choose from fewer \
         requests differ less. The foreground is measured in requests a second without a scan, free \
         bandwidth at 0.4 ms of conservatism. {} {}",
        spread(&sptf.without, |m| m.report.foreground.mean_response_ms * m.report.foreground.iops / 1e3),
        without_thinking(&beside.restless, &lower),
        in_the_drive(&beside.inside, sptf, sstf),
    ));
    [a, b, c]
}

/// Describes, for each policy, how far the bandwidths at the last two conservatisms are below that at the best one.
fn costs(runs: &[Vec<Measured>], margins: &[u64]) -> String {
    let of = |(runs, (_, name)): (&[Vec<Measured>], (PolicyName, &str))| {
        let [.., near, far] = runs else { return String::new() };
        format!("{name} {}% and {}%", lost(runs, near), lost(runs, far))
    };
    runs.chunks(margins.len()).zip(POLICIES).map(of).collect::<Vec<_>>().join(", ")
}

/// Describes for claim c what a core in the drive, without the losses of one outside, does: how much longer SSTF's
/// gaps are than SPTF's, and how much of that the planner uses.
fn in_the_drive(inside: &[Vec<Measured>], sptf: &Policy, sstf: &Policy) -> String {
    let [its, _, more] = inside else { return String::new() };
    let latency = |of: &Policy| spread(&of.without, |m| m.report.head_time.rotation).mean;
    format!(
        "Without a scan SSTF leaves {:.2} times the latency a second that SPTF leaves; the planner in the drive, which has \
         neither conservatism nor restrictions, gets {}% of SPTF's free bandwidth with SSTF.",
        latency(sstf) / latency(sptf).max(f64::EPSILON),
        percent_of(more, its, Measured::mb_per_s),
    )
}

/// Describes claim c without think time: runs without and with a scan of each policy.
fn without_thinking(runs: &[Vec<Measured>], lower: &dyn Fn(&[Measured], &[Measured]) -> Spread) -> String {
    let [sptf, sptf_scan, sw, sw_scan, sstf, sstf_scan] = runs else { return String::new() };
    let share = |of: &[Measured], whole: &[Measured]| percent_of(of, whole, Measured::mb_per_s);
    format!(
        "With ten requests waiting at all times SSTF's foreground is lower by {}%, its free bandwidth {}% of SPTF's; SW60's \
         foreground lower by {}%, its free bandwidth {}% of SSTF's.",
        lower(sstf, sptf),
        share(sstf_scan, sptf_scan),
        lower(sw, sptf),
        share(sw_scan, sstf_scan),
    )
}
