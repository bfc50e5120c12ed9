//! A profile whose moves are longer than the drive's: requests seem to miss sectors that they would have reached, and
//! a detour in each such gap hides that. Gaps left unused as a control show it. Each run is compared with the same
//! run without background work.

use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::profile::Seek;
use model::{DriveModel, builtin};
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{Config, OutsideConfig, Overheads};
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

const REQUESTS: u64 = 15_000;
const SEEDS: [u64; 2] = [42, 43];

/// The excess of the profile's moves: a constant, as if a probe took a part of a command's overhead for the seek; or a
/// fraction of the move, which no constant corrects.
#[derive(Clone, Copy, Debug)]
enum ProfileExcess {
    LongerBy(i32),
    LongerByPercent(u32),
}

impl ProfileExcess {
    fn known(self) -> DriveModel {
        let mut profile = builtin::find("seagate-cheetah-18lp").unwrap();
        let truth = DriveModel::from_profile(&profile).unwrap();
        let percent = match self {
            Self::LongerBy(ns) => return truth.with_moves_longer_by(ns, ns),
            Self::LongerByPercent(percent) => percent,
        };
        let longer = |d: u32| truth.seek(d).as_nanos() as f64 / 1e6 * f64::from(100 + percent) / 100.0;
        let distances = (1..64).chain((64..truth.layout().cylinders()).step_by(32));
        profile.seek = Seek::Table { points: distances.map(|d| (d, longer(d))).collect() };
        DriveModel::from_profile(&profile).unwrap()
    }
}

/// The increase of the mean response time by a scan in percent, and the scan's rate.
#[derive(Clone, Copy, Debug)]
struct UnseenTwins {
    slower: f64,
    mb_per_s: f64,
}

fn twins(knowledge: ProfileExcess, policy: PolicyName, place: fn(Overheads) -> OutsideConfig) -> UnseenTwins {
    let known = Arc::new(knowledge.known());
    let each = SEEDS.map(|seed| {
        let run = |background| {
            let profile = builtin::find("seagate-cheetah-18lp").unwrap();
            let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
            let load = OltpConfig::new(known.layout().capacity(), known.sector_bytes());
            let source = Oltp::new(load, seed).unwrap();
            let load = Issuer::new(source, Arrival::oltp(10), Instant::ZERO, seed).unwrap();
            let config = Config::outside(place(overheads)).with_policy(policy);
            let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
            run.advance(REQUESTS, &mut Nothing).unwrap();
            run.report()
        };
        let (plain, scan) = (run(Background::None), run(Background::Scan { block: Sectors::new(8) }));
        let longer = scan.foreground.mean_response_ms / plain.foreground.mean_response_ms - 1.0;
        UnseenTwins { slower: longer * 100.0, mb_per_s: scan.background.mb_per_s }
    });
    let mean = |of: fn(&UnseenTwins) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
    UnseenTwins { slower: mean(|t| t.slower), mb_per_s: mean(|t| t.mb_per_s) }
}

const POLICIES: [PolicyName; 2] = [PolicyName::SptfSw(SeekWeight::percent(60)), PolicyName::Sstf];

const WRONG: [ProfileExcess; 3] =
    [ProfileExcess::LongerBy(100_000), ProfileExcess::LongerBy(250_000), ProfileExcess::LongerByPercent(6)];

/// Returns a configuration that never corrects the profile.
fn by_profile(overheads: Overheads) -> OutsideConfig {
    OutsideConfig::beyond(overheads).with_correct_moves(false)
}

#[test]
fn hidden_costs_are_bounded_as_well() {
    let cases = WRONG.into_iter().flat_map(|knowledge| POLICIES.map(|policy| (knowledge, policy)));
    for (knowledge, policy) in testing::some(1, cases) {
        for place in testing::some(1, [OutsideConfig::beyond as fn(Overheads) -> OutsideConfig, by_profile]) {
            let twins = twins(knowledge, policy, place);
            let corrects = place(Overheads::default()).correct_moves;
            assert!(twins.slower < 1.0, "{knowledge:?}, {policy}, corrected {corrects}: {twins:?}");
            assert!(twins.mb_per_s > 5.0, "{knowledge:?}, {policy}, corrected {corrects}: {twins:?}");
        }
    }
}

#[test]
fn without_control_gaps_hidden_costs_are_higher() {
    for knowledge in testing::some(1, WRONG) {
        let blind = |overheads| OutsideConfig::beyond(overheads).with_control_gaps(false);
        let of = |place| twins(knowledge, PolicyName::Sstf, place);
        let (blind, seeing) = (of(blind), of(OutsideConfig::beyond));
        assert!(blind.slower > seeing.slower + 1.2, "{knowledge:?}: {blind:?}, {seeing:?}");
    }
}
