//! Background work in the wasted rotation of a busy hard disk: scrub, backup, rebuild and scan proceed while the foreground waits
//! for its sector.
//!
//! This crate is the one dependency of a program that schedules a disk: it joins the scheduler core, the drive model and the
//! units. The core is sans-IO. The program reads the clock and moves the bytes; the core says which command comes next.
//!
//! # A core outside the drive
//! A [`ScheduledDisk`] is the core with the bytes of its requests and blocks. The program owns a block device: it passes the
//! foreground's requests in, carries out the transfers that come out, and gives them back:
//!
//! ```
//! use freeblock::{Bytes, DiskOutput, Duration, Instant, Lbn, LbnRange, Op, Parameter, Priority};
//! use freeblock::{Request, RequestId, ScheduledDisk, Sectors, Sessions};
//!
//! // Of this disk only the size is known; with a profile of the drive (`Profile::read`) gaps are used too.
//! let mut disk = ScheduledDisk::serving(Sectors::new(2_000_000), Bytes::new(512), None)?;
//!
//! // The background: 1 MB is to be read once, in blocks of 4 KiB, when the foreground leaves time for it.
//! let scrub = disk.open(Priority::default())?;
//! disk.read(scrub, LbnRange::new(Lbn::ZERO, Sectors::new(2_048)), Sectors::new(8), Parameter::default())?;
//! // The foreground: one request.
//! let range = LbnRange::new(Lbn::new(1_000_000), Sectors::new(16));
//! let mut now = Instant::ZERO;
//! disk.submit(now, Request { id: RequestId::new(1), op: Op::Read, range }, Vec::new())?;
//!
//! let (mut at_device, mut scrubbed) = (Vec::new(), 0);
//! while disk.undelivered(scrub) != Some(0) {
//!     while let Some(output) = disk.poll(now) {
//!         match output {
//!             DiskOutput::Transfer(transfer) => at_device.push(transfer),
//!             DiskOutput::Answer { id, result } => println!("{id} has {} bytes after {now}", result?.len()),
//!             DiskOutput::Block(block) => scrubbed += block.bytes.len(),
//!         }
//!     }
//!     // Here a program waits for its device, which may finish the transfers in any order. This one takes 5 ms for each.
//!     if let Some(transfer) = at_device.pop() {
//!         now = now + Duration::from_millis(5);
//!         disk.done(now, transfer, Ok(()));
//!     } else if let Some(wake) = disk.wake_at() {
//!         now = wake;
//!     }
//! }
//! assert_eq!(scrubbed, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The repository has two complete programs: `crates/device/examples/embed.rs` over a file with io_uring, and
//! `crates/freeblock/examples/replay.rs`, which replays an iolog of fio in real time beside a scan. A host that needs more, as
//! the daemon does, drives an [`OutsideDrive`] itself and takes the parts of a [`ScheduledDisk`] that it can use:
//! [`OverlapQueue`], [`HalfReadBlocks`], [`WriteBytes`].
//!
//! # A core inside the drive
//! The firmware of a drive moves the head itself. [`InDrive`] is the core for firmware; its documentation has an example.
//!
//! # Later versions
//! Types to which a later version may add fields or variants are `#[non_exhaustive]`: errors, reports and configurations.
//! Configurations have a method `with_...` for each field. Types that a program builds and matches completely are exhaustive:
//! addresses, requests, inputs, outputs, and the vocabulary of a profile.
//!
//! # Without the standard library
//! With `default-features = false, features = ["libm"]` the crate needs an allocator and no `std`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod bytes;
mod half_read;
mod overlap_queue;
mod scheduled_disk;

pub use bytes::{WriteBytes, copy_shared, cut_out};
#[doc(inline)]
pub use freeblock_scheduler::model::{DriveModel, Profile, ProfileError, builtin};
#[doc(inline)]
pub use freeblock_scheduler::units::{
    Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId,
};
#[doc(inline)]
pub use freeblock_scheduler::*;
pub use half_read::{Delivered, HalfReadBlocks};
pub use overlap_queue::OverlapQueue;
pub use scheduled_disk::{BadSector, DiskOutput, RequestError, ScheduledDisk, ScheduledDiskError, Transfer};
