//! Live block devices, and the services of the machine that they need: time, and a ring for files and sockets.
//!
//! An event loop uses each device as a [`Device`]. [`Raw`] is a disk or a file, opened exclusively and accessed
//! past the page cache. [`Emulated`] is a drive with the times of a real one over a sparse file, with which a
//! daemon can be tried and tested without a hard disk. [`Faulty`] adds faults by a seed to another device. None of
//! these reads a clock; [`Clock`] and [`Ring`] do that for their hosts. [`Ublk`] is the reverse: it shows a disk to
//! this machine's kernel as a block device.
//!
//! The unsafe code of this crate is in `memory.rs`, `ring.rs` and `sg/kernel.rs`.

mod aligned;
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
mod memory;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod sg;
#[cfg(target_os = "linux")]
mod ublk;

pub use aligned::Aligned;
#[cfg(target_os = "linux")]
pub use block::Device;
pub use block::{Abilities, Answer, Ask, BackgroundRequest, Failure, Run, Snapshot};
pub use clock::Clock;
pub use emulated::{Emulated, EmulatedError};
#[cfg(target_os = "linux")]
pub use faulty::{Faults, Faulty};
#[cfg(target_os = "linux")]
pub use inspect::{
    ActuatorRange, Finding, InspectError, Inspection, Log, MEDIUM, Verdict, Zoned, inspect,
    inspect_directory, inspect_with,
};
#[cfg(target_os = "linux")]
pub use kernel::{KERNEL_SECTOR, KernelError, KernelOp, KernelQueue, KernelRequest};
#[cfg(target_os = "linux")]
pub use memory::{MemoryError, hold_memory};
#[cfg(target_os = "linux")]
pub use raw::{OpenError, Options, Raw, User};
#[cfg(target_os = "linux")]
pub use ring::{Ended, Make, Ring, Token, Work, is_closed, watch_close};
#[cfg(target_os = "linux")]
pub use sg::{
    Farm, Held, Identity, Journal, NotSwitched, Quiet, Record, Recording, Scsi, ScsiError, Sg, SwitchError,
    SwitchJournal, SwitchJournalError, Switches, Transfer, put_back, switch_off,
};
#[cfg(target_os = "linux")]
pub use ublk::{Ublk, UblkError, UblkPlan};
