//! FAST'04, sections 6.4 and 6.6: a client above a write-back cache, the cache above the scheduler's core, the core in
//! a simulated drive.
//!
//! [`CacheHost`](host::CacheHost) executes the requests of cache and core and counts; [`run`] has the set-up that the
//! experiments vary and their measures. Only times are simulated, no bytes: a cache of 512 MB then needs no 512 MB.

mod host;
mod run;

pub(crate) use run::{
    CACHE_MB_MAX, CacheSetUp, Cleaning, Daemon, PairedRuns, ReadWriteMix, Scrub, WindowResult, lower,
    percent_free, run, scaled,
};
