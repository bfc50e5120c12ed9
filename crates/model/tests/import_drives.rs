//! The parameter files of real drives, where they are at hand: what they map, and that the built-in profiles agree.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a skipped test says so

use freeblock_model::DriveModel;
use freeblock_model::disksim::{self, Imported};
use std::path::PathBuf;

/// The directory of DiskSim's parameter files; a clone of this project alone does not have it.
fn disksim_file(name: &str) -> Option<PathBuf> {
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/drives/disksim")).join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} not found", path.display());
    None
}

fn import(name: &str) -> Option<Imported> {
    Some(disksim::import(&disksim_file(name)?).unwrap())
}

#[test]
fn capacities_are_those_that_disksim_maps() {
    let expected = [
        ("atlas10k.parv", 17_966_953),
        ("cheetah4LP.parv", 8_887_940),
        ("cheetah9LP.parv", 17_918_387),
        ("hp_c2247a.parv", 2_054_864),
        ("ibm18es.parv", 18_033_753),
        ("nearline4t/G4_LBA_64bit_4T.parv", 7_542_225_920),
    ];
    for (file, capacity) in expected {
        let Some(imported) = import(file) else { return };
        let model = DriveModel::from_profile(&imported.profile).unwrap();
        assert_eq!(model.layout().capacity().get(), capacity, "{file}");
    }
}
