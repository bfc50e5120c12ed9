//! OSDI'00, figure 2: rotational latency is a third of every drive's time.

use crate::set_up::{ATLAS_10K, drive, head_figure, latency, mean_head_bar, random_run};
use crate::{Band, Claim, Experiment, Lab, LabError, Outcome, Paper};
use scheduler::Config;
use workload::RandomConfig;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig2",
    paper: Paper::Osdi00,
    reproduces: "figure 2",
    title: "Disk head usage for several disks",
    set_up: "Five drives, 10,000 random requests of 4 KB each, two reads a write, one at a time without a pause.",
    claims: &["osdi00-fig2"],
    timed: false,
    run,
};

const DRIVES: [(&str, &str); 5] = [
    (ATLAS_10K, "Atlas 10K"),
    ("seagate-cheetah-4lp", "Cheetah 4LP"),
    ("seagate-cheetah-9lp", "Cheetah 9LP"),
    ("seagate-cheetah-18lp", "Cheetah 18LP (synthetic)"),
    ("ibm-ultrastar-9es", "Ultrastar 9ES"),
];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drives = DRIVES.iter().map(|(id, _)| drive(id)).collect::<Result<Vec<_>, _>>()?;
    let runs = lab.map_seeds(&drives, lab.pick(3, 10), |drive, seed| {
        let load = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
        random_run(drive, Config::default(), load, 1, seed)
    })?;
    let mut claim = Claim::new("osdi00-fig2", "latency 27-36% on every disk").note(
        "The Cheetah 18LP's parameters are unpublished: its profile is made up around the few figures that the \
         papers give, so its share shows what such a drive would do, not what that drive did.",
    );
    let mut bars = Vec::new();
    for ((_, name), runs) in DRIVES.into_iter().zip(&runs) {
        claim = claim.measure(name, latency(runs), "%", Band::Within(26.0, 37.0));
        bars.push(mean_head_bar(name, runs));
    }
    Ok(Outcome {
        figures: vec![head_figure("osdi00-fig2", EXPERIMENT.title, "disk", bars)],
        claims: vec![claim],
        notes: Vec::new(),
    })
}
