//! Profiles from a probe that only reads, one command at a time: the core finds the missing parts from completions.

use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, OutsideConfig};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

const REQUESTS: u64 = 6_000;
const SCAN: Background = Background::Scan { block: Sectors::new(8) };

/// The excess of the true drive's moves to read and to write over the profile's, in ns.
const EXCESS_MOVE_NS: [i64; 2] = [189_000, 676_000];

/// Runs an Atlas 10K by its true profile, or by a probe's.
fn run(
    probed: bool,
    background: Background,
    config: impl Fn(OutsideConfig) -> OutsideConfig,
) -> Outside<Oltp> {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let truth = DriveModel::from_profile(&profile).unwrap();
    let (drive, overheads) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
    let (known, overheads) = if probed {
        // A probe cannot measure a head switch that is shorter than the shortest seek, so its profile has only an
        // upper bound.
        let mut bounded = profile.clone();
        bounded.mechanics.head_switch_ms = 0.95;
        let bounded = DriveModel::from_profile(&bounded).unwrap();
        let [read, write] = EXCESS_MOVE_NS.map(|ns| i32::try_from(-ns).unwrap());
        // The probe's overheads are longer by as much as its seeks to read are shorter, so that the sum is right for
        // reads.
        let command = [Duration::from_nanos(EXCESS_MOVE_NS[0].unsigned_abs()); 2];
        (bounded.with_moves_longer_by(read, write), overheads.with_command(command))
    } else {
        (truth, overheads)
    };
    let source = Oltp::new(OltpConfig::new(known.layout().capacity(), known.sector_bytes()), 3).unwrap();
    let load = Issuer::new(source, Arrival::oltp(10), Instant::ZERO, 3).unwrap();
    let outside = config(OutsideConfig::paper(overheads, Duration::from_micros(300)));
    let config = Config::outside(outside).with_policy(PolicyName::Sptf);
    let mut run = Outside::new(drive, Arc::new(known), config, load, background).unwrap();
    run.advance(REQUESTS, &mut Nothing).unwrap();
    run
}

fn corrected(on: bool) -> impl Fn(OutsideConfig) -> OutsideConfig {
    move |config| config.with_correct_moves(on)
}

fn response(run: &Outside<Oltp>) -> f64 {
    run.report().foreground.mean_response_ms
}

#[test]
fn moves_that_a_probe_cannot_know_are_learned_from_completions() {
    let plain = response(&run(true, Background::None, corrected(true)));
    let learned = run(true, SCAN, corrected(true));
    let moves = learned.core().moves_longer_by();
    for (found, real) in moves.into_iter().zip(EXCESS_MOVE_NS) {
        assert!((found - real).abs() <= 50_000, "{found} for {real}");
    }
    let slower = |run: &Outside<Oltp>| (response(run) / plain - 1.0) * 100.0;
    assert!(slower(&learned) < 2.0, "{:.2}%", slower(&learned));
    // By the uncorrected profile a scan would cost much more.
    let by_profile = run(true, SCAN, corrected(false));
    assert!(slower(&by_profile) > 8.0, "{:.2}%", slower(&by_profile));
}

#[test]
fn a_profile_that_is_right_is_left_as_it_is() {
    let [learned, by_profile] = [true, false].map(|on| run(false, SCAN, corrected(on)));
    assert_eq!(learned.core().moves_longer_by(), [0, 0]);
    assert_eq!(response(&learned).to_bits(), response(&by_profile).to_bits());
}

#[test]
fn a_late_choice_is_made_from_more_requests() {
    let chosen = |late: bool| response(&run(false, Background::None, |config| config.with_late_choice(late)));
    let (early, late) = (chosen(false), chosen(true));
    assert!(late < early * 0.98, "{late} ms, {early} ms");
}
