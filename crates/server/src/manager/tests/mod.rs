#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

mod calls;
mod damage;
mod damage_on_disk;
mod histories;
mod images;
#[path = "../../../tests/server/support/log.rs"]
#[allow(unreachable_pub, dead_code)]
mod log;
pub(crate) mod memory;
mod moves;
mod older_pairs;
mod other_disk;
mod repair;
pub(crate) mod rig;
mod snapshots;
mod sums;
mod targets;
mod tasks;

/// Returns the configuration of a small disk.
pub(crate) fn manager_config() -> super::ManagerConfig {
    rig::manager_config(&rig::drive(), 1 << 20, 7)
}
