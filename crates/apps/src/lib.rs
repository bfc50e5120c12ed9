//! Applications of free bandwidth: state machines over the scheduler's sessions.
//!
//! No application reads a clock, starts a thread or touches a disk: the host passes it records and bytes, and carries
//! out its calls. So one application runs in simulation and on a disk. The example is a complete scrubber. It reads
//! every block of a drive once, whenever the head passes by, reports bad sectors, and compares checksums:
//!
//! ```
//! use freeblock_apps::sessions::{Application, Parameter, Priority, Record, SessionError, Sessions};
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
//!     fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], _now: Instant) {
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
//! # use model::{DriveModel, Profile};
//! # use scheduler::{Output, Config, HeadWork, InDrive, Request};
//! # use units::{Op, RequestId};
//! # const SECTOR: usize = 512;
//! # let toml = include_str!("../../model/tests/data/tiny.toml");
//! # let drive = std::sync::Arc::new(DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml")?)?);
//! # let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
//! # let mut medium: Vec<u8> = (0..whole.len().get() as usize * SECTOR).map(|i| (i / SECTOR) as u8).collect();
//! # let sums = medium.chunks(8 * SECTOR).map(crc32fast::hash).collect();
//! # medium[500 * SECTOR] ^= 1;
//! # let broken = Lbn::new(77);
//! # let (mut now, mut requests) = (Instant::ZERO, 0);
//! let mut core = InDrive::new(drive, Config::default());
//! let mut scrubber = scrub(&mut core, whole, sums)?;
//! while !scrubber.done {
//!     // The foreground reads here and there; the scrub goes into the gaps.
//! #     requests += 1;
//! #     let range = LbnRange::new(Lbn::new(requests * 1_237 % 4_900), BLOCK);
//! #     core.submit(now, Request { id: RequestId::new(requests), op: Op::Read, range })?;
//!     while let Some(output) = core.poll(now) {
//!         match output {
//!             Output::Do(HeadWork::Execute) => {
//!                 // Here a host moves the head; this one believes the core's own prediction.
//!                 now = core.busy_until().unwrap();
//!                 core.completed_with(now, &[broken]);
//!             }
//!             Output::Deliver(record) => {
//!                 let place = |lbn: Lbn| lbn.get() as usize * SECTOR;
//!                 let bytes = &medium[place(record.range.start())..place(record.range.end())];
//!                 scrubber.done(&mut core, &record, bytes, now);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(scrubber.bad, [Lbn::new(77)]);
//! assert_eq!(scrubber.wrong, [LbnRange::new(Lbn::new(496), BLOCK)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`scrub::Scrubber`] is a scrubber for production, where the foreground writes meanwhile, the machine restarts, and
//! bad sectors come and go. The other applications are [`snapshot`] and [`backup`], [`verify`], and [`reorganizer`].
//! [`records`] is the other form of a session: the application fetches records, with timeouts. Applications that only
//! the papers' experiments use are in `freeblock-lab-apps`.

pub mod backup;
mod codec;
mod feed;
pub mod records;
pub mod reorganizer;
pub mod scrub;
pub mod sessions;
mod set;
pub mod snapshot;
pub mod verify;
