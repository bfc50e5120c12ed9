//! Live block devices, and the machine under them: time, and a ring for files and sockets.
//!
//! [`Emulated`] is a drive that takes as long as a real one would, over a sparse file: a daemon can be tried, and tested,
//! without a hard disk. To an event loop it is a [`Device`], as any other. It reads no clock itself; [`Clock`] and [`Ring`] do that for whoever runs it.
//!
//! This is the only crate with unsafe code, all of it in `ring.rs`.

#[cfg(target_os = "linux")]
mod block;
mod clock;
mod emulated;
#[cfg(target_os = "linux")]
mod ring;

#[cfg(target_os = "linux")]
pub use block::{Abilities, Device};
pub use clock::Clock;
pub use emulated::{Answer, Ask, Emulated, EmulatedError, Failure};
#[cfg(target_os = "linux")]
pub use ring::{Ended, Ring, Token, Work};
