//! Profiles that leave open whether a drive caches writes, as after a probe that only reads.

use super::responses::{Pair, Pairs};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::profile::WriteBack;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Share};

/// The profile's statement about writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteKnowledge {
    Truth,
    Nothing,
}

/// Idle time or none, the arrivals, and the share of reads.
type MixedLoad = (Option<IdleTime>, Arrival, (u64, u64));

/// Runs a drive with the default noise that caches writes or not, in order of arrival, with a scan and without.
fn pair(
    name: &str,
    write_back: bool,
    knowledge: WriteKnowledge,
    (idle, arrival, reads): MixedLoad,
    (requests, seed): (u64, u64),
) -> Pair {
    let profile = builtin::find(name).unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let behaviour = Behaviour { write_back: Some(write_back), ..Behaviour::fast02() };
    let run = |background, idle| {
        let (drive, mut overheads) = black_box(&profile, behaviour, seed).unwrap();
        if knowledge == WriteKnowledge::Nothing {
            let mut firmware = profile.firmware.clone().unwrap();
            firmware.cache.write_back = WriteBack::Unknown;
            let of = Overheads::of(&firmware, &known, overheads.overlap);
            assert!(of.write_back && of.if_through.is_some());
            (overheads.command[1], overheads.completion[1]) = (of.command[1], of.completion[1]);
            (overheads.write_back, overheads.if_through) = (of.write_back, of.if_through);
        }
        let reads = Share::new(reads.0, reads.1).unwrap();
        let drawn =
            RandomConfig { reads, ..RandomConfig::new(known.layout().capacity(), known.sector_bytes()) };
        let load = Issuer::new(Random::new(drawn, seed).unwrap(), arrival, Instant::ZERO, seed).unwrap();
        let outside = OutsideConfig::beyond(overheads);
        let config = Config::default()
            .with_outside(outside)
            .with_idle(idle)
            .with_seed(seed)
            .with_policy(PolicyName::Fcfs);
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(requests, &mut Nothing).unwrap();
        run
    };
    Pair::of(&run(Background::None, None), &run(Background::Scan { block: Sectors::new(16) }, idle))
}

const ATLAS: &str = "quantum-atlas-10k";

#[test]
fn a_drive_with_unknown_write_back_is_trusted_either_way() {
    // A wrong statement in the profile would cost the core's trust and all gaps.
    let drives = [ATLAS, "seagate-cheetah-18lp"].into_iter();
    let cases = drives.flat_map(|name| [true, false].map(|write_back| (name, write_back)));
    let cases = cases.flat_map(|drive| [1, 4].map(|tasks| (drive, tasks)));
    for ((name, write_back), tasks) in testing::some(3, cases) {
        let how = (None, Arrival::outstanding(tasks), (2, 3));
        let [nothing, truth] = [WriteKnowledge::Nothing, WriteKnowledge::Truth]
            .map(|knowledge| pair(name, write_back, knowledge, how, (8_000, 42)));
        let what = format!("{name}, {write_back}, {tasks}: {nothing:?}, by the truth {truth:?}");
        assert!(nothing.trusted > 0.95, "{what}");
        assert!(nothing.detours * 10 > truth.detours * 9, "{what}");
    }
}

#[test]
fn the_harm_with_unknown_write_back_is_bounded() {
    // A wrong statement in the profile would make the foreground slower by more than the bound.
    for (write_back, rate) in testing::some(1, [(false, 20.0), (true, 20.0), (true, 60.0), (false, 60.0)]) {
        let how = (Some(IdleTime::default()), Arrival::Poisson { rate }, (3, 10));
        let seeds = 42..testing::sized(45, 58);
        let pairs =
            Pairs::of(seeds, |seed| pair(ATLAS, write_back, WriteKnowledge::Nothing, how, (20_000, seed)));
        pairs.assert_bounded_of(20_000, &format!("{write_back}, {rate} a second"));
    }
}
