//! The cache cleaner (FAST'04, section 4.2): a write-back buffer cache whose dirty buffers are written for free.
//!
//! Every dirty buffer is registered as a background write; its bytes are given when the head gets there, unless the
//! buffer is locked. What cannot wait (too old, too many dirty, its buffer needed, a flush) is promoted to foreground
//! work. Three replacement policies, watermarks, and a syncer, or none where the cache's memory survives a crash. The
//! cache is a state machine: the host does what [`Cache::poll`] says. Page: `docs/CACHE.md`.

mod buffer;
mod calls;
mod config;
mod head;
mod jobs;
mod machine;
mod mask;
mod pool;
mod replacement;
mod tally;
mod turn;

pub use calls::{CallError, CallId, Failure};
pub use config::{Config, ConfigError, Force, MOST_BUFFERS, Replacement, StartError, Syncer, Watermarks};
pub use head::{HeadTime, NoHead};
pub use machine::{Action, Cache, RequestError};
pub use mask::MOST_BLOCK_SECTORS;
pub use tally::{Cause, Tally};
