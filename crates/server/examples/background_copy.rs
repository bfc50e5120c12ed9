//! Measures how a copy of a disk slows its other clients, over the background export and over the usual one, in the
//! daemon's own disk on virtual time: `cargo run --release -p freeblock-server --example background_copy [DRIVE]
//! [DIRECTORY]`
//!
//! The drive is an emulated one with the behaviour `modern`, by default nearline-20tb over a sparse file in /dev/shm,
//! because few file systems on a disk allow a file of that size. The foreground is 50 requests of 4 KiB a second at
//! random places and times, two thirds of them reads. The copy reads 2 GB as `nbdcopy --requests=64` does, with 64
//! requests of 256 KiB at a time. The printed response times are those of the foreground until the copy is done, and
//! without a copy those of five minutes of foreground requests.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example, of a drive that exists

mod emulated;

use device::{Ask, BackgroundRequest, Device, Emulated};
use drive::Behaviour;
use model::Profile;
use server::{BackgroundTerms, Disk};
use std::collections::BTreeMap;
use std::path::Path;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::random::Stream;

const REQUESTS_PER_SECOND: f64 = 50.0;
const COPY_BYTES: u64 = 2_000_000_000;
const REQUEST_BYTES: u64 = 256 << 10;
const REQUESTS: u64 = 64;
const ALONE_TIME: Duration = Duration::from_secs(300);
/// The number of the copy's first request. Foreground requests have smaller numbers.
const COPY: u64 = 1 << 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Nothing,
    Foreground,
    Background,
}

fn run(profile: &Profile, directory: &str, by: By) {
    let mut disk: Disk<Emulated> = emulated::disk(profile, Behaviour::modern(), Path::new(directory));
    disk.take_background_requests(BackgroundTerms::default());
    let sector = disk.sector_bytes().get();
    let sectors = disk.size().get() / sector;
    let mut chance = Stream::new(42, "clients");
    let mut gap = || {
        let part = ((chance.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (
            Duration::from_millis_f64(-part.ln() * 1e3 / REQUESTS_PER_SECOND).unwrap(),
            chance.next_u64(),
            chance.next_u64(),
        )
    };
    let (mut now, mut due, mut id) = (Instant::ZERO, Instant::ZERO, 0);
    let (mut asked, mut times) = (BTreeMap::new(), Vec::new());
    let (mut sent, mut copied) = (0, 0);
    let ask_copy = |disk: &mut Disk<Emulated>, now, nth: u64| {
        let range =
            LbnRange::new(Lbn::new(nth * REQUEST_BYTES / sector), Sectors::new(REQUEST_BYTES / sector));
        if by == By::Background {
            disk.ask_in_background(
                now,
                BackgroundRequest { id: COPY + nth, client: 1, range, ask: Ask::Read, snapshot: None },
            );
        } else {
            disk.ask(now, COPY + nth, range, Ask::Read);
        }
    };
    if by != By::Nothing {
        (0..REQUESTS).for_each(|nth| ask_copy(&mut disk, now, nth));
        sent = REQUESTS;
    }
    let all = COPY_BYTES / REQUEST_BYTES;
    while if by == By::Nothing { now < Instant::ZERO + ALONE_TIME } else { copied < all } {
        let event = disk.next_event().filter(|at| *at <= due);
        now = now.max(event.unwrap_or(due));
        disk.advance(now);
        if now >= due {
            let (pause, place, kind) = gap();
            due += pause;
            let len = 4096 / sector.min(4096);
            let range = LbnRange::new(Lbn::new(place % (sectors / len) * len), Sectors::new(len));
            let write = Ask::Write { bytes: vec![0; 4096], through: false };
            asked.insert(id, now);
            disk.ask(now, id, range, if kind.is_multiple_of(3) { write } else { Ask::Read });
            id += 1;
        }
        while let Some(answer) = disk.poll(now) {
            assert!(answer.result.is_ok());
            if let Some(since) = asked.remove(&answer.id) {
                times.push(now.saturating_since(since).as_nanos() as f64 / 1e6);
            } else {
                copied += 1;
                if sent < all {
                    ask_copy(&mut disk, now, sent);
                    sent += 1;
                }
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let p99 = times[times.len() * 99 / 100];
    let seconds = now.as_nanos() as f64 / 1e9;
    let name = match by {
        By::Nothing => "no copy",
        By::Foreground => "copy, usual export",
        By::Background => "copy, background export",
    };
    let rate = copied as f64 * REQUEST_BYTES as f64 / 1e6 / seconds;
    println!(
        "{name:<24} {mean:>7.2} ms mean  {p99:>7.2} ms 99th percentile  {rate:>6.1} MB/s copied  {} requests",
        times.len()
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let drive = args.next().unwrap_or_else(|| "nearline-20tb".into());
    let directory = args.next().unwrap_or_else(|| "/dev/shm".into());
    let profile = model::builtin::find(&drive).unwrap();
    for by in [By::Nothing, By::Foreground, By::Background] {
        run(&profile, &directory, by);
    }
}
