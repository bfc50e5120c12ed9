//! Models of drives: layout, seek profile, and the queries that follow from them.
//!
//! A [`Profile`] is the content of a profile file: plain data, read from TOML or imported from DiskSim. A [`DriveModel`] is
//! a profile prepared for queries: the place of an LBN, the time at which a sector passes, the time of a move of the arm.
//!
//! # Without the standard library
//! The crate needs an allocator. With `default-features = false, features = ["libm"]` it needs no `std`; it then reads profiles
//! from text ([`Profile::from_toml`]), but cannot read files or import from DiskSim.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod builtin;
#[cfg(feature = "std")]
pub mod disksim;
mod drive_model;
mod error;
pub mod layout;
pub mod names;
pub mod profile;
mod profile_file;
pub mod random_profile;
mod seek;
mod unknown;
pub mod wong;

pub use drive_model::{DriveModel, MODERN_BYTES_MIN, Position};
pub use error::ProfileError;
pub use layout::{CYLINDERS_MAX, Extent, Layout, Location, Piece, Track, TrackRef, Window};
pub use profile::Profile;
pub use profile_file::ReadError;
pub use seek::SeekProfile;
/// The types of this crate's interface, so that a user needs no dependency on `freeblock-units` of the same version.
pub use units;
