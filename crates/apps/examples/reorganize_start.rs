//! How long a reorganisation takes to begin, by how many blocks it moves: so long nothing else is done by whoever begins it.
//! In processor time, so that other programs do not count.
//! `cargo run --release -p freeblock-apps --example reorganize_start`
//!
//! Random blocks of 4 KiB of an Atlas 10K go to random places, and in one cycle; the core is as a daemon's, without load.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example

use freeblock_apps::reorganizer::{Nvram, NvramLost, Options, Plan, Reorganizer};
use model::DriveModel;
use scheduler::{Config, Core};
use std::sync::Arc;
use units::{Bytes, Lbn, LbnRange, Sectors};
use workload::random::Stream;

/// Bytes that were to be kept.
#[derive(Default)]
struct Paper(usize);

impl Nvram for Paper {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        self.0 += bytes.len();
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        self.0 = bytes.len();
        Ok(())
    }
}

/// Milliseconds that this thread has had a processor, as Linux counts them: others do not add to it.
fn on_cpu_ms() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

fn main() {
    let model =
        Arc::new(DriveModel::from_profile(&model::builtin::find("quantum-atlas-10k").unwrap()).unwrap());
    let capacity = model.layout().capacity();
    let (block, sector) = (Sectors::new(8), Bytes::new(512));
    let region = LbnRange::new(Lbn::ZERO, Sectors::new(capacity.get() / 8 * 8));
    println!("blocks     kind     begins in  bytes remembered");
    for shift in [14, 16, 18, 20] {
        let count = 1 << shift;
        for kind in ["random", "circular"] {
            let mut chance = Stream::new(1, "plan");
            let mut below = |n| chance.below(n);
            let plan = match kind {
                "random" => Plan::random(region, block, capacity, count, &mut below).unwrap(),
                _ => Plan::circular(region, block, capacity, count, &mut below).unwrap(),
            };
            let mut core = Core::try_new(Arc::clone(&model), Config::default()).unwrap();
            let began = on_cpu_ms();
            let options = Options { staging: 1_024, ..Options::default() };
            let machine = Reorganizer::start(&plan, options, sector, Paper::default(), &mut core).unwrap();
            println!("{count:>9}  {kind:<8} {:>6} ms  {}", on_cpu_ms() - began, machine.nvram().0);
        }
    }
}
