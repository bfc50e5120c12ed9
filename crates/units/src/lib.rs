//! The quantities of freeblock as types: times, addresses, counts, angles, ids.
//!
//! All other crates use these, so that a cylinder cannot be added to an LBN and milliseconds cannot be passed for
//! nanoseconds. All are integers: an order must not depend on rounding.
//!
//! ```
//! use freeblock_units::{Duration, Instant, Lbn, Sectors};
//! let start = Instant::ZERO + Duration::from_millis(3);
//! assert_eq!(start.since(Instant::ZERO).as_nanos(), 3_000_000);
//! assert_eq!(Lbn::new(10) + Sectors::new(6), Lbn::new(16));
//! ```

mod address;
mod angle;
mod ids;
mod time;

pub use address::{Bytes, Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};
pub use angle::{Angle, Arc, FULL_TURN, Rpm};
pub use ids::{RequestId, SessionId, TaskId};
pub use time::{Duration, Instant};
