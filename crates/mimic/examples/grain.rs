//! Compares grains of distances for a mimic that learns on-line: mean access times of SMTF outside the drive,
//! beside those of SSTF. Only the size of the drive is known, as in `freeblock serve`. Requests are of 4 KB, and
//! 20 of them wait. The drives have noise; one of them is run with sectors of 512 bytes and of 4 KB.
//!
//! `cargo run --release -p freeblock-mimic --example grain [REQUESTS]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use drive::Behaviour;
use mimic::{Learner, LearnerConfig};
use model::profile::SectorsPerTrack;
use model::{DriveModel, Profile, builtin};
use scheduler::policy::{PolicyName, SmtfRule};
use scheduler::{Config, Mimic, OutsideConfig};
use sim::{Background, Nothing, Outside, black_box};
use std::error::Error;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig};

/// The compared grains, in KB.
const GRAINS_KB: [u64; 7] = [4, 16, 32, 64, 128, 512, 2_048];

/// The areas that requests are drawn from: the drive's first bytes, up to this number.
const AREAS: [(&str, u64); 3] = [("100 MB", 100_000_000), ("2 GB", 2_000_000_000), ("all", u64::MAX)];

/// The number of equal parts into which the requests are divided; the first and the last are printed.
const PARTS: u64 = 4;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let requests = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    compare(requests)
}

/// Returns the drive with sectors of 4 KB.
fn of_4_kb(mut profile: Profile) -> Profile {
    let together = 4_096 / profile.sector_bytes.max(1);
    profile.sector_bytes *= together;
    for zone in &mut profile.layout.zones {
        match &mut zone.sectors_per_track {
            SectorsPerTrack::Same(n) => *n /= together,
            SectorsPerTrack::ByHead(each) => each.iter_mut().for_each(|n| *n /= together),
        }
    }
    profile.title.push_str(", sectors of 4 KB");
    profile
}

fn compare(requests: u64) -> Outcome<()> {
    let nearline = builtin::find("nearline-4tb")?;
    let drives = [builtin::find("quantum-atlas-10k")?, nearline.clone(), of_4_kb(nearline)];
    println!("mean access time in ms, in the first and the last of {PARTS} parts of {requests} requests");
    let heads: String = GRAINS_KB.iter().map(|kb| format!("{:>14}", format!("{kb} KB"))).collect();
    println!("{:44} {:8}{:>14}{heads}", "", "", "SSTF");
    for profile in &drives {
        for (area, bytes) in AREAS {
            let mut row = vec![run(profile, bytes, PolicyName::Sstf, None, requests)?];
            for kb in GRAINS_KB {
                row.push(run(
                    profile,
                    bytes,
                    PolicyName::Smtf(SmtfRule::default()),
                    Some(kb << 10),
                    requests,
                )?);
            }
            let row: String = row.iter().map(|(a, b)| format!("{:>14}", format!("{a:.2} {b:.2}"))).collect();
            println!("{:44} {area:8}{row}", profile.title.chars().take(44).collect::<String>());
        }
    }
    Ok(())
}

/// Returns the mean access times in the first and the last part of the requests, ms.
fn run(
    profile: &Profile,
    area: u64,
    policy: PolicyName,
    grain: Option<u64>,
    requests: u64,
) -> Outcome<(f64, f64)> {
    let (device, _) = black_box(profile, Behaviour::fast02(), 1)?;
    let (sector, capacity) = (device.model().sector_bytes(), device.model().layout().capacity());
    let area = Sectors::new(area / sector.get()).min(capacity);
    let source = Random::new(RandomConfig::new(area, sector), 7)?;
    let issuer = Issuer::new(source, Arrival::outstanding(20), Instant::ZERO, 7)?;
    let config = Config::default().with_policy(policy).with_outside(OutsideConfig::blind());
    let known = Arc::new(DriveModel::unknown(capacity, sector)?);
    let mut run = Outside::new(device, known, config, issuer, Background::None)?;
    let learner = |grain: u64| {
        let unit = Sectors::new((grain / sector.get()).max(1));
        Learner::new(LearnerConfig::new(capacity, unit), None)
    };
    let learner = grain.map(learner).transpose()?;
    run.core_mut().set_mimic(learner.map(|learner| Box::new(learner) as Box<dyn Mimic>));
    let part = requests / PARTS;
    let mut done = |requests: u64| -> Outcome<f64> {
        run.advance(requests, &mut Nothing)?;
        let now = run.report().foreground;
        Ok(now.mean_access_ms * now.requests as f64)
    };
    let first = done(part)?;
    let before = done(part * (PARTS - 2))?;
    let last = done(part)? - before;
    Ok((first / part as f64, last / part as f64))
}

#[test]
fn the_example_runs() {
    compare(400).expect("every row runs");
}
