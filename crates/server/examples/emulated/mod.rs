//! The daemon's disk over an emulated drive, for examples.

use device::Emulated;
use drive::Behaviour;
use model::{DriveModel, Profile};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig};
use server::{Disk, DiskHooks};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Returns a disk that knows the drive's true profile, and whose bytes are in a nameless file in
/// `directory`.
pub fn disk<A: DiskHooks>(profile: &Profile, behaviour: Behaviour, directory: &Path) -> Disk<Emulated, A> {
    let model = Arc::new(DriveModel::from_profile(profile).unwrap());
    let (_, overheads) = sim::black_box(profile, behaviour, 1).unwrap();
    let path = directory.join(format!("freeblock-example-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let drive = Emulated::new(profile, behaviour, 1, file).unwrap();
    let config = Config::outside(OutsideConfig::beyond(overheads))
        .with_policy(PolicyName::Sptf)
        .with_idle(Some(IdleTime::default()))
        .with_most_partials(1 << 10);
    Disk::new(drive, model, config).unwrap()
}
