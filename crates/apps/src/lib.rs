//! Applications of free bandwidth: state machines over the scheduler's sessions.
//!
//! None of them reads a clock, starts a thread or touches a disk: the host hands them records and bytes, and does what
//! they ask for. So the same application runs in simulation and live. This is all of a scrubber that reads every block
//! of a drive once, whenever the head passes by, names the bad sectors, and compares checksums:
//!
//! ```
//! use freeblock_apps::sessions::{Application, Done, Parameter, Sessions};
//! use scheduler::{Priority, SessionError};
//! use units::{Instant, Lbn, LbnRange, Sectors};
//!
//! const BLOCK: Sectors = Sectors::new(8);
//!
//! struct Scrubber {
//!     sums: Vec<u32>,
//!     bad: Vec<Lbn>,
//!     wrong: Vec<LbnRange>,
//!     done: bool,
//! }
//!
//! fn scrub(sessions: &mut dyn Sessions, drive: LbnRange, sums: Vec<u32>) -> Result<Scrubber, SessionError> {
//!     let session = sessions.open(Priority::default())?;
//!     sessions.read(session, drive, BLOCK, Parameter::default())?;
//!     Ok(Scrubber { sums, bad: Vec::new(), wrong: Vec::new(), done: false })
//! }
//!
//! impl Application for Scrubber {
//!     fn done(&mut self, sessions: &mut dyn Sessions, done: &Done, bytes: &[u8], _now: Instant) {
//!         let block = (done.range.start().get() / BLOCK.get()) as usize;
//!         match done.bad {
//!             Some(lbn) => self.bad.push(lbn),
//!             None if self.sums[block] != crc32fast::hash(bytes) => self.wrong.push(done.range),
//!             None => {}
//!         }
//!         if done.last {
//!             self.done = sessions.close(done.session).is_ok();
//!         }
//!     }
//! }
//!
//! # struct Host { medium: Vec<u8>, bad: Lbn, left: Vec<LbnRange> }
//! # type Answer<T> = Result<T, SessionError>;
//! # use units::{Op, SessionId, TaskId};
//! # impl Sessions for Host {
//! #     fn open(&mut self, _: Priority) -> Answer<SessionId> { Ok(SessionId::new(1)) }
//! #     fn read(&mut self, _: SessionId, range: LbnRange, block: Sectors, _: Parameter) -> Answer<TaskId> {
//! #         let mut at = range.start();
//! #         while at < range.end() {
//! #             let block = LbnRange::new(at, block.min(range.end().since(at)));
//! #             self.left.push(block);
//! #             at = block.end();
//! #         }
//! #         Ok(TaskId::new(1))
//! #     }
//! #     fn write(&mut self, s: SessionId, r: LbnRange, b: Sectors, p: Parameter) -> Answer<TaskId> { self.read(s, r, b, p) }
//! #     fn abort(&mut self, _: TaskId) -> Answer<u64> { Ok(0) }
//! #     fn abort_range(&mut self, _: SessionId, _: LbnRange) -> Answer<u64> { Ok(0) }
//! #     fn promote(&mut self, _: SessionId, _: LbnRange) -> Answer<u64> { Ok(0) }
//! #     fn suspend(&mut self, _: SessionId) -> Answer<()> { Ok(()) }
//! #     fn resume(&mut self, _: SessionId) -> Answer<()> { Ok(()) }
//! #     fn close(&mut self, _: SessionId) -> Answer<u64> { Ok(self.left.len() as u64) }
//! # }
//! # impl Host {
//! #     fn next(&mut self) -> Option<(Done, Vec<u8>)> {
//! #         // Any order will do.
//! #         let range = self.left.swap_remove(self.left.len().checked_sub(1)? / 3);
//! #         let bad = Some(self.bad).filter(|lbn| range.contains(*lbn));
//! #         let (session, task, parameter) = (SessionId::new(1), TaskId::new(1), Parameter::default());
//! #         let last = self.left.is_empty();
//! #         let bytes = self.medium[range.start().get() as usize * 512..range.end().get() as usize * 512].to_vec();
//! #         Some((Done { session, task, range, op: Op::Read, parameter, bad, last }, bytes))
//! #     }
//! # }
//! # let medium: Vec<u8> = (0..1000 * 512).map(|i| (i / 512) as u8).collect();
//! # let sums: Vec<u32> = medium.chunks(8 * 512).map(crc32fast::hash).collect();
//! # let mut host = Host { medium, bad: Lbn::new(77), left: Vec::new() };
//! # host.medium[500 * 512] ^= 1;
//! let drive = LbnRange::new(Lbn::ZERO, Sectors::new(1000));
//! let mut scrubber = scrub(&mut host, drive, sums)?;
//! while let Some((done, bytes)) = host.next() {
//!     scrubber.done(&mut host, &done, &bytes, Instant::ZERO);
//! }
//! assert!(scrubber.done);
//! assert_eq!(scrubber.bad, [Lbn::new(77)]);
//! assert_eq!(scrubber.wrong, [LbnRange::new(Lbn::new(496), BLOCK)]);
//! # Ok::<(), SessionError>(())
//! ```
//!
//! [`scrub::Scrubber`] is the same made fit for life: the foreground writes meanwhile, the machine restarts, sectors come
//! and go. The others: [`snapshot`] and [`backup`], [`reorganizer`], [`miner`], and [`lld`], a log-structured disk with
//! its cleaner.

pub mod backup;
mod codec;
mod feed;
pub mod files;
pub mod lld;
pub mod miner;
pub mod reorganizer;
pub mod scrub;
pub mod sessions;
mod set;
pub mod snapshot;
