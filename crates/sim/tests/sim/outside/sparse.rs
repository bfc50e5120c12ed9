//! Few wanted blocks, as at the end of a scan: several plans for a gap, and revolutions spent on purpose.

use super::responses::{Pair, Pairs};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, Core, OutsideConfig, Parameter, Priority, Sessions};
use std::ops::Range;
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

const BLOCK: u64 = 8;
/// One wanted block in forty.
const SPARSE: Wanted = Wanted::One { of: 40 };
/// Wanted blocks that are far from most requests.
const FAR: Wanted = Wanted::First { percent: 2 };
const ALL: Wanted = Wanted::First { percent: 100 };
const REQUESTS: u64 = 8_000;

/// The blocks that are wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    One { of: u64 },
    First { percent: u64 },
}

/// The number of wanted blocks that were read, and of revolutions that were spent on purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    blocks: u64,
    extra_revolutions: u64,
}

/// Runs ten tasks with think times on a drive with the default noise, without background work and with wanted blocks.
fn pair(wanted: Wanted, seed: u64, config: impl Fn(OutsideConfig) -> OutsideConfig) -> (Had, Pair) {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let capacity = known.layout().capacity();
    let run = |wanted: Option<Wanted>| {
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let oltp = Oltp::new(OltpConfig::new(capacity, known.sector_bytes()), seed).unwrap();
        let load = Issuer::new(oltp, Arrival::oltp(10), Instant::ZERO, seed).unwrap();
        let outside = config(OutsideConfig::beyond(overheads));
        let config = Config::default().with_policy(PolicyName::Sptf).with_outside(outside);
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, Background::None).unwrap();
        let core = run.core_mut();
        let session = core.open(Priority::default()).unwrap();
        let all = capacity.get() / BLOCK;
        let lbns =
            |first: u64, blocks: u64| LbnRange::new(Lbn::new(first * BLOCK), Sectors::new(blocks * BLOCK));
        let first = |percent| lbns(0, all * percent / 100);
        let range =
            wanted.map(|of| if let Wanted::First { percent } = of { first(percent) } else { first(100) });
        if let Some(range) = range {
            core.read(session, range, Sectors::new(BLOCK), Parameter::default()).unwrap();
        }
        if let Some(Wanted::One { of }) = wanted {
            for block in (0..all).filter(|block| block % of == 0 && block + of <= all) {
                core.abort_range(session, lbns(block + 1, of - 1)).unwrap();
            }
        }
        let to_come = |core: &Core| wanted.map_or(0, |_| core.undelivered(session).unwrap());
        let before = to_come(core);
        run.advance(REQUESTS, &mut Nothing).unwrap();
        let had = before - to_come(run.core());
        (run, had)
    };
    let ((plain, _), (with, blocks)) = (run(None), run(Some(wanted)));
    (Had { blocks, extra_revolutions: with.planner_stats().extra_revolutions }, Pair::of(&plain, &with))
}

/// Runs several seeds.
fn pairs_of(
    wanted: Wanted,
    seeds: Range<u64>,
    config: impl Fn(OutsideConfig) -> OutsideConfig + Copy,
) -> (Had, Pairs) {
    let mut had = Had::default();
    let pairs = Pairs::of(seeds, |seed| {
        let (one, pair) = pair(wanted, seed, config);
        (had.blocks, had.extra_revolutions) =
            (had.blocks + one.blocks, had.extra_revolutions + one.extra_revolutions);
        pair
    });
    (had, pairs)
}

#[test]
fn the_rest_of_a_gap_behind_a_detour_is_used_as_well() {
    let [(with, pairs), (without, _)] =
        [true, false].map(|plan_rest| pairs_of(SPARSE, 42..45, |beyond| beyond.with_plan_rest(plan_rest)));
    assert!(with.blocks * 100 > without.blocks * 110, "{with:?} {without:?}");
    assert_eq!((with.extra_revolutions, without.extra_revolutions), (0, 0));
    pairs.assert_bounded("the rest of each gap is used");
}

/// Returns a configuration that spends revolutions on purpose, or not.
fn spends(extra_revolutions: bool) -> impl Fn(OutsideConfig) -> OutsideConfig + Copy {
    move |beyond| beyond.with_plan_rest(true).with_extra_revolutions(extra_revolutions)
}

#[test]
fn revolutions_are_spent_where_worth_it() {
    let [(with, _), (without, _)] = [true, false].map(|spent| pair(FAR, 42, spends(spent)));
    assert!(with.blocks * 100 > without.blocks * 120 && with.extra_revolutions > 0, "{with:?} {without:?}");
}

#[test]
fn revolutions_are_spent_where_worth_it_and_within_the_bound() {
    let seeds = 42..106;
    let [(with, pairs), (without, _)] =
        [true, false].map(|spent| pairs_of(FAR, seeds.clone(), spends(spent)));
    assert!(with.blocks * 100 > without.blocks * 120 && with.extra_revolutions > 0, "{with:?} {without:?}");
    pairs.assert_bounded("revolutions are spent");
    // If all blocks are wanted, an extra revolution yields little more than a usual gap.
    let (_, pairs_dense) = pairs_of(ALL, seeds, spends(true));
    pairs_dense.assert_bounded("revolutions may be spent where all is wanted");
}

#[test]
fn without_a_bound_no_revolution_is_spent() {
    let (had, _) =
        pair(FAR, 42, |beyond| beyond.with_plan_rest(true).with_extra_revolutions(true).with_harm_ppm(None));
    assert!(had.blocks > 1_000 && had.extra_revolutions == 0, "{had:?}");
}
