//! Measures the time of a layout's queries: the location of an LBN, the LBN of a location, the tracks of a cylinder, the
//! LBNs of a track.
//!
//! `cargo bench -p freeblock-model --bench layout` runs five built-in drives and, if its file is available, the Maxtor
//! 300 GB; names after `--` select among them. A row has nanoseconds per query, the least of several rounds, and a
//! checksum of the answers.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and reads a clock"
)]

use freeblock_model::{DriveModel, Layout, Location, Profile, builtin, disksim};
use std::error::Error;
use std::path::Path;
use std::time::Instant;
use units::{Cylinder, Lbn, TrackIndex};

const DRIVES: [&str; 5] =
    ["quantum-atlas-10k", "seagate-cheetah-9lp", "ibm-ultrastar-9es", "nearline-4tb", "nearline-20tb"];

const MAXTOR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/drives/disksim/maxtor300g/maxtor300g.parv");

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test` runs benchmarks without `--bench`: then the numbers of rounds and queries are tiny.
    let full = std::env::args().any(|a| a == "--bench");
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    println!(
        "{:22} {:>8} {:>8} {:>8} {:>8}  checksum",
        "ns a query", "locate", "lbn_at", "cylinder", "extents"
    );
    for name in DRIVES.into_iter().filter(|name| wanted(name)) {
        row(name, &builtin::find(name)?, full)?;
    }
    let maxtor = Path::new(MAXTOR);
    if full && wanted("maxtor300g") && maxtor.exists() {
        row("maxtor300g", &disksim::import(maxtor)?.profile, full)?;
    }
    Ok(())
}

fn row(name: &str, profile: &Profile, full: bool) -> Result<(), Box<dyn Error>> {
    let model = DriveModel::from_profile(profile)?;
    let layout = model.layout();
    let (rounds, queries) = if full { (15, 200_000) } else { (1, 100) };
    let mut sum = 0_u64;
    let mut least = |ask: &dyn Fn(&Layout, u64) -> u64| {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let started = Instant::now();
            let mut state = 1_u64;
            for _ in 0..queries {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sum = sum.wrapping_add(ask(layout, state >> 16));
            }
            best = best.min(started.elapsed().as_nanos() as f64 / f64::from(queries));
        }
        best
    };
    let capacity = layout.capacity().get();
    let tracks = u64::from(layout.track_count());
    let cylinders = u64::from(layout.cylinders());
    let locate = least(&|layout, r| {
        layout.locate(Lbn::new(r % capacity)).map_or(0, |at| u64::from(at.track.get()) + u64::from(at.sector))
    });
    let lbn_at = least(&|layout, r| {
        let at = Location { track: TrackIndex::new((r % tracks) as u32), sector: (r >> 40) as u32 % 100 };
        layout.lbn_at(at).map_or(0, Lbn::get)
    });
    let cylinder = least(&|layout, r| {
        let here = layout.tracks_on(Cylinder::new((r % cylinders) as u32));
        here.map(|t| t.track().angle.parts() + u64::from(t.index().get())).fold(0, u64::wrapping_add)
    });
    let extents = least(&|layout, r| {
        layout.extents(TrackIndex::new((r % tracks) as u32)).map(|e| e.lbn.get() + u64::from(e.len)).sum()
    });
    println!("{name:22} {locate:8.1} {lbn_at:8.1} {cylinder:8.1} {extents:8.1}  {sum:016x}");
    Ok(())
}
