//! The order of tracks and heads: found where moves show it, else said not to be known.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Emulated, finding};
use model::builtin;
use model::profile::Order;
use probe::{Options, Outcome, Probe};
use std::ops::ControlFlow;

fn probed(mut device: Emulated) -> Outcome {
    Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Heads back and forth, where a move to the next cylinder and another head takes longer than one to the same head.
#[test]
fn heads_back_and_forth_are_found_where_moves_show_them() {
    for (drive, noisy) in [("mimic-base", false), ("mimic-base", true), ("mimic-slow-seek", true)] {
        for order in [Order::CylinderSerpentine, Order::Cylinder] {
            let mut truth = builtin::find(drive).unwrap();
            truth.layout.order = order;
            let found = probed(if noisy { Emulated::noisy(&truth, 2) } else { Emulated::new(&truth) });
            let said = finding(&found, "order of tracks");
            assert_eq!(found.profile.layout.order, order, "{drive}: {said:?}");
            assert_eq!(found.profile.heads, truth.heads, "{drive}");
            assert!(said.confidence > 0.95, "{drive}: {said:?}");
        }
    }
}

#[test]
fn bands_of_a_surface_are_found_for_sure() {
    let truth = builtin::find("nearline-4tb").unwrap();
    for device in [Emulated::new(&truth), Emulated::noisy(&truth, 2)] {
        let found = probed(device);
        let said = finding(&found, "order of tracks");
        assert_eq!(found.profile.layout.order, truth.layout.order);
        assert!(said.confidence > 0.95, "{said:?}");
    }
}

/// Its head switch is hidden by the shortest seek, and to the next cylinder any head takes as long: both orders of heads
/// have the same times, whatever is asked.
#[test]
fn an_order_of_heads_that_no_move_shows_is_said_not_to_be_known() {
    let truth = builtin::find("quantum-atlas-10k").unwrap();
    assert_eq!(truth.layout.order, Order::CylinderSerpentine);
    let found = probed(Emulated::new(&truth));
    let order = finding(&found, "order of tracks");
    assert!(order.confidence < 0.6 && order.note.contains("back and forth"), "{order:?}");
    let heads = finding(&found, "heads");
    assert!(found.profile.heads == truth.heads && heads.confidence > 0.95, "{heads:?}");
}

/// Over a bus that is faster than the medium, on which half a track takes its time all the same: an Atlas 10K by FAST'02.
#[test]
fn a_read_that_may_begin_anywhere_is_told_from_one_that_waits() {
    for (drive, on) in [
        ("quantum-atlas-10k", true),
        ("quantum-atlas-10k", false),
        ("seagate-cheetah-18lp", true),
        ("seagate-cheetah-18lp", false),
        ("mimic-base", true),
        ("mimic-base", false),
    ] {
        let mut truth = builtin::find(drive).unwrap();
        (truth.mechanics.zero_latency_read, truth.mechanics.zero_latency_write) = (on, on);
        for seed in 1..4 {
            let found = probed(Emulated::noisy(&truth, seed));
            let said = finding(&found, "zero-latency reads");
            assert_eq!(found.profile.mechanics.zero_latency_read, on, "{drive}, seed {seed}: {said:?}");
            assert!(said.confidence > 0.9, "{drive}, seed {seed}: {said:?}");
        }
    }
}
