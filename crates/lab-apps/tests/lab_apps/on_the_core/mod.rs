//! The experiments' applications on the real core in a simulated drive that holds bytes, with the random loads and
//! faults of such tests in `freeblock-apps`.

mod cache;
mod lld;
mod miner;
mod together;
#[path = "../../../../apps/tests/apps/on_the_core/world.rs"]
mod world;
