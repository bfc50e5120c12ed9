//! Measures how long a reorganisation takes to begin, by the number of blocks that it moves. Prints the processor
//! time of a start in one step, and of a start as the daemon makes it: the time of the preparation, which runs beside
//! the disk's loop, and of the longest step of at most 4096 calls in which that loop registers blocks. `cargo run
//! --release -p freeblock-apps --example reorganize_start`
//!
//! Random blocks of 4 KiB of an Atlas 10K move to random places, and in one cycle; the core is set up as a daemon's,
//! without load.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example

use freeblock_apps::reorganizer::{Nvram, NvramLost, Options, Prepared, RelocationPlan, Reorganizer};
use model::DriveModel;
use scheduler::{Config, InDrive};
use std::sync::Arc;
use units::{Bytes, Lbn, LbnRange, Sectors};
use workload::random::Stream;

/// Counts the bytes that would be kept in NVRAM.
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

/// Returns the processor time of this thread in ms, as Linux counts it: other threads do not add to it. Linux counts
/// at the ticks of its clock, every 4 ms on many machines: a step is no longer than what is printed, and often much
/// shorter.
fn on_cpu_ms() -> f64 {
    let reported = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    reported.split_whitespace().next().unwrap().parse::<u64>().unwrap() as f64 / 1e6
}

/// The daemon's limit of calls a step.
const CALLS: usize = 1 << 12;

fn main() {
    let model =
        Arc::new(DriveModel::from_profile(&model::builtin::find("quantum-atlas-10k").unwrap()).unwrap());
    let capacity = model.layout().capacity();
    let (block, sector) = (Sectors::new(8), Bytes::new(512));
    let region = LbnRange::new(Lbn::ZERO, Sectors::new(capacity.get() / 8 * 8));
    println!("blocks     kind       at once   prepared in  steps  longest step  bytes remembered");
    for shift in [14, 16, 18, 20] {
        let count = 1 << shift;
        for kind in ["random", "circular"] {
            let mut chance = Stream::new(1, "plan");
            let mut below = |n| chance.below(n);
            let plan = match kind {
                "random" => RelocationPlan::random(region, block, capacity, count, &mut below).unwrap(),
                _ => RelocationPlan::circular(region, block, capacity, count, &mut below).unwrap(),
            };
            let mut core = InDrive::try_new(Arc::clone(&model), Config::default()).unwrap();
            let began = on_cpu_ms();
            let options = Options { staging: 1_024, ..Options::default() };
            let machine = Reorganizer::start(&plan, options, sector, Paper::default(), &mut core).unwrap();
            let (at_once, bytes) = (on_cpu_ms() - began, machine.nvram().0);
            drop(machine);

            let mut core = InDrive::try_new(Arc::clone(&model), Config::default()).unwrap();
            let began = on_cpu_ms();
            let prepared = Prepared::fresh(&plan, options, sector).unwrap();
            let prepared_in = on_cpu_ms() - began;
            let (mut steps, mut longest) = (0, 0.0_f64);
            let mut step = |began: f64| {
                steps += 1;
                longest = longest.max(on_cpu_ms() - began);
            };
            let began = on_cpu_ms();
            let mut machine = Reorganizer::begin(prepared, Paper::default(), &mut core).unwrap();
            step(began);
            loop {
                let began = on_cpu_ms();
                let done = machine.begin_some(&mut core, CALLS).unwrap();
                step(began);
                if done {
                    break;
                }
            }
            assert_eq!(machine.nvram().0, bytes);
            println!(
                "{count:>9}  {kind:<8} {at_once:>6.0} ms  {prepared_in:>8.0} ms  {steps:>5}  {longest:>9.1} ms  {bytes}"
            );
        }
    }
}
