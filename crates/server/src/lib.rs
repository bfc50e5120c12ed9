//! Serves a device to clients over NBD: one event loop a device, on one thread, with one ring for sockets, files and
//! time.
//!
//! [`Exporter`] serves any [`Device`](device::Device) to any NBD client, and to this machine's own kernel. Its log
//! lines go to `tracing`.

#![cfg(target_os = "linux")]

mod carry;
mod client;
pub mod control;
pub mod desk;
mod disk;
mod exporter;
mod learnt;
mod limits;
mod listen;
mod mailbox;
mod notify;
mod offer;
pub mod office;
mod ration;
pub mod repair;
mod running;
mod state;
mod tape;
pub mod tasks;
mod tls;
mod turns;
pub mod web;

pub use disk::{
    Accessed, AdoptError, AppHandle, BOUNDS_US, BackgroundStatus, BackgroundTerms, DeviceTime, Disk,
    DiskError, DiskStatus, Fence, Floor, Foresight, Gaps, Guard, Hosted, Latency, Measured, MeasuredArm,
    MeasuredShare, MemoryStatus, Paid, ProbeStatus, PromotedStatus, Reading, ReadingFailure, ReadingResult,
    ReadingTimes, Space, TIMEOUT,
};
pub use exporter::{Exporter, Kernel};
pub use learnt::{Learnt, LearntKeeper, SAVE_EVERY};
pub use limits::Limits;
pub use listen::{Address, ListenError, Listener, unlisted};
pub use mailbox::{Gone, Mailbox, Stop};
pub use notify::{Moment, notify};
pub use offer::{Offer, OfferTerms, ServeError, Tally, Ublk};
pub use running::Running;
pub use tape::{FrameError, FrameLines, Frames, Later, Replay, ReplayError, Replayed, Tape};
pub use tls::{Tls, TlsError};
