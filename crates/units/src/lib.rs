//! The quantities of freeblock as types: times, addresses, counts, angles, ids.
//!
//! All other crates use these types, so that a cylinder cannot be added to an LBN and milliseconds cannot be passed for
//! nanoseconds. All values are integers, because the order of requests must not depend on rounding.
//!
//! ```
//! use freeblock_units::{Duration, Instant, Lbn, Sectors};
//! let start = Instant::ZERO + Duration::from_millis(3);
//! assert_eq!(start.since(Instant::ZERO).as_nanos(), 3_000_000);
//! assert_eq!(Lbn::new(10) + Sectors::new(6), Lbn::new(16));
//! ```
//!
//! # Without the standard library
//! The crate needs no allocator. With `default-features = false, features = ["libm"]` it needs no `std` either: the few functions
//! on floating-point numbers ([`Float`]) then come from `libm`. With `std`, the default, they come from the standard library.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "std", feature = "libm")))]
compile_error!(
    "freeblock-units needs the feature `std`, which is the default, or `libm` for a target without it"
);

mod address;
mod angle;
mod convert;
#[cfg(any(feature = "std", feature = "libm"))]
mod float;
mod ids;
mod time;

pub use address::{Bytes, CacheOps, Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};
pub use angle::{Angle, Arc, FULL_REVOLUTION, Rpm};
pub use convert::TooLong;
#[cfg(any(feature = "std", feature = "libm"))]
pub use float::Float;
pub use ids::{RequestId, SessionId, TaskId};
pub use time::{Duration, Instant};
