//! Live block devices, and the machine under them: time, and a ring for files and sockets.
//!
//! To an event loop each is a [`Device`]: [`Raw`] is a disk or a file, past the page cache and for nobody else meanwhile;
//! [`Emulated`] is a drive that takes as long as a real one would, over a sparse file: a daemon can be tried, and tested,
//! without a hard disk. [`Faulty`] is either of them, failing by seed. None reads a clock; [`Clock`] and [`Ring`] do that
//! for whoever runs them. [`Ublk`] is the other side: a disk as a block device of this machine's own kernel.
//!
//! This is the only crate with unsafe code, all of it in `ring.rs`.

mod aligned;
#[cfg(target_os = "linux")]
mod block;
mod clock;
mod emulated;
#[cfg(target_os = "linux")]
mod faulty;
#[cfg(target_os = "linux")]
mod holes;
#[cfg(target_os = "linux")]
mod inspect;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod ublk;

pub use aligned::Aligned;
#[cfg(target_os = "linux")]
pub use block::{Abilities, Device, Run};
pub use clock::Clock;
pub use emulated::{Answer, Ask, Emulated, EmulatedError, Failure};
#[cfg(target_os = "linux")]
pub use faulty::{Faults, Faulty};
#[cfg(target_os = "linux")]
pub use inspect::{
    ActuatorRange, Finding, InspectError, Inspection, Verdict, Zoned, inspect, inspect_directory,
};
#[cfg(target_os = "linux")]
pub use kernel::{KERNEL_SECTOR, KernelError, KernelOp, KernelQueue, KernelRequest};
#[cfg(target_os = "linux")]
pub use raw::{OpenError, Options, Raw, User};
#[cfg(target_os = "linux")]
pub use ring::{Ended, Make, Ring, Token, Work, is_closed};
#[cfg(target_os = "linux")]
pub use ublk::{Ublk, UblkError, UblkPlan};
