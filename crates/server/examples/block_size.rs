//! Measures how the block size of a scan changes its use of gaps, in the daemon's own disk on virtual time: `cargo run
//! --release -p freeblock-server --example block_size`
//!
//! The drive is an emulated Atlas 10K whose times vary as a real drive's do; `freeblock serve` would know it by its
//! profile. The foreground is a constant number of outstanding 4 KiB requests at random places, two thirds of them
//! reads. The background is a scrub of the whole disk, in blocks of several sizes. Each line covers two simulated
//! minutes from the start of the scan.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example, of a drive that is there

use device::{Ask, Device, Emulated};
use drive::Behaviour;
use model::DriveModel;
use scheduler::{Application, Config, IdleTime, OutsideConfig, Parameter, Priority, Record, Sessions};
use server::{Disk, DiskHooks};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::random::Stream;

const MINUTES: u64 = 2;

#[derive(Default)]
struct Scan;

impl DiskHooks for Scan {}

impl Application for Scan {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

fn run(block_kib: u64, outstanding: u64) {
    let profile = model::builtin::find("quantum-atlas-10k").unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let behaviour = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
    let (_, overheads) = sim::black_box(&profile, behaviour, 1).unwrap();
    let path = std::env::temp_dir().join(format!("freeblock-block-size-{}", std::process::id()));
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let drive = Emulated::new(&profile, behaviour, 1, file).unwrap();
    let outside = OutsideConfig::beyond(overheads).with_harm_ppm(Some(10_000));
    let config = Config::default()
        .with_policy("sptf".parse().unwrap())
        .with_idle(Some(IdleTime::default()))
        .with_outside(outside)
        .with_most_partials(1 << 10);
    let capacity = model.layout().capacity().get();
    let mut disk = Disk::new(drive, model, config).unwrap();
    disk.host(Scan);
    let mut now = Instant::ZERO;
    disk.call(now, |_, sessions| {
        let session = sessions.open(Priority::default()).unwrap();
        let all = LbnRange::new(Lbn::ZERO, Sectors::new(capacity));
        sessions.read(session, all, Sectors::new(block_kib * 2), Parameter::default()).unwrap();
    });
    let mut chance = Stream::new(42, "clients");
    let mut id = 0;
    let mut ask = |disk: &mut Disk<Emulated, Scan>, now| {
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
