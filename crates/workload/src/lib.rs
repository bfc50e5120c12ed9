//! Foreground loads: seeded generators, trace readers, and the times at which requests are issued.
//!
//! A [`Source`] gives the requests: [`Random`], [`Oltp`] and [`Synthetic`] generate the papers' loads, [`Replay`]
//! repeats a trace. An [`Issuer`] gives their times: closed loops of tasks with think times, Poisson arrivals, bursts,
//! a trace's own times; [`Utilisation`] finds the rate that keeps a drive busy for a given share of the time. The host
//! owns the clock. [`trace::read`] reads many formats of traces; every seeded number of a simulation comes from
//! [`random`].
//!
//! A [`Mixture`] is a load in a small language, such as `3*zipf:0.9,size=4k/64k + sequential:4,size=64k; poisson:150`;
//! [`Mixed`] draws its requests.
//!
//! If requests wait for each other, the source keeps its own times ([`Script`]): [`Compressed`] is a trace at a
//! multiple of its speed, [`tpcc`] is a load of transactions on pages, and [`postmark`] a load of small files, as
//! operations on files and as block requests of a file system.
//!
//! The same configuration and seed give the same requests at the same times on every machine.
//!
//! # Example
//! The papers' OLTP load, ten tasks, against a disk that takes 5 ms for everything:
//!
//! ```
//! use units::{Bytes, Duration, Instant, Sectors};
//! use freeblock_workload::{Arrival, Issuer, Limited, Oltp, OltpConfig};
//!
//! let config = OltpConfig::new(Sectors::new(17_938_986), Bytes::new(512));
//! let load = Limited::new(Oltp::new(config, 42)?, 1_000);
//! let mut foreground = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 42)?;
//!
//! let mut now = Instant::ZERO;
//! while let Some(due) = foreground.due() {
//!     now = now.max(due);
//!     let issued = foreground.issue(now).unwrap();
//!     now += Duration::from_millis(5);
//!     foreground.complete(issued.task, now);
//! }
//! assert!(foreground.is_done());
//! # Ok::<(), freeblock_workload::ConfigError>(())
//! ```

mod bursts;
mod compressed;
mod error;
mod issue;
pub mod mixture;
mod oltp;
mod on_off;
mod pages;
pub mod postmark;
pub mod random;
mod replay;
mod request;
mod script;
mod synthetic;
pub mod tpcc;
pub mod trace;
mod uniform;
mod utilisation;

pub use compressed::Compressed;
pub use error::ConfigError;
pub use issue::{Arrival, Closed, Issuer, Think};
pub use mixture::{Extent, Mixed, Mixture, MixtureError};
pub use oltp::{Oltp, OltpConfig};
pub use pages::PageCounts;
pub use random::Share;
pub use replay::{Devices, Fit, Replay, ReplayAccount, ReplayError, Streamed, StreamedConfig};
pub use request::{ClosedTask, Issued, Limited, Recorded, Request, Script, Source};
pub use synthetic::{Synthetic, SyntheticConfig};
pub use uniform::{Random, RandomConfig};
pub use utilisation::{Calibration, CalibrationError, Measured, Pattern, Utilisation};
