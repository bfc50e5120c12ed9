//! Any bytes as a DiskSim parameter file, with the part after the first zero byte as every file that it sources.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{DriveModel, disksim};
use std::{io, path::Path};

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (root, sourced) = bytes.split_at(cut);
    let files = |path: &Path| -> io::Result<Vec<u8>> {
        Ok(if path == Path::new("fuzz.parv") { root } else { sourced.get(1..).unwrap_or_default() }.to_vec())
    };
    if let Ok(imported) = disksim::import_from(&files, Path::new("fuzz.parv"), None) {
        DriveModel::from_profile(&imported.profile).expect("what the import gives is a drive");
    }
});
