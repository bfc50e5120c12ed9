//! OSDI'00, figure 5: the rotational latency left by each foreground scheduler.

use crate::set_up::{ATLAS_10K, drive, head_figure, latency, mean_head_bar, random_run};
use crate::{Band, Claim, Experiment, Lab, LabError, Outcome, Paper};
use scheduler::Config;
use scheduler::policy::PolicyName;
use workload::RandomConfig;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig5",
    paper: Paper::Osdi00,
    reproduces: "figure 5",
    title: "Disk head usage by foreground scheduling algorithm",
    set_up: "Atlas 10K, 10,000 random requests of 4 KB, two reads a write, 20 outstanding.",
    claims: &["osdi00-fig5"],
    timed: false,
    run,
};

const POLICIES: [(PolicyName, &str); 4] = [
    (PolicyName::Fcfs, "FCFS"),
    (PolicyName::CLook, "C-LOOK"),
    (PolicyName::Sstf, "SSTF"),
    (PolicyName::Sptf, "SPTF"),
];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let load = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let runs = lab.map_seeds(POLICIES, lab.pick(3, 10), |&(policy, _), seed| {
        random_run(&drive, Config::default().with_policy(policy), load, 20, seed)
    })?;
    let bars = runs.iter().zip(POLICIES).map(|(r, (_, name))| mean_head_bar(name, r)).collect();
    let claim = Claim::new("osdi00-fig5", "latency: C-LOOK and SSTF about 50%, SPTF 22%")
        .measure("C-LOOK", latency(&runs[1]), "%", Band::Within(47.0, 53.0))
        .measure("SSTF", latency(&runs[2]), "%", Band::Within(47.0, 53.0))
        .measure("SPTF", latency(&runs[3]), "%", Band::Within(20.0, 25.0));
    Ok(Outcome {
        figures: vec![head_figure("osdi00-fig5", EXPERIMENT.title, "scheduling algorithm", bars)],
        claims: vec![claim],
        notes: Vec::new(),
    })
}
