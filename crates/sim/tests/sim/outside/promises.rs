//! Promises that hold for any load.

use super::rig::{Rig, outside, paper, profile};
use model::random_profile::Size;
use proptest::prelude::*;
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{IdleTime, Neighbours, OutsideConfig, Sessions};
use units::{Duration, Op};

#[derive(Clone, Debug)]
enum OutsideStep {
    Submit(bool, u64, u64),
    Register(usize, bool, u64, u64, u64),
    Abort(usize),
    Promote(usize, u64, u64),
    Suspend(usize),
    Resume(usize),
    Wait(u64),
    Next,
    Lose,
}

fn steps(loses: bool) -> impl Strategy<Value = Vec<OutsideStep>> {
    let step = prop_oneof![
        8 => (any::<bool>(), any::<u64>(), 1..24u64).prop_map(|(w, at, len)| OutsideStep::Submit(w, at, len)),
        2 => (0..2usize, prop::bool::weighted(0.3), any::<u64>(), 1..900u64, 1..20u64)
            .prop_map(|(s, w, at, len, block)| OutsideStep::Register(s, w, at, len, block)),
        1 => any::<usize>().prop_map(OutsideStep::Abort),
        1 => (0..2usize, any::<u64>(), 1..60u64).prop_map(|(s, at, len)| OutsideStep::Promote(s, at, len)),
        1 => (0..2usize).prop_map(OutsideStep::Suspend),
        1 => (0..2usize).prop_map(OutsideStep::Resume),
        4 => (1..20_000u64).prop_map(OutsideStep::Wait),
        12 => Just(OutsideStep::Next),
        u32::from(loses) => Just(OutsideStep::Lose),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Clone, Debug)]
struct PromiseCase {
    drive: u64,
    policy: PolicyName,
    conservatism: u64,
    free: bool,
    /// Whether the core knows only the drive's size.
    blind: bool,
    ready: u64,
    steps: Vec<OutsideStep>,
}

fn cases(loses: bool) -> impl Strategy<Value = PromiseCase> {
    let policy = prop_oneof![
        Just(PolicyName::Fcfs),
        Just(PolicyName::Sstf),
        Just(PolicyName::Sptf),
        Just(PolicyName::SptfSw(SeekWeight::percent(60))),
    ];
    (any::<u64>(), policy, 0..600u64, any::<bool>(), 1..=8u64, steps(loses)).prop_map(
        |(drive, policy, conservatism, free, ready, steps)| PromiseCase {
            drive,
            policy,
            conservatism,
            free,
            blind: false,
            ready,
            steps,
        },
    )
}

/// Runs until the clients have their blocks, although everything else is random.
fn run(case: &PromiseCase, bad: &[u64], stops: bool) -> Result<Rig, TestCaseError> {
    let profile = profile(case.drive, Size::Tiny);
    let conservatism = Duration::from_micros(case.conservatism);
    let mut place = paper(&profile, conservatism);
    if case.free {
        place = place
            .with_neighbours(Neighbours::Always)
            .with_touching(true)
            .with_source_track(true)
            .with_late_bus(true)
            .with_merge_after(true)
            .with_plan_rest(true)
            .with_in_order(true);
    }
    // Blocks that fit into no gap must be delivered as well.
    let idle = Some(IdleTime::default().with_harm_ppm(1_000_000));
    let mut rig = if case.blind {
        Rig::blind(&profile, outside(OutsideConfig::blind()).with_policy(case.policy).with_idle(idle))
    } else {
        Rig::new(&profile, outside(place).with_policy(case.policy).with_idle(idle))
    };
    let capacity = rig.core.drive().layout().capacity().get();
    rig.bad = bad.iter().map(|lbn| lbn % capacity).collect();
    rig.stops = stops;
    rig.loses_data = !stops && case.drive.is_multiple_of(2);
    let inexact = !bad.is_empty() || case.blind;
    rig.loses_commands = (inexact && case.drive.is_multiple_of(3)).then_some(7);
    rig.exact = bad.is_empty() && !case.blind;
    rig.ready = case.ready;
    rig.as_in_the_paper = !case.free && !case.blind;
    for step in &case.steps {
        let op = |write: bool| if write { Op::Write } else { Op::Read };
        match *step {
            OutsideStep::Submit(write, at, len) => rig.submit(op(write), rig.range(at, len))?,
            OutsideStep::Register(session, write, at, len, block) => {
                rig.register(session, op(write), rig.range(at, len), block);
            }
            OutsideStep::Abort(nth) => rig.abort(nth)?,
            OutsideStep::Promote(session, at, len) => {
                let (session, range) = (rig.sessions[session], rig.range(at, len));
                rig.core.promote(session, range).unwrap();
            }
            OutsideStep::Suspend(session) => rig.core.suspend(rig.sessions[session]).unwrap(),
            OutsideStep::Resume(session) => rig.core.resume(rig.sessions[session]).unwrap(),
            OutsideStep::Wait(us) => rig.wait_until(rig.now + Duration::from_micros(us))?,
            OutsideStep::Next => {
                rig.step()?;
            }
            OutsideStep::Lose => rig.lose(&profile)?,
        }
    }
    rig.finish()?;
    Ok(rig)
}

proptest! {
    /// The rig checks, among other promises, that each completion comes at the predicted nanosecond, that at most two
    /// commands are at the drive, and that merged commands end with the foreground's range. In the paper's
    /// configuration a detour must be sent directly before a request, on a track that is neither the request's nor
    /// that of the preceding command.
    #[test]
    fn all_commands_are_predicted_and_done_once(case in cases(false)) {
        let rig = run(&case, &[], false)?;
        prop_assert!(rig.most_at_drive <= 2);
    }

    #[test]
    fn on_an_unknown_drive_all_is_done_once(case in cases(true), bad in prop::collection::vec(any::<u64>(), 0..4)) {
        let rig = run(&PromiseCase { blind: true, ..case }, &bad, true)?;
        prop_assert_eq!((rig.detours, rig.merged, rig.core.planner_stats().gaps), (0, 0, 0));
        prop_assert!(rig.most_at_drive <= 2);
    }

    /// FAST'02, section 4.2: without background work the scheduler changes nothing.
    #[test]
    fn conservatism_is_for_detours_only(case in cases(false)) {
        let steps: Vec<OutsideStep> =
            case.steps.iter().filter(|step| !matches!(step, OutsideStep::Register(..))).cloned().collect();
        let of = |conservatism| run(&PromiseCase { steps: steps.clone(), conservatism, ..case.clone() }, &[], false);
        let (with, without) = (of(case.conservatism)?, of(0)?);
        prop_assert_eq!(with.log, without.log);
    }

    #[test]
    fn a_lost_request_is_repeated(case in cases(true)) {
        run(&case, &[], false)?;
    }

    #[test]
    fn bad_sectors_cost_their_own_blocks_only(
        case in cases(false), bad in prop::collection::vec(any::<u64>(), 1..12), stops in any::<bool>(),
    ) {
        run(&case, &bad, stops)?;
    }

    #[test]
    fn the_same_calls_give_the_same_commands(case in cases(true), bad in prop::collection::vec(any::<u64>(), 0..4)) {
        let (a, b) = (run(&case, &bad, true)?, run(&case, &bad, true)?);
        prop_assert_eq!(a.log, b.log);
    }
}
