//! Background work in the wasted rotation of a busy hard disk: scrub, backup, rebuild and scan proceed while the foreground waits
//! for its sector.
//!
//! This crate is the one dependency of a program that schedules a disk: it joins the scheduler core, the drive model and the
//! units. The core is sans-IO. The program reads the clock and moves the bytes; the core says which command comes next.
//!
//! # A core outside the drive
//! The host of the core owns a block device. It passes the foreground's requests in, sends the commands that come out, and reports
//! their completions:
//!
//! ```
//! use freeblock::{
//!     Output, Bytes, Commands, Config, DriveModel, Duration, IdleTime, Instant, Lbn, LbnRange, Op, Outcome, OutsideConfig,
//!     OutsideDrive, Parameter, Priority, Request, RequestId, Sectors, Sessions,
//! };
//!
//! // Of this disk only the size is known; with a profile of the drive (`Profile::read`) gaps are used too.
//! let drive = DriveModel::unknown(Sectors::new(2_000_000), Bytes::new(512))?;
//! let config = Config::outside(OutsideConfig::blind().serving()).with_idle(Some(IdleTime::default()));
//! let mut core = OutsideDrive::new(drive.into(), config);
//!
//! // The background: 1 MB is to be read once, in blocks of 4 KiB, when the foreground leaves time for it.
//! let scrub = core.open(Priority::default())?;
//! core.read(scrub, LbnRange::new(Lbn::ZERO, Sectors::new(2_048)), Sectors::new(8), Parameter::default())?;
//! // The foreground: one request.
//! let range = LbnRange::new(Lbn::new(1_000_000), Sectors::new(16));
//! let mut now = Instant::ZERO;
//! core.submit(now, Request { id: RequestId::new(1), op: Op::Read, range })?;
//!
//! let (mut commands, mut scrubbed) = (Commands::default(), 0);
//! while core.undelivered(scrub) != Some(0) {
//!     while let Some(output) = core.poll(now) {
//!         match output {
//!             Output::Do(command) => commands.push(command),
//!             // The clients' bytes arrived with the command whose `request` is this id.
//!             Output::Completed(id) => println!("{id} is done after {now}"),
//!             Output::Failed { id, bad } => println!("{id} failed at LBN {bad}"),
//!             Output::Deliver(record) => scrubbed += record.range.len().get(),
//!         }
//!     }
//!     // Here a host gives the commands to its device and waits for one of them. This device takes 5 ms for each.
//!     if let Some(command) = commands.next() {
//!         now = now + Duration::from_millis(5);
//!         commands.done(command.id);
//!         core.command_done(now, command.id, Outcome::Done);
//!     } else if let Some(wake) = core.wake_at() {
//!         now = wake;
//!     }
//! }
//! assert_eq!(scrubbed, 2_048);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The repository has two complete hosts: `crates/device/examples/embed.rs` over a file with io_uring, and
//! `crates/freeblock/examples/replay.rs`, which replays an iolog of fio in real time beside a scan.
//!
//! # A core inside the drive
//! Firmware knows the place of the head. [`InDrive`] has an example.
//!
//! # Without the standard library
//! With `default-features = false, features = ["libm"]` the crate needs an allocator and no `std`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod bytes;
mod commands;
mod half_read;
mod overlap_queue;

pub use bytes::{WriteBytes, copy_shared, cut_out};
pub use commands::Commands;
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
