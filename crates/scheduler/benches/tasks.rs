//! The cost of registering and aborting a task while other tasks are active: an application that registers every dirty block as
//! a task has tens of thousands of tasks.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use freeblock_scheduler::{Config, InDrive, Parameter, Priority, Sessions};
use model::{DriveModel, builtin};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Lbn, LbnRange, Sectors, SessionId};

/// The sectors of 512 bytes in a block of 4 KB.
const BLOCK: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    // Tests run this without `--bench`: then all sizes are tiny.
    let full = std::env::args().any(|a| a == "--bench");
    let drive = Arc::new(DriveModel::from_profile(&builtin::find("nearline-4tb")?)?);
    let counts: &[u64] = if full { &[10, 1_000, 100_000] } else { &[10] };
    let rounds = if full { 2_000 } else { 20 };
    println!("{:>8}  {:24} {:>12} {:>12}", "active", "also", "begin, us", "abort, us");
    for &active in counts {
        for whole in [false, true] {
            let mut core = InDrive::new(Arc::clone(&drive), Config::default());
            let session = core.open(Priority::default())?;
            if whole {
                core.read(
                    session,
                    LbnRange::new(Lbn::ZERO, drive.layout().capacity()),
                    Sectors::new(BLOCK),
                    Parameter::default(),
                )?;
            }
            let mut places = ScatteredBlocks { blocks: drive.layout().capacity().get() / BLOCK, next: 1 };
            for _ in 0..active {
                begin(&mut core, session, &mut places)?;
            }
            let (mut begin_ns, mut abort_ns) = (0, 0);
            for _ in 0..rounds {
                let began = Clock::now();
                let task = begin(&mut core, session, &mut places)?;
                begin_ns += began.elapsed().as_nanos();
                let began = Clock::now();
                core.abort(task)?;
                abort_ns += began.elapsed().as_nanos();
            }
            let us = |ns: u128| ns as f64 / 1e3 / f64::from(rounds);
            let (begin_us, abort_us) = (us(begin_ns), us(abort_ns));
            let also = if whole { "a task over the drive" } else { "nothing" };
            println!("{active:8}  {also:24} {begin_us:12.2} {abort_us:12.2}");
        }
    }
    Ok(())
}

/// Generates blocks in a scattered order that is the same in every run.
struct ScatteredBlocks {
    blocks: u64,
    next: u64,
}

fn begin(
    core: &mut InDrive,
    session: SessionId,
    places: &mut ScatteredBlocks,
) -> Result<units::TaskId, Box<dyn Error>> {
    places.next = places.next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let block = (places.next >> 20) % places.blocks;
    let range = LbnRange::new(Lbn::new(block * BLOCK), Sectors::new(BLOCK));
    Ok(core.read(session, range, Sectors::new(BLOCK), Parameter::default())?)
}
