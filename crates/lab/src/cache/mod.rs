//! FAST'04, sections 6.4 and 6.6: a client above a write-back cache, the cache above the scheduler's core, the core in
//! a simulated drive.
//!
//! [`Host`] carries out what cache and core ask for and counts; [`run`] has the set-up that the experiments vary and
//! what they measure. No bytes are simulated, only when what is done: a cache of 512 MB then needs no 512 MB.

mod host;
mod run;

pub(crate) use run::{Cleaning, Daemon, Load, Run, Scrub, SetUp, lower, percent_free, run, scaled};
