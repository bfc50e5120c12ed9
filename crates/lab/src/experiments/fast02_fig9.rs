//! FAST'02, figure 9: what conservatism spares the foreground, and what it costs the background.

use crate::outside::{Measured, POLICIES, Trial, hundredths, percent_of, slower};
use crate::spread;
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread,
};
use scheduler::policy::PolicyName;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig9",
    paper: Paper::Fast02,
    reproduces: "figure 9",
    title: "Foreground and free bandwidth against seek conservatism, outside the drive",
    set_up: "Atlas 10K as a black box with the default noise; OLTP, MPL 10; the paper's scheduler with two commands at \
             the drive, and a scan of the whole disk in blocks of 4 KB (quick: its first 25,000 requests).",
    claims: &["fast02-fig9a", "fast02-fig9b", "fast02-fig9c"],
    timed: false,
    run,
};

/// Of one policy: without a scan, and with one at each conservatism.
struct Policy {
    name: &'static str,
    without: Vec<Measured>,
    with: Vec<Vec<Measured>>,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    // Hundredths of a millisecond.
    let margins: Vec<u64> = lab.pick(vec![0, 20, 30, 40], vec![0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60]);
    let requests = lab.pick(25_000, 1_000_000);
    let seeds = lab.pick(2, 3);
    let mut trials = Vec::new();
    for (policy, _) in POLICIES {
        let without = Trial { scan: false, ..Trial::paper(policy, hundredths(0), lab.pick(25_000, 200_000)) };
        trials.push(without);
        trials.extend(margins.iter().map(|&m| Trial::paper(policy, hundredths(m), requests)));
    }
    // The same where nobody thinks, for claim c.
    for (policy, _) in POLICIES {
        let far = Trial {
            restless: true,
            requests: lab.pick(25_000, 200_000),
            ..Trial::paper(policy, hundredths(40), 0)
        };
        trials.extend([Trial { scan: false, ..far }, far]);
    }
    let mut runs = lab.map_seeds(trials, seeds, |trial, seed| trial.run(seed))?.into_iter();
    let policies: Vec<Policy> = POLICIES
        .iter()
        .map(|&(_, name)| Policy {
            name,
            without: runs.next().unwrap_or_default(),
            with: runs.by_ref().take(margins.len()).collect(),
        })
        .collect();
    let restless: Vec<Vec<Measured>> = runs.collect();
    let at = |m: u64| margins.iter().position(|x| *x == m).unwrap_or_default();
    let lines = |of: &dyn Fn(&Policy, &[Measured]) -> Spread| {
        let line = |policy: &Policy| Line {
            label: policy.name.into(),
            points: margins
                .iter()
                .zip(&policy.with)
                .map(|(&m, runs)| {
                    let y = of(policy, runs);
                    Point { x: m as f64 / 100.0, y: y.mean, spread: Some((y.min, y.max)) }
                })
                .collect(),
        };
        Kind::Lines(policies.iter().map(line).collect())
    };
    let figure = |id: &str, title: &str, y: &str, kind| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new("seek conservatism (ms)"),
        y: Axis::new(y),
        kind,
    };
    let figures = vec![
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
    ];
    let claims = claims(&policies, &|policy, m| &policy.with[at(m)], &margins, &restless);
    let kept = |p: &Policy| {
        format!("{} {}", p.name, percent_of(&p.with[at(30)], &p.with[at(20)], Measured::mb_per_s))
    };
    let notes = vec![format!(
        "Free bandwidth at 0.3 ms in percent of that at 0.2 ms: {}.",
        policies.iter().map(kept).collect::<Vec<_>>().join(", ")
    )];
    Ok(Outcome { figures, claims, notes })
}

fn claims<'p>(
    policies: &'p [Policy],
    at: &dyn Fn(&'p Policy, u64) -> &'p [Measured],
    margins: &[u64],
    restless: &[Vec<Measured>],
) -> Vec<Claim> {
    let mut a = Claim::new("fast02-fig9a", "< 2% at 0.3 ms, < 0.6% at 0.4 ms");
    let mut b = Claim::new("fast02-fig9b", "3% at 0.3 ms, 10% at 0.4 ms");
    for policy in policies {
        for (m, harm, loss) in [(30, 2.0, 6.0), (40, 0.6, 13.0)] {
            let ms = m as f64 / 100.0;
            let what = format!("{} at {ms} ms", policy.name);
            a = a.measure(&what, slower(at(policy, m), &policy.without), "%", Band::AtMost(harm));
            // What is lost against the conservatism with which the most is had: with less, the foreground's misses
            // take the time that the scan would have had.
            let best =
                margins.iter().map(|&m| spread(at(policy, m), Measured::mb_per_s).mean).fold(0.0, f64::max);
            let lost = spread(at(policy, m), |r| 100.0 * (1.0 - r.mb_per_s() / best));
            b = b.measure(&what, lost, "%", Band::AtMost(loss));
        }
    }
    let gaps = policies.iter().map(|policy| {
        let gap = |m: &Measured| m.report.head_time.rotation / m.report.foreground.iops * 1e3;
        format!("{} {} ms", policy.name, spread(&policy.without, gap))
    });
    let given_away = policies.iter().map(|policy| {
        let gap =
            spread(&policy.without, |m| m.report.head_time.rotation / m.report.foreground.iops * 1e3).mean;
        // There and back.
        let part = |ms: f64| 200.0 * ms / gap.max(f64::EPSILON);
        format!("{} {:.0}% and {:.0}%", policy.name, part(0.3), part(0.4))
    });
    b = b.note(format!(
        "A request's latency without a scan, of which every move of a detour gives the conservatism away: {}. There and back \
         that is, at 0.3 and 0.4 ms: {}.",
        gaps.collect::<Vec<_>>().join(", "),
        given_away.collect::<Vec<_>>().join(", "),
    ));
    let of = |name: PolicyName| POLICIES.iter().position(|(p, _)| *p == name).unwrap_or_default();
    let (sptf, sstf, sw) = (&policies[of(PolicyName::Sptf)], &policies[of(PolicyName::Sstf)], &policies[1]);
    let lower = |of: &[Measured], than: &[Measured]| {
        let iops = |m: &Measured| m.report.foreground.iops;
        let pairs: Vec<(f64, f64)> = of.iter().zip(than).map(|(a, b)| (iops(a), iops(b))).collect();
        spread(&pairs, |(ours, best)| (1.0 - ours / best) * 100.0)
    };
    let slower_than = |p: &Policy| lower(&p.without, &sptf.without);
    let times = |p: &'p Policy| {
        let percent = percent_of(at(p, 40), at(sptf, 40), Measured::mb_per_s);
        Spread { mean: percent.mean / 100.0, min: percent.min / 100.0, max: percent.max / 100.0, ..percent }
    };
    let c = Claim::new(
        "fast02-fig9c",
        "SSTF: 13-15% lower foreground, 2.1-2.6 x SPTF's free bandwidth; SW60: > 80% of SSTF's at 5-6% penalty",
    )
    .measure("SSTF's foreground lower by", slower_than(sstf), "%", Band::Within(9.0, 18.0))
    .measure("SSTF's free bandwidth", times(sstf), " x SPTF's", Band::Within(1.7, 2.8))
    .measure("SW60's free bandwidth", percent_of(at(sw, 40), at(sstf, 40), Measured::mb_per_s), "% of SSTF's", Band::AtLeast(80.0))
    .measure("SW60's foreground lower by", slower_than(sw), "%", Band::AtMost(8.0))
    .note(format!(
        "Foreground in requests a second without a scan; free bandwidth at 0.4 ms of conservatism. Of the ten tasks {} are \
         waiting for the drive with SPTF, the others think; the fewer there are to choose from, the less policies differ. \
         {}",
        spread(&sptf.without, |m| m.report.foreground.mean_response_ms * m.report.foreground.iops / 1e3),
        without_thinking(restless, &lower),
    ));
    vec![a, b, c]
}

/// Claim c where nobody thinks: runs without and with a scan of each policy.
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
