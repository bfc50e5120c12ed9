//! What is known about a drive: its layout, its seek profile, and what follows from them.
//!
//! A [`Profile`] is the file: plain data, as read from TOML or imported from DiskSim. A [`DriveModel`] is the
//! same knowledge made ready to answer: where is this LBN, when does that sector pass, how long does the move take.

pub mod builtin;
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

pub use drive_model::{DriveModel, MOST_CYLINDERS, Position};
pub use error::ProfileError;
pub use layout::{Extent, Layout, Location, Piece, Track, TrackRef};
pub use profile::Profile;
pub use profile_file::ReadError;
pub use seek::SeekProfile;
