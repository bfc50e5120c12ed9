//! The number of simulated foreground requests per second, load and reports included, without background work: 4 KB
//! at random places of the Atlas 10K, two reads to a write. Each sample is 10,000 requests of a continuing run.

use divan::{Bencher, counter::ItemsCount};
use freeblock_sim::{Background, Inside, Nothing};
use model::{DriveModel, builtin};
use scheduler::Config;
use std::sync::Arc;
use units::Instant;
use workload::{Arrival, Issuer, Random, RandomConfig};

const N: u64 = 10_000;

fn main() {
    divan::main();
}

fn run(policy: &str, outstanding: u32) -> Inside<Random> {
    let profile = builtin::find("quantum-atlas-10k").expect("it is built in");
    let drive = Arc::new(DriveModel::from_profile(&profile).expect("a built-in profile is sound"));
    let config = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let load = Random::new(config, 1).expect("the configuration is right");
    let foreground = Issuer::new(load, Arrival::outstanding(outstanding), Instant::ZERO, 1);
    let foreground = foreground.expect("the configuration is right");
    let config = Config::default().with_policy(policy.parse().expect("there is such a policy"));
    Inside::new(drive, config, foreground, Background::None).expect("the load fits the drive")
}

#[divan::bench(args = [("fcfs", 1), ("fcfs", 20), ("c-look", 20), ("sstf", 20), ("sptf", 20)])]
fn simulate(bencher: Bencher, (policy, outstanding): (&str, u32)) {
    // The same requests give the same virtual time, however often they are simulated.
    let ends = [(); 2].map(|()| {
        let mut run = run(policy, outstanding);
        run.advance(N, &mut Nothing).expect("the load fits the drive");
        run.now()
    });
    assert_eq!(ends[0], ends[1]);
    let mut run = run(policy, outstanding);
    bencher.counter(ItemsCount::new(N)).bench_local(|| run.advance(N, &mut Nothing).map(|_| run.now()));
}
