//! FAST'02, figure 8: foreground policies outside the drive against the drive's own.

use crate::knowledge::{self, Knowledge, KnownDrive};
use crate::outside::{POLICIES, by_the_firmware, in_front};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use scheduler::policy::PolicyName;
use sim::ForegroundReport;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig8",
    paper: Paper::Fast02,
    reproduces: "figure 8",
    title: "Response time of foreground policies outside the drive and of the drive's own",
    set_up: "Atlas 10K with its default noise; the OLTP load's requests (multiples of 4 KB, 8 KB in the mean, two \
             reads to a write), a constant number of them outstanding, no background. SSTF, SPTF-SW60% and SPTF in front \
             of the drive with two commands in it at most; and all requests in the drive at once, whose firmware \
             takes the shortest positioning time first. The same seeds for all. Then the same on a Cheetah 18LP \
             (synthetic), and on both by the profiles that a probe finds over the same black box (quick: without its \
             noise), with moves corrected by completions.",
    claims: &["fast02-fig8", "fast02-fig8-others"],
    timed: false,
    run,
};

/// The schedulers: a policy in front of the drive, or the drive's own firmware.
const SCHEDULERS: [(&str, Option<PolicyName>); 4] = [
    ("SSTF external", Some(POLICIES[2].0)),
    ("SPTF-SW60% external", Some(POLICIES[1].0)),
    ("SPTF external", Some(POLICIES[0].0)),
    ("disk firmware", None),
];
/// The indices of SPTF outside and of the firmware in [`SCHEDULERS`].
const EXTERNAL_INDEX: usize = 2;
const FIRMWARE_INDEX: usize = 3;

/// The results of one drive with one kind of knowledge: reports by scheduler, depth and seed.
struct QueueDepths<'t> {
    known_drive: &'t KnownDrive,
    depths: &'t [u32],
    by_scheduler: Vec<&'t [Vec<ForegroundReport>]>,
}

impl QueueDepths<'_> {
    fn response(&self, scheduler: usize, at: usize) -> Spread {
        spread(&self.by_scheduler[scheduler][at], |r| r.mean_response_ms)
    }

    /// Returns by how many percent mean responses are longer with SPTF outside than with the drive's own order, by
    /// depth.
    fn differences(&self) -> Vec<Spread> {
        let pairs = self.by_scheduler[EXTERNAL_INDEX].iter().zip(self.by_scheduler[FIRMWARE_INDEX]);
        let of = |(external, firmware): (&Vec<ForegroundReport>, &Vec<ForegroundReport>)| {
            let pairs = external.iter().zip(firmware);
            let off = pairs.map(|(a, b)| (a.mean_response_ms / b.mean_response_ms - 1.0) * 100.0);
            Spread::of(&off.collect::<Vec<_>>())
        };
        pairs.map(of).collect()
    }

    fn largest(&self) -> f64 {
        self.differences().iter().map(|d| d.mean.abs()).fold(0.0, f64::max)
    }

    /// Describes the mean responses at the greatest queue depth.
    fn means(&self) -> String {
        let last = self.depths.len() - 1;
        let of = |(i, (name, _)): (usize, &(&str, _))| format!("{name} {} ms", self.response(i, last));
        let means: Vec<String> = SCHEDULERS.iter().enumerate().map(of).collect();
        format!("at {} outstanding: {}", self.depths[last], means.join(", "))
    }

    fn figures(&self) -> [Figure; 2] {
        let lines = SCHEDULERS.iter().enumerate().map(|(i, (name, _))| {
            let points = self.depths.iter().enumerate().map(|(at, &depth)| {
                let Spread { mean, min, max, .. } = self.response(i, at);
                Point { x: f64::from(depth), y: mean, spread: Some((min, max)) }
            });
            Line { label: (*name).into(), points: points.collect() }
        });
        let rows = self
            .depths
            .iter()
            .zip(self.differences())
            .map(|(depth, d)| vec![depth.to_string(), d.to_string()]);
        let of = self.known_drive.label();
        [
            Figure {
                id: self.known_drive.figure("fast02-fig8"),
                title: format!("Mean response time by queue depth, {of}"),
                x: Axis::new("requests outstanding"),
                y: Axis::new("mean response time (ms)"),
                kind: Kind::Lines(lines.collect()),
            },
            Figure {
                id: self.known_drive.figure("fast02-fig8-difference"),
                title: format!("How much slower SPTF is outside than the drive's own, {of}"),
                x: Axis::default(),
                y: Axis::default(),
                kind: Kind::Table {
                    columns: vec!["outstanding".into(), "difference (%)".into()],
                    rows: rows.collect(),
                },
            },
        ]
    }
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let known_drives = knowledge::all(lab, &Knowledge::FIGURES)?;
    let depths: Vec<u32> = lab.pick(vec![2, 4, 6, 10, 14, 20], (2..=20).collect());
    let requests = lab.pick(5_000, 20_000);
    let runs = known_drives
        .iter()
        .map(|known_drive| {
            let cases = SCHEDULERS.iter().flat_map(|(_, by)| depths.iter().map(|depth| (*by, *depth)));
            lab.map_seeds(cases, known_drive.seeds(lab.pick((3, 1), (5, 5))), |&(by, depth), seed| match by {
                Some(policy) => in_front(policy, known_drive, depth, requests, seed),
                None => by_the_firmware(known_drive, depth, requests, seed),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<QueueDepths<'_>> = known_drives
        .iter()
        .zip(&runs)
        .map(|(known_drive, runs)| QueueDepths {
            known_drive,
            depths: &depths,
            by_scheduler: runs.chunks(depths.len()).collect(),
        })
        .collect();
    let mut paper =
        Claim::new("fast02-fig8", "external SPTF overlaps the disk firmware's line at every queue depth");
    let mut others = Claim::new(
        "fast02-fig8-others",
        "the paper shows it for its Atlas 10K only; so it is to be for another drive, and by probed profiles",
    );
    let mut said = Vec::new();
    for case in &cases {
        let within = Band::AtMost(3.0);
        if case.known_drive.is_the_papers() {
            let means = case.means();
            paper = paper
                .measure("largest difference", case.largest(), "%", within)
                .note(format!("A{}.", means.trim_start_matches('a')));
        } else {
            let what = format!("{}, largest difference", case.known_drive.label());
            others = others.measure(&what, case.largest(), "%", within);
            said.push(format!("{}, {}", case.known_drive.label(), case.means()));
        }
    }
    let differences = knowledge::differences(known_drives.iter());
    Ok(Outcome {
        figures: cases.iter().flat_map(QueueDepths::figures).collect(),
        claims: vec![paper, others.note(format!("{differences} {}.", said.join("; ")))],
        notes: Vec::new(),
    })
}
