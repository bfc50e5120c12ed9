//! Serves a device to clients over NBD: one event loop for each device, on a thread of its own, with one ring for
//! sockets, files and time.
//!
//! [`Exporter`] serves any [`Device`](device::Device) to any NBD client, and to this machine's own kernel. Its log
//! lines go to `tracing`.

#![cfg(target_os = "linux")]

mod active_request;
mod bounded;
mod client;
pub mod control;
mod disk;
mod export;
mod exporter;
mod fair_queue;
mod file_system;
pub mod files;
mod handle;
pub mod jobs;
mod learnt;
mod limits;
mod listen;
mod log_rate_limit;
mod mailbox;
pub mod manager;
mod notify;
mod recording;
pub mod repair;
mod running;
pub mod runtime;
pub mod simulated;
mod slots;
mod state;
mod task;
mod tls;
mod waker;
pub mod web;

pub use disk::{
    Accessed, AllDisks, BOUNDS_US, BackgroundBytes, BackgroundStatus, BackgroundTerms, DeviceTime, Disk,
    DiskError, DiskHooks, DiskStatus, Fence, Floor, Gaps, HarmStatus, Latency, Measured, MeasuredArm,
    MeasuredShare, MemoryStatus, NoApp, PredictionStatus, ProbeStatus, PromotedStatus, ReadAheadBudget,
    Reading, ReadingFailure, ReadingResult, ReadingTimes, SnapshotRequests, TIMEOUT, WaitStatus,
};
pub use export::{ExportConfig, ExportUpdate, ServeError, Tally, Ublk};
pub use exporter::{Exporter, Kernel};
pub use learnt::{Learnt, LearntSaver, SAVE_EVERY};
pub use limits::{Limits, raise_descriptor_limit};
pub use listen::{Address, ListenError, Listener, unlisted};
pub use mailbox::{Gone, Mailbox, NotQueued, StopHandle};
pub use notify::{Moment, notify};
pub use recording::{
    CoreReplay, CoreReplayError, FrameError, FrameLines, Frames, Recorder, Replayed, ThreadedFile,
};
pub use running::Running;
pub use tls::{Tls, TlsError};
