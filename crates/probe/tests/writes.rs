//! Writes among reads, predicted by what a probe found: where writes are allowed, and where they are not.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::Emulated;
use drive::Behaviour;
use model::{Profile, builtin};
use probe::{Device, Options, Outcome, Predictor, Probe};
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Op, Sectors};

fn region_of(device: &dyn Device) -> LbnRange {
    LbnRange::new(Lbn::new(device.capacity().get() / 3), Sectors::new(20_000))
}

fn probed(device: &mut Emulated, writes: Option<LbnRange>) -> Outcome {
    let options = Options { writes, ..Options::default() };
    Probe::new(options).run(device, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Of random requests of 4 KiB all over the drive, a third of them writes, those within 50 us: by what was before and what came.
fn shares(drive: &mut Emulated, found: &Profile, requests: u32) -> (f64, [[(u32, u32); 2]; 2]) {
    let capacity = drive.capacity().get();
    let mut predictor = Predictor::new(found).unwrap();
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(bound)) >> 64) as u64
    };
    let mut counts = [[(0, 0); 2]; 2];
    let mut last = Op::Read;
    for i in 0..requests + 60 {
        let op = if i >= 60 && below(3) == 0 { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(below(capacity - 7)), Sectors::new(8));
        let timed = drive.execute(drive.now(), op, range).unwrap();
        match op {
            Op::Read => predictor.read(timed.submitted, range),
            Op::Write => predictor.write(timed.submitted, range),
        };
        let error = predictor.completed(timed.completed);
        if i >= 60 {
            let count = &mut counts[usize::from(last.is_write())][usize::from(op.is_write())];
            *count = (count.0 + u32::from(error.abs() <= 50_000), count.1 + 1);
        }
        last = op;
    }
    let near: u32 = counts.iter().flatten().map(|c| c.0).sum();
    (f64::from(near) / f64::from(requests), counts)
}

#[test]
fn experiment() {
    for name in builtin::names() {
        if name.starts_with("nearline") {
            continue;
        }
        let truth = builtin::find(name).unwrap();
        for (what, behaviour) in [
            ("through", Behaviour { write_back: Some(false), ..Behaviour::default() }),
            ("asis", Behaviour::default()),
            ("noisy", Behaviour::noisy()),
        ] {
            let mut device = Emulated::with(&truth, behaviour, 1);
            let region = region_of(&device);
            let found = probed(&mut device, Some(region));
            let (share, counts) = shares(&mut device, &found.profile, 2_000);
            let o = &found.profile.firmware.as_ref().unwrap().overheads;
            eprintln!(
                "{name} {what}: {:.1}% {counts:?} settle {} reads {:?} writes {:?} hit {:?}",
                100.0 * share,
                found.profile.mechanics.write_settle_ms,
                o.read_miss,
                o.write_miss,
                o.write_hit
            );
            let mut exact = Emulated::with(&truth, behaviour, 1);
            let mut own = truth.clone();
            if what != "asis" {
                own.firmware.as_mut().unwrap().cache.write_back = model::profile::WriteBack::None;
            }
            let (share, counts) = shares(&mut exact, &own, 2_000);
            eprintln!(
                "   by its own profile {:.1}% {counts:?} settle {} {:?}",
                100.0 * share,
                truth.mechanics.write_settle_ms,
                (
                    own.firmware.as_ref().unwrap().overheads.read_miss,
                    own.firmware.as_ref().unwrap().overheads.write_miss
                )
            );
        }
    }
}
