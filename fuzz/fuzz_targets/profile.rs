//! Any text as a profile: an error, or a drive whose first and last LBN are where the layout says, both ways.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{DriveModel, Profile};
use units::Lbn;

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::from_toml(text, "fuzz.toml") else { return };
    let Ok(drive) = DriveModel::from_profile(&profile) else { return };
    let layout = drive.layout();
    for lbn in [0, layout.capacity().get() - 1].map(Lbn::new) {
        let location = layout.locate(lbn).expect("every LBN below the capacity is somewhere");
        assert_eq!(layout.lbn_at(location), Some(lbn));
    }
});
