//! Measures how the block size of a scan changes its use of gaps, in the daemon's own disk on virtual time: `cargo run
//! --release -p freeblock-server --example block_size`
//!
//! The drive is an emulated Atlas 10K whose times vary as a real drive's do, and the disk has the drive's profile.
//! The foreground is a constant number of outstanding 4 KiB requests at random places, two thirds of them reads. The
//! background is a scan of the whole disk, in blocks of several sizes. Each line covers two simulated minutes from
//! the start of the scan.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example, of a drive that exists

mod emulated;

use device::{Ask, Device, Emulated};
use drive::Behaviour;
use scheduler::{Application, Parameter, Priority, Record, Sessions};
use server::{Disk, DiskHooks};
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::random::Stream;

const MINUTES: u64 = 2;

#[derive(Default)]
struct BlockSizeScan;

impl DiskHooks for BlockSizeScan {}

impl Application for BlockSizeScan {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

fn run(block_kib: u64, outstanding: u64) {
    let profile = model::builtin::find("quantum-atlas-10k").unwrap();
    let behaviour = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
    let mut disk = emulated::disk(&profile, behaviour, &std::env::temp_dir());
    let capacity = disk.core().drive().layout().capacity().get();
    disk.host(BlockSizeScan);
    let mut now = Instant::ZERO;
    disk.call(now, |_, sessions| {
        let session = sessions.open(Priority::default()).unwrap();
        let all = LbnRange::new(Lbn::ZERO, Sectors::new(capacity));
        sessions.read(session, all, Sectors::new(block_kib * 2), Parameter::default()).unwrap();
    });
    let mut chance = Stream::new(42, "clients");
    let mut id = 0;
    let mut ask = |disk: &mut Disk<Emulated, BlockSizeScan>, now| {
        id += 1;
        let range = LbnRange::new(Lbn::new(chance.next_u64() % (capacity / 8) * 8), Sectors::new(8));
        let write = Ask::Write { bytes: vec![0; 4096], through: false };
        disk.ask(now, id, range, if chance.next_u64().is_multiple_of(3) { write } else { Ask::Read });
    };
    (0..outstanding).for_each(|_| ask(&mut disk, now));
    while now < Instant::ZERO + Duration::from_secs(60 * MINUTES) {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        while disk.poll(now).is_some() {
            ask(&mut disk, now);
        }
    }
    let status = disk.status();
    let seconds = 60.0 * MINUTES as f64;
    println!(
        "{block_kib:>5} KiB  {outstanding:>2} waiting  {:>6.1} requests/s  {:>5.2} MB/s for free  {:>5} of {:>5} gaps used",
        (status.reads.count + status.writes.count) as f64 / seconds,
        status.background.gap_bytes as f64 / 1e6 / seconds,
        status.gaps.used,
        status.gaps.seen,
    );
}

fn main() {
    for outstanding in [1, 8] {
        for block_kib in [4, 8, 16, 32, 64, 128, 256] {
            run(block_kib, outstanding);
        }
    }
}
