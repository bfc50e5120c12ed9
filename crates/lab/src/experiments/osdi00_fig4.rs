//! OSDI'00, figure 4: the nearer the next request, the more of the head's time is rotational latency.

use crate::set_up::{ATLAS_10K, drive, head_figure, latency, mean_head_bar, random_run};
use crate::{Band, Claim, Experiment, Lab, LabError, Outcome, Paper, Spread};
use scheduler::Config;
use workload::{RandomConfig, Share};

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig4",
    paper: Paper::Osdi00,
    reproduces: "figure 4",
    title: "Disk head usage by access locality",
    set_up: "Atlas 10K, 10,000 requests of 4 KB, one at a time; a share of them starts at a normal deviate from the last \
             one's start (standard deviation 4 MB), the others anywhere.",
    claims: &["osdi00-fig4"],
    timed: false,
    run,
};

/// The percentages of requests that are local.
const LOCAL_PERCENTS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let runs = lab.map_seeds(LOCAL_PERCENTS, lab.pick(3, 10), |&percent, seed| {
        let mut load = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
        load.local = Share::new(percent, 100).map_err(|e| LabError::new("a share of local requests", e))?;
        random_run(&drive, Config::default(), load, 1, seed)
    })?;
    let shares: Vec<Spread> = runs.iter().map(|r| latency(r)).collect();
    let at_70 = LOCAL_PERCENTS.iter().position(|p| *p == 70).map_or(Spread::of(&[]), |i| shares[i]);
    let claim = Claim::new("osdi00-fig4", "70% local: latency almost 60%")
        .measure("70% local", at_70, "%", Band::Within(48.0, 62.0))
        .measure("least step between neighbours", least_step(&shares), " points", Band::AtLeast(0.0))
        .note("DiskSim 4.0 gives 50.9% at 70%.");
    let bars =
        LOCAL_PERCENTS.iter().zip(&runs).map(|(percent, r)| mean_head_bar(percent.to_string(), r)).collect();
    Ok(Outcome {
        figures: vec![head_figure("osdi00-fig4", EXPERIMENT.title, "local requests (%)", bars)],
        claims: vec![claim],
        notes: Vec::new(),
    })
}

/// Returns the smallest rise from one mean to the next; below zero if one falls.
fn least_step(shares: &[Spread]) -> f64 {
    shares.windows(2).map(|w| w[1].mean - w[0].mean).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_fall_shows_in_the_least_step() {
        let shares = |values: [f64; 4]| values.map(Spread::from);
        assert_eq!(least_step(&shares([1.0, 3.0, 4.0, 9.0])), 1.0);
        assert_eq!(least_step(&shares([1.0, 3.0, 2.5, 9.0])), -0.5);
    }
}
