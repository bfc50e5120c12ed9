//! What is known about a drive: its layout, its seek profile, and what follows from them.
//!
//! A [`Profile`] is the file: plain data, as read from TOML or imported from DiskSim. A [`DriveModel`] is the
//! same knowledge made ready to answer: where is this LBN, when does that sector pass, how long does the move take.

pub mod profile;

pub use profile::Profile;
