//! SMTF on simulated drives: learning, the replacement of the drive, and the use of idle time.

use mimic::{Learner, LearnerConfig, LearnerStats};
use model::{DriveModel, builtin};
use scheduler::policy::{PolicyName, SmtfRule};
use scheduler::{Config, Harm, IdleTime, Mimic};
use sim::{Background, Inside, Nothing};
use std::any::Any;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Source};

fn drive(name: &str) -> Arc<DriveModel> {
    let profile = builtin::find(name).expect("a built-in drive");
    Arc::new(DriveModel::from_profile(&profile).expect("built-in drives describe drives"))
}

/// Returns a load of blocks of 4 KB in the first of `part` equal parts of the drive.
fn load(drive: &DriveModel, part: u64) -> RandomConfig {
    RandomConfig::new(Sectors::new(drive.layout().capacity().get() / part), drive.sector_bytes())
}

fn config(drive: &DriveModel) -> LearnerConfig {
    LearnerConfig::new(drive.layout().capacity(), Sectors::new(8))
}

/// Runs `requests` requests under SMTF; returns the mean access time, ms, and the learner.
fn run(
    drive: &Arc<DriveModel>,
    load: RandomConfig,
    arrival: Arrival,
    learner: Learner,
    requests: u64,
) -> (f64, Learner) {
    let (access, _, learner) = run_with(drive, load, arrival, (learner, IdleTime::default()), requests);
    (access, learner)
}

/// Runs `requests` requests under SMTF with a configuration of idle time; returns the core's estimated harm too.
fn run_with(
    drive: &Arc<DriveModel>,
    load: RandomConfig,
    arrival: Arrival,
    (learner, idle): (Learner, IdleTime),
    requests: u64,
) -> (f64, Harm, Learner) {
    let policy = PolicyName::Smtf(SmtfRule::default());
    let idle = Some(idle);
    let source = Box::new(Random::new(load, 11).expect("a load")) as Box<dyn Source>;
    let issuer = Issuer::new(source, arrival, Instant::ZERO, 11).expect("a load");
    let config = Config::default().with_policy(policy).with_idle(idle);
    let mut inside = Inside::new(Arc::clone(drive), config, issuer, Background::None).expect("no background");
    inside.core_mut().set_mimic(Some(Box::new(learner)));
    assert!(inside.advance(requests, &mut Nothing).expect("requests on the drive"));
    let access = inside.report().foreground.mean_access_ms;
    let harm = inside.harm();
    let mimic: Box<dyn Any> = inside.core_mut().set_mimic(None).expect("the learner that was given");
    (access, harm, *mimic.downcast::<Learner>().expect("a learner"))
}

fn learner(config: LearnerConfig) -> Learner {
    Learner::new(config, None).expect("a configuration that holds")
}

fn changes(learner: &Learner) -> u32 {
    let LearnerStats { changes, .. } = learner.stats();
    changes
}

#[test]
fn no_drive_is_taken_for_another() {
    for name in testing::some(2, ["mimic-base", "quantum-atlas-10k", "nearline-4tb"]) {
        let drive = drive(name);
        let mut learner = learner(config(&drive));
        // The load is in one place, then all over the drive, then of few requests at a time: the distances change,
        // the drive does not.
        for (part, outstanding) in [(1_000, 20), (1, 20), (40, 2), (1, 64)] {
            let arrival = Arrival::outstanding(outstanding);
            (_, learner) = run(&drive, load(&drive, part), arrival, learner, 20_000);
            assert_eq!(changes(&learner), 0, "{name}, a part in {part}, {outstanding} outstanding");
        }
    }
}

#[test]
fn a_replaced_drive_is_noticed_and_relearnt() {
    let (old, new) = (drive("mimic-base"), drive("mimic-slow-rotate"));
    let arrival = Arrival::outstanding(20);
    let near = |drive: &DriveModel| load(drive, 2_000);
    let (_, learnt) = run(&old, near(&old), arrival, learner(config(&old)), 30_000);
    assert_eq!(changes(&learnt), 0);
    // The change must be detected within 1,000 requests.
    let (_, noticed) = run(&new, near(&new), arrival, learnt.clone(), 1_000);
    assert_eq!(changes(&noticed), 1);
    let (relearnt_ms, relearnt) = run(&new, near(&new), arrival, noticed, 30_000);
    assert_eq!(changes(&relearnt), 1, "once is enough");
    // The learner must be as good as one that never ran on the old drive.
    let (fresh_ms, _) = run(&new, near(&new), arrival, learner(config(&new)), 30_000);
    assert!((relearnt_ms - fresh_ms).abs() < fresh_ms * 0.05, "{relearnt_ms} and {fresh_ms} ms");
}

#[test]
fn idle_time_is_used_to_learn() {
    let drive = drive("mimic-base");
    let known = |probe_idle, idle| {
        // One request in 200 ms leaves the drive idle nine tenths of the time.
        let arrival = Arrival::Poisson { rate: 5.0 };
        let config = LearnerConfig { probe_idle, ..config(&drive) };
        let (_, harm, learner) = run_with(&drive, load(&drive, 100), arrival, (learner(config), idle), 400);
        (learner.stats(), harm.share())
    };
    let bounded = IdleTime::default();
    let unbounded = bounded.with_harm_ppm(1_000_000);
    // A request after a pause is not learnt from, and here each follows a pause.
    let (without, _) = known(false, bounded);
    assert!(without.known < 40 && without.after_pause > 300, "{without:?}");
    let (all, harm) = known(true, unbounded);
    assert!(all.known > 2_000 && harm > 0.05, "{all:?}, {harm}");
    // Requests that arrive during a probe wait for it, so the bound on harm allows fewer probes.
    let (some, harm) = known(true, bounded);
    assert!(some.known > 100 && some.known < all.known && harm < 0.02, "{some:?}, {harm}");
    let mut never = learner(config(&drive));
    assert!(!never.uses_idle_time());
    assert_eq!(never.wanted(scheduler::Last { op: units::Op::Read, lbn: units::Lbn::ZERO }), None);
}
