//! A log-structured logical disk, after LLD (de Jonge, Kaashoek and Hsieh) as OSDI'00, section 5 uses it: blocks that
//! a client writes anywhere go to the medium one segment after the other, and old segments are cleaned by a
//! foreground cleaner that the client waits for, or in free bandwidth.
//!
//! [`Log`] is state only. The host does the I/O: after every call that may have completed a segment it carries out
//! [`Log::pending_write`] and reports [`Log::written`]; if [`Log::needs_cleaning`], it runs a [`ForegroundCleaner`];
//! a [`FreeCleaner`], if it has one, makes that rare.
//!
//! # On the medium
//! Segments are contiguous, each of `blocks_per_segment` blocks. The first block is the summary, the others are
//! slots. The summary and the slots up to the last used one are written in one piece. All numbers are little-endian.
//!
//! | bytes | summary |
//! |---|---|
//! | 0-7 | `FBLKLLD\0` |
//! | 8-9 | version, 1 |
//! | 10-11 | 0 |
//! | 12-15 | CRC-32 of the block with this field as 0 |
//! | 16-23 | identity of the log |
//! | 24-31 | sequence: the number of this segment among all ever written |
//! | 32-35 | the segment's index |
//! | 36-55 | segments, blocks in each, bytes of a block, first LBN (8 bytes) |
//! | 56-59 | slots used, s |
//! | 60-63 | tombstones, t |
//! | 64- | s entries of 16 bytes: logical block (all ones: vacant), CRC-32 of the data, when written in ns |
//! | 64 + 16 s - | t tombstones of 4 bytes: logical blocks that are trimmed |
//!
//! # Durability
//! The latest sequence that mentions a logical block decides its state. So a segment may be overwritten only after
//! all copies, newer data and tombstones that supersede its contents are durable ([`State::Emptied`] until then). A
//! trimmed block keeps its tombstone, which cleaners carry along, as long as any summary on the medium mentions the
//! block's data, even in a free segment: otherwise [`recover()`] would restore them.
//!
//! Segments are written one at a time, so only the latest can be torn; its data are checked against the summary. If
//! it is torn, its summary is wiped before anything else is written.
//!
//! ```
//! use lab_apps::lld::{Data, Log, LogConfig, LogicalBlock, recover};
//! use std::convert::Infallible;
//! use units::{Instant, LbnRange};
//!
//! // Twenty segments of eight 512-byte blocks, on a medium that is a vector.
//! let config = LogConfig {
//!     identity: 0x5EED,
//!     segments: 20,
//!     blocks_per_segment: 8,
//!     sectors_per_block: 1,
//!     logical_blocks: 100,
//!     ..LogConfig::default()
//! };
//! let mut log = Log::new(config)?;
//! let mut medium = vec![0; 20 * 8 * 512];
//! let at = |range: LbnRange| range.start().get() as usize * 512..range.end().get() as usize * 512;
//!
//! log.write(LogicalBlock::new(7), &[1; 512], Instant::ZERO)?;
//! let sequence = log.write(LogicalBlock::new(8), &[2; 512], Instant::ZERO)?;
//! log.seal()?; // or write on until the segment is full
//! while let Some(write) = log.pending_write() {
//!     medium[at(write.range)].copy_from_slice(write.bytes);
//!     let segment = write.segment;
//!     log.written(segment)?;
//! }
//! assert!(log.durable() >= sequence);
//!
//! // Crash. What was durable is there again.
//! let again = recover(config, |range| Ok::<_, Infallible>(medium[at(range)].to_vec()))?;
//! match again.log.read(LogicalBlock::new(8))? {
//!     Data::Medium { range, .. } => assert_eq!(medium[at(range)], [2; 512]),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod foreground;
mod free;
mod ids;
mod log;
mod open;
mod recover;
mod segment;
mod summary;
mod tally;
mod victim;

pub use config::{Geometry, LogConfig, LogConfigError, SEGMENT_BYTES_MAX, SLOTS_MAX};
pub use foreground::{CleanError, ForegroundCleaner, ForegroundTally, Reads, Step};
pub use free::{FreeCleanError, FreeCleaner, FreeConfig, FreeTally, Taken};
pub use ids::{LogicalBlock, SegmentIndex, Sequence};
pub use log::{CopyError, Data, Log, NotPending, SegmentWrite, WriteError};
pub use recover::{RecoverError, Recovered, recover};
pub use segment::{SegmentInfo, State};
pub use summary::{Rejection, SegmentSummary, SlotEntry, checksum};
pub use tally::LogTally;
