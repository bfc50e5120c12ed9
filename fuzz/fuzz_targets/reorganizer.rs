//! Any bytes as a plan of a reorganisation, and as the state of one: an error, or what they say they are.
#![no_main]

use apps::reorganizer::{Plan, Reorganizer, Volatile};
use libfuzzer_sys::fuzz_target;
use units::{Bytes, Lbn, LbnRange, Sectors};

#[path = "../src/idle.rs"]
mod idle;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plan) = Plan::decode(bytes) {
        assert_eq!(Plan::decode(&plan.encode()), Ok(plan));
    }
    let region = LbnRange::new(Lbn::ZERO, Sectors::new(64));
    let Ok(plan) = Plan::circular(region, Sectors::new(2), Sectors::new(64), 9, &mut |n| n.get() / 2) else {
        return;
    };
    let options = Default::default();
    if let Ok(machine) = Reorganizer::recover(&plan, bytes, options, Bytes::new(4), Volatile, &mut idle::Idle)
    {
        let progress = machine.progress();
        let parts = [progress.waiting, progress.staged, progress.kept, progress.done, progress.stuck];
        assert_eq!(parts.iter().sum::<u64>(), progress.blocks);
    }
});
