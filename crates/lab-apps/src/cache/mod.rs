//! The cache cleaner (FAST'04, section 4.2): a write-back buffer cache whose dirty buffers are written in free
//! bandwidth.
//!
//! Every dirty buffer is registered as a background write; its bytes are handed out when the head gets there, unless
//! the buffer is locked. A buffer that cannot wait (dirty for too long, too many dirty, needed for another block, a
//! flush) is promoted to foreground work. There are three replacement policies, watermarks, and a syncer, or none if
//! the cache's memory survives a crash. The cache is a state machine: the host carries out what [`Cache::poll`]
//! returns. See `docs/CACHE.md`.

mod buffer;
mod calls;
mod config;
mod head;
mod jobs;
mod machine;
mod mask;
mod pool;
mod replacement;
mod step;
mod tally;

pub use calls::{CallError, CallId, Failure};
pub use config::{BUFFERS_MAX, CacheConfigError, Config, Force, Replacement, StartError, Syncer, Watermarks};
pub use head::{HeadTime, NoHead};
pub use machine::{Action, Cache, RequestError};
pub use mask::BLOCK_SECTORS_MAX;
pub use tally::{CacheTally, Cause};
